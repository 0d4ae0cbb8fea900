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
from unabridged_cli.clients.ignore_file import find_ignore_file
from unabridged_cli.clients.session_lookup import find_project_folder, is_same_folder, list_all_sessions
from unabridged_cli.clients.threads import OpenSession, build_session_thread, list_open_sessions

_MCP_CLIENTS: Final = ("claude-code", "codex", "opencode")
"""Clients whose name over MCP begins like this."""


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """The session that calls a tool: all sessions of its project, newest first, and those that may be the caller.

    `threads` has one item if the caller is known for certain.
    """

    sessions: Sequence[SessionFile]
    threads: Sequence[str]
    client: str | None = None
    """The client that asks; None where nobody knows."""
    ignore_file: Path | None = None
    """The file that keeps the project out of the archive, if there is one."""

    @property
    def thread(self) -> str | None:
        """Return the session that asks, as a thread; None when that is not certain."""
        return self.threads[0] if len(self.threads) == 1 else None


def client_from_mcp_name(name: str) -> str | None:
    """Return the client that gives itself this name over MCP, as `codex-mcp-client` is Codex; None for another one."""
    return next((client for client in _MCP_CLIENTS if name.startswith(client)), None)


def find_caller(
    environ: Environ,
    folder: Path,
    client: str | None,
    ancestors: Mapping[int, float] | None = None,
    started_at: float | None = None,
) -> ToolCaller:
    """Return which session calls the tools, for a server process that a client started in this folder.

    `ancestors` are the processes above this one, nearest first; `started_at` is the start time of this one.
    """
    note = _find_session_note(environ, client, list_ancestor_processes() if ancestors is None else ancestors)
    project = Path(note.project) if note is not None and note.project else folder
    listed = [(session, find_project_folder(session)) for session in list_all_sessions(environ)]
    sessions = [session for session, own in listed if is_same_folder(own, str(project))]
    if note is not None:
        threads = [note.thread]
    elif client == "claude-code" and (named := environ.get("CLAUDE_CODE_SESSION_ID")):
        threads = [build_session_thread(client, named)]
    else:
        since = psutil.Process().create_time() if started_at is None else started_at
        threads = [session.thread for session in sessions if session.client == client and session.modified >= since]
    return ToolCaller(sessions, threads, client, find_ignore_file(project))


def _find_session_note(environ: Environ, client: str | None, ancestors: Mapping[int, float]) -> OpenSession | None:
    """Return what the client's hook noted last for the nearest process above this one."""
    nearest = list(ancestors)
    notes = (note for note in list_open_sessions(environ) if note.client == client)
    own = [note for note in notes if note.process in ancestors and ancestors[note.process] <= note.time]
    return min(own, key=lambda note: nearest.index(note.process), default=None)  # of one process the newest


def list_ancestor_processes() -> dict[int, float]:
    """Return the processes that started this one, and when each began: its number may have been another's before."""
    try:
        return {process.pid: process.create_time() for process in psutil.Process().parents()}
    except psutil.Error:
        return {}
