"""What a client is: its folder on this machine, the sessions in it, and what its configuration can have of ours."""

from __future__ import annotations

import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

Environ = Mapping[str, str]
"""The environment that says where things are: `os.environ`, or a test's own."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """The file of a session, as described by its path and metadata: its content has not been read."""

    client: str
    id: str
    path: Path
    size: int
    """Bytes."""
    modified: float
    """Seconds since 1970."""

    @property
    def thread(self) -> str:
        """Return the session's thread in the archive, as the command line names the session: `claude-code:3f2a…`."""
        return f"{self.client}:{self.id}"

    @property
    def is_readable(self) -> bool:
        """Return whether it is a file of lines, which can be read and written; others can only be listed."""
        return self.path.suffix == ".jsonl"


class ConfigEntry(ABC):
    """An entry that `unabridged install` makes in one configuration file of a client.

    Methods get the file's text, which is empty for a missing file.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what  # `hooks`, `MCP server`, `extension`, `plugin`

    @abstractmethod
    def add(self, text: str, program: str) -> str:
        """Return the text with our entry, which starts this program; keep a foreign entry of the same name."""

    @abstractmethod
    def remove(self, text: str, before: str) -> str:
        """Return the text without our entry; `before` is the text before the install, empty if unknown."""

    @abstractmethod
    def program(self, text: str) -> str | None:
        """Return the program that our entry starts; None if the entry is missing or incomplete."""

    @abstractmethod
    def is_up_to_date(self, text: str, program: str) -> bool:
        """Return whether the entry is complete and starts this program, so that an install has nothing to do."""

    def find_ignore_reason(self, text: str) -> str | None:
        """Return why the client would not use what is in this text; None where it does."""
        del text
        return None

    def mask_foreign(self, text: str, other: str) -> str:
        """Return the text for a diff against `other`, line for line, with everything masked that is not our entry."""
        del other
        return text


class CodingAgent(ABC):
    """A coding agent: how it is named, where it keeps its configuration, and its sessions."""

    name: str
    """As on the command line: `claude-code`."""
    title: str
    """As its makers write it: `Claude Code`."""
    remedy: str
    """What to do where its hooks do not run."""
    notes: tuple[str, ...]
    """What the user has to know after an install: steps that are theirs, and at last what the client can't do."""
    project_note: str = ""
    """What to know besides after an install for a project."""

    @abstractmethod
    def home(self, environ: Environ) -> Path:
        """Return its own folder, which need not exist."""

    def sessions_folder(self, environ: Environ) -> Path:
        """Return the folder with its sessions, or one above it."""
        return self.home(environ)

    @abstractmethod
    def sessions(self, environ: Environ) -> Iterator[SessionFile]:
        """Yield every session on this machine, in the order of their paths. A folder that can't be read has none."""

    @abstractmethod
    def entries(self, environ: Environ, project: Path | None) -> tuple[ConfigEntry, ...]:
        """Return what of ours its configuration can have: for a project's folder, or without one for the user."""

    def list_install_notes(self, project: Path | None) -> tuple[str, ...]:
        """Return what the user has to know after an install for this project, or without one for the user."""
        if project is None or not self.project_note:
            return self.notes
        return (*self.notes[:-1], self.project_note, self.notes[-1])

    def find_session_files(
        self, folder: Path, pattern: str, id_of: Callable[[Path], str | None]
    ) -> Iterator[SessionFile]:
        """Yield the files of this pattern that `id_of` finds an id for; what is not a file, or is gone, is left out."""
        for path in sorted(folder.glob(pattern)):
            id_ = id_of(path)
            if id_ is None:
                continue
            try:
                info = path.stat()
            except OSError:  # removed meanwhile, or a link to nothing
                continue
            if stat.S_ISREG(info.st_mode):  # a pipe would be waited for
                yield SessionFile(self.name, id_, path, info.st_size, info.st_mtime)


def find_user_home(environ: Environ) -> Path:
    """Return the home folder that this environment names, else that of the user who runs this."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def folder_from_variable(environ: Environ, variable: str, *default: str) -> Path:
    """Return the folder that a variable names (`~` is the home folder), else one below the home folder."""
    named = environ.get(variable, "")
    if named == "~" or named.startswith("~/"):
        return find_user_home(environ) / named[2:]
    return Path(named) if named else find_user_home(environ).joinpath(*default)


def format_utc_minute(moment: float) -> str:
    """Return a Unix time as people read it, the same on every machine."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
