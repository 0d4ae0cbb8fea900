"""Whether a client has a session open: nobody writes a file under the hands of the program that owns it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from unabridged.clients.client import SessionFile

_PROGRAMS = {"claude-code": ("claude", "claude.exe"), "codex": ("codex", "codex.exe"), "pi": ("pi", "pi.exe")}
_PACKAGES = {"claude-code": "@anthropic-ai/claude-code", "codex": "@openai/codex", "pi": "pi-coding-agent"}


def processes_with(session: SessionFile, project: str) -> list[str]:
    """The client's processes that may have the session open, as `claude (process 4711)`.

    One in the session's folder may, whatever it says: clients don't tell which of their sessions is open. One whose
    folder, or a session whose folder, is not known may, too.
    """
    return [f"{name} (process {pid})" for pid, name in _using(session, project) if pid != os.getpid()]


def _using(session: SessionFile, project: str) -> Iterator[tuple[int, str]]:
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        arguments = process.info["cmdline"] or []
        if not is_client(session.client, arguments):
            continue
        where = process.info["cwd"]
        near = not where or not project or _is_within(Path(where), Path(project))
        if near or any(session.id in argument for argument in arguments) or _has_open(process, session.path):
            yield process.info["pid"], Path(arguments[0]).name or session.client


def is_client(client: str, arguments: Sequence[str]) -> bool:
    """Whether a process with these arguments is the client: by its program, or by the script that it runs."""
    return any(
        Path(argument).name in _PROGRAMS.get(client, ()) or _PACKAGES.get(client, "\0") in argument
        for argument in arguments[:2]
    )


def _is_within(where: Path, project: Path) -> bool:
    return where == project or project in where.parents


def _has_open(process: psutil.Process, path: Path) -> bool:
    try:
        return any(Path(opened.path) == path for opened in process.open_files())
    except (psutil.Error, OSError):
        return False
