"""Files that are there whole or not at all, readable by their owner alone, and locks between processes."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from unabridged.errors import ArchiveError

TEMPORARY: Final = ".writing-"
"""How the name of a file begins that is not whole yet; after a crash it means nothing."""


def make_folder(path: Path, above: Path) -> None:
    """Make the folder, and those between it and `above`, for their owner alone; each entry on the disk for good."""
    for folder in [*reversed(path.relative_to(above).parents), path.relative_to(above)]:
        place = above / folder
        if not place.is_dir():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(place.parent)


def write_whole(path: Path, data: bytes, step: Callable[[str], None]) -> None:
    """Put the file there, all of it and on the disk for good, or nothing. `step` hears what was done."""
    temporary = path.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
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


def try_writing(folder: Path) -> None:
    """Make a file in the folder and take it away again; an OSError says why that can't be done."""
    temporary = folder / f"{TEMPORARY}{uuid.uuid4().hex}"
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    temporary.unlink()


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable, where a system can."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(path: Path, wait: float) -> Iterator[None]:
    """Hold the lock file, among threads and processes alike; it is free again when its holder dies."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        deadline = time.monotonic() + wait
        pause = 0.0005
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise ArchiveError(f"{path}: another writer has held the lock for {wait:.0f} s. Try again.")
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        yield
    finally:
        os.close(descriptor)  # and with it goes the lock


def _try_lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - there only

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl  # noqa: PLC0415 - not on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
