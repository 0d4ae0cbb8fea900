"""The gateway as an ASGI application: what comes for a provider goes there, conversations so that they fit."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from unabridged_gateway import headers
from unabridged_gateway.addresses import host_of, is_own_name
from unabridged_gateway.bodies import Seen
from unabridged_gateway.calls import Call, relay
from unabridged_gateway.config import Config
from unabridged_gateway.conversation import Conversation, Shared
from unabridged_gateway.encodings import read_body
from unabridged_gateway.fitting import Engines
from unabridged_gateway.operation import Operation
from unabridged_gateway.patience import Patience
from unabridged_gateway.protocols import Protocol, error_for, family_of, protocol_of
from unabridged_gateway.refusals import ClientGone, Refused
from unabridged_gateway.summariser import ClientsModel
from unabridged_gateway.tenants import tenant_of
from unabridged_gateway.upstream import Unreachable, Upstream

log = logging.getLogger("unabridged.gateway")

_DOTS = re.compile(r"(?:\A|[/\\])\.\.?(?:[/\\]|\Z)")
"""A segment . or .. of a path, where backslashes part segments too."""


class Gateway:
    """The ASGI application."""

    def __init__(self, config: Config, operation: Operation | None = None) -> None:
        self.config = config
        self.operation = operation or Operation(config)
        summariser = {"upstream": ClientsModel(config), "none": None}.get(config.summariser, config.summariser)
        self.engines = Engines(config, summariser, self.operation.on_event, self.operation.tell_overruled)
        self._limits, self._patience = config.limits, Patience(config.timeout)
        self._seen = Seen()
        self._upstream: Upstream | None = None
        self._under_way = 0
        self.operation.metrics.watch(lambda: self._under_way)

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Serve one connection's request."""
        if scope["type"] == "http":
            await self._serve(Call(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: the client falls back

    @property
    def upstream(self) -> Upstream:
        """The connections to the providers, in this event loop."""
        if self._upstream is None:
            self._upstream = Upstream(self.config)
        return self._upstream

    @cached_property
    def _shared(self) -> Shared:
        return Shared(self.engines, self._seen, self.upstream, self.config.tokens)

    async def close(self) -> None:
        """Close all connections and the archive."""
        if self._upstream is not None:
            await self._upstream.close()
        await asyncio.to_thread(self.engines.close)
        await asyncio.to_thread(self.operation.close)

    async def _live(self, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, call: Call) -> None:
        """Answer the request: our own pages, else what the provider says."""
        refused = refusal_of(self.config, call)
        if refused is None and call.method == "GET" and (page := await self.operation.page(call, self.engines)):
            await call.reply(*page)
            return
        begun = time.perf_counter()
        protocol = protocol_of(call.method, call.path)
        family = protocol.family if protocol else family_of(call.path, call.raw_headers)
        self._under_way += 1
        try:
            if refused is not None:
                raise refused
            await self._admit(call, protocol, family)
        except ClientGone:
            call.status = call.status or 499
        except Refused as why:
            await call.reply(why.status, error_for(family, why.status, why.words))
        except Unreachable as error:
            await self._say_unreachable(call, family, error)
        finally:
            self._under_way -= 1
            self.operation.ended(call, protocol, time.perf_counter() - begun)

    async def _admit(self, call: Call, protocol: Protocol | None, family: str) -> None:
        """Serve the request of one who may ask, while there is room."""
        tenant = call.tenant = tenant_of(self.config, call.raw_headers, call.peer)
        if self._under_way > self.config.concurrency:
            raise Refused(503, f"{self.config.concurrency} requests are under way here: try again in a moment")
        if not self.upstream.serves(family):
            raise Refused(404, f"this gateway has no upstream for {family}'s protocol: see its configuration")
        if call.method == "GET" and (call.header(b"upgrade") or "").lower() == "websocket":
            words = "this gateway speaks no WebSocket: send the request over HTTP"
            await call.reply(
                426, error_for(family, 426, words), [(b"connection", b"close")]
            )  # clients fall back at once
        elif protocol is None:
            await self._pass_through(call, family)
        else:
            with self._patience.with_(call):
                received = await read_body(call.receive, call.raw_headers, self._limits)
                call.is_read, call.waiting_since = True, None
                conversation = Conversation(self._shared, call, protocol, received, tenant)
                try:
                    await conversation.serve()
                finally:
                    call.told = conversation.told()

    async def _pass_through(self, call: Call, family: str) -> None:
        """Send the request on as it comes, and the answer back as it comes."""
        sent = headers.to_upstream(call.raw_headers, self.config.tokens)
        if length := call.header(b"content-length"):
            sent.append(("content-length", length))
        data = call.body() if call.has_body else None
        answer = await self.upstream.open(family, call.method, call.target, sent, data)
        try:
            await relay(call, answer.pieces(), lambda: answer)
        finally:
            answer.close()

    async def _say_unreachable(self, call: Call, family: str, error: BaseException) -> None:
        """Say that the provider can't be reached; an answer that has begun is broken off, so that it is noticed."""
        log.warning("the upstream for %s failed: %s", family, type(error).__name__)
        self.operation.metrics.count_failure(error)
        if call.status:
            raise ConnectionError("the upstream broke off") from None  # what it says may quote the query, with a key
        status = 504 if isinstance(error, TimeoutError) else 502
        words = f"the gateway's upstream did not answer ({type(error).__name__})"
        await call.reply(status, error_for(family, status, words))


def refusal_of(config: Config, call: Call) -> Refused | None:
    """Return why a request is refused for its Host or its path, whoever sent it; None where it is not.

    A page of another site whose name was made to lead here sends its own name as the Host. A path with dot segments may
    mean another one to the provider. Every other path goes on byte for byte.
    """
    if config.hosts or not config.tokens:
        names = [value for name, value in call.raw_headers if name == b"host"]
        host = host_of(names[0].decode("latin-1")) if len(names) == 1 else ""
        if not (is_own_name(host) or host in config.hosts):
            return Refused(421, "this gateway does not serve the Host of this request: name it in its setting hosts")
    if not call.target.startswith("/"):
        return Refused(400, f"{call.method} needs a path here, which begins with /")
    if _DOTS.search(call.path):
        return Refused(400, "the path has a segment . or .., which servers read in different ways: leave it out")
    return None
