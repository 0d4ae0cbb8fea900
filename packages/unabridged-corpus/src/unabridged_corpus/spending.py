"""What the summaries of a whole corpus may take: so many calls a minute, so many tokens, so many dollars.

One `Purse` serves all workers, as an object in this process, behind a manager's proxy, or as an actor on a cluster. It
never blocks: who asks is told how long to wait.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from unabridged.asking.ask import Ask, Reply
from unabridged.asking.model_calls import speaker_of
from unabridged.asking.replies import read_reply
from unabridged.errors import SettingsError
from unabridged.measure.estimate import estimate
from unabridged.measure.models import model_info

DEADLINE = 120.0
"""Seconds that one call may take; waiting for its turn is not counted."""
FAR = 7 * 86_400.0
"""Seconds after which nobody waits any more for the calls of one compaction to have their turn."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What all workers together may take; None for as much as they like."""

    rate: float | None = None
    """Calls a minute."""
    tokens: int | None = None
    dollars: float | None = None

    def __post_init__(self) -> None:
        for name in ("rate", "tokens", "dollars"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name} must be above 0; got {value!r}")


class Spent(SettingsError):  # noqa: N818 - reads as what it is
    """The budget is spent: nobody is asked any more."""


class Purse:
    """Gives out turns and money. What a call may take at most is held back for it until it is known what it took."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._next = 0.0
        self._tokens, self._dollars = 0, 0.0

    def take(self, tokens: int, dollars: float) -> float:
        """Seconds to wait before the call; below 0 where there is no money for it."""
        with self._lock:
            most, limit = self._tokens + tokens, self._limit
            if limit.tokens is not None and most > limit.tokens:
                return -1.0
            if limit.dollars is not None and self._dollars + dollars > limit.dollars:
                return -1.0
            self._tokens, self._dollars = most, self._dollars + dollars
            if limit.rate is None:
                return 0.0
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + 60.0 / limit.rate
            return turn - now

    def settle(self, tokens: int, dollars: float) -> None:
        """What a call took beyond what was held back for it: mostly less than nothing."""
        with self._lock:
            self._tokens, self._dollars = self._tokens + tokens, self._dollars + dollars

    def spent(self) -> tuple[int, float]:
        """Tokens and dollars, those held back included."""
        with self._lock:
            return self._tokens, self._dollars


class Pays(Protocol):
    """A purse, wherever it is."""

    def take(self, tokens: int, dollars: float) -> float:
        """Seconds to wait before the call; below 0 where there is no money for it."""

    def settle(self, tokens: int, dollars: float) -> None:
        """What a call took beyond what was held back for it."""


class Metered:
    """A model that asks the purse before each call. It takes what `Compactor(model=...)` does."""

    at_home = True

    def __init__(self, model: Any, purse: Pays, limit: Limit) -> None:
        self._speaker = speaker_of(model)
        self._purse = purse
        self.name = self._speaker.name
        self.live_format = getattr(self._speaker.call, "live_format", "")
        self.refused = False
        """Whether the purse had nothing left for a call."""
        info = model_info(self.name)
        self._prices = (info.input / 1e6, info.output / 1e6) if info else (0.0, 0.0)
        if limit.dollars is not None and not any(self._prices):
            raise SettingsError(f"no prices are known for {self.name}: limit its tokens instead of its dollars")

    async def __call__(self, ask: Ask) -> Reply:
        """The model's reply, when it is its turn."""
        held = (estimate(_text(ask), "unknown"), ask.max_tokens)
        wait = await asyncio.to_thread(self._purse.take, sum(held), self._dollars(*held))
        if wait < 0:
            self.refused = True
            raise Spent("the budget for summaries is spent")
        await asyncio.sleep(wait)
        used = held
        try:
            reply = await asyncio.wait_for(self._ask(replace(ask, deadline=DEADLINE)), DEADLINE)
            if reply.usage is not None:
                used = (reply.usage.input, reply.usage.output)
        finally:
            rest = sum(used) - sum(held), self._dollars(*used) - self._dollars(*held)
            await asyncio.to_thread(self._purse.settle, *rest)
        return reply

    async def aclose(self) -> None:
        """Close the model's connections."""
        if self._speaker.at_home:
            await self._speaker.call.aclose()  # type: ignore[attr-defined] # a provider's

    async def _ask(self, ask: Ask) -> Reply:
        said: Any = ask if self._speaker.takes_ask else ask.instruction
        call: Callable[[Any], Any] = self._speaker.call
        result = await call(said) if self._speaker.is_async else await asyncio.to_thread(call, said)
        return read_reply(await result if inspect.isawaitable(result) else result, self.name)

    def _dollars(self, read: int, written: int) -> float:
        return read * self._prices[0] + written * self._prices[1]


def _text(ask: Ask) -> str:
    """Everything that the model reads."""
    return "\n".join(str(part) for part in (ask.system, ask.tools, *ask.messages, ask.instruction) if part)
