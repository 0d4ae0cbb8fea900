"""Take a request's JSON apart and put it together again: what stays goes on as the very bytes that came.

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

_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS_DECODER = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE_DECODER = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

_SEPARATORS = b", \t\r\n"
_ITEM_ENDS = (b"", b",")
_PREFIX_BYTES = 64
"""The first bytes of a list: two that differ in them have no items in common."""
_MAX_CHANGED_ITEMS = 4
"""Messages that differ at the end where a list is the same conversation: cache marks move there."""
_MAX_LISTS = 256
"""Conversations whose messages are remembered, at most."""

READ_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""Raised for a text that is no JSON, or none that we would read."""


@dataclass(frozen=True, slots=True)
class JsonList:
    """A JSON list: its bytes without the last bracket, where each item begins and ends in them, and what each says."""

    raw: bytes
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def item_bytes(self, index: int) -> bytes:
        """Return the item as it came."""
        return self.raw[self.starts[index] : self.ends[index]]

    def count_shared_items(self, raw: bytes) -> int:
        """Return how many items from the beginning on are in this list too."""
        if raw.startswith(self.raw) and raw[len(self.raw) : len(self.raw) + 1] in _ITEM_ENDS:
            return len(self.values)
        return bisect_right(
            self.ends, count_common_bytes(self.raw, raw) - 1
        )  # with the byte behind it: the item is whole


class JsonCache:
    """The newest JSON that came, up to so many bytes: what comes again is not parsed again.

    Its values must not be changed.
    """

    def __init__(self, most: int = 64 << 20) -> None:
        self._most, self._size = most, 0
        self._values: OrderedDict[bytes, Any] = OrderedDict()
        self._lists: OrderedDict[bytes, JsonList] = OrderedDict()

    def __len__(self) -> int:
        """Return the bytes of all that is remembered."""
        return self._size

    def parse_value(self, raw: bytes) -> Any:
        """Return the value of this JSON."""
        if raw in self._values:
            self._values.move_to_end(raw)
            return self._values[raw]
        value = _VALUE_DECODER.decode(raw)
        if len(raw) * 4 <= self._most:
            self._values[raw] = value
            self._add_size(len(raw))
        return value

    def items(self, raw: bytes) -> JsonList:
        """Return the items of this JSON list; those that it shares with an earlier one are the same objects."""
        raw = raw[:-1]
        known, shared = None, 0
        for old in reversed(self._lists.values()):
            if not raw.startswith(old.raw[:_PREFIX_BYTES]):
                continue
            if (number := old.count_shared_items(raw)) > shared:
                known, shared = old, number
            if shared and shared + _MAX_CHANGED_ITEMS >= len(old.values):
                break
        items = _parse_list_items(raw, known, shared)
        if known is not None and shared == len(known.values):  # the longer one stands for both
            self._remove_list(known)
        if len(raw) * 4 <= self._most and raw not in self._lists:
            self._lists[raw] = items
            self._add_size(len(raw))
        return items

    def _remove_list(self, known: JsonList) -> None:
        if self._lists.pop(known.raw, None) is not None:
            self._size -= len(known.raw)

    def _add_size(self, size: int) -> None:
        self._size += size
        while self._size > self._most or len(self._lists) > _MAX_LISTS:
            oldest = self._lists if len(self._lists) > min(_MAX_LISTS, len(self._values)) else self._values
            self._size -= len(oldest.popitem(last=False)[0])


def _parse_list_items(raw: bytes, known: JsonList | None, shared: int) -> JsonList:
    """Return the items of the list, the first of them taken from one that is known."""
    if known is None or not shared:
        items, at, rest = JsonList(raw), 1, raw + b"]"
    else:
        items = JsonList(raw, known.starts[:shared], known.ends[:shared], known.values[:shared])
        at = items.ends[-1]
        rest = b"[" + raw[at:].lstrip(_SEPARATORS) + b"]"
    for item in _ITEMS_DECODER.decode(rest):
        while raw[at] in _SEPARATORS:
            at += 1
        items.starts.append(at)
        at += len(memoryview(item))
        items.ends.append(at)
        items.values.append(_VALUE_DECODER.decode(item))
    return items


def count_common_bytes(first: bytes, second: bytes) -> int:
    """Return how many bytes both have in common from the beginning on."""
    if second.startswith(first):
        return len(first)
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if second.startswith(first[low:middle], low):  # copies, and still faster than views, which go byte by byte
            low = middle
        else:
            high = middle - 1
    return low


class JsonBody(Mapping[str, Any]):
    """A JSON object of a client's, with one field that holds the messages; reading a field parses it."""

    def __init__(self, data: bytes, messages: str, cache: JsonCache) -> None:
        self._raw = _FIELDS_DECODER.decode(data)
        self._field, self._cache = messages, cache
        self._items: JsonList | None = None
        self._places: dict[int, int] = {}

    def __getitem__(self, name: str) -> Any:
        if name != self._field:
            return self._cache.parse_value(bytes(self._raw[name]))
        if self._items is None:
            raw = bytes(self._raw[name])
            if not raw.startswith(b"["):
                return self._cache.parse_value(raw)
            self._items = self._cache.items(raw)
        return self._items.values

    def get(self, name: str, default: Any = None) -> Any:
        """Return the field; the default where there is none, which is told quicker here than by an error."""
        return self[name] if name in self._raw else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def with_messages(self, messages: Sequence[Any]) -> bytes:
        """Return the request with these messages; one that came with it keeps its bytes."""
        if self._items is not None and not self._places:
            self._places = {id(value): place for place, value in enumerate(self._items.values)}
        written = b"[" + b",".join(map(self._bytes_of, messages)) + b"]"
        fields = {name: written if name == self._field else bytes(raw) for name, raw in self._raw.items()}
        return b"{" + b",".join(_encode(name) + b":" + value for name, value in fields.items()) + b"}"

    def _bytes_of(self, message: Any) -> bytes:
        place = self._places.get(id(message))
        return _encode(message) if place is None or self._items is None else self._items.item_bytes(place)
