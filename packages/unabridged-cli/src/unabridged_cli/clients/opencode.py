"""opencode: its configuration in `~/.config/opencode`, its data in `~/.local/share/opencode` (both as XDG says)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from unabridged.errors import SettingsError
from unabridged_cli.clients import jsonc
from unabridged_cli.clients.client import (
    CodingAgent,
    ConfigEntry,
    Environ,
    SessionFile,
    find_session_files,
    folder_from_variable,
)
from unabridged_cli.clients.entries import SERVER_NAME, build_opencode_server_entry
from unabridged_cli.clients.own_file import OwnFileEntry

NAME = "opencode"
_SESSIONS_QUERY = """
    select id, time_updated,
           (select coalesce(sum(length(data)), 0) from message where session_id = session.id)
           + (select coalesce(sum(length(data)), 0) from part where session_id = session.id)
    from session where parent_id is null order by id
"""
"""Their ids, milliseconds since 1970, and sizes; the sessions of sub-agents have a parent."""


def find_home(environ: Environ) -> Path:
    """Return the folder with its configuration and plugins."""
    if environ.get("OPENCODE_CONFIG_DIR"):
        return folder_from_variable(environ, "OPENCODE_CONFIG_DIR")
    return folder_from_variable(environ, "XDG_CONFIG_HOME", ".config") / "opencode"


def find_data_folder(environ: Environ) -> Path:
    """Return the folder with its sessions."""
    return folder_from_variable(environ, "XDG_DATA_HOME", ".local", "share") / "opencode"


def list_sessions(environ: Environ) -> Iterator[SessionFile]:
    """Yield the sessions in `opencode.db`, and those of older versions in `storage/session/PROJECT/ID.json`."""
    yield from _read_session_database(find_data_folder(environ) / "opencode.db")
    yield from find_session_files(
        NAME, find_data_folder(environ) / "storage" / "session", "*/ses_*.json", lambda path: path.stem
    )


def _read_session_database(path: Path) -> list[SessionFile]:
    """Return the sessions in a database, opened for reading only; in one that is laid out otherwise, none."""
    import sqlite3  # noqa: PLC0415 - only where there is one

    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
            rows = database.execute(_SESSIONS_QUERY).fetchall()
    except sqlite3.Error:
        return []
    return [SessionFile(NAME, id_, path, size, updated / 1000) for id_, updated, size in rows]


def build_config_entries(environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
    """Return a plugin and the MCP server: in the configuration that has it, else in the file with comments if any.

    opencode reads both files.
    """
    folder = find_home(environ) if project is None else project
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


def list_install_notes(_project: Path | None) -> tuple[str, ...]:
    """Return what the user has to know after an install."""
    return (
        "A session that runs already takes the plugin up when opencode is started again.",
        "opencode's summary stays a model's: what it loses is added to it, word for word.",
    )


REMEDY = "start opencode again"

CLIENT = CodingAgent(
    NAME, "opencode", find_home, list_sessions, build_config_entries, list_install_notes, REMEDY, find_data_folder
)
