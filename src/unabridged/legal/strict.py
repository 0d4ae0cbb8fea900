"""Strict alternation: what many chat templates of local models demand, and no hosted provider does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from unabridged.legal.conversation import Conversation, Finding, Rule
from unabridged.messages import View


def strict_alternation(conversation: Conversation) -> Iterator[Finding]:
    """User and assistant take turns, the user first; system messages, calls and results do not count."""
    for index, role in gaps(conversation.views):
        yield Finding(
            "strict-alternation", index, f"message {index} needs a turn of the {role} before it: put one there"
        )


def gaps(views: Sequence[View]) -> Iterator[tuple[int, Literal["user", "assistant"]]]:
    """Before which messages a turn is missing, and whose.

    The user's goes in front of the reasoning and the system messages that lead up to the assistant's, except the
    system messages that everything begins with.
    """
    before, start, begun = "assistant", 0, False
    for index, view in enumerate(views):
        role = spoken(view)
        if role == before == "assistant":
            yield start, "user"
        elif role == before == "user":
            yield index, "assistant"
        before = role or before
        begun = begun or view.role != "system"
        if not view.glued and not (begun and view.role == "system"):
            start = index + 1


def spoken(view: View) -> str | None:
    """Whose turn the message is; None when templates pass over it."""
    passed_over = view.calls or view.answers or view.opaque or view.glued
    return view.role if view.role in {"user", "assistant"} and not passed_over else None


RULES: tuple[Rule, ...] = (strict_alternation,)
