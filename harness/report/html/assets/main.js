// Puts the list, its controls and the opened query together, and keeps the address in step with them.

const PRINTED = 10;
const LONGEST = 160;

class App {
  constructor(root, model) {
    this.model = model;
    this.selection = new Selection(model);
    this.controls = new Controls(this.selection, () => this.changed());
    this.list = new QueryList(this.headings(), (query) => this.cells(query), (query) => this.open(query),
      (key) => this.controls.change(() => this.selection.sortBy(key)), model.queries.length);
    this.detail = new Detail(model, this.selection, (what, by) => this.go(what, by));
    this.printed = el("div", { class: "print-only" });
    this.grading = model.judging === null ? null : new Grading(model, () => this.list.items, () => this.leaveGrading());
    root.replaceChildren(...(this.grading === null ? [] : [this.grading.node]), this.controls.node, this.list.node, this.printed, this.detail.node);
    window.addEventListener("hashchange", () => this.follow(false));
    window.addEventListener("beforeprint", () => this.print());
    document.addEventListener("keydown", (event) => this.key(event));
    this.controls.search.addEventListener("keydown", (event) => this.leaveSearch(event));
    this.refresh();
    this.follow(true);
    requestIdleCallback(() => model.loadDetails().then(() => this.selection.search && this.refresh()));
  }

  headings() {
    const { model } = this;
    const rankings = model.metrics.length === 0 && !model.expecting ? [] : model.labels.map((label, ranking) => ({ name: model.names[ranking], tip: label, key: ranking }));
    return [{ name: "query", tip: "query", key: "id" }, ...rankings];
  }

  // A query with its values in all rankings, and how each differs from the ranking that it is compared with.
  cells(query) {
    const { model } = this;
    const doc = this.byDocument.get(query);
    const name = query.filter ? `${model.shortId(query)} · ${query.filter}` : model.shortId(query);
    const about = doc === undefined ? name : `${name} · found for document ${model.shortDoc(doc)}`;
    const words = el("div", { role: "rowheader", class: "words" }, el("span", { class: "query-text", dir: "auto" }, query.text || "–"), el("span", { class: "query-id" }, about));
    return [words, ...this.list.keys.slice(1).map((ranking) => this.cell(query, ranking))];
  }

  cell(query, ranking) {
    const { model, selection } = this;
    const value = model.value(query, ranking, selection.metric);
    const text = model.gaveNoAnswer(query, ranking) ? "! no answer" : Number.isNaN(value) ? "–" : value.toFixed(4);
    const compared = selection.partner(ranking);
    const { text: moved, word, tone } = this.difference(query, ranking, compared);
    const isChosen = ranking === selection.b && selection.a !== selection.b;
    const notes = [];
    if (compared !== ranking && !Number.isNaN(value)) notes.push(el("span", { class: `difference ${tone}`, title: word }, moved));
    const { said, isMissed } = this.rank(query, ranking);
    if (said !== "") notes.push(el("span", { class: isMissed ? "found bad" : "found" }, said));
    return el("div", { role: "gridcell", class: isChosen ? "figures chosen" : "figures" },
      el("span", { class: "value" }, text), el("span", { class: "below" }, ...notes));
  }

  // The rank of the first expected or relevant document, if the metric depends on it alone.
  rank(query, ranking) {
    const { model, selection } = this;
    if (!model.expecting && !model.readsFirst[selection.metric]) return { said: "", isMissed: false };
    const rank = model.firstRelevant(query, ranking);
    if (rank === null || rank < 0) return { said: "", isMissed: false };
    const isMissed = model.isMissed(rank, selection.metric);
    if (rank === 0) return { said: query.hits[ranking] > 0 ? "✕ missed" : "✕ no hits", isMissed };
    return { said: isMissed ? `✕ rank ${rank.toLocaleString("en")}` : rank === 1 ? "✓ first" : `rank ${rank.toLocaleString("en")}`, isMissed };
  }

  difference(query, b = this.selection.b, a = this.selection.a) {
    const difference = this.model.improvement(query, b, a, this.selection.metric);
    const { sign, word, tone } = change(difference);
    const raw = this.model.lowerIsBetter[this.selection.metric] ? -difference : difference;
    return { text: Number.isNaN(difference) ? word : difference === 0 ? "=" : `${sign} ${signed(raw)}`, word, tone };
  }

  changed() {
    this.refresh();
    this.writeAddress(this.detail.query, false);
  }

  refresh() {
    const { items, counts, byDocument } = this.selection.result();
    this.byDocument = byDocument;
    this.controls.update(items.length, counts, items.filter((query) => byDocument.has(query)).length);
    this.list.show(items, this.detail.query, this.selection.sorting());
  }

  open(query) {
    this.writeAddress(query, this.detail.query !== query);
    return this.show(query);
  }

  async show(query) {
    this.list.mark(query);
    const place = this.list.items.indexOf(query) + 1;
    const opened = this.detail.open(query, place > 0 ? `${place.toLocaleString("en")} of ${this.list.items.length.toLocaleString("en")}` : "not in the list");
    this.detail.title.focus({ preventScroll: true });
    await opened;
  }

