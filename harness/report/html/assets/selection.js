// What the list shows: which ranking is compared with which, on what metric, filtered, searched and sorted. Filters of
// one group widen each other, those of different groups narrow each other.

const FILTERS = [
  { group: "found", name: "missed", label: "✕ Missed", keep: (c, m, metric) => m.isMissed(c.expected, metric), needs: ["expecting"] },
  { group: "found", name: "failed", label: "! No answer", keep: (c, m) => c.rankings.some((ranking) => m.gaveNoAnswer(c.query, ranking)), needs: ["failures"] },
  { group: "found", name: "late", label: "Found late", keep: (c, m, metric) => c.expected > 1 && !m.isMissed(c.expected, metric), needs: ["expecting"] },
  { group: "found", name: "first", label: "✓ Found first", keep: (c) => c.expected === 1, needs: ["expecting"] },
  { group: "found", name: "nothing", label: "No expectation", keep: (c) => c.expected === -1, needs: ["expecting"] },
  { group: "change", name: "regressed", label: "▼ Lost", keep: (c) => c.difference < 0, needs: ["pairs", "values"] },
  { group: "change", name: "improved", label: "▲ Won", keep: (c) => c.difference > 0, needs: ["pairs", "values"] },
  { group: "change", name: "changed", label: "≠ Changed", keep: (c) => Math.abs(c.difference) > 0, needs: ["pairs", "values"] },
  { group: "change", name: "tied", label: "= Tied", keep: (c) => c.difference === 0, needs: ["pairs", "values"] },
  { group: "reference", name: "different", label: "≠ Different from the exact reference",
    keep: (c, m) => c.rankings.some((ranking) => m.differsFromReference(c.query, ranking)), needs: ["references"] },
  { group: "documents", name: "documents", label: "Entered or left",
    keep: (c, m) => !c.rankings.some((ranking) => m.gaveNoAnswer(c.query, ranking)) && !m.sameDocuments(c.query, c.rankings[0], c.rankings.at(-1)),
    needs: ["pairs"] },
  { group: "judged", name: "unjudged", label: "? Unjudged documents",
    keep: (c, m) => c.rankings.some((ranking) => m.showsUnjudged(c.query, ranking)), needs: ["judgments"] },
  { group: "judged", name: "unevaluated", label: "Without relevant documents", keep: (c) => c.query.relevant === 0, needs: ["judgments"] },
];

const SORTS = [
  { name: "change", label: "largest change", key: (c) => -Math.abs(c.difference), needs: ["pairs", "values"] },
  { name: "loss", label: "greatest loss", key: (c) => c.difference, needs: ["pairs", "values"] },
  { name: "gain", label: "greatest gain", key: (c) => -c.difference, needs: ["pairs", "values"] },
  { name: "low", label: "lowest value", key: (c) => c.value, needs: ["values"] },
  { name: "given", label: "given order", key: () => 0, needs: [] },
  { name: "id", label: "id", key: () => 0, needs: [] },
];

const SHORTEST_WORD = 3;

class Selection {
  constructor(model) {
    const { against, labels, metrics, expecting } = model;
    this.model = model;
    const compared = labels.map((_, ranking) => ranking).filter((ranking) => ranking !== against[ranking]);
    this.b = compared.length === 0 ? against[0] : this.mostChanged(compared);
    this.a = against[this.b];
    this.metric = 0;
    this.dataset = -1;
    this.search = "";
    const has = { expecting, failures: model.queries.some((query) => query.failed?.includes(true)), values: metrics.length > 0,
      pairs: labels.length > 1, references: model.states !== null, judgments: model.judged && !expecting };
    const usable = (option) => option.needs.every((need) => has[need]);
    this.allFilters = FILTERS.filter(usable);
    this.allSorts = SORTS.filter(usable);
    this.filters = new Set();
    this.sort = this.allSorts[0].name;
    this.column = -1;
    this.direction = 1;
    this.defaults = { a: this.a, b: this.b, metric: 0, dataset: -1, sort: this.sort };
    this.collator = new Intl.Collator(undefined, { numeric: true });
  }

