"""A streamed answer, watched without being changed: its events are read as they pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from unabridged.adapters.kit import Stream
from unabridged.measure.calibrate import Usage, usage_of
from unabridged_gateway.bodies import UNREADABLE

_USAGE = (b'"usage', b'"prompt_tokens"')
_LONGEST = 16 << 20
"""A line longer than this is passed on and not read."""


class Piece(NamedTuple):
    """Bytes as they came, and the events that end in them, as far as they are looked at."""

    raw: bytes
    events: list[Any]


class Reader:
    """Finds the events in the pieces of a stream."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._held = 0
        self.begun = False
        """Whether the model has begun to answer: from then on, only reports of usage are looked at."""

    def read(self, raw: bytes) -> Piece:
        """This piece with the events that are complete with it."""
        ended = raw.rfind(b"\n")
        if ended < 0:
            self._hold(raw)
            return Piece(raw, [])
        lines = b"".join((*self._rest, raw[:ended]))
        self._rest, self._held = [], 0
        self._hold(raw[ended + 1 :])
        if self.begun and not any(word in lines for word in _USAGE):
            return Piece(raw, [])
        return Piece(raw, [event for line in lines.splitlines() if (event := _event_in(line)) is not None])

    def _hold(self, raw: bytes) -> None:
        self._held += len(raw)
        if raw and self._held <= _LONGEST:
            self._rest.append(raw)


def _event_in(line: bytes) -> Any:
    """The JSON of a data line; None for any other line."""
    if not line.startswith(b"data:"):
        return None
    try:
        found = msgspec.json.decode(line[5:])
    except UNREADABLE:
        return None
    return found if isinstance(found, dict) else None


class Pieces(Stream):
    """The pieces of a streamed answer, by what their events say."""

    def __init__(self, events: Stream, reader: Reader) -> None:
        self._events, self._reader = events, reader
        self._report: Any = None
        self._output = 0

    def says(self, item: Piece) -> bool:
        """Whether the model has begun to answer."""
        self._reader.begun = any(map(self._events.says, item.events))
        return self._reader.begun

    def refuses(self, item: Piece) -> bool:
        """Whether the stream ends because the request is too long."""
        return any(map(self._events.refuses, item.events))

    def usage(self, item: Piece) -> Any:
        """The newest report of usage in the piece."""
        found = next((found for event in reversed(item.events) if (found := self._events.usage(event))), None)
        self._report = found or self._report
        self._output = max([self._output, *map(_output_in, item.events)])
        return found

    @property
    def reported(self) -> Usage | None:
        """What the answer reported so far."""
        usage = usage_of(self._report)
        return usage and replace(usage, output=max(usage.output, self._output))


def _output_in(event: Any) -> int:
    """The tokens of the answer, which Anthropic reports by themselves at its end."""
    usage = event.get("usage") if event.get("type") == "message_delta" else None
    found = usage.get("output_tokens") if isinstance(usage, dict) else 0
    return found if isinstance(found, int) else 0
