// Why a document has its rank in each ranking: bars of what terms or lists contribute, in the colours of the pictures.

class Explanation {
  constructor(model, query, slot, rankings) {
    Object.assign(this, { model, query, slot });
    this.found = rankings.map((ranking) => ({ ranking, kind: query.explanation?.of[ranking]?.kind, ...query.explanation?.of[ranking]?.docs[slot] }))
      .filter(({ kind, parts }) => kind !== undefined && parts !== undefined);
  }

  // All of it, as the content of a disclosure; null if nothing is known of how to explain the document.
  node(isOpen, onToggle) {
    const command = this.model.explainCommand(this.query, this.slot);
    if (this.found.length === 0 && command === null) return null;
    const said = this.found.length === 0 ? "This file does not explain this document, but the command does" : "Differences between backends and documents, step by step";
    const result = command?.includes(" RESULT ") ? " (RESULT is the folder of this result):" : ":";
    const details = el("details", { class: "why", open: isOpen, ontoggle: () => onToggle(details.open) }, el("summary", {}, "Why is it ranked there?"),
      this.groups(), this.facts(), command === null ? null : el("p", { class: "hint" }, said + result),
      command === null ? null : el("pre", { class: "command", tabindex: "0" }, command));
    return details;
  }

  // A table with a body for each term of any backend, its rows the backends; and for each fusion, its rows the lists.
  groups() {
    const bodies = [...this.terms(), ...this.sums(), ...this.lists()];
    return bodies.length === 0 ? null : el("table", {}, el("caption", {}, "Contributions to the score"), ...bodies);
  }

  body(name, about, rows) {
    const head = el("tr", {}, el("th", { colspan: "3", scope: "rowgroup" }, el("span", { dir: "auto" }, name), about === "" ? null : el("small", {}, about)));
    return el("tbody", {}, head, ...rows);
  }

  // A bar's length is its share of the largest contribution of its table.
  row(name, ranking, value, largest, note = "") {
    const series = this.model.series(ranking);
    const bar = el("i", { class: value < 0 ? `${series} negative` : series });
    bar.style.setProperty("width", `${(100 * Math.abs(value ?? 0)) / largest}%`);
    return el("tr", {}, el("th", { scope: "row", title: name }, this.swatch(ranking), name),
      el("td", { class: "bars", "aria-hidden": "true" }, value === null ? null : bar),
      el("td", { class: "number" }, value === null ? "–" : signed(value), note === "" ? null : el("small", {}, note)));
  }

  name(ranking) { return this.model.names[ranking]; }

  ofTerms() { return this.found.filter(({ kind }) => kind === "terms"); }

  // Terms, the largest contributions first; facts that are the same in all backends follow the term.
  *terms() {
    const terms = new Map();
    const { parts: entries } = this.query.explanation ?? {};
    for (const { ranking, parts } of this.ofTerms()) {
      for (const [number, contribution, tf] of parts) {
        const [term, ...facts] = entries[number];
        const about = this.aboutTerm(tf, ...facts);
        const rows = terms.get(term) ?? terms.set(term, new Map()).get(term);
        const before = rows.get(ranking)?.contribution ?? 0;
        rows.set(ranking, { contribution: before + contribution, about });
      }
    }
    const size = (rows) => Math.max(...[...rows.values()].map(({ contribution }) => Math.abs(contribution)));
    const largest = Math.max(...[...terms.values()].map(size));
    for (const [term, rows] of [...terms].sort(([, one], [, other]) => size(other) - size(one))) {
      const facts = new Set([...rows.values()].map(({ about }) => about));
      yield this.body(term, facts.size === 1 ? [...facts][0] : "", this.ofTerms().map(({ ranking }) => {
        const { contribution = null, about = "" } = rows.get(ranking) ?? {};
        return this.row(this.name(ranking), ranking, contribution, largest, facts.size === 1 ? "" : about);
      }));
    }
  }

  // The terms of the query that a ranking has in any document of this page.
  termsOf(ranking) {
    const { of, parts: entries } = this.query.explanation;
    return new Set(Object.values(of[ranking].docs).flatMap(({ parts }) => parts.map(([number]) => entries[number][0])));
  }

