"""Which session asks: one of the client that started this process, never another client's.

Nothing is guessed. A note of the client's hook tells which session its process has open now; CLAUDE_CODE_SESSION_ID
tells the one with which Claude Code started this process. Without either it is the only session of the client in this
folder that was written since this process began: a client writes down what it is asked before it asks us.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from unabridged_cli.clients.client import Environ, SessionFile
from unabridged_cli.clients.found import all_sessions, is_same, project_of
from unabridged_cli.clients.left_out import left_out_by
from unabridged_cli.clients.threads import Open, open_sessions, thread_of

_NAMES: Final = {"claude-code": "claude-code", "codex": "codex", "opencode": "opencode"}
"""How the name that a client gives itself over MCP begins."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The sessions of a project, newest first, and those of them that may be the one that asks: one, if it is known."""

    sessions: Sequence[SessionFile]
    threads: Sequence[str]
    client: str | None = None
    """The client that asks; None where nobody knows."""
    left_out: Path | None = None
    """The file that keeps the project out of the archive, if there is one."""

    @property
    def thread(self) -> str | None:
        """The session that asks, as a thread; None when that is not certain."""
        return self.threads[0] if len(self.threads) == 1 else None


def client_named(name: str) -> str | None:
    """Return the client that gives itself this name over MCP, as `codex-mcp-client` is Codex; None for another one."""
    return next((client for begin, client in _NAMES.items() if name.startswith(begin)), None)


def who_asks(
    environ: Environ,
    folder: Path,
    client: str | None,
    ancestors: Mapping[int, float] | None = None,
    began: float | None = None,
) -> Asking:
    """The session that asks, from a process that this client started in this folder.

    `ancestors` are the processes above this one, nearest first; `began` is when this one did.
    """
    above = ancestors_of_this() if ancestors is None else ancestors
    noted = _noted(environ, client, above)
    project = Path(noted.project) if noted is not None and noted.project else folder
    listed = [session for session in all_sessions(environ) if is_same(project_of(session), str(project))]
    if noted is not None:
        threads = [noted.thread]
    elif client == "claude-code" and (named := environ.get("CLAUDE_CODE_SESSION_ID")):
        threads = [thread_of(client, named)]
    else:
        since = psutil.Process().create_time() if began is None else began
        own = (session for session in listed if session.client == client and session.modified >= since)
        threads = [thread_of(session.client, session.id) for session in own]
    return Asking(listed, threads, client, left_out_by(project))


def _noted(environ: Environ, client: str | None, above: Mapping[int, float]) -> Open | None:
    """What the client's hook noted last for the nearest process above this one."""
    nearest = list(above)
    notes = (note for note in open_sessions(environ) if note.client == client)
    own = [note for note in notes if note.process in above and above[note.process] <= note.time]
    return min(own, key=lambda note: nearest.index(note.process), default=None)  # of one process the newest


def ancestors_of_this() -> dict[int, float]:
    """The processes that this one was started by, and when each began: its number may have been another's before."""
    try:
        return {process.pid: process.create_time() for process in psutil.Process().parents()}
    except psutil.Error:
        return {}
