// A run as it happens: how full each window is, what was compacted, and what that saved.
import { Chart } from "./chart.js";
import { announce, count, el, joined, number, short } from "./dom.js";
import { source } from "./source.js";

const PAUSE = 700;

const dollars = (value) => `$${value.toFixed(value && value < 0.1 ? 4 : 2)}`;

function card(title, value, note) {
  return el("div", { class: "card" }, el("h2", {}, title), el("p", { class: "big" }, value), el("p", {}, note));
}

function totalCards({ requests, compactions, saved, saved_dollars, spent_dollars }) {
  const known = saved_dollars !== null;
  return el("div", { class: "cards" },
    card("Requests", number(requests), ""),
    card("Compactions", number(compactions), ""),
    card("Tokens not sent", short(saved), "had each request carried the whole history"),
    card("Saved", known ? dollars(saved_dollars - spent_dollars) : "–",
      known ? `${dollars(saved_dollars)} for these tokens as cached input, less ${dollars(spent_dollars)} for summaries` : "the price of the model is not known"));
}

function section(thread) {
  const { limits, tokens, compactions } = thread;
  const full = limits.window ? `${Math.round((100 * tokens) / limits.window)} % of ${short(limits.window)} tokens` : "";
  const last = compactions.at(-1);
  const facts = [
    thread.agent, full, count(thread.messages, "message"), count(thread.requests, "request"), count(thread.count, "compaction"),
    last && `last from ${number(last.before)} to ${number(last.after)} tokens (${last.kind}, ${last.summariser})`,
  ];
  const chart = new Chart({ turns: thread.requests, compactions, limits, points: thread.points, unit: "request" });
  return el("section", { class: "live" }, el("h2", {}, thread.name || "A conversation without a name"), el("p", { class: "facts" }, joined(facts)), chart.box);
}

export function showLive(main, { left }) {
  const problem = el("p", { class: "error", hidden: true });
  const from = el("p", { class: "facts" });
  const body = el("div", { class: "live-body", tabindex: "0", role: "region", "aria-label": "The run" }, el("p", { class: "hint" }, "Waiting for the first event…"));
  main.append(el("div", { class: "page search" }, el("div", { class: "title" }, el("div", { class: "names" }, el("h1", { tabindex: "-1" }, "Live"), from)), problem, body));
  let version = -1;
  let compactions = null;

  async function look() {
    let found;
    try {
      found = await source.get("live", { version }, left);
    } catch (error) {
      if (left.aborted) return;
      found = { version, problem: `${error.title}. ${error.message}` };
    }
    if (found.problem !== undefined) {
      problem.textContent = found.problem;
      problem.hidden = !found.problem;
    }
    if (found.version !== version) draw(found);
    if (!left.aborted) setTimeout(look, PAUSE);
  }

  function draw(found) {
    const { totals, threads } = found;
    version = found.version;
    from.textContent = found.source;
    if (!threads.length) return;
    body.replaceChildren(el("div", { class: "legend" }, el("span", { class: "key line" }, "tokens sent"), el("span", { class: "key trigger" }, "trigger"), el("span", { class: "key budget" }, "budget"), el("span", { class: "key drop" }, "a compaction")), totalCards(totals), ...threads.map(section));
    if (compactions !== null && totals.compactions > compactions) announce(count(totals.compactions, "compaction"));
    compactions = totals.compactions;
  }

  look();
  return { title: "live" };
}
