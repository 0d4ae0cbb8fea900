"""Which reasoning rule holds for which model, and what is dropped after a rewrite."""

from __future__ import annotations

from typing import Any

import pytest

from rows import rows
from unabridged.formats import get_format
from unabridged.formats.anthropic import parse_claude_version
from unabridged.formats.base import ThinkingRule
from unabridged.legality.reasoning import find_reasoning_rule, strip_thinking_from

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
USER = {"role": "user", "content": "Go on."}


def says(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


CALL = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]}


@rows(
    ("model", "version", "rule"),
    [
        ("claude-fable-5-1", (5, 1), "bound"),
        ("claude-fable-5-2", (5, 2), "bound"),
        ("claude-opus-5-5", (5, 5), "bound"),
        ("claude-sonnet-5-5", (5, 5), "bound"),
        ("claude-haiku-5-5", (5, 5), "bound"),
        ("anthropic:claude-opus-5-5", (5, 5), "bound"),
        ("anthropic/claude-opus-5.5", (5, 5), "bound"),
        ("us.anthropic.claude-haiku-5-5-v1:0", (5, 5), "bound"),
        ("us.anthropic.claude-opus-5-5", (5, 5), "bound"),
        ("claude-5.5-sonnet", (5, 5), "bound"),
        ("claude-haiku-5-5@20261001", (5, 5), "bound"),
        ("claude-mythos-5-2", (5, 2), "bound"),
        ("claude-opus-6", (6, 0), "bound"),
        ("claude-opus-latest", None, "bound"),
        ("claude-opus-5", (5, 0), "signed"),
        ("claude-opus-5-20260601", (5, 0), "signed"),
        ("claude-fable-5", (5, 0), "signed"),
        ("claude-sonnet-4-5-20250929", (4, 5), "signed"),
        ("claude-opus-4-20250514", (4, 0), "signed"),
        ("claude-opus-4-5@20251101", (4, 5), "signed"),
        ("claude-3-7-sonnet-20250219", (3, 7), "signed"),
        ("claude-3-7-sonnet-latest", (3, 7), "signed"),
        ("anthropic.claude-v2:1", (2, 0), "signed"),
        ("gemini-3-pro-preview", None, "signed"),
        ("google/gemini-2.5-pro", None, "free"),
        ("gpt-5", None, "free"),
        ("gpt-5.5", None, "free"),
        ("deepseek-reasoner", None, "free"),
    ],
)
def test_the_rule_follows_the_models_family_and_version(
    model: str, version: tuple[int, int] | None, rule: ThinkingRule
) -> None:
    assert parse_claude_version(model) == version
    assert find_reasoning_rule(model, "openai-chat") == rule
    assert find_reasoning_rule(model, get_format("anthropic")) == rule
    assert find_reasoning_rule(model, "openai-responses") == "glued"


def test_an_unknown_model_is_left_alone() -> None:
    assert find_reasoning_rule(None, "anthropic") == "signed"
    assert find_reasoning_rule(None, "openai-chat") == "free"
    assert find_reasoning_rule("my-finetune", "anthropic") == "free"


def strip(messages: list[Any], start: int, rule: ThinkingRule, format_: str = "anthropic") -> list[Any]:
    fmt = get_format(format_)
    return strip_thinking_from(messages, [fmt.read(message) for message in messages], fmt, start, rule)


def test_a_bound_model_loses_the_thinking_behind_the_rewrite_and_no_other() -> None:
    messages = [USER, says(THOUGHT, text("Hi.")), USER, says(THOUGHT, CALL), RESULT, says(THOUGHT), USER]
    kept = strip(messages, 2, "bound")
    assert all(new is old for new, old in zip(kept[:3], messages[:3], strict=True))
    assert kept[3] == says(CALL)
    assert kept[4] is RESULT
    assert len(kept) == 6
    assert kept[5] is messages[6]


@pytest.mark.parametrize("rule", ["signed", "glued", "free"])
def test_any_other_model_keeps_every_block(rule: ThinkingRule) -> None:
    messages = [USER, says(THOUGHT, text("Hi.")), USER, says(THOUGHT, CALL), RESULT, says(THOUGHT), USER]
    kept = strip(messages, 0, rule)
    assert [id(message) for message in kept] == [id(message) for message in messages]


def test_reasoning_in_chat_messages_goes_the_same_way() -> None:
    thoughtful = {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}
    assert strip([USER, thoughtful], 1, "bound", "openai-chat") == [USER, {"role": "assistant", "content": "Hi."}]
