"""Read the events of a streamed answer as they pass, without changing its bytes."""

from __future__ import annotations

from collections.abc import Callable
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
    has_begun: bool
    """Whether the model has begun to answer."""


class SseReader:
    """Finds the events in the pieces of one stream; `begins_answer` says whether an event is of the answer.

    From the first such event on, only reports of usage are looked for.
    """

    def __init__(self, begins_answer: Callable[[Any], bool]) -> None:
        self._begins_answer = begins_answer
        self._unfinished: list[bytes] = []
        self._held_bytes = 0
        self._has_begun = False

    def read(self, raw: bytes) -> SseChunk:
        """Return this piece with the events that are complete with it."""
        end = raw.rfind(b"\n")
        if end < 0:
            self._keep_unfinished(raw)
            return SseChunk(raw, [], self._has_begun)
        lines = b"".join((*self._unfinished, raw[:end]))
        self._unfinished, self._held_bytes = [], 0
        self._keep_unfinished(raw[end + 1 :])
        events: list[Any] = []
        may_report = any(word in lines for word in _USAGE_MARKS)
        for line in lines.splitlines() if may_report or not self._has_begun else ():
            if (event := _parse_event_line(line)) is None:
                continue
            events.append(event)
            self._has_begun = self._has_begun or self._begins_answer(event)
            if self._has_begun and not may_report:
                break
        return SseChunk(raw, events, self._has_begun)

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

    def __init__(self, events: Stream) -> None:
        self._events = events
        self._usage: Usage | None = None
        self._output_tokens = 0

    def begins_answer(self, item: SseChunk) -> bool:
        """Return whether the model has begun to answer."""
        return item.has_begun

    def refuses(self, item: SseChunk) -> bool:
        """Return whether the stream ends because the request is too long."""
        return any(map(self._events.refuses, item.events))

    def usage(self, item: SseChunk) -> Usage | None:
        """Return the newest usage that the piece reports."""
        if not item.events:
            return None
        usage = parse_usage(next(filter(None, map(self._events.usage, reversed(item.events))), None))
        self._usage = usage or self._usage
        self._output_tokens = max([self._output_tokens, *map(_read_output_tokens, item.events)])
        return usage

    @property
    def usage_so_far(self) -> Usage | None:
        """Return what the answer reported so far."""
        return self._usage and replace(self._usage, output=max(self._usage.output, self._output_tokens))


def _read_output_tokens(event: Any) -> int:
    """Return the tokens of the answer, which Anthropic reports by themselves at its end."""
    usage = event.get("usage") if event.get("type") == "message_delta" else None
    tokens = usage.get("output_tokens") if isinstance(usage, dict) else 0
    return tokens if isinstance(tokens, int) else 0
