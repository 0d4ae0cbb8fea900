"""OpenAI Agents' OpenAIResponsesCompactionSession, called as a run does at its end; or as if each step was a run."""

# requirements: openai-agents

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

from agents import SQLiteSession
from agents.memory import OpenAIResponsesCompactionSession

from benchmarks.framework_family import Numbered, response_item, response_piece
from benchmarks.harness import Arm, Fit, Given, Message, serve


def session(given: Given, *, steps: bool = False) -> Fit:
    """Return a `Fit` that compacts at its default of ten items not the user's, or at a share of the window."""
    numbered, loop, used = Numbered(), asyncio.new_event_loop(), [0]

    async def compact(*, input: list[Any], **_: Any) -> Any:  # noqa: A002 - the endpoint's own word
        """Return all user messages, then one item in place of the rest, as the endpoint's documentation describes."""
        said = given.model("\n".join(str(response_piece(item)[1].get("content") or item) for item in input))
        kept = [item for item in input if item.get("role") == "user"]
        return SimpleNamespace(output=[*kept, {"type": "compaction", "id": "c", "encrypted_content": said.text}])

    client: Any = SimpleNamespace(responses=SimpleNamespace(compact=compact))
    share, options = given.settings.get("at", 0.85 if steps else None), dict[str, Any]()
    if share:
        options["should_trigger_compaction"] = lambda _: used[0] >= share * given.window
    stored = OpenAIResponsesCompactionSession("s", SQLiteSession("s"), client=client, **options)

    async def store(message: Message) -> None:
        number, pieces = numbered.split(message)
        await stored.add_items([response_item(piece, number) for piece in pieces])  # type: ignore[misc]
        if message["role"] == "tool" and not steps:  # a run with results to come is compacted when it is over
            await stored._defer_compaction("r", store=False)  # noqa: SLF001 - as the runner does
        elif message["role"] == "assistant" and not message.get("tool_calls") and not steps:
            force = stored._get_deferred_compaction_response_id() is not None  # noqa: SLF001 - likewise
            await stored.run_compaction({"response_id": "r", "store": False, "force": force})

    def fit(new: list[Message], usage: int | None) -> list[Message]:
        used[0] = usage or 0
        with given.clock:
            for message in new:
                loop.run_until_complete(store(message))
            if steps:
                loop.run_until_complete(stored.run_compaction({"response_id": "r", "store": False}))
        items = loop.run_until_complete(stored.get_items())
        return numbered.join([response_piece(item) for item in items])

    return fit


if __name__ == "__main__":
    whole = Arm(session, grid=({}, {"at": 0.85}))
    serve({"OpenAI Agents": whole, "OpenAI Agents, a run a step": Arm(partial(session, steps=True))})
