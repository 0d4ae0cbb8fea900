"""What a fork must not break: locks that another thread holds, and connections that two processes would share."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any, Final


class Forkable(ABC):
    """Something with a lock, and maybe connections, of its own."""

    lock: Any

    @abstractmethod
    def start_over(self) -> None:
        """A lock that nobody holds, no connections: at the beginning, and in a forked child."""

    def pause(self) -> None:
        """Take the lock: a fork is coming."""
        self.lock.acquire()

    def resume(self) -> None:
        """Give the lock back: this is the parent, and the fork is over."""
        self.lock.release()


_watched: Final[weakref.WeakSet[Forkable]] = weakref.WeakSet()
_forking: Final = threading.Lock()


def watch(thing: Forkable) -> None:
    """Have it paused around every fork of this process, for as long as it lives."""
    thing.start_over()
    with _forking:
        _watched.add(thing)


def _before() -> None:
    _forking.acquire()
    for thing in _watched:
        thing.pause()


def _in_parent() -> None:
    for thing in _watched:
        thing.resume()
    _forking.release()


def _in_child() -> None:
    for thing in _watched:
        thing.start_over()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
