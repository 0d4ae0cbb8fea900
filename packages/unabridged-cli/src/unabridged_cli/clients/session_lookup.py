"""Find a session by its name, `claude-code:3f2a`, and read what its file tells without reading its messages."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from unabridged.errors import SettingsError
from unabridged_cli.clients.client import Environ, SessionFile
from unabridged_cli.clients.hook.transcript import parse_line, read_project
from unabridged_cli.clients.registry import CLIENTS

_COMPACTION_SIGNS = {"claude-code": b"compact_boundary", "codex": b"compacted", "pi": b"compaction"}
"""What is in a line that may be a compaction's, in each client's files; nothing of other clients' is read."""


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """What the file of a session says about it."""

    project: str
    """The folder that its client worked in; empty where the file does not say."""
    compactions: int | None
    """How often it was compacted, by whomever; None where that can't be read."""


def list_all_sessions(environ: Environ, client: str | None = None) -> list[SessionFile]:
    """Return every session of this machine, or of one client, newest first."""
    chosen = [CLIENTS[client]] if client is not None else CLIENTS.values()
    sessions = [session for agent in chosen for session in agent.sessions(environ)]
    return sorted(sessions, key=lambda session: -session.modified)


def is_session_name(name: str) -> bool:
    """Return whether this is `client:…` with a client that is known."""
    client, colon, session = name.partition(":")
    return bool(colon and session) and client in CLIENTS


def find_session(name: str, environ: Environ) -> SessionFile:
    """Return the session that `client:ID` names, where the beginning of an id is enough.

    Raise `SettingsError` for none and for several.
    """
    client, _, beginning = name.partition(":")
    title, known = CLIENTS[client].title, list(CLIENTS[client].sessions(environ))
    fitting = [session for session in known if session.id == beginning]
    fitting = fitting or [session for session in known if session.id.startswith(beginning)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        home = CLIENTS[client].sessions_folder(environ)
        missing = f"no session of {title} in {home} begins with {beginning!r}"
        raise SettingsError(f"{missing}: `unabridged sessions {client}` lists them")
    more = f" and {len(fitting) - 5:,} more" if len(fitting) > 5 else ""
    if len({session.id for session in fitting}) == 1:
        listed = ", ".join(str(session.path) for session in fitting[:5])
        raise SettingsError(f"{len(fitting)} files of {title} have the id {fitting[0].id}: name one of {listed}{more}")
    listed = ", ".join(find_short_names(fitting[:5], known).values())
    found = f"{len(fitting)} sessions of {title} begin with {beginning!r}"
    raise SettingsError(f"{found}: say more of it, as in {listed}{more}")


def find_short_names(sessions: Iterable[SessionFile], among: Iterable[SessionFile]) -> dict[Path, str]:
    """Return for each session its shortest unique name, with at least eight characters of its id."""
    ids: dict[str, list[str]] = {}
    for session in among:
        ids.setdefault(session.client, []).append(session.id)
    for each in ids.values():
        each.sort()
    return {s.path: f"{s.client}:{s.id[: _find_distinct_length(s.id, ids[s.client])]}" for s in list(sessions)}


def _find_distinct_length(id_: str, ids: list[str]) -> int:
    """Return how many characters of the id no other one begins with; the ids are sorted, so only neighbours can."""
    near = ids[max(bisect_left(ids, id_) - 1, 0) : bisect_right(ids, id_) + 1]
    return max([8, *(_count_common_characters(id_, other) + 1 for other in near if other != id_)])


def _count_common_characters(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def find_project_folder(session: SessionFile) -> str:
    """Return the folder that a session's client worked in, from the beginning of its file; empty if it is not there."""
    try:
        return read_project(session.path) if session.client in _COMPACTION_SIGNS else read_overview(session).project
    except OSError:
        return ""


def is_folder_within(folder: str, project: str) -> bool:
    """Return whether a folder is the project's or below it, whatever they are called; no for what can't be a folder."""
    try:
        inner, outer = os.path.realpath(folder), os.path.realpath(project)
        return bool(folder and project) and Path(inner).is_relative_to(outer)
    except ValueError:  # a name that no system takes
        return False


def is_same_folder(folder: str, project: str) -> bool:
    """Return whether the two are one folder, whatever they are called."""
    return is_folder_within(folder, project) and is_folder_within(project, folder)


def read_overview(session: SessionFile) -> SessionOverview:
    """Return what the file says; nothing for one that can't be read."""
    try:
        if session.client in _COMPACTION_SIGNS:
            return SessionOverview(read_project(session.path), len(list(_find_compaction_offsets(session, 0))))
        directory = (parse_line(session.path.read_bytes()) or {}).get("directory")
        return SessionOverview(directory if isinstance(directory, str) else "", None)
    except OSError:
        return SessionOverview("", None)


def find_newest_compaction_offset(session: SessionFile, offset: int) -> int:
    """Return where the line of the newest compaction behind this offset begins; 0 where there is none."""
    return max(_find_compaction_offsets(session, offset), default=0)


def _find_compaction_offsets(session: SessionFile, offset: int) -> Iterator[int]:
    """Yield where the line of each compaction behind this offset begins."""
    sign = _COMPACTION_SIGNS[session.client]
    with session.path.open("rb") as stream:
        stream.seek(offset)
        for raw in stream:
            entry = (parse_line(raw) or {}) if sign in raw else {}
            if sign.decode() in (entry.get("subtype"), entry.get("type")):
                yield offset
            offset += len(raw)
