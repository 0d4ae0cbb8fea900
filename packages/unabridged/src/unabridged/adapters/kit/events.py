"""Events as data and in words, and a list of those of one call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from unabridged.adapters.kit.context import set_temporarily
from unabridged.events import Compacted, Event, Failed, Unchanged
from unabridged.tokens.calibrate import Usage

_collected: ContextVar[Any] = ContextVar("unabridged_events", default=None)


def collect_events() -> AbstractContextManager[list[Event]]:
    """Return a context with a list of all events of compactions begun within; `add_collected_event` fills it."""
    return set_temporarily(_collected, [])


def add_collected_event(event: Event) -> None:
    """Add the event to the list of whoever collects; an adapter's `on_event` calls it."""
    if (events := _collected.get()) is not None:
        events.append(event)


def event_data(event: Event) -> dict[str, Any]:
    """Return the event as plain data: its kind and every field but those that hold messages, which have no repr."""
    data = {field.name: _to_plain_value(getattr(event, field.name)) for field in fields(event) if field.repr}
    return {"type": "unabridged", "event": type(event).__name__.lower(), **data}


def _to_plain_value(value: Any) -> Any:
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def sum_summariser_usage(events: Sequence[Event]) -> tuple[int, Usage]:
    """Return how many answers the summariser gave in these events, usable or not, and the tokens of them all."""
    costs = [event.receipt.cost for event in events if isinstance(event, Compacted)]
    costs += [dict(event.cost) for event in events if isinstance(event, Failed) and not event.goes_on]
    total = {name: int(sum(cost.get(name, 0) for cost in costs)) for name in ("calls", *Usage.__slots__)}
    return total.pop("calls"), Usage(**total)


def explain_no_compaction(events: Sequence[Event]) -> str:
    """Return why nothing was compacted, in words for whoever asked for it."""
    for event in events:
        if isinstance(event, Failed) and not event.goes_on:
            stages = {"summary": "the summariser failed", "archive": "the archive could not be written"}
            failed = stages.get(event.stage, f"{event.stage} failed")
            return f"Not compacted: {failed} ({type(event.error).__name__}: {event.error}). Nothing was changed."
    for event in events:
        if isinstance(event, Unchanged):
            return f"Not compacted: {event.reason}."
    return "Nothing to compact: a summary would not be smaller than what it stands for."
