// Search over all threads: what is found is shown while the rest is searched, each passage in its place.
import { announce, count, el, encoded, joined, moment, naming, number } from "./dom.js";
import { marked } from "./messages.js";
import { source } from "./source.js";

const ENOUGH = 60;

export function showSearch(main, { route, left }) {
  const query = route.query;
  const told = el("p", { class: "facts", id: "found-told" });
  const results = el("ol", { class: "results" });
  const more = el("button", { type: "button", hidden: true, onclick: () => go() });
  let next = 0;
  let found = 0;
  let atLeast = false;
  main.append(el("div", { class: "page search" }, el("div", { class: "title" }, el("h1", { tabindex: "-1" }, `“${query.slice(0, 200)}”`), told), results, more));

  async function go() {
    more.hidden = true;
    more.textContent = "Search on";
    const enough = found + ENOUGH;
    while (next !== null && found < enough && !left.aborted) {
      let answer;
      try {
        answer = await source.get("search", { query, first: next }, left);
      } catch (error) {
        if (left.aborted) return;
        told.textContent = `${error.title}. ${error.message}`;
        more.textContent = "Try again";
        more.hidden = false;
        announce(told.textContent);
        return;
      }
      next = answer.next;
      for (const hit of answer.found) results.append(item(hit, query));
      found += answer.found.length;
      atLeast ||= answer.at_least;
      told.textContent = `${atLeast ? "at least " : ""}${count(found, "passage")} in ${number(answer.searched)} of ${answer.exact === false ? "at least " : ""}${count(answer.total, "thread")}${next === null ? "" : ", searching…"}`;
    }
    if (left.aborted) return;
    if (next === null && !found) told.textContent = "No archived message matches. Search is literal: try one telling word.";
    told.textContent = told.textContent.replace(", searching…", ", so far");
    more.hidden = next === null;
    announce(told.textContent);
    results.dataset.ready = "yes";
  }
  return go();
}

function item(hit, query) {
  const place = `#/t/${hit.thread}/m/${hit.turn}/${encoded(query)}`;
  const beside = (side) => hit[side] && el("p", { class: "beside", dir: "auto" }, hit[side].text);
  const text = `${hit.offset ? "…" : ""}${hit.excerpt.replace(/\s+/g, " ").trim()}${hit.offset + hit.excerpt.length < hit.length ? "…" : ""}`;
  const { title, under } = naming(hit);
  return el("li", {},
    el("h2", {}, el("a", { href: place }, title)),
    el("p", { class: "facts" }, joined([hit.session && under, `namespace ${hit.namespace}`, `turn ${number(hit.turn)}`, `used ${moment(hit.used)}`])),
    beside("before"),
    el("div", { class: "passage" }, el("span", { class: `chip ${hit.origin}` }, hit.whose), marked(el("span", { class: "excerpt" }), text, query)),
    beside("after"),
  );
}
