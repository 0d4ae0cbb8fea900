"""pi: `~/.pi/agent`, or where `PI_CODING_AGENT_DIR` says."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from unabridged_cli.clients.client import (
    CodingAgent,
    ConfigEntry,
    Environ,
    SessionFile,
    find_session_files,
    folder_from_variable,
)
from unabridged_cli.clients.own_file import OwnFileEntry

NAME = "pi"


def find_home(environ: Environ) -> Path:
    """Return the folder with its settings, extensions and sessions."""
    return folder_from_variable(environ, "PI_CODING_AGENT_DIR", ".pi", "agent")


def list_sessions(environ: Environ) -> Iterator[SessionFile]:
    """Yield `sessions/--PROJECT--/TIME_ID.jsonl`; in a folder that the user named, without the projects."""
    named = bool(environ.get("PI_CODING_AGENT_SESSION_DIR"))
    pattern = "*.jsonl" if named else "*/*.jsonl"
    return find_session_files(
        NAME, find_sessions_folder(environ), pattern, lambda path: path.stem.partition("_")[2] or None
    )


def find_sessions_folder(environ: Environ) -> Path:
    """Return the folder with its sessions: in its home, or where the user said."""
    if environ.get("PI_CODING_AGENT_SESSION_DIR"):
        return folder_from_variable(environ, "PI_CODING_AGENT_SESSION_DIR")
    return find_home(environ) / "sessions"


def build_config_entries(environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
    """Return an extension, in the folder in which pi looks for them."""
    folder = find_home(environ) if project is None else project / ".pi"
    template = files("unabridged_cli.clients").joinpath("pi_extension.ts").read_text(encoding="utf-8")
    return (OwnFileEntry(folder / "extensions" / "unabridged.ts", "extension", template, project),)


def list_install_notes(project: Path | None) -> tuple[str, ...]:
    """Return what the user has to know after an install."""
    trusted = ("pi loads extensions of a project only after you trusted it.",)
    return (
        "A session that runs already takes the extension up with /reload.",
        *(trusted if project is not None else ()),
        "pi speaks no MCP: the extension brings search_history and read_history itself.",
    )


REMEDY = "start pi again, or type /reload; in a project, trust it first"

CLIENT = CodingAgent(
    NAME, "pi", find_home, list_sessions, build_config_entries, list_install_notes, REMEDY, find_sessions_folder
)
