"""opencode: its configuration in `~/.config/opencode`, its data in `~/.local/share/opencode` (both as XDG says)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unabridged.clients.client import Client, Environ, SessionFile, folder_from, session_files

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


CLIENT = Client(NAME, "opencode", home, sessions)
