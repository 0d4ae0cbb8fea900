"""A list that the caller sends whole each time, and what became of it, so that a call costs what is new.

Nothing here is needed for correctness: a list that is not recognised is looked up in the archive again. The list is
kept as a copy, so that a message changed in place is noticed, and compared by value; a message that differs is read,
and counts as the same when it means the same (other ids, a cache mark that moved on).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from unabridged.archive.protocol import Scope
from unabridged.engine.state import State
from unabridged.events import Receipt
from unabridged.formats.base import Format, Message, read_message_at
from unabridged.history.difference import carry_over_edit, find_difference

_IMMUTABLE_TYPES = (str, int, float, type(None))


@dataclass(frozen=True, slots=True)
class InsertedMessage:
    """A message of ours, and the place in the original of the one it stands for; None for a summary turn."""

    message: Message
    replaces: int | None


@dataclass(frozen=True, slots=True)
class ResentList:
    """A list that was passed in, and the one that was made of it: places of messages that stay, and inserted ones."""

    original: list[Message]
    meanings: list[str]
    unreadable: frozenset[int]
    """The places of messages that are neither plain data nor objects of an SDK: those are read each time."""
    result: list[int | InsertedMessage]
    has_answers: bool
    """Whether an inserted message answers a call by its id and replaces nothing: other ids need another look-up."""
    is_whole: bool
    """Whether the list is the original conversation: then a message's turn is its place in it."""
    tokens: int
    """What the original takes."""
    scope: Scope
    receipt: Receipt | None
    is_asked: bool = False
    """Whether somebody asked for it, or a provider refused the list: then it is applied below the trigger too."""

    def rebuild_result(self, messages: Sequence[Message], format_: Format) -> list[Message] | None:
        """Return what this list becomes, with its own objects; None when it does not begin with the original."""
        head = messages[: len(self.original)]
        if len(head) < len(self.original):
            return None
        differs: set[int] = set()
        if self.unreadable or head != self.original:
            for i, (old, new) in enumerate(zip(self.original, head, strict=True)):
                if i not in self.unreadable and old == new:
                    continue
                if read_message_at(i, new, format_).meaning_digest != self.meanings[i]:
                    return None
                if old != new:
                    differs.add(i)
        if differs and self.has_answers:
            return None
        return [*(self._fill_slot(slot, messages, differs) for slot in self.result), *messages[len(self.original) :]]

    def _fill_slot(self, slot: int | InsertedMessage, messages: Sequence[Message], differs: set[int]) -> Message:
        if isinstance(slot, int):
            return messages[slot]
        if slot.replaces is None or slot.replaces not in differs:
            return slot.message
        return carry_over_edit(slot.message, self.original[slot.replaces], messages[slot.replaces])


def build_resent_list(state: State, meanings: Sequence[str], tokens: int, *, is_whole: bool) -> ResentList:
    """Return what to go by when the list that a compaction began with is passed in again.

    `meanings` are those of its messages, `tokens` what they take; `is_whole`: it is the original conversation.
    """
    original, result = state.request.original, state.working.messages
    replaced = state.find_replaced_indices() if is_whole else {}
    diff = find_difference(original, result)
    slots: list[int | InsertedMessage] = [*range(diff.start)]
    stayed = {place: i for i, place in enumerate(diff.before, diff.start) if isinstance(place, int)}
    has_answers = False
    for j, message in enumerate(result[diff.start : diff.start + len(diff.after)]):
        if j in stayed:
            slots.append(stayed[j])
            continue
        replaces = replaced.get(diff.start + j)
        slots.append(InsertedMessage(message, replaces))
        has_answers = has_answers or (replaces is None and bool(state.format.read(message).answers))
    slots += range(diff.start + len(diff.before), len(original))
    copies = [_copy_plain_data(message) for message in original]
    return ResentList(
        original=[copy for copy, _ in copies],
        meanings=list(meanings),
        unreadable=frozenset(i for i, (_, is_plain) in enumerate(copies) if not is_plain),
        result=slots,
        has_answers=has_answers,
        is_whole=is_whole,
        tokens=tokens,
        scope=state.scope,
        receipt=state.receipt,
        is_asked=state.record is not None and bool(state.record.data.get("asked")),
    )


def _copy_plain_data(value: Any) -> tuple[Any, bool]:
    """Return a copy that shares no dict or list with the caller's, and whether it holds nothing but plain data."""
    if isinstance(value, dict):
        items = {key: _copy_plain_data(item) for key, item in value.items()}
        return {key: copy for key, (copy, _) in items.items()}, all(is_plain for _, is_plain in items.values())
    if isinstance(value, list):
        copies = [_copy_plain_data(item) for item in value]
        return [copy for copy, _ in copies], all(is_plain for _, is_plain in copies)
    # An SDK's object, of plain fields.
    if not isinstance(value, _IMMUTABLE_TYPES) and hasattr(type(value), "model_fields"):
        with suppress(Exception):  # one that can't be copied is read each time
            return deepcopy(value), True
    return value, isinstance(value, _IMMUTABLE_TYPES)
