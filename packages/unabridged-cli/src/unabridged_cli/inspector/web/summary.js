// A summary turn, rendered: headings, lists, quotations, and each entry linked to the message that it came from.
import { el, visible } from "./dom.js";

const TURN = /\[(\d{1,9})(?:-(\d{1,9}))?\]|\bmessage (\d{1,9})\b/g;

// `follow(turn)` shows a message; `sources` leads names back that say no turn.
export function renderSummary(text, sources, follow) {
  const turns = new Map(sources);
  const root = el("div", { class: "rendered" });
  let list = null;
  let fence = null;
  for (const line of text.split("\n")) {
    if (/^\s*~~~/.test(line)) {
      if (fence) fence = null;
      else {
        fence = el("pre", { class: "said" });
        (list?.lastElementChild ?? root).append(fence);
      }
      continue;
    }
    if (fence) {
      fence.append(visible(line), "\n");
      continue;
    }
    const heading = /^(#{1,4}) (.*)$/.exec(line);
    const item = /^(\s*)(?:[-*] |… )(.*)$/.exec(line);
    if (heading) {
      list = null;
      root.append(el(heading[1].length > 2 ? "h4" : "h3", {}, ...linked(heading[2], null, follow)));
    } else if (item) {
      if (!list) root.append((list = el("ul")));
      const between = line.trimStart().startsWith("…");
      list.append(el("li", { class: between ? "between" : null }, ...linked(item[2], turns, follow)));
    } else if (line.trim()) {
      if (list && /^\s/.test(line)) list.lastElementChild.append(el("br"), ...linked(line.trim(), turns, follow));
      else {
        list = null;
        root.append(el("p", { class: /^\[(unabridged|end of) /.test(line) ? "frame" : null }, ...linked(line, null, follow)));
      }
    }
  }
  return root;
}

function link(text, turn, follow) {
  return el("button", { class: "ref", type: "button", title: `read message ${turn}`, onclick: () => follow(turn) }, text);
}

// The text with its turns as links; where it has none, its names are, as the ledger tells them.
function linked(text, turns, follow) {
  const made = [];
  let from = 0;
  for (const found of text.matchAll(TURN)) {
    made.push(...coded(text.slice(from, found.index)), link(found[0], Number(found[1] ?? found[3]), follow));
    from = found.index + found[0].length;
  }
  if (from || !turns?.size) return [...made, ...coded(text.slice(from))];
  for (const word of text.split(/(\s+|, )/)) {
    const bare = word.replace(/[,;:.]$/, "");
    const turn = turns.get(bare) ?? endsLike(turns, bare);
    if (turn !== undefined && turn >= 0) made.push(link(bare, turn, follow), word.slice(bare.length));
    else made.push(visible(word));
  }
  return made;
}

function endsLike(turns, name) {
  if (!name.includes("/") && !name.includes(".")) return undefined;
  for (const [path, turn] of turns) if (path.endsWith(`/${name}`)) return turn;
  return undefined;
}

function coded(text) {
  return text.split(/(`[^`]{1,400}`)/).map((part) => (/^`.*`$/.test(part) ? el("code", {}, part.slice(1, -1)) : visible(part)));
}
