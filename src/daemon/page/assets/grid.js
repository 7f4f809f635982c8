// The matrix of clusters and works. The document holds only the visible part.

import { element, icon } from "./dom.js";

const ROW = 36; // height of a row in pixels, as in page.css
const HEAD = { flat: 40, named: 54, upright: 116 }; // height of the heads of columns
const WORDS = 124; // a column of so many pixels has room for every state's word
const FLAT = 72; // and one of so many for a short name above it
const WIDEST = 150;
const NARROW = 40;
const NAMED = 20; // clusters of a shared row that its title names
const EDGE = 4; // rows and columns beyond what can be seen

export class Grid {
  // `open` is called with the cluster and the column of the chosen cell.
  constructor(root, model, open) {
    Object.assign(this, { root, model, open });
    this.view = { rows: [], columns: [], wanted: [], folded: new Map() };
    this.active = { row: 0, column: 0 };
    this.drawn = new Map(); // rows in the document, by cluster
    this.shown = 0; // how many views were shown: a row of an earlier one is drawn again
    this.canvas = element("div", "canvas");
    this.canvas.setAttribute("role", "presentation");
    this.head = element("div", "row head");
    this.head.setAttribute("role", "row");
    this.head.setAttribute("aria-rowindex", "1");
    this.canvas.append(this.head);
    root.append(this.canvas);
    root.addEventListener("scroll", () => this.schedule(), { passive: true });
    root.addEventListener("keydown", (event) => this.onKey(event));
    root.addEventListener("click", (event) => this.onClick(event));
    root.addEventListener("focus", () => this.schedule());
    new ResizeObserver(() => this.schedule()).observe(root);
  }

  show(view) {
    // Keep the active cell if it is still in the view.
    const cluster = this.view.rows[this.active.row];
    const column = this.view.columns[this.active.column];
    this.view = view;
    this.shown += 1;
    const row = view.rows.indexOf(cluster);
    const at = view.columns.indexOf(column);
    this.active.row = row >= 0 ? row : Math.min(this.active.row, Math.max(0, view.rows.length - 1));
    this.active.column = at >= 0 ? at : Math.min(this.active.column, Math.max(0, view.columns.length - 1));
    this.schedule();
  }

  schedule() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  measure() {
    const width = this.root.clientWidth;
    const name = width < 560 ? 132 : 220;
    const count = Math.max(1, this.view.columns.length);
    const room = Math.floor((width - name - 12) / count);
    const column = room >= FLAT ? Math.min(room, WIDEST) : NARROW;
    const flat = column >= FLAT;
    // Two sources may have works with the same name.
    const named = flat && this.model.sources.length > 1;
    const head = named ? HEAD.named : flat ? HEAD.flat : HEAD.upright;
    return { name, column, flat, named, words: column >= WORDS, head };
  }

