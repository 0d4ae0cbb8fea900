"""One request of a client's as the server hands it over, and the way back to the client."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from unabridged_gateway import headers
from unabridged_gateway.refusals import ClientGone
from unabridged_gateway.told import NOTHING
from unabridged_gateway.upstream import Answer

RawHeaders = list[tuple[bytes, bytes]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Call:
    """One request, and what is sent back."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_headers: RawHeaders = scope["headers"]
        self.peer: str | None = (scope.get("client") or (None,))[0]
        self.receive, self._send = receive, send
        raw: bytes = scope.get("raw_path") or self.path.encode()
        query: bytes = scope["query_string"]
        self.target = (raw.partition(b"?")[0] + (b"?" + query if query else b"")).decode("latin-1")
        """The path and the query, as the client wrote them."""
        self.status = 0
        """Of the answer, as soon as it has begun."""
        self.is_read, self.is_over = False, False
        """Whether the whole body was received; whether the whole answer was sent."""
        self.waiting_since: float | None = None
        """When the last byte came, by the monotonic clock, while it is the client's or the provider's turn."""
        self.tenant = ""
        self.told = NOTHING
        """Of its conversation, when it is over."""

    def header(self, name: bytes) -> str | None:
        """The value of the first header of this name, which is in lower case; None without one."""
        return next((value.decode("latin-1") for known, value in self.raw_headers if known == name), None)

    @property
    def has_body(self) -> bool:
        """Whether anything follows the head of the request."""
        return any(name in {b"content-length", b"transfer-encoding"} for name, _ in self.raw_headers)

    async def body(self) -> AsyncIterator[bytes]:
        """The bytes of the request's body, as they come."""
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            more = message.get("more_body", False)
            if piece := message.get("body", b""):
                yield piece

    async def begin(self, status: int, headers: RawHeaders) -> None:
        """Send the head of the answer."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, piece: bytes) -> None:
        """Send a piece of the answer."""
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self, piece: bytes = b"") -> None:
        """Send the last piece of the answer."""
        self.is_over = True
        await self._send({"type": "http.response.body", "body": piece})

    async def reply(self, status: int, said: Any, headers: RawHeaders | None = None) -> None:
        """Send an answer of our own: a text, or data as JSON."""
        data = said if isinstance(said, bytes) else msgspec.json.encode(said)
        kind = b"text/plain; charset=utf-8" if isinstance(said, bytes) else b"application/json"
        about = [(b"content-type", kind), (b"content-length", str(len(data)).encode())]
        await self.begin(status, about + (headers or []))
        await self.end(data)


async def relay(
    call: Call, pieces: AsyncIterator[bytes], answer: Callable[[], Answer], about: Callable[[], RawHeaders] = list
) -> None:
    """Hand an answer on: its head with the first piece, which may come from a second answer, each piece as it comes."""
    async for piece in pieces:
        newest = answer()
        if not call.status:
            await _begin(call, newest, about)
        if newest.is_complete:
            await call.end(piece)
        else:
            await call.write(piece)
            call.waiting_since = time.monotonic()
    if not call.status:
        await _begin(call, answer(), about)
    if not call.is_over:
        await call.end()


async def _begin(call: Call, answer: Answer, about: Callable[[], RawHeaders]) -> None:
    await call.begin(answer.status, headers.to_client(answer.headers) + about())
