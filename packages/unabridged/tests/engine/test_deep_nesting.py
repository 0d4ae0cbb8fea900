"""JSON nested deeper than Python can follow, in arguments and results: it is cut or quoted as text, never raised."""

from __future__ import annotations

import json
from typing import Any

from rows import rows
from unabridged import Compactor, Settings, check

DEPTHS = [200, 700, 940, 970, 985, 995, 3_000, 60_000]
FILLER = 40


def nested(depth: int, shape: str) -> str:
    """Return JSON of this depth with a long text at its end: a list in lists, an object in objects."""
    text = json.dumps("pump 7 is steady. " * 300)
    if shape == "list":
        return "[" * depth + text + "]" * depth
    return '{"a":' * depth + text + "}" * depth


def chat(arguments: str, result: str, number: int) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": arguments}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
    ]


def responses(arguments: str, result: str, number: int) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": f"call_{number}", "name": "read", "arguments": arguments},
        {"type": "function_call_output", "call_id": f"call_{number}", "output": result},
    ]


@rows("depth", DEPTHS)
@rows("shape", ["list", "object"])
@rows("place", ["old", "newest"])
@rows("build", [chat, responses], ids=lambda build: build.__name__)
def test_deeply_nested_json_is_compacted_like_any_text(depth: int, shape: str, place: str, build: Any) -> None:
    deep = nested(depth, shape)
    rounds = [build('{"path": "a.py"}', "nothing here. " * 40, number) for number in range(FILLER)]
    rounds.insert(0 if place == "old" else FILLER, [*build(deep, "done", 90), *build("{}", deep, 91)])
    messages = [{"role": "user", "content": "Read the logs."}, *(message for one in rounds for message in one)]
    with Compactor(window=5_000, archive="memory:", settings=Settings(recall=True)) as compactor:
        plan = compactor.plan(messages, thread="t")
        fitted = compactor.fit(messages, thread="t")
        assert plan.messages
        assert fitted.changed
        assert fitted.tokens_after <= compactor.limits.budget
        assert check(fitted.messages) == []
        assert compactor.replay(fitted.messages, thread="t") == messages
        assert "pump" in compactor.tools(thread="t").call("search_history", {"query": "pump steady"})
