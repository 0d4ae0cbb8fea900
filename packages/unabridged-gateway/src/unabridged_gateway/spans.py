"""Report requests by OpenTelemetry's conventions for generative AI: a span of the client's kind and two metrics.

Only where OpenTelemetry is installed and configured: `opentelemetry-instrument unabridged gateway …` does that by the
variables `OTEL_…`. Nothing that anybody said is in an attribute.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from unabridged.events import Listener
from unabridged.telemetry import INSTRUMENTATION_NAME, otel

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from unabridged_gateway.calls import GatewayCall
    from unabridged_gateway.config import Config
    from unabridged_gateway.protocols import Protocol
    from unabridged_gateway.request_log import RequestOutcome

_PROVIDER_NAMES: Final = {"openai": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}
_MAX_MODELS: Final = 100
"""Models that metrics tell apart: clients name them, so there must be an end to it."""
_BUCKET_SECONDS: Final = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_BUCKET_TOKENS: Final = [4**power for power in range(14)]
"""The buckets that the conventions give."""


class Spans:
    """Spans and metrics of requests, sent to OpenTelemetry's providers."""

    def __init__(self, config: Config, tracers: TracerProvider, meters: MeterProvider) -> None:
        self._providers = (tracers, meters)
        self._tracer, meter = tracers.get_tracer(INSTRUMENTATION_NAME), meters.get_meter(INSTRUMENTATION_NAME)
        self._servers = {family: _parse_server_attributes(url) for family, url in config.upstreams.urls.items()}
        self._models: set[str] = set()
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", unit="s", description="How long requests took.",
            explicit_bucket_boundaries_advisory=_BUCKET_SECONDS,
        )  # fmt: skip
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", unit="{token}", description="Tokens that the provider reported.",
            explicit_bucket_boundaries_advisory=_BUCKET_TOKENS,
        )  # fmt: skip

    @classmethod
    def create_if_configured(cls, config: Config, tracers: Any = None, meters: Any = None) -> Self | None:
        """Return spans for these providers, else for the global ones; None where nobody would see anything."""
        try:
            from opentelemetry import metrics, trace  # noqa: PLC0415 - the extra `otel` brings it
        except ImportError:
            return None
        tracers, meters = tracers or trace.get_tracer_provider(), meters or metrics.get_meter_provider()
        return (
            cls(config, tracers, meters)
            if _is_configured_provider(tracers) or _is_configured_provider(meters)
            else None
        )

    def on_event(self, also: Listener) -> Listener:
        """Return a function for the events of compactions, which calls this one too."""
        return otel(*self._providers, also=also)

    def end(self, protocol: Protocol, model: str, call: GatewayCall, seconds: float) -> None:
        """Report a request that was answered: a span that ends now, and the metrics."""
        from opentelemetry import propagate  # noqa: PLC0415 - it is there: see above
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - likewise

        facts = self._build_attributes(protocol, model, call.status)
        now = time.time_ns()
        parent = propagate.extract(
            {name.decode("latin-1"): value.decode("latin-1") for name, value in call.raw_headers}
        )
        span = self._tracer.start_span(
            f"{facts['gen_ai.operation.name']} {model}".strip(), parent, SpanKind.CLIENT,
            attributes=facts | _build_outcome_attributes(call.outcome), start_time=now - int(seconds * 1e9),
        )  # fmt: skip
        if "error.type" in facts:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=now)
        self._record_metrics(model, seconds, call.outcome, facts)

    def close(self) -> None:
        """Send what is still held here."""
        for provider in self._providers:
            if (flush := getattr(provider, "force_flush", None)) is not None:
                flush(1_000)

    def _build_attributes(self, protocol: Protocol, model: str, status: int) -> dict[str, Any]:
        family = protocol.family
        facts = {
            "gen_ai.operation.name": "generate_content" if family == "gemini" else "chat",
            "gen_ai.provider.name": _PROVIDER_NAMES[family],
            **self._servers.get(family, {}),
        }
        if model:
            facts["gen_ai.request.model"] = model
        if not 100 <= status < 400:
            facts["error.type"] = str(status or "_OTHER")
        return facts

    def _record_metrics(self, model: str, seconds: float, outcome: RequestOutcome, facts: dict[str, Any]) -> None:
        if model and model not in self._models:
            if len(self._models) < _MAX_MODELS:
                self._models.add(model)
            else:
                facts = {**facts, "gen_ai.request.model": "_OTHER"}
        self._seconds.record(seconds, facts)
        if (usage := outcome.usage) is not None:
            self._tokens.record(usage.input, {**facts, "gen_ai.token.type": "input"})
            if usage.output:
                self._tokens.record(usage.output, {**facts, "gen_ai.token.type": "output"})


def _build_outcome_attributes(outcome: RequestOutcome) -> dict[str, Any]:
    facts: dict[str, Any] = {"unabridged.way": outcome.way, "unabridged.sent_again": outcome.again}
    fitted = outcome.fitted
    if fitted is not None and fitted.tokens_before:
        facts |= {"unabridged.tokens.before": fitted.tokens_before, "unabridged.tokens.after": fitted.tokens_after}
    if fitted is not None and fitted.receipt is not None:
        facts["unabridged.record"] = fitted.receipt.id
    if (usage := outcome.usage) is not None:
        facts |= {
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        }
    return facts


def _parse_server_attributes(url: str) -> Mapping[str, Any]:
    parts = urlsplit(url)
    return {"server.address": parts.hostname, "server.port": parts.port or (443 if parts.scheme == "https" else 80)}


def _is_configured_provider(provider: Any) -> bool:
    """Return whether somebody set this provider: the API's own sends nothing anywhere."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
