"""Which session asks: that of the client that started this process, else the only one of the project's folder.

Nothing is guessed. A note of the client's hook tells which session its process has open now; CLAUDE_CODE_SESSION_ID
tells the one with which Claude Code started this process; where neither is there and several fit, all are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from unabridged.clients.client import Environ, SessionFile
from unabridged.clients.found import all_sessions, is_within, project_of
from unabridged.clients.threads import open_sessions, thread_of


@dataclass(frozen=True, slots=True)
class Asking:
    """The sessions of a project, newest first, and those of them that may be the one that asks: one, if it is known."""

    sessions: Sequence[SessionFile]
    threads: Sequence[str]

    @property
    def thread(self) -> str | None:
        """The session that asks, as a thread; None when that is not certain."""
        return self.threads[0] if len(self.threads) == 1 else None


def who_asks(environ: Environ, folder: Path, ancestors: Mapping[int, float] | None = None) -> Asking:
    """The session that asks, from a process that its client started in this folder."""
    above = ancestors_of_this() if ancestors is None else ancestors
    noted = [note for note in open_sessions(environ) if above.get(note.process, note.time + 1) <= note.time]
    project = Path(noted[0].project) if noted and noted[0].project else folder
    listed = [session for session in all_sessions(environ) if _same(project_of(session), project)]
    if noted:
        return Asking(listed, [noted[0].thread])
    if named := environ.get("CLAUDE_CODE_SESSION_ID"):
        return Asking(listed, [thread_of("claude-code", named)])
    return Asking(listed, [thread_of(session.client, session.id) for session in listed])


def ancestors_of_this() -> dict[int, float]:
    """The processes that this one was started by, and when each began: its number may have been another's before."""
    try:
        return {process.pid: process.create_time() for process in psutil.Process().parents()}
    except psutil.Error:
        return {}


def _same(project: str, folder: Path) -> bool:
    return is_within(project, str(folder)) and is_within(str(folder), project)
