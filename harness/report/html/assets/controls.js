// What the list shows: which ranking is compared with which, on what metric, filtered, searched and sorted.

const FILTERS = [
  { name: "all", label: "All", keep: () => true },
  { name: "missed", label: "✕ Missed", keep: (c) => c.expected === 0, expecting: true },
  { name: "failed", label: "! No answer", keep: (c) => c.expected === -2, expecting: true, failures: true },
  { name: "late", label: "Found late", keep: (c) => c.expected > 1, expecting: true },
  { name: "first", label: "✓ Found first", keep: (c) => c.expected === 1, expecting: true },
  { name: "nothing", label: "No expectation", keep: (c) => c.expected === -1, expecting: true },
  { name: "regressed", label: "▼ Regressed", keep: (c) => c.difference < 0, pair: true },
  { name: "improved", label: "▲ Improved", keep: (c) => c.difference > 0, pair: true },
  { name: "tied", label: "= Tied", keep: (c) => c.difference === 0, pair: true },
  { name: "different", label: "≠ Different from the exact reference", keep: (c, m) => c.rankings.some((r) => differs(m, r, c.query)), states: true },
  { name: "documents", label: "Entered or left", keep: (c, m) => !m.sameDocuments(c.rankings[0], c.rankings.at(-1), c.query), two: true },
  { name: "unjudged", label: "? Unjudged", keep: (c, m) => c.rankings.some((r) => m.isUnjudged(r, c.query)), judged: true },
];

const SORTS = [
  { name: "change", label: "largest change", key: (c) => -Math.abs(c.difference), pair: true },
  { name: "loss", label: "greatest loss", key: (c) => c.difference, pair: true },
  { name: "gain", label: "greatest gain", key: (c) => -c.difference, pair: true },
  { name: "low", label: "lowest value", key: (c, m, s) => m.value(s.b, s.metric, c.query), values: true },
  { name: "given", label: "given order", key: (c) => c.query },
  { name: "id", label: "id" },
];

function differs(model, ranking, query) {
  const state = model.state(ranking, query);
  return state >= 0 && state < model.agrees;
}

class Selection {
  constructor(model) {
    const { reference, labels, metrics } = model;
    this.model = model;
    this.a = reference;
    const others = labels.map((_, ranking) => ranking).filter((ranking) => ranking !== model.partner(ranking));
    this.b = others.length === 0 || model.expecting ? reference : others[0];
    if (!model.expecting) this.a = model.partner(this.b);
    this.metric = 0;
    this.search = "";
    const paired = labels.length > 1 && !model.expecting;
    const usable = (one) => (!one.pair || (metrics.length > 0 && paired)) && (!one.two || paired)
      && (!one.values || metrics.length > 0) && (!one.states || model.stateOf !== null)
      && (!one.failures || model.failures) && (!one.judged || (model.judged && !model.expecting)) && (!one.expecting || model.expecting);
    this.filters = FILTERS.filter(usable);
    this.sorts = SORTS.filter(usable);
    this.filter = "all";
    this.sort = this.sorts[0].name;
    this.defaults = { ...this };
    this.prepared = "";
    this.haystack = Array.from({ length: model.queries }, (_, query) => `${model.id(query)}\n${model.text(query)}`.toLowerCase());
    this.collator = new Intl.Collator(undefined, { numeric: true });
  }

  difference(query) {
    return this.model.value(this.b, this.metric, query) - this.model.value(this.a, this.metric, query);
  }

  // Which filters keep each query, one bit each: worked out anew only when something else is compared.
  prepare() {
    const compared = `${this.a} ${this.b} ${this.metric}`;
    if (this.prepared === compared) return;
    this.prepared = compared;
    const rankings = this.a === this.b ? [this.a] : [this.a, this.b];
    this.cases = Array.from({ length: this.model.queries }, (_, query) => {
      const expected = this.model.expecting ? this.model.firstExpected(this.b, query) : -1;
      const found = { query, difference: this.difference(query), rankings, expected, bits: 0, key: 0 };
      this.filters.forEach((one, bit) => { if (one.keep(found, this.model)) found.bits |= 1 << bit; });
      return found;
    });
  }

  // Numbers of the queries to list, and how many each filter would leave.
  result() {
    const words = this.search.toLowerCase().split(/\s+/).filter((word) => word !== "");
    this.prepare();
    const { filters } = this;
    const counts = new Array(filters.length).fill(0);
    const wanted = 1 << filters.findIndex((one) => one.name === this.filter);
    const kept = [];
    for (const found of this.cases) {
      if (!words.every((word) => this.haystack[found.query].includes(word))) continue;
      for (let bit = 0; bit < filters.length; bit += 1) counts[bit] += (found.bits >> bit) & 1;
      if (found.bits & wanted) kept.push(found);
    }
    const named = Object.fromEntries(filters.map((one, bit) => [one.name, counts[bit]]));
    return { items: Uint32Array.from(this.sorted(kept), (found) => found.query), counts: named };
  }

