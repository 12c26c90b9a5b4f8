// One query in the whole window: what it lost and gained, its rankings side by side with the moves of documents between
// them, and beside them the text of one document.

const HIT_HEIGHT = 50;
const GUTTER = 88;
const MISSED_SHOWN = 10;
const LONGEST_HEADING = 26;

class Detail {
  constructor(model, selection, go) {
    this.model = model;
    this.selection = selection;
    this.go = go;
    this.query = null;
    this.explains = matchMedia("(min-width: 64rem)").matches;
    this.node = el("dialog", { class: "detail", id: "query", "aria-labelledby": "query-title",
      oncancel: (event) => { event.preventDefault(); this.go("close"); }, onkeydown: (event) => this.key(event) });
  }

  async open(query, position) {
    this.query = query;
    this.stems = queryStems(query.text);
    this.draw(position);
    if (!this.node.open) this.node.showModal();
    this.node.scrollTop = 0;
    await this.model.loadDetails();
    if (this.query !== query) return;
    for (const hit of this.node.querySelectorAll("button.hit")) this.fill(hit);
    const first = this.firstDocument();
    if (first !== undefined && matchMedia("(min-width: 64rem)").matches) this.select(first);
  }

  close() {
    this.query = null;
    this.node.close();
    this.node.replaceChildren();
  }

  draw(position) {
    const { query } = this;
    this.slot = -1;
    this.title = el("h3", { id: "query-title", tabindex: "-1", dir: "auto" }, query.text || query.id);
    this.document = el("aside", { class: "document", "aria-label": "Document", "aria-live": "polite" });
    const button = (text, label, onclick) => el("button", { type: "button", "aria-label": label, title: label, onclick }, text);
    const buttons = el("div", { class: "buttons" }, button("↑", "Previous query (k)", () => this.go("step", -1)),
      button("↓", "Next query (j)", () => this.go("step", 1)), button("✕", "Close this query", () => this.go("close")));
    const head = el("div", { class: "head" }, el("p", { class: "query-id" }, `Query ${this.model.fullId(query)} · ${position}${query.filter ? ` · filter ${query.filter}` : ""}`), this.title,
      el("p", { class: "summary" }, this.summary()));
    const main = el("div", { class: "evidence" }, this.expected(), this.rankings(), this.missed(), this.values());
    this.node.replaceChildren(buttons, head, el("div", { class: "reading" }, main, this.document));
    this.select(-1);
  }

  // The line that says what happened to this query.
  summary() {
    const { model, query, selection: { a, b, metric } } = this;
    if (model.expecting) {
      const rank = model.firstExpected(query, b);
      const said = { "-2": "! The backend failed: no answer", "-1": "Nothing is expected, and no mean counts it", 0: "✕ Nothing expected is found" };
      const isLate = model.isMissed(rank, this.selection.metric);
      const place = `${isLate ? "✕ " : ""}The first expected document is at rank ${rank}${isLate ? `, beyond the first ${model.missedFrom(this.selection.metric)}` : ""}`;
      return `${said[rank] ?? place}${model.labels.length > 1 ? ` (${model.names[b]})` : ""}`;
    }
    const relevant = model.judged ? counted(query.relevant, "relevant document") : "no judgments";
    const silent = [...new Set([a, b])].filter((ranking) => model.gaveNoAnswer(query, ranking)).map((ranking) => model.labels[ranking]);
    if (silent.length > 0) return `! No answer of ${silent.join(" and ")}: the backend failed; ${relevant}`;
    if (a === b || !model.judged) return relevant;
    const { lost, gained, unknown } = model.relevantMoves(query, a, b, model.cutoff(metric));
    const notKept = unknown.length > 0 ? `, ${unknown.length} not stored` : "";
    const depth = model.cutoff(metric);
    const from = depth === Infinity ? "all hits" : `the first ${depth.toLocaleString("en")}`;
    return `${lost.length} relevant lost from ${from}, ${gained.length} gained${notKept}: ${model.names[b]} compared with ${model.names[a]}; ${relevant} in all`;
  }

