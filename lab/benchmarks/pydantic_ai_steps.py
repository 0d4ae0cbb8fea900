"""An agent of Pydantic AI at work, with whatever capability: what both of its environments measure."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai import messages as m
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from benchmarks.adapter_steps import Watch, read, rounds, used


def run(make: Any, size: int, watch: Watch) -> None:
    """Run an agent with the conversation twice."""

    async def answer(*_: Any) -> m.ModelResponse:
        number = watch.answer()
        answered: list[Any] = [m.TextPart(f"Step {number}.")]
        if number is not None:
            answered.append(m.ToolCallPart("read", {"path": f"src/{number}.py"}, f"new{number}"))
        return m.ModelResponse(answered, usage=RequestUsage(input_tokens=used(size, watch), output_tokens=10))

    history: list[m.ModelMessage] = [m.ModelRequest([m.UserPromptPart("Work through all of it.")])]
    for said, call, result in rounds(size):
        parts: list[Any] = [m.TextPart(said), m.ToolCallPart("read", {"path": f"src/{call}.py"}, call)]
        history += [m.ModelResponse(parts), m.ModelRequest([m.ToolReturnPart("read", result, call)])]
    history.append(m.ModelResponse([m.TextPart("So far.")]))
    agent = Agent(FunctionModel(answer), tools=[read], capabilities=[make()])
    limits = UsageLimits(request_limit=None)
    first = agent.run_sync("Go on.", message_history=history, usage_limits=limits, conversation_id="t")
    agent.run_sync("And on.", message_history=first.all_messages(), usage_limits=limits, conversation_id="t")
