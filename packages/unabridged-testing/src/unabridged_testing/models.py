"""A summariser that follows a script, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Slow:
    """A reply that takes `seconds` to come; `reply` is anything a script may hold."""

    seconds: float
    reply: Any


class ScriptedModel:
    """Gives each ask the next reply of the script, and keeps every ask in `asks`.

    A reply is a text or a reply object (returned as it is), an exception (raised), a callable (called with the ask, and
    what it returns is the reply), or a `Slow` one of these. With `forever`, the last reply is given again and again.
    Use the model itself where a plain callable is wanted, and `.acall` where an async one is.
    """

    def __init__(self, replies: Iterable[Any] = (), *, forever: bool = False) -> None:
        self.script: list[Any] = list(replies)
        self.forever = forever
        self.asks: list[Any] = []

    def __call__(self, ask: Any) -> Any:
        """Return the next reply, sync."""
        reply = self._take_next_reply(ask)
        while isinstance(reply, Slow):
            time.sleep(reply.seconds)
            reply = reply.reply
        return _raise_or_return(reply, ask)

    async def acall(self, ask: Any) -> Any:
        """Return the next reply, async; a slow one can be cancelled."""
        reply = self._take_next_reply(ask)
        while isinstance(reply, Slow):
            await asyncio.sleep(reply.seconds)
            reply = reply.reply
        reply = _raise_or_return(reply, ask)
        return await reply if asyncio.iscoroutine(reply) else reply

    @property
    def calls(self) -> int:
        """Return how often it was asked."""
        return len(self.asks)

    def _take_next_reply(self, ask: Any) -> Any:
        place = len(self.asks)
        self.asks.append(ask)
        if place < len(self.script):
            return self.script[place]
        if self.forever and self.script:
            return self.script[-1]
        raise AssertionError(
            f"ask number {place + 1}, but the script has {len(self.script)} replies: add one, or pass forever=True"
        )


def _raise_or_return(reply: Any, ask: Any) -> Any:
    if isinstance(reply, BaseException):
        raise reply
    return reply(ask) if callable(reply) else reply
