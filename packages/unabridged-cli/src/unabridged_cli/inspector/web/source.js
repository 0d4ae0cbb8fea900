// Where answers come from: the inspector on this machine, or the data inside a frozen page.
import { byId } from "./dom.js";

const TITLES = { 0: "The inspector does not answer", 401: "This browser is not known here", 404: "This is not there any more" };
const AWAY = "It was ended, or this machine was asleep. Start unabridged inspect again, and open the address that it prints.";

function fault(words, status) {
  return Object.assign(new Error(words), { title: TITLES[status] ?? "This can't be shown" });
}

class Live {
  frozen = false;

  async get(name, asked = {}, signal = undefined) {
    return this.#ask(`/api/${name}?${new URLSearchParams(asked)}`, { signal, cache: "no-store" });
  }

  async post(name, asked = {}) {
    const body = JSON.stringify(asked);
    const headers = { "Content-Type": "application/json" };
    return this.#ask(`/api/${name}`, { method: "POST", headers, body });
  }

  async #ask(address, options) {
    let response, text;
    try {
      response = await fetch(address, options);
      text = await response.text();
    } catch (error) {
      throw options.signal?.aborted ? error : fault(AWAY, 0);
    }
    const json = (response.headers.get("Content-Type") ?? "").startsWith("application/json");
    const answer = json ? JSON.parse(text) : { error: text.trim() };
    if (!response.ok) throw fault(answer.error || `the inspector answered ${response.status}`, response.status);
    return answer;
  }
}

class Frozen {
  frozen = true;
  #data;

  constructor(data) {
    this.#data = data;
  }

  async get(name, asked = {}) {
    const { about, thread, records, contexts, messages } = this.#data;
    const hashes = new Set((asked.hashes ?? "").split(","));
    switch (name) {
      case "archive":
        return about;
      case "threads":
        return { total: 1, rows: [{ ...thread, compactions: thread.count }] };
      case "thread":
        return thread;
      case "record":
        if (!records[asked.record]) throw fault("this page has no such compaction", 404);
        return records[asked.record];
      case "context":
        return contexts[asked.record];
      case "messages":
        return { messages: messages.filter((one) => one.turn >= asked.first && one.turn < asked.last) };
      case "put-in":
        return { messages: messages.filter((one) => hashes.has(one.hash)).map((one) => ({ ...one, turn: -1 })) };
      case "message": {
        const turn = Number(asked.turn);
        const found = messages.filter((one) => (turn < 0 || one.turn === turn) && (!asked.hash || one.hash === asked.hash));
        return { message: found.length ? { ...found[0], versions: turn < 0 ? 1 : found.length } : null };
      }
      case "search":
        return { found: this.#search(asked.query), searched: 1, total: 1, next: null };
      default:
        throw new Error("a frozen page can't do this: unabridged inspect can");
    }
  }

  #search(query) {
    const words = query.toLowerCase().match(/"[^"]+"|\S+/g)?.map((word) => word.replaceAll('"', "")) ?? [];
    const found = [];
    for (const message of this.#data.messages) {
      if (message.turn < 0) continue;
      const text = message.pieces.map((piece) => piece.text).join("\n");
      const low = text.toLowerCase();
      const held = words.filter((word) => low.includes(word));
      if (!held.length) continue;
      const offset = Math.max(0, low.indexOf(held[0]) - 80);
      const { turn, ref, origin, length } = message;
      const { id: thread, namespace, name, words: first, session, used } = this.#data.thread;
      const whose = message.pieces[0].whose;
      found.push({ thread, namespace, name, words: first, session, used, turn, ref, origin, length, whose, offset, excerpt: text.slice(offset, offset + 400), before: null, after: null, held: held.length });
    }
    return found.sort((one, other) => other.held - one.held || one.turn - other.turn).slice(0, 100);
  }
}

export const source = byId("frozen") ? new Frozen(JSON.parse(byId("frozen").textContent)) : new Live();
