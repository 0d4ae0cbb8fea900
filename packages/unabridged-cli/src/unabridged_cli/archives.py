"""The archive that a command works on: open it, find its threads, and make a compactor on it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unabridged.archive import codec, open_archive
from unabridged.archive.address import hide_credentials
from unabridged.archive.names import check_name
from unabridged.archive.opening import default_url, is_local, local_path, split_bodies
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Part, Scope
from unabridged.compactor import Compactor
from unabridged.errors import ArchiveError, SettingsError
from unabridged.formats import get_format
from unabridged.marks import find_view_record_ids
from unabridged.sessions import LoadedFile
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.session_lookup import find_session, find_short_names, is_session_name, list_all_sessions
from unabridged_cli.clients.threads import list_session_threads, session_thread_of
from unabridged_cli.options import is_stdin
from unabridged_cli.screen import fail, shorten_to_one_line

ArchiveLocation = tuple[str | None, str | None, str | None]
"""The URL of an archive, a namespace and a thread, each None where it was not named."""


@contextmanager
def open_store(url: str | None, *, new: bool = False) -> Iterator[Archive]:
    """Yield the archive at the URL, closed in the end. Only `new` makes one: a typing error leaves no empty archive."""
    chosen = url if url is not None else default_url()
    store_url, _ = split_bodies(chosen)
    if not new and is_local(store_url) and not local_path(store_url).exists():
        raise SettingsError(
            f"there is no archive at {hide_credentials(chosen)}: name one with --archive or UNABRIDGED_ARCHIVE"
        )
    archive = open_archive(chosen, probe=new)  # one that is only read may be read-only
    try:
        yield archive
    finally:
        archive.close()


@contextmanager
def open_compactor(
    loaded: LoadedFile, file: Path, where: ArchiveLocation, *, new: bool = False, **more: Any
) -> Iterator[tuple[Compactor, str]]:
    """Yield a compactor on the archive, and the conversation's thread, which must be there unless `new`."""
    url, namespace, thread = where
    with open_store(url, new=new) as archive:
        scope = find_conversation_scope(archive, namespace, loaded, file, thread)
        if not new and scope.thread not in archive.threads(scope.namespace):
            scope = require_thread(archive, namespace, scope.thread)
        source: dict[str, Any] = {"format": loaded.format, "origin": loaded.origin_of()}
        with Compactor(archive=archive, namespace=scope.namespace, **source, **more) as compactor:
            yield compactor, scope.thread


def find_conversation_scope(
    archive: Archive, namespace: str | None, loaded: LoadedFile, file: Path, thread: str | None
) -> Scope:
    """Return the namespace and thread of a conversation.

    The thread is the given one, else that of a compaction in the conversation, else one named after the file. Files in
    different folders may have the same name, so a digest of the path (of standard input: of its content) is added.
    """
    reader = get_format(loaded.format)
    marked = [record_id for message in loaded.messages for record_id in find_view_record_ids(reader.read(message))]
    spaces = _list_searched_namespaces(archive, namespace)
    located = (archive.locate(space, mark) for space in spaces for mark in marked)
    scope = next((scope for scope in located if scope is not None), None)
    if scope is not None and thread in (None, scope.thread):
        return scope
    if thread is None:
        place = loaded.path.read_bytes() if is_stdin(file) else str(file.resolve()).encode("utf-8", "surrogateescape")
        thread = f"{'stdin' if is_stdin(file) else file.stem}-{hashlib.sha256(place).hexdigest()[:6]}"
    return Scope(DEFAULT_NAMESPACE if namespace is None else namespace, thread)


def _list_searched_namespaces(archive: Archive, namespace: str | None) -> list[str]:
    """Return the namespaces to search: the given one; without one, the default namespace first, then all others."""
    if namespace is not None:
        return [check_name(namespace, "namespace")]
    return [DEFAULT_NAMESPACE, *(other for other in archive.namespaces() if other != DEFAULT_NAMESPACE)]


def list_scopes(archive: Archive, namespace: str | None) -> list[Scope]:
    """Return every thread of the namespace that was named, else of all."""
    spaces = archive.namespaces() if namespace is None else _list_searched_namespaces(archive, namespace)
    return [Scope(space, name) for space in spaces for name in archive.threads(space)]


