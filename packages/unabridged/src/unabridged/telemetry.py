"""Export events as OpenTelemetry spans and metrics. Needs the extra `otel`.

    from unabridged.telemetry import otel

    compactor = Compactor(on_event=otel())

A compaction is a span from its beginning to its receipt; what was undone, left as it was or failed is counted. Names,
kinds and numbers only: nothing that anybody said, and no path, is in an attribute.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from threading import Lock
from typing import TYPE_CHECKING, Any

from unabridged.errors import NotInstalled
from unabridged.events import Compacted, Compacting, Event, Failed, Listener, Receipt, Unchanged, combine_listeners

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

INSTRUMENTATION_NAME = "unabridged"
_MAX_UNFINISHED = 10_000
"""Compactions that began and never ended are forgotten beyond so many."""


def otel(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    also: Listener | None = None,
) -> Listener:
    """Return a function for `Compactor(on_event=...)` that exports events by these providers, or the global ones.

    `also` is called with every event, too: there is one `on_event`.
    """
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415 - the extra brings it
    except ImportError as error:
        raise NotInstalled("telemetry", "unabridged[otel]", error) from error
    tracer = trace.get_tracer(INSTRUMENTATION_NAME, tracer_provider=tracer_provider)
    exporter = _EventExporter(tracer, metrics.get_meter(INSTRUMENTATION_NAME, meter_provider=meter_provider))
    return combine_listeners(exporter.export, also)


class _EventExporter:
    """The instruments, and when each compaction that is under way began."""

    def __init__(self, tracer: Any, meter: Any) -> None:
        self._tracer = tracer
        self._started: dict[tuple[str, str], int] = {}
        self._lock = Lock()
        self._events = meter.create_counter("unabridged.events", unit="{event}", description="Events by their kind.")
        self._freed = meter.create_counter("unabridged.tokens.freed", unit="{token}", description="Tokens freed.")
        took, spent = "How long compactions took.", "Tokens that summarisers took, by direction."
        self._seconds = meter.create_histogram("unabridged.compaction.duration", unit="s", description=took)
        self._spent = meter.create_counter("unabridged.summariser.tokens", unit="{token}", description=spent)

    def export(self, event: Event) -> None:
        """Export one event as a span and in the metrics."""
        scope = (event.namespace, event.thread)
        if isinstance(event, Compacting):
            with self._lock:
                self._started[scope] = time.time_ns()
                while len(self._started) > _MAX_UNFINISHED:
                    self._started.pop(next(iter(self._started)))
        elif isinstance(event, Compacted):
            self._export_compaction(event.receipt, scope)
        else:
            self._count(event, scope)

    def _export_compaction(self, receipt: Receipt, scope: tuple[str, str]) -> None:
        now = time.time_ns()
        started = self._pop_start(scope) or now
        kind = {"unabridged.kind": receipt.kind, "unabridged.by_model": receipt.summariser != "model-free"}
        facts = kind | _build_receipt_attributes(receipt, scope)
        self._tracer.start_span("unabridged.compact", start_time=started, attributes=facts).end(end_time=now)
        self._events.add(1, {"unabridged.event": "compacted", **kind})
        self._freed.add(max(0, receipt.tokens_before - receipt.tokens_after), kind)
        self._seconds.record((now - started) / 1e9, kind)
        for direction in ("input", "output"):
            if receipt.cost.get(direction):
                self._spent.add(int(receipt.cost[direction]), {"unabridged.direction": direction})

    def _count(self, event: Event, scope: tuple[str, str]) -> None:
        name = type(event).__name__.lower()
        facts: dict[str, Any] = {"unabridged.event": name}
        if isinstance(event, Failed):
            facts |= {"unabridged.stage": event.stage, "error.type": type(event.error).__qualname__}
        self._events.add(1, facts)
        if isinstance(event, Unchanged):  # emitted at every call while nothing can go: counted, no span
            self._pop_start(scope)
            return
        described = facts | _build_scope_attributes(scope) | _build_number_attributes(event)
        self._tracer.start_span(f"unabridged.{name}", attributes=described).end()

    def _pop_start(self, scope: tuple[str, str]) -> int | None:
        with self._lock:
            return self._started.pop(scope, None)


def _build_scope_attributes(scope: tuple[str, str]) -> dict[str, Any]:
    return {"unabridged.namespace": scope[0], "unabridged.thread": scope[1]}


def _build_number_attributes(event: Event) -> dict[str, Any]:
    """Return the numbers of an event, whatever its kind, and the record it is about."""
    facts: dict[str, Any] = {}
    for name in (field.name for field in fields(event)):
        value = getattr(event, name)
        if isinstance(value, int | float) or name == "record":
            facts[f"unabridged.{name}"] = value
        elif isinstance(value, Mapping):
            facts |= {f"unabridged.{name}.{key}": float(number) for key, number in value.items()}
    return facts


def _build_receipt_attributes(receipt: Receipt, scope: tuple[str, str]) -> dict[str, Any]:
    """Return the numbers of a receipt. Its reason and notes are for people, and not exported."""
    sizes = ("tokens_before", "tokens_after", "messages_before", "messages_after")
    facts = _build_scope_attributes(scope)
    facts |= {f"unabridged.{name.replace('_', '.')}": getattr(receipt, name) for name in sizes}
    facts |= {f"unabridged.cost.{name}": float(value) for name, value in receipt.cost.items()}
    more = {"record": receipt.id, "summariser": receipt.summariser, "mended": len(receipt.mended)}
    return facts | {f"unabridged.{name}": value for name, value in more.items()}
