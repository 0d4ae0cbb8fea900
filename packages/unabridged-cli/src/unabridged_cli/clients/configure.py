"""Install, uninstall, status: a client's files read, changed as its `places` say, and written whole or not at all.

A change is planned for every file before one of them is written. The text as it was before us is kept beside each file,
so that an uninstall gives it back to the byte; where the file was changed meanwhile, only ours is taken out.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from unabridged.errors import SettingsError
from unabridged.sessions import write_whole
from unabridged_cli.clients.client import Client, Environ, Place, user_home
from unabridged_cli.clients.entries import repoint

COPY = ".before-unabridged"
"""What the name of the copy ends with."""
_NOTHING = re.compile(r"(?:[\s\ufeff{}]|\[[\w.]*\])*")
"""Brackets with nothing in them, and headers of tables."""


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after; None where there is none. `copy` is what is kept beside it from now on."""

    place: Place
    before: str | None
    after: str | None
    copy: str | None

    def diff(self) -> str:
        """The change line by line, without lines around it; what is the user's own in a line of ours is masked."""
        path, show = str(self.place.path), self.place.show
        before, after = self.before or "", self.after or ""
        old, new = ("/dev/null" if text is None else path for text in (self.before, self.after))
        was, is_now = (text.splitlines(keepends=True) for text in (show(before, after), show(after, before)))
        lines = unified_diff(was, is_now, old, new, n=0)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Standing:
    """How it stands with one place.

    `installed`, `partly`, `absent`, `other` (somebody's own under our name), or `unreadable`; `problem` says why it is
    unreadable, or what keeps the client from using it.
    """

    path: Path
    what: str
    state: str
    program: str | None = None
    problem: str | None = None

    @property
    def runs(self) -> bool:
        """Whether the program that is named there can be started."""
        return self.program is not None and shutil.which(self.program) is not None


def find_program(environ: Environ) -> str:
    """The absolute path of the command `unabridged` that a client shall start: the one that runs, a link as a link."""
    called = Path(sys.argv[0])
    beside = Path(sys.executable).with_name("unabridged")
    named = [called] if called.stem == "unabridged" and called.parent != Path() else []
    for path in (*named, beside):
        if shutil.which(path) is not None:
            return str(path.absolute())
    found = shutil.which("unabridged", path=environ.get("PATH"))
    if found is None:
        raise SettingsError(
            "can't find the command `unabridged` for the client to start: install it, and call it by name"
        )
    return str(Path(found).absolute())


def plan_install(places: Iterable[Place], program: str) -> list[Change]:
    """What has to be written so that every place has ours; nothing where it stands already."""
    changes = []
    for place in places:
        now = read_text(place.path)
        with _naming(place):
            if now is not None and place.right(now, program):
                continue
        before = _text_before(place, now)
        with _naming(place):
            after = _repointed(place, now, program) or place.add(before or "", program)
        if after not in {now, before}:
            changes.append(Change(place, now, after, _copy_to_keep(place, now)))
    return changes


def plan_uninstall(places: Iterable[Place]) -> list[Change]:
    """What has to be written so that no place has ours."""
    texts = [(place, read_text(place.path)) for place in places]
    changes = [Change(place, now, _text_before(place, now), None) for place, now in texts]
    return [change for change in changes if change.before != change.after]


def strange_copies(places: Iterable[Place]) -> list[Path]:
    """Copies beside files without ours: of an install that somebody took out by hand, or not of an install at all."""
    found = [(place, copy_of(place.path)) for place in places]
    return [copy for place, copy in found if os.path.lexists(copy) and not _has_ours(place, read_text(place.path))]


def apply(change: Change, root: Path) -> None:
    """Write one change, the copy first; folders that it leaves empty below `root` go too."""
    path, copy = change.place.path, copy_of(change.place.path)
    if read_text(path) != change.before:
        raise SettingsError(
            f"{path} was changed in this moment, perhaps by its client: nothing was written; run it again"
        )
    if change.after is None:
        path.resolve().unlink()  # a link stays, as it does where it is written
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        if change.copy is not None and not copy.exists():
            write_whole(copy, [change.copy.encode()])
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        write_whole(path, [change.after.encode()], mode=mode)
    if change.copy is None:
        copy.unlink(missing_ok=True)
        _remove_empty(path.parent, root)


