// What is known of every query. Rankings and metrics are numbers here, queries are the objects that payload.py wrote; a
// document of a query is its slot in the query's `docs`, `grades` and `ranks`.

const SERIES = 8;

class Model {
  constructor(data) {
    Object.assign(this, data);
    this.several = this.datasets.length > 1;
    this.texts = null;
    this.grading = null;
  }

  // The query with an id, of the dataset with a name where there are several.
  find(id, dataset) {
    const number = this.datasets.indexOf(dataset);
    return this.queries.find((query) => query.id === id && (number < 0 || query.dataset === number));
  }

  // Ids as narrow places show them: no two look the same.
  shortDoc(doc) { return this.shortDocs === null ? this.docs[doc] : this.shortDocs[doc]; }

  shortId(query) {
    const id = this.shortQueries[query.id] ?? query.id;
    return this.several ? `${id} · ${this.datasets[query.dataset]}` : id;
  }

  fullId(query) { return this.several ? `${query.id} · ${this.datasets[query.dataset]}` : query.id; }

  // The texts of documents by number, and the scores and explanations of each query, once they have been read.
  async loadDetails() {
    if (this.texts !== null) return;
    const [texts, scores, explanations] = await Promise.all(["texts-data", "scores-data", "explanations-data"].map(readData));
    for (const explanation of explanations) this.queries[explanation.query].explanation = explanation;
    scores.forEach((ofQuery, number) => { this.queries[number].scores = ofQuery; });
    this.texts = new Map(texts);
    this.digests = new Map(texts.map(([doc, , digest, cut]) => [doc, { digest, cut }]));
  }

  // The class with a ranking's colour: that of the pictures.
  series(ranking) { return `s${(this.colours?.[ranking] ?? ranking) % SERIES}`; }

  // The command that explains a document; null without one.
  explainCommand(query, slot) {
    const command = this.explain[query.dataset], doc = this.docs[query.docs[slot]];
    const corpus = this.corpora.find((name) => doc.endsWith(` · ${name}`));
    if (command === "" || (this.corpora.length > 0 && corpus === undefined)) return null;
    const chosen = corpus === undefined ? "" : ` --corpus ${shellWord(corpus)}`;
    const id = corpus === undefined ? doc : doc.slice(0, -` · ${corpus}`.length);
    return `${command} --query ${shellWord(query.id)}${chosen} --doc ${shellWord(id)}`;
  }

  value(query, ranking, metric) { return query.values?.[ranking][metric] ?? NaN; }

  // By how much a ranking is better than another; of forbidden documents, less is better.
  improvement(query, ranking, other, metric) {
    const difference = this.value(query, ranking, metric) - this.value(query, other, metric);
    return this.lowerIsBetter[metric] ? -difference : difference;
  }

  // A further chunk of an expected document has no judgment, and needs none.
  isUnjudged(query, slot) { return query.grades[slot] === null && query.further?.[slot] === undefined; }

  // The judgment that a person gave to a document, null without one.
  judgment(query, slot) { return query.by_model?.includes(slot) ? null : query.grades[slot]; }

  // The grade that a person gave to a document, also as a label while documents are graded in the rankings.
  gradeByPerson(query, slot) { return this.judgment(query, slot) ?? this.grading?.label(query, slot) ?? null; }

  // The same, or else the grade that a model gave.
  grade(query, slot) { return this.gradeByPerson(query, slot) ?? query.grades[slot]; }

  isRelevant(query, slot) { return query.grades[slot] !== null && query.grades[slot] >= this.relevance; }

  // The slots of a ranking's first documents, best first; remembered, because filters ask again and again.
  top(query, ranking) {
    query.tops ??= [];
    query.tops[ranking] ??= this.firstSlots(query.ranks[ranking], this.last(ranking));
    return query.tops[ranking];
  }

  firstSlots(ranks, last) {
    const slots = [];
    ranks.forEach((rank, slot) => { if (rank > 0 && rank <= last) slots[rank - 1] = slot; });
    return slots;
  }

  // The last rank that is shown of a ranking.
  last(ranking) { return Math.min(this.depth, this.kept[ranking] ?? this.depth); }

  showsUnjudged(query, ranking) {
    const { ranks } = query;
    const last = this.last(ranking);
    return ranks[ranking].some((rank, slot) => this.isUnjudged(query, slot) && rank > 0 && rank <= last);
  }

  sameDocuments(query, a, b) {
    const others = query.ranks[b];
    const [last, lastOther] = [this.last(a), this.last(b)];
    return query.ranks[a].every((rank, slot) => (rank > 0 && rank <= last) === (others[slot] > 0 && others[slot] <= lastOther));
  }

