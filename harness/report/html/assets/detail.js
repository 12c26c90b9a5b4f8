// One query with all its rankings side by side, the moves of documents between them, and one document's text.

const HIT_HEIGHT = 50;
const GUTTER = 88;

class Detail {
  constructor(model, selection, go) {
    this.model = model;
    this.selection = selection;
    this.go = go;
    this.query = -1;
    this.node = el("article", { class: "detail", "aria-live": "off", hidden: true, onkeydown: (event) => this.key(event) });
  }

  async open(query) {
    this.query = query;
    this.slot = -1;
    this.texts = new Map();
    this.stems = queryStems(this.model.text(query));
    this.draw();
    const texts = await this.model.texts(query);
    if (this.query !== query) return;
    this.texts = texts;
    for (const hit of this.node.querySelectorAll(".columns button.hit")) this.drawSnippet(hit);
    if (this.slot >= 0) this.select(this.slot);
  }

  close() {
    this.query = -1;
    this.node.hidden = true;
    this.node.replaceChildren();
  }

  draw() {
    const { model, query } = this;
    this.title = el("h3", { tabindex: "-1" }, model.text(query) || model.id(query));
    this.document = el("div", { class: "document", "aria-live": "polite" });
    const step = (text, label, by) => el("button", { type: "button", "aria-label": label, onclick: () => this.go("step", by) }, text);
    const head = el("div", { class: "head" },
      el("div", {}, el("p", { class: "query-id" }, `Query ${model.id(query)}`), this.title),
      el("div", { class: "buttons" }, step("↑", "Previous query", -1), step("↓", "Next query", 1),
        el("button", { type: "button", "aria-label": "Close this query", onclick: () => this.go("close") }, "✕")));
    this.node.replaceChildren(head, this.expected(), this.values(), this.rankings(), this.document, this.missed());
    this.node.hidden = false;
  }

