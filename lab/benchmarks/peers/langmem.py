"""langmem's SummarizationNode before the model's node, with a context of its own as its documentation has it."""

# requirements: langmem

from __future__ import annotations

from typing import Any

from langmem.short_term import SummarizationNode

from benchmarks.harness import Arm, Fit, Given, Message, serve
from benchmarks.langchain_family import FakeChat, Wire


def node(given: Given) -> Fit:
    """Return a `Fit` that summarises at 85 % of the window; `before` is how much of that is summarised at once."""
    chat = FakeChat(fake=given.model)
    most = int(0.85 * given.window)
    options = {"max_summary_tokens": min(given.model.budget, most // 2)}
    if share := given.settings.get("before"):
        options["max_tokens_before_summary"] = int(share * given.window)
    summarization = SummarizationNode(model=chat, max_tokens=most, **options)
    wire = Wire()
    state: dict[str, Any] = {"messages": [], "context": {}}
    given.originals = lambda: wire.give(state["messages"])

    def fit(new: list[Message], usage: int | None) -> list[Message]:
        state["messages"] += wire.take(new, usage)
        with given.clock:
            update = summarization.invoke(state)
        state["context"] = update.get("context", state["context"])
        return wire.give(update["summarized_messages"])

    return fit


if __name__ == "__main__":
    serve({"langmem": Arm(node, grid=({}, {"before": 0.6}, {"before": 0.4}))})
