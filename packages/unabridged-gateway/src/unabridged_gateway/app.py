"""The gateway as an ASGI application: pass requests on to their provider, conversations so that they fit."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from unabridged_cli import mcp_server
from unabridged_gateway import headers
from unabridged_gateway.addresses import is_local_host_name, parse_host_header
from unabridged_gateway.calls import CallDeadline, DeadlineTimer, GatewayCall, relay_answer
from unabridged_gateway.config import Config
from unabridged_gateway.conversation import ConversationRequest, SharedResources
from unabridged_gateway.fitting import Engines
from unabridged_gateway.json_body import JsonCache
from unabridged_gateway.monitoring import Monitor
from unabridged_gateway.protocols import Protocol, build_client_error, detect_protocol_family, find_protocol
from unabridged_gateway.recall_server import RecallServer
from unabridged_gateway.refusals import ClientGone, RequestRefused
from unabridged_gateway.request_body import read_body
from unabridged_gateway.tenants import find_tenant
from unabridged_gateway.upstream import UNREACHABLE_ERRORS, Upstream

log = logging.getLogger("unabridged.gateway")

_DOT_SEGMENT_PATTERN = re.compile(r"(?:\A|[/\\])\.\.?(?:[/\\]|\Z)")
"""A segment . or .. of a path, where backslashes separate segments too."""


class Gateway:
    """The ASGI application."""

    def __init__(self, config: Config, monitor: Monitor | None = None) -> None:
        self.config = config
        self.monitor = monitor or Monitor(config)
        self.engines = Engines(config, self.monitor.on_event, self.monitor.warn_overruled)
        self._recall = RecallServer(self.engines.archive, config.tenants)
        self._deadline_timer = DeadlineTimer(config.upstreams.timeout)
        self._under_way = 0
        self.monitor.metrics.register_active_requests(lambda: self._under_way)

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Serve one connection's request."""
        if scope["type"] == "http":
            await self._serve(GatewayCall(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: the client falls back

    @cached_property
    def upstream(self) -> Upstream:
        """Return the connections to the providers, in this event loop."""
        return Upstream(self.config.upstreams)

    @cached_property
    def _shared(self) -> SharedResources:
        return SharedResources(self.engines, JsonCache(), self.upstream, self.config.tenants.tokens)

    async def close(self) -> None:
        """Close all connections and the archive."""
        await self._recall.close()
        if "upstream" in vars(self):  # it was used
            await self.upstream.close()
        await asyncio.to_thread(self.engines.close)
        await asyncio.to_thread(self.monitor.close)

    async def _serve_lifespan(self, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, call: GatewayCall) -> None:
        """Answer the request: our own pages, else what the provider says."""
        refusal = find_refusal(self.config, call)
        if refusal is None and await self._serve_own_page(call):
            return
        start = time.perf_counter()
        protocol = find_protocol(call.method, call.path)
        family = protocol.family if protocol else detect_protocol_family(call.path, call.raw_headers)
        self._under_way += 1
        try:
            if refusal is not None:
                raise refusal
            await self._check_and_serve(call, protocol, family)
        except ClientGone:
            call.status = call.status or 499
        except RequestRefused as refused:
            await call.reply(refused.status, build_client_error(family, refused.status, refused.words))
        except UNREACHABLE_ERRORS as error:
            await self._answer_unreachable(call, family, error)
        finally:
            self._under_way -= 1
            self.monitor.record_request(call, protocol, time.perf_counter() - start)

    async def _serve_own_page(self, call: GatewayCall) -> bool:
        """Answer what is asked of the gateway itself; return false for what is the provider's."""
        try:
            if call.path != mcp_server.PATH:
                return call.method == "GET" and await self.monitor.serve(call, self.engines)
            await self._recall.serve(call)
        except RequestRefused as refused:
            await call.reply(refused.status, f"{refused.words}\n".encode())
        return True

    async def _check_and_serve(self, call: GatewayCall, protocol: Protocol | None, family: str) -> None:
        """Check that the client may send the request and that there is room for it, then serve it."""
        tenant = call.tenant = find_tenant(self.config.tenants, call.raw_headers, call.peer)
        most = self.config.listening.concurrency
        if self._under_way > most:
            raise RequestRefused(503, f"{most} requests are under way here: try again in a moment")
        if not self.upstream.serves(family):
            raise RequestRefused(404, f"this gateway has no upstream for {family}'s protocol: see its configuration")
        if call.method == "GET" and (call.header(b"upgrade") or "").lower() == "websocket":
            words = "this gateway speaks no WebSocket: send the request over HTTP"
            await call.reply(
                426, build_client_error(family, 426, words), [(b"connection", b"close")]
            )  # clients then fall back
        elif protocol is None:
            await self._pass_through(call, family)
        else:
            with CallDeadline(call, self._deadline_timer):
                received = await read_body(call.receive, call.raw_headers, self.config.listening)
                call.is_body_read, call.waiting_since = True, None
                request = ConversationRequest(self._shared, call, protocol, received, tenant)
                try:
                    await request.serve()
                finally:
                    call.outcome = request.outcome()

    async def _pass_through(self, call: GatewayCall, family: str) -> None:
        """Send the request on as it comes, and the answer back as it comes."""
        passed = headers.to_upstream(call.raw_headers, self.config.tenants.tokens)
        if length := call.header(b"content-length"):
            passed.append(("content-length", length))
        data = call.body() if call.has_body else None
        answer = await self.upstream.open(family, call.method, call.target, passed, data)
        try:
            await relay_answer(call, answer.pieces(), lambda: answer)
        finally:
            answer.close()

    async def _answer_unreachable(self, call: GatewayCall, family: str, error: BaseException) -> None:
        """Answer that the provider can't be reached; break off an answer that has begun, so that it is noticed."""
        log.warning("the upstream for %s failed: %s", family, type(error).__name__)
        self.monitor.metrics.count_failure(error)
        if call.status:
            raise ConnectionError("the upstream broke off") from None  # the error may quote the query, with a key
        status = 504 if isinstance(error, TimeoutError) else 502
        words = f"the gateway's upstream did not answer ({type(error).__name__})"
        await call.reply(status, build_client_error(family, status, words))


def find_refusal(config: Config, call: GatewayCall) -> RequestRefused | None:
    """Return why a request is refused for its Host or its path, whoever sent it; None where it is not.

    A page of another site whose name was made to lead here sends its own name as the Host. A path with dot segments may
    mean another one to the provider. Every other path goes on byte for byte.
    """
    hosts = config.listening.hosts
    if hosts or not config.tenants.tokens:
        names = [value for name, value in call.raw_headers if name == b"host"]
        host = parse_host_header(names[0].decode("latin-1")) if len(names) == 1 else ""
        if not (is_local_host_name(host) or host in hosts):
            return RequestRefused(
                421, "this gateway does not serve the Host of this request: name it in its setting hosts"
            )
    if not call.target.startswith("/"):
        return RequestRefused(400, f"{call.method} needs a path here, which begins with /")
    if "." in call.path and _DOT_SEGMENT_PATTERN.search(call.path):
        return RequestRefused(400, "the path has a segment . or .., which servers read in different ways: leave it out")
    return None