  shut() {
    this.detail.close();
    this.list.mark(null);
  }

  close() {
    this.shut();
    this.writeAddress(null, true);
    this.list.node.focus({ preventScroll: true });
  }

  leaveGrading() {
    this.writeAddress(null, true);
    this.grading.close();
  }

  go(what, by) {
    if (what === "close") this.close();
    else {
      const next = this.list.neighbour(this.detail.query, by);
      if (next !== null) this.open(next);
    }
  }

  // `/` searches, `j` and `k` go to the next and the previous query.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (this.grading?.isOpen) return this.grading.key(event);
    const step = { j: 1, k: -1 }[event.key];
    if (event.key === "/" && this.detail.query === null) this.controls.search.focus();
    else if (step !== undefined && this.detail.query !== null) this.go("step", step);
    else if (step !== undefined) {
      this.list.move(document.activeElement === this.list.node ? step : 0);
      this.list.node.focus();
    } else return;
    event.preventDefault();
  }

  // Enter, ArrowDown, and Escape in the empty field go from the search to the list, whose keys then work.
  leaveSearch(event) {
    const leaves = event.key === "Escape" ? this.controls.search.value === "" : event.key === "Enter" || event.key === "ArrowDown";
    if (!leaves || event.isComposing) return;
    event.preventDefault();
    this.list.node.focus();
  }

  // The address of what is shown. A new query is a new place in the history; a new filter is not.
  writeAddress(query, isNew) {
    const parameters = new URLSearchParams();
    this.selection.write(parameters);
    if (query !== null) parameters.set("q", query.id);
    if (query !== null && this.model.several) parameters.set("of", this.model.datasets[query.dataset]);
    const address = `#${parameters}`;
    if (address === location.hash || (address === "#" && location.hash === "")) return;
    const target = address === "#" ? "#queries" : address;
    if (isNew) history.pushState(null, "", target);
    else history.replaceState(null, "", target);
  }

  follow(first) {
    const hash = location.hash.slice(1);
    if (this.grading?.follow(hash === JUDGING_HASH)) return this.shut();
    if (!hash.includes("=")) {
      // the page as it was before a query was opened, or the list: links to other parts leave the query open
      if (this.detail.query !== null && (hash === "" || hash === "queries")) this.shut();
      return;
    }
    const parameters = new URLSearchParams(hash);
    this.selection.read(parameters);
    this.refresh();
    const id = parameters.get("q");
    const query = id === null ? undefined : this.model.find(id, parameters.get("of"));
    if (query !== undefined) this.show(query);
    else if (this.detail.query !== null) this.shut();
    if (query === undefined && id !== null) this.controls.lack(id);
    if (first || query === undefined) document.getElementById("queries").scrollIntoView();
  }

  // The queries that changed most, for paper.
  print() {
    const { model, selection } = this;
    if (model.metrics.length === 0 || selection.a === selection.b) return;
    const [before, after] = [model.labels[selection.a], model.labels[selection.b]];
    const name = model.metrics[selection.metric];
    const rows = model.queries.filter((query) => selection.difference(query) !== 0 && !Number.isNaN(selection.difference(query)))
      .sort((x, y) => Math.abs(selection.difference(y)) - Math.abs(selection.difference(x)) || x.place - y.place).slice(0, PRINTED)
      .map((query) => el("tr", {}, el("th", { scope: "row" }, model.fullId(query)), el("td", {}, query.text.length > LONGEST ? `${query.text.slice(0, LONGEST)}…` : query.text),
        ...[selection.a, selection.b].map((ranking) => el("td", { class: "number" }, model.value(query, ranking, selection.metric).toFixed(4))),
        el("td", { class: "number" }, this.difference(query).text)));
    const headings = ["query", "text", before, after, "difference"].map((heading, at) => el("th", { scope: "col", class: at > 1 ? "number" : "" }, heading));
    this.printed.replaceChildren(el("table", {}, el("caption", {}, `The ${rows.length} largest changes of ${name}`),
      el("thead", {}, el("tr", {}, ...headings)), el("tbody", {}, ...rows)));
  }
}

// Open the folded parts around the target of the address, which some browsers leave closed.
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  if (target === null) return;
  for (let part = target.closest("details"); part !== null; part = part.parentElement.closest("details")) part.open = true;
  target.scrollIntoView();
}

async function start() {
  const root = document.getElementById("explorer");
  let model = null;
  if (root !== null && typeof DecompressionStream === "undefined") root.textContent = "This browser is too old for the list of queries.";
  else if (root !== null) {
    model = new Model(await readData("queries-data"));
    new App(root, model);
  }
  if (model !== null) linkFigures(model);
  for (const table of document.querySelectorAll("figure.table")) new SortableTable(table, model);
  for (const picture of document.querySelectorAll("figure.picture")) addSaving(picture);
  window.addEventListener("hashchange", unfold);
  unfold();
  document.documentElement.dataset.ready = "true";
}

start();
