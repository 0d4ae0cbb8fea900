"""Whether a client has a session open: nobody writes a file while the program that owns it may write it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.session_lookup import is_within

_PROGRAMS = {"claude-code": "claude", "codex": "codex", "pi": "pi"}
_PACKAGES = {"claude-code": "@anthropic-ai/claude-code", "codex": "@openai/codex", "pi": "pi-coding-agent"}


def processes_with(session: SessionFile, project: str) -> list[str]:
    """Return the client's processes that may have the session open, as `claude (process 4711)`.

    One in the session's folder may, whatever it says: clients don't tell which of their sessions is open. One whose
    folder, or a session whose folder, is not known may, too.
    """
    return [f"{name} (process {pid})" for pid, name in _find_processes(session, project) if pid != os.getpid()]


def _find_processes(session: SessionFile, project: str) -> Iterator[tuple[int, str]]:
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        arguments = process.info["cmdline"] or []
        if not is_client(session.client, arguments) or not _may_write(process, session.path):
            continue
        folder = process.info["cwd"]
        is_near = not folder or not project or is_within(folder, project)
        if is_near or any(session.id in argument for argument in arguments) or _has_open(process, session.path):
            yield process.info["pid"], Path(arguments[0]).name or session.client


def is_client(client: str, arguments: Sequence[str]) -> bool:
    """Return whether a process with these arguments is the client: by its program, or by the script that it runs."""
    script = next((argument for argument in arguments[1:] if not argument.startswith("-")), "")
    return client in _PROGRAMS and any(
        Path(argument).name in (_PROGRAMS[client], f"{_PROGRAMS[client]}.exe") or _PACKAGES[client] in argument
        for argument in (*arguments[:1], script)
    )


def _may_write(process: psutil.Process, path: Path) -> bool:
    """Return whether the process is the file's owner's, or root's: other people's clients have their own sessions."""
    try:
        return user_of(process) in {0, path.stat().st_uid}
    except (psutil.Error, OSError, AttributeError):  # gone, or a system without owners
        return True


def user_of(process: psutil.Process) -> int:
    """Return who runs the process."""
    return int(process.uids().effective)


def _has_open(process: psutil.Process, path: Path) -> bool:
    try:
        return any(Path(file.path) == path for file in process.open_files())
    except (psutil.Error, OSError):
        return False