  draw() {
    const size = this.measure();
    this.size = size;
    const { rows, columns } = this.view;
    this.root.classList.toggle("upright", !size.flat);
    this.root.setAttribute("aria-rowcount", String(rows.length + 1));
    this.root.setAttribute("aria-colcount", String(columns.length + 1));
    this.canvas.style.width = `${size.name + columns.length * size.column + 8}px`;
    this.canvas.style.height = `${size.head + rows.length * ROW + 4}px`;
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.root;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - EDGE);
    const last = Math.min(rows.length, Math.ceil((scrollTop + clientHeight) / ROW) + EDGE);
    const left = Math.max(0, Math.floor(scrollLeft / size.column) - EDGE);
    const right = Math.min(columns.length, Math.ceil((scrollLeft + clientWidth - size.name) / size.column) + EDGE);
    // Rows are reused while the visible columns and their positions stay the same.
    const layout = `${size.name} ${size.column} ${size.head} ${columns.slice(left, right).join()} ${left}`;
    if (layout !== this.layout) {
      this.layout = layout;
      for (const row of this.drawn.values()) row.remove();
      this.drawn.clear();
      this.drawHead(left, right);
    }
    // A row that leaves becomes one that comes: it has the same columns.
    const seen = new Set(rows.slice(first, last));
    const spare = [];
    for (const [cluster, row] of this.drawn) {
      if (seen.has(cluster)) continue;
      spare.push(row);
      this.drawn.delete(cluster);
    }
    for (let at = first; at < last; at += 1) this.drawRow(at, left, right, spare);
    for (const row of spare) row.remove();
    this.markActive();
  }

  drawHead(left, right) {
    const { size } = this;
    this.head.style.height = `${size.head}px`;
    const corner = element("div", "cell corner", "Cluster");
    corner.setAttribute("role", "columnheader");
    corner.setAttribute("aria-colindex", "1");
    corner.style.width = `${size.name}px`;
    const heads = [corner];
    for (let at = left; at < right; at += 1) {
      const { source, work } = this.model.columns[this.view.columns[at]];
      const from = this.model.sources[source].id;
      const head = element("div", "cell column", element("span", "", work), size.named && element("span", "from", from));
      head.setAttribute("role", "columnheader");
      head.setAttribute("aria-colindex", String(at + 2));
      head.title = this.model.sources.length > 1 ? `${work} (${from})` : work;
      head.style.left = `${size.name + at * size.column}px`;
      head.style.width = `${size.column}px`;
      heads.push(head);
    }
    this.head.replaceChildren(...heads);
  }

  drawRow(at, left, right, spare) {
    const cluster = this.view.rows[at];
    let row = this.drawn.get(cluster);
    if (row && row.at === at && row.shown === this.shown) return;
    const isOther = !row;
    if (isOther) {
      row = spare.pop() ?? this.newRow(left, right);
      for (const { cell, column } of row.cells) cell.id = `cell-${cluster}-${column}`;
      if (!row.isConnected) this.canvas.append(row);
      this.drawn.set(cluster, row);
    }
    Object.assign(row, { at, shown: this.shown });
    row.style.top = `${this.size.head + at * ROW}px`;
    row.setAttribute("aria-rowindex", String(at + 2));
    row.classList.toggle("odd", at % 2 === 1);
    const isLost = this.model.lost.has(cluster);
    const name = this.rowName(cluster);
    if (isOther || row.classList.contains("lost") !== isLost || row.dataset.name !== name) {
      row.classList.toggle("lost", isLost);
      row.dataset.name = name;
      this.drawName(row.firstChild, cluster, isLost);
    }
    for (const { cell, column } of row.cells) this.drawCell(cell, { cluster, column, name, isLost, isOther });
  }

  newRow(left, right) {
    const { size } = this;
    const row = element("div", "row");
    row.setAttribute("role", "row");
    const name = element("div", "cell name");
    name.setAttribute("role", "rowheader");
    name.setAttribute("aria-colindex", "1");
    name.style.width = `${size.name}px`;
    row.append(name);
    row.cells = [];
    for (let at = left; at < right; at += 1) {
      const cell = element("div", "cell");
      const column = this.view.columns[at];
      cell.dataset.column = String(column);
      cell.setAttribute("role", "gridcell");
      cell.setAttribute("aria-colindex", String(at + 2));
      cell.style.left = `${size.name + at * size.column}px`;
      cell.style.width = `${size.column}px`;
      row.append(cell);
      row.cells.push({ cell, column });
    }
    return row;
  }

  // The name of a cluster, or of several that share a row.
  rowName(cluster) {
    const all = this.view.folded.get(cluster);
    if (!all) return this.model.clusters[cluster];
    return `${all.length} of ${this.model.groups[this.model.groupsOf[cluster]]}`;
  }

  drawName(cell, cluster, isLost) {
    const name = this.rowName(cluster);
    const all = (this.view.folded.get(cluster) ?? [cluster]).map((one) => this.model.clusters[one]);
    const more = all.length > NAMED ? ` and ${all.length - NAMED} more` : "";
    const names = all.slice(0, NAMED).join(", ") + more;
    cell.title = isLost ? `${names}: the hub cannot reach ${all.length > 1 ? "them" : "it"}` : names;
    cell.replaceChildren(
      element("span", "text", name),
      isLost ? element("span", "lost-mark", icon("lost"), element("span", "unseen", "unreachable")) : "",
    );
  }

  // `isOther`: the cell belonged to another cluster before.
  drawCell(cell, { cluster, column, name, isLost, isOther }) {
    const number = this.model.rows[cluster].get(column);
    const state = number === undefined ? "none" : this.model.states[number];
    const { work } = this.model.columns[column];
    const word = state === "none" ? "no such work" : state;
    const label = `${name}, ${work}: ${word}${isLost ? ", cluster unreachable" : ""}`;
    if (cell.label !== label) {
      cell.label = label;
      cell.setAttribute("aria-label", label);
      cell.title = state === "none" ? "" : `${name} / ${work}: ${word}`;
    }
    const isDim = number !== undefined && !this.view.wanted[number];
    const look = `${state} ${isDim} ${this.size.words}`;
    if (cell.look === look) return;
    // Highlight a cell that changes while it is visible.
    const isNew = !isOther && cell.dataset.state !== undefined && cell.dataset.state !== state;
    cell.look = look;
    cell.dataset.state = state;
    if (state === "none") {
      cell.replaceChildren(element("span", "none", "·"));
      return;
    }
    const mark = element("span", `mark s-${state}${isDim ? " dim" : ""}${isNew ? " new" : ""}`, icon(state));
    if (this.size.words) mark.append(element("span", "word", word));
    cell.replaceChildren(mark);
  }

  markActive() {
    this.root.querySelector(".cell.active")?.classList.remove("active");
    const cell = this.activeCell();
    if (cell) {
      cell.classList.add("active");
      this.root.setAttribute("aria-activedescendant", cell.id);
    } else {
      this.root.removeAttribute("aria-activedescendant");
    }
  }

  activeCell() {
    const cluster = this.view.rows[this.active.row];
    const column = this.view.columns[this.active.column];
    return cluster === undefined ? null : document.getElementById(`cell-${cluster}-${column}`);
  }

  move(row, column) {
    const { rows, columns } = this.view;
    if (rows.length === 0) return;
    this.active.row = Math.max(0, Math.min(rows.length - 1, row));
    this.active.column = Math.max(0, Math.min(columns.length - 1, column));
    this.reveal();
    this.draw();
  }

  // Scrolls until the active cell is fully visible and not covered by headers.
  reveal() {
    const { head, name, column } = this.size ?? this.measure();
    const top = this.active.row * ROW;
    const left = this.active.column * column;
    const height = this.root.clientHeight - head;
    const width = this.root.clientWidth - name;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    if (top + ROW > this.root.scrollTop + height) this.root.scrollTop = top + ROW - height + 6;
    if (left < this.root.scrollLeft) this.root.scrollLeft = left;
    if (left + column > this.root.scrollLeft + width) this.root.scrollLeft = left + column - width + 6;
  }

  // Makes a cell the active one if it is in the view.
  activate(cluster, column) {
    const row = this.view.rows.indexOf(cluster);
    const at = this.view.columns.indexOf(column);
    if (row >= 0 && at >= 0) this.move(row, at);
  }

  onKey(event) {
    if (event.altKey || event.metaKey) return;
    const { row, column } = this.active;
    const page = Math.max(1, Math.floor(this.root.clientHeight / ROW) - 3);
    const ends = event.ctrlKey;
    const moves = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageUp: [row - page, column],
      PageDown: [row + page, column],
      Home: [ends ? 0 : row, 0],
      End: [ends ? this.view.rows.length : row, this.view.columns.length],
    };
    if (event.key === "Enter" || event.key === " ") this.choose();
    else if (moves[event.key]) this.move(...moves[event.key]);
    else return;
    event.preventDefault();
  }

  onClick(event) {
    const cell = event.target.closest(".cell[data-column]");
    if (!cell) return;
    const cluster = [...this.drawn].find(([, row]) => row === cell.parentNode)?.[0];
    this.activate(cluster, Number(cell.dataset.column));
    this.choose();
  }

  choose() {
    const cluster = this.view.rows[this.active.row];
    const column = this.view.columns[this.active.column];
    if (cluster !== undefined && this.model.rows[cluster].has(column)) this.open(cluster, column);
  }
}
