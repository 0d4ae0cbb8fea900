"""Rules that several providers share, and what mends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from unabridged.formats.base import Finding, LegalityRule, Message, Outgoing

OPENING_TEXT = "<system-reminder>The conversation before this point is not shown.</system-reminder>"
CONTINUE_TEXT = "<system-reminder>Continue.</system-reminder>"
"""Turns that are put in: plainly the host's words, where only a user's can stand."""
TurnRole = Literal["user", "assistant"]
_FILLERS: dict[TurnRole, str] = {"user": CONTINUE_TEXT, "assistant": "Understood."}
"""The turns that are put in where two of the other side meet."""


def build_message_rule(name: str, wrong: Callable[[Message], bool], fault: str, *, last: bool = False) -> LegalityRule:
    """Return a rule on each message as the provider reads it, or on the `last`; `fault` follows "message 3"."""

    def rule(outgoing: Outgoing) -> Iterator[Finding]:
        for index, message in outgoing.list_sent_messages(last=last):
            if wrong(message):
                yield Finding(name, index, f"message {index}{', the last,' if last else ''} {fault}")

    return rule


def find_assistant_first(outgoing: Outgoing) -> Iterator[Finding]:
    """Find a conversation that does not begin with the user."""
    index, view = next(((i, view) for i, view in enumerate(outgoing.views) if view.role != "system"), (0, None))
    if view is not None and view.role == "assistant" and not view.opaque:
        fault = "the first, is the assistant's: put a user message in front"
        yield Finding("first-user", index, f"message {index}, {fault}")


def begin_with_user(outgoing: Outgoing) -> Outgoing:
    """Put a user's turn in front of a conversation that begins with the assistant."""
    for finding in find_assistant_first(outgoing):
        index = finding.index if not outgoing.format.lone_system else 0
        return _insert_messages(outgoing, {index: outgoing.format.text("user", OPENING_TEXT)})
    return outgoing


def insert_turns(outgoing: Outgoing, before: Mapping[int, TurnRole]) -> Outgoing:
    """Return the conversation with a turn of the host's making, in this role, in front of the one at each index."""
    return _insert_messages(outgoing, {i: outgoing.format.text(role, _FILLERS[role]) for i, role in before.items()})


def _insert_messages(outgoing: Outgoing, before: Mapping[int, Message]) -> Outgoing:
    """Return the conversation with each of these messages in front of the one at its index."""
    if not before or outgoing.messages is None:
        return outgoing
    together: list[Message] = []
    for index, message in enumerate(outgoing.messages):
        together += [before[index], message] if index in before else [message]
    return outgoing.with_messages(together)
