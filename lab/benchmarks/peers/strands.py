"""Strands' SummarizingConversationManager, before each model call and when the model refuses a request as too long."""

# requirements: strands-agents

from __future__ import annotations

import asyncio
from typing import Any

from strands import Agent
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.event_loop.event_loop import _estimate_input_tokens
from strands.hooks import BeforeModelCallEvent
from strands.types.exceptions import ContextWindowOverflowException

from benchmarks.framework_family import Converse, Meter
from benchmarks.harness import Arm, Fit, Given, Message, serve
from benchmarks.strands_family import FakeModel

REFUSALS = 5
"""Of one request, after which it is sent as it is; an agent would go on, and ask its summariser each time."""


def manager(given: Given) -> Fit:
    """Return a `Fit` at 85 % of the window that summarises the oldest 30 % of the messages or the chosen share."""
    threshold: Any = {"compression_threshold": 0.85}
    summarizing = SummarizingConversationManager(given.settings.get("ratio", 0.3), proactive_compression=threshold)
    agent = Agent(FakeModel(given.model, given.window), conversation_manager=summarizing, callback_handler=None)
    wire, meter, loop = Converse(), Meter(), asyncio.new_event_loop()

    def before_model_call() -> None:
        tokens = loop.run_until_complete(_estimate_input_tokens(agent))
        event = BeforeModelCallEvent(agent=agent, invocation_state={}, projected_input_tokens=tokens)
        loop.run_until_complete(agent.hooks.invoke_callbacks_async(event))

    def fit(new: list[Message], usage: int | None) -> list[Message]:
        meter.reported(usage)
        wire.take(agent.messages, new, usage)
        with given.clock:
            before_model_call()
        for _ in range(REFUSALS):
            if meter.count(wire.give(agent.messages)) <= given.window:
                break
            try:
                with given.clock:  # as the agent's loop does with a refusal: shorter, and again
                    summarizing.reduce_context(agent, ContextWindowOverflowException("too long"))
                    before_model_call()
            except ContextWindowOverflowException:
                break  # nothing can go: the refusal stands
        return wire.give(agent.messages)

    return fit


if __name__ == "__main__":
    serve({"Strands": Arm(manager, grid=({}, {"ratio": 0.5}, {"ratio": 0.8}))})
