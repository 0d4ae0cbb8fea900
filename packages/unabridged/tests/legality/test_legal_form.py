"""A message with a role that its provider does not know, or without a field that it requires, is found."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversations import user
from effort import examples
from engine_case import compactor, rounds
from rows import rows
from unabridged import IllegalConversation, check, repair
from unabridged.formats import FORMATS
from unabridged.legality import PROVIDERS
from unabridged_testing import Shape, make_conversation, shapes

ROLES = ["bogus", "User", "assistant ", "human", "ai", "narrator"]
"""Roles that no provider knows."""
USER = {"role": "user", "content": "Read it."}
TURN = {"role": "user", "parts": [{"text": "Read it."}]}
BLOCKS = {"role": "user", "content": [{"text": "Read it."}]}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CUSTOM = {"id": "c1", "type": "custom", "custom": {"name": "read", "input": "a.py"}}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PICTURE = {"image": {"format": "png", "source": {"bytes": b"hi"}}}

REQUIRED: list[tuple[str, list[Any], list[tuple[Any, ...]]]] = [
    ("openai-chat", [USER], [(0, "role"), (0, "content")]),
    (
        "openai-chat",
        [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        [(0, "content", 0, "type"), (0, "content", 0, "text")],
    ),
    (
        "openai-chat",
        [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, ANSWER],
        [
            (1, "role"),
            *((1, "tool_calls", 0, key) for key in CALL),
            (1, "tool_calls", 0, "function", "name"),
            (1, "tool_calls", 0, "function", "arguments"),
            *((2, key) for key in ANSWER),
        ],
    ),
    (
        "openai-chat",
        [USER, {"role": "assistant", "content": None, "tool_calls": [CUSTOM]}, ANSWER],
        [(1, "tool_calls", 0, "custom", "name"), (1, "tool_calls", 0, "custom", "input")],
    ),
    ("openai-responses", [USER], [(0, "role"), (0, "content")]),
    (
        "openai-responses",
        [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        [(0, "content", 0, "type"), (0, "content", 0, "text")],
    ),
    (
        "openai-responses",
        [USER, {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}, OUTPUT],
        [(1, "call_id"), (1, "name"), (1, "arguments"), (2, "call_id"), (2, "output")],
    ),
    (
        "openai-responses",
        [USER, {"type": "reasoning", "id": "r1", "summary": []}, {"role": "assistant", "content": "Hm."}],
        [(1, "summary")],
    ),
    ("anthropic", [USER], [(0, "role"), (0, "content")]),
    ("anthropic", [USER, {"role": "assistant", "content": "So"}], [(1, "role"), (1, "content")]),
    ("anthropic", [{"role": "user", "content": [IMAGE]}], [(0, "content", 0, "type"), (0, "content", 0, "source")]),
    (
        "anthropic",
        [
            USER,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]},
        ],
        [
            *((1, "content", 0, key) for key in ("type", "id", "name", "input")),
            (2, "content", 0, "type"),
            (2, "content", 0, "tool_use_id"),
        ],
    ),
    (
        "gemini",
        [
            TURN,
            {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "ok"}}}]},
        ],
        [
            (1, "parts", 0, "functionCall", "name"),
            (2, "parts", 0, "functionResponse", "name"),
            (2, "parts", 0, "functionResponse", "response"),
            (1, "parts"),
            (2, "parts"),
        ],
    ),
    (
        "gemini",
        [{"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": b"hi"}}]}],
        [(0, "parts", 0, "inline_data", "mime_type"), (0, "parts", 0, "inline_data", "data")],
    ),
    ("bedrock-converse", [BLOCKS], [(0, "role"), (0, "content")]),
    (
        "bedrock-converse",
        [{"role": "user", "content": [PICTURE]}],
        [(0, "content", 0, "image", "format"), (0, "content", 0, "image", "source")],
    ),
    (
        "bedrock-converse",
        [
            BLOCKS,
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "read", "input": {}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "ok"}]}}]},
        ],
        [
            *((1, "content", 0, "toolUse", key) for key in ("toolUseId", "name", "input")),
            *((2, "content", 0, "toolResult", key) for key in ("toolUseId", "content")),
        ],
    ),
]
"""Legal conversations, and the places in them that their providers' references call required."""
MISSING = [(name, messages, path) for name, messages, paths in REQUIRED for path in paths]


def without(messages: list[Any], path: tuple[Any, ...]) -> list[Any]:
    """A copy without the field at the place."""
    changed = copy.deepcopy(messages)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return changed


@rows(("format_", "messages"), [row[:2] for row in REQUIRED])
def test_a_conversation_with_all_that_is_required_is_taken(format_: str, messages: list[Any]) -> None:
    assert check(messages, format=format_) == []


@rows(("format_", "messages", "path"), MISSING, ids=lambda value: str(value)[:40])
def test_a_required_field_that_is_not_there_is_found(format_: str, messages: list[Any], path: tuple[Any, ...]) -> None:
    broken = without(messages, path)
    found = check(broken, format=format_)
    assert path[0] in {finding.index for finding in found} or "unanswered-call" in {finding.rule for finding in found}
    if found[0].rule in {"unknown-role", "missing-field"}:
        with pytest.raises(IllegalConversation, match=f"message {path[0]} "):
            repair(broken, format=format_)


@pytest.mark.parametrize("format_", FORMATS)
def test_an_unknown_role_anywhere_is_found_for_every_provider(format_: str) -> None:
    @settings(max_examples=examples(20, 40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(shapes(format_), st.integers(0, 10**6), st.sampled_from(ROLES), st.sampled_from([None, *PROVIDERS]))
    def holds(shape: Shape, at: int, role: str, provider: str | None) -> None:
        messages = make_conversation(shape).messages
        rules = {finding.rule for finding in check(messages, provider, format=format_)}
        assert not rules & {"unknown-role", "missing-field"}
        named = [index for index, message in enumerate(messages) if isinstance(message, dict) and "role" in message]
        if not named:
            return
        index = named[at % len(named)]
        broken = [{**message, "role": role} if i == index else message for i, message in enumerate(messages)]
        found = [finding for finding in check(broken, provider, format=format_) if finding.rule == "unknown-role"]
        assert [finding.index for finding in found] == [index]
        assert repr(role) in found[0].message
        assert "user" in found[0].message, "the roles that there are"

    holds()


def test_a_compaction_leaves_a_role_that_it_does_not_know_as_it_is() -> None:
    """A server may have roles of its own: what the provider refuses is for `check` to say."""
    messages = [*rounds(40), {"role": "narrator", "content": "Night falls."}, user("Go on.")]
    with compactor() as engine:
        done = engine.fit(messages, thread="t")
        assert done.changed
        assert messages[-2] in done.messages
        assert engine.replay(done.messages, thread="t") == messages
