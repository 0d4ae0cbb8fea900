"""Building blocks for the rules of providers and for their mending."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from unabridged.formats.base import Finding, Message, Outgoing, Rule
from unabridged.messages import View

OPENING = "<system-reminder>The conversation before this point is not shown.</system-reminder>"
CONTINUE = "<system-reminder>Continue.</system-reminder>"
"""Turns that are put in: plainly the host's words, where only a user's can stand."""


def refuse_each(name: str, is_wrong: Callable[[Message], bool], fault: str, *, last: bool = False) -> Rule:
    """A rule on single messages as the provider reads them, or on the `last` one; `fault` follows "message 3"."""

    def rule(given: Outgoing) -> Iterator[Finding]:
        for index, message in given.wire(last=last):
            if is_wrong(message):
                yield Finding(name, index, f"message {index}{', the last,' if last else ''} {fault}")

    return rule


def first_user(given: Outgoing) -> Iterator[Finding]:
    """The conversation begins with the user."""
    for index, view in enumerate(given.views):
        if view.role == "system":
            continue
        if view.role == "assistant" and not view.opaque:
            yield Finding(
                "first-user", index, f"message {index}, the first, is the assistant's: put a user message in front"
            )
        return


def begin_with_user(given: Outgoing) -> Outgoing:
    """With a user's turn in front of what begins with the assistant; of system messages, too, if they come with it."""
    for finding in first_user(given):
        index = finding.index if not given.format.lone_system else 0
        return insert(given, {index: given.format.text("user", OPENING)})
    return given


def insert(given: Outgoing, before: Mapping[int, Message]) -> Outgoing:
    """With each of these messages in front of the one that stands at its index."""
    if not before or given.messages is None:
        return given
    together: list[Message] = []
    for index, message in enumerate(given.messages):
        together += [before[index], message] if index in before else [message]
    return given.having(together)


def leave_out(given: Outgoing, is_wrong: Callable[[int, View], bool]) -> Outgoing:
    """Without the messages that are wrong."""
    kept = [m for i, m in enumerate(given.messages or ()) if not is_wrong(i, given.views[i])]
    return given.having(kept) if len(kept) < len(given.views) else given


def says_nothing(view: View) -> bool:
    """Whether the message would make a turn without parts."""
    said = view.text or view.calls or view.answers or view.media or view.reasoning or view.attached or view.unread
    return not said and not view.opaque
