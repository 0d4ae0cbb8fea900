"""Which thread of the archive a session is, and which sessions clients have open now.

A client's hook notes the session that it belongs to when it starts, is cleared or resumed; the MCP server, which the
client starts once and never tells of that, reads the note. A note is one small file, for its owner alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unabridged_cli.clients.client import Environ, folder_from_variable

_NOTE_LIFETIME_SECONDS = 30 * 86_400
_SHELL_NAMES = frozenset({"sh", "ash", "bash", "dash", "zsh", "busybox"})
_COMPACTED_SUFFIX = "/compacted"
_UNSAFE_CHARACTER_PATTERN = re.compile(r"[^\w.-]")


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session as a client's hook saw it last."""

    client: str
    session: str
    project: str
    """The folder that the client works in."""
    transcript: str
    """The session's file."""
    process: int
    """The client's own process, or the nearest to it that is known; 0 for none."""
    time: float
    """Seconds since 1970."""

    @property
    def thread(self) -> str:
        """Return the session's thread in the archive."""
        return build_session_thread(self.client, self.session)


def build_session_thread(client: str, session: str) -> str:
    """Return the name of a session's thread: `claude-code:3f2a…`, as the command line names the session."""
    return f"{client}:{session}"


def thread_to_file_name(thread: str) -> str:
    """Return the thread's name as it may be part of a file's name: no two threads share one."""
    name = _UNSAFE_CHARACTER_PATTERN.sub("_", thread)
    if len(name) <= 200 and name == thread.replace(":", "_", 1):
        return name
    return f"{name[:180]}-{hashlib.sha256(thread.encode('utf-8', 'replace')).hexdigest()[:12]}"


def list_session_threads(session_thread: str) -> tuple[str, str]:
    """Return the two threads of a session: one for its copied messages, one for what our own compactions removed.

    They are separate because turns are counted differently in each.
    """
    return session_thread, session_thread + _COMPACTED_SUFFIX


def session_thread_of(thread: str) -> str:
    """Return the session's main thread, given either of its two threads."""
    return thread.removesuffix(_COMPACTED_SUFFIX)


def find_client_process() -> int:
    """Return the process of the client that runs this one: its parent, or, above a shell, the shell's parent."""
    parent = os.getppid()
    try:
        name, _, fields = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8").rpartition(")")
        return int(fields.split()[1]) if name.partition("(")[2] in _SHELL_NAMES else parent
    except (OSError, ValueError, IndexError):
        return parent


def notes_folder(environ: Environ) -> Path:
    """Return where the notes are: in the user's state folder."""
    return folder_from_variable(environ, "XDG_STATE_HOME", ".local", "state") / "unabridged" / "open"


def note_open_session(session: OpenSession, environ: Environ) -> None:
    """Write that the client has this session open, in the place of what was noted for it; remove old notes."""
    folder = notes_folder(environ)
    for parent in (folder.parent, folder):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")  # 0600
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(asdict(session), stream)
    Path(name).replace(folder / f"{thread_to_file_name(session.thread)}.json")
    for path in folder.glob("*.*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _NOTE_LIFETIME_SECONDS:
                path.unlink()


def list_open_sessions(environ: Environ) -> list[OpenSession]:
    """Return the sessions that were noted, newest first; a note that can't be read is left out."""
    return sorted(_read_notes(environ), key=lambda session: -session.time)


def _read_notes(environ: Environ) -> Iterator[OpenSession]:
    for path in notes_folder(environ).glob("*.json"):
        try:
            value: Any = json.loads(path.read_bytes())
            texts = {name: str(value[name]) for name in ("client", "session", "project", "transcript")}
            yield OpenSession(**texts, process=int(value["process"]), time=float(value["time"]))
        except (OSError, ValueError, TypeError, KeyError):
            continue
