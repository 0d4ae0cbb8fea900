"""The recall tools for coding agents, whose server is started once and for whatever session is open: four tools.

Without `session` they answer for the session that asks. When that is not certain the answer lists those that fit, and
the agent names one. Nothing outside the project of the session can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NoReturn

from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Part, Scope
from unabridged.errors import UnabridgedError
from unabridged.events import receipt_from_dict
from unabridged.recall import Found, lookup
from unabridged.recall.results import RECALL_MARK
from unabridged.recall.tools import (
    READ_TOOL,
    SEARCH_TOOL,
    TOOL_DESCRIPTIONS,
    TOOL_PARAMETERS,
    ToolAnswer,
    Tools,
    WrongArguments,
    parse_arguments,
    parse_search_arguments,
)
from unabridged.text_tools import quote
from unabridged_cli.clients.archive_gaps import describe_gaps
from unabridged_cli.clients.client import format_utc_minute
from unabridged_cli.clients.current_session import ToolCaller
from unabridged_cli.clients.live_context import read_context_messages
from unabridged_cli.clients.registry import CLIENTS
from unabridged_cli.clients.threads import list_session_threads, session_thread_of

LIST_SESSIONS_TOOL: Final = "list_sessions"
LIST_COMPACTIONS_TOOL: Final = "list_compactions"
_MAX_LISTED: Final = 30
"""Sessions, or compactions, that one answer lists."""
_MAX_SESSIONS_SHOWN: Final = 8
"""Sessions of which one answer shows the results; others are named."""
_PROBE_CHARACTERS: Final = 400
"""Characters by which it is seen whether a session has anything."""
_NOTHING_ARCHIVED: Final = "No session of this project is in the archive yet."
_DESCRIPTIONS: Final = {
    **TOOL_DESCRIPTIONS,
    SEARCH_TOOL: f"{TOOL_DESCRIPTIONS[SEARCH_TOOL]} What still stands in the context is found too, and marked so.",
    LIST_SESSIONS_TOOL: (
        "The sessions of this project whose messages are kept word for word, newest first. Use it to search an "
        "earlier conversation about the same project, or when another tool says that it can't tell which session asks."
    ),
    LIST_COMPACTIONS_TOOL: (
        "When this conversation was archived and compacted, oldest first, and which turns that took in."
    ),
}
_SESSION_PARAMETER: Final = {
    "type": "string",
    "description": f"A session that {LIST_SESSIONS_TOOL} lists; this conversation's own if left out.",
}
_ALL_SESSIONS_PARAMETER: Final = {
    "type": "boolean",
    "description": "Search all sessions of this project instead of this conversation alone.",
}


def _add_properties(schema: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], **properties}}


_NO_PARAMETERS: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}
_PARAMETERS: Final = {
    SEARCH_TOOL: _add_properties(
        TOOL_PARAMETERS[SEARCH_TOOL], session=_SESSION_PARAMETER, all_sessions=_ALL_SESSIONS_PARAMETER
    ),
    READ_TOOL: _add_properties(TOOL_PARAMETERS[READ_TOOL], session=_SESSION_PARAMETER),
    LIST_SESSIONS_TOOL: _NO_PARAMETERS,
    LIST_COMPACTIONS_TOOL: _add_properties(_NO_PARAMETERS, session=_SESSION_PARAMETER),
}


@dataclass(frozen=True, slots=True)
class SessionTools:
    """Search, read and lists for whichever session of a project asks."""

    archive: Archive
    find_caller: Callable[[], ToolCaller]
    """Called for every tool call: a client goes on to other sessions while its server runs."""
    namespace: str = DEFAULT_NAMESPACE
    is_offered: bool = True
    """Whether the tools are listed; another server of the same client offers them otherwise."""

    def schemas(self, dialect: str) -> list[dict[str, Any]]:
        """Return the four tools, as MCP offers them; none where another server does."""
        del dialect
        if not self.is_offered:
            return []
        return [
            {"name": name, "description": _DESCRIPTIONS[name], "inputSchema": deepcopy(parameters)}
            for name, parameters in _PARAMETERS.items()
        ]

    def answer(self, name: str, arguments: Mapping[str, Any] | str | None) -> ToolAnswer:
        """Return what the tool answers. Never raises: what is wrong with the call or the archive is the answer."""
        answers = {
            SEARCH_TOOL: self._answer_search,
            READ_TOOL: self._answer_read,
            LIST_SESSIONS_TOOL: self._answer_list_sessions,
            LIST_COMPACTIONS_TOOL: self._answer_list_compactions,
        }
        if name not in answers:
            problem = f"there is no tool {quote(str(name), 60)}: call one of {', '.join(answers)}."
            return ToolAnswer(f"{RECALL_MARK} {problem}", error=True)
        try:
            return answers[name](dict(parse_arguments(arguments or {}, _PARAMETERS[name])))
        except (WrongArguments, UnabridgedError) as error:
            return ToolAnswer(f"{RECALL_MARK} {error}", error=True)

    # -- the tools -----------------------------------------------------------------------------------------------------

    def _answer_search(self, arguments: dict[str, Any]) -> ToolAnswer:
        every, session = arguments.pop("all_sessions", False) in (True, "true"), arguments.pop("session", None)
        if every and session is not None:
            raise WrongArguments("`session` searches one session, `all_sessions` every one: call it with one of them.")
        caller = self.find_caller()
        threads = self._list_archived_threads(caller) if every else [self._find_thread(session)]
        answer = self._search_threads(threads, caller.thread, arguments)
        gaps = describe_gaps(self.archive, self.namespace, caller, None if every else threads[0])
        return answer._replace(text=f"{answer.text}\n{gaps}") if gaps and not answer.error else answer

    def _search_threads(self, threads: Sequence[str], own: str | None, arguments: dict[str, Any]) -> ToolAnswer:
        """Return what a search in these sessions finds, for the session that asks."""
        scopes = [scope for thread in threads for scope in self._find_scopes(thread)]
        if len(scopes) == 1:
            return self._build_tools(scopes[0], own).answer(SEARCH_TOOL, arguments)
        query, limit = parse_search_arguments(arguments)
        matching = list(self._search_scopes(scopes, own, query, limit, _PROBE_CHARACTERS))
        if not matching and '"' in query:
            query = query.replace('"', " ")
            matching = list(self._search_scopes(scopes, own, query, limit, _PROBE_CHARACTERS))
        if not matching:
            return ToolAnswer(f"{RECALL_MARK} Nothing that was archived matches.")
        shown, others = matching[:_MAX_SESSIONS_SHOWN], matching[_MAX_SESSIONS_SHOWN:]
        results = self._search_scopes(shown, own, query, limit, lookup.RESULT_ROOM_CHARACTERS // len(shown))
        texts = [f"Session {scope.thread}:\n{result.text()}" for scope, result in results.items()]
        if others:
            names = dict.fromkeys(session_thread_of(scope.thread) for scope in others)
            texts.append(f"Also in these sessions, older: {', '.join(names)}")
        return ToolAnswer("\n\n".join(texts))

    def _search_scopes(
        self, scopes: Sequence[Scope], own: str | None, query: str, limit: int, room: int
    ) -> dict[Scope, Found]:
        """Return what each thread has, searched at once; the session that asks with what is still in its context."""
        found = lookup.search_each_thread(self.archive, scopes, query, limit, room=room)
        found = {scope: replace(result, whose=_describe_owner(scope, own)) for scope, result in found.items()}
        own_scope = next((scope for scope in scopes if scope.thread == own), None)
        if own_scope is not None:
            found[own_scope] = self._build_tools(own_scope, own, room).search(query, limit)
        return {scope: found[scope] for scope in scopes if scope in found and found[scope].results}

    def _build_tools(self, scope: Scope, own: str | None, room: int = lookup.RESULT_ROOM_CHARACTERS) -> Tools:
        """Return the tools of one thread, which say whose it is to the session that asks, and know its context."""
        live = partial(self._read_live_context, scope) if scope.thread == own else None
        return Tools(self.archive, scope, room=room, whose=_describe_owner(scope, own), live=live)

    def _read_live_context(self, scope: Scope) -> list[Part] | None:
        """Return what is still in the context of the session; None where that can't be known without its file."""
        file = next((file for file in self.find_caller().sessions if file.thread == scope.thread), None)
        return None if file is None else read_context_messages(self.archive, file, scope.namespace)

    def _answer_read(self, arguments: dict[str, Any]) -> ToolAnswer:
        session, ref = arguments.pop("session", None), arguments.get("ref")
        if session is None and isinstance(ref, str) and "-" in ref:
            # A reference works only in its own thread, so at most one of them has it.
            threads = self._list_archived_threads(self.find_caller())
            scopes = [scope for thread in threads for scope in self._find_scopes(thread)]
        else:
            scopes = self._find_scopes(self._find_thread(session))
        scopes = scopes or self._find_scopes(self._find_thread(None))
        answers = [Tools(self.archive, scope).answer(READ_TOOL, arguments) for scope in scopes]
        messages = [answer for answer in answers if not answer.error]
        if len(messages) > 1:
            heads = "\n".join(answer.text.partition(". ")[0].removeprefix(f"{RECALL_MARK} ") for answer in messages)
            raise WrongArguments(f"there are {len(messages)} with this number: read one of them by its ref.\n{heads}")
        return (messages or answers)[0]

    def _answer_list_sessions(self, arguments: dict[str, Any]) -> ToolAnswer:
        del arguments
        caller = self.find_caller()
        threads = self._list_archived_threads(caller)
        if not threads:
            return ToolAnswer(f"{RECALL_MARK} {_NOTHING_ARCHIVED}")
        more = [f"({len(threads) - _MAX_LISTED} more, older.)"] if len(threads) > _MAX_LISTED else []
        head = f"{RECALL_MARK} Sessions of this project in the archive:"
        return ToolAnswer("\n".join([head, *self._format_session_lines(threads, caller), *more]))

    def _answer_list_compactions(self, arguments: dict[str, Any]) -> ToolAnswer:
        thread = self._find_thread(arguments.get("session"))
        records = [record for scope in self._find_scopes(thread) for record in self.archive.records(scope)]
        records.sort(key=lambda record: record.created)
        receipts = [receipt_from_dict(record.data["receipt"]) for record in records]
        if not receipts:
            return ToolAnswer(f"{RECALL_MARK} Nothing of {thread} was archived yet.")
        lines = [
            f"{format_utc_minute(receipt.created)}  {receipt.kind}, {receipt.reason}: {_describe_turns(receipt.turns)}"
            for receipt in receipts[-_MAX_LISTED:]
        ]
        return ToolAnswer("\n".join([f"{RECALL_MARK} {thread}, oldest first:", *lines]))

    # -- which session -------------------------------------------------------------------------------------------------

    def _find_thread(self, session: Any) -> str:
        """Return the session that was named, of this project; without a name, the one that asks."""
        caller = self.find_caller()
        if session is None:
            return caller.thread or self._raise_unknown_session(caller)
        name = session_thread_of(str(session))
        own = dict.fromkeys([*(file.thread for file in caller.sessions), *caller.threads])
        named = [(thread, thread.partition(":")[2]) for thread in own if name]
        fitting = [thread for thread, id_ in named if thread.startswith(name) or id_.startswith(name)]
        if len(fitting) != 1:
            called = f"{len(fitting)} sessions of this project are called {quote(str(session), 60)}"
            raise WrongArguments(f"{called}: call {LIST_SESSIONS_TOOL} to see their names.")
        return fitting[0]

    def _find_scopes(self, thread: str) -> list[Scope]:
        """Return where the archive has something of the session; its own thread where it has nothing."""
        names = set(self.archive.threads(self.namespace))
        found = [name for name in list_session_threads(thread) if name in names]
        return [Scope(self.namespace, name) for name in found or [thread]]

    def _raise_unknown_session(self, caller: ToolCaller) -> NoReturn:
        """Raise `WrongArguments` because the calling session is not known; list the sessions of the project."""
        if caller.client is None:
            why = "the program that asks is no client whose sessions are known"
        else:
            title = CLIENTS[caller.client].title
            why = f"no hook of {title} has run in it, for which `unabridged doctor` has the remedy"
        lines = "\n".join(self._format_session_lines(self._list_archived_threads(caller), caller))
        listed = f"Call again with `session`, one of:\n{lines}" if lines else _NOTHING_ARCHIVED
        raise WrongArguments(f"which session asks is not certain: {why}. {listed}")

    def _list_archived_threads(self, caller: ToolCaller) -> list[str]:
        """Return the sessions of the project that the archive has, newest first; the one that asks among them."""
        names = set(map(session_thread_of, self.archive.threads(self.namespace)))
        threads = dict.fromkeys([*caller.threads, *(file.thread for file in caller.sessions)])
        return [thread for thread in threads if thread in names]

    def _format_session_lines(self, threads: Sequence[str], caller: ToolCaller) -> Iterator[str]:
        for thread in threads[:_MAX_LISTED]:
            newest = max(self.archive.newest_time(scope) or 0.0 for scope in self._find_scopes(thread))
            this = ", this conversation" if thread == caller.thread else ""
            yield f"  {thread}, archived {format_utc_minute(newest) if newest else 'before'}{this}"


def _describe_owner(scope: Scope, own: str | None) -> str:
    return "this conversation" if session_thread_of(scope.thread) == own else "that session"


def _describe_turns(turns: Sequence[tuple[int, int]]) -> str:
    listed = [f"{first}-{last - 1}" if last - first > 1 else str(first) for first, last in turns[:10]]
    return f"turns {', '.join(listed)}{' …' if len(turns) > 10 else ''}" if listed else "no turns"
