// What is asked twice: undo, forget, export. And the dialog that asks.
import { announce, byId, el } from "./dom.js";
import { source } from "./source.js";

function ask(title, words, yes, danger) {
  const dialog = byId("dialog");
  return new Promise((resolve) => {
    let answer = false;
    const confirm = el("button", { type: "button", class: danger ? "danger" : "primary", onclick: () => ((answer = true), dialog.close()) }, yes);
    const cancel = el("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    dialog.replaceChildren(
      el("h2", { id: "dialog-title" }, title),
      el("p", {}, words),
      el("div", { class: "buttons" }, cancel, confirm),
    );
    dialog.addEventListener("close", () => resolve(answer), { once: true });
    dialog.showModal();
    cancel.focus();
  });
}

export function tell(title, ...body) {
  const dialog = byId("dialog");
  dialog.replaceChildren(
    el("h2", { id: "dialog-title" }, title),
    ...body,
    el("div", { class: "buttons" }, el("button", { type: "button", onclick: () => dialog.close() }, "Close")),
  );
  dialog.showModal();
}

const WORDS = {
  undo: ["Undo the newest compaction", "Once more: undo it?", "Yes, undo it"],
  forget: ["Forget this thread", "Once more: it can't be had back. Remove it for good?", "Yes, forget it"],
  export: ["Export this thread", "Once more: save the file?", "Yes, save it"],
};

// Whether it was done: asked by the page, told by the inspector, asked again, and only then done.
export async function perform(name, thread, more = {}) {
  const [title, again, yes] = WORDS[name];
  try {
    const { question, word } = await source.post(name, { thread, ...more });
    if (!(await ask(title, question, "Go on…", false))) return false;
    if (!(await ask(title, again, yes, name !== "export"))) return false;
    if (name === "export") {
      el("a", { href: `/api/export?word=${encodeURIComponent(word)}`, download: "" }).click();
    } else {
      await source.post("answer", { word });
    }
    announce(`${title}: done`);
    return true;
  } catch (error) {
    tell(title, el("p", { class: "error" }, error.message));
    return false;
  }
}

export function showKeys() {
  const keys = [
    ["/", "search all threads"], ["Esc", "one level up, or close this"], ["↑ ↓ PgUp PgDn Home End", "move in a list"],
    ["Enter", "open what is chosen"], ["[ ]", "the compaction before, the one after"], ["← →", "on the slider: a turn back, a turn on"],
    ["t", "light, dark, or as the system has it"], ["?", "this list"],
  ];
  tell("Keys", el("table", { class: "keys" }, el("tbody", {}, ...keys.map(([key, what]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, key)), el("td", {}, what))))));
}
