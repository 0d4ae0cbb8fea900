"""A compactor with an archive in memory, and conversations of a wanted size or shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conversations import chat_round, long_chat, user
from unabridged import Compactor
from unabridged.formats import detect_message_format


def compactor(window: int = 4_000, **options: Any) -> Compactor:
    return Compactor(window=window, archive=options.pop("archive", "memory:"), **options)


def texts(messages: list[Any]) -> str:
    format_ = detect_message_format(messages)
    return "\n".join(format_.read(message).whole_text() for message in messages)


def fill(engine: Compactor, make: Callable[[int], list[Any]], tokens: int) -> list[Any]:
    """Return `make(turns)` with the most turns, at least one, that take no more than so many tokens."""
    fits, too_many = 1, 2
    while engine.plan(make(too_many)).tokens <= tokens:
        fits, too_many = too_many, 2 * too_many
    while too_many - fits > 1:
        between = (fits + too_many) // 2
        if engine.plan(make(between)).tokens <= tokens:
            fits = between
        else:
            too_many = between
    return make(fits)


def chat_of(engine: Compactor, tokens: int) -> list[Any]:
    """A plain chat of about so many tokens, never more."""
    return fill(engine, lambda turns: long_chat(turns, words=8), tokens)


def rounds(count: int, size: int = 40) -> list[Any]:
    """One request and so many tool rounds."""
    messages: list[Any] = [user("Please migrate the billing service to the new queue.")]
    for i in range(count):
        body = " ".join(f"line{i}-{j}" for j in range(size))
        messages += chat_round(f"read_{i}", body, path=f"src/billing/part_{i}.py")
    return messages
