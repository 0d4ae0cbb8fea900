"""Codex: `~/.codex`, or where `CODEX_HOME` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from unabridged.clients.client import Client, Environ, SessionFile, folder_from, session_files

NAME = "codex"
_ROLLOUT = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)")


def home(environ: Environ) -> Path:
    """The folder with its configuration and sessions."""
    return folder_from(environ, "CODEX_HOME", ".codex")


def sessions(environ: Environ) -> Iterator[SessionFile]:
    """`sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`, and those that were put aside."""
    folder = home(environ)
    return chain(
        session_files(NAME, folder / "archived_sessions", "rollout-*.jsonl", _id_of),
        session_files(NAME, folder / "sessions", "*/*/*/rollout-*.jsonl", _id_of),
    )


def _id_of(path: Path) -> str | None:
    found = _ROLLOUT.fullmatch(path.stem)
    return found[1] if found else None


CLIENT = Client(NAME, "Codex", home, sessions)
