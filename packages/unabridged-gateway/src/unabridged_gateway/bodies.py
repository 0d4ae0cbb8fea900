"""A request's JSON, taken apart and put together again: what stays goes on as the very bytes that came.

A client resends its whole conversation with every request. A list that begins as one that came before is parsed from
where it differs, and the engine is handed the same objects as before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

_BETWEEN = b", \t\r\n"
_ENDS = (b"", b",")
_KEY = 64
"""Bytes by which lists are told apart that can't have the same beginning."""
_FEW = 4
"""Messages that differ at the end where a list is the same conversation: cache marks move there."""
_LISTS = 256
"""Conversations whose messages are remembered, at most."""

UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What a text that is no JSON, or none that we would read, raises."""


@dataclass(frozen=True, slots=True)
class Items:
    """A JSON list: its bytes without the last bracket, where each item begins and ends in them, and what each says."""

    raw: bytes
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def bytes_of(self, index: int) -> bytes:
        """The item as it came."""
        return self.raw[self.starts[index] : self.ends[index]]

    def shared_with(self, raw: bytes) -> int:
        """How many items from the beginning on stand in this list too."""
        if raw.startswith(self.raw) and raw[len(self.raw) : len(self.raw) + 1] in _ENDS:
            return len(self.values)
        return bisect_right(self.ends, _common(self.raw, raw) - 1)  # with the byte behind it: the item is whole


class Seen:
    """What came before, the newest of it, up to so many bytes: what comes again is not parsed again.

    Nobody may change what it gives.
    """

    def __init__(self, most: int = 64 << 20) -> None:
        self._most, self._size = most, 0
        self._values: OrderedDict[bytes, Any] = OrderedDict()
        self._lists: OrderedDict[bytes, Items] = OrderedDict()

    def __len__(self) -> int:
        """The bytes of all that is remembered."""
        return self._size

    def value(self, raw: bytes) -> Any:
        """What this JSON says."""
        if raw in self._values:
            self._values.move_to_end(raw)
            return self._values[raw]
        value = _VALUE.decode(raw)
        if len(raw) * 4 <= self._most:
            self._values[raw] = value
            self._take(len(raw))
        return value

    def items(self, raw: bytes) -> Items:
        """The items of this JSON list; those that it shares with one that came before are the same objects."""
        raw = raw[:-1]
        known, shared = None, 0
        for old in reversed(self._lists.values()):
            if not raw.startswith(old.raw[:_KEY]):
                continue
            found = old.shared_with(raw)
            if found > shared:
                known, shared = old, found
            if shared and shared + _FEW >= len(old.values):
                break
        items = _split(raw, known, shared)
        if known is not None and shared == len(known.values):  # the longer one stands for both
            self._drop(known)
        if len(raw) * 4 <= self._most and raw not in self._lists:
            self._lists[raw] = items
            self._take(len(raw))
        return items

    def _drop(self, known: Items) -> None:
        if self._lists.pop(known.raw, None) is not None:
            self._size -= len(known.raw)

    def _take(self, size: int) -> None:
        self._size += size
        while self._size > self._most or len(self._lists) > _LISTS:
            oldest = self._lists if len(self._lists) > min(_LISTS, len(self._values)) else self._values
            self._size -= len(oldest.popitem(last=False)[0])


def _split(raw: bytes, known: Items | None, shared: int) -> Items:
    """The items of the list, the first of them taken from one that is known."""
    if known is None or not shared:
        items, at, rest = Items(raw), 1, raw + b"]"
    else:
        items = Items(raw, known.starts[:shared], known.ends[:shared], known.values[:shared])
        at = items.ends[-1]
        rest = b"[" + raw[at:].lstrip(_BETWEEN) + b"]"
    for item in _ITEMS.decode(rest):
        while raw[at] in _BETWEEN:
            at += 1
        items.starts.append(at)
        at += len(memoryview(item))
        items.ends.append(at)
        items.values.append(_VALUE.decode(item))
    return items


def _common(first: bytes, second: bytes) -> int:
    """How many bytes both have from the beginning on."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:  # copies, and still faster than views, which go byte by byte
            low = middle
        else:
            high = middle - 1
    return low


class JsonBody(Mapping[str, Any]):
    """A JSON object of a client's, with one field that holds the messages; reading a field parses it."""

    def __init__(self, data: bytes, messages: str, seen: Seen) -> None:
        self._raw = _FIELDS.decode(data)
        self._field, self._seen = messages, seen
        self._items: Items | None = None
        self._places: dict[int, int] = {}

    def __getitem__(self, name: str) -> Any:
        if name != self._field:
            return self._seen.value(bytes(self._raw[name]))
        if self._items is None:
            raw = bytes(self._raw[name])
            if not raw.startswith(b"["):
                return self._seen.value(raw)
            self._items = self._seen.items(raw)
        return self._items.values

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def with_messages(self, messages: Sequence[Any]) -> bytes:
        """The request with these messages; one that came with it has the bytes that it came as."""
        if self._items is not None and not self._places:
            self._places = {id(value): place for place, value in enumerate(self._items.values)}
        written = b",".join(map(self._bytes_of, messages))
        fields = [(name, written if name == self._field else bytes(raw)) for name, raw in self._raw.items()]
        return b"{" + b",".join(_encode(name) + b":" + self._wrapped(name, value) for name, value in fields) + b"}"

    def _wrapped(self, name: str, value: bytes) -> bytes:
        return b"[" + value + b"]" if name == self._field else value

    def _bytes_of(self, message: Any) -> bytes:
        place = self._places.get(id(message))
        return _encode(message) if place is None or self._items is None else self._items.bytes_of(place)
