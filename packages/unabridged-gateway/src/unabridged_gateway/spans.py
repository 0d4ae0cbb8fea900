"""Requests as OpenTelemetry's conventions for generative AI have them: a span of the client's kind and two metrics.

Only where OpenTelemetry is installed and configured: `opentelemetry-instrument unabridged gateway …` does that by the
variables `OTEL_…`. Nothing that anybody said is in an attribute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from unabridged.events import Event
from unabridged.telemetry import NAME, otel

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from unabridged_gateway.config import Config
    from unabridged_gateway.protocols import Protocol
    from unabridged_gateway.told import Told

_PROVIDERS: Final = {"openai": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}
_MODELS: Final = 100
"""Models that metrics tell apart: clients name them, so there must be an end to it."""
_SECONDS: Final = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TOKENS: Final = [4**power for power in range(14)]
"""The buckets that the conventions give."""


class Ended(NamedTuple):
    """A request that was answered."""

    protocol: Protocol
    model: str
    status: int
    seconds: float
    told: Told
    headers: list[tuple[bytes, bytes]]


class Spans:
    """Where spans and metrics go."""

    def __init__(self, config: Config, tracers: TracerProvider, meters: MeterProvider) -> None:
        self._providers = (tracers, meters)
        self._tracer, meter = tracers.get_tracer(NAME), meters.get_meter(NAME)
        self._where = {family: _where(url) for family, url in config.upstreams.items()}
        self._models: set[str] = set()
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", unit="s", description="How long requests took.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )  # fmt: skip
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", unit="{token}", description="Tokens that the provider reported.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )  # fmt: skip

    @classmethod
    def if_configured(cls, config: Config, tracers: Any = None, meters: Any = None) -> Self | None:
        """By these providers, else by the global ones; None where nobody would see anything."""
        try:
            from opentelemetry import metrics, trace  # noqa: PLC0415 - the extra `otel` brings it
        except ImportError:
            return None
        tracers, meters = tracers or trace.get_tracer_provider(), meters or metrics.get_meter_provider()
        return cls(config, tracers, meters) if _is_real(tracers) or _is_real(meters) else None

    def on_event(self, also: Callable[[Event], object]) -> Callable[[Event], None]:
        """What compactions are told to, and this function too."""
        return otel(*self._providers, also=also)

    def tell(self, ended: Ended) -> None:
        """One request, as a span that ends now, and in the metrics."""
        from opentelemetry import propagate  # noqa: PLC0415 - it is there: see above
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - likewise

        facts = self._facts(ended)
        now = time.time_ns()
        parent = propagate.extract({name.decode("latin-1"): value.decode("latin-1") for name, value in ended.headers})
        span = self._tracer.start_span(
            f"{facts['gen_ai.operation.name']} {ended.model}".strip(), parent, SpanKind.CLIENT,
            attributes=facts | _numbers(ended.told), start_time=now - int(ended.seconds * 1e9),
        )  # fmt: skip
        if "error.type" in facts:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=now)
        self._measure(ended, facts)

    def close(self) -> None:
        """Send what is still held here."""
        for provider in self._providers:
            if (flush := getattr(provider, "force_flush", None)) is not None:
                flush(1_000)

    def _facts(self, ended: Ended) -> dict[str, Any]:
        family = ended.protocol.family
        facts = {
            "gen_ai.operation.name": "generate_content" if family == "gemini" else "chat",
            "gen_ai.provider.name": _PROVIDERS[family],
            **self._where.get(family, {}),
        }
        if ended.model:
            facts["gen_ai.request.model"] = ended.model
        if not 100 <= ended.status < 400:
            facts["error.type"] = str(ended.status or "_OTHER")
        return facts

    def _measure(self, ended: Ended, facts: dict[str, Any]) -> None:
        if ended.model and ended.model not in self._models:
            if len(self._models) < _MODELS:
                self._models.add(ended.model)
            else:
                facts = {**facts, "gen_ai.request.model": "_OTHER"}
        self._seconds.record(ended.seconds, facts)
        if (usage := ended.told.usage) is not None:
            self._tokens.record(usage.input, {**facts, "gen_ai.token.type": "input"})
            if usage.output:
                self._tokens.record(usage.output, {**facts, "gen_ai.token.type": "output"})


def _numbers(told: Told) -> dict[str, Any]:
    facts: dict[str, Any] = {"unabridged.way": told.way, "unabridged.sent_again": told.again}
    if told.fitted is not None and told.fitted.tokens_before:
        facts |= {
            "unabridged.tokens.before": told.fitted.tokens_before,
            "unabridged.tokens.after": told.fitted.tokens_after,
        }
    if told.fitted is not None and told.fitted.receipt is not None:
        facts["unabridged.record"] = told.fitted.receipt.id
    if (usage := told.usage) is not None:
        facts |= {
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        }
    return facts


def _where(url: str) -> Mapping[str, Any]:
    parts = urlsplit(url)
    return {"server.address": parts.hostname, "server.port": parts.port or (443 if parts.scheme == "https" else 80)}


def _is_real(provider: Any) -> bool:
    """Whether somebody set it: what the API brings by itself tells nobody."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
