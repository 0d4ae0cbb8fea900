"""Install, uninstall, status: a client's files read, changed as its entries say, and written whole or not at all.

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
from unabridged.sessions import write_file_atomically
from unabridged_cli.clients.client import CodingAgent, ConfigEntry, Environ, find_user_home
from unabridged_cli.clients.entries import replace_program

COPY_SUFFIX = ".before-unabridged"
_EMPTY_CONFIG_PATTERN = re.compile(r"(?:[\s\ufeff{}]|\[[\w.]*\])*")
"""Brackets with nothing in them, and headers of tables."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A planned change of a file: its text before and after, None for a missing file; `copy` is the backup."""

    entry: ConfigEntry
    before: str | None
    after: str | None
    copy: str | None

    @property
    def kind(self) -> str:
        """Return what happens to the file: removed, written or changed."""
        return "removed" if self.after is None else "written" if self.before is None else "changed"

    def diff(self) -> str:
        """Return the change line by line, without context; what is the user's own in a line of ours is masked."""
        path, show = str(self.entry.path), self.entry.mask_foreign
        before, after = self.before or "", self.after or ""
        old, new = ("/dev/null" if text is None else path for text in (self.before, self.after))
        old_lines, new_lines = show(before, after).splitlines(True), show(after, before).splitlines(True)
        lines = unified_diff(old_lines, new_lines, old, new, n=0)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True, slots=True)
class EntryStatus:
    """The state of one entry.

    `installed`, `partly`, `absent`, `other` (somebody's own under our name), or `unreadable`; `problem` says why it is
    unreadable, or what keeps the client from using it.
    """

    path: Path
    what: str
    state: str
    program: str | None = None
    problem: str | None = None

    @property
    def can_start_program(self) -> bool | None:
        """Return whether the program that is named there can be started; None where none is named."""
        return None if self.program is None else shutil.which(self.program) is not None


def find_program(environ: Environ) -> str:
    """Return the absolute path of the command `unabridged` that a client shall start; a link stays a link.

    It is the one that runs now. Raise `SettingsError` where there is none.
    """
    called = Path(sys.argv[0])
    named = [called] if called.stem == "unabridged" and called.parent != Path() else []
    for path in (*named, Path(sys.executable).with_name("unabridged")):
        if shutil.which(str(path)) is not None:  # on Windows a path is no name before Python 3.12
            return str(path.absolute())
    found = shutil.which("unabridged", path=environ.get("PATH"))
    if found is None:
        missing = "can't find the command `unabridged` for the client to start"
        raise SettingsError(f"{missing}: install it, and call it by name")
    return str(Path(found).absolute())


def plan_install(entries: Iterable[ConfigEntry], program: str) -> list[FileChange]:
    """Return the changes after which every file has its entry; no change for a file that has it already."""
    changes = []
    for entry in entries:
        now = read_text(entry.path)
        with _add_path_to_errors(entry):
            if now is not None and entry.is_up_to_date(now, program):
                continue
        before = _restore_original_text(entry, now)
        with _add_path_to_errors(entry):
            after = _change_entry_program(entry, now, program) or entry.add(before or "", program)
        if after not in {now, before}:
            changes.append(FileChange(entry, now, after, _choose_backup_text(entry, now)))
    return changes


def plan_uninstall(entries: Iterable[ConfigEntry]) -> list[FileChange]:
    """Return what has to be written so that no file has its entry."""
    texts = [(entry, read_text(entry.path)) for entry in entries]
    changes = [FileChange(entry, now, _restore_original_text(entry, now), None) for entry, now in texts]
    return [change for change in changes if change.before != change.after]


def find_stray_backups(entries: Iterable[ConfigEntry]) -> list[Path]:
    """Return backups beside files without our entry: left by a manual uninstall, or made by somebody else."""
    copies = [(entry, backup_path_of(entry.path)) for entry in entries]
    there = [(entry, copy) for entry, copy in copies if os.path.lexists(copy)]
    return [copy for entry, copy in there if not _has_own_entry(entry, read_text(entry.path))]


def apply_change(change: FileChange, root: Path) -> None:
    """Write one change, its backup first; remove folders below `root` that it leaves empty."""
    path, copy = change.entry.path, backup_path_of(change.entry.path)
    if read_text(path) != change.before:
        what = f"{path} was changed in this moment, perhaps by its client"
        raise SettingsError(f"{what}: nothing was written; run it again")
    if change.after is None:
        path.resolve().unlink()  # a link stays, as it does where it is written
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        if change.copy is not None and not copy.exists():
            write_file_atomically(copy, [change.copy.encode()])
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        write_file_atomically(path, [change.after.encode()], mode=mode)
    if change.copy is None:
        copy.unlink(missing_ok=True)
        _remove_empty_folders(path.parent, root)


