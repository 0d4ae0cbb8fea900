"""Events as OpenTelemetry spans and metrics. Needs the extra `otel`.

    from unabridged.telemetry import otel

    compactor = Compactor(on_event=otel())

A compaction is a span from its beginning to its receipt; what was undone, left as it was or failed is counted. Names,
kinds and numbers only: nothing that anybody said, and no path, is in an attribute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from threading import Lock
from typing import TYPE_CHECKING, Any

from unabridged.errors import NotInstalled
from unabridged.events import Compacted, Compacting, Event, Failed, Receipt, Unchanged

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

NAME = "unabridged"
_BEGUN = 10_000
"""Compactions that began and were not heard of again are forgotten beyond so many."""


def otel(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    also: Callable[[Event], object] | None = None,
) -> Callable[[Event], None]:
    """What `Compactor(on_event=...)` takes: each event as a span and in metrics, by the global providers or by these.

    `also` is given every event, too: there is one `on_event`.
    """
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415 - the extra brings it
    except ImportError as error:
        raise NotInstalled("telemetry", "unabridged[otel]", error) from error
    tracer = trace.get_tracer(NAME, tracer_provider=tracer_provider)
    telling = _Telling(tracer, metrics.get_meter(NAME, meter_provider=meter_provider))

    def tell(event: Event) -> None:
        telling.tell(event)
        if also is not None:
            also(event)

    return tell


class _Telling:
    """The instruments, and when each compaction that is under way began."""

    def __init__(self, tracer: Any, meter: Any) -> None:
        self._tracer = tracer
        self._begun: dict[tuple[str, str], int] = {}
        self._lock = Lock()
        self._events = meter.create_counter("unabridged.events", unit="{event}", description="Events by their kind.")
        self._freed = meter.create_counter("unabridged.tokens.freed", unit="{token}", description="Tokens freed.")
        self._seconds = meter.create_histogram(
            "unabridged.compaction.duration", unit="s", description="How long compactions took."
        )
        self._spent = meter.create_counter(
            "unabridged.summariser.tokens", unit="{token}", description="Tokens that summarisers took, by direction."
        )

    def tell(self, event: Event) -> None:
        """One event, as a span and in the metrics."""
        whose = (event.namespace, event.thread)
        if isinstance(event, Compacting):
            with self._lock:
                self._begun[whose] = time.time_ns()
                while len(self._begun) > _BEGUN:
                    self._begun.pop(next(iter(self._begun)))
        elif isinstance(event, Compacted):
            self._compacted(event.receipt, whose)
        else:
            self._count(event, whose)

    def _compacted(self, receipt: Receipt, whose: tuple[str, str]) -> None:
        now = time.time_ns()
        begun = self._taken(whose) or now
        kind = {"unabridged.kind": receipt.kind, "unabridged.by_model": receipt.summariser != "model-free"}
        span = self._tracer.start_span("unabridged.compact", start_time=begun, attributes=kind | _facts(receipt, whose))
        span.end(end_time=now)
        self._events.add(1, {"unabridged.event": "compacted", **kind})
        self._freed.add(max(0, receipt.tokens_before - receipt.tokens_after), kind)
        self._seconds.record((now - begun) / 1e9, kind)
        for direction in ("input", "output"):
            if receipt.cost.get(direction):
                self._spent.add(int(receipt.cost[direction]), {"unabridged.direction": direction})

    def _count(self, event: Event, whose: tuple[str, str]) -> None:
        name = type(event).__name__.lower()
        facts: dict[str, Any] = {"unabridged.event": name}
        if isinstance(event, Failed):
            facts |= {"unabridged.stage": event.stage, "error.type": type(event.error).__qualname__}
        self._events.add(1, facts)
        if isinstance(event, Unchanged):  # told at every call while nothing can go: counted, no span
            self._taken(whose)
            return
        self._tracer.start_span(f"unabridged.{name}", attributes=facts | _named(whose) | _numbers(event)).end()

    def _taken(self, whose: tuple[str, str]) -> int | None:
        with self._lock:
            return self._begun.pop(whose, None)


def _named(whose: tuple[str, str]) -> dict[str, Any]:
    return {"unabridged.namespace": whose[0], "unabridged.thread": whose[1]}


def _numbers(event: Event) -> dict[str, Any]:
    """The numbers of an event, whatever its kind, and the record it is about."""
    facts: dict[str, Any] = {}
    for name in (field.name for field in fields(event)):
        value = getattr(event, name)
        if isinstance(value, int | float) or name == "record":
            facts[f"unabridged.{name}"] = value
        elif isinstance(value, Mapping):
            facts |= {f"unabridged.{name}.{key}": float(number) for key, number in value.items()}
    return facts


def _facts(receipt: Receipt, whose: tuple[str, str]) -> dict[str, Any]:
    """The numbers of a receipt. Its reason and notes stay where they are: they are for people."""
    sizes = ("tokens_before", "tokens_after", "messages_before", "messages_after")
    facts = _named(whose) | {f"unabridged.{name.replace('_', '.')}": getattr(receipt, name) for name in sizes}
    facts |= {f"unabridged.cost.{name}": float(value) for name, value in receipt.cost.items()}
    more = {"record": receipt.id, "summariser": receipt.summariser, "mended": len(receipt.mended)}
    return facts | {f"unabridged.{name}": value for name, value in more.items()}