  // The document that explains most: an expected one that is missed, else one that was lost, else the first hit.
  firstDocument() {
    const { model, query, selection: { a, b, metric } } = this;
    if (model.expecting) {
      const wanted = query.expected.filter((expected) => expected.slots.length > 0);
      const missed = wanted.find((expected) => !model.hasExpected(query, b, expected));
      return (missed ?? wanted[0])?.slots[0];
    }
    return model.relevantMoves(query, a, b, model.cutoff(metric)).lost[0] ?? model.top(query, b)[0] ?? model.top(query, a)[0];
  }

  table(label, headings, rows, about) {
    const head = ([name, ...others]) => el("tr", {}, el("th", { scope: "col" }, name), ...others.map((other) => el("th", { scope: "col", class: "number" }, other)));
    return el("div", {}, about === null ? null : el("h4", { class: "about" }, about),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
        el("table", {}, el("thead", {}, head(headings)), el("tbody", {}, ...rows))));
  }

  values() {
    const { model, query, selection } = this;
    if (model.metrics.length === 0) return null;
    const cell = (ranking, metric) => {
      const value = model.value(query, ranking, metric);
      if (Number.isNaN(value)) return el("td", { class: "number" }, "–");
      const { sign, tone } = change(model.improvement(query, ranking, selection.a, metric));
      const mark = ranking === selection.a ? null : el("b", { class: "mark" }, sign);
      return el("td", { class: `number ${ranking === selection.a ? "plain" : tone}` }, el("span", {}, value.toFixed(4)), mark);
    };
    const rows = this.columns().map((ranking) => el("tr", {}, el("th", { scope: "row", title: model.labels[ranking] }, model.names[ranking]),
      ...model.metrics.map((_, metric) => cell(ranking, metric)),
      el("td", { class: "number" }, model.gaveNoAnswer(query, ranking) ? "no answer"
        : `${query.hits[ranking].toLocaleString("en")}${model.kept[ranking] === null ? "" : " kept"}`)));
    const about = model.labels.length > 1 ? `Metrics of this query; marks compare with ${model.names[selection.a]}` : "Metrics of this query";
    return this.table("Metrics of this query", ["backend", ...model.metrics, "hits"], rows, about);
  }

  // Rankings in the order: what is compared with, what is compared, the others.
  columns() {
    const { a, b } = this.selection;
    const others = this.model.paired ? [] : this.model.labels.map((_, ranking) => ranking)
      .filter((ranking) => ranking !== a && ranking !== b);
    return a === b ? [a, ...others] : [a, b, ...others];
  }

  rankings() {
    const groups = this.model.equalRankings(this.query, this.columns());
    const pieces = [];
    groups.forEach((group, at) => {
      if (at > 0) pieces.push(this.moves(groups[at - 1][0], group[0]));
      pieces.push(this.column(group));
    });
    const { depth } = this.model;
    const columns = el("div", { class: "columns" }, ...pieces);
    columns.style.setProperty("--states", Math.max(...groups.map((group) => this.states(group).length)));
    const legend = groups.length < 2 ? null : el("p", { class: "hint" }, "Lines join the same document: solid where it rises, dashed where "
      + `it falls. A number is its rank beyond the first ${depth}, – that it was not found, ? that its rank is not stored.`);
    return el("div", {}, el("div", { class: "scroll rankings", tabindex: "0", role: "region", "aria-label": "Rankings side by side" },
      columns), legend);
  }

  // Rankings that are equal down to the depth shown, as one.
  column(group) {
    const { model, query } = this;
    const [first] = group;
    const name = group.map((ranking) => model.labels[ranking]).join(", ");
    const names = group.map((ranking) => model.names[ranking]);
    const short = names.length > 1 && names.join(", ").length > LONGEST_HEADING ? `${names[0]} + ${names.length - 1} more` : names.join(", ");
    const states = this.states(group);
    const said = states.map((state) => state.said).join("; ");
    const hits = model.top(query, first).map((slot, at) => el("li", {}, this.hit(slot, String(at + 1), `${first} ${at}`)));
    return el("section", { class: "ranking", "aria-label": name },
      el("h4", { title: name }, ...(model.labels.length > 1 ? group.map((ranking) => swatch(model, ranking)) : []), short),
      el("p", { class: states.some(({ bad }) => bad) ? "state bad" : "state", title: said }, ...states.map((state) => el("span", {}, state.said))),
      hits.length ? el("ol", {}, ...hits) : el("p", { class: "empty" }, model.gaveNoAnswer(query, first) ? "no answer" : "found nothing"));
  }

  // The lines below the name of a column: the state of its ranking, or the states of several with the rankings' names.
  states(group) {
    const states = new Map();
    for (const ranking of group) {
      const { said, bad } = this.about(ranking);
      if (!states.has(said)) states.set(said, { bad, names: [] });
      states.get(said).names.push(this.model.names[ranking]);
    }
    return [...states].map(([said, { bad, names }]) => {
      if (group.length === 1 || said === "") return { said, bad };
      return { said: `${states.size === 1 ? "each" : names.join(", ")}: ${said}`, bad };
    });
  }

  // The line about a ranking.
  about(ranking) {
    const { model, query } = this;
    if (model.gaveNoAnswer(query, ranking)) return { said: "! the backend failed: no answer", bad: true };
    if (model.expecting) {
      const rank = model.firstExpected(query, ranking);
      if (rank < 0) return { said: "nothing is expected", bad: false };
      return rank === 0 ? { said: "✕ nothing expected is found", bad: true } : { said: `first expected at rank ${rank}`, bad: model.isMissed(rank, this.selection.metric) };
    }
    const state = query.states?.[ranking] ?? -1;
    if (state >= 0) {
      const bad = state < model.agrees;
      const cause = query.causes[ranking] === null ? "" : `: ${query.causes[ranking]}`;
      return { said: `${model.states[state]}${bad ? " from" : " to"} its exact reference${cause}`, bad };
    }
    if (model.states !== null || !model.judged) return { said: model.states === null ? "" : "no exact reference", bad: false };
    const shown = model.top(query, ranking);
    return { said: `${shown.filter((slot) => !model.isUnjudged(query, slot)).length} of ${shown.length} are judged`, bad: false };
  }

  hit(slot, place, scored = "") {
    const { model, query } = this;
    return el("button", { type: "button", class: "hit", "data-slot": slot, "data-scored": scored, "aria-pressed": "false", onclick: () => this.select(slot) },
      el("span", { class: "rank" }, place), badge(query, slot, model),
      el("span", { class: "doc", title: model.docs[query.docs[slot]] }, model.shortDoc(query.docs[slot])),
      el("span", { class: "score" }), el("span", { class: "snippet", dir: "auto" }));
  }

  text(slot) { return this.model.texts?.get(this.query.docs[slot]); }

  // Write the score and the beginning of the text into a hit, once they are there.
  fill(button) {
    const [ranking, at] = button.dataset.scored.split(" ");
    button.querySelector(".score").textContent = this.query.scores?.[ranking]?.[at] ?? "";
    const text = this.text(Number(button.dataset.slot));
    if (text !== undefined) button.querySelector(".snippet").replaceChildren(...marked(text.slice(0, 160), this.stems));
  }

  moves(from, to) {
    const { model, query } = this;
    const [left, right] = [model.top(query, from), model.top(query, to)];
    const height = Math.max(left.length, right.length, 1) * HIT_HEIGHT;
    const silent = model.gaveNoAnswer(query, from) || model.gaveNoAnswer(query, to);
    const middle = (at) => at * HIT_HEIGHT + HIT_HEIGHT / 2;
    const shapes = [];
    if (!silent) left.forEach((slot, at) => {
      const there = right.indexOf(slot);
      if (there < 0) return shapes.push(...stub(0, middle(at), query.ranks[to][slot], "down", slot));
      const kind = there < at ? "up" : there > at ? "down" : "level";
      return shapes.push(svgEl("line", { x1: 0, y1: middle(at), x2: GUTTER, y2: middle(there), class: `move ${kind}`, "data-slot": slot }));
    });
    if (!silent) right.forEach((slot, at) => {
      if (!left.includes(slot)) shapes.push(...stub(GUTTER, middle(at), query.ranks[from][slot], "up", slot));
    });
    return svgEl("svg", { class: "moves", width: GUTTER, height, viewBox: `0 0 ${GUTTER} ${height}`, "aria-hidden": "true" }, ...shapes);
  }

  // Show a document beside the rankings.
  select(slot) {
    const { model, query } = this;
    this.slot = slot;
    for (const part of this.node.querySelectorAll("[data-slot]")) {
      const chosen = Number(part.getAttribute("data-slot")) === slot;
      part.classList.toggle("chosen", chosen);
      if (part.classList.contains("hit")) part.setAttribute("aria-pressed", String(chosen));
    }
    this.document.classList.toggle("empty", slot < 0);
    if (slot < 0) return this.document.replaceChildren(el("p", {}, "Choose a document to read it here."));
    const text = this.text(slot);
    const ranks = this.columns().map((ranking) => `${model.names[ranking]} ${model.rankText(query, ranking, slot)}`).join(" · ");
    const why = new Explanation(model, query, slot, this.columns()).node(this.explains, (isOpen) => { this.explains = isOpen; });
    const body = text === undefined ? el("p", { class: "empty" }, "The text of this document is not in this file.")
      : el("p", { class: "text", dir: "auto", tabindex: "0" }, ...marked(text, this.stems));
    this.grades = model.grading?.buttons(query, slot, () => this.mark(slot)) ?? null;
    return this.document.replaceChildren(
      el("h4", {}, badge(query, slot, model), el("span", { class: "doc" }, model.docs[query.docs[slot]]),
        el("button", { type: "button", class: "plain-button", "aria-label": "Close this document", onclick: () => this.select(-1) }, "✕")),
      el("p", { class: "ranks" }, `Rank: ${ranks}`), ...[this.grades?.node, why].filter((node) => node), body);
  }

  // Draw the badges of a document again.
  mark(slot) {
    for (const old of this.node.querySelectorAll(`.hit[data-slot="${slot}"] .badge, .document .badge`)) old.replaceWith(badge(this.query, slot, this.model));
  }

  // What the query is expected to find, with its text, and where each ranking and the exact reference have it. Alternatives
  // follow each other, joined by "or"; if one of them is found, the others are not missed.
  expected() {
    const { model, query } = this;
    if (!model.expecting || query.expected.length === 0) return null;
    const graded = query.expected.some(({ grade }) => grade !== 1);
    const cell = (expected, ranking) => {
      const [rank, exact] = [expected.ranks[ranking], expected.reference_ranks[ranking]];
      const reference = exact === null ? null : el("small", {}, `${exact.toLocaleString("en")} in the exact reference`);
      if (rank > 0) return el("td", { class: "number" }, rank.toLocaleString("en"));
      const tone = model.hasExpected(query, ranking, expected) ? "" : " bad";
      return el("td", { class: `number${tone}` }, model.gaveNoAnswer(query, ranking) ? "no answer" : "not found", reference);
    };
    const name = ({ id, slots }, number) => el("th", { scope: "row" }, number > 0 ? "or " : null,
      slots.length === 0 ? id : el("div", { class: "stack" }, ...slots.map((slot) => this.hit(slot, ""))));
    const rows = model.expectedGroups(query).flatMap((group) => group.map((expected, number) => el("tr", {}, name(expected, number),
      graded ? el("td", { class: "number" }, String(expected.grade)) : null,
      ...model.labels.map((_, ranking) => cell(expected, ranking)))));
    const headings = ["expected", ...(graded ? ["grade"] : []), ...model.names];
    const table = this.table("Expected documents", headings, rows, "Expected, and the rank at which it is found");
    table.classList.add("expected");
    return table;
  }

  // Relevant documents below the ranks that are shown.
  missed() {
    const { model, query } = this;
    if (model.expecting) return null;
    const columns = this.columns();
    const shown = new Set(columns.flatMap((ranking) => model.top(query, ranking)));
    const missed = query.docs.map((_, slot) => slot).filter((slot) => model.isRelevant(query, slot) && !shown.has(slot));
    if (missed.length === 0) return null;
    const rows = missed.map((slot, at) => el("tr", { hidden: at >= MISSED_SHOWN }, el("th", { scope: "row" }, this.hit(slot, "")),
      ...columns.map((ranking) => el("td", { class: "number" }, model.rankText(query, ranking, slot)))));
    const table = this.table("Relevant documents further down", ["document", ...columns.map((ranking) => model.names[ranking])], rows,
      "Relevant, but not among the documents above: the rank in each");
    table.classList.add("missed");
    if (missed.length > MISSED_SHOWN) {
      const more = el("button", { type: "button", class: "plain-button", onclick: () => {
        for (const row of rows) row.hidden = false;
        more.remove();
      } }, `Show all ${missed.length.toLocaleString("en")}`);
      table.append(more);
    }
    return table;
  }

  // Arrow keys go from document to document and from ranking to ranking; digits grade, if that is chosen.
  key(event) {
    if (this.slot >= 0 && this.grades?.key(event)) return event.preventDefault();
    const button = event.target.closest(".columns button.hit");
    if (button === null) return;
    const columns = [...this.node.querySelectorAll(".columns .ranking")].map((ranking) => [...ranking.querySelectorAll("button.hit")]);
    const x = columns.findIndex((column) => column.includes(button));
    const y = columns[x].indexOf(button);
    const target = { ArrowDown: [x, y + 1], ArrowUp: [x, y - 1], ArrowLeft: [x - 1, y], ArrowRight: [x + 1, y] }[event.key];
    if (target === undefined) return;
    const column = columns[target[0]] ?? [];
    column[Math.min(target[1], column.length - 1)]?.focus();
    event.preventDefault();
  }
}

