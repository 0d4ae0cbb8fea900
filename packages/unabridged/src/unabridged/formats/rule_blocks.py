"""Building blocks for the rules of providers and for their mending."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from unabridged.formats.base import Finding, Message, Outgoing, Rule, Unit
from unabridged.formats.fields import get, same_objects
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


def refuse_trailing_space(ends_in_space: Callable[[Message], bool]) -> Rule:
    """A rule: the assistant's words at the very end have no white space behind them; those before more to come may."""
    at_the_end = refuse_each("trailing-space", ends_in_space, "ends in white space: strip it", last=True)
    return lambda given: iter(()) if given.pending else at_the_end(given)


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


# -- messages that hold results beside other blocks ------------------------------------------------------------------


def split_results(
    index: int, message: Message, view: View, is_result: Callable[[Any], bool], key: str = "content"
) -> list[Unit]:
    """One unit, unless the message carries results: then each of these, and what stands between them."""
    if not view.answers:
        return [Unit(message, view.role, view.calls, None, index)]
    units: list[Unit] = []
    answers = iter(view.answers)
    for block in get(message, key):
        if is_result(block):
            units.append(Unit([block], "tool", (), next(answers), index, part=True))
        elif units and units[-1].answer is None:
            units[-1].raw.append(block)
        else:
            units.append(Unit([block], view.role, (), None, index, part=True))
    return units


def join_results(
    units: Sequence[Unit],
    messages: Sequence[Message],
    with_blocks: Callable[[Message, Any], Message],
    key: str = "content",
) -> list[Message]:
    """Results in a row stand in one message; the rest of the messages they came from follows them there."""
    joined: list[Message] = []
    group: list[Unit] = []
    for unit in units:
        if group and not _belongs(unit, group):
            joined.append(_join_parts(group, messages, with_blocks, key))
            group = []
        if unit.part:
            group.append(unit)
        else:
            joined.append(unit.raw)
    return [*joined, _join_parts(group, messages, with_blocks, key)] if group else joined


def _belongs(unit: Unit, group: Sequence[Unit]) -> bool:
    """Whether the part goes into one message with these: a result behind results, or the rest of their messages."""
    if not unit.part or unit.answer is None:
        return unit.part and unit.source in {one.source for one in group}
    return group[-1].answer is not None


def _join_parts(
    group: Sequence[Unit], messages: Sequence[Message], with_blocks: Callable[[Message, Any], Message], key: str
) -> Message:
    blocks = [block for unit in group for block in unit.raw]
    first = next((unit.source for unit in group if unit.source >= 0), None)
    if first is None:
        return {"role": "user", key: blocks}
    same = same_objects(blocks, get(messages[first], key))
    return messages[first] if same else with_blocks(messages[first], blocks)
