"""`CompactingSession`: any session, read as compactions left it.

The inner session keeps every original item and nothing else: no item of it is ever changed or taken out for a
compaction, so a crash between two writes can lose nothing, and an encrypted or expiring session stays what it is. What
a run is given is made when it is read: the originals with the compactions of the thread applied, which the archive has.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Final

from agents import OpenAIConversationsSession, OpenAIResponsesCompactionSession, Session, SessionSettings
from agents.memory import SessionABC

from unabridged.adapters.kit import Request, as_recorded
from unabridged.adapters.openai_agents.provider import CompactingProvider
from unabridged.adapters.openai_agents.runs import FORMAT
from unabridged.archive.protocol import Scope
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import SettingsError

EVERY: Final = 2**31 - 1
"""A limit beyond any session: without one, a session's own default would be taken."""


class CompactingSession(SessionABC):
    """A session whose items are read as the compactions of `provider` left them.

    Its thread in the archive has its `session_id`. `underlying_session` holds the whole conversation.
    """

    def __init__(self, underlying_session: Session, provider: CompactingProvider) -> None:
        if isinstance(underlying_session, OpenAIConversationsSession):
            raise SettingsError(
                "OpenAIConversationsSession keeps its items at OpenAI, which builds the context itself: "
                "use a session that stores them here, such as SQLiteSession"
            )
        if isinstance(underlying_session, OpenAIResponsesCompactionSession):
            raise SettingsError(
                "OpenAIResponsesCompactionSession replaces the items that it compacts, so that nothing could bring "
                "them back: give its underlying_session in its place"
            )
        self.underlying_session = underlying_session
        self.session_id = underlying_session.session_id
        self._runs = provider.runs
        self._runs.know(self.session_id)

    @property
    def session_settings(self) -> SessionSettings | None:
        """The inner session's."""
        return self.underlying_session.session_settings

    @session_settings.setter
    def session_settings(self, value: SessionSettings | None) -> None:
        self.underlying_session.session_settings = value

    # -- as a session -------------------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        """The items as compactions left them; with a limit, the newest of these."""
        self._runs.know(self.session_id)
        items = await self._inner("get_items", EVERY, wrapper=wrapper)
        made: list[Any] = await asyncio.to_thread(self._as_recorded, items)
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is None or limit < 0:
            return made
        return made[-limit:] if limit else []

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        """Add items behind all others."""
        if any(isinstance(item, dict) and "__enc__" in item for item in items):
            raise SettingsError(
                "these items are encrypted, so there is nothing in them to compact: put the CompactingSession around "
                "the EncryptedSession, not inside it"
            )
        self._runs.know(self.session_id)
        await self._inner("add_items", items, wrapper=wrapper)

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        """Take the newest original item out; a compaction that covers it is no longer applied."""
        return await self._inner("pop_item", wrapper=wrapper)

    async def clear_session(self, *, wrapper: Any = None) -> None:
        """Remove the conversation for good: all items, and what the archive has of them."""
        await self._inner("clear_session", wrapper=wrapper)
        if not self._runs.off:
            await asyncio.to_thread(lambda: self._compactor().forget(self.session_id))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "underlying_session":
            raise AttributeError(name)
        return getattr(self.underlying_session, name)

    # -- what only this one can ---------------------------------------------------------------------------------------

    async def compact(self) -> Compaction | None:
        """Compact now, whatever the size; None when nothing is gained."""
        items = await self.get_items(EVERY)
        agent, system, tools = self._runs.asked(self.session_id)
        request: Request = await asyncio.to_thread(
            lambda: self._runs.request(items, agent, thread=self.session_id, system=system, tools=tools)
        )
        return await request.compactor.acompact(items, **request.named)

    async def replay(self) -> list[Any]:
        """The original conversation, exactly."""
        items = await self.get_items(EVERY)
        compactor = await asyncio.to_thread(self._compactor)
        return await compactor.areplay(items, thread=self.session_id)

    async def undo(self) -> bool:
        """Take the newest compaction back; whether there was one."""
        items = await self.get_items(EVERY)
        compactor = await asyncio.to_thread(self._compactor)
        return await compactor.aundo(items, thread=self.session_id) is not items

    def _as_recorded(self, items: list[Any]) -> list[Any]:
        scope = Scope(self._runs.namespace, self.session_id)
        return items if self._runs.off else as_recorded(self._runs.archive, scope, items, FORMAT)

    def _compactor(self) -> Compactor:
        return self._runs.compactor_for(self._runs.asked(self.session_id).agent)

    async def _inner(self, method: str, *arguments: Any, wrapper: Any) -> Any:
        """What the inner session's method gives; one that wants the run's context is given it."""
        call = getattr(self.underlying_session, method)
        wants = wrapper is not None and "wrapper" in inspect.signature(call).parameters
        return await call(*arguments, **({"wrapper": wrapper} if wants else {}))
