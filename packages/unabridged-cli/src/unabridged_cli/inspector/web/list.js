// All threads: a list that is paged, filtered and put in order by the inspector.
import { ago, announce, bytes, complain, count, el, moment, naming, number, visible } from "./dom.js";
import { source } from "./source.js";
import { Pages, VirtualList } from "./virtual.js";

const SIZE = 100;
const FRESH = { namespace: "", order: "used", contains: "", chosen: "", top: 0 };
// What was asked for, and where in the list one was: who comes back from a thread finds it so.
let asked = { ...FRESH };

export function forgetPlace() {
  asked = { ...FRESH };
}

export function showThreads(main, { go, about }) {
  let pages, latest;
  const list = new VirtualList({
    label: "Threads",
    height: 50,
    tall: 74,
    render: (index, row) => {
      const found = pages?.get(index);
      row.classList.add("thread-row");
      if (!found) {
        row.append(el("span", { class: "name ghost" }, " "));
        return;
      }
      const { title, under } = naming(found);
      const made = found.compactions === null ? "compactions not counted" : count(found.compactions, "compaction");
      row.append(
        el("span", { class: "name", title: found.name },
          el("span", { class: "called", dir: "auto" }, title), el("span", { class: "under", dir: "auto" }, under),
          el("span", { class: "under narrow" }, `${moment(found.used)} · ${made} · ${count(found.messages, "message")}`)),
        el("span", { class: "space" }, found.namespace),
        el("span", { class: "num" }, number(found.compactions)),
        el("span", { class: "num" }, number(found.messages)),
        el("span", { class: "num" }, bytes(found.bytes)),
        el("span", { class: "num when" }, moment(found.used), el("span", { class: "under" }, ago(found.used))),
      );
      row.setAttribute("aria-label", visible(`${title}, ${under}, namespace ${found.namespace}, ${made}, ${count(found.messages, "message")}, ${bytes(found.bytes)}, used ${ago(found.used)}`));
    },
    range: (first, last) => pages?.want(first, last),
    open: (index, opened) => {
      const found = pages.get(index);
      asked.chosen = found?.id ?? "";
      if (opened && found) go(`#/t/${found.id}`);
    },
  });
  list.node.addEventListener("scroll", () => (asked.top = list.node.scrollTop), { passive: true });
  const empty = el("p", { class: "hint nothing", hidden: true });
  const told = el("p", { class: "facts", id: "told" });

  async function load() {
    const { namespace, order: by, contains, top } = asked;
    const wish = { namespace, order: by, contains };
    const fetchPage = async (first, size) => {
      const answer = await source.get("threads", { ...wish, first, count: size });
      if (answer.total !== list.count && pages === mine) list.setCount(answer.total);
      return answer.rows.map((row, i) => [first + i, row]);
    };
    const mine = (latest = new Pages(SIZE, fetchPage, () => list.refresh()));
    const answer = await source.get("threads", { ...wish, first: 0, count: SIZE });
    if (latest !== mine) return;
    // Until now what is seen could be chosen and opened; what was chosen stays so if it is still there.
    const again = !pages;
    if (pages) pages.dead = true;
    pages = mine;
    mine.asked.add(0);
    answer.rows.forEach((row, i) => mine.rows.set(i, row));
    list.active = answer.rows.findIndex((row) => row.id === asked.chosen);
    list.setCount(answer.total);
    list.node.scrollTop = again ? top : 0;
    empty.hidden = answer.total > 0;
    list.node.hidden = columns.hidden = !answer.total;
    empty.textContent = about.threads
      ? "No thread has this in its name. Words of a conversation are found by the search on top."
      : "Nothing is archived here yet. A conversation appears with its first compaction, and a coding agent's session once the hooks run: unabridged install, then unabridged status.";
    told.textContent = `${count(answer.total, "thread")}${wish.contains || wish.namespace ? ` of ${number(about.threads)}` : ""} in ${visible(about.archive)}`;
    announce(told.textContent);
    list.node.dataset.ready = "yes";
  }

  const reload = () => load().catch((error) => complain(`${error.title}. ${error.message}`));
  let later;
  const filter = el("input", {
    type: "search", id: "filter", placeholder: "part of a name or id", autocomplete: "off", spellcheck: "false", value: asked.contains,
    oninput: () => {
      asked.contains = filter.value.toWellFormed?.() ?? filter.value;
      clearTimeout(later);
      later = setTimeout(reload, 120);
    },
    onkeydown: (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        list.node.focus();
      }
    },
  });
  const space = el("select", { id: "space", onchange: () => ((asked.namespace = space.value), reload()) },
    el("option", { value: "" }, `all namespaces (${number(about.threads)})`),
    ...about.namespaces.map((one) => el("option", { value: one.id }, `${one.name.slice(0, 60) || "(no name)"} (${number(one.threads)})`)),
  );
  const order = el("select", { id: "order", onchange: () => ((asked.order = order.value), reload()) },
    el("option", { value: "used" }, "last used first"), el("option", { value: "name" }, "by name"),
  );
  space.value = asked.namespace;
  order.value = asked.order;
  if (space.selectedIndex < 0) space.value = asked.namespace = ""; // it is gone
  const columns = el("div", { class: "columns thread-row", "aria-hidden": "true" },
    ...["thread", "namespace", "compactions", "messages", "size", "last used"].map((name, i) => el("span", { class: i > 1 ? "num" : "name" }, name)));
  main.append(
    el("div", { class: "page threads" },
      el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Threads"), told),
      el("div", { class: "filters" },
        ...[["Name", filter], ["Namespace", space], ["Order", order]].map(([name, field]) => el("div", {}, el("label", { for: field.id }, name), field))),
      columns, list.node, empty,
    ),
  );
  return load().then(() => ({ keyboard: list.active >= 0 && list.node }));
}