def read_entry_status(entry: ConfigEntry) -> EntryStatus:
    """Return the state of an entry, read from its file."""
    try:
        text = read_text(entry.path) or ""
        with _add_path_to_errors(entry):
            program = entry.program(text)
            is_partly = entry.remove(text, "") != text
            is_taken = text != "" and entry.add(text, "/unabridged") == text
            ignored = entry.find_ignore_reason(text) if program is not None else None
            is_right = program is None or entry.is_up_to_date(text, program)
    except SettingsError as error:
        return EntryStatus(entry.path, entry.what, "unreadable", problem=str(error))
    state = "installed" if program is not None else "partly" if is_partly else "other" if is_taken else "absent"
    problem = f"{entry.path} is ignored by its client: {ignored}" if ignored else None
    if state == "partly" or not is_right:
        problem = problem or f"{entry.path} is not as this version installs it: install it again"
    return EntryStatus(entry.path, entry.what, state, program, problem)


def backup_path_of(path: Path) -> Path:
    """Return where the text from before the install is kept."""
    return path.with_name(path.name + COPY_SUFFIX)


def find_root_folder(client: CodingAgent, environ: Environ, project: Path | None) -> Path:
    """Return the folder above which no empty folder is removed."""
    home, top = client.home(environ), find_user_home(environ)
    return project if project is not None else top if home.is_relative_to(top) else home.parent


def read_text(path: Path) -> str | None:
    """Return the file's text, byte for byte; None where there is no file."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SettingsError(f"can't read {path}: {why}; nothing was changed") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"can't read {path}: byte {error.start:,} is no UTF-8; nothing was changed") from None


def _restore_original_text(entry: ConfigEntry, now: str | None) -> str | None:
    """Return the text without our entry: the backup if nothing else has changed, else with the entry removed."""
    if now is None or not _has_own_entry(entry, now):
        return now
    copy = read_text(backup_path_of(entry.path))
    with _add_path_to_errors(entry):
        program = entry.program(now)
        if program is not None and _reproduces_text(entry, copy, program, now):
            return copy
        without = entry.remove(now, copy if copy is not None and _is_parseable(entry, copy) else "")
    return None if copy is None and _EMPTY_CONFIG_PATTERN.fullmatch(without) else without


def _has_own_entry(entry: ConfigEntry, text: str | None) -> bool:
    with _add_path_to_errors(entry):
        return text is not None and entry.remove(text, "") != text


def _choose_backup_text(entry: ConfigEntry, now: str | None) -> str | None:
    """Return the text to keep as a backup: the existing backup if our entry is in the file, else the file's text."""
    copy = backup_path_of(entry.path)
    if _has_own_entry(entry, now):
        return read_text(copy)
    # A copy with the text of now is of an install that was stopped, or the file was put back by hand.
    is_copy = now is not None and not copy.is_symlink() and os.path.lexists(copy) and read_text(copy) == now
    if os.path.lexists(copy) and not is_copy:
        raise SettingsError(
            f"{copy} is there already, though {entry.path} has nothing of unabridged in it: it is somebody's own, or "
            "left from an install that was taken out by hand. Move it away, then run this again; nothing was changed"
        )
    return now


def _change_entry_program(entry: ConfigEntry, now: str | None, program: str) -> str | None:
    """Return the text with our entry starting another program; None if more than the program has to change."""
    old = entry.program(now) if now is not None else None
    if now is None or old is None:
        return None
    text = replace_program(now, old, program)
    return text if entry.is_up_to_date(text, program) and entry.remove(text, "") == entry.remove(now, "") else None


def _reproduces_text(entry: ConfigEntry, copy: str | None, program: str, now: str) -> bool:
    """Return whether adding our entry to the backup (or to an empty file) gives exactly the current text."""
    return _is_parseable(entry, copy or "") and entry.add(copy or "", program) == now


def _is_parseable(entry: ConfigEntry, text: str) -> bool:
    try:
        entry.program(text)
        entry.add(text, "/unabridged")
    except SettingsError:
        return False
    return True


@contextmanager
def _add_path_to_errors(entry: ConfigEntry) -> Iterator[None]:
    """Add the file's path to a `SettingsError` raised in this block."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"can't change {entry.path}: {error}. Mend it there; nothing was changed") from None


def _remove_empty_folders(folder: Path, root: Path) -> None:
    while folder != root and folder.is_relative_to(root):
        try:
            folder.rmdir()
        except OSError:  # something is in it
            return
        folder = folder.parent
