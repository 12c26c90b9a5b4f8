// Judging documents one by one: grades by button or key, kept in the browser and in a file of labels.

const FILE = "labels.jsonl";
const KEPT_FIELDS = ["grade", "by", "time", "text_digest", "model", "prompt_digest"];
const TEXT_FIELDS = ["dataset", "query_id", "doc_id", "by", "time", "text_digest", "model", "prompt_digest"];
const LARGEST_GRADE = 2 ** 31;
const LONGEST_VALUE = 40;
const MOST_PROBLEMS = 5;
const TIME = /^(\d{4})(-?)(\d\d)\2(\d\d)(?:[T ](\d\d)(?:(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d+))?)?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?)?$/;

const keyOf = (query, document) => JSON.stringify([query.dataset, query.id, document.id]);

// Labels by query and document, of this page and of other pages of the same result, which share the browser's storage.
class Labels {
  constructor({ name, datasets, queries }) {
    this.datasets = datasets;
    this.items = queries.flatMap((query) => query.documents.map((document) => ({ query, document, key: keyOf(query, document) })));
    this.byKey = new Map(this.items.map((item) => [item.key, item]));
    this.given = new Map();
    this.changes = [];
    this.storage = `harness judging ${name}`;
    this.isKept = true;
    this.isSaved = true;
    this.by = "";
    this.restore();
    window.addEventListener("beforeunload", (event) => { if (!this.isKept && !this.isSaved) event.preventDefault(); });
    window.addEventListener("storage", (event) => {
      if (event.key !== this.storage) return;
      this.restore();
      this.onrestore?.();
    });
  }

  // The grade of a document: its judgment in the result, which labels cannot change, or its label.
  grade({ document, key }) { return document.grade ?? this.given.get(key)?.grade ?? null; }

  // Give a grade, or take it back if the document has it; returns whether it was taken back.
  toggle(item, grade) {
    const removes = this.grade(item) === grade;
    this.change([[item.key, removes ? undefined : { grade, by: this.by || null, time: new Date().toISOString(), text_digest: item.document.digest }]]);
    return removes;
  }

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
      localStorage.setItem(this.storage, JSON.stringify({ by: this.by, given: [...this.given] }));
    } catch {
      this.isKept = false; // a browser may keep nothing for files
    }
  }

  restore() {
    try {
      const kept = JSON.parse(localStorage.getItem(this.storage) ?? "null");
      if (kept === null) return;
      this.by = String(kept.by);
      this.given = new Map(kept.given.filter(([key, label]) => this.isOfText(this.byKey.get(key), label)));
    } catch {
      this.isKept = false;
    }
  }

  // Whether a label is of the present text, as far as that is known.
  isOfText(item, { text_digest: digest }) { return item === undefined || digest === undefined || digest === null || digest === item.document.digest; }

  // Put the name that was entered under grades given before it; returns how many have none.
  sign() {
    const unsigned = [...this.given].filter(([, { by }]) => by === null);
    if (this.by === "") return unsigned.length;
    for (const [key, label] of unsigned) this.given.set(key, { ...label, by: this.by });
    this.keep();
    return 0;
  }

  text() {
    const lines = [...this.given].map(([key, { by, ...label }]) => {
      const [dataset, query, doc] = JSON.parse(key);
      return JSON.stringify({ ...(dataset === "" ? {} : { dataset }), query_id: query, doc_id: doc, ...(by ? { by } : {}), ...label });
    });
    return lines.map((line) => `${line}\n`).join("");
  }

  // Labels of a file: those of documents that are not here, of other texts, and of earlier times are counted and left.
  // So are lines that --labels would refuse: these are named, each with its number and the reason.
  load(text) {
    const counts = { loaded: 0, foreign: 0, outdated: 0, earlier: 0 };
    const problems = [], changed = new Map(), grades = new Map();
    text.split("\n").forEach((line, number) => {
      if (line.trim() === "") return;
      try {
        const label = readLabel(line);
        if (label.grade !== null) this.take(label, changed, counts, grades);
      } catch (error) {
        if (!(error instanceof InvalidLabel)) throw error;
        problems.push(`line ${number + 1}: ${error.message}`);
      }
    });
    if (changed.size > 0) this.change([...changed]);
    return { ...counts, problems };
  }

  take(label, changed, counts, grades) {
    this.requireConsistent(label, grades);
    const datasets = label.dataset === undefined ? this.datasets : [label.dataset];
    const item = [...datasets, ""].map((dataset) => this.byKey.get(keyOf({ dataset, id: label.query_id }, { id: label.doc_id }))).find((found) => found !== undefined);
    if (item === undefined) counts.foreign += 1;
    else if (!this.isOfText(item, label)) counts.outdated += 1;
    else if ((item.document.grade ?? label.grade) !== label.grade) throw new InvalidLabel(`query '${label.query_id}', document '${label.doc_id}': judged ${item.document.grade}, labelled ${label.grade}`);
    else {
      const present = changed.get(item.key) ?? this.given.get(item.key);
      if (present !== undefined && moment(present.time) > moment(label.time)) counts.earlier += 1;
      else {
        const fields = KEPT_FIELDS.filter((field) => label[field] !== undefined);
        changed.set(item.key, { by: "", ...Object.fromEntries(fields.map((field) => [field, label[field]])) });
        counts.loaded += 1;
      }
    }
  }

  // Refuse a label that contradicts an earlier line of its file, and one that names none of several datasets.
  requireConsistent(label, grades) {
    const key = JSON.stringify([label.dataset, label.query_id, label.doc_id, label.by, moment(label.time), label.text_digest]);
    const before = grades.get(key);
    grades.set(key, before ?? label.grade);
    const who = label.by === undefined ? "" : ` by '${label.by}' at the same time`;
    if (before !== undefined && before !== label.grade) throw new InvalidLabel(`document '${label.doc_id}' has another grade for query '${label.query_id}' before${who}`);
    if (label.dataset === undefined && this.datasets.length > 1) throw new InvalidLabel(`it names none of ${this.datasets.length} datasets`);
  }
}