def standing(place: Place) -> Standing:
    """How it stands with a place."""
    try:
        text = read_text(place.path) or ""
        with _naming(place):
            program = place.program(text)
            partly = place.remove(text, "") != text
            taken = text != "" and place.add(text, "/unabridged") == text
            ignored = place.ignored(text) if program is not None else None
            right = program is None or place.right(text, program)
    except SettingsError as error:
        return Standing(place.path, place.what, "unreadable", problem=str(error))
    state = "installed" if program is not None else "partly" if partly else "other" if taken else "absent"
    problem = f"{place.path} is ignored by its client: {ignored}" if ignored else None
    if state == "partly" or not right:
        problem = problem or f"{place.path} is not as this version installs it: install it again"
    return Standing(place.path, place.what, state, program, problem)


def copy_of(path: Path) -> Path:
    """Where the text from before the install is kept."""
    return path.with_name(path.name + COPY)


def root_of(client: Client, environ: Environ, project: Path | None) -> Path:
    """The folder that stays, whatever is removed below it."""
    home, top = client.home(environ), user_home(environ)
    return project if project is not None else top if home.is_relative_to(top) else home.parent


def read_text(path: Path) -> str | None:
    """The file's text, byte for byte; None where there is no file."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(
            f"can't read {path}: {(error.strerror or str(error)).lower()}; nothing was changed"
        ) from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"can't read {path}: byte {error.start:,} is no UTF-8; nothing was changed") from None


def _text_before(place: Place, now: str | None) -> str | None:
    """The text without ours: the copy to the byte if nothing else was changed since, else with only ours taken out."""
    if now is None or not _has_ours(place, now):
        return now
    copy = read_text(copy_of(place.path))
    with _naming(place):
        program = place.program(now)
        if program is not None and _adds_up(place, copy, program, now):
            return copy
        without = place.remove(now, copy if copy is not None and _readable(place, copy) else "")
    return None if copy is None and _NOTHING.fullmatch(without) else without


def _has_ours(place: Place, text: str | None) -> bool:
    with _naming(place):
        return text is not None and place.remove(text, "") != text


def _copy_to_keep(place: Place, now: str | None) -> str | None:
    """The text from before the first install: the copy that is there if ours is in the file, else the text of now."""
    copy = copy_of(place.path)
    if _has_ours(place, now):
        return read_text(copy)
    if os.path.lexists(copy) and not _is_copy(copy, now):
        raise SettingsError(
            f"{copy} is there already, though {place.path} has nothing of unabridged in it: it is somebody's own, or "
            "left from an install that was taken out by hand. Move it away, then run this again; nothing was changed"
        )
    return now


def _is_copy(copy: Path, now: str | None) -> bool:
    """Whether it has the very text of now: an install was stopped then, or the file was put back by hand."""
    return now is not None and not copy.is_symlink() and read_text(copy) == now


def _repointed(place: Place, now: str | None, program: str) -> str | None:
    """The text of now with ours in its place, starting this program; None where more than the program is to change."""
    old = place.program(now) if now is not None else None
    if now is None or old is None:
        return None
    text = repoint(now, old, program)
    return text if place.right(text, program) and place.remove(text, "") == place.remove(now, "") else None


def _adds_up(place: Place, copy: str | None, program: str, now: str) -> bool:
    """Whether the copy, or no file at all, with ours in it is the text of now."""
    return _readable(place, copy or "") and place.add(copy or "", program) == now


def _readable(place: Place, text: str) -> bool:
    try:
        place.program(text)
        place.add(text, "/unabridged")
    except SettingsError:
        return False
    return True


@contextmanager
def _naming(place: Place) -> Iterator[None]:
    """An error names the file."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"can't change {place.path}: {error}. Mend it there; nothing was changed") from None


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root and folder.is_relative_to(root):
        try:
            folder.rmdir()
        except OSError:  # something is in it
            return
        folder = folder.parent
