"""Locks on files: those of this system, and the way they are taken on Windows, with its module replaced."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from unabridged.file_lock import lock_descriptor

pytestmark = pytest.mark.posix


class Windows:
    """Windows' way to lock, on the locks of this system; waiting gives up `impatient` times first, as it does there."""

    def __init__(self, impatient: int = 0) -> None:
        self.impatient = impatient

    def locking(self, descriptor: int, mode: str, size: int) -> None:
        assert size == 1
        if mode == "wait" and self.impatient:
            self.impatient -= 1
            raise OSError
        fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if mode == "try" else 0))


@pytest.mark.parametrize("system", [sys.platform, "win32"])
def test_a_file_is_locked_once_and_free_when_it_is_closed(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = Windows(impatient=2)
    module = SimpleNamespace(LK_LOCK="wait", LK_NBLCK="try", locking=windows.locking)
    monkeypatch.setitem(sys.modules, "msvcrt", module)
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    monkeypatch.setattr(sys, "platform", system)
    assert lock_descriptor(first)
    assert not lock_descriptor(second)
    os.close(first)
    assert lock_descriptor(second, wait=True)
    assert windows.impatient == (0 if system == "win32" else 2)
    os.close(second)
