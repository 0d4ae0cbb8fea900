// One thread: its chart, a slider to any point of it, its compactions, and its messages.
import { perform } from "./actions.js";
import { Chart } from "./chart.js";
import { announce, bytes, count, el, encoded, moment, number, visible } from "./dom.js";
import { MessageList, MessageStore, Reader, turnPlaces } from "./messages.js";
import { source } from "./source.js";
import { showTrial } from "./trial.js";
import { VirtualList } from "./virtual.js";

export const TABS = [["compactions", "Compactions"], ["context", "Context at a point"], ["whole", "Whole conversation"], ["trial", "What if"]];

export function tabBar(tabs, chosen, pick) {
  const bar = el("div", { class: "tabs", role: "tablist" });
  for (const [name, title] of tabs) {
    const tab = el("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(name === chosen), "aria-controls": "panel",
      tabindex: name === chosen ? "0" : "-1", onclick: () => pick(name),
    }, title);
    bar.append(tab);
  }
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(([name]) => name === chosen);
    pick(tabs[(at + step + tabs.length) % tabs.length][0], true);
  });
  return bar;
}

function head(thread, about, reload, go) {
  const may = about.write && !source.frozen;
  const why = source.frozen ? "not in a frozen page" : "start unabridged inspect with --write";
  const button = (name, title, allowed) =>
    el("button", {
      type: "button", id: `do-${name}`, disabled: !allowed, title: allowed ? null : why,
      onclick: async () => {
        if (await perform(name, thread.id)) name === "forget" ? go("#/") : name === "undo" && reload();
      },
    }, title);
  const facts = [
    `namespace ${thread.namespace}`, count(thread.turns, "turn"), `${count(thread.messages, "message")} kept word for word`, bytes(thread.bytes),
    count(thread.count, "compaction"),
  ];
  const last = thread.compactions.at(-1);
  if (last) facts.push(`last ${moment(last.created)}`);
  return el("div", { class: "title" },
    el("div", { class: "names" }, el("h1", { tabindex: "-1", title: thread.name.slice(0, 400) }, thread.name || "(no name)"), el("p", { class: "facts" }, facts.join(" · "))),
    el("div", { class: "actions" }, button("export", "Export…", !source.frozen), button("undo", "Undo…", may && thread.compactions.length), button("forget", "Forget…", may)),
  );
}

function limitsOf(thread) {
  return [...thread.compactions].reverse().find((one) => one.limits)?.limits ?? thread.limits;
}

// Compactions that the first view waits for; the others of a long thread come behind it.
const FIRST = 24;