  lacking({ ranking, parts }) {
    const present = new Set(parts.map(([number]) => this.query.explanation.parts[number][0]));
    return [...this.termsOf(ranking)].filter((term) => !present.has(term));
  }

  aboutTerm(tf, weight, df, documents, idf) {
    const figures = [weight === 1 ? null : `${short(weight)} in the query`, `tf ${short(tf)}`, `df ${df.toLocaleString("en")} of ${documents.toLocaleString("en")}`,
      idf === null ? null : `IDF ${short(idf)}`];
    return figures.filter((figure) => figure !== null).join(" · ");
  }

  *sums() {
    const found = this.ofTerms();
    if (found.length === 0) return;
    yield this.body("sum", "the score of the exact reference", found.map((one) => el("tr", { class: "sum" },
      el("th", { scope: "row", title: this.name(one.ranking) }, this.swatch(one.ranking), this.name(one.ranking)),
      el("td", { class: "number", colspan: "2" }, `${one.exact_score ?? "–"} `, el("small", {}, this.engine(one))))));
  }

  swatch(ranking) { return swatch(this.model, ranking); }

  engine({ score, exact_score: exact }) {
    if (score === undefined) return "not returned";
    return score === exact ? "= engine" : `engine ${score}`;
  }

  *lists() {
    for (const { ranking, kind, parts } of this.found) {
      if (kind !== "fusion" && kind !== "second stage") continue;
      const largest = Math.max(...parts.map(([, contribution]) => Math.abs(contribution ?? 0)));
      const about = kind === "fusion" ? "contributions of its lists" : "ranks before the second stage";
      yield this.body(this.name(ranking), about, parts.map(([number, contribution, rank, score]) => {
        const [list] = this.query.explanation.parts[number];
        const ofList = this.model.labels.indexOf(list);
        const place = rank === null ? "not in it" : `rank ${rank.toLocaleString("en")}, score ${short(score)}`;
        return this.row(ofList < 0 ? list : this.name(ofList), ofList < 0 ? ranking : ofList, rank === null ? null : contribution, largest, place);
      }));
    }
  }

  // Facts about the document in each backend, apart from the contributions.
  facts() {
    const lines = this.found.map((one) => [one.ranking, this.factsOf(one)]).filter(([, facts]) => facts.length > 0);
    if (lines.length === 0) return null;
    return el("ul", {}, ...lines.map(([ranking, facts]) => el("li", {}, this.swatch(ranking), el("b", {}, this.name(ranking)), ` ${facts.join(" · ")}`)));
  }

  factsOf(one) {
    const facts = [];
    if (one.note !== undefined) facts.push(one.note);
    const lacking = one.kind === "terms" ? this.lacking(one) : [];
    if (lacking.length > 0 && lacking.length < this.termsOf(one.ranking).size) facts.push(`lacks ${lacking.join(", ")}`);
    if (one.kind === "vectors") {
      const instead = one.parts.map(([number]) => this.query.explanation.parts[number][0]);
      if (instead.length > 0) facts.push(`returned instead: ${instead.slice(0, 3).join(", ")}${instead.length > 3 ? ", …" : ""}`);
      facts.push(`exact score ${one.exact_score ?? "–"} ${this.engine(one)}`);
      if (one.quantised !== undefined) facts.push(`quantised score ${one.quantised}`);
      if (one.norm !== undefined) facts.push(`norm ${short(one.norm)}`);
    } else if (one.kind !== "terms" && one.score !== undefined) facts.push(`score ${one.score}`);
    if (one.exact_rank !== undefined) facts.push(`exact rank ${one.exact_rank.toLocaleString("en")}`);
    else if (one.exact_score !== undefined) facts.push("exact rank beyond the search depth");
    if (one.length !== undefined) facts.push(`length ${one.length.toLocaleString("en")}${one.stored_length === one.length ? "" : `, scored as ${one.stored_length.toLocaleString("en")}`}`);
    if (one.of_all_documents !== undefined) facts.push(`every document gets ${one.of_all_documents}`);
    return facts;
  }
}

function short(number) { return Number(number.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 6 }); }

function swatch(model, ranking) { return el("i", { class: `swatch ${model.series(ranking)}` }); }
