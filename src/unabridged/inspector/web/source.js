// Where answers come from: the inspector on this machine, or the data inside a frozen page.
import { byId } from "./dom.js";

class Live {
  frozen = false;

  async get(name, asked = {}, signal = undefined) {
    const response = await fetch(`/api/${name}?${new URLSearchParams(asked)}`, { signal, cache: "no-store" });
    return this.#read(response);
  }

  async post(name, asked = {}) {
    const body = JSON.stringify(asked);
    const headers = { "Content-Type": "application/json" };
    return this.#read(await fetch(`/api/${name}`, { method: "POST", headers, body }));
  }

  async #read(response) {
    const json = (response.headers.get("Content-Type") ?? "").startsWith("application/json");
    const answer = json ? await response.json() : { error: (await response.text()).trim() };
    if (!response.ok) throw new Error(answer.error || `the inspector answered ${response.status}`);
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
        return { total: 1, rows: [{ ...thread, used: thread.compactions.at(-1)?.created, compactions: thread.compactions.length, others: thread.others.length }] };
      case "thread":
        return thread;
      case "record":
        if (!records[asked.record]) throw new Error("this page has no such compaction");
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
      const { id: thread, namespace, name } = this.#data.thread;
      const whose = message.pieces[0].whose;
      found.push({ thread, namespace, name, turn, ref, origin, length, whose, offset, excerpt: text.slice(offset, offset + 400), before: null, after: null, held: held.length });
    }
    return found.sort((one, other) => other.held - one.held || one.turn - other.turn).slice(0, 100);
  }
}

export const source = byId("frozen") ? new Frozen(JSON.parse(byId("frozen").textContent)) : new Live();
