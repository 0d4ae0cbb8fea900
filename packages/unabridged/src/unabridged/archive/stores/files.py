"""Files that are there whole or not at all, for their owner alone; locks between processes, folders' names, forks."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from unabridged.errors import ArchiveError
from unabridged.file_lock import lock_descriptor

TEMPORARY_PREFIX: Final = ".writing-"
"""How the name of a file begins that is not whole yet; after a crash it means nothing."""

_MAX_FOLDER_NAME: Final = 100
_ESCAPED_BYTE_PATTERN: Final = re.compile(rb"[^a-z0-9-]")
# Devices of Windows, and options of a shell.
_RESERVED_NAME_PATTERN: Final = re.compile(rb"(con|prn|aux|nul|com[0-9]|lpt[0-9]|-.*)")


def to_folder_name(name: str) -> str:
    """Return a name as the name of a folder: readable where it can be, and never two names in one place.

    Lower-case ASCII letters, digits and `-` stand for themselves, every other byte of the UTF-8 form as `_` and two
    digits. So no name leaves its folder, none is special to a system, and neither case nor Unicode form can make two
    meet. A name that would be too long keeps its beginning, followed by `.` and its hash.
    """
    raw = name.encode("utf-8", "surrogatepass")
    if not raw:
        return "_"
    escaped = _ESCAPED_BYTE_PATTERN.sub(lambda match: b"_%02x" % match[0][0], raw)
    if _RESERVED_NAME_PATTERN.fullmatch(escaped):
        escaped = b"_%02x" % raw[0] + escaped[1:]
    if len(escaped) <= _MAX_FOLDER_NAME:
        return escaped.decode("ascii")
    return f"{escaped[:_MAX_FOLDER_NAME].decode('ascii')}.{hashlib.sha256(raw).hexdigest()[:40]}"


def make_folder(path: Path) -> None:
    """Make the folder and those above it that are missing, for their owner alone; each entry on the disk for good."""
    if not path.is_dir():
        if not path.parent.exists():
            make_folder(path.parent)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(path.parent)


def write_atomically(path: Path, data: bytes, step: Callable[[str], None] = lambda _: None) -> None:
    """Write the file completely and durably, or not at all; `step` is called with the name of each step."""
    temporary = path.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            step("written")
            os.fsync(file.fileno())
        step("synced")
        temporary.replace(path)
        step("renamed")
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable, where a system can."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def hold_file_lock(path: Path, wait: float, error: type[ArchiveError] = ArchiveError) -> Iterator[None]:
    """Hold the lock file, among threads and processes alike; it is free again when its holder dies.

    Raise this error where another writer has held it for `wait` seconds.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        deadline = time.monotonic() + wait
        pause = 0.0005
        while not lock_descriptor(descriptor):
            if time.monotonic() > deadline:
                raise error(f"{path}: another writer has held the lock for {wait:.0f} s. Try again.")
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        yield
    finally:
        os.close(descriptor)  # and with it goes the lock


# -- what a fork must not break: locks that another thread holds, connections that two processes would share -----------


class Forkable(ABC):
    """Something with a lock, and maybe connections, of its own."""

    lock: Any

    @abstractmethod
    def start_over(self) -> None:
        """Make a lock that nobody holds, no connections: at the beginning, and in a forked child."""

    def pause(self) -> None:
        """Take the lock: a fork is coming."""
        self.lock.acquire()

    def resume(self) -> None:
        """Release the lock in the parent, after a fork."""
        self.lock.release()


_forkable_objects: Final[weakref.WeakSet[Forkable]] = weakref.WeakSet()
_fork_lock: Final = threading.Lock()


def register_forkable(thing: Forkable) -> None:
    """Register an object to be paused around every fork of this process, as long as it lives."""
    thing.start_over()
    with _fork_lock:
        _forkable_objects.add(thing)


def _pause_before_fork() -> None:
    _fork_lock.acquire()
    for thing in _forkable_objects:
        thing.pause()


def _resume_in_parent() -> None:
    for thing in _forkable_objects:
        thing.resume()
    _fork_lock.release()


def _start_over_in_child() -> None:
    for thing in _forkable_objects:
        thing.start_over()
    _fork_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_pause_before_fork, after_in_parent=_resume_in_parent, after_in_child=_start_over_in_child
    )
