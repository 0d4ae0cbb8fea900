// Messages: kept by turn and by hash, shown in a line each, read whole beside the list.
import { complain, count, el, NARROW, number, visible } from "./dom.js";
import { source } from "./source.js";
import { Pages, VirtualList } from "./virtual.js";

const PAGE = 200;
const WHOSE = { person: "user", model: "assistant", tool: "tool", host: "host", summary: "summary" };

export function whose(message) {
  return WHOSE[message.origin] ?? message.origin ?? message.role;
}

export class MessageStore {
  constructor(thread) {
    this.thread = thread;
    this.listeners = new Set();
    this.turns = new Pages(PAGE, (first, size) => this.#fetch(first, size), () => this.#tell());
    this.byHash = new Map();
    this.waiting = new Set();
  }

  async #fetch(first, size) {
    const { messages } = await source.get("messages", { thread: this.thread, first, last: first + size });
    const rows = new Map();
    for (let turn = first; turn < first + size; turn++) rows.set(turn, []);
    for (const message of messages) rows.get(message.turn)?.push(message);
    return rows;
  }

  // The message of a row: undefined while it is on its way, null where the archive has it not.
  of({ turn, hash, original }) {
    if (hash && !original) return this.byHash.get(hash);
    const versions = this.turns.get(turn);
    const found = versions?.find((one) => !hash || one.hash === hash);
    // A stub has the turn of what it stands for, and is none of its versions.
    return versions && !found && hash ? this.byHash.get(hash) : versions && (found ?? null);
  }

  // Whether it must be asked for by its hash.
  #isPutIn({ turn, hash, original }) {
    return hash && (!original || (this.turns.get(turn) && !this.turns.get(turn).some((one) => one.hash === hash)));
  }

  want(rows) {
    const turns = rows.filter((row) => row.turn >= 0 && (!row.hash || row.original)).map((row) => row.turn);
    if (turns.length) this.turns.wantEach(turns);
    for (const row of rows) if (this.#isPutIn(row) && !this.byHash.has(row.hash)) this.waiting.add(row.hash);
    if (this.waiting.size && !this.busy) this.#fetchHashes();
  }

  async #fetchHashes() {
    this.busy = true;
    const hashes = [...this.waiting].slice(0, 100);
    try {
      const { messages } = await source.get("put-in", { thread: this.thread, hashes: hashes.join(",") });
      for (const hash of hashes) this.byHash.set(hash, null);
      for (const message of messages) this.byHash.set(message.hash, message);
    } catch (error) {
      complain(`${error.title}. ${error.message}`);
      this.busy = false;
      return; // asked for again when a row is drawn
    }
    for (const hash of hashes) this.waiting.delete(hash);
    this.busy = false;
    this.#tell();
    if (this.waiting.size) this.#fetchHashes();
  }

  #tell() {
    for (const listener of this.listeners) listener();
  }
}

export class Reader {
  // The pane in which one message stands whole.
  constructor() {
    this.head = el("h2", { class: "reader-title" }, "Nothing chosen");
    this.body = el("div", { class: "reader-body", tabindex: "0", role: "region", "aria-label": "The message that is chosen" });
    this.node = el("aside", { class: "reader", "aria-label": "Message" }, el("header", {}, this.head), this.body);
    this.clear();
  }

  clear(words = "Choose a message to read it whole.") {
    this.head.textContent = "Message";
    this.body.replaceChildren(el("p", { class: "hint" }, words));
  }

  // Bring it in sight where it stands below the list.
  reveal() {
    if (NARROW.matches) this.node.scrollIntoView({ block: "nearest" });
  }

