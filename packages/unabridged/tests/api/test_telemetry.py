"""Events as OpenTelemetry sees them, by the real SDK: spans with numbers, metrics, and nothing that anybody said."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from conversations import long_chat, user
from engine_case import compactor
from unabridged.events import Event, Failed

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from unabridged.telemetry import otel


class Seen:
    """What OpenTelemetry was given."""

    def __init__(self) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.events: list[Event] = []
        self.tell = otel(tracers, MeterProvider([self._metrics]), also=self.events.append)

    @property
    def spans(self) -> list[Any]:
        return list(self._spans.get_finished_spans())

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        data = self._metrics.get_metrics_data()
        assert data is not None
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            found[metric.name] = [(dict(point.attributes or {}), point) for point in metric.data.data_points]
        return found


def test_a_compaction_is_a_span_with_its_numbers_and_counted() -> None:
    seen = Seen()
    engine = compactor(on_event=seen.tell, namespace="shop")
    fitted = engine.fit([user("the word is hush-hush"), *long_chat(40)], thread="t")
    assert fitted.receipt is not None
    (span,) = seen.spans
    assert span.name == "unabridged.compact"
    facts = dict(span.attributes)
    assert (facts["unabridged.namespace"], facts["unabridged.thread"]) == ("shop", "t")
    assert facts["unabridged.tokens.before"] == fitted.receipt.tokens_before
    assert facts["unabridged.record"] == fitted.receipt.id
    assert facts["unabridged.kind"] == "summary"
    assert span.end_time > span.start_time
    metrics = seen.metrics()
    ((_, freed),) = metrics["unabridged.tokens.freed"]
    assert freed.value == fitted.receipt.tokens_before - fitted.receipt.tokens_after
    ((_, took),) = metrics["unabridged.compaction.duration"]
    assert took.count == 1
    assert len(seen.events) == 2


def test_failures_and_undos_are_counted_with_their_kind() -> None:
    seen = Seen()

    def broken(_prompt: str) -> str:
        raise ValueError("the secret of the provider")

    engine = compactor(model=broken, on_event=seen.tell, namespace="shop")
    fitted = engine.fit(long_chat(60), thread="t")
    engine.undo(fitted.messages, thread="t")
    names = [span.name for span in seen.spans]
    assert "unabridged.failed" in names
    assert names[-1] == "unabridged.undone"
    counted = {facts["unabridged.event"]: point.value for facts, point in seen.metrics()["unabridged.events"]}
    assert counted["failed"] >= 1
    assert counted["undone"] == 1
    assert any(isinstance(event, Failed) for event in seen.events)


@dataclass(frozen=True, slots=True)
class Weighed(Event):
    """A kind that telemetry has never heard of."""

    tokens: int
    record: str
    words: str


def test_a_new_kind_of_event_is_a_span_with_its_numbers_and_without_its_words() -> None:
    seen = Seen()
    seen.tell(Weighed("t", tokens=7, record="r1", words="hush", namespace="shop"))
    seen.tell(Failed("t", "summary", ValueError("hush"), {"calls": 2}, namespace="shop"))
    weighed, failed = ({**span.attributes} for span in seen.spans)
    named = {"unabridged.namespace": "shop", "unabridged.thread": "t"}
    assert weighed == {"unabridged.event": "weighed", **named, "unabridged.tokens": 7, "unabridged.record": "r1"}
    assert failed["unabridged.cost.calls"] == 2
    assert "hush" not in str([weighed, failed])


def test_nothing_that_anybody_said_is_in_an_attribute() -> None:
    seen = Seen()
    words = [f"hush{number}" for number in range(40)]

    def broken(_prompt: str) -> str:
        raise ValueError("hush of the provider")

    engine = compactor(model=broken, on_event=seen.tell, namespace="shop")
    messages = [user(f"Never say {word}.") for word in words]
    engine.fit([item for message in messages for item in (message, *long_chat(1))], thread="t")
    told = [dict(span.attributes) for span in seen.spans]
    told += [facts for points in seen.metrics().values() for facts, _ in points]
    assert told
    assert "hush" not in str(told)
    assert "detail" not in str(told)


def test_without_the_api_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from unabridged.errors import SettingsError\n"
        "from unabridged.telemetry import otel\n"
        "try:\n    otel()\nexcept SettingsError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "unabridged[otel]" in said.stdout
