"""What each event does: an event as JSON in, the answer to the client as JSON, or nothing, out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from unabridged.archive.protocol import Archive
from unabridged.clients.hook.copying import Copied, Source, copy_new
from unabridged.clients.hook.findings import take_certain
from unabridged.clients.hook.log import log
from unabridged.clients.hook.transcript import KINDS, kind_of
from unabridged.clients.threads import Open, note_open

WAIT: Final = 5.0
"""Seconds to wait for another writer of the archive."""
BEFORE: Final = 15.0
"""Seconds of copying before a compaction; what is left is copied by a process of its own while the client goes on."""
AFTER: Final = 5.0
"""The same before the context is told what a summary loses."""
COPY_REST: Final = "Unabridged.CopyRest"
"""The event of that process."""
_REST: Final = 1_800.0
"""Seconds that it may take."""

Event = Mapping[str, Any]


def answer(given: bytes) -> str:
    """The answer to an event; empty where there is nothing to say."""
    event = json.loads(given)
    if not isinstance(event, dict):
        raise TypeError("the event is no JSON object")
    name = event.get("hook_event_name")
    if name == "PreCompact":
        _before_compaction(event)
    elif name == "SessionStart":
        return _session_start(event)
    elif name == "PostCompact":
        _after_compaction(event)
    elif name == COPY_REST:
        _copy(event, _REST / 2)
    else:
        log(f"nothing to do for the event {name!r}")
    return ""


def _before_compaction(event: Event) -> None:
    """Archive what is new in the session."""
    source, copied = _copy(event, BEFORE)
    if not copied.whole:
        _copy_rest_later(event)
        log(f"{source.scope.thread}: the rest is archived by a process of its own")


def _session_start(event: Event) -> str:
    """Note which session the client has open; after a compaction, what the context gets."""
    _note(event)
    if event.get("source") not in {"compact", "resume"}:
        return ""
    source = find_source(event)
    with _Opened() as archive:
        told = take_certain(archive, source)
        if event["source"] == "compact":
            from unabridged.clients.hook import reminder  # noqa: PLC0415 - takes as long to load as all else

            _copy_into(archive, source, event, AFTER)
            told = "\n\n".join(filter(None, (reminder.remind(archive, source, _reason(event)), told)))
    log(f"{source.scope.thread}: {len(told):,} characters for the context")
    return _context("SessionStart", told) if told else ""


def _after_compaction(event: Event) -> None:
    """Hold the client's summary against the record."""
    from unabridged.clients.hook import claims  # noqa: PLC0415 - only here

    source, summary = find_source(event), event.get("compact_summary")
    with _Opened() as archive:
        _copy_into(archive, source, event, AFTER)
        found = claims.check(archive, source, summary if isinstance(summary, str) else "")
    log(f"{source.scope.thread}: the client's summary says {len(found)} things that the record does not")


def _context(event_name: str, text: str) -> str:
    output = {"hookEventName": event_name, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": output}, ensure_ascii=True)


# -- the session and the archive ---------------------------------------------------------------------------------------


def find_source(event: Event) -> Source:
    """The session that the event is about: the file that it names, or the one that has its id."""
    session, path = _session_of(event)
    kind = kind_of(path) if path is not None and path.is_file() else None
    if path is None or kind is None:
        raise ValueError(f"no session file of a client that is known for {session}: {path}")
    return Source(kind, session, path)


def _session_of(event: Event) -> tuple[str, Path | None]:
    session, path = event.get("session_id"), event.get("transcript_path")
    if not isinstance(session, str) or not session:
        raise ValueError("the event names no session_id")
    return session, Path(path).expanduser() if isinstance(path, str) and path else _file_of(session)


def _file_of(session: str) -> Path | None:
    from unabridged.clients import CLIENTS  # noqa: PLC0415 - Codex names no file where it keeps none

    for client in CLIENTS.values():
        for file in client.sessions(os.environ):
            if file.id == session:
                return file.path
    return None


def _note(event: Event) -> None:
    """Note which session the client has open. Its file may not be there yet: then its name says whose it is."""
    session, path = _session_of(event)
    kind = kind_of(path) if path is not None and path.is_file() else None
    client = kind.client if kind else event.get("client")
    if client not in {one.client for one in KINDS}:
        client = "codex" if path is not None and path.name.startswith("rollout-") else "claude-code"
    folder = event.get("cwd")
    project = folder if isinstance(folder, str) else ""
    opened = Open(str(client), session, project, str(path or ""), os.getppid(), time.time())
    note_open(opened, os.environ)


def _copy(event: Event, seconds: float) -> tuple[Source, Copied]:
    source = find_source(event)
    with _Opened() as archive:
        return source, _copy_into(archive, source, event, seconds)


def _copy_into(archive: Archive, source: Source, event: Event, seconds: float) -> Copied:
    began = time.monotonic()
    copied = copy_new(archive, source, _reason(event), began + seconds)
    log(f"{source.scope.thread}: {copied.messages:,} messages archived in {time.monotonic() - began:.2f} s")
    return copied


def _copy_rest_later(event: Event) -> None:
    """Start a process that archives the rest, in a group of its own: the client does not wait for it.

    `-P`: nothing is loaded from the folder that the client works in.
    """
    rest = {**event, "hook_event_name": COPY_REST}
    child = subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-P", "-c", f"from unabridged.clients.hook import main; main({_REST})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdin is not None  # noqa: S101 - it is a pipe
    child.stdin.write(json.dumps(rest).encode())
    child.stdin.close()


def _reason(event: Event) -> str:
    """Which event this was, in the client's words as far as they are known ones."""
    words = [str(event.get(name)) for name in ("trigger", "source") if event.get(name) in _REASONS]
    return " ".join([str(event.get("hook_event_name"))[:40], *words])


_REASONS: Final = ("auto", "manual", "startup", "resume", "clear", "compact")


class _Opened:
    """The archive that `UNABRIDGED_ARCHIVE` names, or the user's own; closed in the end."""

    def __enter__(self) -> Archive:
        from unabridged.archive.opening import open_archive  # noqa: PLC0415 - only where something is stored

        self._archive = open_archive(os.environ.get("UNABRIDGED_ARCHIVE") or None, probe=False, wait=WAIT)
        return self._archive

    def __exit__(self, *_: object) -> None:
        self._archive.close()
