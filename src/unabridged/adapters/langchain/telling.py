"""Events of the engine, told to the host's function, to LangGraph's custom stream and to LangChain's callbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any

from langchain_core.callbacks import dispatch_custom_event
from langgraph.config import get_stream_writer

from unabridged.events import Compacted, Compacting, Event, Failed, Unchanged, Undone

log = logging.getLogger("unabridged")

_HEARD: ContextVar[list[Event] | None] = ContextVar("unabridged_heard", default=None)


@contextmanager
def heard() -> Iterator[list[Event]]:
    """A list of all that is told within."""
    events: list[Event] = []
    token = _HEARD.set(events)
    try:
        yield events
    finally:
        _HEARD.reset(token)


def why_not(events: list[Event]) -> str:
    """Why nothing was compacted, for the one who asked for it."""
    for event in events:
        if isinstance(event, Failed) and event.stage != "state":
            who = {"summary": "the summariser failed", "archive": "the archive could not be written"}
            said = who.get(event.stage, f"{event.stage} failed")
            return f"Not compacted: {said} ({type(event.error).__name__}: {event.error}). Nothing was changed."
    for event in events:
        if isinstance(event, Unchanged):
            return f"Not compacted: {event.reason}."
    return "Nothing to compact: a summary would not be smaller than what it stands for."


class Teller:
    """Hands each event on. The host's stream gets them only when asked for, and then without any message's content."""

    def __init__(self, on_event: Callable[[Event], object] | None, *, stream: bool) -> None:
        self._on_event = on_event
        self._stream = stream

    def __call__(self, event: Event) -> None:
        """Tell everybody who listens; who is not there is not told."""
        if (events := _HEARD.get()) is not None:
            events.append(event)
        if self._on_event is not None:
            self._on_event(event)
        if not self._stream:
            return
        told = as_data(event)
        for tell in (_to_stream, _to_callbacks):
            try:
                tell(told)
            except RuntimeError:  # outside of a run
                log.debug("%s was not told: no run to tell", told["event"])


def as_data(event: Event) -> dict[str, Any]:
    """The event as plain data: what happened, its numbers, its receipt; no messages."""
    told: dict[str, Any] = {"type": "unabridged", "event": type(event).__name__.lower(), "thread": event.thread}
    if isinstance(event, Compacted):
        told["receipt"] = asdict(event.receipt)
    elif isinstance(event, Compacting | Unchanged):
        told |= {"reason": event.reason, "tokens": event.tokens}
    elif isinstance(event, Failed):
        told |= {"stage": event.stage, "error": f"{type(event.error).__name__}: {event.error}"}
    elif isinstance(event, Undone):
        told["record"] = event.record
    return told


def _to_stream(told: dict[str, Any]) -> None:
    get_stream_writer()(told)


def _to_callbacks(told: dict[str, Any]) -> None:
    dispatch_custom_event(f"unabridged.{told['event']}", told)
