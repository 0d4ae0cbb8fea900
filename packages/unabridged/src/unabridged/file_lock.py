"""A lock on an open file, between processes, on every system. It imports next to nothing: the hooks wait for it."""

from __future__ import annotations

import sys


def lock_descriptor(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file and return whether that worked; with `wait`, once it is free. Closing the file unlocks it."""
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - there only

        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError:  # taken; with LK_LOCK, after ten seconds
                if not wait:
                    return False
            else:
                return True
    else:
        import fcntl  # noqa: PLC0415 - not on Windows

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
