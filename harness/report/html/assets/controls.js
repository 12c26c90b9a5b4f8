// The search field, the choices and the filters above the list.

class Controls {
  constructor(selection, changed) {
    this.selection = selection;
    this.changed = changed;
    const { labels, names, metrics, datasets, several } = selection.model;
    this.search = el("input", { type: "search", id: "search", placeholder: "Search queries and documents  /",
      "aria-label": "Search queries and documents", autocomplete: "off", spellcheck: "false",
      oninput: () => this.change(() => { selection.search = this.search.value; }) });
    const numbered = (texts) => texts.map((text, at) => [at, text]);
    const backends = names.map((name, at) => [at, name, labels[at]]);
    const choices = [this.search];
    if (labels.length > 1) choices.push(this.choice("b", backends, "Compare", (value) => selection.compare(Number(value))));
    if (labels.length > 1) choices.push(this.choice("a", backends, "with", (value) => { selection.a = Number(value); }));
    if (metrics.length > 0) choices.push(this.choice("metric", numbered(metrics), "on", (value) => { selection.metric = Number(value); }));
    if (several) choices.push(this.choice("dataset", [[-1, "all datasets"], ...numbered(datasets)], "of", (value) => { selection.dataset = Number(value); }));
    choices.push(this.choice("sort", selection.allSorts.map(({ name, label }) => [name, label]), "Sort by", (value) => Object.assign(selection, { sort: value, direction: 1 })));
    this.byColumn = el("option", { value: "column", hidden: true }, "a column");
    choices.at(-1).querySelector("select").append(this.byColumn);
    this.chips = new Map(selection.allFilters.map((filter) => [filter.name, this.chip(filter)]));
    this.status = el("p", { role: "status", class: "status" });
    this.resetButton = el("button", { type: "button", class: "plain-button", onclick: () => this.change(() => selection.reset()) }, "Show all queries");
    this.node = el("div", { class: "controls" },
      el("div", { class: "line" }, ...choices),
      el("div", { class: "line chips", role: "group", "aria-label": "Filters" }, ...this.chips.values()),
      el("div", { class: "line" }, this.status, this.resetButton));
  }

  choice(name, options, label, set) {
    const select = el("select", { id: `select-${name}`, onchange: () => this.change(() => set(select.value)) },
      ...options.map(([value, text, title]) => el("option", title === undefined || title === text ? { value } : { value, title }, text)));
    return el("label", { class: "choice" }, el("span", {}, label), select);
  }

  chip({ name, label }) {
    return el("button", { type: "button", class: "chip", "data-filter": name, "aria-pressed": "false",
      onclick: () => this.change(() => this.selection.toggle(name)) }, el("span", {}, label), el("b", {}));
  }

  change(set) {
    set();
    this.changed();
  }

  // Show what is selected, and the counts that it leads to.
  update(shown, counts, byDocument) {
    const { selection } = this;
    if (this.search.value !== selection.search) this.search.value = selection.search;
    for (const select of this.node.querySelectorAll("select")) select.value = String(selection[select.id.replace("select-", "")]);
    for (const [name, chip] of this.chips) {
      chip.hidden = !selection.isUseful(name);
      chip.setAttribute("aria-pressed", String(selection.filters.has(name)));
      chip.querySelector("b").textContent = counts.get(name).toLocaleString("en");
    }
    const all = selection.model.queries.length;
    const documents = byDocument > 0 ? `, ${byDocument.toLocaleString("en")} of them for a document` : "";
    this.status.textContent = `${shown.toLocaleString("en")} of ${counted(all, "query", "queries")}${documents}`;
    this.resetButton.hidden = !selection.isNarrowed();
  }

  // Say that a link names a query that is not here; until something else is selected.
  lack(id) {
    this.status.textContent = `No query is called ${id} · ${this.status.textContent}`;
  }
}
