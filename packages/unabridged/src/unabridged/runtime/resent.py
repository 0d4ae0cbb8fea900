"""A list that the caller sends whole each time, and what became of it: so that a call costs what is new.

Nothing here is needed for correctness: a list that is not recognised is looked up in the archive again. What was given
is kept as a copy, so that a message changed in place is noticed, and compared by value; a message that differs is read,
and counts as the same when it means the same (other ids, a cache mark that moved on).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from unabridged.archive.protocol import Scope
from unabridged.compaction.state import State
from unabridged.events import Receipt
from unabridged.formats.base import Format, Message, read_at
from unabridged.formats.held import Held
from unabridged.history.difference import difference, transplant

_PLAIN = (str, int, float, type(None))


@dataclass(frozen=True, slots=True)
class Put:
    """A message of ours, and the place in what was given of the one it stands for; None for a summary turn."""

    message: Message
    instead: int | None


@dataclass(frozen=True, slots=True)
class Resent:
    """What was given, and the list that was made of it: places of messages that stay, and messages put in."""

    given: list[Message]
    meanings: list[str]
    odd: frozenset[int]
    """The places of messages that are neither plain data nor objects of an SDK: those are read each time."""
    made: list[int | Put]
    fixed: bool
    """Whether something put in answers a call by its id and stands for nothing: other ids need another look-up."""
    whole: bool
    """Whether what was given is the original conversation: then a message's turn is its place in it."""
    tokens: int
    scope: Scope
    receipt: Receipt | None
    held: Held | None
    """What the messages given hold, laid flat."""
    asked: bool = False
    """Whether somebody asked for it, or a provider refused the list: then it is applied below the trigger too."""

    def follow(self, messages: Sequence[Message], format_: Format) -> list[Message] | None:
        """The list that this one becomes, with its own objects; None when it does not begin with what was given."""
        head = messages[: len(self.given)]
        if len(head) < len(self.given):
            return None
        differs: set[int] = set()
        if self.odd or not self._is_given(head, format_):
            for i, (old, new) in enumerate(zip(self.given, head, strict=True)):
                if i not in self.odd and old == new:
                    continue
                if read_at(i, new, format_).meaning != self.meanings[i]:
                    return None
                if old != new:
                    differs.add(i)
        if differs and self.fixed:
            return None
        return [*(self._slot(slot, messages, differs) for slot in self.made), *messages[len(self.given) :]]

    def _is_given(self, head: Sequence[Message], format_: Format) -> bool:
        held = format_.held(head) if self.held is not None else None
        return (held is not None and self.held is not None and self.held.surely_is(held)) or head == self.given

    def _slot(self, slot: int | Put, messages: Sequence[Message], differs: set[int]) -> Message:
        if isinstance(slot, int):
            return messages[slot]
        if slot.instead is None or slot.instead not in differs:
            return slot.message
        return transplant(slot.message, self.given[slot.instead], messages[slot.instead])


def remember(state: State, meanings: Sequence[str], tokens: int, *, whole: bool) -> Resent:
    """What to go by when the list that a compaction was given is given again.

    `meanings` are those of its messages, `tokens` what they take; `whole`: it is the original conversation.
    """
    given, made = state.given, state.messages
    stands_for = state.stands_for() if whole else {}
    found = difference(given, made)
    slots: list[int | Put] = [*range(found.start)]
    went = set(found.went)
    kept = ((place, i) for i, place in enumerate(found.before, found.start) if i not in went)
    stayed = {place: i for place, i in kept if isinstance(place, int)}
    fixed = False
    for j, message in enumerate(made[found.start : found.start + len(found.after)]):
        if j in stayed:
            slots.append(stayed[j])
            continue
        instead = stands_for.get(found.start + j)
        slots.append(Put(message, instead))
        fixed = fixed or (instead is None and bool(state.format.read(message).answers))
    slots += range(found.start + len(found.before), len(given))
    copies = [_copied(message) for message in given]
    odd = frozenset(i for i, (_, plain) in enumerate(copies) if not plain)
    own = [copy for copy, _ in copies]
    held = state.format.held(own)
    asked = state.record is not None and bool(state.record.data.get("asked"))
    return Resent(own, list(meanings), odd, slots, fixed, whole, tokens, state.scope, state.receipt, held, asked)


def _copied(value: Any) -> tuple[Any, bool]:
    """A copy that shares no dict or list with the caller's, and whether it holds nothing but plain data."""
    if isinstance(value, dict):
        items = {key: _copied(item) for key, item in value.items()}
        return {key: copy for key, (copy, _) in items.items()}, all(plain for _, plain in items.values())
    if isinstance(value, list):
        listed = [_copied(item) for item in value]
        return [copy for copy, _ in listed], all(plain for _, plain in listed)
    if not isinstance(value, _PLAIN) and hasattr(type(value), "model_fields"):  # an SDK's object, of plain fields
        with suppress(Exception):  # one that can't be copied is read each time
            return deepcopy(value), True
    return value, isinstance(value, _PLAIN)
