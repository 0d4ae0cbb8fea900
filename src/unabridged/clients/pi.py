"""pi: `~/.pi/agent`, or where `PI_CODING_AGENT_DIR` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unabridged.clients.client import Client, Environ, SessionFile, folder_from, session_files

NAME = "pi"


def home(environ: Environ) -> Path:
    """The folder with its settings, extensions and sessions."""
    return folder_from(environ, "PI_CODING_AGENT_DIR", ".pi", "agent")


def sessions(environ: Environ) -> Iterator[SessionFile]:
    """`sessions/--PROJECT--/TIME_ID.jsonl`."""
    return session_files(NAME, home(environ) / "sessions", "*/*.jsonl", _id_of)


def _id_of(path: Path) -> str | None:
    return path.stem.partition("_")[2] or None


CLIENT = Client(NAME, "pi", home, sessions)
