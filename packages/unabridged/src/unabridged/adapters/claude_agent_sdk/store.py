"""Sessions mirrored into the archive, and resumed from it.

    store = ArchiveSessionStore()                                  # the user's own archive; or a URL, or an archive
    options = ClaudeAgentOptions(session_store=store, resume=session_id)

The SDK hands over every line of a session as it is written. Each is kept as it is, one record a batch; what people, the
model and its tools said can be searched like any other conversation.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from unabridged.adapters.kit import BoundedMapping
from unabridged.archive import codec
from unabridged.archive.names import Name, check_name
from unabridged.archive.opening import open_or_keep_archive
from unabridged.archive.protocol import Archive, Part, Record, RecordData, Scope
from unabridged.formats import FORMATS
from unabridged.messages import View

Entry = Any
"""A line of a session, the SDK's `SessionStoreEntry`: any JSON object."""
Key = Mapping[str, Any]
"""The SDK's `SessionKey`: `project_key`, `session_id`, and `subpath` for the session of a sub-agent."""

NAMESPACE: Final = "claude-agent-sdk"
_RECORD_KIND: Final = "copy"
_MAX_SESSIONS: Final = 100
"""Sessions whose uuids are kept in memory; of others, they are read again."""
_read_message = FORMATS["anthropic"].read


@dataclass(slots=True)
class _StoredLines:
    """The lines that a thread has already, as far as this process knows."""

    count: int
    uuids: set[str]


class ArchiveSessionStore:
    """A `SessionStore` of the Claude Agent SDK on an archive; passes the SDK's own conformance suite.

    `namespace` says whose sessions these are: give each tenant one. A line that was appended before (it has the same
    `uuid`) is not kept twice.
    """

    def __init__(self, archive: str | Archive | None = None, *, namespace: Name = NAMESPACE) -> None:
        self._archive = open_or_keep_archive(archive)
        self._namespace = check_name(namespace, "namespace")
        self._stored: BoundedMapping[str, _StoredLines] = BoundedMapping(_MAX_SESSIONS)
        self._lock = threading.Lock()
        """One batch after the other: the SDK needs them kept in the order of its calls."""

    async def append(self, key: Key, entries: Sequence[Entry]) -> None:
        """Keep these lines behind those that are there, all or none of them."""
        await asyncio.to_thread(self._append, self._scope(key), list(entries), not key.get("subpath"))

    async def load(self, key: Key) -> list[Entry] | None:
        """Return every line of the session, in order; None for one that was never written."""
        return await asyncio.to_thread(self._load, self._scope(key))

    async def list_sessions(self, project_key: str) -> list[Any]:
        """Return the sessions of a project, each with when it was written last, in milliseconds."""
        return await asyncio.to_thread(lambda: list(self._list_sessions(project_key)))

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """Return what the SDK shows of each session in a list, as it was folded from its lines."""
        return await asyncio.to_thread(lambda: list(self._list_summaries(project_key)))

    async def delete(self, key: Key) -> None:
        """Remove a session with those of its sub-agents; with a `subpath`, only that one."""
        await asyncio.to_thread(self._delete, self._scope(key))

    async def list_subkeys(self, key: Key) -> list[str]:
        """Return the sub-agents of a session, by their paths."""
        beneath = f"{self._scope(key).thread}/"
        threads = await asyncio.to_thread(self._archive.threads, self._namespace)
        return [unquote(name.removeprefix(beneath)) for name in threads if name.startswith(beneath)]

    # -- the same, blocking -------------------------------------------------------------------------------------------

    def _scope(self, key: Key) -> Scope:
        """Return the thread of a session: its names, quoted, so that no two keys share one."""
        fields = ["project_key", "session_id", *(["subpath"] if key.get("subpath") else [])]
        names = [check_name(key[field], field) for field in fields]
        return Scope(self._namespace, check_name("/".join(quote(name, safe="") for name in names)))

    def _append(self, scope: Scope, entries: list[Entry], is_main: bool) -> None:
        with self._lock:
            stored = self._read_stored_lines(scope)
            fresh = [entry for entry in entries if entry.get("uuid") is None or entry["uuid"] not in stored.uuids]
            if not fresh:
                return
            parts = [_make_part(entry, stored.count + number) for number, entry in enumerate(fresh)]
            self._archive.store(_make_record(self._archive, scope, parts), parts)
            stored.count += len(fresh)
            stored.uuids |= _collect_uuids(fresh)
            if is_main:
                self._fold_summary(scope, fresh)

    def _read_stored_lines(self, scope: Scope) -> _StoredLines:
        """Return the lines that the thread has, read once; remembered for the sessions that were written to last."""
        if (stored := self._stored.get(scope.thread)) is None:
            lines = self._load(scope) or []
            stored = _StoredLines(len(lines), _collect_uuids(lines))
        self._stored[scope.thread] = stored
        return stored

    def _load(self, scope: Scope) -> list[Entry] | None:
        records = [record for record in self._archive.records(scope) if record.kind == _RECORD_KIND]
        names = [str(name) for record in records for name in record.before]
        bodies = self._archive.bodies(scope, list(dict.fromkeys(names)))
        return list(_drop_repeated_lines(codec.decode(bodies[name]) for name in names)) or None

    def _list_sessions(self, project_key: str) -> Iterator[dict[str, Any]]:
        for thread in self._archive.threads(self._namespace):
            names = thread.split("/")
            if len(names) != 2 or unquote(names[0]) != project_key:
                continue
            if (written := self._archive.newest_time(Scope(self._namespace, thread))) is not None:
                yield {"session_id": unquote(names[1]), "mtime": int(written * 1000)}

    def _list_summaries(self, project_key: str) -> Iterator[dict[str, Any]]:
        for session in self._list_sessions(project_key):
            scope = self._scope({"project_key": project_key, "session_id": session["session_id"]})
            if kept := self._archive.remembered(self._namespace, _summary_note_key(scope)):
                yield {**session, "data": kept["data"]}

    def _fold_summary(self, scope: Scope, entries: list[Entry]) -> None:
        """Update the stored summary of the session with new lines, using the SDK's own function."""
        from claude_agent_sdk import fold_session_summary  # noqa: PLC0415 - the SDK calls us, so it is there

        project, session = map(unquote, scope.thread.split("/"))
        kept = self._archive.remembered(self._namespace, _summary_note_key(scope))
        before: Any = {"session_id": session, "mtime": 0, "data": kept["data"]} if kept else None
        key: Any = {"project_key": project, "session_id": session}
        folded = fold_session_summary(before, key, entries)
        self._archive.remember(self._namespace, _summary_note_key(scope), {"data": folded["data"]})

    def _delete(self, scope: Scope) -> None:
        with self._lock:
            for thread in self._archive.threads(self._namespace):
                if thread == scope.thread or thread.startswith(f"{scope.thread}/"):
                    self._archive.forget(Scope(self._namespace, thread))
                    self._stored.pop(thread, None)
            self._archive.remember(self._namespace, _summary_note_key(scope), {})