class InvalidLabel extends Error {}

// The label of a line, without empty fields; throws what --labels says of a line that it refuses.
function readLabel(line) {
  const record = parsed(line);
  if (record === null || typeof record !== "object" || Array.isArray(record)) throw new InvalidLabel(`${abbreviated(record)} is not an object`);
  for (const name of ["query_id", "doc_id", "grade"]) {
    if (!Object.hasOwn(record, name)) throw new InvalidLabel(`the field '${name}' is missing (there are: ${Object.keys(record).join(", ") || "none"})`);
    if (record[name] === null && name !== "grade") throw new InvalidLabel(`the field '${name}' is null`);
  }
  const texts = TEXT_FIELDS.filter((name) => (record[name] ?? null) !== null).map((name) => [name, textOf(name, record[name])]);
  const label = Object.fromEntries(texts.filter(([name, text]) => text !== "" || !["by", "time", "model"].includes(name)));
  if (label.time !== undefined && Number.isNaN(moment(label.time))) throw new InvalidLabel(`the time '${label.time}' is not of the form 2026-05-01T10:00:00Z`);
  const { grade } = record;
  if (grade !== null && !Number.isInteger(grade)) throw new InvalidLabel(`the grade is ${abbreviated(grade)}, not a whole number`);
  if (grade < -LARGEST_GRADE || grade >= LARGEST_GRADE) throw new InvalidLabel(`the grade is ${abbreviated(grade)}, beyond 32 bits`);
  return { ...label, grade };
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    throw new InvalidLabel("not JSON");
  }
}

// Bytes as text, null if they are not UTF-8.
function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function textOf(name, value) {
  if (typeof value !== "string" && typeof value !== "number") throw new InvalidLabel(`'${name}' is ${abbreviated(value)}, not a text`);
  const text = String(value);
  if (/\p{Surrogate}/u.test(text)) throw new InvalidLabel(`not JSON: '${name}' has half of a character`);
  return text;
}

