// What is known of every query. Rankings, metrics and queries are numbers here.

const NO_ANSWER = 65535;

class Model {
  constructor(columns, held, chunk) {
    Object.assign(this, columns.header);
    this.chunk = chunk;
    this.text_docs = held.numbers("text_docs");
    this.text_chunks = held.numbers("text_chunks");
    this.ids = columns.strings("query_ids");
    this.queryTexts = columns.has("query_texts.ends") ? columns.strings("query_texts") : null;
    this.docIds = columns.strings("doc_ids");
    for (const name of ["pool_starts", "pool_docs", "pool_grades", "pool_ranks", "places", "scores", "hits", "order",
      "relevant"]) this[name] = columns.numbers(name);
    this.valueTable = columns.has("values") ? columns.numbers("value_table") : null;
    this.valueCodes = columns.has("values") ? columns.numbers("values") : null;
    this.stateOf = columns.has("states") ? columns.numbers("states") : null;
    this.causeOf = columns.has("causes") ? columns.numbers("causes") : null;
    this.expecting = columns.has("expected_starts");
    if (this.expecting) {
      this.expectedNames = columns.strings("expected_names");
      for (const name of ["expected_starts", "expected_grades", "expected_ranks"]) this[name] = columns.numbers(name);
      this.failures = this.expected_ranks.includes(NO_ANSWER);
    }
    this.textPlace = new Map();
    this.text_docs.forEach((doc, place) => this.textPlace.set(doc, place));
    this.loaded = new Map();
    this.place = new Uint32Array(this.queries);
    this.order.forEach((query, place) => { this.place[query] = place; });
  }

  id(query) { return this.ids.get(query); }

  text(query) { return this.queryTexts === null ? "" : this.queryTexts.get(query); }

  value(ranking, metric, query) {
    if (this.valueCodes === null) return NaN;
    return this.valueTable[this.valueCodes[(ranking * this.metrics.length + metric) * this.queries + query]];
  }

  state(ranking, query) { return this.stateOf === null ? -1 : this.stateOf[ranking * this.queries + query]; }

  cause(ranking, query) {
    const code = this.causeOf === null ? -1 : this.causeOf[ranking * this.queries + query];
    return code < 0 ? "" : this.causes[code];
  }

  // One of a query's documents: its grade (null unjudged) and its rank in each ranking (0 not found).
  document(query, slot) {
    const at = this.pool_starts[query] + slot;
    const pools = this.pool_docs.length;
    const grade = this.pool_grades[at];
    return {
      slot,
      number: this.pool_docs[at],
      id: this.docIds.get(this.pool_docs[at]),
      grade: grade === this.unjudged ? null : grade,
      ranks: this.labels.map((_, ranking) => this.pool_ranks[ranking * pools + at]),
    };
  }

  documents(query) {
    const count = this.pool_starts[query + 1] - this.pool_starts[query];
    return Array.from({ length: count }, (_, slot) => this.document(query, slot));
  }

  // The ranking that another one is compared with unless something else is chosen.
  partner(ranking) { return this.against === null ? this.reference : this.against[ranking]; }

  // What a query is expected to find, with the rank in each ranking (0 not found).
  expected(query) {
    const count = this.expected_grades.length;
    const [start, end] = [this.expected_starts[query], this.expected_starts[query + 1]];
    return Array.from({ length: end - start }, (_, nth) => ({
      name: this.expectedNames.get(start + nth),
      grade: this.expected_grades[start + nth],
      ranks: this.labels.map((_, ranking) => this.expected_ranks[ranking * count + start + nth]),
    }));
  }

  // The rank of the first thing that is expected: 0 where none is found, -1 where nothing is expected, -2 where the
  // retriever gave no answer.
  firstExpected(ranking, query) {
    const count = this.expected_grades.length;
    let [first, wanted] = [0, false];
    for (let at = this.expected_starts[query]; at < this.expected_starts[query + 1]; at += 1) {
      if (this.expected_grades[at] < this.relevance) continue;
      wanted = true;
      const rank = this.expected_ranks[ranking * count + at];
      if (rank === NO_ANSWER) return -2;
      if (rank > 0 && (first === 0 || rank < first)) first = rank;
    }
    return wanted ? first : -1;
  }

  // How many of a ranking's first documents are judged for the query, and how many there are.
  judgedShare(ranking, query) {
    const shown = this.top(ranking, query);
    const known = shown.filter(({ slot }) => this.pool_grades[this.pool_starts[query] + slot] !== this.unjudged);
    return { judged: known.length, shown: shown.length };
  }

  // The slots of a ranking's first documents, and their scores.
  top(ranking, query) {
    const start = (ranking * this.queries + query) * this.depth;
    const shown = [];
    for (let at = start; at < start + this.depth && this.places[at] !== this.no_place; at += 1) {
      shown.push({ slot: this.places[at], score: this.scores[at] });
    }
    return shown;
  }

  isUnjudged(ranking, query) {
    const start = (ranking * this.queries + query) * this.depth;
    const pool = this.pool_starts[query];
    for (let at = start; at < start + this.depth && this.places[at] !== this.no_place; at += 1) {
      if (this.pool_grades[pool + this.places[at]] === this.unjudged) return true;
    }
    return false;
  }

  sameDocuments(a, b, query) {
    const slots = new Set(this.top(a, query).map((hit) => hit.slot));
    const others = this.top(b, query);
    return slots.size === others.length && others.every((hit) => slots.has(hit.slot));
  }

  // Texts of a query's documents by document number; those that the page lacks are missing.
  async texts(query) {
    const found = new Map();
    for (const doc of this.documents(query)) {
      const place = this.textPlace.get(doc.number);
      if (place === undefined) continue;
      const chunk = this.text_chunks.findIndex((end) => place < end);
      if (!this.loaded.has(chunk)) this.loaded.set(chunk, unpack(this.chunk(chunk)));
      const strings = (await this.loaded.get(chunk)).strings("texts");
      found.set(doc.number, strings.get(place - (chunk === 0 ? 0 : this.text_chunks[chunk - 1])));
    }
    return found;
  }
}