def _collect_uuids(lines: Sequence[Entry]) -> set[str]:
    return {str(line["uuid"]) for line in lines if line.get("uuid") is not None}


def _summary_note_key(scope: Scope) -> str:
    """Return the name under which the summary of a session is remembered."""
    return f"session {scope.thread}"


def _drop_repeated_lines(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Yield the lines, skipping each whose `uuid` came before: two processes may have stored the same line."""
    uuids = set[str]()
    for entry in entries:
        name = entry.get("uuid")
        if name is None or name not in uuids:
            uuids.add(str(name))
            yield entry


def _make_part(entry: Entry, line: int) -> Part:
    body = codec.encode(entry)
    view = _read_entry_view(entry)
    return Part(codec.digest(body), body, line, view.role, view.origin, view.whole_text())


def _read_entry_view(entry: Entry) -> View:
    """Return the words of a message's line; nothing for any other line, and for one that can't be read."""
    message = entry.get("message")
    if entry.get("type") in {"user", "assistant"} and isinstance(message, dict):
        with suppress(Exception):  # a line is kept whatever it holds
            view: View = _read_message({"role": entry["type"], "content": message.get("content") or ""})
            view.whole_text()
            return view
    return View("user", "host")


def _make_record(archive: Archive, scope: Scope, parts: Sequence[Part]) -> Record:
    """Return one batch; its key is its own, for lines without a `uuid` may be the same again."""
    now, key = time.time(), secrets.token_hex(16)
    first, last = parts[0].turn, parts[-1].turn + 1
    receipt: dict[str, Any] = {"id": key[:12], **scope._asdict(), "kind": _RECORD_KIND}
    receipt |= {"archive": archive.url, "reason": "session store", "created": now, "turns": [[first, last]]}
    receipt |= dict.fromkeys(("messages_before", "messages_after", "tokens_before", "tokens_after"), 0)
    receipt |= {"notes": [], "summariser": "model-free"}
    lines, data = tuple(part.hash for part in parts), RecordData(receipt=receipt, named=True, format="anthropic")
    return Record(key[:12], scope, key, 0, 0, before=lines, after=(), kind=_RECORD_KIND, created=now, data=data)
