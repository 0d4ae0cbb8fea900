"""Read the events of a streamed answer as they pass, without changing its bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from unabridged.adapters.kit import Stream
from unabridged.tokens.calibrate import Usage, parse_usage
from unabridged_gateway.json_body import READ_ERRORS

_USAGE_MARKS = (b'"usage', b'"prompt_tokens"')
_MAX_LINE_BYTES = 16 << 20
"""A line longer than this is passed on and not read."""


class SseChunk(NamedTuple):
    """Bytes as they came, and the events that end in them, as far as those are read."""

    raw: bytes
    events: list[Any]


class SseReader:
    """Finds the events in the pieces of a stream."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self._held_bytes = 0
        self.has_begun = False
        """Whether the model has begun to answer: from then on, only reports of usage are read."""

    def read(self, raw: bytes) -> SseChunk:
        """Return this piece with the events that are complete with it."""
        end = raw.rfind(b"\n")
        if end < 0:
            self._keep_unfinished(raw)
            return SseChunk(raw, [])
        lines = b"".join((*self._unfinished, raw[:end]))
        self._unfinished, self._held_bytes = [], 0
        self._keep_unfinished(raw[end + 1 :])
        if self.has_begun and not any(word in lines for word in _USAGE_MARKS):
            return SseChunk(raw, [])
        return SseChunk(raw, [event for line in lines.splitlines() if (event := _parse_event_line(line)) is not None])

    def _keep_unfinished(self, raw: bytes) -> None:
        self._held_bytes += len(raw)
        if raw and self._held_bytes <= _MAX_LINE_BYTES:
            self._unfinished.append(raw)


def _parse_event_line(line: bytes) -> Any:
    """Return the JSON of a data line; None for any other line."""
    if not line.startswith(b"data:"):
        return None
    try:
        event = msgspec.json.decode(line[5:])
    except READ_ERRORS:
        return None
    return event if isinstance(event, dict) else None


class SseStream(Stream):
    """The pieces of a streamed answer, judged by their events."""

    def __init__(self, events: Stream, reader: SseReader) -> None:
        self._events, self._reader = events, reader
        self._report: Any = None
        self._output_tokens = 0

    def begins_answer(self, item: SseChunk) -> bool:
        """Return whether the model has begun to answer."""
        self._reader.has_begun = any(map(self._events.begins_answer, item.events))
        return self._reader.has_begun

    def refuses(self, item: SseChunk) -> bool:
        """Return whether the stream ends because the request is too long."""
        return any(map(self._events.refuses, item.events))

    def usage(self, item: SseChunk) -> Any:
        """Return the newest report of usage in the piece."""
        report = next(filter(None, map(self._events.usage, reversed(item.events))), None)
        self._report = report or self._report
        self._output_tokens = max([self._output_tokens, *map(_read_output_tokens, item.events)])
        return report

    @property
    def usage_so_far(self) -> Usage | None:
        """Return what the answer reported so far."""
        usage = parse_usage(self._report)
        return usage and replace(usage, output=max(usage.output, self._output_tokens))


def _read_output_tokens(event: Any) -> int:
    """Return the tokens of the answer, which Anthropic reports by themselves at its end."""
    usage = event.get("usage") if event.get("type") == "message_delta" else None
    tokens = usage.get("output_tokens") if isinstance(usage, dict) else 0
    return tokens if isinstance(tokens, int) else 0
