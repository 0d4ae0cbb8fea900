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
    return paired(record.before, len(record.after), record.data.get("ours", ()))


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


# -- a recorded edit, made again on a message that says the same ------------------------------------------------------
#
# A record is found by meaning, so what it puts in may stand for a message that the host has built anew since, with
# other ids, cache marks or times. Three versions meet: the message as it was, what it was changed to, and the message
# as it is now. What the change left alone is taken from the message as it is now; what it changed stays changed. No
# format is asked: values are compared.


def transplant(edited: Message, original: Message, current: Message) -> Message:
    """The edited message with all that the edit left alone as it is in `current`; itself where nothing differs."""
    if current is original or current == original:
        return edited
    return _merged(edited, original, current)


def replace_call_ids(message: Message, field: str, ids: Mapping[str, str]) -> Message:
    """A copy of a message of ours that answers calls, with other ids in the field that names what is answered."""
    if isinstance(message, list):
        return [replace_call_ids(item, field, ids) for item in message]
    if not isinstance(message, Mapping):
        named = str(getattr(message, field, ""))
        return message.model_copy(update={field: ids[named]}) if named in ids else message
    return {
        key: ids.get(value, value) if key == field and isinstance(value, str) else replace_call_ids(value, field, ids)
        for key, value in message.items()
    }


def _merged(edited: Any, original: Any, current: Any) -> Any:
    if edited is original or edited == original:
        return current
    if isinstance(edited, list) and isinstance(original, list) and isinstance(current, list):
        return _merged_list(edited, original, current)
    new, old, now = _fields(edited), _fields(original), _fields(current)
    if new is None or old is None or now is None:
        return edited
    fields = {key: _merged(new[key], old[key], now[key]) for key in new if key in old and key in now}
    kept = {key: value for key, value in new.items() if key not in fields and not (key in old and old[key] == value)}
    added = {key: value for key, value in now.items() if key not in old and key not in new}
    ordered = {key: fields[key] if key in fields else kept[key] for key in new if key in fields or key in kept}
    return _built(edited, {**ordered, **added})


def _merged_list(edited: Sequence[Any], original: Sequence[Any], current: Sequence[Any]) -> list[Any]:
    """Item for item where none was added or taken out; else those that were left alone are found in order."""
    if len(original) != len(current):
        return list(edited)
    if len(edited) == len(original):
        return [_merged(new, old, now) for new, old, now in zip(edited, original, current, strict=True)]
    found: list[Any] = []
    place = 0
    for item in edited:
        at = next((i for i in range(place, len(original)) if original[i] == item), None)
        found.append(item if at is None else current[at])
        place = place if at is None else at + 1
    return found


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of a dict or of an SDK's object; None for anything else."""
    if isinstance(value, Mapping):
        return value
    named = getattr(value, "model_fields_set", None)
    if named is None:
        return None
    extra = getattr(value, "model_extra", None) or {}
    return {name: getattr(value, name) for name in named if name not in extra} | dict(extra)


def _built(like: Any, fields: dict[str, Any]) -> Any:
    """A dict, or an object of the same class, with these fields."""
    return fields if isinstance(like, Mapping) else like.model_copy(update=fields)
