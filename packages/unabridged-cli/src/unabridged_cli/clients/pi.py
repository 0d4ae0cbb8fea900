"""pi: `~/.pi/agent`, or where `PI_CODING_AGENT_DIR` says."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from unabridged_cli.clients.client import CodingAgent, ConfigEntry, Environ, SessionFile, folder_from_variable
from unabridged_cli.clients.own_file import OwnFileEntry

_SESSIONS_VARIABLE = "PI_CODING_AGENT_SESSION_DIR"


class Pi(CodingAgent):
    """Sessions are `sessions/--PROJECT--/TIME_ID.jsonl`; in a folder that the user named, without the projects."""

    name = "pi"
    title = "pi"
    remedy = "start pi again, or type /reload; in a project, trust it first"
    notes = (
        "A session that runs already takes the extension up with /reload.",
        "pi speaks no MCP: the extension brings search_history and read_history itself.",
    )
    project_note = "pi loads extensions of a project only after you trusted it."

    def home(self, environ: Environ) -> Path:
        """Return the folder with its settings, extensions and sessions."""
        return folder_from_variable(environ, "PI_CODING_AGENT_DIR", ".pi", "agent")

    def sessions_folder(self, environ: Environ) -> Path:
        """Return the folder with its sessions: in its home, or where the user said."""
        is_named = environ.get(_SESSIONS_VARIABLE)
        return folder_from_variable(environ, _SESSIONS_VARIABLE) if is_named else self.home(environ) / "sessions"

    def sessions(self, environ: Environ) -> Iterator[SessionFile]:
        """Yield every session, in the order of their paths."""
        folder, pattern = self.sessions_folder(environ), "*.jsonl" if environ.get(_SESSIONS_VARIABLE) else "*/*.jsonl"
        return self.find_session_files(folder, pattern, lambda path: path.stem.partition("_")[2] or None)

    def entries(self, environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
        """Return an extension, in the folder in which pi looks for them."""
        folder = self.home(environ) if project is None else project / ".pi"
        template = files("unabridged_cli.clients").joinpath("pi_extension.ts").read_text(encoding="utf-8")
        return (OwnFileEntry(folder / "extensions" / "unabridged.ts", "extension", template, project),)
