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

from unabridged_cli.clients.client import Environ, folder_from

_OLD: float = 30 * 86_400
"""Seconds after which a note says nothing any more."""
_SHELLS = frozenset({"sh", "ash", "bash", "dash", "zsh", "busybox"})
_COMPACTED = "/compacted"
_PLAIN = re.compile(r"[^\w.-]")


@dataclass(frozen=True, slots=True)
class Open:
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
        """The session's thread in the archive."""
        return thread_of(self.client, self.session)


def thread_of(client: str, session: str) -> str:
    """The name of a session's thread in the archive: `claude-code:3f2a…`, as the command line names the session."""
    return f"{client}:{session}"


def file_name(thread: str) -> str:
    """The thread's name as it may stand in the name of a file: no two threads share one."""
    name = _PLAIN.sub("_", thread)
    if len(name) <= 200 and name == thread.replace(":", "_", 1):
        return name
    return f"{name[:180]}-{hashlib.sha256(thread.encode('utf-8', 'replace')).hexdigest()[:12]}"


def threads_of(session_thread: str) -> tuple[str, str]:
    """The two threads of a session: what was said in it, line by line, and what our own compactions took out of it.

    They are two because turns are counted differently: a summary of ours counts the messages that were sent.
    """
    return session_thread, session_thread + _COMPACTED


def session_of(thread: str) -> str:
    """The session's own thread, whichever of its two this is."""
    return thread.removesuffix(_COMPACTED)


def client_process() -> int:
    """The process of the client that runs this one: its parent, or, where that is only a shell, the one above."""
    parent = os.getppid()
    try:
        name, _, rest = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8").rpartition(")")
        return int(rest.split()[1]) if name.partition("(")[2] in _SHELLS else parent
    except (OSError, ValueError, IndexError):
        return parent


def notes_folder(environ: Environ) -> Path:
    """Where the notes are: in the user's state folder."""
    return folder_from(environ, "XDG_STATE_HOME", ".local", "state") / "unabridged" / "open"


def note_open(opened: Open, environ: Environ) -> None:
    """Remember that the client has this session open, in the place of what was noted for it; old notes go."""
    folder = notes_folder(environ)
    for made in (folder.parent, folder):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")  # 0600
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(asdict(opened), stream)
    Path(name).replace(folder / f"{file_name(opened.thread)}.json")
    for path in folder.glob("*.*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _OLD:
                path.unlink()


def open_sessions(environ: Environ) -> list[Open]:
    """The sessions that were noted, newest first; a note that can't be read is none."""
    return sorted(_read_notes(environ), key=lambda opened: -opened.time)


def _read_notes(environ: Environ) -> Iterator[Open]:
    for path in notes_folder(environ).glob("*.json"):
        try:
            value: Any = json.loads(path.read_bytes())
            yield Open(**{name: kind(value[name]) for name, kind in _FIELDS.items()})
        except (OSError, ValueError, TypeError, KeyError):
            continue


_FIELDS = {"client": str, "session": str, "project": str, "transcript": str, "process": int, "time": float}
