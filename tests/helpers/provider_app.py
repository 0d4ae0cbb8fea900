"""A provider as an ASGI application, with the rules of `Loopback`: for tests of what stands before a provider.

    provider = ProviderApp(script, window=8_000)
    with serving(provider) as url:
        ...
    assert provider.refused == provider.too_long == []

Streams leave event by event. Every request is kept with its own bytes in `raw`, and with what a cache of prefixes would
have held of it. `faults` is a queue: one for each request that comes, from `provider_faults`; requests to compact have
their own, `compaction_faults`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from provider_cache import PromptCache, add_cache_usage, build_prompt_key
from provider_compaction import Compactions
from provider_faults import Fault, build_provider_error
from serving import Message, Receive, Send
from unabridged_testing.loopback import LoopbackProvider, Script, count_tokens
from unabridged_testing.loopback_wires import ServedAnswer

__all__ = ["ProviderApp", "ReceivedRequest"]

COUNTING_PATHS = {
    "/messages/count_tokens": ("/v1/messages", "input_tokens"),
    "/responses/input_tokens": ("/responses", "input_tokens"),
    ":countTokens": (":generateContent", "totalTokens"),
}
"""The ends of paths that only count: whose requests they count, and the name of the number."""

MALFORMED_BODY_ERRORS = (LookupError, TypeError, AttributeError, ValueError, RecursionError)
"""Raised by reading a body that is no request at all."""


@dataclass(slots=True)
class ReceivedRequest:
    """One request as it came, and what a cache held of its prompt."""

    method: str
    path: str
    """With its query."""
    headers: dict[str, str]
    body: bytes
    """As it was sent: compressed, if it was."""
    cached_bytes: int = 0
    """Of the prompt: the longest prefix that any request to the same model began with that was answered before."""
    fresh_bytes: int = 0
    """The rest of the prompt."""

    @property
    def is_for_model(self) -> bool:
        """Return whether it asks the model for an answer."""
        return self.cached_bytes + self.fresh_bytes > 0

    @property
    def content(self) -> bytes:
        """Return the body as it was before it was compressed."""
        how = self.headers.get("content-encoding", "identity")
        if how in {"gzip", "deflate"}:
            return zlib.decompress(self.body, wbits=47)  # either header is recognised
        if how == "zstd":
            import zstandard

            return zstandard.ZstdDecompressor().decompressobj().decompress(self.body)
        return self.body


class ProviderApp(LoopbackProvider):
    """One model behind every wire of `Loopback`, as an application; `script`, `window` and what is kept are the same.

    `compresses` events as well as whole answers for clients that accept gzip; `piece` cuts every answer into so many
    bytes wherever that falls, and tells no length. In `abandoned` are the paths of requests that were not waited for.
    """

    def __init__(self, script: Script, *, window: int, compresses: bool = False, piece: int = 0) -> None:
        super().__init__(script, window=window)
        self.compresses = compresses
        self.piece = piece
        self.raw: list[ReceivedRequest] = []
        self.faults: deque[Fault] = deque()
        self.abandoned: list[str] = []
        self.malformed: list[str] = []
        self.compactions = Compactions()
        self.compaction_faults: deque[Fault] = deque()
        self._cache = PromptCache()

    @property
    def asked(self) -> list[ReceivedRequest]:
        """Return the requests that asked the model, in order."""
        return [request for request in self.raw if request.is_for_model]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection of any kind, as ASGI has it."""
        if scope["type"] == "lifespan":
            await _serve_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        else:
            body = await _receive_body(receive)
            query = scope["query_string"].decode("latin-1")
            path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            request = ReceivedRequest(scope["method"], path, headers, body)
            self.raw.append(request)
            faults = self.compaction_faults if self._asks_for_compaction(request) else self.faults
            fault = faults.popleft() if faults else Fault()
            await self._reply_while_connected(self._reply(request, fault, send), request, receive)

    def _asks_for_compaction(self, request: ReceivedRequest) -> bool:
        try:
            return self.compactions.is_request(request.path, json.loads(request.content or b"{}"))
        except (*MALFORMED_BODY_ERRORS, zlib.error):
            return False

    async def _reply_while_connected(self, replying: Any, request: ReceivedRequest, receive: Receive) -> None:
        """Reply for as long as the client is connected."""
        reply, gone = asyncio.ensure_future(replying), asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait([reply, gone], return_when=asyncio.FIRST_COMPLETED)
            if reply.done():
                await reply
            else:
                self.abandoned.append(request.path)
        finally:
            reply.cancel()
            gone.cancel()

    async def _reply(self, request: ReceivedRequest, fault: Fault, send: Send) -> None:
        if fault.wait:
            await asyncio.sleep(fault.wait)
        headers = {"request-id": f"req_{len(self.raw)}"}
        if fault.status:
            headers |= {"retry-after": fault.retry_after} if fault.retry_after else {}
            await self._send(
                ServedAnswer(fault.status, build_provider_error(request.path, fault.status, code_name=fault.code)),
                request,
                fault,
                headers,
                send,
            )
        elif fault.body is not None:
            await _send_whole(200, {**headers, "content-type": "application/json"}, fault.body, send)
        else:
            await self._send(self.serve(request), request, fault, headers, send)

    def serve(self, request: ReceivedRequest) -> ServedAnswer:
        """Return the provider's answer to the request."""
        if request.headers.get("upgrade", "").lower() == "websocket":
            return ServedAnswer(426, build_provider_error(request.path, 426, "This endpoint speaks no WebSocket."))
        if request.method != "POST":
            return self._list_models(request)
        try:
            return self._answer_model_request(request, json.loads(request.content))
        except (*MALFORMED_BODY_ERRORS, zlib.error) as error:
            self.malformed.append(f"{type(error).__name__}: {error}")
            wire = self.wire_at(request.path)
            words = "We could not parse the JSON body of your request."
            return wire.build_refusal(words) if wire else ServedAnswer(404, build_provider_error(request.path, 404))

    def _list_models(self, request: ReceivedRequest) -> ServedAnswer:
        """Return the models, or that there is nothing."""
        if not request.path.partition("?")[0].endswith("/models"):
            return ServedAnswer(404, build_provider_error(request.path, 404))
        if "anthropic-version" in request.headers:
            about = {"type": "model", "display_name": "Served", "created_at": "2026-01-01T00:00:00Z"}
            ends = {"first_id": "served", "last_id": "served", "has_more": False}
            return ServedAnswer(200, {"data": [{"id": "served", **about}], **ends})
        if "/v1beta" in request.path:
            return ServedAnswer(200, {"models": [{"name": "models/served", "inputTokenLimit": self.window}]})
        model = {"id": "served", "object": "model", "created": 1, "owned_by": "unabridged"}
        return ServedAnswer(200, {"object": "list", "data": [model]})

    def _answer_model_request(self, request: ReceivedRequest, body: Any) -> ServedAnswer:
        path = request.path.partition("?")[0]
        for ending, (asked, name) in COUNTING_PATHS.items():
            wire = self.wire_at(asked)
            if path.endswith(ending) and wire is not None:
                return ServedAnswer(
                    200, {name: count_tokens(wire.collect_model_input(body.get("generateContentRequest", body)))}
                )
        is_compaction = self.compactions.is_request(path, body)
        wire = self.wire_at(path.removesuffix("/compact"))
        if wire is None:
            return ServedAnswer(404, build_provider_error(path, 404))
        served = self.compactions.check(wire, body, request.headers)
        if served is None and is_compaction:
            served = self.compactions.serve(wire, body, request.headers, self.window)
        if served is not None:
            self.refused += [json.dumps(served.content)] if served.status != 200 else []
            return served
        prompt = build_prompt_key(wire, body)
        model = f"{type(wire).__name__} {body.get('model') or path.rpartition(':')[0]}"
        request.cached_bytes = self._cache.find_longest_prefix(model, prompt)
        request.fresh_bytes = len(prompt) - request.cached_bytes
        served = self.answer(request.path, body)
        if served.status != 200:
            return served
        self._cache.add(model, prompt)
        marked = b'"cache_control"' in request.content
        return served._replace(content=add_cache_usage(served.content, request.cached_bytes // 4, marked=marked))

    async def _send(
        self, served: ServedAnswer, request: ReceivedRequest, fault: Fault, headers: dict[str, str], send: Send
    ) -> None:
        streamed = not isinstance(served.content, dict)
        headers["content-type"] = served.content_type
        is_compressed = "gzip" in request.headers.get("accept-encoding", "") and (self.compresses or not streamed)
        headers |= {"content-encoding": "gzip"} if is_compressed else {}
        body = served.as_bytes()
        if streamed:
            pieces = _split_bytes(body, self.piece) if self.piece else served.pieces()
            await _send_pieces(served.status, headers, _compress(pieces) if is_compressed else pieces, fault, send)
            return
        body = gzip.compress(body, 1) if is_compressed else body
        if fault.drop_after is not None:
            await _send_pieces(
                served.status, headers, _split_bytes(body, len(body) // 2 + 1), Fault(drop_after=1), send
            )
        elif self.piece:
            await _send_pieces(served.status, headers, _split_bytes(body, self.piece), fault, send)
        else:
            await _send_whole(served.status, headers, body, send)


def _split_bytes(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def _compress(pieces: list[bytes]) -> Iterator[bytes]:
    """Return the pieces compressed as one body, each so that it can be read when it comes."""
    gzipped = zlib.compressobj(wbits=31)
    return chain(
        (gzipped.compress(piece) + gzipped.flush(zlib.Z_SYNC_FLUSH) for piece in pieces),
        (gzipped.flush(zlib.Z_FINISH) for _ in range(1)),
    )


async def _send_whole(status: int, headers: dict[str, str], body: bytes, send: Send) -> None:
    await _send_head(status, {**headers, "content-length": str(len(body))}, send)
    await send({"type": "http.response.body", "body": body})


async def _send_pieces(status: int, headers: dict[str, str], pieces: Any, fault: Fault, send: Send) -> None:
    """Send the pieces one by one; an application that returns before the end has its connection broken."""
    await _send_head(status, headers, send)
    for number, piece in enumerate(pieces):
        if fault.drop_after == number:
            return
        while fault.until is not None and number >= fault.hold_after and not fault.until.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # the event is a thread's
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(0)  # so that it leaves
    if fault.drop_after is None:
        await send({"type": "http.response.body", "body": b""})


async def _send_head(status: int, headers: dict[str, str], send: Send) -> None:
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": named})


async def _receive_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _serve_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