  sorted(cases) {
    const { model } = this;
    if (this.sort === "id") return cases.sort((x, y) => this.collator.compare(model.id(x.query), model.id(y.query)));
    const { key } = this.sorts.find((one) => one.name === this.sort);
    for (const one of cases) {
      const value = key(one, model, this);
      one.key = Number.isNaN(value) ? Infinity : value;
    }
    return cases.sort((x, y) => x.key - y.key || model.place[x.query] - model.place[y.query]);
  }

  // The part of a link that says what is selected, without what is so anyway.
  write(parameters) {
    for (const name of ["a", "b", "metric", "filter", "sort", "search"]) {
      if (this[name] !== this.defaults[name]) parameters.set(name, this[name]);
    }
  }

  read(parameters) {
    const { labels, metrics } = this.model;
    const number = (name, count) => {
      const value = Number(parameters.get(name) ?? this.defaults[name]);
      return Number.isInteger(value) && value >= 0 && value < count ? value : this.defaults[name];
    };
    const choice = (name, among) => {
      const value = parameters.get(name);
      return among.some((one) => one.name === value) ? value : this.defaults[name];
    };
    this.a = number("a", labels.length);
    this.b = number("b", labels.length);
    this.metric = number("metric", metrics.length);
    this.filter = choice("filter", this.filters);
    this.sort = choice("sort", this.sorts);
    this.search = parameters.get("search") ?? "";
  }
}

class Controls {
  constructor(selection, changed) {
    this.selection = selection;
    this.changed = changed;
    const { labels, metrics, expecting } = selection.model;
    this.search = el("input", { type: "search", id: "search", placeholder: "Search queries", "aria-label": "Search queries",
      autocomplete: "off", spellcheck: "false", oninput: () => this.set("search", this.search.value) });
    this.selects = {
      b: this.select("b", labels.map((label, at) => [at, label]), expecting ? "Answers of" : "Compare"),
      a: this.select("a", labels.map((label, at) => [at, label]), "with"),
      metric: this.select("metric", metrics.map((name, at) => [at, name]), "on"),
      sort: this.select("sort", selection.sorts.map((one) => [one.name, one.label]), "Sort by"),
    };
    this.chips = new Map(selection.filters.map((one) => [one.name, this.chip(one)]));
    this.status = el("p", { role: "status", class: "status" });
    const pair = labels.length < 2 ? [] : expecting ? [this.selects.b] : [this.selects.b, this.selects.a];
    const metric = metrics.length > 0 ? [this.selects.metric] : [];
    this.node = el("div", { class: "controls" },
      el("div", { class: "line" }, this.search, ...pair, ...metric, this.selects.sort),
      el("div", { class: "line chips", role: "group", "aria-label": "Filter" }, ...this.chips.values()),
      this.status);
  }

  select(name, options, label) {
    const select = el("select", { id: `select-${name}`, onchange: () => {
      this.set(name, name === "sort" ? select.value : Number(select.value));
    } }, ...options.map(([value, text]) => el("option", { value }, text)));
    return el("label", { class: "choice" }, el("span", {}, label), select);
  }

  chip(one) {
    return el("button", { type: "button", class: "chip", "data-filter": one.name, "aria-pressed": "false",
      onclick: () => this.set("filter", one.name) }, el("span", {}, one.label), el("b", {}));
  }

  set(name, value) {
    const { selection } = this;
    selection[name] = value;
    const { model } = selection;
    if (name === "b" && model.expecting) selection.a = value;
    else if (name === "b" && model.against !== null && model.partner(value) !== value) selection.a = model.partner(value);
    this.changed();
  }

  // Show what is selected, and the counts that it leads to.
  update(shown, counts) {
    const { selection } = this;
    if (this.search.value !== selection.search) this.search.value = selection.search;
    for (const [name, label] of Object.entries(this.selects)) label.querySelector("select").value = String(selection[name]);
    for (const [name, chip] of this.chips) {
      chip.setAttribute("aria-pressed", String(name === selection.filter));
      chip.querySelector("b").textContent = counts[name].toLocaleString("en");
    }
    this.status.textContent = `${shown.toLocaleString("en")} of ${selection.model.queries.toLocaleString("en")} ${selection.model.queries === 1 ? "query" : "queries"}`;
  }

  // Say that a link names a query that is not here; until something else is selected.
  lack(id) {
    this.status.textContent = `No query is called ${id} · ${this.status.textContent}`;
  }
}
