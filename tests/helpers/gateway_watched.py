"""A gateway before a provider, and everything that it tells: metrics, spans and logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import httpx
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from patience import PATIENCE
from provider_app import ProviderApp
from serving import serve_in_thread
from unabridged_gateway.app import Gateway
from unabridged_gateway.config_file import load_config
from unabridged_gateway.logs import JsonLineFormatter, TextLineFormatter
from unabridged_gateway.monitoring import Monitor


class Watched:
    """A gateway before a provider, and everything that it tells."""

    def __init__(self, url: str, **flags: Any) -> None:
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        given = {"upstream": url, "window": "8k", "archive": "memory:", "summariser": "none", "port": 0, **flags}
        config = load_config(None, **given)
        monitor = Monitor(config, tracer_provider=tracers, meter_provider=MeterProvider([self._reader]))
        self.gateway = Gateway(config, monitor)
        self.client = httpx.Client()
        self.lines, self.texts = StringIO(), StringIO()

    @property
    def spans(self) -> list[Any]:
        return list(self._spans.get_finished_spans())

    def conventional(self) -> str:
        """The metrics of OpenTelemetry as JSON."""
        data = self._reader.get_metrics_data()
        return data.to_json() if data else ""

    def numbers(self, **headers: str) -> dict[str, float]:
        """What Prometheus reads, by name and labels."""
        text = self.client.get("/metrics", headers=headers).text
        return {
            " ".join([sample.name.removeprefix("unabridged_gateway_"), *sample.labels.values()]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]


@contextmanager
def watched(provider: ProviderApp, **flags: Any) -> Iterator[Watched]:
    """A gateway that logs everything it can."""
    with serve_in_thread(provider) as upstream:
        one = Watched(flags.pop("upstream", upstream), **flags)
        handlers = logging.StreamHandler(one.lines), logging.StreamHandler(one.texts)
        for handler, lines in zip(handlers, (JsonLineFormatter(), TextLineFormatter()), strict=True):
            handler.setFormatter(lines)
        with (
            heard(*handlers),
            serve_in_thread(one.gateway) as url,
            httpx.Client(base_url=url, timeout=PATIENCE) as one.client,
        ):
            yield one


@contextmanager
def heard(*handlers: logging.Handler) -> Iterator[None]:
    """All that a gateway's process may log; not what the client and the provider do, who are in this one too."""
    loggers = [logging.getLogger(name) for name in ("unabridged", "uvicorn", "asyncio", "aiohttp")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        for handler in handlers:
            logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
            for handler in handlers:
                logger.removeHandler(handler)
