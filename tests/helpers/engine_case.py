"""A compactor with an archive in memory, and conversations of a wanted size or shape."""

from __future__ import annotations

from typing import Any

from conversations import chat_round, long_chat, user
from unabridged import Compactor
from unabridged.formats import detect_message_format


def compactor(window: int = 4_000, **options: Any) -> Compactor:
    return Compactor(window=window, archive=options.pop("archive", "memory:"), **options)


def texts(messages: list[Any]) -> str:
    format_ = detect_message_format(messages)
    return "\n".join(format_.read(message).whole_text() for message in messages)


def chat_of(engine: Compactor, tokens: int) -> list[Any]:
    """A plain chat of about so many tokens, never more."""
    turns = 1
    while engine.plan(long_chat(turns + 1, words=8)).tokens <= tokens:
        turns += 1
    return long_chat(turns, words=8)


def rounds(count: int, size: int = 40) -> list[Any]:
    """One request and so many tool rounds."""
    messages: list[Any] = [user("Please migrate the billing service to the new queue.")]
    for i in range(count):
        body = " ".join(f"line{i}-{j}" for j in range(size))
        messages += chat_round(f"read_{i}", body, path=f"src/billing/part_{i}.py")
    return messages
