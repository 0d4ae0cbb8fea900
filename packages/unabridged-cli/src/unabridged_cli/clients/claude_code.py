"""Claude Code: `~/.claude`, or where `CLAUDE_CONFIG_DIR` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unabridged_cli.clients.client import CodingAgent, ConfigEntry, Environ, SessionFile, folder_from_variable
from unabridged_cli.clients.entries import HooksEntry, build_claude_code_server_entry


class ClaudeCode(CodingAgent):
    """Sessions are `projects/PROJECT/ID.jsonl`; the files of sub-agents are none."""

    name = "claude-code"
    title = "Claude Code"
    remedy = "end the session and start it again; if it stays so, see /hooks in claude"
    notes = (
        "A session that runs already takes the hooks up when it is started again.",
        "Claude Code's summary stays its own: only a gateway between it and its provider could put ours in its place.",
    )
    project_note = "Claude Code asks once whether the server in .mcp.json may be used; its path is this machine's."

    def home(self, environ: Environ) -> Path:
        """Return the folder with its settings and sessions."""
        return folder_from_variable(environ, "CLAUDE_CONFIG_DIR", ".claude")

    def sessions(self, environ: Environ) -> Iterator[SessionFile]:
        """Yield every session, in the order of their paths."""

        def id_of(path: Path) -> str | None:
            return None if path.stem.startswith("agent-") else path.stem

        return self.find_session_files(self.home(environ) / "projects", "*/*.jsonl", id_of)

    def entries(self, environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
        """Return hooks in its settings, and the MCP server where `claude mcp add` puts one.

        In a project: in the settings that are not committed, for the command is this machine's.
        """
        if project is not None:
            settings, servers = project / ".claude" / "settings.local.json", project / ".mcp.json"
        else:
            settings = self.home(environ) / "settings.json"
            servers = folder_from_variable(environ, "CLAUDE_CONFIG_DIR") / ".claude.json"
        return HooksEntry(settings), build_claude_code_server_entry(servers)
