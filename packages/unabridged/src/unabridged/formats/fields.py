"""Read fields of messages and parts, be they dicts or an SDK's objects: strictly, and copied on change.

A place that holds what no provider takes there is `Unreadable`; nothing is guessed from something else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from unabridged.errors import IllegalConversation

T = TypeVar("T")


def get(message: Any, key: str, default: Any = None) -> Any:
    """Return a field of a dict or of an SDK object."""
    if isinstance(message, dict):  # by far the most frequent, and much faster to tell than Mapping
        return message.get(key, default)
    return message.get(key, default) if isinstance(message, Mapping) else getattr(message, key, default)


class Unreadable(IllegalConversation):
    """Raised where a message holds what no provider takes there; says where, what was found, what belongs there."""

    def __init__(self, place: str, found: object, wanted: str) -> None:
        self.place, self.found, self.wanted = place, found, wanted
        shown = repr(found)
        shown = shown if len(shown) <= 40 else f"{shown[:30]}…"
        super().__init__(f"{place or 'it'} is {shown} ({type(found).__name__}), where {wanted} belongs")

    def with_outer_place(self, place: str) -> Self:
        """Return the same error with its place as seen from the object around it."""
        return type(self)(f"{place}.{self.place}" if self.place else place, self.found, self.wanted)


def read_type(holder: Any) -> str | None:
    """Return the `type` of a message or part, which must be an object of some kind."""
    kind = holder.get("type") if isinstance(holder, dict) else get(holder, "type")
    if isinstance(kind, str):
        return kind
    if kind is not None:
        raise Unreadable("type", kind, "a text")
    if isinstance(holder, dict) or isinstance(holder, Mapping):  # noqa: SIM101 - one by one is much faster to tell
        return None
    if any(hasattr(holder, name) for name in ("role", "type", "model_dump")):
        return None
    raise Unreadable("", holder, "a dict or an SDK's object")


def read_word(holder: Any, key: str) -> str:
    """Return a field that holds a word, such as a role or a type; "" when it holds anything else."""
    value = get(holder, key)
    return value if isinstance(value, str) else ""


def read_text(holder: Any, key: str) -> str:
    """Return a field that holds a text, or nothing."""
    value = holder.get(key) if isinstance(holder, dict) else get(holder, key)
    if value is None or isinstance(value, str):
        return value or ""
    raise Unreadable(key, value, "a text")


def read_id(holder: Any, key: str) -> str:
    """Return a field that holds an id. Some servers number their calls: a whole number is taken as its digits."""
    value = get(holder, key)
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else read_text(holder, key)


def read_list(holder: Any, key: str, wanted: str = "a list") -> list[Any] | tuple[Any, ...]:
    """Return a field that holds a list, or nothing."""
    value = get(holder, key)
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return value
    raise Unreadable(key, value, wanted)


def read_each(items: Iterable[Any], read: Callable[[Any], T], place: str) -> list[T]:
    """Return what `read` makes of each item; an odd one is refused by its place."""
    results: list[T] = []
    for number, item in enumerate(items):
        try:
            results.append(read(item))
        except Unreadable as odd:
            raise odd.with_outer_place(f"{place}[{number}]") from None
    return results


def find_absent(holder: Any, *names: str, at: str = "") -> Iterator[str]:
    """Yield the names of the fields that are missing, each behind the place `at` of their holder."""
    for name in names:
        value = get(holder, name)
        if value is None or (name == "name" and not value):
            yield f"{at}.{name}" if at else name


def enumerate_items(holder: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield what stands in a list of the holder's, each with its place; nothing where there is no list."""
    value = get(holder, key)
    for number, item in enumerate(value if isinstance(value, list | tuple) else ()):
        yield f"{key}[{number}]", item


def to_plain_dict(message: Any) -> dict[str, Any]:
    """Return a shallow dict copy of a message or block, to build an edited one from; SDK objects are dumped."""
    if isinstance(message, Mapping):
        return dict(message)
    dump = getattr(message, "model_dump", None)
    if dump is None:
        msg = f"can't read a message of type {type(message).__name__}: expected a dict or an SDK response object"
        raise TypeError(msg)
    return dict(dump(mode="json", exclude_unset=True))


def begins_with_compaction(messages: Sequence[Any]) -> bool:
    """Return whether a provider's own compaction stands first in the list, behind system messages."""
    for message in messages:
        if get(message, "role") not in ("system", "developer"):  # a role may be any value
            content = get(message, "content")
            kind = get(content[0] if content and isinstance(content, list) else message, "type")
            return bool(kind == "compaction")
    return False


def with_field(holder: Any, key: str, value: Any) -> Any:
    """Return a dict copy with this value in the field; the same object when it stands there already."""
    return holder if get(holder, key) == value else {**to_plain_dict(holder), key: value}


def are_same_objects(new: Sequence[Any], old: Sequence[Any]) -> bool:
    """Return whether both hold the very same objects, in order."""
    return len(new) == len(old) and all(map(lambda a, b: a is b, new, old))


_encode_compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def as_json(value: Any) -> str:
    """Return call arguments as the text that the model wrote: strings as they are, objects as compact JSON."""
    return value if isinstance(value, str) else _encode_compact_json(value)


def parse_call_arguments(text: str) -> dict[str, Any]:
    """Return a call's arguments from their JSON; anything but an object is put into one: calls take nothing else."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {"value": value}
