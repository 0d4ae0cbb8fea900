"""Claude Code: `~/.claude`, or where `CLAUDE_CONFIG_DIR` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unabridged_cli.clients.client import Client, Environ, Place, SessionFile, folder_from, session_files
from unabridged_cli.clients.entries import hooks, mcp_claude_code

NAME = "claude-code"


def home(environ: Environ) -> Path:
    """The folder with its settings and sessions."""
    return folder_from(environ, "CLAUDE_CONFIG_DIR", ".claude")


def sessions(environ: Environ) -> Iterator[SessionFile]:
    """`projects/PROJECT/ID.jsonl`; the files of sub-agents are not sessions."""
    return session_files(NAME, home(environ) / "projects", "*/*.jsonl", _id_of)


def _id_of(path: Path) -> str | None:
    return None if path.stem.startswith("agent-") else path.stem


def places(environ: Environ, project: Path | None) -> tuple[Place, ...]:
    """Hooks in its settings, the MCP server where `claude mcp add` puts one.

    In a project: in the settings that are not committed, for the command is this machine's.
    """
    if project is not None:
        return hooks(project / ".claude" / "settings.local.json"), mcp_claude_code(project / ".mcp.json")
    folder = folder_from(environ, "CLAUDE_CONFIG_DIR")
    return hooks(home(environ) / "settings.json"), mcp_claude_code(folder / ".claude.json")


def notes(project: Path | None) -> tuple[str, ...]:
    """What the user has to know after an install."""
    asked = ("Claude Code asks once whether the server in .mcp.json may be used; its path is this machine's.",)
    return (
        "A session that runs already takes the hooks up when it is started again.",
        *(asked if project is not None else ()),
        "Claude Code's summary stays its own: only a gateway between it and its provider could put ours in its place.",
    )


UNRUN = "end the session and start it again; if it stays so, see /hooks in claude"

CLIENT = Client(NAME, "Claude Code", home, sessions, places, notes, UNRUN)
