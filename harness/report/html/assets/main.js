// Puts the list, its controls and the opened query together, and keeps the address in step with them.

class App {
  constructor(root, model) {
    this.model = model;
    this.selection = new Selection(model);
    this.controls = new Controls(this.selection, () => this.changed());
    this.list = new QueryList((query) => this.row(query), (query) => this.open(query, true), model.queries);
    this.detail = new Detail(model, this.selection, (what, by) => this.go(what, by));
    this.browser = el("div", { class: "browser" }, this.list.node, this.detail.node);
    root.replaceChildren(this.controls.node, this.browser);
    this.byId = new Map(Array.from({ length: model.queries }, (_, query) => [model.id(query), query]));
    window.addEventListener("hashchange", () => this.follow(false));
    this.refresh();
    this.follow(true);
  }

  row(query) {
    const { model, selection } = this;
    const value = model.value(selection.b, selection.metric, query);
    const difference = selection.difference(query);
    const { sign, word, tone } = change(difference);
    const paired = selection.a !== selection.b && model.metrics.length > 0;
    const figures = [];
    if (model.expecting) {
      const rank = model.firstExpected(selection.b, query);
      const none = model.top(selection.b, query).length > 0 ? "✕ missed" : "✕ no hits";
      const words = { "-2": "! no answer", "-1": "–", 0: none, 1: "✓ first" }[rank] ?? `rank ${rank}`;
      return [el("span", { class: "query-text", dir: "auto" }, model.text(query) || "–"), el("span", { class: "query-id" }, model.id(query)),
        el("span", { class: rank === 0 || rank === -2 ? "value bad" : "value" }, words)];
    }
    if (model.metrics.length > 0) figures.push(el("span", { class: "value" }, Number.isNaN(value) ? "–" : value.toFixed(4)));
    if (paired) {
      const text = Number.isNaN(difference) ? word : difference === 0 ? "=" : `${sign} ${signed(difference)}`;
      figures.push(el("span", { class: `difference ${tone}`, title: word }, text));
    }
    return [el("span", { class: "query-text", dir: "auto" }, model.text(query) || "–"), el("span", { class: "query-id" }, model.id(query)), ...figures];
  }

  changed() {
    this.refresh();
    if (this.detail.query >= 0) this.detail.open(this.detail.query);
    this.writeAddress(this.detail.query, false);
  }

  refresh() {
    const { items, counts } = this.selection.result();
    this.controls.update(items.length, counts);
    this.list.show(items, this.detail.query);
  }

  async open(query, focus) {
    this.writeAddress(query, this.detail.query !== query);
    await this.show(query, focus);
  }

  async show(query, focus) {
    this.browser.classList.add("opened");
    this.list.mark(query);
    const opened = this.detail.open(query);
    if (focus) this.detail.title.focus({ preventScroll: false });
    await opened;
  }

  shut() {
    this.browser.classList.remove("opened");
    this.detail.close();
    this.list.mark(-1);
  }

  close() {
    this.shut();
    this.writeAddress(-1, true);
    this.list.node.focus({ preventScroll: true });
  }

  go(what, by) {
    if (what === "close") this.close();
    else {
      const next = this.list.neighbour(this.detail.query, by);
      if (next >= 0) this.open(next, true);
    }
  }

  // The address of what is shown. A new query is a new place in the history; a new filter is not.
  writeAddress(query, isNew) {
    const parameters = new URLSearchParams();
    if (query >= 0) parameters.set("q", this.model.id(query));
    this.selection.write(parameters);
    const address = `#${parameters}`;
    if (address === location.hash || (address === "#" && location.hash === "")) return;
    const target = address === "#" ? "#queries" : address;
    if (isNew) history.pushState(null, "", target);
    else history.replaceState(null, "", target);
  }

  follow(first) {
    const hash = location.hash.slice(1);
    if (!hash.includes("=")) {
      // the page as it was before a query was opened, or the list: links to other parts leave the query open
      if (this.detail.query >= 0 && (hash === "" || hash === "queries")) this.shut();
      return;
    }
    const parameters = new URLSearchParams(hash);
    this.selection.read(parameters);
    this.refresh();
    const id = parameters.get("q");
    const query = id !== null ? this.byId.get(id) : undefined;
    if (query !== undefined) this.show(query, false);
    else if (this.detail.query >= 0) this.shut();
    if (query === undefined && id !== null) this.controls.lack(id);
    if (first && id !== null) document.getElementById("queries").scrollIntoView();
  }
}

async function start() {
  await startExplorer();
  document.documentElement.dataset.ready = "true";
}

async function startExplorer() {
  window.addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details")) one.open = true;
  });
  const data = document.getElementById("explorer-data");
  if (data === null) return;
  const root = document.getElementById("explorer");
  if (typeof DecompressionStream === "undefined") {
    root.textContent = "This browser is too old for the list of queries: it lacks DecompressionStream.";
    return;
  }
  const packed = (name) => document.getElementById(name).textContent;
  const parts = await Promise.all([unpack(data.textContent), unpack(packed("texts-held"))]);
  new App(root, new Model(...parts, (chunk) => packed(`texts-${chunk}`)));
}

start();
