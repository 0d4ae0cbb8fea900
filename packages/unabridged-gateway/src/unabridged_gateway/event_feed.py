"""The events of this process as a stream: `GET /events`, a JSON object on each line, for one tenant or an operator.

Sizes, costs and names, nothing that anybody said. While nobody listens nothing is measured for it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from unabridged.events import Event
from unabridged.live import encode_event
from unabridged_gateway.calls import GatewayCall
from unabridged_gateway.config import TenantConfig
from unabridged_gateway.refusals import ClientGone, RequestRefused
from unabridged_gateway.tenants import find_reader

_MAX_LISTENERS: Final = 64
_MAX_WAITING_LINES: Final = 10_000
"""A listener that is so far behind is cut off: it connects again."""
_SILENT_SECONDS: Final = 15.0
"""After so long without an event an empty line is sent, so that a connection that broke is noticed."""


class _Subscription:
    def __init__(self, namespace: str | None) -> None:
        self.namespace = namespace
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING_LINES)

    def send(self, line: bytes | None) -> None:
        """Send the line, from any thread; None ends the stream."""
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._put, line)

    def _put(self, line: bytes | None) -> None:
        if self._lines.full():
            while not self._lines.empty():
                self._lines.get_nowait()
            line = None
        self._lines.put_nowait(line)

    async def next_line(self) -> bytes | None:
        """Return the next line; an empty one where none comes."""
        try:
            return await asyncio.wait_for(self._lines.get(), _SILENT_SECONDS)
        except TimeoutError:
            return b"\n"


class EventFeed:
    """Passes the events of compactors on to the clients that listen."""

    def __init__(self, config: TenantConfig) -> None:
        self._config = config
        self._subscriptions: set[_Subscription] = set()

    @property
    def listeners(self) -> int:
        """Return how many clients listen."""
        return len(self._subscriptions)

    @property
    def every_call(self) -> bool:
        """Return whether anybody listens: only then the size at every call is wanted."""
        return self.listeners > 0

    def __call__(self, event: Event) -> None:
        """Take an event, in any thread."""
        if not self._subscriptions:
            return
        line = encode_event(event).encode()
        for each in tuple(self._subscriptions):
            if each.namespace in {None, event.namespace}:
                each.send(line)

    async def serve(self, call: GatewayCall) -> None:
        """Send the client the events of its tenant, an operator all of them, until it leaves."""
        subscription = _Subscription(find_reader(self._config, call.raw_headers, call.peer))
        if self.listeners >= _MAX_LISTENERS:
            raise RequestRefused(503, f"{_MAX_LISTENERS} clients follow the events already: try again later")
        self._subscriptions.add(subscription)
        watching = asyncio.create_task(_end_when_client_leaves(call, subscription))
        try:
            await call.begin(200, [(b"content-type", b"application/jsonl"), (b"cache-control", b"no-store")])
            await call.write(b"\n")  # so that the client knows that it is connected
            while (line := await subscription.next_line()) is not None:
                await call.write(line)
            await call.end()
        finally:
            self._subscriptions.discard(subscription)
            watching.cancel()

    def close(self) -> None:
        """End all streams: the server waits for them before it stops."""
        for each in tuple(self._subscriptions):
            each.send(None)


async def _end_when_client_leaves(call: GatewayCall, subscription: _Subscription) -> None:
    with suppress(ClientGone):
        async for _ in call.body():
            pass
        while (await call.receive())["type"] != "http.disconnect":
            pass
    subscription.send(None)
