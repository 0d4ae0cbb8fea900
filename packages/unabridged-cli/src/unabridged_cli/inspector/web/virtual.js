// Long lists: only rows near the eye are elements, and only pages near the eye are asked for.
import { complain, el, NARROW } from "./dom.js";

let lists = 0;

export class VirtualList {
  // `render(index, row)` fills a row; `open(index)` is called for the one that is chosen; `range(first, last)` may fetch.
  // A row is `height` pixels high, on a narrow screen `tall`.
  constructor({ label, height, tall = height, render, open, range }) {
    Object.assign(this, { wide: height, tall, render, open, range, count: 0, active: -1 });
    this.height = NARROW.matches ? tall : height;
    this.name = `list-${++lists}`;
    this.rows = new Map();
    this.free = [];
    this.sizer = el("div", { class: "sizer", role: "presentation" });
    this.node = el("div", { class: "virtual", role: "listbox", tabindex: "0", "aria-label": label }, this.sizer);
    this.node.addEventListener("scroll", () => this.draw(), { passive: true });
    this.node.addEventListener("keydown", (event) => this.#key(event));
    this.node.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.choose(Number(row.dataset.index), true);
    });
    this.watcher = new ResizeObserver(() => {
      const height = NARROW.matches ? this.tall : this.wide;
      if (height === this.height) return this.draw();
      this.height = height;
      this.setCount(this.count);
    });
    this.watcher.observe(this.node);
  }

  setCount(total) {
    this.count = total;
    this.sizer.style.height = `${total * this.height}px`;
    if (this.active >= total) this.active = -1;
    if (this.active < 0) this.node.removeAttribute("aria-activedescendant");
    else this.node.setAttribute("aria-activedescendant", `${this.name}-${this.active}`);
    this.refresh();
  }

  // Draw every row that is there anew.
  refresh() {
    for (const [index, row] of this.rows) this.#recycle(index, row);
    this.draw();
  }

  draw() {
    const seen = this.node.clientHeight || 400;
    const beyond = Math.ceil(seen / this.height);
    const top = Math.floor(this.node.scrollTop / this.height);
    const first = Math.max(0, top - beyond);
    const last = Math.min(this.count, top + 2 * beyond + 1);
    for (const [index, row] of this.rows) if (index < first || index >= last) this.#recycle(index, row);
    for (let index = first; index < last; index++) if (!this.rows.has(index)) this.#place(index);
    if (this.range && last > first) this.range(first, last);
  }

  #place(index) {
    const row = this.free.pop() ?? el("div", { role: "option" });
    row.id = `${this.name}-${index}`;
    row.dataset.index = index;
    row.className = index % 2 ? "row" : "row even";
    row.style.transform = `translateY(${index * this.height}px)`;
    row.style.height = `${this.height}px`;
    row.setAttribute("aria-posinset", index + 1);
    row.setAttribute("aria-setsize", this.count);
    row.setAttribute("aria-selected", index === this.active);
    row.removeAttribute("aria-label");
    row.replaceChildren();
    this.render(index, row);
    this.rows.set(index, row);
    if (!row.isConnected) this.sizer.append(row);
  }

  #recycle(index, row) {
    this.rows.delete(index);
    if (this.free.length < 40) this.free.push(row);
    row.remove();
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.count) return;
    const page = Math.max(1, Math.floor(this.node.clientHeight / this.height) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) {
      event.preventDefault();
      const from = this.active < 0 ? (moves[event.key] > 0 ? -1 : 0) : this.active;
      this.choose(Math.min(this.count - 1, Math.max(0, from + moves[event.key])), false);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.active >= 0) this.open?.(this.active, true);
    }
  }

  // Mark a row and bring it in sight; `opened` also when the person pointed at it.
  choose(index, opened) {
    const before = this.rows.get(this.active);
    this.active = index;
    before?.setAttribute("aria-selected", "false");
    this.show(index);
    this.rows.get(index)?.setAttribute("aria-selected", "true");
    this.node.setAttribute("aria-activedescendant", `${this.name}-${index}`);
    this.open?.(index, opened);
  }

  show(index, middle = false) {
    const top = index * this.height;
    const seen = this.node.clientHeight;
    if (middle) this.node.scrollTop = top - seen / 2 + this.height / 2;
    else if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (top + this.height > this.node.scrollTop + seen) this.node.scrollTop = top + this.height - seen;
    this.draw();
  }
}

export class Pages {
  // Rows by page, asked for when they come near; the newest wish first, a few at a time.
  constructor(size, fetchPage, arrived) {
    Object.assign(this, { size, fetchPage, arrived, rows: new Map(), asked: new Set(), wanted: [], running: 0, dead: false });
  }

  get(index) {
    return this.rows.get(index);
  }

  // What is in sight first, then a page to either side of it.
  want(first, last) {
    const [from, to] = [Math.floor(first / this.size), Math.floor((last - 1) / this.size)];
    const near = Array.from({ length: to - from + 1 }, (_, i) => from + i);
    this.wanted = [...near, to + 1, from - 1].filter((page) => page >= 0 && !this.asked.has(page));
    this.#pump();
  }

  wantEach(indices) {
    const near = [...new Set(indices.map((index) => Math.floor(index / this.size)))];
    this.wanted = [...near, Math.max(...near) + 1, Math.min(...near) - 1].filter((page) => page >= 0 && !this.asked.has(page));
    this.#pump();
  }

  #pump() {
    while (this.running < 3 && this.wanted.length && !this.dead) {
      const page = this.wanted.shift();
      if (this.asked.has(page)) continue;
      this.asked.add(page);
      this.running++;
      this.#fetch(page);
    }
  }

  async #fetch(page) {
    try {
      const rows = await this.fetchPage(page * this.size, this.size);
      for (const [index, row] of rows) this.rows.set(index, row);
      if (this.dead) return;
      complain("");
      this.arrived(page * this.size, (page + 1) * this.size);
    } catch (error) {
      this.asked.delete(page);
      if (!this.dead) complain(`${error.title}. ${error.message}`);
    } finally {
      this.running--;
      this.#pump();
    }
  }
}
