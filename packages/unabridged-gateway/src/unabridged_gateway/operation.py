"""The gateway at work: its health, its numbers, its log. Nothing that anybody said, and no key, is in any of them.

`/healthz` says that the process answers, `/readyz` that the archive does, `/metrics` what was done. The first two say
nothing else, to anybody. Numbers count the requests of all tenants: with tokens configured, `/metrics` needs an
operator's.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from unabridged_gateway.bodies import UNREADABLE
from unabridged_gateway.logs import FACTS, Facts
from unabridged_gateway.metrics import Metrics
from unabridged_gateway.protocols import model_in
from unabridged_gateway.refusals import Refused
from unabridged_gateway.spans import Ended, Spans
from unabridged_gateway.tenants import check_operator

if TYPE_CHECKING:
    from unabridged.events import Event
    from unabridged_gateway.calls import Call
    from unabridged_gateway.config import Config
    from unabridged_gateway.fitting import Engines, Overruled
    from unabridged_gateway.protocols import Protocol

log = logging.getLogger("unabridged.gateway")

_PROBED: Final = 1.0
"""Seconds for which the answer of `/readyz` holds: it is open to everybody, and asks the archive."""
_PATIENCE: Final = 5.0
_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}")
"""What is shown of a model's name; anything else is no model's."""

Page = tuple[int, bytes]


class Operation:
    """What is told about requests and compactions, and where it can be read.

    Spans and metrics of OpenTelemetry go to the given providers, else to the global ones where somebody set them.
    """

    def __init__(self, config: Config, *, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        self._config = config
        self.metrics = Metrics()
        self._spans = Spans.if_configured(config, tracer_provider, meter_provider)
        count: Callable[[Event], None] = self.metrics.count_event
        self.on_event = count if self._spans is None else self._spans.on_event(count)
        """What compactions are told to."""
        self._probe: tuple[float, asyncio.Task[str]] | None = None

    async def page(self, call: Call, engines: Engines) -> Page | None:
        """One of our own pages; None for a path that is the provider's."""
        if call.path == "/healthz":
            return 200, b"ok\n"
        if call.path == "/readyz":
            missing = await self._missing(engines)
            return (503, f"not ready: {missing}\n".encode()) if missing else (200, b"ready\n")
        if call.path == "/metrics":
            return self._numbers(call)
        return None

    def ended(self, call: Call, protocol: Protocol | None, seconds: float) -> None:
        """One request was answered."""
        name = protocol.name if protocol else "other"
        self.metrics.count(name, call.status, seconds, call.told)
        logged = log.isEnabledFor(logging.INFO)
        if not logged and self._spans is None:
            return
        model = _model_of(call) if protocol else ""
        if protocol is not None and protocol.answers and self._spans is not None:
            self._spans.tell(Ended(protocol, model, call.status, seconds, call.told, call.raw_headers))
        if logged:
            _log(call, name, model, seconds)

    def tell_overruled(self, model: str, found: Overruled) -> None:
        """Say that a setting does not hold for this model."""
        shown = model if _MODEL.fullmatch(model) else "a model"
        log.warning("for %s, %s; said once for each model", shown, found.words)
        self.metrics.count_overruled(found.setting)

    def close(self) -> None:
        """Send on what is still held here."""
        if self._spans is not None:
            self._spans.close()

    def _numbers(self, call: Call) -> Page:
        try:
            check_operator(self._config, call.raw_headers, call.peer)
        except Refused as refused:
            return refused.status, f"{refused.words}\n".encode()
        return 200, self.metrics.page()

    async def _missing(self, engines: Engines) -> str:
        """What keeps requests from being fitted; asked once for all who want to know within a second."""
        now = time.monotonic()
        if self._probe is None or (self._probe[1].done() and now - self._probe[0] > _PROBED):
            self._probe = now, asyncio.create_task(asyncio.to_thread(engines.what_is_missing))
        try:
            missing = await asyncio.wait_for(asyncio.shield(self._probe[1]), _PATIENCE)
        except TimeoutError:
            missing = f"no answer within {_PATIENCE:g} seconds"
            engines.health.tell(missing)
        return "the archive does not answer" if missing else ""  # where it is, and as whom, is not for everybody


def _model_of(call: Call) -> str:
    """The model of a request, as far as it can be shown; a body that nobody had to read is looked into for it."""
    name = call.told.model or model_in(call.path) or ""
    if not name:
        try:
            name = _NAMED.decode(call.told.body).model
        except UNREADABLE:
            return ""
    return name if _MODEL.fullmatch(name) else ""


class _Named(msgspec.Struct):
    model: str = ""


_NAMED: Final = msgspec.json.Decoder(_Named)


def _log(call: Call, protocol: str, model: str, seconds: float) -> None:
    told, fitted = call.told, call.told.fitted
    facts = Facts({"protocol": protocol, "status": call.status, "seconds": round(seconds, 4)})
    if call.tenant:
        facts["tenant"] = call.tenant
    if model:
        facts["model"] = model
    if told.body:
        facts |= {"bytes": len(told.body), "way": told.way}
    if fitted is not None and fitted.tokens_before:
        facts |= {"tokens_before": fitted.tokens_before, "tokens_after": fitted.tokens_after}
    if fitted is not None and fitted.receipt is not None:
        facts["record"] = fitted.receipt.id
    if told.again:
        facts["sent_again"] = True
    if told.note:
        facts["note"] = told.note.partition(":")[0]
    log.info(facts, extra={FACTS: facts})
