// The saw-tooth: tokens in the context over the turns of a conversation.
import { count, el, NARROW, number, short, svg } from "./dom.js";

const WIDTH = 1000;
const HEIGHT = 220;
const LEFT = () => (NARROW.matches ? 130 : 58); // as --left in the style
const RIGHT = 14;
const TOP = 14;
const BOTTOM = 26;

function ticks(most) {
  let step = 1;
  for (const factor of function* () { for (;;) yield* [2, 2.5, 2]; }()) {
    if (most / step <= 5) break;
    step = Math.round(step * factor);
  }
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

// Points along the way: rising to each compaction, and falling there.
export function sawtooth(compactions, turns, tokens) {
  const points = [[0, 0]];
  for (const { turn, before, after } of compactions) points.push([turn, before], [turn, after]);
  const last = points.at(-1);
  if (tokens || (compactions.length && turns > last[0])) points.push([turns, tokens || last[1]]);
  return points;
}

export class Chart {
  // `pick(turn)` when a place is pointed at, `open(compaction)` when it is one.
  // `tokens` are those at the end, where they are known; `points` are the way itself, where it is.
  constructor({ turns, compactions, limits, tokens, pick, open, other, points, unit = "turn" }) {
    Object.assign(this, { turns: Math.max(1, turns), compactions, pick, open, left: LEFT(), unit });
    const line = points ?? sawtooth(compactions, turns, tokens);
    const shown = [...line.map((point) => point[1]), ...(other ? other.points.map((point) => point[1]) : [])];
    const bounds = [limits?.budget, other?.limits?.budget].filter(Boolean);
    const highest = Math.max(1, ...shown);
    // A budget far above everything would press the line flat: it is told in words then.
    this.most = Math.max(highest, ...bounds.filter((bound) => bound < 3 * highest)) * 1.04;
    const path = (points) => points.map(([turn, tokens]) => `${this.x(turn)},${this.y(tokens)}`).join(" ");
    const rounded = ticks(this.most);
    this.cursor = svg("line", { class: "cursor", x1: -9, x2: -9, y1: TOP, y2: HEIGHT - BOTTOM });
    const said = `Tokens in the context over ${count(turns, unit)}, with ${count(compactions.length, "compaction")}.`;
    this.node = svg(
      "svg",
      { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": said, preserveAspectRatio: "none" },
      ...rounded.map((value) => svg("line", { class: "grid", x1: this.left, x2: WIDTH - RIGHT, y1: this.y(value), y2: this.y(value) })),
      svg("polygon", { class: "area", points: `${this.x(0)},${this.y(0)} ${path(line)} ${this.x(line.at(-1)[0])},${this.y(0)}` }),
      this.#bound("budget", limits?.budget),
      this.#bound("trigger", limits?.trigger),
      svg("polyline", { class: "line", points: path(line) }),
      other && svg("polyline", { class: "line other", points: path(other.points) }),
      other && this.#bound("trigger other", other.limits?.trigger),
      ...compactions.map(({ turn, before, after }) => svg("line", { class: "drop", x1: this.x(turn), x2: this.x(turn), y1: this.y(before), y2: this.y(after) })),
      this.cursor,
    );
    this.labels = el(
      "div",
      { class: "chart-labels", "aria-hidden": "true" },
      ...rounded.map((value) => this.#label("tick-y", this.most >= 10_000 && value ? `${value / 1_000}k` : number(value), null, this.y(value))),
      ...ticks(this.turns).map((value) => this.#label("tick-x", short(value), this.x(value), null)),
    );
    this.tip = el("div", { class: "tip", hidden: true });
    this.box = el("div", { class: "chart-box" }, this.node, this.labels, this.tip);
    this.node.addEventListener("click", (event) => this.#click(event));
    this.node.addEventListener("pointermove", (event) => this.#hover(event));
    this.node.addEventListener("pointerleave", () => (this.tip.hidden = true));
  }

  x(turn) {
    return Math.round((this.left + ((WIDTH - this.left - RIGHT) * turn) / this.turns) * 10) / 10;
  }

  y(tokens) {
    return Math.round((HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * tokens) / this.most) * 10) / 10;
  }

  #bound(kind, value) {
    if (!value || value > this.most) return null;
    return svg("line", { class: `bound ${kind}`, x1: this.left, x2: WIDTH - RIGHT, y1: this.y(value), y2: this.y(value) });
  }

  #label(kind, text, x, y) {
    const label = el("span", { class: kind }, text);
    if (x !== null) label.style.left = `${(100 * x) / WIDTH}%`;
    if (y !== null) label.style.top = `${(100 * y) / HEIGHT}%`;
    return label;
  }

  setCursor(turn) {
    this.cursor.setAttribute("x1", this.x(turn));
    this.cursor.setAttribute("x2", this.x(turn));
  }

  #turnAt(event) {
    const box = this.node.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    return Math.round(Math.min(1, Math.max(0, (x - this.left) / (WIDTH - this.left - RIGHT))) * this.turns);
  }

  #nearest(event) {
    const turn = this.#turnAt(event);
    const reach = this.turns / 120;
    let best = null;
    for (const one of this.compactions) {
      if (Math.abs(one.turn - turn) <= reach && (!best || Math.abs(one.turn - turn) < Math.abs(best.turn - turn))) best = one;
    }
    return best;
  }

  #hover(event) {
    const found = this.#nearest(event);
    this.node.classList.toggle("on", Boolean(found));
    const turn = found ? found.turn : this.#turnAt(event);
    this.tip.textContent = found
      ? `${this.unit} ${number(turn)} · ${found.kind} · ${number(found.before)} → ${number(found.after)} tokens`
      : `${this.unit} ${number(turn)}`;
    this.tip.hidden = false;
    const box = this.node.getBoundingClientRect();
    const at = event.clientX - box.left;
    this.tip.style.left = `${Math.max(Math.min(at, box.width - 140), 90)}px`;
  }

  #click(event) {
    const found = this.#nearest(event);
    if (found && this.open) this.open(found);
    else this.pick?.(this.#turnAt(event));
  }
}
