"""LangChain's SummarizationMiddleware, as `create_agent` runs it: the system prompt is not in the state."""

# requirements: langchain

from __future__ import annotations

from functools import partial
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import BaseMessage, SystemMessage, trim_messages
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime

from benchmarks.harness import KEEPS, Arm, Fit, Given, Message, serve
from benchmarks.langchain_family import FakeChat, Wire


def middleware(given: Given, **options: Any) -> Fit:
    """Return a `Fit` with Deep Agents' trigger of 85 % (LangChain has none); 20 messages stay, or the chosen share."""
    chat = FakeChat(fake=given.model, profile={"max_input_tokens": given.window})
    if share := given.settings.get("keep"):
        options["keep"] = ("fraction", share)
    summarization = SummarizationMiddleware(chat, trigger=("fraction", 0.85), **options)
    wire, system, state, runtime = Wire(), list[BaseMessage](), list[Any](), Runtime()

    def fit(new: list[Message], usage: int | None) -> list[Message]:
        for message in wire.take(new, usage):
            (system if isinstance(message, SystemMessage) and not state else state).append(message)
        with given.clock:
            update = summarization.before_model({"messages": state}, runtime)
        if update:
            state[:] = add_messages(state, update["messages"])
        return wire.give([*system, *state])

    return fit


def trimmed(given: Given) -> Fit:
    """Return a `Fit` with `trim_messages` to 85 % of the window, as its documentation recommends for chat histories."""
    wire, history = Wire(), list[BaseMessage]()
    given.originals = lambda: wire.give(history)
    usual = {"token_counter": "approximate", "include_system": True, "start_on": "human"}
    options: dict[str, Any] = usual | given.settings

    def fit(new: list[Message], usage: int | None) -> list[Message]:
        history.extend(wire.take(new, usage))
        most = int(0.85 * given.window)
        with given.clock:
            kept = trim_messages(history, max_tokens=most, **options)
        return wire.give(kept)

    return fit


if __name__ == "__main__":
    untrimmed = partial(middleware, trim_tokens_to_summarize=None)
    arms = {"LangChain": Arm(middleware), "LangChain, untrimmed": Arm(untrimmed, grid=KEEPS)}
    serve({**arms, "trim_messages": Arm(trimmed, model=False, grid=({}, {"start_on": None}))})
