// Judging documents one by one: grades by button or key, kept in the browser and in a file of labels.

const FILE = "labels.jsonl";

class Labels {
  constructor(content) {
    this.content = content;
    this.items = content.queries.flatMap((query) => query.documents.map((document) => ({ query, document, key: JSON.stringify([query.dataset, query.id, document.id]) })));
    this.byKey = new Map(this.items.map((item) => [item.key, item]));
    this.given = new Map();
    this.changes = [];
    this.place = `harness judging ${content.name}`;
    this.isKept = true;
    this.isSaved = true;
    this.by = "";
    this.restore();
  }

  grade(item) { return this.given.get(item.key)?.grade ?? null; }

  get judged() { return this.items.filter((item) => this.given.has(item.key)).length; }

  // One change of several labels at once, which undo takes back as one; a label of undefined removes it.
  change(labels) {
    this.changes.push(labels.map(([key]) => [key, this.given.get(key)]));
    this.put(labels);
  }

  undo() {
    const before = this.changes.pop();
    if (before !== undefined) this.put(before);
    return before === undefined ? null : this.byKey.get(before[0][0]);
  }

  put(labels) {
    for (const [key, label] of labels) {
      if (label === undefined) this.given.delete(key);
      else this.given.set(key, label);
    }
    this.isSaved = false;
    this.keep();
  }

  keep() {
    try {
      localStorage.setItem(this.place, JSON.stringify({ by: this.by, given: [...this.given] }));
    } catch {
      this.isKept = false; // a browser may keep nothing for files
    }
  }

  restore() {
    try {
      const kept = JSON.parse(localStorage.getItem(this.place) ?? "null");
      if (kept === null) return;
      this.by = String(kept.by);
      this.given = new Map(kept.given.filter(([key]) => this.byKey.has(key)));
    } catch {
      this.isKept = false;
    }
  }

  text() {
    const lines = this.items.filter((item) => this.given.has(item.key)).map(({ query, document, key }) => {
      const { grade, by, time } = this.given.get(key);
      return JSON.stringify({ ...(query.dataset === "" ? {} : { dataset: query.dataset }), query_id: query.id, doc_id: document.id, grade, ...(by === "" ? {} : { by }), ...(time === undefined ? {} : { time }), text_digest: document.digest });
    });
    return lines.map((line) => `${line}\n`).join("");
  }

  // Labels of a file: those of documents that are not here, of other texts, and of earlier times are counted and left.
  load(text) {
    const counts = { loaded: 0, foreign: 0, outdated: 0, earlier: 0, malformed: 0 };
    const changed = new Map();
    for (const line of text.split("\n")) {
      if (line.trim() === "") continue;
      const label = parsed(line);
      if (label === null || (label.grade !== null && !Number.isInteger(label.grade))) counts.malformed += 1;
      else if (label.grade !== null) this.take(label, changed, counts);
    }
    if (changed.size > 0) this.change([...changed]);
    return counts;
  }

  take(label, changed, counts) {
    const datasets = label.dataset === undefined || label.dataset === null ? this.content.datasets : [label.dataset];
    const item = datasets.map((dataset) => this.byKey.get(JSON.stringify([dataset, String(label.query_id), String(label.doc_id)]))).find((found) => found !== undefined)
      ?? this.byKey.get(JSON.stringify(["", String(label.query_id), String(label.doc_id)]));
    if (item === undefined) counts.foreign += 1;
    else if (label.text_digest !== undefined && label.text_digest !== null && label.text_digest !== item.document.digest) counts.outdated += 1;
    else {
      const present = changed.get(item.key) ?? this.given.get(item.key);
      if (present !== undefined && moment(present.time) > moment(label.time)) counts.earlier += 1;
      else {
        changed.set(item.key, { grade: label.grade, by: label.by ?? "", time: label.time ?? undefined });
        counts.loaded += 1;
      }
    }
  }
}