// A value as a message quotes it.
function abbreviated(value) {
  const text = JSON.stringify(value);
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE - 3)}…`;
}

// Milliseconds of a time, in UTC if it names no zone; -Infinity without a time, NaN for a text that is none.
function moment(time) {
  if (time === undefined || time === null) return -Infinity;
  const [, year, , month, day, hour = "00", , minute = "00", second = "00", fraction = "0", sign, hours = "00", minutes = "00"] = TIME.exec(time) ?? [];
  if (year === undefined || year === "0000" || hours > "23" || minutes > "59") return NaN;
  const text = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const utc = Date.parse(`${text}Z`);
  if (Number.isNaN(utc) || !new Date(utc).toISOString().startsWith(text)) return NaN; // as 31 February
  const offset = (Number(hours) * 60 + Number(minutes)) * (sign === "-" ? -60_000 : 60_000);
  return utc - offset + Number(`0.${fraction}`) * 1000;
}

// Buttons of the grades that can be given, as digits give them too.
class Grades {
  constructor({ scale, relevance }, give) {
    this.scale = scale;
    this.give = give;
    this.buttons = scale.map((grade) => el("button", { type: "button", "aria-pressed": "false", onclick: () => give(grade) },
      String(grade), el("small", {}, grade < relevance ? "not relevant" : grade === relevance ? "relevant" : "more relevant")));
    this.note = el("p", { class: "hint", hidden: true });
    this.node = el("div", { class: "grades", role: "group", "aria-label": "Grade" }, ...this.buttons, this.note);
  }

  // Press the button of a grade; a judgment of the result is fixed.
  show(grade, isFixed) {
    this.buttons.forEach((button, number) => {
      button.setAttribute("aria-pressed", String(grade === this.scale[number]));
      button.disabled = isFixed;
    });
    this.isFixed = isFixed;
    this.note.hidden = !isFixed;
    this.note.textContent = isFixed ? `Judged ${grade} in this result: labels add to judgments, and cannot change them.` : "";
  }

  // Whether a key was a grade.
  key(event) {
    const grade = /^[0-9]$/.test(event.key) ? Number(event.key) : null;
    if (!this.scale.includes(grade)) return false;
    if (!this.isFixed) this.give(grade);
    return true;
  }
}

// One document at a time, below its query: the page of `harness judge`, and the mode of a report.
class Judging {
  constructor(labels, items, content) {
    Object.assign(this, { labels, items, content });
    this.position = Math.max(this.unjudged(-1, 1), 0);
    this.status = el("p", { role: "status", class: "status" });
    this.count = el("p", { class: "status", id: "count" });
    this.bar = el("progress", { max: items.length, "aria-labelledby": "count" });
    this.name = el("input", { type: "text", autocomplete: "name", value: labels.by, oninput: () => { labels.by = this.name.value.trim(); labels.keep(); }, onchange: () => labels.sign() });
    this.file = el("input", { type: "file", accept: ".jsonl,.json,.txt", onchange: () => this.load() });
    const files = el("div", { class: "files" }, el("label", {}, "Your name", this.name),
      el("button", { type: "button", class: "plain-button", onclick: () => this.save() }, "Save labels"),
      el("label", {}, "Load labels", this.file));
    this.query = el("div", { class: "asked" });
    this.document = el("article", { class: "judged-document", tabindex: "-1", "aria-labelledby": "document-name" });
    this.grades = new Grades(content, (grade) => this.give(grade));
    this.back = this.button("Undo", "u", () => this.undo());
    const moves = el("div", { class: "moves-of-judging" }, this.button("Previous", "k", () => this.step(-1)), this.button("Next", "j", () => this.step(1)),
      this.button("Previous unjudged", "p", () => this.seek(-1)), this.button("Next unjudged", "n", () => this.seek(1)), this.back);
    const keys = el("p", { class: "hint" }, "Keys: a digit grades and goes on to the next unjudged document; ", ...this.hint());
    this.node = el("div", { class: "judging" }, files, el("div", { class: "progress" }, this.count, this.bar), this.status, this.query, this.grades.node, this.document, moves, keys);
    labels.onrestore = () => {
      this.name.value = labels.by;
      this.show(false);
    };
    this.show(false);
  }

  hint() {
    const words = { j: "next", k: "previous", n: "next unjudged", p: "previous unjudged", u: "undo" };
    return Object.entries(words).flatMap(([key, word]) => [el("kbd", {}, key), ` ${word}${key === "u" ? "." : ", "}`]);
  }

  button(name, key, act) {
    return el("button", { type: "button", "aria-keyshortcuts": key, onclick: act }, name, " ", el("kbd", { "aria-hidden": "true" }, key));
  }

  get item() { return this.items[this.position]; }

  get judged() { return this.items.filter((item) => this.labels.grade(item) !== null).length; }

  // The position of the next unjudged document in a direction, around the end; -1 if all are judged.
  unjudged(from, by) {
    const { items } = this;
    for (let moved = 1; moved <= items.length; moved += 1) {
      const position = (((from + by * moved) % items.length) + items.length) % items.length;
      if (this.labels.grade(items[position]) === null) return position;
    }
    return -1;
  }

  show(focuses) {
    const { items, judged, item: { query, document: shown } } = this;
    const ofQuery = query.documents.indexOf(shown) + 1;
    this.count.textContent = `${judged.toLocaleString("en")} of ${counted(items.length, "document")} judged`;
    this.bar.value = judged;
    const several = this.content.datasets.length > 1 ? ` · ${query.dataset}` : "";
    this.query.replaceChildren(el("h2", { dir: "auto" }, query.text || query.id), el("p", {}, `query ${query.id}${several} · document ${ofQuery} of ${query.documents.length}`));
    const cut = shown.cut ? [el("p", { class: "hint" }, "The text goes on: its beginning is shown.")] : [];
    this.document.replaceChildren(el("h3", { id: "document-name" }, `Document ${this.position + 1} of ${items.length}: ${shown.id}`),
      el("p", { class: "text", dir: "auto", tabindex: "0", role: "region", "aria-label": "Text of the document" }, ...marked(shown.text, queryStems(query.text))), ...cut);
    this.grades.show(this.labels.grade(this.item), (shown.grade ?? null) !== null);
    this.back.disabled = this.labels.changes.length === 0;
    if (!this.labels.isKept) this.say("This browser keeps no labels for this file: save them before you close it.");
    if (!focuses) return;
    this.document.focus({ preventScroll: true });
    if (this.query.getBoundingClientRect().top < 0 || this.document.getBoundingClientRect().bottom > innerHeight) this.query.scrollIntoView();
  }

  say(text) { this.status.textContent = text; }

  give(grade) {
    const removes = this.labels.toggle(this.item, grade);
    const next = removes ? this.position : this.unjudged(this.position, 1);
    if (next >= 0) this.position = next;
    this.say(removes ? "Grade taken back." : next < 0 ? "All documents are judged: save the labels." : `Graded ${grade}. ${this.judged} of ${this.items.length} judged.`);
    this.show(true);
  }

  step(by) {
    const position = this.position + by;
    if (position < 0 || position >= this.items.length) return;
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
    const position = this.items.indexOf(item);
    if (position >= 0) this.position = position;
    this.say("Undone.");
    this.show(true);
  }

  save() {
    const { labels } = this;
    if (labels.given.size === 0) return this.say("No document is judged yet.");
    const unsigned = labels.sign();
    const saved = save(new Blob([labels.text()], { type: "application/jsonl" }), FILE);
    labels.isSaved = true;
    const advice = unsigned > 0 ? `${counted(unsigned, "label")} without a name: enter yours, and save again. ` : "";
    return this.say(`${counted(labels.given.size, "label")}. ${saved} ${advice}To count them: ${this.content.command} … --labels ${FILE}`);
  }

  async load() {
    const [file] = this.file.files;
    if (file === undefined) return;
    const bytes = await file.arrayBuffer();
    this.file.value = "";
    const text = decoded(bytes);
    if (text === null) this.say("No label is loaded: the file is compressed, or not UTF-8.");
    else this.report(this.labels.load(text));
  }

  report({ problems, ...counts }) {
    const left = { foreign: "of other documents", outdated: "of texts that have changed", earlier: "earlier than yours" };
    const words = Object.entries(left).filter(([name]) => counts[name] > 0).map(([name, why]) => `${counts[name]} ${why}`);
    const further = problems.length > MOST_PROBLEMS ? [`${problems.length - MOST_PROBLEMS} more`] : [];
    if (problems.length > 0) words.push(`${problems.length} invalid (${[...problems.slice(0, MOST_PROBLEMS), ...further].join("; ")})`);
    this.show(false);
    this.say(`${counted(counts.loaded, "label")} loaded${words.length > 0 ? `; left out: ${words.join(", ")}` : ""}.`);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, summary")) return;
    const moves = { j: () => this.step(1), k: () => this.step(-1), n: () => this.seek(1), p: () => this.seek(-1), u: () => this.undo() };
    if (Object.hasOwn(moves, event.key)) moves[event.key]();
    else if (!this.grades.key(event)) return;
    event.preventDefault();
  }
}

// The page of `harness judge`; a report has no such data.
async function startJudging() {
  const root = document.getElementById("judging");
  if (typeof DecompressionStream === "undefined") root.textContent = "This browser is too old for judging.";
  else {
    const content = await readData("judging-data");
    const labels = new Labels(content);
    const judging = new Judging(labels, labels.items, content);
    root.replaceChildren(judging.node);
    document.addEventListener("keydown", (event) => judging.key(event));
  }
  document.documentElement.dataset.ready = "true";
}

if (document.getElementById("judging-data") !== null) startJudging();
