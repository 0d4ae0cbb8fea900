"""Strands: our conversation manager beside its own two."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.event_loop import event_loop
from strands.models import Model

from benchmarks.adapter_steps import FAR, Side, Watch, read, rounds, serve, used
from unabridged.adapters.strands import CompactingConversationManager as Ours


class Working(Model):
    """A model that calls the tool until its run is over."""

    def __init__(self, size: int, watch: Watch) -> None:
        self.size, self.watch = size, watch

    def update_config(self, **_: Any) -> None:
        """Do nothing: there is nothing to set."""

    def get_config(self) -> dict[str, Any]:
        """Return the configuration, which holds the window."""
        return {"context_window_limit": FAR}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Raise `NotImplementedError`: no step calls this."""
        raise NotImplementedError

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Yield a tool call, or the final answer."""
        number = self.watch.answer()
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "Done." if number is None else f"Step {number}."}}}
        yield {"contentBlockStop": {}}
        if number is not None:
            use = {"name": "read", "toolUseId": f"new{number}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"path": f"src/{number}.py"})}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if number is None else "tool_use"}}
        tokens = used(self.size, self.watch)
        usage = {"inputTokens": tokens, "outputTokens": 10, "totalTokens": tokens + 10}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


def run(make: Any, size: int, watch: Watch) -> None:
    """Run two turns of an agent that holds the conversation."""
    messages: list[Any] = [{"role": "user", "content": [{"text": "Work through all of it."}]}]
    for said, call, result in rounds(size):
        use = {"toolUseId": call, "name": "read", "input": {"path": f"src/{call}.py"}}
        answer = {"toolUseId": call, "status": "success", "content": [{"text": result}]}
        messages += [
            {"role": "assistant", "content": [{"text": said}, {"toolUse": use}]},
            {"role": "user", "content": [{"toolResult": answer}]},
        ]
    messages.append({"role": "assistant", "content": [{"text": "So far."}]})
    agent = Agent(
        Working(size, watch), messages=messages, tools=[tool(read)], conversation_manager=make(), callback_handler=None
    )
    agent("Go on.")
    agent("And on.")


OURS = [(Ours, name) for name in ("_before_model_call", "_after_model_call", "apply_management")]
BEFORE = (event_loop, "_estimate_input_tokens")
"""Done at every step whichever manager there is; the threshold of theirs is measured with it, so it is theirs."""

if __name__ == "__main__":
    summarizing = partial(SummarizingConversationManager, proactive_compression=True)
    check = (SummarizingConversationManager, "_on_before_model_call_threshold")
    sliding = [(SlidingWindowConversationManager, name) for name in ("_on_before_model_call", "apply_management")]
    sides = {
        "ours": Side(partial(run, partial(Ours, archive="memory:")), OURS),
        "SummarizingConversationManager": Side(partial(run, summarizing), [check, BEFORE]),
        "SlidingWindowConversationManager": Side(
            partial(run, partial(SlidingWindowConversationManager, FAR, per_turn=True)), sliding
        ),
    }
    serve({"Strands": sides})
