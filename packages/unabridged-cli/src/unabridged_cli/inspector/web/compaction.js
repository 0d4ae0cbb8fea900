// One compaction: before and after side by side, the summary turn, the receipt, and what it cost.
import { count, el, encoded, moment, naming, number, spans, visible } from "./dom.js";
import { fillLine, MessageStore, Reader } from "./messages.js";
import { source } from "./source.js";
import { renderSummary } from "./summary.js";
import { tabBar } from "./thread.js";
import { VirtualList } from "./virtual.js";

const FATES = ["stayed", "cleared", "shortened", "changed", "went", "put in"];
// What became of the turns on a receipt, where none went.
const DONE = { clearing: "were cleared", shortening: "were shortened", repair: "were changed" };
const cls = (fate) => fate.replace(" ", "-");

// Rows of the two lists beside each other: what stayed, or was exchanged, on one line.
function aligned(record) {
  const rows = [];
  const side = ([fate, turn, hash]) => ({ fate, turn, hash, original: Boolean(hash) && turn >= 0 && fate !== "put in" && fate !== "stayed" });
  for (const [turn, hash] of record.head) rows.push([{ fate: "stayed", turn, hash }, { fate: "stayed", turn, hash }]);
  let i = 0;
  let j = 0;
  const { before, after } = record;
  while (i < before.length || j < after.length) {
    const left = before[i];
    const right = after[j];
    if (left && right && left[3] === j && right[3] === i) {
      rows.push([side(left), { ...side(right), original: false }]);
      i++;
      j++;
      continue;
    }
    // Up to the next that stands on both sides, what went stands beside what was put in.
    const went = left && left[3] === null ? side(before[i++]) : null;
    const came = right && right[3] === null ? { ...side(after[j++]), original: false } : null;
    if (went || came) rows.push([went, came]);
    else if (left) rows.push([side(before[i++]), null]);
    else rows.push([null, side(after[j++])]);
  }
  for (const [first, stop] of record.tail) {
    for (let turn = first; turn < stop; turn++) rows.push([{ fate: "stayed", turn, hash: null }, { fate: "stayed", turn, hash: null }]);
  }
  return rows;
}

function cards(record) {
  const { receipt, cache } = record;
  const saved = receipt.tokens_before - receipt.tokens_after;
  const card = (title, value, ...more) => el("div", { class: "card" }, el("h2", {}, title), el("p", { class: "big" }, value), ...more.map((text) => el("p", {}, text)));
  const cost = Object.entries(receipt.cost).map(([name, value]) => `${name.replaceAll("_", " ")} ${Number(value.toPrecision(4)).toLocaleString("en-US")}`);
  const bars = el("div", { class: "two-bars", "aria-hidden": "true" }, el("i", { class: "was" }), el("i", { class: "is" }));
  bars.lastElementChild.style.width = `${Math.max(1, (100 * receipt.tokens_after) / Math.max(1, receipt.tokens_before))}%`;
  const tokens = card("Tokens", `${number(receipt.tokens_before)} → ${number(receipt.tokens_after)}`, `${number(saved)} saved, ${Math.round((100 * saved) / Math.max(1, receipt.tokens_before))}% of the request`);
  tokens.insertBefore(bars, tokens.lastElementChild);
  return el("div", { class: "cards" },
    tokens,
    card("Messages", `${number(receipt.messages_before)} → ${number(receipt.messages_after)}`, `turns ${spans(receipt.turns)} ${DONE[record.kind] ?? "went"}${receipt.edited.length ? `; ${spans(receipt.edited)} cleared or shortened` : ""}`),
    card("Summariser", receipt.summariser, cost.length ? cost.join(", ") : "it took nothing: no model was asked"),
    card("Cache", `${cache.exact ? "≈" : "≤"} ${number(cache.rewritten)} written anew`,
      (cache.kept ? `The first ${count(cache.kept, "message")} stay${cache.kept === 1 ? "s" : ""} byte for byte. ` : "Nothing before it stays as it was. ") +
      (cache.pays_after === null ? "Nothing is saved by later requests." : `Every later request reads ${number(cache.saved)} tokens fewer: earned back after ${count(cache.pays_after, "request")} (a cached token at ${cache.read}, a written one at ${cache.write} of a fresh one).`)),
  );
}

function receiptTable(record) {
  const { receipt } = record;
  const rows = [
    ["why", receipt.reason], ["when", moment(record.created)], ["kind", record.kind], ["record", record.id], ["prior", record.prior ?? "none"],
    [`turns that ${DONE[record.kind] ?? "went"}`, spans(receipt.turns)], ["also cleared or shortened", spans(receipt.edited)], ["tokens", `${number(receipt.tokens_before)} → ${number(receipt.tokens_after)}`],
    ["messages", `${number(receipt.messages_before)} → ${number(receipt.messages_after)}`], ["summariser", receipt.summariser],
    ...Object.entries(receipt.cost).map(([name, value]) => [`cost: ${name.replaceAll("_", " ")}`, String(value)]),
    ...receipt.mended.map((text) => ["mended", text]), ...receipt.notes.map((text) => ["note", text]), ["archive", receipt.archive],
    ["state", record.live ? "holds: found again by its key" : "retired: undone, or replaced"],
  ];
  return el("table", { class: "receipt" }, el("tbody", {}, ...rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)))));
}

