"""Requests that come to nothing are broken off: a body that does not arrive, a silent provider, a client that has left.

One timer looks at all requests under way, twenty times a second. Most are over before it does.
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

from unabridged_gateway.refusals import BadBody, ClientGone

if TYPE_CHECKING:
    from unabridged_gateway.calls import Call

_TICK: Final = 0.05


class Patience:
    """How long anything is waited for, in every request of one gateway."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._waiting: set[Waiting] = set()
        self._timer: asyncio.TimerHandle | None = None

    def with_(self, call: Call) -> Waiting:
        """A block in which the call is served, and broken off where nothing comes of it."""
        return Waiting(self, call)

    def add(self, waiting: Waiting) -> None:
        """Look at this one too."""
        self._waiting.add(waiting)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK, self._tick)

    def remove(self, waiting: Waiting) -> None:
        """It is over."""
        self._waiting.discard(waiting)

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TICK, self._tick) if self._waiting else None
        for waiting in tuple(self._waiting):
            waiting.look()


class Waiting:
    """A block that ends with `BadBody`, `TimeoutError` or `ClientGone` where there is nothing more to wait for."""

    def __init__(self, patience: Patience, call: Call) -> None:
        self._patience, self._call, self._task = patience, call, asyncio.current_task()
        self._why: Exception | None = None
        self._was_looked_at = False
        self._watching: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._call.waiting_since = time.monotonic()
        self._patience.add(self)

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self._patience.remove(self)
        if self._watching is not None:
            self._watching.cancel()
        if self._why is not None and self._task is not None and isinstance(error, asyncio.CancelledError):
            self._task.uncancel()
            raise self._why from None

    def look(self) -> None:
        """Break the call off if it has waited too long; from the second look on, its client is watched."""
        call, seconds = self._call, self._patience.seconds
        if call.waiting_since is not None and time.monotonic() - call.waiting_since >= seconds:
            late = BadBody(408, f"the body was not sent within {seconds:g} seconds")
            self._break_off(TimeoutError(f"nothing came for {seconds:g} seconds") if call.is_read else late)
        elif self._was_looked_at and call.is_read and self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        self._was_looked_at = True

    async def _watch(self) -> None:
        """Wait until the client goes: behind the body, nothing else can come."""
        while (await self._call.receive())["type"] != "http.disconnect":
            pass
        if not self._call.is_over:
            self._break_off(ClientGone())

    def _break_off(self, why: Exception) -> None:
        if self._task is not None and self._why is None:
            self._why = why
            self._task.cancel()
