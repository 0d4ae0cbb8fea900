"""The check below the trigger inside a real agent step: ours beside LangChain's own class, in one run.

    python -m benchmarks.langchain_step            # 200, 2,000 and 20,000 messages
    python -m benchmarks.langchain_step 200 2000

One agent each, same model, same tool, same conversation in a checkpointer; nothing is ever compacted. CPU time of the
middleware alone: `step` is the median of a running agent's steps, `anew` the first step of a new `invoke`, where the
checkpointer hands out new objects, `first` the one in which it never saw the conversation. Model, tool and graph are
not in it. Needs the extra `langchain`.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware as LangChains
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from unabridged.adapters.langchain import SummarizationMiddleware

SIZES = (200, 2_000, 20_000)
STEPS = 25
FAR: Any = ("tokens", 10**9)
RUN: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 10_000}


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"{path}: " + " ".join(f"word{j}" for j in range(40))


class Working(BaseChatModel):
    """A model that calls the tool for `STEPS` steps of each `invoke`, then ends."""

    asked: list[int] = []  # noqa: RUF012 - a field of a pydantic model, copied for each instance

    @property
    def _llm_type(self) -> str:
        return "working"

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002 - the protocol's
        """Return the model unchanged."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ARG002 - likewise
        self.asked.append(1)
        number = len(self.asked)
        call = {"id": f"new{number}", "name": "read", "args": {"path": f"src/{number}.py"}}
        said = AIMessage("Done.") if number % STEPS == 0 else AIMessage(f"Step {number}.", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


def conversation(count: int) -> list[BaseMessage]:
    """Generate one request and a long chain of tool rounds."""
    built: list[BaseMessage] = [HumanMessage("Work through all of it.", id="request")]
    for i in range(count // 2):
        text = f"Turn {i}: " + " ".join(f"word{(i * 31 + j) % 997}" for j in range(40))
        call = {"id": f"c{i}", "name": "read", "args": {"path": f"src/{i}.py"}}
        built += [AIMessage(text, tool_calls=[call], id=f"a{i}"), ToolMessage(text, tool_call_id=f"c{i}", id=f"t{i}")]
    return built


class TimedTheirs(LangChains):
    """LangChain's class; its work is done in `before_model`."""

    times: list[float]

    @property
    def name(self) -> str:
        """Return a name of its own."""
        return "Theirs"

    def before_model(self, state: Any, runtime: Any) -> Any:
        """Time the check before the model call."""
        start = time.thread_time()
        try:
            return super().before_model(state, runtime)
        finally:
            self.times.append(time.thread_time() - start)


class TimedOurs(SummarizationMiddleware):
    """Ours; its work is done around the model's call and after it."""

    times: list[float]

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Time the check around the model call, without the model's own time."""
        inside = 0.0

        def timed(sent: Any) -> Any:
            nonlocal inside
            start = time.thread_time()
            answer = handler(sent)
            inside = time.thread_time() - start
            return answer

        start = time.thread_time()
        answer = super().wrap_model_call(request, timed)
        self.times.append(time.thread_time() - start - inside)
        return answer

    def after_model(self, state: Any, runtime: Any) -> Any:
        """Add the time of the work after the model call."""
        start = time.thread_time()
        update = super().after_model(state, runtime)
        self.times[-1] += time.thread_time() - start
        return update


def measure(middleware: Any, size: int) -> tuple[float, float, float]:
    """Measure a step, the first step of a second `invoke`, and the very first step, in microseconds."""
    middleware.times = []
    agent: Any = create_agent(Working(), [read], middleware=[middleware], checkpointer=InMemorySaver())
    gc.collect()
    gc.disable()
    agent.invoke({"messages": conversation(size)}, RUN, durability="exit")
    first, running = middleware.times[0], middleware.times[1:]
    middleware.times = []
    agent.invoke({"messages": [HumanMessage("Go on.")]}, RUN, durability="exit")
    gc.enable()
    return statistics.median([*running, *middleware.times[1:]]) * 1e6, middleware.times[0] * 1e6, first * 1e6


def main(sizes: tuple[int, ...]) -> None:
    """Print a table in milliseconds."""
    print(f"{'messages':>9}  {'':11}{'step':>9}{'anew':>10}{'first':>10}   (ms)")
    for size in sizes:
        sides = {
            "LangChain's": TimedTheirs(Working(), trigger=FAR),
            "ours": TimedOurs(trigger=FAR, window=2 * 10**9, archive="memory:"),
        }
        for side, middleware in sides.items():
            step, anew, first = (value / 1e3 for value in measure(middleware, size))
            print(f"{size:>9,}  {side:11}{step:>9.3f}{anew:>10.2f}{first:>10.2f}")


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
