"""One request of a client's as the server hands it over, and the way back to the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import msgspec

from unabridged.gateway import headers
from unabridged.gateway.refusals import ClientGone
from unabridged.gateway.told import NOTHING
from unabridged.gateway.upstream import Answer

RawHeaders = list[tuple[bytes, bytes]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_SOON = 0.05
"""Seconds in which an answer needs nobody to look whether the client is still there."""


class Call:
    """One request, and what is sent back."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_headers: RawHeaders = list(scope["headers"])
        self.peer: str | None = (scope.get("client") or (None,))[0]
        self.receive, self._send = receive, send
        self._scope = scope
        self.status = 0
        """Of the answer, as soon as it has begun."""
        self.is_over = False
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

    @cached_property
    def target(self) -> str:
        """The path and the query, as the client wrote them."""
        raw: bytes = self._scope.get("raw_path") or self.path.encode()
        query: bytes = self._scope["query_string"]
        return (raw.partition(b"?")[0] + (b"?" + query if query else b"")).decode("latin-1")

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

    @contextmanager
    def ended_with_client(self) -> Iterator[None]:
        """Within, the work is broken off with `ClientGone` as soon as the client goes. The body must have been read."""
        task = asyncio.current_task()
        gone = False

        async def watch() -> None:
            nonlocal gone
            while (await self.receive())["type"] != "http.disconnect":
                pass
            if not self.is_over and task is not None:
                gone = True
                task.cancel()

        watching: list[asyncio.Task[None]] = []
        later = asyncio.get_running_loop().call_later(_SOON, lambda: watching.append(asyncio.create_task(watch())))
        try:
            yield
        except asyncio.CancelledError:
            if gone and task is not None:
                task.uncancel()
                raise ClientGone from None
            raise
        finally:
            later.cancel()
            for task_of_ours in watching:
                task_of_ours.cancel()


async def relay(
    call: Call, pieces: AsyncIterator[bytes], answer: Callable[[], Answer], about: Callable[[], RawHeaders] = list
) -> None:
    """Hand an answer on: its head with the first piece, which may come from a second answer, each piece as it comes."""
    async for piece in pieces:
        if not call.status:
            await call.begin(answer().status, headers.to_client(answer().headers) + about())
        await call.write(piece)
    if not call.status:
        await call.begin(answer().status, headers.to_client(answer().headers) + about())
    await call.end()
