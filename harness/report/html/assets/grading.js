// Judging in a report: the documents shown one by one, without the names of backends, or within the rankings.

const JUDGING_HASH = "judge";
const SEED = 42;

// A number for a text that is close to random: FNV-1a, mixed as MurmurHash3 does at the end.
function mixed(text) {
  let number = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) number = Math.imul(number ^ text.charCodeAt(at), 0x01000193);
  number = Math.imul(number ^ (number >>> 16), 0x85ebca6b);
  number = Math.imul(number ^ (number >>> 13), 0xc2b2ae35);
  return (number ^ (number >>> 16)) >>> 0;
}

class Grading {
  constructor(model, listed, leave) {
    Object.assign(this, { model, listed, leave, judging: null, labels: null });
    this.root = el("section", { id: "judging", "aria-label": "Documents to judge", hidden: true });
    document.querySelector("main").append(this.root);
    this.button = el("button", { type: "button", class: "plain-button", onclick: () => { location.hash = JUDGING_HASH; } }, "Judge the documents shown");
    this.node = el("div", { class: "grading" }, this.button, el("label", { class: "choice" },
      el("input", { type: "checkbox", autocomplete: "off", onchange: (event) => this.gradeInRankings(event.target.checked) }), "Grade in the rankings, with the names of backends"));
  }

  get isOpen() { return this.judging !== null; }

  // Open or close the mode, as the address says; returns whether it is open.
  follow(opens) {
    if (opens && !this.isOpen) this.open();
    else if (!opens && this.isOpen) this.close();
    return opens;
  }

  async prepare() {
    const { model } = this;
    await model.loadDetails();
    if (this.labels !== null) return;
    this.queries = new Map(model.queries.map((query) => [query, this.pooled(query)]));
    this.labels = new Labels({ ...model.judging, datasets: model.datasets, queries: [...this.queries.values()] });
  }

  // A query with the documents that any ranking shows, in an order by seed, and how many of them have no text here.
  pooled(query) {
    const { model } = this;
    const dataset = model.datasets[query.dataset];
    const slots = [...new Set(model.labels.flatMap((_, ranking) => model.top(query, ranking)))];
    const order = new Map(slots.map((slot) => [slot, mixed(JSON.stringify([SEED, dataset, query.id, model.docs[query.docs[slot]]]))]));
    const withText = slots.filter((slot) => model.texts.has(query.docs[slot])).sort((x, y) => order.get(x) - order.get(y));
    const documents = withText.map((slot) => ({ id: model.docs[query.docs[slot]], slot, text: model.texts.get(query.docs[slot]), grade: model.judgment(query, slot), ...model.digests.get(query.docs[slot]) }));
    return { dataset, id: query.id, text: query.text, documents, left: slots.filter((slot) => model.judgment(query, slot) === null && !model.texts.has(query.docs[slot])).length };
  }

  item(query, slot) { return this.labels.byKey.get(keyOf(this.queries.get(query), { id: this.model.docs[query.docs[slot]] })); }

  // The grade of a document by a label, null without one.
  label(query, slot) {
    const item = this.item(query, slot);
    return item === undefined ? null : this.labels.grade(item);
  }

  async open() {
    const { model } = this;
    await this.prepare();
    if (location.hash !== `#${JUDGING_HASH}`) return;
    const queries = this.listed().map((query) => this.queries.get(query));
    const items = queries.flatMap((query) => query.documents.map((document) => this.labels.byKey.get(keyOf(query, document))));
    const left = queries.reduce((sum, query) => sum + query.left, 0);
    const title = el("h1", { tabindex: "-1" }, "Judge the documents shown");
    const lines = [`The first ${model.depth} documents of every backend, query by query, in an order drawn with seed ${SEED}. Which backend returned a document is not shown.`];
    if (left > 0) lines.push(`The texts of ${counted(left, "more unjudged document")} are not in this file: harness judge RESULT, with this result's folder, writes a page that has them.`);
    if (items.length === 0) lines.push("No text of a listed query's documents is in this file.");
    this.root.replaceChildren(el("div", { class: "grading" }, title, el("button", { type: "button", class: "plain-button", "aria-keyshortcuts": "Escape", onclick: () => this.leave() }, "Back to the report")),
      el("p", { class: "lead" }, lines.join(" ")));
    this.judging = items.length === 0 ? { key: () => {} } : new Judging(this.labels, items, { ...model.judging, relevance: model.relevance, datasets: model.datasets });
    if (items.length > 0) this.root.append(this.judging.node);
    this.title = document.title;
    document.title = "Judge documents";
    document.body.classList.add("judges");
    this.root.hidden = false;
    scrollTo({ top: 0, behavior: "instant" });
    title.focus({ preventScroll: true });
  }

  close() {
    this.judging = null;
    this.root.hidden = true;
    document.body.classList.remove("judges");
    document.title = this.title;
    this.button.focus();
  }

  key(event) {
    if (event.key === "Escape") this.leave();
    else this.judging.key(event);
  }

  async gradeInRankings(isChosen) {
    await this.prepare();
    this.model.grading = isChosen ? this : null;
  }

  // Buttons that grade a document where it stands; `changed` draws its badges again.
  buttons(query, slot, changed) {
    const item = this.item(query, slot);
    if (item === undefined) return null;
    const status = el("p", { role: "status", class: "status" });
    const show = () => grades.show(this.labels.grade(item), item.document.grade !== null);
    const grades = new Grades({ ...this.model.judging, relevance: this.model.relevance }, (grade) => {
      status.textContent = this.labels.toggle(item, grade) ? "Grade taken back." : `Graded ${grade}.`;
      show();
      changed();
    });
    show();
    grades.node.append(status);
    return grades;
  }
}
