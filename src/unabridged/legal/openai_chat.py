"""What OpenAI's Chat Completions refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unabridged.formats.base import Message, get, plain
from unabridged.legal.conversation import Conversation, Finding, Rule
from unabridged.legal.pairing import PAIRING


def empty_messages(conversation: Conversation) -> Iterator[Finding]:
    """A message has content. An empty string is content; null and an empty list are not, except beside calls."""
    for index, message in conversation.wire():
        if is_empty(message):
            yield Finding(
                "empty-message",
                index,
                f"message {index} ({get(message, 'role')}) has no content: give it a text, or leave it out",
            )


def empty_tool_calls(conversation: Conversation) -> Iterator[Finding]:
    """`tool_calls` is absent or holds a call."""
    for index, message in conversation.wire():
        if get(message, "tool_calls") == []:
            yield Finding(
                "empty-tool-calls", index, f"message {index} has an empty `tool_calls` list: leave the field out"
            )


def is_empty(message: Message) -> bool:
    """Whether nothing is in it that would count as content."""
    content = get(message, "content")
    if content == []:
        return True
    return content is None and not (get(message, "role") == "assistant" and _speaks_otherwise(message))


def cleaned(message: Message) -> Message | None:
    """The message as Chat takes it; None when nothing would be left. The same object when nothing was wrong."""
    changed: dict[str, Any] = {}
    dropped = {"tool_calls"} if get(message, "tool_calls") == [] else set()
    if is_empty(message):
        role = get(message, "role")
        if role == "assistant" and _speaks_otherwise(message):
            changed["content"] = None  # an empty list beside calls: null says the same and is taken
        elif role in {"tool", "function"}:
            changed["content"] = ""  # a tool that said nothing still answered
        else:
            return None
    if not changed and not dropped:
        return message
    return {key: value for key, value in {**plain(message), **changed}.items() if key not in dropped}


def _speaks_otherwise(message: Message) -> bool:
    return any(get(message, key) for key in ("tool_calls", "function_call", "audio", "refusal"))


RULES: tuple[Rule, ...] = (*PAIRING, empty_messages, empty_tool_calls)
