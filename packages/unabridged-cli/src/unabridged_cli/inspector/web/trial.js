// What other settings would have done, without a model: tried on the messages of the thread, stored nowhere.
import { Chart } from "./chart.js";
import { announce, count, el, number } from "./dom.js";
import { source } from "./source.js";

export function showTrial(panel, thread, limits) {
  const field = (name, label, value, hint) => [
    el("label", { for: `trial-${name}` }, label),
    el("input", { id: `trial-${name}`, name, value, autocomplete: "off", spellcheck: "false", "aria-describedby": `hint-${name}` }),
    el("span", { class: "hint", id: `hint-${name}` }, hint),
  ];
  const result = el("div", { class: "trial-result", "aria-live": "polite" });
  const run = el("button", { type: "submit", class: "primary" }, "Try");
  const form = el("form", {
    class: "trial",
    onsubmit: async (event) => {
      event.preventDefault();
      run.disabled = true;
      result.replaceChildren(el("p", { class: "hint" }, "The conversation is fed again, message by message…"));
      try {
        const asked = Object.fromEntries(["window", "trigger", "keep"].map((name) => [name, form.elements[name].value]));
        const found = await source.get("trial", { thread: thread.id, ...asked });
        result.replaceChildren(...told(found, thread, limits));
        announce(`${count(found.compactions.length, "compaction")} with these settings`);
      } catch (error) {
        result.replaceChildren(el("p", { class: "error" }, error.message));
      }
      run.disabled = false;
    },
  },
    ...field("window", "Window", String(limits?.window ?? 32_768), "32768, 32k, 1m"),
    ...field("trigger", "Trigger", "0.85", "0.85, 170k, messages=300, or several with commas"),
    ...field("keep", "Keep", "0.1", "0.1, 8k, messages=20"),
    run,
  );
  panel.append(
    el("p", { class: "facts" }, "The messages that left are fed again to a compactor with these settings and without a model. Nothing is stored, and what still stands in the context is not part of it."),
    form, result,
  );
}

function told(found, thread, limits) {
  const was = thread.compactions;
  const saved = (list) => list.reduce((sum, one) => sum + one.before - one.after, 0);
  const rows = [
    ["compactions", number(was.length), number(found.compactions.length)],
    ["tokens taken out, in all", number(saved(was)), number(saved(found.compactions))],
    ["tokens at the end", number(was.at(-1)?.after), number(found.last)],
    ["trigger", number(limits?.trigger), number(found.limits.trigger)],
    ["budget", number(limits?.budget), number(found.limits.budget)],
    ["tokens sent, in all", "–", `${number(found.sent)} in ${count(found.requests, "request")}`],
  ];
  const chart = new Chart({ turns: Math.max(thread.turns, found.turns), compactions: was, limits, other: found });
  const runs = (messages) => el("table", { class: "compare" }, el("tbody", {}, ...messages.map((run) =>
    el("tr", {}, el("th", { scope: "row" }, run.turns ? `turns ${run.turns.map(number).join(" to ")}` : "put in earlier"),
      el("td", {}, run.fate), el("td", {}, count(run.tokens, "token")), el("td", { class: "why" }, run.why)))));
  const reasons = found.compactions.map((one) => el("details", {},
    el("summary", {}, `Turn ${number(one.turn)}: why each message stayed or went`), runs(one.messages)));
  return [
    found.stopped && el("p", { class: "error" }, `It ended at turn ${number(found.turns)} of ${number(found.of)}: ${found.stopped}`),
    el("div", { class: "legend" }, el("span", { class: "key line" }, "as it was"), el("span", { class: "key other" }, "with these settings")),
    chart.box,
    el("table", { class: "compare" },
      el("thead", {}, el("tr", {}, el("td", {}), el("th", { scope: "col" }, "as it was"), el("th", { scope: "col" }, "with these settings"))),
      el("tbody", {}, ...rows.map(([name, ...values]) => el("tr", {}, el("th", { scope: "row" }, name), ...values.map((value) => el("td", {}, value)))))),
    ...reasons,
  ].filter(Boolean);
}
