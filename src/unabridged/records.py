"""Records as values: the key of a prefix, the difference between two lists, and that difference applied either way.

A compaction is nothing but a list that became another list in which the messages that stayed are the same objects.
`difference` writes that down; `forward` makes the shorter list from the longer one again (a caller who resends the
whole history), `backward` the longer from the shorter (replay, undo). No guess, no search by text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from unabridged.archive.protocol import Record
from unabridged.formats.base import Message
from unabridged.messages import View


class Difference(NamedTuple):
    """What changed from `start` on: see `Record` for how `before` and `after` are read. Messages, not yet hashes."""

    start: int
    before: tuple[Message | int, ...]
    after: tuple[Message | None, ...]
    went: tuple[int, ...]
    """Indices, in the old list, of the messages that went."""
    came: tuple[int, ...]
    """Indices, in the new list, of the messages that were put in."""


def difference(old: Sequence[Message], new: Sequence[Message]) -> Difference:
    """How `new` came from `old`; messages that stayed are recognised by identity and keep their order."""
    start = _common(zip(old, new, strict=False))
    rest = min(len(old), len(new)) - start
    end = min(rest, _common(zip(reversed(old), reversed(new), strict=False)))
    stop_old, stop_new = len(old) - end, len(new) - end
    places: dict[int, list[int]] = {}
    for i in range(stop_old - 1, start - 1, -1):
        places.setdefault(id(old[i]), []).append(i)
    kept: dict[int, int] = {}
    came: list[int] = []
    position = start - 1
    for j in range(start, stop_new):
        candidates = places.get(id(new[j]), [])
        while candidates and candidates[-1] <= position:
            candidates.pop()
        if candidates:
            position = candidates.pop()
            kept[position] = j
        else:
            came.append(j)
    new_slots = set(kept.values())
    return Difference(
        start,
        tuple(kept[i] - start if i in kept else old[i] for i in range(start, stop_old)),
        tuple(None if j in new_slots else new[j] for j in range(start, stop_new)),
        tuple(i for i in range(start, stop_old) if i not in kept),
        tuple(came),
    )


def forward(record: Record, messages: Sequence[Message], put_in: Mapping[str, Message]) -> list[Message]:
    """The list after the compaction, from the list before it."""
    stop = record.start + len(record.before)
    stayed = {slot: messages[record.start + i] for i, slot in enumerate(record.before) if isinstance(slot, int)}
    region = [stayed[j] if came is None else put_in[came] for j, came in enumerate(record.after)]
    return [*messages[: record.start], *region, *messages[stop:]]


def backward(record: Record, messages: Sequence[Message], at: int, originals: Mapping[str, Message]) -> list[Message]:
    """The list before the compaction, from one in which its result stands at index `at`."""
    region = [messages[at + went] if isinstance(went, int) else originals[went] for went in record.before]
    return [*messages[:at], *region, *messages[at + len(record.after) :]]


def locate(record: Record, marks: Sequence[str], seen: Sequence[str], near: int) -> int | None:
    """Where in a list with the meanings `seen` the result of the record stands, given that its first mark is `near`.

    `marks` are the meanings of what was put in; every one must be there, at its distance from the others.
    """
    came = [j for j, hash_ in enumerate(record.after) if hash_ is not None]
    at = near - came[0]
    if at < 0 or at + len(record.after) > len(seen):
        return None
    return at if all(seen[at + j] == mark for j, mark in zip(came, marks, strict=True)) else None


def meaning(view: View) -> str:
    """The digest of what a message says, by which records are found and recognised."""
    return view.meaning


def chain(meanings: Iterable[str], seed: str) -> list[str]:
    """The key of every prefix, the empty one first; `seed` holds what else shapes the result (scope, settings)."""
    state = hashlib.sha256(seed.encode("utf-8", "surrogatepass"))
    keys = [state.hexdigest()]
    for item in meanings:
        state.update(item.encode())
        keys.append(state.hexdigest())
    return keys


def _common(pairs: Iterable[tuple[Message, Message]]) -> int:
    count = 0
    for one, other in pairs:
        if one is not other:
            break
        count += 1
    return count
