// One thread: its chart, a slider to any point of it, its compactions, and its messages.
import { perform } from "./actions.js";
import { Chart } from "./chart.js";
import { announce, bytes, complain, count, el, encoded, joined, moment, naming, number, visible } from "./dom.js";
import { forgetPlace } from "./list.js";
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
        if (!(await perform(name, thread.id))) return;
        if (name === "forget") forgetPlace();
        name === "forget" ? go("#/") : name === "undo" && reload();
      },
    }, title);
  const { session } = thread;
  const { title, under } = naming(thread);
  const facts = [
    `namespace ${thread.namespace}`, count(thread.turns, "turn"), `${count(thread.messages, "message")} kept word for word`, bytes(thread.bytes),
    `${count(thread.count, "compaction")}${session?.own ? ` by ${session.client}` : ""}`, `last used ${moment(thread.used)}`,
  ];
  return el("div", { class: "title" },
    el("div", { class: "names" },
      !source.frozen && el("p", { class: "crumb" }, el("a", { href: "#/", id: "back" }, "‹ All threads")),
      el("h1", { tabindex: "-1" }, title),
      (session || under) && el("p", { class: "facts" }, session ? joined([under.slice(0, under.lastIndexOf(" · ")), thread.name]) : ["It begins: ", el("bdi", {}, under)]),
      el("p", { class: "facts" }, joined(facts))),
    el("div", { class: "actions" }, button("export", "Export…", !source.frozen), button("undo", "Undo…", may && thread.compactions.some((one) => !one.client)), button("forget", "Forget…", may)),
  );
}

// Where a compaction is looked at: one of ours has a view of its own, a client's its summary among the messages.
function placeOf(thread, one) {
  return `#/t/${thread.id}/${one.client ? `m/${one.summary}` : `c/${encoded(one.id)}`}`;
}

function limitsOf(thread) {
  return [...thread.compactions].reverse().find((one) => one.limits)?.limits ?? thread.limits;
}

