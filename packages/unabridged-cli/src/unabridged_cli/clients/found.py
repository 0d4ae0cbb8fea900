"""A session by its name, `claude-code:3f2a`, and what its file tells of it without being read into messages."""

from __future__ import annotations

import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from unabridged.errors import SettingsError
from unabridged_cli.clients import CLIENTS
from unabridged_cli.clients.client import Environ, SessionFile
from unabridged_cli.clients.threads import thread_of

_COMPACTIONS = {"claude-code": b"compact_boundary", "codex": b"compacted", "pi": b"compaction"}
"""What stands in a line that may be a compaction's, in each client's files; nothing of other clients' is read."""
_BEGINNING = 1 << 18
"""Bytes in which a session says where it is."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the file of a session tells."""

    project: str
    """The folder that its client worked in; empty when the file does not say."""
    compactions: int | None
    """How often it was compacted, by whomever; None where that can't be read."""


def all_sessions(environ: Environ, client: str | None = None) -> list[SessionFile]:
    """Every session of this machine, or of one client, newest first."""
    chosen = [CLIENTS[client]] if client is not None else CLIENTS.values()
    found = [session for each in chosen for session in each.sessions(environ)]
    return sorted(found, key=lambda session: -session.modified)


def names_a_client(name: str) -> bool:
    """Whether this is `client:…` with a client that is known."""
    client, colon, session = name.partition(":")
    return bool(colon and session) and client in CLIENTS


def find_session(name: str, environ: Environ) -> SessionFile:
    """The session that `client:ID` names, where the beginning of an id is enough; none and several are said."""
    client, _, beginning = name.partition(":")
    title, known = CLIENTS[client].title, list(CLIENTS[client].sessions(environ))
    fitting = [session for session in known if session.id == beginning]
    fitting = fitting or [session for session in known if session.id.startswith(beginning)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        home = (CLIENTS[client].sessions_folder or CLIENTS[client].home)(environ)
        raise SettingsError(
            f"no session of {title} in {home} begins with {beginning!r}: `unabridged sessions {client}` lists them"
        )
    more = f" and {len(fitting) - 5:,} more" if len(fitting) > 5 else ""
    if len({session.id for session in fitting}) == 1:
        listed = ", ".join(str(session.path) for session in fitting[:5])
        raise SettingsError(f"{len(fitting)} files of {title} have the id {fitting[0].id}: name one of {listed}{more}")
    listed = ", ".join(short_names(fitting[:5], known).values())
    raise SettingsError(
        f"{len(fitting)} sessions of {title} begin with {beginning!r}: say more of it, as in {listed}{more}"
    )


def is_readable(session: SessionFile) -> bool:
    """Whether the session is a file of lines, which can be read and written; others can be listed."""
    return session.path.suffix == ".jsonl"


def short_names(sessions: Iterable[SessionFile], among: Iterable[SessionFile]) -> dict[Path, str]:
    """For each session the shortest name that no other one has, of eight signs of its id or more."""
    ids: dict[str, list[str]] = {}
    for session in among:
        ids.setdefault(session.client, []).append(session.id)
    for each in ids.values():
        each.sort()
    return {s.path: thread_of(s.client, s.id[: _telling(s.id, ids[s.client])]) for s in list(sessions)}


def _telling(id_: str, ids: list[str]) -> int:
    """How many signs of the id no other one begins with; the ids are sorted, so only its neighbours can."""
    near = ids[max(bisect_left(ids, id_) - 1, 0) : bisect_right(ids, id_) + 1]
    return max([8, *(_common(id_, other) + 1 for other in near if other != id_)])


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def project_of(session: SessionFile) -> str:
    """The folder that a session's client worked in, from the beginning of its file; empty when that does not say."""
    try:
        if session.client not in _COMPACTIONS:
            return look_at(session).project
        with session.path.open("rb") as stream:
            entries = (entry for raw in _beginning(stream) if b'"cwd"' in raw for entry in _parsed(raw))
            return next(filter(None, map(_project, entries)), "")
    except OSError:
        return ""


def _beginning(stream: BinaryIO) -> Iterator[bytes]:
    """Lines until one begins far behind; none is read that nobody asks for."""
    left = _BEGINNING
    while left > 0 and (raw := stream.readline(left)):
        left -= len(raw)
        yield raw


def is_within(folder: str, project: str) -> bool:
    """Whether a folder is the project's or below it, whatever they are called; no for what can't be a folder."""
    try:
        inner, outer = os.path.realpath(folder), os.path.realpath(project)
        return bool(folder and project) and Path(inner).is_relative_to(outer)
    except ValueError:  # a name that no system takes
        return False


def is_same(folder: str, project: str) -> bool:
    """Whether the two are one folder, whatever they are called."""
    return is_within(folder, project) and is_within(project, folder)


def look_at(session: SessionFile) -> Look:
    """What the file tells; one that can't be read tells nothing."""
    try:
        if session.client not in _COMPACTIONS:
            value: Any = json.loads(session.path.read_bytes())
            return Look(_text(value, "directory"), None)
        return _look_through(session)
    except (OSError, ValueError, RecursionError):
        return Look("", None)


def _look_through(session: SessionFile) -> Look:
    project, count, sign = "", 0, _COMPACTIONS[session.client]
    with session.path.open("rb") as stream:
        for raw in stream:
            if (project or b'"cwd"' not in raw) and sign not in raw:
                continue
            for entry in _parsed(raw):
                project = project or _project(entry)
                count += _is_compaction(entry, sign)
    return Look(project, count)


def compaction_in(session: SessionFile, offset: int) -> int:
    """Return where the line of the newest compaction behind this offset begins; 0 where there is none."""
    sign, found = _COMPACTIONS[session.client], 0
    with session.path.open("rb") as stream:
        stream.seek(offset)
        for raw in stream:
            if sign in raw and any(_is_compaction(entry, sign) for entry in _parsed(raw)):
                found = offset
            offset += len(raw)
    return found


def _is_compaction(entry: dict[str, Any], sign: bytes) -> bool:
    return sign.decode() in (entry.get("subtype"), entry.get("type"))


def _project(entry: dict[str, Any]) -> str:
    return _text(entry, "cwd") or _text(entry.get("payload"), "cwd")


def _parsed(raw: bytes) -> Iterator[dict[str, Any]]:
    """The object on the line, if it is one."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        yield value


def _text(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
