// Queries and rankings as a table of which only the visible rows exist, no higher than its `longest` content. A click on a
// heading sorts. One of its rows is active; arrow keys move it, Enter opens it.

const ROW_HEIGHT = 54;
const HEAD_HEIGHT = 44;
const SPARE_ROWS = 6;

class QueryList {
  // `headings` are the columns: name, tip, and the key by which `sort` orders the rows. `draw` makes the cells of a query.
  constructor(headings, draw, open, sort, longest) {
    this.draw = draw;
    this.open = open;
    this.items = [];
    this.active = 0;
    this.opened = null;
    this.longest = longest;
    this.headings = headings.map(({ name, tip, key }) => el("div", { role: "columnheader", title: tip === name ? null : tip },
      el("button", { type: "button", class: "sort", onclick: () => sort(key) }, el("span", {}, name))));
    this.keys = headings.map(({ key }) => key);
    const head = el("div", { role: "row", class: "head-row", "aria-rowindex": 1 }, ...this.headings);
    this.sizer = el("div", { class: "sizer", role: "rowgroup" });
    this.node = el("div", {
      class: "list", role: "grid", tabindex: "0", "aria-label": "Queries", id: "query-list", "aria-colcount": headings.length,
      onscroll: () => this.render(),
      onkeydown: (event) => this.key(event),
    }, el("div", { class: "head-rows", role: "rowgroup" }, head), this.sizer);
    this.node.style.setProperty("--rankings", Math.max(headings.length - 1, 0));
    new ResizeObserver(() => {
      this.fit();
      this.render();
    }).observe(this.node);
  }

  // As high as all rows, and the bar that scrolls sideways.
  fit() {
    const { offsetHeight, clientHeight } = this.node;
    this.node.style.maxHeight = `${this.longest * ROW_HEIGHT + HEAD_HEIGHT + Math.max(offsetHeight - clientHeight, 2)}px`;
  }

  show(items, keep, sorted) {
    this.node.hidden = items.length === 0;
    this.node.setAttribute("aria-rowcount", items.length + 1);
    this.items = items;
    this.headings.forEach((heading, at) => {
      if (this.keys[at] === sorted.key) heading.setAttribute("aria-sort", sorted.direction > 0 ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    });
    const place = items.indexOf(keep);
    this.active = Math.max(place, 0);
    this.sizer.style.height = `${items.length * ROW_HEIGHT}px`;
    if (place < 0) this.node.scrollTop = 0;
    else this.reveal();
    this.render();
  }

  mark(query) {
    this.opened = query;
    const place = this.items.indexOf(query);
    if (place >= 0) {
      this.active = place;
      this.reveal();
    }
    this.render();
  }

  render() {
    const { scrollTop, clientHeight } = this.node;
    const first = Math.max(Math.floor(scrollTop / ROW_HEIGHT) - SPARE_ROWS, 0);
    const last = Math.min(Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT) + SPARE_ROWS, this.items.length);
    const rows = [];
    for (let at = first; at < last; at += 1) rows.push(this.row(at));
    this.sizer.replaceChildren(...rows);
    if (this.active >= first && this.active < last) this.node.setAttribute("aria-activedescendant", `row-${this.active}`);
    else this.node.removeAttribute("aria-activedescendant");
  }

  row(at) {
    const query = this.items[at];
    const node = el("div", {
      role: "row", id: `row-${at}`, class: at === this.active ? "row active" : "row",
      "aria-selected": String(query === this.opened), "aria-rowindex": at + 2,
      onclick: () => { this.active = at; this.open(query); },
    }, ...this.draw(query));
    node.style.transform = `translateY(${at * ROW_HEIGHT}px)`;
    return node;
  }

  reveal() {
    const top = this.active * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.node;
    if (top < scrollTop) this.node.scrollTop = top;
    else if (top + ROW_HEIGHT + HEAD_HEIGHT > scrollTop + clientHeight) this.node.scrollTop = top + ROW_HEIGHT + HEAD_HEIGHT - clientHeight;
  }

  // Make another row active, `by` rows further.
  move(by) {
    this.active = Math.max(Math.min(this.active + by, this.items.length - 1), 0);
    this.reveal();
    this.render();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.node) return;
    const page = Math.max(Math.floor((this.node.clientHeight - HEAD_HEIGHT) / ROW_HEIGHT) - 1, 1);
    const last = this.items.length - 1;
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.active, End: last };
    if (event.key === "Enter" && last >= 0) this.open(this.items[this.active]);
    else if (event.key in moves) this.move(moves[event.key]);
    else return;
    event.preventDefault();
  }

  neighbour(query, step) {
    const place = this.items.indexOf(query) + step;
    return this.items[place] ?? null;
  }
}
