"""The gateway's numbers for Prometheus. Every value of a label is from a fixed set: no client can make a new one."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import prometheus_client
from aiohttp import ClientConnectorError
from prometheus_client import CollectorRegistry, Gauge, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from unabridged.events import COMPACTION_KINDS, Compacted, Event, Failed
from unabridged_gateway.request_log import RequestOutcome

_COUNTED_STATUSES: Final = frozenset({
    200, 201, 204, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 499, 500, 502, 503, 504, 529
})  # fmt: skip
_NAME_PREFIX: Final = "unabridged_gateway_"
_FAILURE_STAGES: Final = frozenset({"summary", "archive", "hook", "state"})
_BUCKET_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class _Registry(CollectorRegistry):
    """A registry that leaves out when each series began; `disable_created_metrics` would do so for all registries."""

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class _RequestCollector(Collector):
    """What is counted for every request, as plain numbers: four metric objects cost a tenth of a short request."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str]] = Counter()
        self._bytes: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKET_SECONDS) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def count(self, protocol: str, status: int, seconds: float, outcome: RequestOutcome) -> None:
        """Count a request that was answered."""
        self._requests[protocol, _status_label(status)] += 1
        self._buckets[protocol][bisect_left(_BUCKET_SECONDS, seconds)] += 1
        self._seconds[protocol] += seconds
        if outcome.body:
            self._bytes[outcome.way] += len(outcome.body)
        if outcome.again:
            self._retries[protocol] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, as a registry reads them."""
        by_protocol = [([protocol], number) for protocol, number in self._retries.items()]
        by_way = [([way], number) for way, number in self._bytes.items()]
        yield _build_family("requests", "Requests that were answered.", ["protocol", "status"], self._requests.items())
        yield _build_family("request_bytes", "Bytes of conversations, by how they went on.", ["way"], by_way)
        yield _build_family("overflow_retries", "Requests sent again, refused as too long.", ["protocol"], by_protocol)
        words = "Seconds from a request's head to the end of its answer."
        seconds = HistogramMetricFamily(f"{_NAME_PREFIX}request_seconds", words, labels=["protocol"])
        bounds = [*(str(float(bound)) for bound in _BUCKET_SECONDS), "+Inf"]
        for protocol, buckets in self._buckets.items():
            counted = list(zip(bounds, accumulate(buckets), strict=True))
            seconds.add_metric([protocol], counted, self._seconds[protocol])
        yield seconds


class Metrics:
    """The counters of one gateway, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = _Registry()
        ProcessCollector(registry=self.registry)
        counter = self._build_counter
        self._requests = _RequestCollector()
        self.registry.register(self._requests)
        self.count = self._requests.count
        """Counts a request that was answered."""
        self._failures = counter("upstream_failures", "Requests that the upstream did not answer to the end.", "reason")
        self._compactions = counter("compactions", "Compactions that were made.", "kind")
        self._freed = counter("tokens_freed", "Tokens that compactions took out of requests.", "kind")
        self._failed = counter("compaction_failures", "Compactions, or steps of one, that failed.", "stage")
        self._overruled = counter("settings_overruled", "Models whose window does not allow a setting.", "setting")
        self._spent = counter("summariser_tokens", "Tokens that summaries took.", "direction")

    def register_active_requests(self, under_way: Callable[[], int]) -> None:
        """Ask this function for the requests under way, whenever somebody reads."""
        name = f"{_NAME_PREFIX}requests_under_way"
        Gauge(name, "Requests under way.", registry=self.registry).set_function(under_way)

    def count_failure(self, error: BaseException) -> None:
        """Count that the upstream did not answer, or broke off."""
        kinds = (TimeoutError, "timeout"), (ClientConnectorError, "unreachable")
        reason = next((name for kind, name in kinds if isinstance(error, kind)), "broken off")
        self._failures(reason).inc()

    def count_overruled(self, setting: str) -> None:
        """Count one more model whose window does not allow this setting."""
        self._overruled(setting).inc()

    def count_event(self, event: Event) -> None:
        """Count what a compaction did, and what its summary took."""
        cost: Any = {}
        if isinstance(event, Compacted) and (kind := event.receipt.kind) in COMPACTION_KINDS:
            self._compactions(kind).inc()
            self._freed(kind).inc(max(0, event.receipt.tokens_before - event.receipt.tokens_after))
            cost = event.receipt.cost
        elif isinstance(event, Failed):
            self._failed(event.stage if event.stage in _FAILURE_STAGES else "other").inc()
            cost = {} if event.goes_on else event.cost  # else the receipt has it
        for direction in ("input", "output"):
            if tokens := cost.get(direction):
                self._spent(direction).inc(max(0, tokens))

    def page(self) -> bytes:
        """Return all of it, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _build_counter(self, name: str, words: str, *labels: str) -> Callable[..., prometheus_client.Counter]:
        """Return a function from labels to their counter."""
        return prometheus_client.Counter(_NAME_PREFIX + name, words, labels, registry=self.registry).labels


def _build_family(
    name: str, words: str, labels: Sequence[str], numbers: Iterable[tuple[Sequence[str], int]]
) -> CounterMetricFamily:
    """Return a metric with a counter for each of these values of its labels."""
    family = CounterMetricFamily(_NAME_PREFIX + name, words, labels=labels)
    for values, number in numbers:
        family.add_metric(values, number)
    return family


def _status_label(status: int) -> str:
    """Return a status as a label: those that are common by themselves, others by their class; 0 came to no answer."""
    if status in _COUNTED_STATUSES:
        return str(status)
    return f"{status // 100}xx" if 100 <= status < 600 else "none"
