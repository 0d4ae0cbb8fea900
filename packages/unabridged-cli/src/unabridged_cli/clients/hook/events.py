"""What each event does: an event as JSON in, the answer to the client as JSON, or nothing, out.

What only notes the session, as at every start of a client, loads nothing of the archive.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from unabridged.archive.names import check_name
from unabridged.errors import SettingsError
from unabridged_cli.clients.hook import background
from unabridged_cli.clients.hook.log import log, set_logged_session
from unabridged_cli.clients.hook.transcript import TRANSCRIPT_KINDS, HookSession, detect_transcript_kind
from unabridged_cli.clients.ignore_file import find_ignore_file
from unabridged_cli.clients.once import is_first_hook
from unabridged_cli.clients.threads import OpenSession, find_client_process, note_open_session

PI_COMPACT_EVENT: Final = "session_before_compact"
"""The event of pi's that takes a summary of ours."""
COPY_REST_EVENT: Final = "Unabridged.CopyRest"
"""The event of the process that does what there was no time for."""
ARCHIVE_GROWN_EVENT: Final = "Unabridged.ArchiveGrown"
"""The event of the process that archives what is new in all sessions of a project."""
_KNOWN_REASONS: Final = frozenset({"auto", "manual", "startup", "resume", "clear", "compact"})
_LASTING_CLIENTS: Final = [kind.client for kind in TRANSCRIPT_KINDS if kind.is_lasting]

Event = Mapping[str, Any]


def answer_hook_event(data: bytes) -> str:
    """Return the answer to an event; empty where there is none."""
    event = json.loads(data)
    if not isinstance(event, dict):
        raise TypeError("the event is no JSON object")
    name, source = event.get("hook_event_name"), event.get("source")
    if (ignore_file := find_ignore_file(_read_project_folder(event))) is not None:
        log(f"{event.get('session_id')}: nothing is archived, {ignore_file} is there ({name})")
        return ""
    if name == ARCHIVE_GROWN_EVENT:
        _archive_grown_sessions(event)
        return ""
    if name != COPY_REST_EVENT and not is_first_hook(data, os.environ):
        log(f"{event.get('session_id')}: {name} is answered by the other hook, of the plugin or the install")
        return ""
    if name == "SessionStart":
        _note_event_session(event)
    if name == "SessionEnd" or (name == "SessionStart" and source != "compact"):
        _start_archiving_grown_sessions(event)
    if name == "SessionEnd" or (name == "SessionStart" and source not in {"compact", "resume"}):
        return ""
    if name not in {"SessionStart", "PreCompact", "PostCompact", PI_COMPACT_EVENT, COPY_REST_EVENT}:
        log(f"nothing to do for the event {name!r}")
        return ""
    output = _handle_session_event(str(name), event)
    return json.dumps(output) if output else ""


def _handle_session_event(name: str, event: Event) -> dict[str, Any]:
    """Handle the event; return the answer to the client."""
    from unabridged_cli.clients.hook import actions  # noqa: PLC0415 - a start of the client does without it

    session, reason = find_event_session(event), describe_event(event)
    set_logged_session(session.thread)
    is_complete, output = True, dict[str, Any]()
    if name == PI_COMPACT_EVENT:
        summary = actions.summarise(session, reason)
        output = {"compaction": {"summary": summary}} if summary else {}
    elif name == COPY_REST_EVENT:
        actions.finish_archiving(session, reason)
    else:
        output, is_complete = actions.answer_session_event(session, reason, event)
    if not is_complete and session.kind.is_lasting:
        rest = {"hook_event_name": COPY_REST_EVENT, "session_id": session.id, "transcript_path": str(session.path)}
        background.start_process(rest)
    return output


def describe_event(event: Event) -> str:
    """Return which event this was, in the client's words as far as they are known ones."""
    words = [event[name] for name in ("trigger", "source") if str(event.get(name)) in _KNOWN_REASONS]
    return " ".join([str(event["hook_event_name"]), *words])


def _start_archiving_grown_sessions(event: Event) -> None:
    """Start a process that archives what is new in the client's sessions of the project; the hook ends at once."""
    session, path = _read_session_and_path(event)
    client = _detect_client(event, path)
    if client in _LASTING_CLIENTS:
        background.start_process({
            "hook_event_name": ARCHIVE_GROWN_EVENT, "session_id": session, "transcript_path": str(path or ""),
            "client": client, "cwd": _read_project_folder(event), "reason": describe_event(event),
        })  # fmt: skip


def _archive_grown_sessions(event: Event) -> None:
    from unabridged_cli.clients.client import SessionFile  # noqa: PLC0415 - only here
    from unabridged_cli.clients.hook.grown_sessions import archive_grown_sessions  # noqa: PLC0415 - likewise

    session, path = _read_session_and_path(event)
    own = SessionFile(_detect_client(event, path), session, path or Path(), 0, 0.0)
    archive_grown_sessions(own, _read_project_folder(event), str(event.get("reason")))


# -- the session -------------------------------------------------------------------------------------------------------


def find_event_session(event: Event) -> HookSession:
    """Return the session that the event is about: the file that it names, or the one that has its id."""
    session, path = _read_session_and_path(event)
    kind = detect_transcript_kind(path) if path is not None and path.is_file() else None
    if path is None or kind is None:
        raise ValueError(f"no session file of a client that is known for {session}: {path}")
    return HookSession(kind, session, path, project=_read_project_folder(event))


def _read_session_and_path(event: Event) -> tuple[str, Path | None]:
    session, path = check_name(event.get("session_id"), "session_id"), event.get("transcript_path")
    if {"/", "\\"}.intersection(session):  # with a / it could name the second thread of another session
        raise SettingsError(f"session_id must have no / and no \\; got {session[:60]!r}")
    return session, Path(path).expanduser() if isinstance(path, str) and path else _find_session_file(session)


def _find_session_file(session: str) -> Path | None:
    from unabridged_cli.clients.registry import CLIENTS  # noqa: PLC0415 - only a client that names no file needs them

    files = (file for client in CLIENTS.values() for file in client.sessions(os.environ))
    return next((file.path for file in files if file.id == session), None)


def _note_event_session(event: Event) -> None:
    """Note which session the client has open. Its file may not be there yet: then its name says whose it is."""
    session, path = _read_session_and_path(event)
    client, folder = _detect_client(event, path), _read_project_folder(event)
    opened = OpenSession(client, session, folder, str(path or ""), find_client_process(), time.time())
    try:
        note_open_session(opened, os.environ)
    except OSError as error:  # only the MCP server misses it
        log(f"{opened.thread}: can't note that it is open: {error}")


def _detect_client(event: Event, path: Path | None) -> str:
    """Return whose session this is: by its file, else by what the event or the file's name says."""
    kind = detect_transcript_kind(path) if path is not None and path.is_file() else None
    client = kind.client if kind else event.get("client")
    if client not in [one.client for one in TRANSCRIPT_KINDS]:
        client = "codex" if path is not None and path.name.startswith("rollout-") else "claude-code"
    return str(client)


def _read_project_folder(event: Event) -> str:
    folder = event.get("cwd")
    return folder if isinstance(folder, str) else ""
