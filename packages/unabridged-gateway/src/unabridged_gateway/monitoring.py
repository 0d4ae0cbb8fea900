"""The gateway's health, numbers and log. Nothing that anybody said, and no key, is in any of them.

`/healthz` says that the process answers, `/readyz` that the archive does, `/metrics` what was done. The first two say
nothing else, to anybody. Numbers count the requests of all tenants: with tokens configured, `/metrics` needs an
operator's. `/events`, a stream, and `/usage` are of one tenant or, for an operator, of all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from unabridged.events import combine_listeners
from unabridged_gateway.event_feed import EventFeed
from unabridged_gateway.metrics import Metrics
from unabridged_gateway.protocols import parse_model_from_path
from unabridged_gateway.request_log import MODEL_NAME_PATTERN, log_request
from unabridged_gateway.spans import Spans
from unabridged_gateway.tenants import find_reader, require_operator
from unabridged_gateway.usage import TenantUsage

if TYPE_CHECKING:
    from unabridged.events import Event
    from unabridged_gateway.calls import GatewayCall
    from unabridged_gateway.config import Config
    from unabridged_gateway.fitting import Engines, OverruledSetting
    from unabridged_gateway.protocols import Protocol

log = logging.getLogger("unabridged.gateway")

_PROBE_VALID_SECONDS: Final = 1.0
"""How long an answer of `/readyz` holds: it is open to everybody, and asks the archive."""
_PROBE_TIMEOUT_SECONDS: Final = 5.0

Page = tuple[int, bytes | dict[str, Any]]


class Monitor:
    """The figures and records of requests and compactions, and the pages on which they are read.

    Spans and metrics of OpenTelemetry go to the given providers, else to the global ones where somebody set them.
    """

    def __init__(self, config: Config, *, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        self._config = config
        self.metrics = Metrics()
        self._spans = Spans.create_if_configured(config, tracer_provider, meter_provider)
        self.feed, self._usage = EventFeed(config.tenants), TenantUsage()
        count: Callable[[Event], None] = self.metrics.count_event
        self.on_event = combine_listeners(
            count if self._spans is None else self._spans.on_event(count), self._usage.on_event, self.feed
        )
        """Takes the events of compactions."""
        self._probe: tuple[float, asyncio.Task[str]] | None = None

    async def serve(self, call: GatewayCall, engines: Engines) -> bool:
        """Answer with one of our own pages; return false for a path that is the provider's."""
        if call.path == "/events":
            await self.feed.serve(call)
            return True
        page = await self._find_page(call, engines)
        if page is not None:
            await call.reply(*page)
        return page is not None

    async def _find_page(self, call: GatewayCall, engines: Engines) -> Page | None:
        if call.path == "/healthz":
            return 200, b"ok\n"
        if call.path == "/readyz":
            problem = await self._find_problem(engines)
            return (503, f"not ready: {problem}\n".encode()) if problem else (200, b"ready\n")
        if call.path == "/metrics":
            require_operator(self._config.tenants, call.raw_headers, call.peer)
            return 200, self.metrics.page()
        if call.path == "/usage":
            return 200, self._usage.describe(find_reader(self._config.tenants, call.raw_headers, call.peer))
        return None

    def record_request(self, call: GatewayCall, protocol: Protocol | None, seconds: float) -> None:
        """Count and log a request that was answered."""
        name = protocol.name if protocol else "other"
        self.metrics.count(name, call.status, seconds, call.outcome)
        if protocol is not None and protocol.answers:
            known = call.outcome.model or parse_model_from_path(call.path) or ""
            self._usage.count_request(call.tenant, known, call.status, call.outcome)
        is_logged = log.isEnabledFor(logging.INFO)
        if not is_logged and self._spans is None:
            return
        model = call.outcome.find_model_name(parse_model_from_path(call.path)) if protocol else ""
        if protocol is not None and protocol.answers and self._spans is not None:
            self._spans.end(protocol, model, call, seconds)
        if is_logged:
            labels = {"protocol": name, "status": call.status, "seconds": round(seconds, 4)}
            log_request(call.outcome, **labels, tenant=call.tenant, model=model)

    def warn_overruled(self, model: str, overruled: OverruledSetting) -> None:
        """Log and count that a setting does not hold for this model."""
        shown = model if MODEL_NAME_PATTERN.fullmatch(model) else "a model"
        log.warning("for %s, %s; said once for each model", shown, overruled.words)
        self.metrics.count_overruled(overruled.setting)

    def close(self) -> None:
        """Send on what is still held here."""
        if self._spans is not None:
            self._spans.close()

    async def _find_problem(self, engines: Engines) -> str:
        """Return what keeps requests from being fitted, "" for nothing; ask once for all requests within a second."""
        now = time.monotonic()
        if self._probe is None or (self._probe[1].done() and now - self._probe[0] > _PROBE_VALID_SECONDS):
            self._probe = now, asyncio.create_task(asyncio.to_thread(engines.probe_archive))
        try:
            problem = await asyncio.wait_for(asyncio.shield(self._probe[1]), _PROBE_TIMEOUT_SECONDS)
        except TimeoutError:
            problem = f"no answer within {_PROBE_TIMEOUT_SECONDS:g} seconds"
            engines.health.report(problem)
        return "the archive does not answer" if problem else ""  # where it is, and as whom, is not for everybody
