"""Limit what the summaries of a whole corpus take: so many calls a minute, so many tokens, so many dollars.

One `Purse` serves all workers, as an object in this process, behind a manager's proxy, or as an actor on a cluster. It
never blocks, but returns how long to wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from unabridged.asking.ask import Ask, Reply
from unabridged.asking.model_calls import start_call, wrap_model
from unabridged.errors import SettingsError
from unabridged.tokens.estimate import estimate
from unabridged.tokens.models import find_model_info

CALL_SECONDS = 120.0
"""Seconds that one call may take; waiting for its turn is not counted."""
MAX_WAIT_SECONDS = 7 * 86_400.0
"""The longest wait for the calls of one compaction to have their turn."""


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    """What all workers together may take; None for no limit."""

    rate: float | None = None
    """Calls a minute."""
    tokens: int | None = None
    dollars: float | None = None

    def __post_init__(self) -> None:
        for name in ("rate", "tokens", "dollars"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name} must be above 0; got {value!r}")


class BudgetSpent(SettingsError):  # noqa: N818 - reads as what it is
    """Raised instead of a call for which there is no money."""


class Purse:
    """A budget shared by all workers: hands out times and money for calls.

    The most that a call may cost is reserved until its real cost is known.
    """

    def __init__(self, limit: SpendingLimit) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._next = 0.0
        self._tokens, self._dollars = 0, 0.0

    def take(self, tokens: int, dollars: float) -> float:
        """Return the seconds to wait before the call; below 0 where there is no money for it."""
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
        """Add what a call took beyond what was held back for it: mostly less than nothing."""
        with self._lock:
            self._tokens, self._dollars = self._tokens + tokens, self._dollars + dollars

    def spent(self) -> tuple[int, float]:
        """Return tokens and dollars, those held back included."""
        with self._lock:
            return self._tokens, self._dollars


class PurseLike(Protocol):
    """A purse in this process or in another."""

    def take(self, tokens: int, dollars: float) -> float:
        """Return the seconds to wait before the call; below 0 where there is no money for it."""

    def settle(self, tokens: int, dollars: float) -> None:
        """Add what a call took beyond what was held back for it."""


class MeteredModel:
    """A model that asks the purse before each call. It takes what `Compactor(model=...)` does."""

    on_own_loop = True

    def __init__(self, model: Any, purse: PurseLike, limit: SpendingLimit) -> None:
        self._model = wrap_model(model)
        self._purse = purse
        self.name = self._model.name
        self.live_format = getattr(self._model.call, "live_format", "")
        self.is_budget_spent = False
        """Whether the purse had nothing left for a call."""
        info = find_model_info(self.name)
        self._prices = (info.input / 1e6, info.output / 1e6) if info else (0.0, 0.0)
        if limit.dollars is not None and not any(self._prices):
            raise SettingsError(f"no prices are known for {self.name}: limit its tokens instead of its dollars")

    async def __call__(self, ask: Ask) -> Reply:
        """Return the model's reply, when it is its turn; raise `BudgetSpent` where there is no money for it."""
        reserved = (estimate(_join_ask_text(ask), "unknown"), ask.max_tokens)
        wait = await asyncio.to_thread(self._purse.take, sum(reserved), self._dollars(*reserved))
        if wait < 0:
            self.is_budget_spent = True
            raise BudgetSpent("the budget for summaries is spent")
        await asyncio.sleep(wait)
        used = reserved
        try:
            call = start_call(self._model, replace(ask, deadline=CALL_SECONDS), here=True)
            reply = await asyncio.wait_for(asyncio.wrap_future(call), CALL_SECONDS)
            if reply.usage is not None:
                used = (reply.usage.input, reply.usage.output)
        finally:
            more = sum(used) - sum(reserved), self._dollars(*used) - self._dollars(*reserved)
            await asyncio.to_thread(self._purse.settle, *more)
        return reply

    async def aclose(self) -> None:
        """Close the model's connections."""
        if self._model.on_own_loop:
            await self._model.call.aclose()  # type: ignore[attr-defined] # a provider's

    def _dollars(self, read: int, written: int) -> float:
        return read * self._prices[0] + written * self._prices[1]


@contextmanager
def raise_if_budget_spent(model: MeteredModel | None) -> Iterator[None]:
    """Raise `SettingsError` after the block if the budget was too small for one of the model's calls in it."""
    if model is None:
        yield
        return
    model.is_budget_spent = False
    yield
    if model.is_budget_spent:
        raise SettingsError("the budget for summaries is spent: run it again with a larger one")


def _join_ask_text(ask: Ask) -> str:
    """Return everything that the model reads."""
    return "\n".join(str(part) for part in (ask.system, ask.tools, *ask.messages, ask.instruction) if part)
