"""One request of a client's as the server hands it over, and the way back to the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final, cast

import msgspec

from unabridged_gateway import headers
from unabridged_gateway.refusals import BadBody, ClientGone
from unabridged_gateway.request_log import RequestOutcome
from unabridged_gateway.upstream import UpstreamAnswer

RawHeaders = list[tuple[bytes, bytes]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_CHECK_SECONDS: Final = 0.05
"""Between two checks of the calls under way."""
_PASSED_THROUGH: Final = RequestOutcome()


class GatewayCall:
    """One request, and what is sent back."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self._scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_headers: RawHeaders = scope["headers"]
        self.connection: tuple[str, int] | None = scope.get("client")
        """The client's address and port."""
        self.peer = self.connection[0] if self.connection else None
        self.receive, self._send = receive, send
        raw: bytes = scope.get("raw_path") or self.path.encode()
        query: bytes = scope["query_string"]
        self.target = (raw.partition(b"?")[0] + (b"?" + query if query else b"")).decode("latin-1")
        """The path and the query, as the client wrote them."""
        self.status = 0
        """Of the answer, as soon as it has begun."""
        self.is_over = False
        """Whether the whole answer was sent."""
        self.tenant = ""
        self.outcome = _PASSED_THROUGH
        """What became of its conversation, when it is over."""
        self.is_body_read = False
        """Whether the whole body was received."""
        self.waiting_since: float | None = None
        """The monotonic time from which the next byte is waited for; None while the gateway itself is at work."""

    def header(self, name: bytes) -> str | None:
        """Return the value of the first header of this name, which is in lower case; None without one."""
        return next((value.decode("latin-1") for known, value in self.raw_headers if known == name), None)

    @property
    def has_body(self) -> bool:
        """Return whether anything follows the head of the request."""
        return any(name in {b"content-length", b"transfer-encoding"} for name, _ in self.raw_headers)

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the request's body as they come; raise `ClientGone` where the client leaves."""
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            more = message.get("more_body", False)
            if piece := message.get("body", b""):
                yield piece

    def expect_next_byte(self, *, soon: bool = True) -> None:
        """Start the timer for the next byte; with `soon` false, wait without a limit."""
        self.waiting_since = time.monotonic() if soon else None

    async def forward_to_app(self, app: Callable[[Any, Any, Any], Awaitable[None]]) -> None:
        """Pass the request to another ASGI application, which answers."""

        async def send(message: dict[str, Any]) -> None:
            self.status = message.get("status", self.status)
            await self._send(message)

        await app(self._scope, self.receive, send)

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

    async def reply(self, status: int, content: Any, headers: RawHeaders | None = None) -> None:
        """Send an answer of our own: a text, or data as JSON."""
        data = content if isinstance(content, bytes) else msgspec.json.encode(content)
        kind = b"text/plain; charset=utf-8" if isinstance(content, bytes) else b"application/json"
        described = [(b"content-type", kind), (b"content-length", str(len(data)).encode())]
        await self.begin(status, described + (headers or []))
        await self.end(data)


class DeadlineTimer:
    """Checks the calls of one event loop at intervals, while there are any: a timer for each of them costs more."""

    def __init__(self, idle_seconds: float) -> None:
        self.idle_seconds = idle_seconds
        self._deadlines: set[CallDeadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, deadline: CallDeadline) -> None:
        """Check this call from now on."""
        self._deadlines.add(deadline)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check_all)

    def remove(self, deadline: CallDeadline) -> None:
        """Remove this call from the checks of time limits."""
        self._deadlines.discard(deadline)

    def _check_all(self) -> None:
        self._timer = None
        for deadline in tuple(self._deadlines):
            deadline.check()
        if self._deadlines:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check_all)


class CallDeadline:
    """A block in which a call is served from its body on, and broken off where nothing more comes of it.

    It ends with `BadBody` where the body is not there after the timer's `idle_seconds`, with `TimeoutError` where
    nothing comes for so long while `expect_next_byte` waits for it, and with `ClientGone` where the client leaves after
    it sent its body.
    """

    def __init__(self, call: GatewayCall, timer: DeadlineTimer) -> None:
        self._call, self._timer = call, timer
        self._error: Exception | None = None
        """Why the call was broken off."""
        self._was_checked = False
        self._client_watch: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._cancellations = self._task.cancelling()
        self._call.expect_next_byte()
        self._timer.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._timer.remove(self)
        if self._client_watch is not None:
            self._client_watch.cancel()
            self._client_watch = None  # it refers to this object: else the body stays until garbage is collected
        if self._error is None:
            return
        is_ours = self._task.uncancel() <= self._cancellations  # else somebody else cancelled the task as well
        if is_ours and kind is asyncio.CancelledError:
            raise self._error from None

    def check(self) -> None:
        """Cancel the call if its time is up. From the second time on, watch whether its client leaves.

        Most calls are over before, and need no task for that.
        """
        call, idle_seconds = self._call, self._timer.idle_seconds
        if call.waiting_since is not None and time.monotonic() - call.waiting_since >= idle_seconds:
            late = f"the body was not sent within {idle_seconds:g} seconds"
            silent = f"nothing came for {idle_seconds:g} seconds"
            self._cancel_call(TimeoutError(silent) if call.is_body_read else BadBody(408, late))
        elif call.is_body_read and self._was_checked and self._client_watch is None:
            self._client_watch = asyncio.get_running_loop().create_task(self._watch_client())
        self._was_checked = True

    async def _watch_client(self) -> None:
        while (await self._call.receive())["type"] != "http.disconnect":
            pass  # behind the body, nothing else can come
        if not self._call.is_over:
            self._cancel_call(ClientGone())

    def _cancel_call(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
            self._task.cancel()


async def relay_answer(
    call: GatewayCall,
    pieces: AsyncIterator[bytes],
    newest_answer: Callable[[], UpstreamAnswer],
    own_headers: Callable[[], RawHeaders] = list,
) -> None:
    """Hand an answer on: its head with the first piece, which may come from a second answer, each piece as it comes."""

    async def begin(answer: UpstreamAnswer) -> None:
        await call.begin(answer.status, headers.to_client(answer.headers) + own_headers())

    async for piece in pieces:
        answer = newest_answer()
        if not call.status:
            await begin(answer)
        if answer.is_complete:
            await call.end(piece)
        else:
            await call.write(piece)
            call.expect_next_byte()
    if not call.status:
        await begin(newest_answer())
    if not call.is_over:
        await call.end()
