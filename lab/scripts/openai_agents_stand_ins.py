"""Stand-ins for the sessions of OpenAI Agents, with their names and arguments, each inside ours; and for its filters.

`lab/scripts/peers.py` runs the SDK's tests with these in their place.
"""

from __future__ import annotations

import inspect
from typing import Any

import agents
from agents.extensions import memory
from agents.run import CallModelData, ModelInputData

from unabridged.adapters.openai_agents import CompactingProvider, CompactingSession, input_filter

__all__ = ["AsyncSQLiteSession", "EncryptedSession", "RedisSession", "RunConfig", "SQLAlchemySession", "SQLiteSession"]

PROVIDER = CompactingProvider(model=None, archive="memory:")
FITTING = input_filter(PROVIDER)
OURS = frozenset({"underlying_session", "session_id", "_runs", "_scope"})


class _Inside(CompactingSession):
    """Our session around one of the SDK's, which also serves the attributes that the tests look up or replace."""

    theirs: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(self.theirs(*arguments, **options), PROVIDER)

    @classmethod
    def from_url(cls, *arguments: Any, **options: Any) -> Any:
        """Return theirs from a URL, inside ours."""
        made = cls.__new__(cls)
        CompactingSession.__init__(made, cls.theirs.from_url(*arguments, **options), PROVIDER)
        return made

    def __getattr__(self, name: str) -> Any:
        if name in OURS:
            raise AttributeError(name)
        return getattr(self.underlying_session, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OURS or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self.underlying_session, name, value)

    def __delattr__(self, name: str) -> None:
        for one in (vars(self), vars(self.underlying_session)):
            one.pop(name, None)


class SQLiteSession(_Inside):
    """The SDK's `SQLiteSession` inside ours."""

    theirs = agents.SQLiteSession


class AsyncSQLiteSession(_Inside):
    """The SDK's `AsyncSQLiteSession` inside ours."""

    theirs = memory.AsyncSQLiteSession


class SQLAlchemySession(_Inside):
    """The SDK's `SQLAlchemySession` inside ours."""

    theirs = memory.SQLAlchemySession


class RedisSession(_Inside):
    """The SDK's `RedisSession` inside ours."""

    theirs = memory.RedisSession


class EncryptedSession(_Inside):
    """The SDK's `EncryptedSession` inside ours; a session of ours is unwrapped first, since ours belongs around it."""

    theirs = memory.EncryptedSession

    def __init__(self, session_id: str, underlying_session: Any, *arguments: Any, **options: Any) -> None:
        inner = underlying_session
        if isinstance(inner, CompactingSession):
            inner = inner.underlying_session
        super().__init__(session_id, inner, *arguments, **options)


def RunConfig(**options: Any) -> agents.RunConfig:  # noqa: N802 - the name of theirs
    """Return theirs; its filter, if any, is followed by ours."""
    own = options.get("call_model_input_filter")
    if own is None:
        return agents.RunConfig(**options)

    async def both(data: CallModelData[Any]) -> ModelInputData:
        filtered = own(data)
        filtered = await filtered if inspect.isawaitable(filtered) else filtered
        if not isinstance(filtered, ModelInputData):
            return filtered  # type: ignore[no-any-return]  # what the SDK refuses
        return await FITTING(CallModelData(filtered, data.agent, data.context))

    return agents.RunConfig(**{**options, "call_model_input_filter": both})