export async function showThread(main, { route, go, about, replace, left }) {
  const chosen = route.turn !== undefined ? "whole" : route.tab ?? "compactions";
  const all = chosen === "context" || chosen === "trial" || source.frozen;
  const thread = await source.get("thread", { thread: route.thread, ...(all ? {} : { newest: FIRST }) });
  const limits = limitsOf(thread);
  const reader = new Reader();
  const store = new MessageStore(thread.id);
  const at = route.at ?? route.turn ?? thread.turns;

  const slider = el("input", { type: "range", id: "slider", min: "0", max: String(thread.turns), step: "1" });
  slider.value = String(Math.min(at, thread.turns));
  const where = el("output", { for: "slider", id: "where" });
  const draw = () =>
    new Chart({
      turns: thread.turns, compactions: thread.compactions, limits,
      pick: (turn) => move(turn), open: (one) => go(`#/t/${thread.id}/c/${encoded(one.id)}`),
    });
  let chart = draw();

  const panel = el("div", { id: "panel", class: "panel", role: "tabpanel", "aria-labelledby": `tab-${chosen}` });
  const shown = { compactions: showCompactions, context: showContext, whole: showWhole, trial: showTrialTab };
  let follow = () => {};

  function standing(turn) {
    let found = null;
    for (const one of thread.compactions) if (one.turn <= turn) found = one;
    return found;
  }

  function move(turn) {
    slider.value = String(turn);
    slide();
    if (chosen === "compactions" || chosen === "trial") go(`#/t/${thread.id}/context/${turn}`);
  }

  function slide() {
    const turn = Number(slider.value);
    const record = standing(turn);
    const words = record ? `after compaction ${thread.compactions.indexOf(record) + 1} of ${thread.compactions.length}` : "before any compaction";
    where.textContent = `turn ${number(turn)}, ${words}`;
    slider.setAttribute("aria-valuetext", where.textContent);
    chart.setCursor(turn);
    follow(turn, record);
  }

  // Bring in the compactions that the first view did not wait for; lists stay where they are.
  async function complete() {
    Object.assign(thread, await source.get("thread", { thread: thread.id }, left));
    const quiet = follow;
    const drawn = draw();
    chart.box.replaceWith(drawn.box);
    chart = drawn;
    if (chosen === "compactions") {
      panel.replaceChildren();
      showCompactions();
    }
    follow = () => {};
    slide();
    follow = quiet;
  }

  slider.addEventListener("input", slide);
  slider.addEventListener("change", () => {
    const turn = Number(slider.value);
    if (chosen === "context") replace(`#/t/${thread.id}/context/${turn}`);
    else if (chosen !== "whole") go(`#/t/${thread.id}/context/${turn}`, "slider");
  });

  function showCompactions() {
    if (!thread.compactions.length) {
      panel.append(el("p", { class: "hint" }, "There are no compactions that hold: none was made, or all were undone."));
    }
    const rows = [...thread.compactions].reverse();
    const list = new VirtualList({
      label: "Compactions, newest first",
      height: 34,
      render: (index, row) => {
        const one = rows[index];
        const place = thread.compactions.length - index;
        row.classList.add("compaction-row");
        const saved = one.before - one.after;
        row.append(
          el("span", { class: "num place" }, place),
          el("span", { class: `kind ${one.kind}` }, one.kind),
          el("span", { class: "num" }, `turn ${number(one.turn)}`),
          el("span", { class: "num tokens" }, `${number(one.before)} → ${number(one.after)}`),
          bar(one, thread),
          el("span", { class: "num saved" }, `−${Math.round((100 * saved) / Math.max(1, one.before))}%`),
          el("span", { class: "reason" }, one.reason),
          el("span", { class: "soft by" }, one.summariser),
          el("span", { class: "num soft" }, moment(one.created)),
        );
        row.setAttribute("aria-label", visible(`compaction ${place}, ${one.kind} at turn ${one.turn}: ${number(one.before)} to ${number(one.after)} tokens, ${one.reason}`));
      },
      open: (index, opened) => opened && go(`#/t/${thread.id}/c/${encoded(rows[index].id)}`),
    });
    panel.append(list.node);
    list.setCount(rows.length);
    if (thread.others.length) {
      panel.append(el("details", { class: "others" }, el("summary", {}, `${count(thread.others.length, "record")} beside compactions of a client's own`),
        el("ul", {}, ...thread.others.slice(-200).reverse().map((one) => el("li", {}, `${moment(one.created)} ${one.kind}: ${one.reason}`)))));
    }
  }

  function showContext() {
    const list = new MessageList({ label: "The context at this point", store, reader });
    const told = el("p", { class: "facts", id: "context-told" });
    panel.append(el("div", { class: "stepper" }, told), el("div", { class: "split" }, list.node, reader.node));
    let ticket;
    follow = async (turn, record) => {
      const mine = (ticket = {});
      const { rows, next } = record ? await source.get("context", { thread: thread.id, record: record.id }) : { rows: [], next: 0 };
      if (mine !== ticket) return;
      const tail = Math.max(0, turn - next);
      list.setPlaces({
        length: rows.length + tail,
        at: (i) => (i < rows.length ? { turn: rows[i][0], hash: rows[i][1] } : { turn: next + i - rows.length, hash: null }),
      });
      told.textContent = record
        ? `What the model read at turn ${number(turn)}: ${count(rows.length + tail, "message")} in the place of ${number(turn)}. The compaction left ${number(record.after)} tokens.`
        : `What the model read at turn ${number(turn)}: the conversation itself, ${count(turn, "message")}.`;
    };
  }

  function showWhole() {
    const list = new MessageList({
      label: "The whole conversation, replayed", store, reader,
      onread: (place) => {
        slider.value = String(place.turn + 1);
        const quiet = follow;
        follow = () => {};
        slide();
        follow = quiet;
      },
    });
    list.query = route.query ?? "";
    panel.append(
      el("p", { class: "facts" }, "Every turn as it was. What still stands in the context is not in the archive yet."),
      el("div", { class: "split" }, list.node, reader.node),
    );
    list.setPlaces(turnPlaces(thread.turns));
    follow = (turn) => {
      list.list.show(Math.max(0, Math.min(thread.turns - 1, turn - 1)), true);
    };
    if (route.turn !== undefined) {
      slider.value = String(route.turn + 1);
      requestAnimationFrame(() => list.list.choose(Math.min(route.turn, thread.turns - 1), true));
    }
  }

  function showTrialTab() {
    showTrial(panel, thread, limits);
  }

  const jump = (step) => {
    const turn = Number(slider.value);
    const turns = thread.compactions.map((one) => one.turn);
    const next = step > 0 ? turns.find((one) => one > turn) : turns.findLast((one) => one < turn);
    if (next !== undefined) move(next);
  };
  main.append(
    el("div", { class: "page thread" },
      head(thread, about, () => go(location.hash, "", true), go),
      chosen !== "trial" && el("section", { class: "timeline", "aria-label": "Timeline" },
        el("div", { class: "legend" },
          el("span", { class: "key line" }, "tokens in the context"), el("span", { class: "key drop" }, "a compaction"),
          limits?.trigger && el("span", { class: "key trigger" }, `trigger ${number(limits.trigger)}`),
          limits?.budget && el("span", { class: "key budget" }, `budget ${number(limits.budget)}`)),
        chart.box,
        el("div", { class: "slider" }, el("label", { for: "slider", class: "unseen" }, "Point of the conversation"), slider),
        el("div", { class: "slider-told" },
          el("button", { type: "button", id: "previous", title: "the compaction before ([)", onclick: () => jump(-1) }, "‹ compaction"), where,
          el("button", { type: "button", id: "next", title: "the compaction after (])", onclick: () => jump(1) }, "compaction ›")),
      ),
      tabBar(TABS.filter(([name]) => name !== "trial" || !source.frozen), chosen, (name) => go(name === "context" ? `#/t/${thread.id}/context/${slider.value}` : `#/t/${thread.id}/${name}`, `tab-${name}`)),
      panel,
    ),
  );
  shown[chosen]();
  if (route.turn !== undefined) announce(`turn ${route.turn}`);
  return { step: jump, title: thread.name, attached: () => (slide(), thread.more && !all && complete().catch(() => {})) };
}

function bar(one, thread) {
  const most = Math.max(...thread.compactions.slice(-400).map((each) => each.before), 1);
  const after = el("i");
  const before = el("span", { class: "bar", "aria-hidden": "true" }, after);
  before.style.width = `${Math.max(2, (100 * one.before) / most)}%`;
  after.style.width = `${Math.max(1, (100 * one.after) / Math.max(1, one.before))}%`;
  return el("span", { class: "bar-box" }, before);
}