  differsFromReference(query, ranking) { return query.states?.[ranking] >= 0 && query.states[ranking] < this.agrees; }

  // Whether a ranking is empty because its backend failed: nothing can be said of what it misses.
  gaveNoAnswer(query, ranking) { return query.failed?.[ranking] === true; }

  // The expected documents of a query, alternatives together: in the order of their first ones.
  expectedGroups(query) {
    const groups = new Map();
    query.expected.forEach((expected, number) => {
      const key = expected.group ?? `single ${number}`;
      groups.set(key, [...(groups.get(key) ?? []), expected]);
    });
    return [...groups.values()];
  }

  // Whether a ranking has an expected document, or an alternative to it.
  hasExpected(query, ranking, expected) {
    const alternatives = expected.group === null ? [expected] : query.expected.filter(({ group }) => group === expected.group);
    return alternatives.some(({ ranks }) => ranks[ranking] > 0);
  }

  // The rank of the first thing that is expected: 0 where none is found, -1 where nothing is expected, -2 where the
  // backend gave no answer.
  firstExpected(query, ranking) {
    if (this.gaveNoAnswer(query, ranking)) return -2;
    const wanted = query.expected.filter((expected) => expected.grade >= this.relevance);
    if (wanted.length === 0) return -1;
    const ranks = wanted.map((expected) => expected.ranks[ranking]).filter((rank) => rank > 0);
    return ranks.length === 0 ? 0 : Math.min(...ranks);
  }

  // The rank of the first expected or relevant document, as firstExpected; null if it is not stored.
  firstRelevant(query, ranking) {
    if (this.expecting) return this.firstExpected(query, ranking);
    if (this.gaveNoAnswer(query, ranking)) return -2;
    if (query.relevant === 0) return -1;
    const ranks = query.ranks[ranking].filter((_, slot) => this.isRelevant(query, slot));
    const known = ranks.filter((rank) => rank > 0);
    return known.length > 0 ? Math.min(...known) : ranks.includes(null) ? null : 0;
  }

  // Whether that rank is no hit for a metric: 0, or beyond the first hits that the requirement on the metric looks at.
  isMissed(rank, metric) { return rank === 0 || rank > this.missedFrom(metric); }

  // How many first hits count: those that the requirement on a metric looks at.
  missedFrom(metric) { return this.missed[metric] ?? this.cutoff(metric); }

  // The rank of the first expected document, among the hits or else in the exact ranking; Infinity if it has none.
  nearest(query, ranking) {
    const found = query.expected.map(({ ranks }) => ranks[ranking]).filter((rank) => rank > 0);
    return Math.min(...(found.length > 0 ? found : query.expected.map((expected) => expected.reference_ranks[ranking] ?? Infinity)));
  }

  // How many first documents of a ranking a metric looks at: all where it has no cutoff, the highest of a mean over several. That of IPrec is a recall.
  cutoff(metric) {
    const [, depth] = /^(?!IPrec).*@(?:\d+\+)*(\d+)$/.exec(this.metrics[metric] ?? "") ?? [];
    return depth === undefined ? Infinity : Number(depth);
  }

  // Relevant documents that left the first `depth` from a to b, those that came into them, and those of which that is not
  // known; none where a or b gave no answer.
  relevantMoves(query, a, b, depth) {
    const moves = { lost: [], gained: [], unknown: [] };
    if (this.gaveNoAnswer(query, a) || this.gaveNoAnswer(query, b)) return moves;
    query.grades.forEach((_, slot) => {
      if (!this.isRelevant(query, slot)) return;
      const [before, after] = [a, b].map((ranking) => {
        const rank = query.ranks[ranking][slot];
        return rank === null ? (this.kept[ranking] >= depth ? false : null) : rank > 0 && rank <= depth;
      });
      if (before === null || after === null) moves.unknown.push(slot);
      else if (before && !after) moves.lost.push(slot);
      else if (!before && after) moves.gained.push(slot);
    });
    return moves;
  }

  // Rankings that show the same documents at the same ranks, together.
  equalRankings(query, rankings) {
    const groups = new Map();
    for (const ranking of rankings) {
      const key = `${this.gaveNoAnswer(query, ranking)} ${this.top(query, ranking)}`;
      groups.set(key, [...(groups.get(key) ?? []), ranking]);
    }
    return [...groups.values()];
  }

  rankText(query, ranking, slot) {
    if (this.gaveNoAnswer(query, ranking)) return "no answer";
    const rank = query.ranks[ranking][slot];
    return rank === null ? "not stored" : rank === 0 ? "not found" : rank.toLocaleString("en");
  }
}

function shellWord(text) { return /^[\w@%+:,./][\w@%+=:,./-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`; }