  // The ranking whose mean of the first metric differs most from that of its partner; where means are equal, that whose
  // queries differ most.
  mostChanged(rankings) {
    const { model } = this;
    const scored = rankings.map((ranking) => {
      let [count, sum, moved] = [0, 0, 0];
      for (const query of model.queries) {
        const difference = model.value(query, ranking, 0) - model.value(query, model.against[ranking], 0);
        if (Number.isNaN(difference)) continue;
        count += 1;
        sum += difference;
        moved += Math.abs(difference);
      }
      return { ranking, mean: Math.abs(sum) / (count || 1), moved };
    });
    const same = (x, y) => Math.abs(x.mean - y.mean) < 1e-12;
    return scored.reduce((most, other) => ((same(most, other) ? other.moved > most.moved : other.mean > most.mean) ? other : most)).ranking;
  }

  // By how much the second ranking is better.
  difference(query) {
    return this.model.improvement(query, this.b, this.a, this.metric);
  }

  isNarrowed() { return this.filters.size > 0 || this.search.trim() !== "" || this.dataset >= 0; }

  reset() {
    if (this.filters.has("missed")) this.toggle("missed");
    this.filters.clear();
    this.dataset = -1;
    this.search = "";
  }

  // Missed questions are listed by the rank of their document, as the terminal has them, unless another order was chosen.
  toggle(filter) {
    const isChosen = !this.filters.delete(filter);
    if (isChosen) this.filters.add(filter);
    const [before, after] = isChosen ? [this.defaults.sort, "low"] : ["low", this.defaults.sort];
    if (filter === "missed" && this.sort === before) this.sort = after;
  }

  // Compare another ranking, with its own partner where rankings come in pairs.
  compare(ranking) {
    this.b = ranking;
    if (this.model.paired && this.model.against[ranking] !== ranking) this.a = this.model.against[ranking];
  }

  // Which filters keep each query, one bit each: worked out anew only when something else is compared.
  prepare() {
    const compared = `${this.a} ${this.b} ${this.metric}`;
    if (this.prepared === compared) return;
    this.prepared = compared;
    const { model } = this;
    const rankings = this.a === this.b ? [this.a] : [this.a, this.b];
    this.cases = model.queries.map((query, number) => {
      const found = { query, number, rankings, difference: this.difference(query), value: model.value(query, this.b, this.metric),
        expected: model.expecting ? model.firstExpected(query, this.b) : -1, bits: 0, key: 0 };
      this.allFilters.forEach((filter, bit) => { if (filter.keep(found, model, this.metric)) found.bits |= 1 << bit; });
      return found;
    });
    this.totals = this.allFilters.map((_, bit) => this.cases.reduce((count, { bits }) => count + ((bits >> bit) & 1), 0));
  }

  // Whether a filter selects neither nothing nor everything; a chosen one can always be taken back.
  isUseful(name) {
    const bit = this.allFilters.findIndex((filter) => filter.name === name);
    return this.filters.has(name) || (this.totals[bit] > 0 && this.totals[bit] < this.cases.length);
  }

  // The queries to list, how many each filter would leave, and those that are listed for a document alone.
  result() {
    this.prepare();
    const search = this.search.toLowerCase();
    const words = search.split(/\s+/).filter((word) => word !== "");
    const documents = this.matchingDocuments(search, words);
    if (words.length > 0) this.searchable ??= this.model.queries.map((query) => `${query.id}\n${query.text}\n${query.filter ?? ""}`.toLowerCase());
    const groups = this.chosenGroups();
    const counts = this.allFilters.map(() => 0);
    const kept = [];
    const byDocument = new Map();
    for (const found of this.cases) {
      if (this.dataset >= 0 && found.query.dataset !== this.dataset) continue;
      if (!words.every((word) => this.searchable[found.number].includes(word))) {
        const doc = documents === null ? undefined : found.query.docs.find((number) => documents[number] === 1);
        if (doc === undefined) continue;
        byDocument.set(found.query, doc);
      }
      const failed = groups.filter(({ bits }) => (found.bits & bits) === 0);
      this.allFilters.forEach((filter, bit) => {
        if (found.bits & (1 << bit) && failed.every(({ group }) => group === filter.group)) counts[bit] += 1;
      });
      if (failed.length === 0) kept.push(found);
    }
    const items = this.sorted(kept).map((found) => found.query);
    return { items: [...items.filter((query) => !byDocument.has(query)), ...items.filter((query) => byDocument.has(query))],
      counts: new Map(this.allFilters.map((filter, bit) => [filter.name, counts[bit]])), byDocument };
  }

  // The chosen filters as one mask of bits a group.
  chosenGroups() {
    const masks = new Map();
    this.allFilters.forEach(({ group, name }, bit) => {
      if (this.filters.has(name)) masks.set(group, (masks.get(group) ?? 0) | (1 << bit));
    });
    return [...masks].map(([group, bits]) => ({ group, bits }));
  }