  values() {
    const { model, query, selection } = this;
    if (model.metrics.length === 0) return el("div");
    const heading = (name) => el("th", { scope: "col", class: "number" }, name);
    const cell = (ranking, metric) => {
      const value = model.value(ranking, metric, query);
      if (Number.isNaN(value)) return el("td", { class: "number" }, "–");
      const difference = value - model.value(selection.a, metric, query);
      const { sign, tone } = change(difference);
      const mark = ranking === selection.a ? [] : [el("b", { class: "mark" }, sign)];
      return el("td", { class: `number ${ranking === selection.a ? "plain" : tone}` }, el("span", {}, value.toFixed(4)), ...mark);
    };
    const rows = this.columns().map((ranking) => el("tr", {}, el("th", { scope: "row" }, model.labels[ranking]),
      ...model.metrics.map((_, metric) => cell(ranking, metric)),
      el("td", { class: "number" }, `${model.hits[ranking * model.queries + query].toLocaleString("en")}${model.kept[ranking] === null ? "" : " kept"}`)));
    const relevant = model.expecting ? `${model.expected(query).length} expected` : model.judged ? `${model.relevant[query].toLocaleString("en")} relevant document${model.relevant[query] === 1 ? "" : "s"}` : "no judgments";
    const about = el("p", { class: "about" }, model.labels.length > 1 ? `${relevant}; marks are against ${model.labels[selection.a]}` : relevant);
    return el("div", {}, about, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values of this query" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "ranking"), ...model.metrics.map(heading), heading("hits"))),
      el("tbody", {}, ...rows))));
  }

  // Columns in the order: the reference, what is compared with it, the others.
  columns() {
    const { a, b } = this.selection;
    const others = this.model.against !== null ? [] : this.model.labels.map((_, ranking) => ranking)
      .filter((ranking) => ranking !== a && ranking !== b);
    return a === b ? [a, ...others] : [a, b, ...others];
  }

  rankings() {
    const columns = this.columns();
    const pieces = [];
    columns.forEach((ranking, at) => {
      if (at > 0) pieces.push(this.moves(columns[at - 1], ranking));
      pieces.push(this.column(ranking));
    });
    const legend = columns.length < 2 ? null : el("p", { class: "hint" }, "Lines join the same document: solid where it rises, dashed where "
      + `it falls. A number is its rank beyond the first ${this.model.depth}, – that it was not found${this.keptNote(columns)}.`);
    return el("div", {}, legend, el("div", { class: "scroll rankings", tabindex: "0", role: "region", "aria-label": "Rankings side by side" },
      el("div", { class: "columns" }, ...pieces)));
  }

  keptNote(columns) {
    const { labels, kept } = this.model;
    const cut = columns.filter((ranking) => kept[ranking] !== null);
    return cut.length === 0 ? "" : `, or is not among the first ${kept[cut[0]]} that are kept of ${cut.map((ranking) => labels[ranking]).join(", ")}`;
  }

  column(ranking) {
    const { model, query } = this;
    const { said, bad } = this.about(ranking);
    const hits = model.top(ranking, query).map((hit, at) => this.hit(ranking, hit, at));
    return el("section", { class: "ranking", "aria-label": model.labels[ranking] },
      el("h4", {}, model.labels[ranking]),
      el("p", { class: bad ? "state bad" : "state" }, said),
      hits.length ? el("ol", {}, ...hits) : el("p", { class: "empty" }, "found nothing"));
  }

  // The line below a ranking's name.
  about(ranking) {
    const { model, query } = this;
    if (model.expecting) {
      const rank = model.firstExpected(ranking, query);
      if (rank === -2) return { said: "! the retriever failed: no answer", bad: true };
      if (rank < 0) return { said: "nothing is expected", bad: false };
      return rank === 0 ? { said: "✕ nothing expected is found", bad: true } : { said: `first expected at rank ${rank}`, bad: false };
    }
    const state = model.state(ranking, query);
    if (state >= 0) {
      const cause = model.cause(ranking, query);
      const said = `${model.states[state]}${state < model.agrees ? " from" : " to"} its exact reference`;
      return { said: cause ? `${said}: ${cause}` : said, bad: state < model.agrees };
    }
    if (model.stateOf !== null || !model.judged) return { said: model.stateOf === null ? "" : "no exact reference", bad: false };
    const { judged, shown } = model.judgedShare(ranking, query);
    return { said: `${judged} of ${shown} are judged`, bad: false };
  }

  hit(ranking, { slot, score }, at) {
    const doc = this.model.document(this.query, slot);
    const button = el("button", { type: "button", class: "hit", "data-slot": slot, "aria-pressed": "false",
      onclick: () => this.select(slot === this.slot ? -1 : slot) },
    el("span", { class: "rank" }, String(at + 1)), badge(doc.grade, this.model),
    el("span", { class: "doc" }, doc.id), el("span", { class: "score" }, shortScore(score)), el("span", { class: "snippet" }));
    button.document = doc;
    return el("li", {}, button);
  }

  drawSnippet(button) {
    const text = this.texts.get(button.document.number);
    const snippet = button.querySelector(".snippet");
    if (text !== undefined) snippet.replaceChildren(...marked(text.slice(0, 120), this.stems));
  }

  moves(from, to) {
    const { model, query } = this;
    const [left, right] = [model.top(from, query), model.top(to, query)];
    const height = Math.max(left.length, right.length, 1) * HIT_HEIGHT;
    const middle = (at) => at * HIT_HEIGHT + HIT_HEIGHT / 2;
    const shapes = [];
    left.forEach(({ slot }, at) => {
      const there = right.findIndex((hit) => hit.slot === slot);
      if (there >= 0) {
        const kind = there < at ? "up" : there > at ? "down" : "level";
        shapes.push(svgEl("line", { x1: 0, y1: middle(at), x2: GUTTER, y2: middle(there), class: `move ${kind}`, "data-slot": slot }));
      } else shapes.push(...stub(0, middle(at), model.document(query, slot).ranks[to], "down", slot));
    });
    right.forEach(({ slot }, at) => {
      if (left.some((hit) => hit.slot === slot)) return;
      shapes.push(...stub(GUTTER, middle(at), model.document(query, slot).ranks[from], "up", slot));
    });
    return svgEl("svg", { class: "moves", width: GUTTER, height, viewBox: `0 0 ${GUTTER} ${height}`, "aria-hidden": "true" }, ...shapes);
  }

  select(slot) {
    this.slot = slot;
    for (const one of this.node.querySelectorAll("[data-slot]")) {
      const chosen = Number(one.getAttribute("data-slot")) === slot;
      one.classList.toggle("chosen", chosen);
      if (one.classList.contains("hit")) one.setAttribute("aria-pressed", String(chosen));
    }
    if (slot < 0) return this.document.replaceChildren();
    const doc = this.model.document(this.query, slot);
    const text = this.texts.get(doc.number);
    const ranks = this.columns().map((ranking) => `${this.model.labels[ranking]} ${doc.ranks[ranking] || "not found"}`).join(" · ");
    const body = text === undefined ? el("p", { class: "empty" }, "The text of this document is not in this file.")
      : el("p", { class: "text", dir: "auto", tabindex: "0" }, ...marked(text, this.stems));
    return this.document.replaceChildren(
      el("h4", {}, badge(doc.grade, this.model), el("span", { class: "doc" }, doc.id)),
      el("p", { class: "ranks" }, `Rank: ${ranks}`), body);
  }

  // What the query is expected to find, and where each ranking has it.
  expected() {
    const { model, query } = this;
    if (!model.expecting) return el("div");
    const expected = model.expected(query);
    if (expected.length === 0) return el("p", { class: "about" }, "It expects nothing, and no mean counts it.");
    const graded = expected.some((one) => one.grade !== 1);
    const cell = (rank) => (rank > 0 && rank !== NO_ANSWER ? el("td", { class: "number" }, rank.toLocaleString("en"))
      : el("td", { class: "number bad" }, rank === NO_ANSWER ? "no answer" : "not found"));
    return el("div", {}, el("p", { class: "about" }, "Expected, and the rank at which it is found"),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Expected documents" }, el("table", { class: "expected" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "expected"), graded ? el("th", { scope: "col", class: "number" }, "grade") : null,
          ...model.labels.map((label) => el("th", { scope: "col", class: "number" }, label)))),
        el("tbody", {}, ...expected.map((one) => el("tr", {}, el("th", { scope: "row" }, one.name),
          graded ? el("td", { class: "number" }, String(one.grade)) : null, ...one.ranks.map(cell)))))));
  }

  missed() {
    const { model, query } = this;
    if (model.expecting) return el("div");
    const shown = new Set(model.labels.flatMap((_, ranking) => model.top(ranking, query).map((hit) => hit.slot)));
    const missed = model.documents(query).filter((doc) => !shown.has(doc.slot));
    if (missed.length === 0) return el("div");
    const row = (doc) => el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", class: "hit plain", "data-slot": doc.slot,
      "aria-pressed": "false", onclick: () => this.select(doc.slot === this.slot ? -1 : doc.slot) }, badge(doc.grade, model), el("span", { class: "doc" }, doc.id))),
    ...this.columns().map((ranking) => el("td", { class: "number" }, doc.ranks[ranking] ? doc.ranks[ranking].toLocaleString("en") : "–")));
    const about = el("p", { class: "about" }, `Relevant, but in no ranking's first ${model.depth}: the rank in each`);
    return el("div", {}, about, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Relevant documents further down" }, el("table", { class: "missed" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "document"), ...this.columns().map((ranking) => el("th", { scope: "col", class: "number" }, model.labels[ranking])))),
      el("tbody", {}, ...missed.map(row)))));
  }

  // Arrow keys go from document to document and from ranking to ranking.
  key(event) {
    if (event.key === "Escape") {
      if (this.slot >= 0) this.select(-1);
      else this.go("close");
      event.stopPropagation();
      return;
    }
    const button = event.target.closest(".columns button.hit");
    if (button === null) return;
    const columns = [...this.node.querySelectorAll(".columns .ranking")].map((one) => [...one.querySelectorAll("button.hit")]);
    const x = columns.findIndex((one) => one.includes(button));
    const y = columns[x].indexOf(button);
    const target = { ArrowDown: [x, y + 1], ArrowUp: [x, y - 1], ArrowLeft: [x - 1, y], ArrowRight: [x + 1, y] }[event.key];
    if (target === undefined) return;
    const column = columns[target[0]] ?? [];
    column[Math.min(target[1], column.length - 1)]?.focus();
    event.preventDefault();
  }
}

function badge(grade, model) {
  if (!model.judged || (model.expecting && grade === null)) return el("span", { class: "badge none" });
  if (grade === null) return el("span", { class: "badge unjudged", title: "not judged for this query", "aria-label": "not judged" }, "?");
  const relevant = grade >= model.relevance;
  const said = `${relevant ? "relevant" : "not relevant"}, grade ${grade}`;
  return el("span", { class: relevant ? "badge relevant" : "badge irrelevant", title: said, "aria-label": said }, String(grade));
}

function shortScore(score) {
  return Number.isNaN(score) ? "" : String(Number(score.toPrecision(6)));
}

// A document that only one of two neighbouring rankings shows: where the other one has it.
function stub(x, y, rank, kind, slot) {
  const inward = x === 0 ? 1 : -1;
  return [
    svgEl("line", { x1: x, y1: y, x2: x + inward * 14, y2: y, class: `move ${kind}`, "data-slot": slot }),
    svgEl("text", { x: x + inward * 18, y: y + 4, "text-anchor": x === 0 ? "start" : "end", class: "move-rank" }, rank ? String(rank) : "–"),
  ];
}
