"""The gateway's numbers for Prometheus. Every value of a label is from a fixed set: no client can make a new one."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Count
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from aiohttp import ClientConnectorError
from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from unabridged.events import COMPACTIONS, Compacted, Event, Failed
from unabridged_gateway.told import Told

_STATUSES: Final = frozenset({
    200, 201, 204, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 499, 500, 502, 503, 504, 529
})  # fmt: skip
_PREFIX: Final = "unabridged_gateway_"
_STAGES: Final = frozenset({"summary", "archive", "hook", "state"})
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Answered(Collector):
    """Requests that were answered. It is counted in plain numbers, in one thread: every request pays for it."""

    def __init__(self) -> None:
        self._requests: Count[tuple[str, int]] = Count()
        self._bytes: Count[str] = Count()
        self._again: Count[str] = Count()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))

    def count(self, protocol: str, status: int, seconds: float, told: Told) -> None:
        """One more."""
        self._requests[protocol, status] += 1
        self._buckets[protocol][bisect_left(_BUCKETS, seconds)] += 1
        self._seconds[protocol] += seconds
        if told.body:
            self._bytes[told.way] += len(told.body)
        if told.again:
            self._again[protocol] += 1

    def collect(self) -> Iterator[Metric]:
        """What Prometheus is told."""
        requests: Count[tuple[str, str]] = Count()
        for (protocol, status), number in self._requests.items():
            requests[protocol, _named(status)] += number
        yield _family("requests", "Requests that were answered.", ("protocol", "status"), requests)
        sizes = {(way,): size for way, size in self._bytes.items()}
        yield _family("request_bytes", "Bytes of conversations, by how they went on.", ("way",), sizes)
        again = {(protocol,): number for protocol, number in self._again.items()}
        yield _family("overflow_retries", "Requests sent again, refused as too long.", ("protocol",), again)
        words = "Seconds from a request's head to the end of its answer."
        seconds = HistogramMetricFamily(f"{_PREFIX}request_seconds", words, labels=["protocol"])
        for protocol, counts in self._buckets.items():
            bounds = [*(str(float(bound)) for bound in _BUCKETS), "+Inf"]
            seconds.add_metric([protocol], list(zip(bounds, accumulate(counts), strict=True)), self._seconds[protocol])
        yield seconds


def _family(name: str, words: str, labels: Sequence[str], counts: Mapping[Any, int]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, words, labels=labels)
    for values, number in counts.items():
        family.add_metric(values, number)
    return family


class Metrics:
    """The counters of one gateway, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._answered = Answered()
        self.registry.register(self._answered)
        self.count = self._answered.count
        make = self._counter
        self._failures = make("upstream_failures", "Requests that the upstream did not answer to the end.", "reason")
        self._compactions = make("compactions", "Compactions that were made.", "kind")
        self._freed = make("tokens_freed", "Tokens that compactions took out of requests.", "kind")
        self._failed = make("compaction_failures", "Compactions, or steps of one, that failed.", "stage")
        self._overruled = make("settings_overruled", "Models whose window does not allow a setting.", "setting")
        self._spent = make("summariser_tokens", "Tokens that summaries took.", "direction")

    def watch(self, under_way: Callable[[], int]) -> None:
        """Ask this for the requests under way, whenever somebody reads."""
        name = f"{_PREFIX}requests_under_way"
        Gauge(name, "Requests under way.", registry=self.registry).set_function(under_way)

    def count_failure(self, error: BaseException) -> None:
        """The upstream did not answer, or broke off."""
        kinds = (TimeoutError, "timeout"), (ClientConnectorError, "unreachable")
        reason = next((name for kind, name in kinds if isinstance(error, kind)), "broken off")
        self._failures.labels(reason).inc()

    def count_overruled(self, setting: str) -> None:
        """The window of one more model does not allow this setting."""
        self._overruled.labels(setting).inc()

    def count_event(self, event: Event) -> None:
        """A compaction did something."""
        cost: Any = {}
        if isinstance(event, Compacted) and (kind := event.receipt.kind) in COMPACTIONS:
            self._compactions.labels(kind).inc()
            self._freed.labels(kind).inc(max(0, event.receipt.tokens_before - event.receipt.tokens_after))
            cost = event.receipt.cost
        elif isinstance(event, Failed):
            self._failed.labels(event.stage if event.stage in _STAGES else "other").inc()
            cost = {} if event.goes_on else event.cost  # else the receipt has it
        for direction in ("input", "output"):
            if spent := cost.get(direction):
                self._spent.labels(direction).inc(max(0, spent))

    def page(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, words, labels, registry=self.registry)


def _named(status: int) -> str:
    """A status as a label: those that are common by themselves, others by their class; 0 came to no answer."""
    if status in _STATUSES:
        return str(status)
    return f"{status // 100}xx" if 100 <= status < 600 else "none"