function badge(query, slot, model) {
  const grade = model.grade(query, slot);
  const expected = query.further?.[slot];
  if (expected !== undefined) {
    const said = `also ${expected}: a further chunk`;
    return el("span", { class: "badge none", role: "img", title: said, "aria-label": said }, "+");
  }
  if (grade === null && (!model.judged || model.expecting)) return el("span", { class: "badge none" });
  if (grade === null) return el("span", { class: "badge unjudged", role: "img", title: "not judged for this query", "aria-label": "not judged" }, "?");
  const relevant = grade >= model.relevance;
  const byModel = model.gradeByPerson(query, slot) === null;
  const said = `${relevant ? "relevant" : "not relevant"}, grade ${grade}${byModel ? " by a model, not by a person" : ""}`;
  return el("span", { class: `badge ${relevant ? "relevant" : "irrelevant"}${byModel ? " by-model" : ""}`, role: "img", title: said, "aria-label": said }, String(grade));
}

// A document that only one of two neighbouring rankings shows: where the other one has it.
function stub(x, y, rank, kind, slot) {
  const inward = x === 0 ? 1 : -1;
  return [
    svgEl("line", { x1: x, y1: y, x2: x + inward * 14, y2: y, class: `move ${kind}`, "data-slot": slot }),
    svgEl("text", { x: x + inward * 18, y: y + 4, "text-anchor": x === 0 ? "start" : "end", class: "move-rank" }, rank === null ? "?" : rank ? String(rank) : "–"),
  ];
}