export async function showCompaction(main, { route, go }) {
  const [record, thread] = await Promise.all([
    source.get("record", { thread: route.thread, record: route.record }),
    source.get("thread", { thread: route.thread }),
  ]);
  const reader = new Reader();
  const store = new MessageStore(route.thread);
  const rows = aligned(record);
  const name = naming(thread).title;
  const ids = thread.compactions.filter((one) => !one.client).map((one) => one.id);
  const at = ids.indexOf(record.id);
  const tabs = [["sides", "Before and after"], ...(record.summary ? [["summary", "Summary turn"]] : []), ["receipt", "Receipt"]];
  const chosen = tabs.some(([name]) => name === route.tab) ? route.tab : "sides";
  const here = `#/t/${route.thread}/c/${encoded(record.id)}`;
  const panel = el("div", { id: "panel", class: "panel", role: "tabpanel", "aria-labelledby": `tab-${chosen}`, tabindex: chosen === "receipt" && "0" });

  function sides() {
    const list = new VirtualList({
      label: "Before and after, message by message",
      height: 30,
      tall: 60,
      render: (index, row) => {
        row.classList.add("pair");
        const labels = [];
        for (const [place, side] of rows[index].map((one, k) => [one, k ? "after" : "before"])) {
          const cell = el("span", { class: `cell ${place ? cls(place.fate) : "empty"}`, "data-side": side });
          if (place) {
            fillLine(cell, place, store.of(place));
            labels.push(`${side}, ${place.fate}: ${cell.getAttribute("aria-label") ?? ""}`);
            cell.removeAttribute("aria-label");
            cell.append(el("span", { class: "fate" }, place.fate));
          }
          row.append(cell);
        }
        row.setAttribute("aria-label", visible(labels.join("; ")));
      },
      range: (first, last) => store.want(rows.slice(first, last).flat().filter(Boolean)),
      open: (index, opened) => {
        if (opened) reader.reveal();
        const [left, right] = rows[index];
        const both = left && right && right.hash;
        reader.read(route.thread, [left && { ...left, side: `before: ${left.fate}` }, (both || !left) && right && { ...right, side: `after: ${right.fate}` }].filter(Boolean));
      },
    });
    store.listeners.add(() => list.refresh());
    const counts = new Map(FATES.map((fate) => [fate, 0]));
    for (const [left, right] of rows) {
      for (const fate of new Set([left?.fate, right?.fate].filter(Boolean))) counts.set(fate, counts.get(fate) + 1);
    }
    const legend = el("div", { class: "legend" }, ...FATES.filter((fate) => counts.get(fate)).map((fate) =>
      el("button", {
        type: "button", class: `key ${cls(fate)}`, title: "show the next one",
        onclick: () => {
          const next = (i) => rows.findIndex((row, k) => k > i && row.some((place) => place?.fate === fate));
          const found = next(list.active) >= 0 ? next(list.active) : next(-1);
          list.choose(found, true);
          list.show(found, true);
        },
      }, `${fate} ${number(counts.get(fate))}`)));
    panel.append(legend, el("div", { class: "split" },
      el("div", { class: "sides" }, el("div", { class: "columns pair", "aria-hidden": "true" }, el("span", {}, "before"), el("span", {}, "after")), list.node), reader.node));
    list.setCount(rows.length);
  }

  function summary() {
    const follow = (turn) => (reader.reveal(), reader.read(route.thread, [{ turn, hash: null }]));
    panel.append(
      el("p", { class: "facts" }, record.prose ? "Prose by a model, checked; what must be exact is carried beside it. " : "Written without a model. ", "Numbers lead to the messages that the lines came from."),
      el("div", { class: "split" },
        el("div", { class: "summary-turn", tabindex: "0", role: "region", "aria-label": "Summary turn" }, renderSummary(record.summary.text, record.sources, follow)), reader.node),
    );
    reader.clear("Choose a number in the summary to read what it came from.");
  }

  const step = (by) => {
    const next = ids[at + by];
    if (next) go(`#/t/${route.thread}/c/${encoded(next)}${chosen === "sides" ? "" : `/${chosen}`}`, by < 0 ? "previous" : "next");
  };
  const place = at >= 0 ? `Compaction ${at + 1} of ${ids.length}` : "A compaction that was retired";
  main.append(
    el("div", { class: "page compaction" },
      el("div", { class: "title" },
        el("div", { class: "names" },
          el("p", { class: "crumb" }, ...(source.frozen ? [] : [el("a", { href: "#/" }, "‹ All threads"), " "]), el("a", { href: `#/t/${route.thread}` }, "‹ ", el("bdi", {}, name.slice(0, 120)))),
          el("h1", { tabindex: "-1" }, `${place}: ${record.kind}`),
          el("p", { class: "facts" }, `${moment(record.created)} · at turn ${number(record.turn)} · ${record.receipt.reason} · record ${record.id}`)),
        el("div", { class: "actions" },
          el("button", { type: "button", id: "previous", disabled: at <= 0, title: "the one before ([)", onclick: () => step(-1) }, "‹ before"),
          el("button", { type: "button", id: "next", disabled: at < 0 || at >= ids.length - 1, title: "the one after (])", onclick: () => step(1) }, "after ›"))),
      cards(record),
      tabBar(tabs, chosen, (name) => go(`${here}/${name}`, `tab-${name}`)),
      panel,
    ),
  );
  ({ sides, summary, receipt: () => panel.append(receiptTable(record)) })[chosen]();
  return { step, title: `${place} of ${name}` };
}
