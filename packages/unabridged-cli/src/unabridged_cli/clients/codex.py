"""Codex: `~/.codex`, or where `CODEX_HOME` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from unabridged_cli.clients.client import Client, Environ, Place, SessionFile, folder_from, session_files
from unabridged_cli.clients.entries import hooks, mcp_codex

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


def places(environ: Environ, project: Path | None) -> tuple[Place, ...]:
    """Hooks in `hooks.json`, the MCP server in `config.toml`."""
    folder = home(environ) if project is None else project / ".codex"
    return hooks(folder / "hooks.json"), mcp_codex(folder / "config.toml")


def notes(project: Path | None) -> tuple[str, ...]:
    """What the user has to know after an install."""
    trusted = ("Codex reads .codex only in a project that it was told to trust.",)
    return (
        "Codex runs a hook only after you trusted it: start codex, type /hooks, and trust those of unabridged.",
        "Where nobody can be asked: codex exec --dangerously-bypass-hook-trust.",
        *(trusted if project is not None else ()),
        "Codex's summary stays its own: only a gateway between it and its provider could put ours in its place.",
    )


UNRUN = "start codex, type /hooks, and trust those of unabridged; an install that changed them needs that again"

CLIENT = Client(NAME, "Codex", home, sessions, places, notes, UNRUN)
