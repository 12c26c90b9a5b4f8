// Tables of the page: sorted by any column, with columns and rows to hide, and copied as CSV and Markdown. Cells that
// are about the queries of a list link to them.

class SortableTable {
  constructor(figure, model) {
    this.table = figure.querySelector("table");
    this.body = this.table.tBodies[0];
    this.rows = [...this.body.rows];
    this.headings = [...this.table.tHead.rows[0].cells];
    this.names = this.headings.map((heading) => fullText(heading).trim().replaceAll("\u00a0", " "));
    this.sorted = { column: -1, direction: 0 };
    if (model !== null) this.link(model);
    if (this.rows.length > 1) this.headings.forEach((heading, column) => this.makeSortable(heading, column));
    this.status = el("span", { role: "status", class: "status" });
    figure.append(el("div", { class: "tools" }, this.menu(), this.copyButton("CSV", csvLine), this.copyButton("Markdown", markdownLine), this.status));
  }

  makeSortable(heading, column) {
    const button = el("button", { type: "button", class: "sort", onclick: () => this.sort(column) }, ...heading.childNodes);
    heading.replaceChildren(button);
  }

  // Sort from the best or the first, then the other way round, then as it was.
  sort(column) {
    const numeric = this.headings[column].classList.contains("number");
    const next = { 0: numeric ? -1 : 1, [numeric ? -1 : 1]: numeric ? 1 : -1, [numeric ? 1 : -1]: 0 };
    const direction = this.sorted.column === column ? next[this.sorted.direction] : next[0];
    this.sorted = { column, direction };
    const rows = direction === 0 ? this.rows : [...this.rows].sort((x, y) => compareCells(x.cells[column], y.cells[column], direction));
    this.body.replaceChildren(...rows);
    this.headings.forEach((heading, at) => {
      if (at === column && direction !== 0) heading.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    });
  }

  menu() {
    const choice = (name, cells) => el("label", {}, el("input", { type: "checkbox", checked: true, onchange: (event) => {
      for (const cell of cells()) cell.hidden = !event.target.checked;
    } }), name);
    const columns = this.names.map((name, at) => choice(name, () => [this.headings[at], ...this.rows.map((row) => row.cells[at])])).slice(1);
    const first = (row) => row.cells[0].querySelector("span").textContent;
    const rows = [...new Set(this.rows.map(first))].map((name) => choice(name, () => this.rows.filter((row) => first(row) === name)));
    return el("details", { class: "menu" }, el("summary", {}, "Columns and rows"),
      el("div", {}, el("fieldset", {}, el("legend", {}, "Columns"), ...columns), el("fieldset", {}, el("legend", {}, "Rows"), ...rows)));
  }

  copyButton(name, line) {
    return el("button", { type: "button", onclick: async () => {
      const said = await navigator.clipboard.writeText(this.text(line)).then(() => `Copied as ${name}.`, () => "The browser does not let this page copy.");
      this.status.textContent = said;
    } }, `Copy ${name}`);
  }

  // What is shown, as lines; `line` writes one from its cells, and says what follows the heading.
  text(line) {
    const visible = this.headings.map((heading) => !heading.hidden);
    const heads = this.names.filter((_, column) => visible[column]);
    const rows = [...this.body.rows].filter((row) => !row.hidden)
      .map((row) => [...row.cells].filter((_, column) => visible[column]).map(cellText));
    return `${[line(heads), ...(line.rule ? [line(heads.map(() => "---"))] : []), ...rows.map(line)].join("\n")}\n`;
  }

  // Means and ids lead to the queries that they are made of.
  link(model) {
    const inTitle = model.metrics.find((name) => this.table.caption.textContent.split(/[ ,]+/).includes(name));
    const longest = [...model.metrics].sort((x, y) => y.length - x.length);
    for (const row of this.rows) {
      const texts = [...row.cells].map((cell) => fullText(cell.querySelector("span")));
      const after = texts[Math.max(0, this.names.indexOf("backend"))].split(" → ").at(-1);
      const inDataset = (name) => model.several && model.datasets.includes(name);
      const ofRow = texts[this.names.indexOf("dataset")];
      const b = [after, `${after} (after)`].find((label) => model.labels.includes(label));
      const inRow = model.metrics.find((name) => name === texts[this.names.indexOf("metric")]);
      texts.forEach((text, column) => {
        const name = this.names[column];
        const span = row.cells[column].querySelector("span");
        const dataset = [name, ofRow].find(inDataset);
        const metric = longest.find((one) => name.startsWith(one)) ?? (name === "difference" ? inRow : inDataset(name) && inTitle);
        if (["query", "question"].includes(name) && model.find(text)) linkTo(span, { q: text });
        else if (b !== undefined && metric && row.cells[column].dataset.value) linkTo(span, { b, metric, ...(dataset && { dataset }) });
      });
    }
  }
}

// Bars and counts of figures lead to their queries too.
function linkFigures(model) {
  for (const part of document.querySelectorAll("svg [data-backend]")) {
    const { backend, reference, metric, queries, dataset } = part.dataset;
    if (!model.labels.includes(backend) || !model.metrics.includes(metric)) continue;
    linkTo(part, { b: backend, metric, ...(reference ? { a: reference } : {}), ...(queries ? { filter: queries } : {}), ...(model.several && dataset ? { dataset } : {}) });
    part.ownerSVGElement.setAttribute("role", "group");
  }
}

function linkTo(node, target) {
  const make = node.namespaceURI === SVG ? svgEl : el;
  const link = make("a", { href: `#${new URLSearchParams(target)}` });
  node.replaceWith(link);
  link.append(node);
}

function compareCells(x, y, direction) {
  const [a, b] = [x, y].map((cell) => (cell.dataset.value === undefined ? cellText(cell) : Number(cell.dataset.value)));
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return direction * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
}

// Text with the labels of backends in full, which the page shortens.
function fullText(node) {
  const whole = node.cloneNode(true);
  for (const label of whole.querySelectorAll?.("abbr") ?? []) label.replaceWith(label.title);
  return whole.textContent;
}

function cellText(cell) {
  return [...cell.childNodes].map((part) => fullText(part).trim()).filter((text) => text !== "").join(" ");
}

function csvLine(cells) {
  return cells.map((text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(",");
}

function markdownLine(cells) {
  return `| ${cells.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
}
markdownLine.rule = true;
