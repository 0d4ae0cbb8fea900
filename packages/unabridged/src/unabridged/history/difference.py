"""Records as values: the key of a prefix, the difference between two lists, and that difference applied either way.

A compaction is nothing but a list that became another list in which the messages that stayed are the same objects.
`find_difference` writes that down; `apply_forward` makes the shorter list from the longer one again (a caller who
resends the whole history), `apply_backward` the longer from the shorter (replay, undo). No guess, no search by text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
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


def find_difference(old: Sequence[Message], new: Sequence[Message]) -> Difference:
    """Return how `new` came from `old`; messages that stayed are recognised by identity and keep their order."""
    start = _count_same_objects(zip(old, new, strict=False))
    end = _count_same_objects(zip(reversed(old[start:]), reversed(new[start:]), strict=False))
    stop_old, stop_new = len(old) - end, len(new) - end
    places: dict[int, list[int]] = {}
    for i in range(stop_old - 1, start - 1, -1):
        places.setdefault(id(old[i]), []).append(i)
    kept, came = dict[int, int](), list[int]()
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


def count_changed_prefix(old: Sequence[Message], new: Sequence[Message]) -> int:
    """Return how many messages of the old list stand before the end of the last change."""
    diff = find_difference(old, new)
    return diff.start + len(diff.before)


def apply_forward(record: Record, messages: Sequence[Message], inserted: Mapping[int, Message]) -> list[Message]:
    """Return the list after the compaction, from the list before; `inserted` has what came, by its place in `after`."""
    stop = record.start + len(record.before)
    stayed = {slot: messages[record.start + i] for i, slot in enumerate(record.before) if isinstance(slot, int)}
    region = [stayed[j] if came is None else inserted[j] for j, came in enumerate(record.after)]
    return [*messages[: record.start], *region, *messages[stop:]]


def apply_backward(
    record: Record, messages: Sequence[Message], position: int, put_back: Mapping[int, Message]
) -> list[Message]:
    """Return the list before the compaction, from one in which its result begins at `position`.

    `put_back` has what went, by its place in `before`. A list that ends within the result gives as much as is there.
    """
    is_cut_off = len(messages) < position + len(record.after)
    before = record.before[: len(messages) - position] if is_cut_off else record.before
    region = [messages[position + went] if isinstance(went, int) else put_back[i] for i, went in enumerate(before)]
    return [*messages[:position], *region, *messages[position + len(record.after) :]]


def find_replacements(record: Record) -> dict[int, int]:
    """Return, for each new message that replaces an old one, the old one's place in `before` by its own in `after`."""
    return pair_replacements(record.before, len(record.after), record.data.get("ours", ()))


def pair_replacements(before: Sequence[Any], after: int, ours: Collection[int]) -> dict[int, int]:
    """Return the same for a difference: between two that stayed, as many must have come as went, none ours.

    `after` is the number of its places, `ours` those of turns that are wholly our own.
    """
    pairs, went = dict[int, int](), list[int]()
    place = 0
    for i, slot in enumerate((*before, after)):
        if not isinstance(slot, int):
            went.append(i)
            continue
        between = range(place, slot)
        if len(between) == len(went) and not any(j in ours for j in between):
            pairs.update(zip(between, went, strict=True))
        went, place = [], slot + 1
    return pairs


def compute_prefix_digests(meanings: Iterable[str], seed: str) -> list[str]:
    """Return the digest of every prefix, the empty one first; `seed` holds what else shapes a result."""
    state = hashlib.sha256(seed.encode("utf-8", "surrogatepass"))
    keys = [state.hexdigest()]
    for item in meanings:
        state.update(item.encode())
        keys.append(state.hexdigest())
    return keys


def _count_same_objects(pairs: Iterable[tuple[Message, Message]]) -> int:
    """Return how many pairs from the first on are of one object."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))


# -- a recorded edit, made again on a message that says the same ------------------------------------------------------
#
# A record is found by meaning, so what it puts in may stand for a message that the host has built anew since, with
# other ids, cache marks or times. Three versions meet: the message as it was, what it was changed to, and the message
# as it is now. What the change left alone is taken from the message as it is now; what it changed stays changed. No
# format is asked: values are compared.


def carry_over_edit(edited: Message, original: Message, current: Message) -> Message:
    """Return the edited message, with what the edit left alone as it is in `current`; itself if nothing differs."""
    if current is original or current == original:
        return edited
    return _merge_edit(edited, original, current)


def replace_call_ids(message: Message, field: str, ids: Mapping[str, str]) -> Message:
    """Return a copy of a message of ours that answers calls, with these ids in the field that names the calls."""
    if isinstance(message, list):
        return [replace_call_ids(item, field, ids) for item in message]
    if not isinstance(message, Mapping):
        named = str(getattr(message, field, ""))
        return message.model_copy(update={field: ids[named]}) if named in ids else message
    return {
        key: ids.get(value, value) if key == field and isinstance(value, str) else replace_call_ids(value, field, ids)
        for key, value in message.items()
    }


def _merge_edit(edited: Any, original: Any, current: Any) -> Any:
    if edited is original or edited == original:
        return current
    if isinstance(edited, list) and isinstance(original, list) and isinstance(current, list):
        return _merge_lists(edited, original, current)
    new, old, now = _get_object_fields(edited), _get_object_fields(original), _get_object_fields(current)
    if new is None or old is None or now is None:
        return edited
    merged: dict[str, Any] = {}
    for key, value in new.items():
        if key in old and key in now:
            merged[key] = _merge_edit(value, old[key], now[key])
        elif key not in old or old[key] != value:
            merged[key] = value
    merged |= {key: value for key, value in now.items() if key not in old and key not in new}
    return merged if isinstance(edited, Mapping) else edited.model_copy(update=merged)


def _merge_lists(edited: Sequence[Any], original: Sequence[Any], current: Sequence[Any]) -> list[Any]:
    """Merge item by item where none was added or taken out; else those that were left alone are found in order."""
    if len(original) != len(current):
        return list(edited)
    if len(edited) == len(original):
        return [_merge_edit(new, old, now) for new, old, now in zip(edited, original, current, strict=True)]
    merged: list[Any] = []
    first = 0
    for item in edited:
        place = next((i for i in range(first, len(original)) if original[i] == item), None)
        merged.append(item if place is None else current[place])
        first = first if place is None else place + 1
    return merged


def _get_object_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a dict or of an SDK's object; None for anything else."""
    if isinstance(value, Mapping):
        return value
    named = getattr(value, "model_fields_set", None)
    if named is None:
        return None
    extra = getattr(value, "model_extra", None) or {}
    return {name: getattr(value, name) for name in named if name not in extra} | dict(extra)
