// Where one is: the address decides what is shown, and every place has one.
import { showKeys } from "./actions.js";
import { showCompaction } from "./compaction.js";
import { byId, complain, el, encoded, visible } from "./dom.js";
import { showSearch } from "./find.js";
import { showThreads } from "./list.js";
import { showLive } from "./live.js";
import { source } from "./source.js";
import { showThread, TABS } from "./thread.js";

let about;
let shown = {};
let leave = new AbortController();

function parse(hash) {
  const parts = hash.replace(/^#\/?/, "").split("/");
  const text = (part) => {
    try {
      return decodeURIComponent(part ?? "");
    } catch {
      return "";
    }
  };
  if (parts[0] === "search") return { view: "search", query: text(parts[1]), up: "#/" };
  if (parts[0] === "live") return { view: "live", up: "#/" };
  if (parts[0] !== "t" || !parts[1]) return { view: "threads" };
  const route = { view: "thread", thread: parts[1], up: "#/" };
  if (parts[2] === "c") return { ...route, view: "compaction", record: text(parts[3]), tab: parts[4], up: `#/t/${parts[1]}` };
  if (parts[2] === "m") return { ...route, turn: Number(parts[3]) || 0, query: text(parts[4]) };
  if (TABS.some(([name]) => name === parts[2])) route.tab = parts[2];
  if (parts[2] === "context" && parts[3]) route.at = Number(parts[3]) || 0;
  return route;
}

// Go somewhere; `focus` is the id of what has the keyboard there, the heading where none is named.
function go(hash, focus = "", again = false) {
  shown.focus = focus;
  if (location.hash === hash || again) show();
  else location.hash = hash;
}

// The same place under another address: nothing is drawn anew.
function replace(hash) {
  history.replaceState(null, "", hash);
}

async function show() {
  const main = byId("main");
  const route = parse(location.hash);
  const { focus } = shown;
  leave.abort();
  leave = new AbortController();
  const left = leave.signal;
  shown = { route };
  complain("");
  main.replaceChildren();
  main.dataset.view = "";
  const views = { threads: showThreads, thread: showThread, compaction: showCompaction, search: showSearch, live: showLive };
  const draft = el("div", { class: "draft" });
  try {
    if (!about || route.view === "threads") about = await source.get("archive");
    drawTop(route);
    const waiting = views[route.view](["search", "threads", "live"].includes(route.view) ? main : draft, { route, go, about, replace, left });
    const made = await waiting;
    if (left.aborted) return;
    main.append(...draft.childNodes);
    shown = { ...shown, ...made };
    made?.attached?.();
    document.title = `${visible(made?.title ?? (route.view === "search" ? `search ${route.query}` : "threads")).slice(0, 100)} · unabridged`;
  } catch (error) {
    if (left.aborted) return;
    route.view = "error";
    document.title = `${error.title ?? "error"} · unabridged`;
    main.replaceChildren(el("div", { class: "page" },
      el("h1", { tabindex: "-1" }, error.title ?? "This page has a fault"), el("p", { class: "error" }, error.message),
      el("p", { class: "actions" }, el("button", { type: "button", id: "again", onclick: () => go(location.hash, "", true) }, "Try again"), el("a", { href: "#/" }, "All threads"))));
  }
  main.dataset.view = route.view;
  if (document.activeElement === document.body || focus) {
    const target = (focus && byId(focus)) || shown.keyboard || main.querySelector("h1");
    target?.focus({ preventScroll: target !== shown.keyboard });
  }
}

function drawTop(route) {
  const search = el("input", { type: "search", id: "search", placeholder: source.frozen ? "Search this thread" : "Search all threads", "aria-label": source.frozen ? "Search this thread" : "Search all threads", autocomplete: "off", spellcheck: "false" });
  search.value = route.query ?? "";
  const old = byId("search");
  if (old && document.activeElement === old) return;
  byId("top").replaceChildren(
    el("a", { class: "brand", href: "#/", "aria-label": "unabridged: all threads" }, el("span", { class: "mark", "aria-hidden": "true" }), "unabridged"),
    el("form", {
      role: "search",
      onsubmit: (event) => {
        event.preventDefault();
        const words = search.value.trim();
        search.blur();
        if (words) go(`#/search/${encoded(words)}`);
      },
    }, search, el("kbd", { "aria-hidden": "true" }, "/")),
    ...(about.live ? [el("a", { href: "#/live", id: "live" }, "Live")] : []),
    el("span", { class: "where", title: about.archive }, about.archive),
    el("span", { class: about.write ? "badge write" : "badge" }, source.frozen ? "frozen" : about.write ? "may write" : "read-only"),
    el("button", { type: "button", class: "plain", id: "theme", title: "light, dark, or as the system has it (t)", "aria-label": "Light or dark", onclick: turnTheme }, "◐"),
    el("button", { type: "button", class: "plain", id: "keys", title: "keys (?)", "aria-label": "Keys", onclick: showKeys }, "?"),
  );
}

function turnTheme() {
  const now = document.documentElement.dataset.theme ?? "";
  document.documentElement.dataset.theme = { "": "dark", dark: "light", light: "" }[now];
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=range]), select, textarea");
  if (event.key === "Escape") {
    if (byId("dialog").open) return;
    if (typing) typing.blur();
    else if (shown.route?.up) go(shown.route.up);
    return;
  }
  if (typing || event.altKey || event.ctrlKey || event.metaKey || byId("dialog").open) return;
  const keys = { "/": () => byId("search").select(), "?": showKeys, t: turnTheme, "[": () => shown.step?.(-1), "]": () => shown.step?.(1) };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
window.addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
if (source.frozen && !location.hash) source.get("thread").then((thread) => history.replaceState(null, "", `#/t/${thread.id}`)).then(show);
else show();
