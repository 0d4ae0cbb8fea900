"""A recorded edit, made again on a message that says the same but has other ids, cache marks or times.

A record is found by meaning, so what it puts in may stand for a message that the host has built anew since. Three
versions meet: the message as it was, what it was changed to, and the message as it is now. What the change left alone
is taken from the message as it is now; what it changed stays changed. No format is asked: values are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unabridged.formats.base import Message

_CALL_IDS = frozenset({"tool_call_id", "tool_use_id", "call_id"})
"""Where each format says which call a result answers."""


def transplant(edited: Message, original: Message, current: Message) -> Message:
    """The edited message with all that the edit left alone as it is in `current`; itself where nothing differs."""
    if current is original or current == original:
        return edited
    return _merged(edited, original, current)


def replace_call_ids(message: Message, ids: Mapping[str, str]) -> Message:
    """A copy of a message of ours that answers calls, with other ids for the calls that it answers."""
    if isinstance(message, list):
        return [replace_call_ids(item, ids) for item in message]
    if not isinstance(message, Mapping):
        named = str(getattr(message, "tool_call_id", ""))
        return message.model_copy(update={"tool_call_id": ids[named]}) if named in ids else message
    return {
        key: ids.get(value, value) if key in _CALL_IDS and isinstance(value, str) else replace_call_ids(value, ids)
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
