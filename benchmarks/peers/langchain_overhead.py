"""Runs in LangChain's environment: the median time of its middleware's check when one message was added."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage


def messages(count: int) -> list[AIMessage | ToolMessage | HumanMessage]:
    """The same words as the other side gets."""
    built = []
    for i in range(count):
        text = f"Turn {i}: " + " ".join(f"word{(i * 31 + j) % 997}" for j in range(40))
        if i % 2 == 0:
            call = {"id": f"c{i}", "name": "read", "args": {"path": "src/a.py"}}
            built.append(AIMessage(text, tool_calls=[call], id=str(i)))
        else:
            built.append(ToolMessage(text, tool_call_id=f"c{i - 1}", id=str(i)))
    return built


def measure(size: int, samples: int) -> float:
    """Microseconds of one check."""
    middleware = SummarizationMiddleware(FakeListChatModel(responses=["x"]), trigger=("tokens", 10**9))
    state = {"messages": messages(size)}
    middleware.before_model(state, None)
    times = []
    gc.collect()
    gc.disable()
    for i in range(samples):
        state["messages"].append(HumanMessage(f"one more {i}", id=f"new{i}"))
        start = time.perf_counter()
        middleware.before_model(state, None)
        times.append(time.perf_counter() - start)
    gc.enable()
    return statistics.median(times) * 1e6


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps({size: measure(size, given["samples"]) for size in given["sizes"]}))
