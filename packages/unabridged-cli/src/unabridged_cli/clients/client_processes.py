"""Whether a client has a session open: nobody writes a file while the program that owns it may write it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.session_lookup import is_folder_within

_PROGRAM_NAMES = {"claude-code": "claude", "codex": "codex", "pi": "pi"}
_PACKAGE_NAMES = {"claude-code": "@anthropic-ai/claude-code", "codex": "@openai/codex", "pi": "pi-coding-agent"}


def list_processes_with_session(session: SessionFile, project: str) -> list[str]:
    """Return the client's running processes that may have this session open, as `claude (process 4711)`.

    A process in the session's folder may have it open, since clients don't tell which session is theirs; so may one
    whose folder is unknown, and any if the session's folder is unknown.
    """
    return [f"{name} (process {pid})" for pid, name in _find_processes(session, project) if pid != os.getpid()]


def _find_processes(session: SessionFile, project: str) -> Iterator[tuple[int, str]]:
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        arguments = process.info["cmdline"] or []
        if not is_client_process(session.client, arguments) or not _may_write(process, session.path):
            continue
        folder = process.info["cwd"]
        is_near = not folder or not project or is_folder_within(folder, project)
        if is_near or any(session.id in argument for argument in arguments) or _has_file_open(process, session.path):
            yield process.info["pid"], Path(arguments[0]).name or session.client


def is_client_process(client: str, arguments: Sequence[str]) -> bool:
    """Return whether a process with these arguments is the client: by its program, or by the script that it runs."""
    if client not in _PROGRAM_NAMES:
        return False
    program, package = _PROGRAM_NAMES[client], _PACKAGE_NAMES[client]
    script = next((argument for argument in arguments[1:] if not argument.startswith("-")), "")
    run = (*arguments[:1], script)
    return any(Path(one).name in (program, f"{program}.exe") or package in one for one in run)


def _may_write(process: psutil.Process, path: Path) -> bool:
    """Return whether the process runs as the file's owner or as root; others can't write the file."""
    try:
        return find_user_id(process) in {0, path.stat().st_uid}
    except (psutil.Error, OSError, AttributeError):  # gone, or a system without owners
        return True


def find_user_id(process: psutil.Process) -> int:
    """Return who runs the process."""
    return int(process.uids().effective)


def _has_file_open(process: psutil.Process, path: Path) -> bool:
    try:
        return any(Path(file.path) == path for file in process.open_files())
    except (psutil.Error, OSError):
        return False
