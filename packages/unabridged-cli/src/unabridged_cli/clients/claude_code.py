"""Claude Code: `~/.claude`, or where `CLAUDE_CONFIG_DIR` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unabridged_cli.clients.client import (
    CodingAgent,
    ConfigEntry,
    Environ,
    SessionFile,
    find_session_files,
    folder_from_variable,
)
from unabridged_cli.clients.entries import HooksEntry, build_claude_code_server_entry

NAME = "claude-code"


def find_home(environ: Environ) -> Path:
    """Return the folder with its settings and sessions."""
    return folder_from_variable(environ, "CLAUDE_CONFIG_DIR", ".claude")


def list_sessions(environ: Environ) -> Iterator[SessionFile]:
    """Yield `projects/PROJECT/ID.jsonl`; the files of sub-agents are not sessions."""

    def id_of(path: Path) -> str | None:
        return None if path.stem.startswith("agent-") else path.stem

    return find_session_files(NAME, find_home(environ) / "projects", "*/*.jsonl", id_of)


def build_config_entries(environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
    """Return hooks in its settings, and the MCP server where `claude mcp add` puts one.

    In a project: in the settings that are not committed, for the command is this machine's.
    """
    if project is not None:
        return HooksEntry(project / ".claude" / "settings.local.json"), build_claude_code_server_entry(
            project / ".mcp.json"
        )
    folder = folder_from_variable(environ, "CLAUDE_CONFIG_DIR")
    return HooksEntry(find_home(environ) / "settings.json"), build_claude_code_server_entry(folder / ".claude.json")


def list_install_notes(project: Path | None) -> tuple[str, ...]:
    """Return what the user has to know after an install."""
    asked = ("Claude Code asks once whether the server in .mcp.json may be used; its path is this machine's.",)
    return (
        "A session that runs already takes the hooks up when it is started again.",
        *(asked if project is not None else ()),
        "Claude Code's summary stays its own: only a gateway between it and its provider could put ours in its place.",
    )


REMEDY = "end the session and start it again; if it stays so, see /hooks in claude"

CLIENT = CodingAgent(NAME, "Claude Code", find_home, list_sessions, build_config_entries, list_install_notes, REMEDY)