// Compactions that the first view waits for; the others of a long thread come behind it.
const FIRST = 24;
// The compaction that was chosen last: who comes back from it finds it so.
let lastChosen = "";

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
      turns: thread.turns, compactions: thread.compactions, limits, tokens: thread.tokens,
      pick: (turn) => move(turn), open: (one) => go(placeOf(thread, one)),
    });
  let chart = draw();

  const panel = el("div", { id: "panel", class: "panel", role: "tabpanel", "aria-labelledby": `tab-${chosen}` });
  const shown = { compactions: showCompactions, context: showContext, whole: showWhole, trial: showTrialTab };
  let follow = () => {};
  let keyboard = false;

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

  function nextTurn(step) {
    const turn = Number(slider.value);
    const turns = thread.compactions.map((one) => one.turn);
    return step > 0 ? turns.find((one) => one > turn) : turns.findLast((one) => one < turn);
  }

  function jump(step) {
    const turn = nextTurn(step);
    if (turn !== undefined) move(turn);
  }

  const stepper = (id, step, title, words) => el("button", { type: "button", id, title, onclick: () => jump(step) }, words);
  const previous = stepper("previous", -1, "the compaction before ([)", "‹ compaction");
  const next = stepper("next", 1, "the compaction after (])", "compaction ›");

  function slide() {
    const turn = Number(slider.value);
    const record = standing(turn);
    const words = record ? `after compaction ${thread.compactions.indexOf(record) + 1} of ${thread.compactions.length}` : "before any compaction";
    where.textContent = `turn ${number(turn)}, ${words}`;
    slider.setAttribute("aria-valuetext", where.textContent);
    previous.setAttribute("aria-disabled", nextTurn(-1) === undefined);
    next.setAttribute("aria-disabled", nextTurn(1) === undefined);
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
      const inside = panel.contains(document.activeElement);
      panel.replaceChildren();
      showCompactions();
      if (inside) panel.querySelector(".virtual").focus();
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
    const by = thread.session?.own && thread.session.client;
    if (!thread.compactions.length) {
      panel.append(el("p", { class: "hint nothing" }, by
        ? `${by} did not compact this session, as far as it is archived. All of it is under “Whole conversation”.`
        : "No compaction of this thread holds: all were undone. What left its context is under “Whole conversation”."));
    } else if (by) {
      panel.append(el("p", { class: "facts" }, `${by} compacted this session itself. Every message is kept here; a line leads to the summary that took the place of those before it. Tokens are estimated from the messages, without ${by}'s own prompt and tools.`));
    }
    const rows = [...thread.compactions].reverse();
    const list = new VirtualList({
      label: "Compactions, newest first",
      height: 34,
      tall: 76,
      render: (index, row) => {
        const one = rows[index];
        const place = thread.compactions.length - index;
        row.classList.add("compaction-row");
        const saved = Math.min(99, Math.round((100 * (one.before - one.after)) / Math.max(1, one.before)));
        const kind = one.client ? by : one.kind;
        const reason = one.client ? "its own summary" : one.reason;
        row.append(
          el("span", { class: "num place" }, place),
          el("span", { class: `kind ${one.kind}` }, kind),
          el("span", { class: "num" }, `turn ${number(one.turn)}`),
          el("span", { class: "num tokens" }, `${number(one.before)} → ${number(one.after)}`),
          bar(one, thread),
          el("span", { class: "num saved" }, saved > 0 ? `−${saved}%` : ""),
          el("span", { class: "reason" }, reason),
          el("span", { class: "soft by" }, one.summariser),
          el("span", { class: "num soft when" }, moment(one.created)),
        );
        row.setAttribute("aria-label", visible(`compaction ${place}, ${kind} at turn ${one.turn}: ${number(one.before)} to ${number(one.after)} tokens, ${reason}, ${moment(one.created)}`));
      },
      open: (index, opened) => {
        lastChosen = placeOf(thread, rows[index]);
        if (opened) go(lastChosen);
      },
    });
    list.active = rows.findIndex((one) => placeOf(thread, one) === lastChosen);
    if (rows.length) panel.append(list.node);
    list.setCount(rows.length);
    keyboard = list.active >= 0 && list.node;
    if (keyboard) requestAnimationFrame(() => list.show(list.active, true));
    if (thread.others.length) {
      panel.append(el("details", { class: "others" }, el("summary", {}, `${count(thread.others.length, "note")} of the hooks`),
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
      let left = { rows: [], next: record?.summary ?? 0 };
      try {
        if (record && !record.client) left = await source.get("context", { thread: thread.id, record: record.id });
      } catch (error) {
        return complain(`${error.title}. ${error.message}`);
      }
      if (mine !== ticket) return;
      const { rows, next } = left;
      const tail = Math.max(0, turn - next);
      list.setPlaces({
        length: rows.length + tail,
        at: (i) => (i < rows.length ? { turn: rows[i][0], hash: rows[i][1] } : { turn: next + i - rows.length, hash: null }),
      });
      told.textContent = record?.client
        ? `What ${thread.session.client} had at turn ${number(turn)}, at least: its summary and ${count(tail - 1, "message")} after it, in the place of ${number(next)} before. What else it kept beside its summary is in its own file.`
        : record
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
      el("p", { class: "facts" }, thread.session?.own ? "Every message of the session file, in the order of its lines." : "Every turn as it was. What still stands in the context is not in the archive yet."),
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

  const compacted = thread.compactions.length > 0;
  const known = compacted || thread.tokens > 0; // else there is nothing to draw
  main.append(
    el("div", { class: "page thread" },
      head(thread, about, () => go(location.hash, "", true), go),
      chosen !== "trial" && el("section", { class: "timeline", "aria-label": "Timeline" },
        known && el("div", { class: "legend" },
          el("span", { class: "key line" }, thread.session?.own ? "tokens in the context, estimated" : "tokens in the context"),
          el("span", { class: "key drop" }, thread.session?.own ? `a compaction by ${thread.session.client}` : "a compaction"),
          limits?.trigger && el("span", { class: "key trigger" }, `trigger ${number(limits.trigger)}`),
          limits?.budget && el("span", { class: "key budget" }, `budget ${number(limits.budget)}`)),
        known && chart.box,
        el("div", { class: "slider" }, el("label", { for: "slider", class: "unseen" }, "Point of the conversation"), slider),
        el("div", { class: "slider-told" }, compacted && previous, where, compacted && next),
      ),
      tabBar(TABS.filter(([name]) => name !== "trial" || !source.frozen), chosen, (name) => go(name === "context" ? `#/t/${thread.id}/context/${slider.value}` : `#/t/${thread.id}/${name}`, `tab-${name}`)),
      panel,
    ),
  );
  shown[chosen]();
  if (route.turn !== undefined) announce(`turn ${route.turn}`);
  return { step: jump, keyboard, title: naming(thread).title, attached: () => (slide(), thread.more && !all && complete().catch(() => {})) };
}

function bar(one, thread) {
  const most = Math.max(...thread.compactions.slice(-400).map((each) => each.before), 1);
  const after = el("i");
  const before = el("span", { class: "bar", "aria-hidden": "true" }, after);
  before.style.width = `${Math.max(2, (100 * one.before) / most)}%`;
  after.style.width = `${Math.max(1, (100 * one.after) / Math.max(1, one.before))}%`;
  return el("span", { class: "bar-box" }, before);
}
