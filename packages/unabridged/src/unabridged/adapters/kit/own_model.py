"""The agent's own model as the writer of summaries, for adapters that are given no other.

    engine = Engine(FORMAT, model=AGENT_MODEL, archive=...)
    request = engine.request(messages, agent, own=ask_it)      # ask_it: async, an `Ask` in, a `Reply` out

Each request brings the model that it goes to, so that a summary is written by that very model, with its credentials.
A compaction without a request (`compact` by hand, before the first one) has none: it is model-free, and its receipt and
the log say so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from enum import Enum
from typing import Any, Final

from unabridged.adapters.kit.context import set_temporarily
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.model_calls import LateBoundModel
from unabridged.errors import SummaryFailed

OwnModel = Callable[[Ask], Awaitable[Reply]]
"""Asks the model that a request goes to, apart from the conversation and without tools."""

_own_model: ContextVar[Any] = ContextVar("unabridged_own_model", default=None)
_UNKNOWN_MODEL_REASON: Final = "the agent's own model is not known here, it comes with each request of the agent"


class _ModelDefault(Enum):
    AGENT_MODEL = "the agent's own model"

    def __repr__(self) -> str:
        return self.name


AGENT_MODEL: Final = _ModelDefault.AGENT_MODEL
"""The default of an adapter's `model`: the model that the request goes to. None is something else: no model at all."""


class NamedModel:
    """A summariser for `Compactor`: a model of the framework's that the caller named, perhaps the agent's own."""

    live_format = ""
    """It is asked apart, in the framework's own way: a live prompt can't be handed through that as it is."""

    def __init__(self, name: str | None, ask_it: OwnModel) -> None:
        self.name = name or "the model"
        self._ask_it = ask_it

    async def __call__(self, ask: Ask) -> Reply:
        """Return the model's reply."""
        return await self._ask_it(ask)


class AgentsModel(LateBoundModel):
    """A summariser for `Compactor`: it asks the model of the request that is being compacted."""

    live_format = ""
    """It is always asked apart: behind the live prompt it would be shown the agent's tools."""
    remedy = (
        'Name one with model=… (a "provider:name" or a function), compact after a request, or say model=None to have '
        "summaries without a model."
    )

    def __init__(self, name: str | None) -> None:
        self.name = name or "the agent's model"

    def explain_missing_model(self) -> str:
        """Return why there is no model to ask now; "" where there is one."""
        return _UNKNOWN_MODEL_REASON if _own_model.get() is None else ""

    @property
    def native_provider(self) -> str:
        """Return the provider that compacts for the model of the request; "" where none does."""
        return str(getattr(_own_model.get(), "native_provider", ""))

    def current_model(self) -> Any:
        """Return the model of the request; raise `SummaryFailed` where there is none."""
        if (own := _own_model.get()) is None:
            raise SummaryFailed(_UNKNOWN_MODEL_REASON)
        return own

    async def __call__(self, ask: Ask) -> Reply:
        """Return the reply of the request's model."""
        reply: Reply = await self.current_model()(ask)
        return reply


def set_own_model(own: Any) -> AbstractContextManager[Any]:
    """Set the agent's own model for the `with` block."""
    return set_temporarily(_own_model, own)