  // Which documents have all words in id or text, one byte each; null if no document is looked for. Documents are
  // written in lower case once; while a search grows letter by letter, only those that had its beginning are looked at.
  matchingDocuments(search, words) {
    if (words.every((word) => word.length < SHORTEST_WORD)) return null;
    const { docs, texts } = this.model;
    if (this.documents?.texts !== texts) this.documents = { texts, said: docs.map((id, number) => `${id}\n${texts?.get(number) ?? ""}`.toLowerCase()) };
    const { said, last } = this.documents;
    const among = last !== undefined && search.startsWith(last.search) ? last.numbers : said.keys();
    const numbers = [];
    for (const number of among) if (words.every((word) => said[number].includes(word))) numbers.push(number);
    this.documents.last = { search, numbers };
    const matching = new Uint8Array(docs.length);
    for (const number of numbers) matching[number] = 1;
    return matching;
  }

  sorted(cases) {
    if (this.sort === "id") return cases.sort((x, y) => this.direction * this.collator.compare(x.query.id, y.query.id));
    if (this.sort === "given") return cases;
    const { model, column, direction } = this;
    const ranking = this.sort === "column" ? column : this.b;
    const isLow = model.expecting && (this.sort === "column" || this.sort === "low");
    const { key } = this.allSorts.find((sort) => sort.name === this.sort) ?? { key: (c) => direction * model.value(c.query, column, this.metric) };
    for (const found of cases) {
      const value = key(found);
      found.key = Number.isNaN(value) ? Infinity : value;
      found.nearest = isLow ? model.nearest(found.query, ranking) : 0;
    }
    return cases.sort((x, y) => x.key - y.key || x.nearest - y.nearest || x.query.place - y.query.place);
  }

  // Sort by a heading: of a ranking from the highest value, then the other way round, then as it was.
  sortBy(key) {
    const first = key === "id" ? 1 : -1;
    const { key: sorted, direction } = this.sorting();
    if (key !== sorted) this.setSort(key, first);
    else if (direction === first) this.setSort(key, -first);
    else this.sort = this.defaults.sort;
  }

  setSort(key, direction) {
    Object.assign(this, { sort: key === "id" ? "id" : "column", column: key === "id" ? -1 : key, direction });
  }

  // The heading by which rows are sorted and in which direction; key null if it is none.
  sorting() {
    if (this.sort === "id") return { key: "id", direction: this.direction };
    return this.sort === "column" ? { key: this.column, direction: this.direction } : { key: null, direction: 1 };
  }

  // The ranking that a ranking is compared with in its column.
  partner(ranking) { return this.model.paired && ranking !== this.b ? this.model.against[ranking] : this.a; }

  // The part of a link that says what is selected, by names, without what is so anyway.
  write(parameters) {
    const { labels, metrics, datasets } = this.model;
    const named = { b: labels[this.b], a: labels[this.a], metric: metrics[this.metric], dataset: datasets[this.dataset], sort: this.sort };
    for (const [name, value] of Object.entries(named)) if (this[name] !== this.defaults[name]) parameters.set(name, value);
    if (this.sort === "column") parameters.set("column", labels[this.column]);
    if (this.sorting().key !== null) parameters.set("order", this.direction > 0 ? "ascending" : "descending");
    if (this.filters.size > 0) parameters.set("filter", [...this.filters].join(" "));
    if (this.search !== "") parameters.set("search", this.search);
  }

  read(parameters) {
    const { labels, metrics, datasets } = this.model;
    const place = (name, among) => {
      const at = among.indexOf(parameters.get(name));
      return at < 0 ? this.defaults[name] : at;
    };
    this.compare(place("b", labels));
    if (parameters.has("a") || !this.model.paired) this.a = place("a", labels);
    this.metric = place("metric", metrics);
    this.dataset = place("dataset", datasets);
    const sort = parameters.get("sort");
    this.column = labels.indexOf(parameters.get("column"));
    const isSort = this.allSorts.some(({ name }) => name === sort) || (sort === "column" && this.column >= 0);
    this.sort = isSort ? sort : this.defaults.sort;
    this.direction = parameters.get("order") === "descending" ? -1 : 1;
    const chosen = (parameters.get("filter") ?? "").split(" ");
    this.filters = new Set(this.allFilters.map(({ name }) => name).filter((name) => chosen.includes(name)));
    this.search = parameters.get("search") ?? "";
  }
}
