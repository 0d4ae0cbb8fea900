"""Claude Code: `~/.claude`, or where `CLAUDE_CONFIG_DIR` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unabridged.clients.client import Client, Environ, SessionFile, folder_from, session_files

NAME = "claude-code"


def home(environ: Environ) -> Path:
    """The folder with its settings and sessions."""
    return folder_from(environ, "CLAUDE_CONFIG_DIR", ".claude")


def sessions(environ: Environ) -> Iterator[SessionFile]:
    """`projects/PROJECT/ID.jsonl`; the files of sub-agents are not sessions."""
    return session_files(NAME, home(environ) / "projects", "*/*.jsonl", _id_of)


def _id_of(path: Path) -> str | None:
    return None if path.stem.startswith("agent-") else path.stem


CLIENT = Client(NAME, "Claude Code", home, sessions)
