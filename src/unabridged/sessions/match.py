"""Which of the messages that were read stand in the new list: as they were, edited, or not at all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from unabridged.formats import Format, Message, format_named
from unabridged.sessions.loaded import Loaded


@dataclass(frozen=True, slots=True)
class Match:
    """A message of the new list, and the index of the one it was: None for a new one."""

    message: Message
    index: int | None
    same: bool
    """Whether nothing about it changed."""


def match(loaded: Loaded, new: Sequence[Message]) -> list[Match]:
    """Find each message of the new list among those that were read.

    First by identity, which is what the engine promises for a message that stays. What is left was edited (a cleared
    result, dropped reasoning) or copied: its call ids, else its text, say which one it was.
    """
    places = {id(message): index for index, message in enumerate(loaded.messages)}
    taken: set[int] = set()
    found: list[int | None] = []
    for message in new:
        index = places.get(id(message))
        if index is not None and index in taken:
            index = None
        found.append(index)
        if index is not None:
            taken.add(index)
    if None in found:
        _find_edited(loaded, new, found, taken)
    return [
        Match(
            message,
            index,
            index is not None and (loaded.messages[index] is message or loaded.messages[index] == message),
        )
        for message, index in zip(new, found, strict=True)
    ]


def _find_edited(loaded: Loaded, new: Sequence[Message], found: list[int | None], taken: set[int]) -> None:
    format_ = format_named(loaded.format)
    left: dict[Hashable, list[int]] = {}
    for index in range(len(loaded.messages) - 1, -1, -1):
        if index not in taken:
            left.setdefault(_likeness(format_, loaded.messages[index]), []).append(index)
    for place, message in enumerate(new):
        if found[place] is None and (candidates := left.get(_likeness(format_, message))):
            found[place] = candidates.pop()


def _likeness(format_: Format, message: Message) -> Hashable:
    """What an edit leaves alone: who speaks, and the ids of calls and answers; for plain text the text itself."""
    view = format_.read(message)
    ids = tuple(call.id for call in view.calls), tuple(answer.call_id for answer in view.answers)
    return (view.role, ids) if any(ids) else (view.role, view.text or id(message))


def is_summary(loaded: Loaded, found: Match) -> bool:
    """Whether this is a new turn that only speaks, in the user's place: the summary turn of a compaction."""
    if found.index is not None:
        return False
    view = format_named(loaded.format).read(found.message)
    return view.role == "user" and not view.answers and not view.calls
