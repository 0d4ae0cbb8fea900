// Elements, and the only way to make them: text is text, whatever it says.

// What can't be seen, or turns text around: shown by its number, so that nothing hides. A joiner between signs that are not
// ASCII is part of how they are written: of one emoji out of several, or of a word of Persian.
const UNSEEN =
  /(?<=^|[\u0000-\u007f\u200b-\u200f])[\u200c\u200d]|[\u200c\u200d](?=$|[\u0000-\u007f\u200b-\u200f])|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Cs}]/gu;

export function visible(text) {
  return String(text)
    .replaceAll("\r\n", "\n")
    .replace(UNSEEN, (sign) => "\\u" + sign.codePointAt(0).toString(16).padStart(4, "0"));
}

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat(2)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// Said to who listens instead of looking.
export function announce(text) {
  byId("said").textContent = visible(text);
}

// What went wrong behind a view that stays; an empty text takes it away.
export function complain(text) {
  byId("fault").textContent = visible(text);
  byId("fault").hidden = !text;
}

// Whether the screen is too narrow for columns: the style says the same.
export const NARROW = matchMedia("(max-width: 900px)");

// How a thread is called: a client's session by what was said first, any other by its name.
export function naming({ name, words, session }) {
  if (!session) return { title: name || "(no name)", under: words ?? "" };
  const about = [session.client, session.project || "project unknown", !session.own && "as unabridged compacted it", session.session.slice(0, 8)];
  return { title: words || name, under: about.filter(Boolean).join(" · ") };
}

// A text as a part of an address.
export function encoded(text) {
  return encodeURIComponent(text.toWellFormed?.() ?? text);
}

// Facts in a line: a name that is written from right to left keeps its letters to itself.
export function joined(facts) {
  return facts.filter(Boolean).map((fact, i) => [i ? " · " : "", el("bdi", {}, fact)]);
}

const NUMBERS = new Intl.NumberFormat("en-US");

export function number(value) {
  return value === null || value === undefined ? "–" : NUMBERS.format(value);
}

export function short(value) {
  if (Math.abs(value) < 10_000) return number(value);
  const [divisor, unit] = Math.abs(value) < 1_000_000 ? [1_000, "k"] : [1_000_000, "M"];
  const scaled = value / divisor;
  return `${scaled < 100 ? scaled.toFixed(1).replace(/\.0$/, "") : Math.round(scaled)}${unit}`;
}

export function bytes(value) {
  for (const unit of ["B", "kB", "MB"]) {
    if (value < 1_000) return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1_000;
  }
  return `${value.toFixed(1)} GB`;
}

export function count(value, word) {
  return `${number(value)} ${word}${value === 1 ? "" : "s"}`;
}

const pad = (value) => String(value).padStart(2, "0");

export function moment(seconds) {
  if (!seconds) return "–";
  const at = new Date(seconds * 1_000);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

export function ago(seconds) {
  if (!seconds) return "–";
  const passed = Date.now() / 1_000 - seconds;
  for (const [size, word] of [[86_400 * 365, "year"], [86_400 * 30, "month"], [86_400, "day"], [3_600, "hour"], [60, "minute"]]) {
    if (passed >= size) return `${count(Math.floor(passed / size), word)} ago`;
  }
  return "just now";
}

export function spans(ranges) {
  return ranges.map(([first, stop]) => (stop - first === 1 ? `${first}` : `${first}–${stop - 1}`)).join(", ") || "none";
}
