"""opencode: its configuration in `~/.config/opencode`, its data in `~/.local/share/opencode` (both as XDG says)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unabridged.clients.client import Client, Environ, Place, SessionFile, folder_from, session_files
from unabridged.clients.entries import mcp_opencode

NAME = "opencode"


def home(environ: Environ) -> Path:
    """The folder with its configuration and plugins."""
    if environ.get("OPENCODE_CONFIG_DIR"):
        return folder_from(environ, "OPENCODE_CONFIG_DIR")
    return folder_from(environ, "XDG_CONFIG_HOME", ".config") / "opencode"


def data(environ: Environ) -> Path:
    """The folder with its sessions."""
    return folder_from(environ, "XDG_DATA_HOME", ".local", "share") / "opencode"


def sessions(environ: Environ) -> Iterator[SessionFile]:
    """`storage/session/PROJECT/ID.json`."""
    return session_files(NAME, data(environ) / "storage" / "session", "*/ses_*.json", lambda path: path.stem)


def places(environ: Environ, project: Path | None) -> tuple[Place, ...]:
    """The MCP server in its configuration, the file with comments where there is one."""
    folder = home(environ) if project is None else project
    commented = folder / "opencode.jsonc"
    return (mcp_opencode(commented if commented.exists() else folder / "opencode.json"),)


def notes(_project: Path | None) -> tuple[str, ...]:
    """What the user has to know after an install."""
    return (
        "opencode calls no command around a compaction: its sessions are searched by MCP, and read where they are.",
    )


CLIENT = Client(NAME, "opencode", home, sessions, places, notes)
