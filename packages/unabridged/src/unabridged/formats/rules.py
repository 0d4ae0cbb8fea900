"""Rules that several providers share, and what mends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from unabridged.formats.base import Finding, LegalityRule, Message, Outgoing
from unabridged.messages import View

OPENING_TEXT = "<system-reminder>The conversation before this point is not shown.</system-reminder>"
CONTINUE_TEXT = "<system-reminder>Continue.</system-reminder>"
"""Turns that are put in: plainly the host's words, where only a user's can stand."""
ACKNOWLEDGEMENT_TEXT = "Understood."
"""The assistant's turn that is put in where two of the user's meet."""


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
        return insert_messages(outgoing, {index: outgoing.format.text("user", OPENING_TEXT)})
    return outgoing


def insert_messages(outgoing: Outgoing, before: Mapping[int, Message]) -> Outgoing:
    """Return the conversation with each of these messages in front of the one at its index."""
    if not before or outgoing.messages is None:
        return outgoing
    together: list[Message] = []
    for index, message in enumerate(outgoing.messages):
        together += [before[index], message] if index in before else [message]
    return outgoing.with_messages(together)


def remove_messages(outgoing: Outgoing, is_wrong: Callable[[int, View], bool]) -> Outgoing:
    """Return the conversation without the messages that are wrong."""
    kept = [m for i, m in enumerate(outgoing.messages or ()) if not is_wrong(i, outgoing.views[i])]
    return outgoing.with_messages(kept) if len(kept) < len(outgoing.views) else outgoing


def is_silent_view(view: View) -> bool:
    """Return whether the message has no content at all."""
    said = view.text or view.calls or view.answers or view.attached or view.unread_digest
    return not (said or view.media or view.reasoning or view.opaque)
