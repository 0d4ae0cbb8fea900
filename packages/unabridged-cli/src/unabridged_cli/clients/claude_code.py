"""Claude Code: `~/.claude`, or where `CLAUDE_CONFIG_DIR` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unabridged_cli.clients.client import CodingAgent, ConfigEntry, Environ, SessionFile, folder_from, session_files
from unabridged_cli.clients.entries import HooksEntry, claude_code_server

NAME = "claude-code"


def home(environ: Environ) -> Path:
    """Return the folder with its settings and sessions."""
    return folder_from(environ, "CLAUDE_CONFIG_DIR", ".claude")


def sessions(environ: Environ) -> Iterator[SessionFile]:
    """Yield `projects/PROJECT/ID.jsonl`; the files of sub-agents are not sessions."""

    def id_of(path: Path) -> str | None:
        return None if path.stem.startswith("agent-") else path.stem

    return session_files(NAME, home(environ) / "projects", "*/*.jsonl", id_of)


def entries(environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
    """Return hooks in its settings, and the MCP server where `claude mcp add` puts one.

    In a project: in the settings that are not committed, for the command is this machine's.
    """
    if project is not None:
        return HooksEntry(project / ".claude" / "settings.local.json"), claude_code_server(project / ".mcp.json")
    folder = folder_from(environ, "CLAUDE_CONFIG_DIR")
    return HooksEntry(home(environ) / "settings.json"), claude_code_server(folder / ".claude.json")


def notes(project: Path | None) -> tuple[str, ...]:
    """Return what the user has to know after an install."""
    asked = ("Claude Code asks once whether the server in .mcp.json may be used; its path is this machine's.",)
    return (
        "A session that runs already takes the hooks up when it is started again.",
        *(asked if project is not None else ()),
        "Claude Code's summary stays its own: only a gateway between it and its provider could put ours in its place.",
    )


REMEDY = "end the session and start it again; if it stays so, see /hooks in claude"

CLIENT = CodingAgent(NAME, "Claude Code", home, sessions, entries, notes, REMEDY)
