"use strict";
(() => {
  const form = document.getElementById("find");
  const query = document.getElementById("query");
  const count = document.getElementById("count");
  const messages = [...document.querySelectorAll(".message")];
  const texts = messages.map((message) => message.querySelector("pre").textContent.toLowerCase());
  let hits = [];
  let at = -1;

  const mark = (words) => {
    if (!("highlights" in CSS)) return;
    const ranges = [];
    for (const message of hits.slice(0, 200)) {
      const node = message.querySelector("pre").firstChild;
      const text = node ? node.textContent.toLowerCase() : "";
      if (!node || text.length !== node.length) continue;
      for (let i = text.indexOf(words); i >= 0; i = text.indexOf(words, i + words.length)) {
        const range = new Range();
        range.setStart(node, i);
        range.setEnd(node, i + words.length);
        ranges.push(range);
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  };

  const search = () => {
    const words = query.value.trim().toLowerCase();
    hits = words ? messages.filter((_, i) => texts[i].includes(words)) : [];
    const found = new Set(hits);
    for (const message of messages) {
      message.classList.toggle("miss", words !== "" && !found.has(message));
      message.classList.remove("here");
    }
    at = -1;
    count.textContent = words ? `${hits.length} of ${messages.length} messages` : "";
    if (words) mark(words);
    else if ("highlights" in CSS) CSS.highlights.delete("found");
  };

  query.addEventListener("input", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!hits.length) return;
    if (at >= 0) hits[at].classList.remove("here");
    at = (at + 1) % hits.length;
    hits[at].open = true;
    hits[at].classList.add("here");
    hits[at].scrollIntoView({ block: "center" });
    count.textContent = `${at + 1} of ${hits.length}`;
  });
})();
