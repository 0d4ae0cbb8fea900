"""opencode: its configuration in `~/.config/opencode`, its data in `~/.local/share/opencode` (both as XDG says)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from unabridged.errors import SettingsError
from unabridged_cli.clients import jsonc
from unabridged_cli.clients.client import CodingAgent, ConfigEntry, Environ, SessionFile, folder_from_variable
from unabridged_cli.clients.entries import SERVER_NAME, build_opencode_server_entry
from unabridged_cli.clients.own_file import OwnFileEntry

_SESSIONS_QUERY = """
    select id, time_updated,
           (select coalesce(sum(length(data)), 0) from message where session_id = session.id)
           + (select coalesce(sum(length(data)), 0) from part where session_id = session.id)
    from session where parent_id is null order by id
"""
"""Their ids, milliseconds since 1970, and sizes; the sessions of sub-agents have a parent."""


class OpenCode(CodingAgent):
    """Sessions are in `opencode.db`; those of older versions in `storage/session/PROJECT/ID.json`."""

    name = "opencode"
    title = "opencode"
    remedy = "start opencode again"
    notes = (
        "A session that runs already takes the plugin up when opencode is started again.",
        "opencode's summary stays a model's: what it loses is added to it, word for word.",
    )

    def home(self, environ: Environ) -> Path:
        """Return the folder with its configuration and plugins."""
        if environ.get("OPENCODE_CONFIG_DIR"):
            return folder_from_variable(environ, "OPENCODE_CONFIG_DIR")
        return folder_from_variable(environ, "XDG_CONFIG_HOME", ".config") / "opencode"

    def sessions_folder(self, environ: Environ) -> Path:
        """Return the folder with its data."""
        return folder_from_variable(environ, "XDG_DATA_HOME", ".local", "share") / "opencode"

    def sessions(self, environ: Environ) -> Iterator[SessionFile]:
        """Yield every session: those of the database, then those of older versions."""
        folder = self.sessions_folder(environ)
        yield from self._read_session_database(folder / "opencode.db")
        yield from self.find_session_files(folder / "storage" / "session", "*/ses_*.json", lambda path: path.stem)

    def _read_session_database(self, path: Path) -> list[SessionFile]:
        """Return the sessions in a database, opened for reading only; in one that is laid out otherwise, none."""
        import sqlite3  # noqa: PLC0415 - only where there is one

        if not path.is_file():
            return []
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
                rows = database.execute(_SESSIONS_QUERY).fetchall()
        except sqlite3.Error:
            return []
        return [SessionFile(self.name, id_, path, size, updated / 1000) for id_, updated, size in rows]

    def entries(self, environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
        """Return a plugin and the MCP server: in the configuration that has it, else in the file with comments if any.

        opencode reads both files.
        """
        folder = self.home(environ) if project is None else project
        plain, commented = folder / "opencode.json", folder / "opencode.jsonc"
        having = [path for path in (plain, commented) if _has_server_entry(path)]
        plugins = (folder if project is None else project / ".opencode") / "plugins"
        template = files("unabridged_cli.clients").joinpath("opencode_plugin.ts").read_text(encoding="utf-8")
        return (
            OwnFileEntry(plugins / "unabridged.ts", "plugin", template, project),
            *map(build_opencode_server_entry, having or [commented if commented.exists() else plain]),
        )


def _has_server_entry(path: Path) -> bool:
    """Return whether a server of our name is in the file; in one that can't be read, whether the name is."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError:
        return False
    try:
        return jsonc.value_at(text, ("mcp", SERVER_NAME)) is not None
    except SettingsError:
        return f'"{SERVER_NAME}"' in text
