// All threads: a list that is paged, filtered and put in order by the inspector.
import { ago, announce, bytes, count, el, moment, number, visible } from "./dom.js";
import { source } from "./source.js";
import { Pages, VirtualList } from "./virtual.js";

const SIZE = 100;

export function showThreads(main, { go, about }) {
  const asked = { namespace: "", order: "used", contains: "" };
  let pages, latest;
  const list = new VirtualList({
    label: "Threads",
    height: 34,
    render: (index, row) => {
      const found = pages?.get(index);
      row.classList.add("thread-row");
      if (!found) {
        row.append(el("span", { class: "name ghost" }, " "));
        return;
      }
      row.append(
        el("span", { class: "name" }, found.name || "(no name)"),
        el("span", { class: "space" }, found.namespace),
        el("span", { class: "num" }, found.compactions ? number(found.compactions) : found.others ? "–" : "0"),
        el("span", { class: "num" }, number(found.messages)),
        el("span", { class: "num" }, bytes(found.bytes)),
        el("span", { class: "num", title: moment(found.used) }, ago(found.used)),
      );
      row.setAttribute("aria-label", visible(`${found.name}, namespace ${found.namespace}, ${count(found.compactions, "compaction")}, ${count(found.messages, "message")}, ${bytes(found.bytes)}, used ${ago(found.used)}`));
    },
    range: (first, last) => pages?.want(first, last),
    open: (index, opened) => {
      const found = pages.get(index);
      if (opened && found) go(`#/t/${found.id}`);
    },
  });
  const told = el("p", { class: "facts", id: "told" });

  async function load() {
    const wish = { ...asked };
    const fetchPage = async (first, size) => {
      const answer = await source.get("threads", { ...wish, first, count: size });
      if (answer.total !== list.count && pages === mine) list.setCount(answer.total);
      return answer.rows.map((row, i) => [first + i, row]);
    };
    const mine = (latest = new Pages(SIZE, fetchPage, () => list.refresh()));
    const answer = await source.get("threads", { ...wish, first: 0, count: SIZE });
    if (latest !== mine) return;
    // Until now what is seen could be chosen and opened; what was chosen stays so if it is still there.
    const chosen = pages?.get(list.active)?.id;
    if (pages) pages.dead = true;
    pages = mine;
    mine.asked.add(0);
    answer.rows.forEach((row, i) => mine.rows.set(i, row));
    list.node.scrollTop = 0;
    list.active = answer.rows.findIndex((row) => row.id === chosen);
    list.setCount(answer.total);
    told.textContent = `${count(answer.total, "thread")}${wish.contains || wish.namespace ? ` of ${number(about.threads)}` : ""} in ${visible(about.archive)}`;
    announce(told.textContent);
    list.node.dataset.ready = "yes";
  }

  let later;
  const filter = el("input", {
    type: "search", id: "filter", placeholder: "part of a name", autocomplete: "off", spellcheck: "false",
    oninput: () => {
      asked.contains = filter.value.toWellFormed?.() ?? filter.value;
      clearTimeout(later);
      later = setTimeout(load, 120);
    },
    onkeydown: (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        list.node.focus();
      }
    },
  });
  const space = el("select", { id: "space", onchange: () => ((asked.namespace = space.value), load()) },
    el("option", { value: "" }, `all namespaces (${number(about.threads)})`),
    ...about.namespaces.map((one) => el("option", { value: one.id }, `${one.name.slice(0, 60) || "(no name)"} (${number(one.threads)})`)),
  );
  const order = el("select", { id: "order", onchange: () => ((asked.order = order.value), load()) },
    el("option", { value: "used" }, "last used first"), el("option", { value: "name" }, "by name"),
  );
  main.append(
    el("div", { class: "page threads" },
      el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Threads"), told),
      el("div", { class: "filters" },
        el("label", { for: "filter" }, "Name"), filter, el("label", { for: "space" }, "Namespace"), space, el("label", { for: "order" }, "Order"), order),
      el("div", { class: "columns thread-row", "aria-hidden": "true" },
        ...["thread", "namespace", "compactions", "messages", "size", "last used"].map((name, i) => el("span", { class: i > 1 ? "num" : "name" }, name))),
      list.node,
    ),
  );
  return load();
}