  // Read a message of a thread; several rows (before and after) stand one below the other.
  async read(thread, rows, mark = "") {
    const ticket = (this.ticket = {});
    const parts = [];
    for (const row of rows) {
      const asked = { thread, turn: row.hash && !row.original ? -1 : row.turn, hash: row.hash ?? "" };
      try {
        let { message } = await source.get("message", asked);
        if (!message && row.original) ({ message } = await source.get("message", { ...asked, turn: -1 }));
        parts.push([row, message, ""]);
      } catch (error) {
        parts.push([row, null, error.message]);
      }
    }
    if (ticket !== this.ticket) return;
    const [first, message] = parts[0];
    const title = first.turn >= 0 ? `Turn ${number(first.turn)}` : message?.summary ? "Summary turn" : "Put in";
    this.head.textContent = title;
    this.body.replaceChildren(...parts.map((part) => this.#part(...part, mark, parts.length > 1)).flat().filter(Boolean));
    this.body.scrollTop = 0;
    const found = this.body.querySelector("mark");
    if (found) this.body.scrollTop = found.offsetTop - this.body.offsetTop - this.body.clientHeight / 3;
  }

  #part(row, message, error, mark, several) {
    const label = several ? el("h3", { class: `fate ${row.fate ?? ""}` }, row.side ?? "") : null;
    if (error) return [label, el("p", { class: "error" }, error)];
    if (!message) {
      return [label, el("p", { class: "hint" }, "It still stands in the context, so it is not in the archive: only what left a context is.")];
    }
    const facts = [whose(message), message.role !== whose(message) && `role ${message.role}`, count(message.length, "character"), message.ref && `ref ${message.ref}`];
    if (message.versions > 1) facts.push(`one of ${message.versions} versions, in branches`);
    return [
      label,
      el("p", { class: "facts" }, el("span", { class: `chip ${message.origin}` }, facts[0]), " ", facts.slice(1).filter(Boolean).join(" · ")),
      ...message.pieces.map((piece) => [
        el("p", { class: "whose" }, piece.whose),
        marked(el("pre", { class: "said" }), piece.text, mark),
        piece.length > piece.text.length && el("p", { class: "hint" }, `${number(piece.length - piece.text.length)} more characters: unabridged read shows them.`),
      ]),
    ].flat();
  }
}

// A text with the words of a query marked in it.
export function marked(node, text, query) {
  const words = [...new Set((query.match(/"[^"]+"|\S+/g) ?? []).map((word) => word.replaceAll('"', "").toLowerCase()))].filter((word) => word.length > 1);
  const low = text.toLowerCase();
  const places = [];
  if (words.length && low.length === text.length) {
    for (const word of words.slice(0, 20)) {
      for (let at = low.indexOf(word), most = 0; at >= 0 && most < 500; at = low.indexOf(word, at + word.length), most++) {
        places.push([at, at + word.length]);
      }
    }
  }
  places.sort((one, other) => one[0] - other[0]);
  let from = 0;
  for (const [start, stop] of places) {
    if (start < from) continue;
    node.append(visible(text.slice(from, start)), el("mark", {}, text.slice(start, stop)));
    from = stop;
  }
  node.append(visible(text.slice(from)));
  return node;
}

// One line of a list: whose words, how they begin, how long they are.
export function fillLine(row, place, message, extra) {
  const turn = el("span", { class: "turn" }, place.turn >= 0 ? number(place.turn) : "·");
  if (place.turn < 0 && !place.hash) message = null;
  if (message === undefined) {
    row.append(turn, el("span", { class: "chip ghost" }, " "), el("span", { class: "text ghost" }, " "));
    return;
  }
  if (message === null) {
    row.append(turn, el("span", { class: "chip none" }, place.hash ? "missing" : place.turn < 0 ? "put in" : "in context"), el("span", { class: "text soft" }, place.hash ? "not in the archive: run unabridged verify" : place.turn < 0 ? "put in by an earlier compaction" : "still stands in the context, so it is not in the archive"));
    return;
  }
  const name = extra ?? (message.summary ? "summary" : whose(message));
  row.append(
    turn,
    el("span", { class: `chip ${extra ? "cleared" : message.origin}` }, name),
    el("span", { class: "text", dir: "auto" }, message.text || "(no text)"),
    el("span", { class: "size" }, number(message.length)),
  );
  row.setAttribute("aria-label", visible(`${place.turn >= 0 ? `turn ${place.turn}, ` : ""}${name}: ${message.text}`));
}

export class MessageList {
  // A list of places, each {turn, hash}, beside a reader.
  constructor({ label, store, reader, onread }) {
    Object.assign(this, { store, reader, places: { length: 0, at: () => null } });
    this.list = new VirtualList({
      label,
      height: 30,
      render: (index, row) => {
        const place = this.places.at(index);
        row.classList.toggle("put", Boolean(place.hash));
        fillLine(row, place, store.of(place), place.hash && place.turn >= 0 ? "cleared" : undefined);
      },
      range: (first, last) => store.want(Array.from({ length: last - first }, (_, i) => this.places.at(first + i))),
      open: (index, opened) => {
        const place = this.places.at(index);
        reader.read(store.thread, [place], this.query ?? "");
        if (opened) reader.reveal();
        onread?.(place);
      },
    });
    this.node = this.list.node;
    this.hear = () => this.list.refresh();
    store.listeners.add(this.hear);
  }

  setPlaces(places) {
    this.places = places;
    this.list.setCount(places.length);
  }
}

export function turnPlaces(total) {
  return { length: total, at: (turn) => ({ turn, hash: null }) };
}