function parsed(line) {
  try {
    const label = JSON.parse(line);
    return label !== null && typeof label === "object" && "query_id" in label && "doc_id" in label && "grade" in label ? label : null;
  } catch {
    return null;
  }
}

function moment(time) {
  const parsedTime = Date.parse(time);
  return Number.isNaN(parsedTime) ? -Infinity : parsedTime;
}

class Judging {
  constructor(root, content) {
    this.labels = new Labels(content);
    this.content = content;
    this.position = Math.max(this.unjudged(-1, 1), 0);
    this.status = el("p", { role: "status", class: "status" });
    this.count = el("p", { class: "status", id: "count" });
    this.bar = el("progress", { max: this.labels.items.length, "aria-labelledby": "count" });
    this.name = el("input", { type: "text", autocomplete: "name", value: this.labels.by, oninput: () => { this.labels.by = this.name.value.trim(); this.labels.keep(); } });
    this.file = el("input", { type: "file", accept: ".jsonl,.json,.txt", onchange: () => this.load() });
    const files = el("div", { class: "files" }, el("label", {}, "Your name", this.name),
      el("button", { type: "button", class: "plain-button", onclick: () => this.save() }, "Save labels"),
      el("label", {}, "Load labels", this.file));
    this.query = el("div", { class: "asked" });
    this.document = el("article", { class: "judged-document", tabindex: "-1", "aria-labelledby": "document-name" });
    this.buttons = content.scale.map((grade) => el("button", { type: "button", "aria-pressed": "false", onclick: () => this.give(grade) },
      String(grade), el("small", {}, grade < content.relevance ? "not relevant" : grade === content.relevance ? "relevant" : "more relevant")));
    this.grades = el("div", { class: "grades", role: "group", "aria-label": "Grade" }, ...this.buttons);
    this.back = this.button("Undo", "u", () => this.undo());
    const moves = el("div", { class: "moves-of-judging" }, this.button("Previous", "k", () => this.step(-1)), this.button("Next", "j", () => this.step(1)),
      this.button("Previous unjudged", "p", () => this.seek(-1)), this.button("Next unjudged", "n", () => this.seek(1)), this.back);
    const keys = el("p", { class: "hint" }, "Keys: a digit grades and goes on to the next unjudged document; ", ...this.hint());
    root.replaceChildren(files, el("div", { class: "progress" }, this.count, this.bar), this.status, this.query, this.grades, this.document, moves, keys);
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("beforeunload", (event) => { if (!this.labels.isKept && !this.labels.isSaved) event.preventDefault(); });
    this.show(false);
  }

  hint() {
    const words = { j: "next", k: "previous", n: "next unjudged", p: "previous unjudged", u: "undo" };
    return Object.entries(words).flatMap(([key, word]) => [el("kbd", {}, key), ` ${word}${key === "u" ? "." : ", "}`]);
  }

  button(name, key, act) {
    return el("button", { type: "button", "aria-keyshortcuts": key, onclick: act }, name, " ", el("kbd", { "aria-hidden": "true" }, key));
  }

  get item() { return this.labels.items[this.position]; }

  // The position of the next unjudged document in a direction, around the end; -1 if all are judged.
  unjudged(from, by) {
    const { items } = this.labels;
    for (let moved = 1; moved <= items.length; moved += 1) {
      const position = (((from + by * moved) % items.length) + items.length) % items.length;
      if (!this.labels.given.has(items[position].key)) return position;
    }
    return -1;
  }

