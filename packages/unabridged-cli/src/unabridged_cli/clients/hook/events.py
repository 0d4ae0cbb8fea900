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
from unabridged_cli.clients.hook import later
from unabridged_cli.clients.hook.log import log, name_session
from unabridged_cli.clients.hook.transcript import KINDS, Source, kind_of
from unabridged_cli.clients.left_out import left_out_by
from unabridged_cli.clients.threads import Open, client_process, note_open

IN_ITS_PLACE: Final = "session_before_compact"
"""The event of pi's that takes a summary of ours."""
REST: Final = "Unabridged.CopyRest"
"""The event of the process that does what there was no time for."""
GROWN: Final = "Unabridged.ArchiveGrown"
"""The event of the process that archives what is new in all sessions of a project."""
_WORDS: Final = frozenset({"auto", "manual", "startup", "resume", "clear", "compact"})

Event = Mapping[str, Any]


def answer(given: bytes) -> str:
    """The answer to an event; empty where there is nothing to say."""
    event = json.loads(given)
    if not isinstance(event, dict):
        raise TypeError("the event is no JSON object")
    name, source = event.get("hook_event_name"), event.get("source")
    if (left_out := left_out_by(_folder(event))) is not None:
        log(f"{event.get('session_id')}: nothing is archived, {left_out} is there ({name})")
        return ""
    if name == GROWN:
        _archive_grown(event)
        return ""
    if name == "SessionStart":
        _note(event)
    if name == "SessionEnd" or (name == "SessionStart" and source != "compact"):
        _archive_grown_later(event)
    if name == "SessionEnd" or (name == "SessionStart" and source not in {"compact", "resume"}):
        return ""
    if name not in {"SessionStart", "PreCompact", "PostCompact", IN_ITS_PLACE, REST}:
        log(f"nothing to do for the event {name!r}")
        return ""
    said = _do(str(name), event)
    return json.dumps(said) if said else ""


def _do(name: str, event: Event) -> dict[str, Any]:
    """Do what the event asks for; what the client is told."""
    from unabridged_cli.clients.hook import around, rest  # noqa: PLC0415 - a start of the client does without it

    session, reason = find_source(event), reason_of(event)
    name_session(session.thread)
    whole, said = True, dict[str, Any]()
    if name == "PreCompact":
        whole = around.archive_session(session, reason, around.BEFORE)
    elif name == "SessionStart":
        text, whole = around.tell_context(session, reason, compacted=event.get("source") == "compact")
        said = as_context(text)
    elif name == "PostCompact":
        around.check_summary(session, reason, event.get("compact_summary"))
    elif name == IN_ITS_PLACE:
        summary = around.summarise(session, reason)
        said = {"compaction": {"summary": summary}} if summary else {}
    else:
        later.be_patient()
        rest.do_rest(session, reason)
    if not whole and session.kind.lasting:
        later.do_later({"hook_event_name": REST, "session_id": session.id, "transcript_path": str(session.path)})
    return said


def as_context(text: str) -> dict[str, Any]:
    """The answer that puts this text into the context; none for an empty one."""
    output = {"hookEventName": "SessionStart", "additionalContext": text}
    return {"hookSpecificOutput": output} if text else {}


def reason_of(event: Event) -> str:
    """Which event this was, in the client's words as far as they are known ones."""
    words = [event[name] for name in ("trigger", "source") if str(event.get(name)) in _WORDS]
    return " ".join([str(event["hook_event_name"]), *words])


def _archive_grown_later(event: Event) -> None:
    """Have a process of its own archive what is new in the client's sessions of the project; the hook ends at once."""
    session, path = _session_of(event)
    client = _client_of(event, path)
    if client in [kind.client for kind in KINDS if kind.lasting]:
        given = {"hook_event_name": GROWN, "session_id": session, "transcript_path": str(path or ""), "client": client}
        later.do_later(given | {"cwd": _folder(event), "reason": reason_of(event)})


def _archive_grown(event: Event) -> None:
    from unabridged_cli.clients.client import SessionFile  # noqa: PLC0415 - only here
    from unabridged_cli.clients.hook.grown import archive_grown  # noqa: PLC0415 - likewise

    session, path = _session_of(event)
    later.be_patient()
    own = SessionFile(_client_of(event, path), session, path or Path(), 0, 0.0)
    archive_grown(own, _folder(event), str(event.get("reason")))


# -- the session -------------------------------------------------------------------------------------------------------


def find_source(event: Event) -> Source:
    """The session that the event is about: the file that it names, or the one that has its id."""
    session, path = _session_of(event)
    kind = kind_of(path) if path is not None and path.is_file() else None
    if path is None or kind is None:
        raise ValueError(f"no session file of a client that is known for {session}: {path}")
    folder = event.get("cwd")
    return Source(kind, session, path, project=folder if isinstance(folder, str) else "")


def _session_of(event: Event) -> tuple[str, Path | None]:
    session, path = check_name(event.get("session_id"), "session_id"), event.get("transcript_path")
    if {"/", "\\"}.intersection(session):  # with a / it could name the second thread of another session
        raise SettingsError(f"session_id must have no / and no \\; got {session[:60]!r}")
    return session, Path(path).expanduser() if isinstance(path, str) and path else _file_of(session)


def _file_of(session: str) -> Path | None:
    from unabridged_cli.clients import CLIENTS  # noqa: PLC0415 - only a client that names no file needs them

    for client in CLIENTS.values():
        for file in client.sessions(os.environ):
            if file.id == session:
                return file.path
    return None


def _note(event: Event) -> None:
    """Note which session the client has open. Its file may not be there yet: then its name says whose it is."""
    session, path = _session_of(event)
    opened = Open(_client_of(event, path), session, _folder(event), str(path or ""), client_process(), time.time())
    try:
        note_open(opened, os.environ)
    except OSError as error:  # only the MCP server misses it
        log(f"{opened.thread}: can't note that it is open: {error}")


def _client_of(event: Event, path: Path | None) -> str:
    """Whose session this is: by its file, else by what the event or the file's name says."""
    kind = kind_of(path) if path is not None and path.is_file() else None
    client = kind.client if kind else event.get("client")
    if client not in [one.client for one in KINDS]:
        client = "codex" if path is not None and path.name.startswith("rollout-") else "claude-code"
    return str(client)


def _folder(event: Event) -> str:
    folder = event.get("cwd")
    return folder if isinstance(folder, str) else ""
