"""Records as values: the key of a prefix, the difference between two lists, and that difference applied either way.

A compaction is nothing but a list that became another list in which the messages that stayed are the same objects.
`difference` writes that down; `forward` makes the shorter list from the longer one again (a caller who resends the
whole history), `backward` the longer from the shorter (replay, undo). No guess, no search by text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from unabridged.archive.protocol import Record
from unabridged.formats.base import Message


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


def changed_until(old: Sequence[Message], new: Sequence[Message]) -> int:
    """How many messages of the old list reach from its beginning to the end of what changed."""
    found = difference(old, new)
    return found.start + len(found.before)


def forward(record: Record, messages: Sequence[Message], put_in: Mapping[int, Message]) -> list[Message]:
    """The list after the compaction, from the list before it; `put_in` has what came, by its place in `after`."""
    stop = record.start + len(record.before)
    stayed = {slot: messages[record.start + i] for i, slot in enumerate(record.before) if isinstance(slot, int)}
    region = [stayed[j] if came is None else put_in[j] for j, came in enumerate(record.after)]
    return [*messages[: record.start], *region, *messages[stop:]]


def backward(record: Record, messages: Sequence[Message], at: int, put_back: Mapping[int, Message]) -> list[Message]:
    """The list before the compaction, from one in which its result stands at index `at`.

    `put_back` has what went, by its place in `before`. A list that ends within the result gives as much as is there.
    """
    before = record.before[: len(messages) - at] if len(messages) < at + len(record.after) else record.before
    region = [messages[at + went] if isinstance(went, int) else put_back[i] for i, went in enumerate(before)]
    return [*messages[:at], *region, *messages[at + len(record.after) :]]


def pairs(record: Record) -> dict[int, int]:
    """For each place of `after` whose message stands for one that went: that one's place in `before`."""
    came = [j for j, put_in in enumerate(record.after) if put_in is not None]
    summary = came if record.kind == "summary" else []  # records of version 0.1 do not say which turns are our own
    return paired(record.before, len(record.after), record.data.get("ours", summary))


def paired(before: Sequence[Any], after: int, ours: Collection[int]) -> dict[int, int]:
    """The same for a difference: between two messages that stayed, as many must have come as went, none of them ours.

    `after` is the number of its places, `ours` those of turns that are wholly our own.
    """
    found: dict[int, int] = {}
    went: list[int] = []
    place = 0
    for i, slot in enumerate((*before, after)):
        if not isinstance(slot, int):
            went.append(i)
            continue
        between = range(place, slot)
        if len(between) == len(went) and not any(j in ours for j in between):
            found.update(zip(between, went, strict=True))
        went, place = [], slot + 1
    return found


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
