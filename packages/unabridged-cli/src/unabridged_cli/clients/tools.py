"""The recall tools for coding agents, whose server is started once and for whatever session is open: four tools.

Without `session` they answer for the session that asks. When that is not certain the answer lists those that fit, and
the agent names one. Nothing outside the project of the session can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NoReturn

from unabridged.archive.protocol import Archive, Part, Scope
from unabridged.errors import UnabridgedError
from unabridged.events import receipt_from
from unabridged.history import DEFAULT
from unabridged.recall import lookup
from unabridged.recall.tools import (
    DESCRIPTIONS,
    PARAMETERS,
    READ,
    SEARCH,
    ToolAnswer,
    Tools,
    WrongArguments,
    parse_arguments,
    read_search,
)
from unabridged.text_tools import quote
from unabridged_cli.clients import CLIENTS
from unabridged_cli.clients.current import Asking
from unabridged_cli.clients.in_context import messages_in_context
from unabridged_cli.clients.missing import missing_from
from unabridged_cli.clients.threads import session_of, thread_of, threads_of

SESSIONS: Final = "list_sessions"
COMPACTIONS: Final = "list_compactions"
_MOST: Final = 30
"""Sessions, or compactions, that one answer lists."""
_SHOWN: Final = 8
"""Sessions of which one answer shows what was found; others are named."""
_LEAST: Final = 400
"""Characters by which it is seen whether a session has anything."""
_SESSION: Final = {
    "type": "string",
    "description": f"A session that {SESSIONS} lists; this conversation's own if left out.",
}
_EVERY: Final = {
    "type": "boolean",
    "description": "Search all sessions of this project instead of this conversation alone.",
}
_DESCRIPTIONS: Final = {
    **DESCRIPTIONS,
    SEARCH: f"{DESCRIPTIONS[SEARCH]} What still stands in the context is found too, and marked so.",
    SESSIONS: (
        "The sessions of this project whose messages are kept word for word, newest first. Use it to search an "
        "earlier conversation about the same project, or when another tool says that it can't tell which session asks."
    ),
    COMPACTIONS: "When this conversation was archived and compacted, oldest first, and which turns that took in.",
}


def _parameters() -> dict[str, dict[str, Any]]:
    search, read = deepcopy(PARAMETERS[SEARCH]), deepcopy(PARAMETERS[READ])
    search["properties"] |= {"session": _SESSION, "all_sessions": _EVERY}
    read["properties"] |= {"session": _SESSION}
    none: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    return {SEARCH: search, READ: read, SESSIONS: none, COMPACTIONS: none | {"properties": {"session": _SESSION}}}


_PARAMETERS: Final = _parameters()


@dataclass(frozen=True, slots=True)
class SessionTools:
    """Search, read and lists for whichever session of a project asks."""

    archive: Archive
    asking: Callable[[], Asking]
    """Asked at every call: a client goes on to other sessions while its server runs."""
    namespace: str = DEFAULT

    def schemas(self, dialect: str) -> list[dict[str, Any]]:
        """The four tools, as MCP offers them."""
        del dialect
        return [
            {"name": name, "description": _DESCRIPTIONS[name], "inputSchema": deepcopy(_PARAMETERS[name])}
            for name in _PARAMETERS
        ]

    def answer(self, name: str, arguments: Mapping[str, Any] | str | None) -> ToolAnswer:
        """What the tool answers. Never raises: what is wrong with the call, or with the archive, is the answer."""
        answers = {SEARCH: self._search, READ: self._read, SESSIONS: self._list, COMPACTIONS: self._compactions}
        if name not in answers:
            known = ", ".join(answers)
            return ToolAnswer(
                f"{lookup.MARK} there is no tool {quote(str(name), 60)}: call one of {known}.", error=True
            )
        try:
            return answers[name](dict(parse_arguments(arguments or {}, _PARAMETERS[name])))
        except (WrongArguments, UnabridgedError) as error:
            return ToolAnswer(f"{lookup.MARK} {error}", error=True)

    # -- the tools -----------------------------------------------------------------------------------------------------

    def _search(self, given: dict[str, Any]) -> ToolAnswer:
        every, session = given.pop("all_sessions", False) in (True, "true"), given.pop("session", None)
        if every and session is not None:
            raise WrongArguments("`session` searches one session, `all_sessions` every one: call it with one of them.")
        asking = self.asking()
        threads = self._kept(asking) if every else [self._thread(session)]
        found = self._answer_search(threads, asking.thread, given)
        missing = missing_from(self.archive, self.namespace, asking, None if every else threads[0])
        return found._replace(text=f"{found.text}\n{missing}") if missing and not found.error else found

    def _answer_search(self, threads: Sequence[str], own: str | None, given: dict[str, Any]) -> ToolAnswer:
        """What a search in these sessions finds, as the session that asks is told."""
        asked = [scope for thread in threads for scope in self._scopes(thread)]
        if len(asked) == 1:
            return self._tools(asked[0], own).answer(SEARCH, given)
        query, limit = read_search(given)
        having = list(self._found(asked, own, query, limit, _LEAST))
        if not having and '"' in query:
            query = query.replace('"', " ")
            having = list(self._found(asked, own, query, limit, _LEAST))
        if not having:
            return ToolAnswer(f"{lookup.MARK} Nothing that was archived matches.")
        shown = self._found(having[:_SHOWN], own, query, limit, lookup.ROOM // len(having[:_SHOWN]))
        told = [f"Session {scope.thread}:\n{found.text()}" for scope, found in shown.items()]
        more = ", ".join(dict.fromkeys(session_of(scope.thread) for scope in having[_SHOWN:]))
        return ToolAnswer("\n\n".join([*told, *([f"Also in these sessions, older: {more}"] if more else [])]))

    def _found(
        self, scopes: Sequence[Scope], own: str | None, query: str, limit: int, room: int
    ) -> dict[Scope, lookup.Found]:
        """What each of the threads has, searched at once; the session that asks with what stands in its context."""
        found = lookup.search_page(self.archive, scopes, query, limit, room=room)
        found = {scope: replace(one, whose=_whose(scope, own)) for scope, one in found.items()}
        mine = next((scope for scope in scopes if scope.thread == own), None)
        if mine is not None:
            found[mine] = self._tools(mine, own, room).found(query, limit)
        return {scope: found[scope] for scope in scopes if scope in found and found[scope].results}

    def _tools(self, scope: Scope, own: str | None, room: int = lookup.ROOM) -> Tools:
        """The tools of one thread, which say whose it is to the session that asks, and know its context."""
        live = partial(self._in_context, scope) if scope.thread == own else None
        return Tools(self.archive, scope, room=room, whose=_whose(scope, own), live=live)

    def _in_context(self, scope: Scope) -> list[Part] | None:
        """What still stands in the context of the session; None where that can't be known without its file."""
        files = (file for file in self.asking().sessions if thread_of(file.client, file.id) == scope.thread)
        file = next(files, None)
        return None if file is None else messages_in_context(self.archive, file, scope.namespace)

    def _read(self, given: dict[str, Any]) -> ToolAnswer:
        session, ref = given.pop("session", None), given.get("ref")
        if session is None and isinstance(ref, str) and "-" in ref:
            # A reference works only in its own thread, so at most one of them has it.
            asked = [scope for thread in self._kept(self.asking()) for scope in self._scopes(thread)]
        else:
            asked = self._scopes(self._thread(session))
        told = [Tools(self.archive, scope).answer(READ, given) for scope in asked or self._scopes(self._thread(None))]
        read = [answer for answer in told if not answer.error]
        if len(read) > 1:
            heads = "\n".join(answer.text.partition(". ")[0].removeprefix(f"{lookup.MARK} ") for answer in read)
            raise WrongArguments(f"there are {len(read)} with this number: read one of them by its ref.\n{heads}")
        return read[0] if read else told[0]

    def _list(self, given: dict[str, Any]) -> ToolAnswer:
        del given
        asking = self.asking()
        kept = self._kept(asking)
        if not kept:
            return ToolAnswer(f"{lookup.MARK} {_NONE}")
        lines = [self._told(thread, asking) for thread in kept[:_MOST]]
        more = [f"({len(kept) - _MOST} more, older.)"] if len(kept) > _MOST else []
        return ToolAnswer("\n".join([f"{lookup.MARK} Sessions of this project in the archive:", *lines, *more]))

    def _compactions(self, given: dict[str, Any]) -> ToolAnswer:
        thread = self._thread(given.get("session"))
        records = [record for scope in self._scopes(thread) for record in self.archive.records(scope)]
        receipts = [receipt_from(record.data["receipt"]) for record in sorted(records, key=lambda one: one.created)]
        if not receipts:
            return ToolAnswer(f"{lookup.MARK} Nothing of {thread} was archived yet.")
        lines = [
            f"{_minute(receipt.created)}  {receipt.kind}, {receipt.reason}: {_spans(receipt.turns)}"
            for receipt in receipts[-_MOST:]
        ]
        return ToolAnswer("\n".join([f"{lookup.MARK} {thread}, oldest first:", *lines]))

    # -- which session -------------------------------------------------------------------------------------------------

    def _thread(self, session: Any) -> str:
        """The session that was named, of this project; without a name, the one that asks."""
        asking = self.asking()
        if session is None:
            return asking.thread or self._refuse(asking)
        own = [thread_of(file.client, file.id) for file in asking.sessions] + list(asking.threads)
        fitting = list(dict.fromkeys(thread for thread in own if _fits(thread, session_of(str(session)))))
        if len(fitting) != 1:
            said = f"{len(fitting)} sessions of this project are called {quote(str(session), 60)}"
            raise WrongArguments(f"{said}: call {SESSIONS} to see their names.")
        return fitting[0]

    def _scopes(self, thread: str) -> list[Scope]:
        """Where the archive has something of the session; its own thread where it has nothing."""
        held = set(self.archive.threads(self.namespace))
        return [Scope(self.namespace, name) for name in threads_of(thread) if name in held] or [
            Scope(self.namespace, thread)
        ]

    def _refuse(self, asking: Asking) -> NoReturn:
        """Say that it is not certain which session asks, and list those of the project; none is guessed."""
        if asking.client is None:
            why = "the program that asks is no client whose sessions are known"
        else:
            why = (
                f"no hook of {CLIENTS[asking.client].title} has run in it, for which `unabridged status` has the remedy"
            )
        kept = self._kept(asking)
        lines = "\n".join(self._told(thread, asking) for thread in kept[:_MOST])
        listed = f"Call again with `session`, one of:\n{lines}" if kept else _NONE
        raise WrongArguments(f"which session asks is not certain: {why}. {listed}")

    def _kept(self, asking: Asking) -> list[str]:
        """The sessions of the project that the archive has, newest first; the one that asks among them."""
        held = set(map(session_of, self.archive.threads(self.namespace)))
        own = [thread_of(file.client, file.id) for file in asking.sessions]
        return [thread for thread in dict.fromkeys([*asking.threads, *own]) if thread in held]

    def _told(self, thread: str, asking: Asking) -> str:
        newest = max(self.archive.newest_time(scope) or 0.0 for scope in self._scopes(thread))
        this = ", this conversation" if thread == asking.thread else ""
        return f"  {thread}, archived {_minute(newest) if newest else 'before'}{this}"


_NONE: Final = "No session of this project is in the archive yet."


def _whose(scope: Scope, own: str | None) -> str:
    return "this conversation" if session_of(scope.thread) == own else "that session"


def _fits(thread: str, session: Any) -> bool:
    """Whether this is the session's name, its id, or the beginning of one of them."""
    named = str(session)
    return bool(named) and (thread.startswith(named) or thread.partition(":")[2].startswith(named))


def _minute(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _spans(turns: Sequence[tuple[int, int]]) -> str:
    listed = [f"{first}-{last - 1}" if last - first > 1 else str(first) for first, last in turns[:10]]
    return f"turns {', '.join(listed)}{' …' if len(turns) > 10 else ''}" if listed else "no turns"
