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

from unabridged.adapters.kit import apply_recorded_compactions, set_own_model
from unabridged.adapters.openai_agents.provider import CompactingProvider
from unabridged.adapters.openai_agents.runs import FORMAT
from unabridged.archive.names import check_name
from unabridged.archive.protocol import Scope
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import SettingsError

NO_LIMIT: Final = 2**31 - 1
"""More items than any session has: without a limit, a session's own default would be taken."""
_UNSUPPORTED_SESSIONS: Final[dict[type[Any], str]] = {
    OpenAIConversationsSession: "keeps its items at OpenAI, which builds the context itself: use a session that stores "
    "them here, such as SQLiteSession",
    OpenAIResponsesCompactionSession: "replaces the items that it compacts, so that nothing could bring them back: "
    "give its underlying_session in its place",
}


def _refuse_unsupported(session: Any) -> None:
    """Raise for a session that does not keep its items here, or has such a one inside."""
    for kind, remedy in _UNSUPPORTED_SESSIONS.items():
        if isinstance(session, kind):
            raise SettingsError(f"{kind.__name__} {remedy}")
    if inner := getattr(session, "__dict__", {}).get("underlying_session"):
        _refuse_unsupported(inner)


class CompactingSession(SessionABC):
    """A session whose items are read as the compactions of `provider` left them.

    Its thread in the archive has its `session_id`. `underlying_session` holds the whole conversation.
    """

    def __init__(self, underlying_session: Session, provider: CompactingProvider) -> None:
        _refuse_unsupported(underlying_session)
        self.underlying_session = underlying_session
        self.session_id = check_name(underlying_session.session_id, "session_id")
        self._runs = provider.runs
        self._scope = Scope(self._runs.namespace, self.session_id)
        self._runs.register_session(self.session_id)

    @property
    def session_settings(self) -> SessionSettings | None:
        """Return the inner session's settings."""
        return self.underlying_session.session_settings

    @session_settings.setter
    def session_settings(self, value: SessionSettings | None) -> None:
        self.underlying_session.session_settings = value

    # -- as a session -------------------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        """Return the items as compactions left them; with a limit, the newest of these.

        Until something was compacted they are the inner session's, which is asked as it would be without this one.
        """
        self._runs.register_session(self.session_id)
        if not await asyncio.to_thread(self._is_compacted):
            return await self._call_inner("get_items", limit, wrapper=wrapper)  # type: ignore[no-any-return]
        items = await self._call_inner("get_items", NO_LIMIT, wrapper=wrapper)
        result = await asyncio.to_thread(apply_recorded_compactions, self._runs.archive, self._scope, items, FORMAT)
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return result if limit is None or limit < 0 else result[max(len(result) - limit, 0) :]

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        """Add items behind all others."""
        if any(isinstance(item, dict) and "__enc__" in item for item in items):
            raise SettingsError(
                "these items are encrypted, so there is nothing in them to compact: put the CompactingSession around "
                "the EncryptedSession, not inside it"
            )
        self._runs.register_session(self.session_id)
        await self._call_inner("add_items", items, wrapper=wrapper)

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        """Remove the newest original item and return it; a compaction that covers it is no longer applied."""
        return await self._call_inner("pop_item", wrapper=wrapper)

    async def clear_session(self, *, wrapper: Any = None) -> None:
        """Remove the conversation for good: all items, and what the archive has of them."""
        await self._call_inner("clear_session", wrapper=wrapper)
        if not self._runs.is_off:
            await asyncio.to_thread(lambda: self._find_compactor().forget(self._scope.thread))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "underlying_session":
            raise AttributeError(name)
        return getattr(self.underlying_session, name)

    # -- what only this one can ---------------------------------------------------------------------------------------

    async def compact(self) -> Compaction | None:
        """Compact now, whatever the size; return None when nothing is gained.

        Without a `model` of the provider's, the model that was asked last writes the summary. Before the first request
        there is none: then it is model-free, which the log and the receipt say.
        """
        items, compactor = await self._load_items()
        _, system, tools, own = self._runs.find_last_request(self.session_id)
        with set_own_model(own):
            return await compactor.acompact(items, thread=self._scope.thread, system=system, tools=tools)

    async def replay(self) -> list[Any]:
        """Return the original conversation, exactly."""
        items, compactor = await self._load_items()
        return await compactor.areplay(items, thread=self._scope.thread)

    async def undo(self) -> bool:
        """Take the newest compaction back; return whether there was one."""
        items, compactor = await self._load_items()
        return await compactor.aundo(items, thread=self._scope.thread) is not items

    async def _load_items(self) -> tuple[list[Any], Compactor]:
        """Return all items as compactions left them, and the compactor for the model that was asked last."""
        return await self.get_items(NO_LIMIT), await asyncio.to_thread(self._find_compactor)

    def _is_compacted(self) -> bool:
        return not self._runs.is_off and any(True for _ in self._runs.archive.newest(self._scope))

    def _find_compactor(self) -> Compactor:
        return self._runs.compactor_for(self._runs.find_last_request(self.session_id).agent)

    async def _call_inner(self, method: str, *arguments: Any, wrapper: Any) -> Any:
        """Return what the inner session's method returns; it gets the run's context where it takes one."""
        call = getattr(self.underlying_session, method)
        takes_wrapper = wrapper is not None and "wrapper" in inspect.signature(call).parameters
        return await call(*arguments, **({"wrapper": wrapper} if takes_wrapper else {}))