  show(focuses) {
    const { query, document: shown } = this.item;
    const { items, judged } = this.labels;
    const ofQuery = query.documents.indexOf(shown) + 1;
    this.count.textContent = `${judged.toLocaleString("en")} of ${counted(items.length, "document")} judged`;
    this.bar.value = judged;
    const several = this.content.datasets.length > 1 ? ` · ${query.dataset}` : "";
    this.query.replaceChildren(el("h2", { dir: "auto" }, query.text || query.id), el("p", {}, `query ${query.id}${several} · document ${ofQuery} of ${query.documents.length}`));
    const cut = shown.cut ? [el("p", { class: "hint" }, "The text goes on: its beginning is shown.")] : [];
    this.document.replaceChildren(el("h3", { id: "document-name" }, `Document ${this.position + 1} of ${items.length}: ${shown.id}`),
      el("p", { class: "text", dir: "auto", tabindex: "0", role: "region", "aria-label": "Text of the document" }, ...marked(shown.text, queryStems(query.text))), ...cut);
    const given = this.labels.grade(this.item);
    this.buttons.forEach((button, number) => button.setAttribute("aria-pressed", String(given === this.content.scale[number])));
    this.back.disabled = this.labels.changes.length === 0;
    if (!this.labels.isKept) this.say("This browser keeps no labels for this file: save them before you close it.");
    if (!focuses) return;
    this.document.focus({ preventScroll: true });
    if (this.query.getBoundingClientRect().top < 0 || this.document.getBoundingClientRect().bottom > innerHeight) this.query.scrollIntoView();
  }

  say(text) { this.status.textContent = text; }

  // The grade of the document shown; the same grade again takes it back.
  give(grade) {
    const { key } = this.item;
    const removes = this.labels.grade(this.item) === grade;
    this.labels.change([[key, removes ? undefined : { grade, by: this.labels.by, time: new Date().toISOString() }]]);
    const next = removes ? this.position : this.unjudged(this.position, 1);
    if (next >= 0) this.position = next;
    this.say(removes ? "Grade taken back." : next < 0 ? "All documents are judged: save the labels." : `Graded ${grade}. ${this.labels.judged} of ${this.labels.items.length} judged.`);
    this.show(true);
  }

  step(by) {
    const position = this.position + by;
    if (position < 0 || position >= this.labels.items.length) return;
    this.position = position;
    this.say("");
    this.show(true);
  }

  seek(by) {
    const position = this.unjudged(this.position, by);
    if (position >= 0) this.position = position;
    this.say(position < 0 ? "All documents are judged." : "");
    this.show(true);
  }

  undo() {
    const item = this.labels.undo();
    if (item === null) return;
    this.position = this.labels.items.indexOf(item);
    this.say("Undone.");
    this.show(true);
  }

  save() {
    if (this.labels.judged === 0) this.say("No document is judged yet.");
    else {
      this.say(`${counted(this.labels.judged, "label")}. ${save(new Blob([this.labels.text()], { type: "application/jsonl" }), FILE)}`);
      this.labels.isSaved = true;
    }
  }

  async load() {
    const [file] = this.file.files;
    if (file === undefined) return;
    const counts = this.labels.load(await file.text());
    this.file.value = "";
    const left = { foreign: "of other documents", outdated: "of texts that have changed", earlier: "earlier than yours", malformed: "malformed" };
    const words = Object.entries(left).filter(([name]) => counts[name] > 0).map(([name, why]) => `${counts[name]} ${why}`);
    this.show(false);
    this.say(`${counted(counts.loaded, "label")} loaded${words.length > 0 ? `; left out: ${words.join(", ")}` : ""}.`);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, summary")) return;
    const moves = { j: () => this.step(1), k: () => this.step(-1), n: () => this.seek(1), p: () => this.seek(-1), u: () => this.undo() };
    const grade = /^[0-9]$/.test(event.key) && this.content.scale.includes(Number(event.key)) ? Number(event.key) : null;
    if (grade !== null) this.give(grade);
    else if (Object.hasOwn(moves, event.key)) moves[event.key]();
    else return;
    event.preventDefault();
  }
}

async function startJudging() {
  const root = document.getElementById("judging");
  if (typeof DecompressionStream === "undefined") root.textContent = "This browser is too old for judging.";
  else new Judging(root, await readData("judging-data"));
  document.documentElement.dataset.ready = "true";
}

startJudging();
