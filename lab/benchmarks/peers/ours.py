"""This project: model-free, clearing early, with a model, in the background, and on messages deserialised anew."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from benchmarks.harness import Arm, Fit, Given, Message, serve
from unabridged import Compactor, Settings
from unabridged.asking.ask import Ask, Reply
from unabridged.recall.tools import SEARCH_TOOL
from unabridged.settings import Clear, Prices

AGENT = "gpt-5"
"""A model with the tokenizer that everything is counted in."""


def compactor(
    given: Given, *, model: bool = False, anew: bool = False, early: bool = False, recall: bool = False, **options: Any
) -> Fit:
    """Return a `Fit` with the default settings that passes reported usage on, as an agent's loop does.

    `early` clears results below the trigger where that pays, off by default; `recall` is search and read.
    """

    def answer(ask: Ask) -> Reply:
        said = given.model(ask.instruction, tuple(ask.messages))
        return Reply(said.text, stop=said.stop, calls=said.calls)  # type: ignore[arg-type]  # the words are the same

    if model:
        options |= {"suffix": True, "cool_down": 0.05}  # the agent's own model; a replay's minutes are short
    clear = Clear(payback=early, prices=Prices())  # the prices it will be charged
    where: dict[str, Any] = {"agent": AGENT, "window": given.window, "archive": "memory:", "namespace": "b"}
    engine = Compactor(answer if model else None, settings=Settings(clear=clear, **options, **given.settings), **where)
    messages, last = list[Message](), list[Any]()
    given.schemas = engine.tools(thread="t").schemas("openai-chat") if recall else ()
    given.search = lambda query: engine.tools(thread="t").call(SEARCH_TOOL, {"query": query})
    given.originals = lambda: engine.replay(messages, thread="t")

    def fit(new: list[Message], usage: int | None) -> list[Message]:
        if last and usage:
            engine.observe(last[0], {"input_tokens": usage})
        messages.extend(new)
        current = copy.deepcopy(messages) if anew else messages
        with given.clock:
            last[:] = [engine.fit(current, thread="t", tools=given.schemas or None)]
        messages[:] = messages if current is not messages and not last[0].changed else last[0].messages
        return messages

    return fit


if __name__ == "__main__":
    arms = {"ours": Arm(compactor, model=False), "ours, with a model": Arm(partial(compactor, model=True))}
    arms["ours, clearing early"] = Arm(partial(compactor, early=True), model=False)
    arms["ours, with recall tools"] = Arm(partial(compactor, recall=True), model=False)
    arms["ours, in the background"] = Arm(partial(compactor, model=True, background=0.7))
    serve({**arms, "ours, deserialised anew": Arm(partial(compactor, anew=True), model=False)})
