"""Codex: `~/.codex`, or where `CODEX_HOME` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from unabridged_cli.clients.client import (
    CodingAgent,
    ConfigEntry,
    Environ,
    SessionFile,
    find_session_files,
    folder_from_variable,
)
from unabridged_cli.clients.entries import CodexServerEntry, HooksEntry

NAME = "codex"
_ROLLOUT_PATTERN = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)")


def find_home(environ: Environ) -> Path:
    """Return the folder with its configuration and sessions."""
    return folder_from_variable(environ, "CODEX_HOME", ".codex")


def list_sessions(environ: Environ) -> Iterator[SessionFile]:
    """Yield `sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`, and those that were put aside."""
    folder = find_home(environ)
    return chain(
        find_session_files(NAME, folder / "archived_sessions", "rollout-*.jsonl", _parse_session_id),
        find_session_files(NAME, folder / "sessions", "*/*/*/rollout-*.jsonl", _parse_session_id),
    )


def _parse_session_id(path: Path) -> str | None:
    found = _ROLLOUT_PATTERN.fullmatch(path.stem)
    return found[1] if found else None


def build_config_entries(environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
    """Return hooks in `hooks.json` and the MCP server in `config.toml`."""
    folder = find_home(environ) if project is None else project / ".codex"
    return HooksEntry(folder / "hooks.json"), CodexServerEntry(folder / "config.toml")


def list_install_notes(project: Path | None) -> tuple[str, ...]:
    """Return what the user has to know after an install."""
    trusted = ("Codex reads .codex only in a project that it was told to trust.",)
    return (
        "Codex runs a hook only after you trusted it: start codex, type /hooks, and trust those of unabridged.",
        "Where nobody can be asked: codex exec --dangerously-bypass-hook-trust.",
        *(trusted if project is not None else ()),
        "Codex's summary stays its own: only a gateway between it and its provider could put ours in its place.",
    )


REMEDY = "start codex, type /hooks, and trust those of unabridged; an install that changed them needs that again"

CLIENT = CodingAgent(NAME, "Codex", find_home, list_sessions, build_config_entries, list_install_notes, REMEDY)