def find_thread(archive: Archive, namespace: str | None, thread: str) -> Scope | None:
    """Return the thread of this name: in the named namespace, else in the default one, else in the only other."""
    spaces = [space for space in _list_searched_namespaces(archive, namespace) if thread in archive.threads(space)]
    if len(spaces) > 1 and spaces[0] != DEFAULT_NAMESPACE:
        listed = ", ".join(map(repr, spaces[:5]))
        raise SettingsError(f"several namespaces have a thread {thread!r}: say --namespace, one of {listed}")
    if not spaces and is_session_name(thread):
        return next(iter(_find_session_scopes(archive, namespace, thread)), None)
    if not spaces:
        check_name(thread)
        return None
    return Scope(spaces[0], thread)


def _find_session_scopes(archive: Archive, namespace: str | None, beginning: str) -> list[Scope]:
    """Return the archived threads of the only coding-agent session whose name begins with this text."""
    fitting = sorted(scope for scope in list_scopes(archive, namespace) if scope.thread.startswith(beginning))
    sessions = list(dict.fromkeys(session_thread_of(scope.thread) for scope in fitting))
    if len(sessions) > 1:
        listed = ", ".join(sessions[:5])
        found = f"{len(sessions)} sessions in {archive.url} begin with {beginning!r}"
        raise SettingsError(f"{found}: {listed}. Say more of it")
    return fitting


def require_thread(archive: Archive, namespace: str | None, thread: str) -> Scope:
    """Return the thread of this name; end the program where there is none, with a list of those that there are."""
    scope = find_thread(archive, namespace, thread)
    if scope is None and (found := _find_local_session(thread)):
        name, session = found
        writes = f", `unabridged compact {name} --write` what it takes out" if session.is_readable else ""
        archives = f"`unabridged install {session.client}` archives sessions before they are compacted{writes}"
        fail(f"nothing of {name} is in {archive.url}: {archives}. Or name another archive", 2)
    if scope is None:
        missing = describe_missing_thread(archive, namespace, thread)
        fail(f"{missing}. Name another with --archive, --namespace or --thread", 2)
    return scope


def _find_local_session(thread: str) -> tuple[str, SessionFile] | None:
    """Return the short name and file of the local session with this name; None unless there is exactly one."""
    if not is_session_name(thread):
        return None
    try:
        session = find_session(session_thread_of(thread), os.environ)
    except SettingsError:
        return None
    return find_short_names([session], list_all_sessions(os.environ, session.client))[session.path], session


def require_threads(archive: Archive, namespace: str | None, thread: str) -> list[Scope]:
    """Return the thread of this name; for a coding agent's session, all threads that the archive has of it."""
    first = require_thread(archive, namespace, thread)
    if not is_session_name(thread) or thread != session_thread_of(thread):
        return [first]
    names = archive.threads(first.namespace)
    of_session = list_session_threads(session_thread_of(first.thread))
    return [Scope(first.namespace, name) for name in of_session if name in names]


def describe_missing_thread(archive: Archive, namespace: str | None, thread: str) -> str:
    """Return an error text that the archive has no such thread, with the threads that it does have."""
    names = [scope.thread for scope in list_scopes(archive, namespace)]
    listed = ", ".join(shorten_to_one_line(name, 40) for name in names[:5]) or "none"
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    where = f"namespace {namespace!r}" if namespace is not None else "any namespace"
    return f"no thread {thread!r} in {where} of {archive.url}: it has {listed}{more}"


def render_messages(parts: Iterable[Part], *, as_text: bool) -> Iterator[str]:
    """Yield archived messages as they were, a line of JSON each; or as text for people."""
    for part in parts:
        if as_text:
            yield f"[{part.turn}] {part.origin} ({part.role})\n{part.text}\n\n"
        else:
            yield json.dumps(decode_part(part), ensure_ascii=False, default=_to_json_value) + "\n"


def decode_part(part: Part) -> Any:
    """Return the archived message; its role and text alone if the package of its SDK class is not installed."""
    try:
        return codec.decode(part.body)
    except ArchiveError:
        return {"role": part.role, "content": part.text}


def _to_json_value(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)
