"""What a coding agent is to us: its folder on this machine, and the sessions in it."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Environ = Mapping[str, str]
"""The environment that says where things are: `os.environ`, or a test's own."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A session on disk, as far as its place tells: nothing of it was read."""

    client: str
    id: str
    path: Path
    size: int
    """Bytes."""
    modified: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file of the client's in which something of ours can stand, and how it gets there.

    All are functions on the file's text; a file that is not there has an empty one.
    """

    path: Path
    what: str
    """What of ours: `hooks`, `MCP server`, `extension`."""
    add: Callable[[str, str], str]
    """From a text without ours and the program to start: the text with it. Somebody's own stays as it is."""
    remove: Callable[[str, str], str]
    """From a text, and the text before ours was in it (empty if nobody knows): the text without ours."""
    program: Callable[[str], str | None]
    """The program that ours starts; None where ours is not there, or not whole."""
    right: Callable[[str, str], bool]
    """Whether all of ours stands in this text, wherever, and starts this program: an install has nothing to do."""
    ignored: Callable[[str], str | None] = lambda _: None
    """Why the client would pay no attention to what stands in this text; None where it does."""
    show: Callable[[str, str], str] = lambda text, _other: text
    """The text as it may be shown beside another version of it, line for line: what is not ours is masked."""


@dataclass(frozen=True, slots=True)
class Client:
    """A coding agent: how it is named, where it keeps its configuration, and its sessions."""

    name: str
    """As on the command line: `claude-code`."""
    title: str
    """As its makers write it: `Claude Code`."""
    home: Callable[[Environ], Path]
    """The folder of its own; it need not exist."""
    sessions: Callable[[Environ], Iterator[SessionFile]]
    """Every session on this machine, in the order of their paths. A folder that can't be read has none."""
    places: Callable[[Environ, Path | None], tuple[Place, ...]]
    """Where something of ours can stand: for a project's folder, or without one for the user."""
    notes: Callable[[Path | None], tuple[str, ...]]
    """What the user has to know after an install: steps that are theirs, and what the client can't do."""
    unrun: str
    """What to do where its hooks do not run."""
    sessions_folder: Callable[[Environ], Path] | None = None
    """The folder with its sessions, where that may be elsewhere than in its home."""


def user_home(environ: Environ) -> Path:
    """The home folder that this environment names, else the one of the user who runs this."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def folder_from(environ: Environ, variable: str, *default: str) -> Path:
    """The folder that a variable names (`~` is the home folder), else one below the home folder."""
    named = environ.get(variable, "")
    if named == "~" or named.startswith("~/"):
        return user_home(environ) / named[2:]
    return Path(named) if named else user_home(environ).joinpath(*default)


def session_files(
    client: str, folder: Path, pattern: str, id_of: Callable[[Path], str | None]
) -> Iterator[SessionFile]:
    """The files of this pattern that `id_of` finds an id for; what is no file, or is gone, is left out."""
    for path in sorted(folder.glob(pattern)):
        id_ = id_of(path)
        if id_ is None:
            continue
        try:
            found = path.stat()
        except OSError:  # removed meanwhile, or a link to nothing
            continue
        if stat.S_ISREG(found.st_mode):  # a pipe would be waited for
            yield SessionFile(client, id_, path, found.st_size, found.st_mtime)
