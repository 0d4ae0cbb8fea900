"""Codex: `~/.codex`, or where `CODEX_HOME` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from unabridged_cli.clients.client import CodingAgent, ConfigEntry, Environ, SessionFile, folder_from_variable
from unabridged_cli.clients.entries import CodexServerEntry, HooksEntry

_ROLLOUT_PATTERN = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)")


class Codex(CodingAgent):
    """Sessions are `sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`, and those that were put aside."""

    name = "codex"
    title = "Codex"
    remedy = "start codex, type /hooks, and trust those of unabridged; an install that changed them needs that again"
    notes = (
        "Codex runs a hook only after you trusted it: start codex, type /hooks, and trust those of unabridged.",
        "Where nobody can be asked: codex exec --dangerously-bypass-hook-trust.",
        "Codex's summary stays its own: only a gateway between it and its provider could put ours in its place.",
    )
    project_note = "Codex reads .codex only in a project that it was told to trust."

    def home(self, environ: Environ) -> Path:
        """Return the folder with its configuration and sessions."""
        return folder_from_variable(environ, "CODEX_HOME", ".codex")

    def sessions(self, environ: Environ) -> Iterator[SessionFile]:
        """Yield every session, in the order of their paths."""
        folder = self.home(environ)
        yield from self.find_session_files(folder / "archived_sessions", "rollout-*.jsonl", _parse_session_id)
        yield from self.find_session_files(folder / "sessions", "*/*/*/rollout-*.jsonl", _parse_session_id)

    def entries(self, environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
        """Return hooks in `hooks.json` and the MCP server in `config.toml`."""
        folder = self.home(environ) if project is None else project / ".codex"
        return HooksEntry(folder / "hooks.json"), CodexServerEntry(folder / "config.toml")


def _parse_session_id(path: Path) -> str | None:
    found = _ROLLOUT_PATTERN.fullmatch(path.stem)
    return found[1] if found else None
