"""One event loop for each process, kept for coroutines that are asked for from plain threads.

It survives whatever runs on it: a coroutine that raises `SystemExit`, one that stops the loop, a fork. One that was
closed all the same is replaced by the next call.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_homes: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of each process, by its id: a forked child starts its own, since no thread survives a fork."""


def at_home(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run the coroutine on the loop of this process; a future that any thread may wait for."""
    return asyncio.run_coroutine_threadsafe(coroutine, home())


def home() -> asyncio.AbstractEventLoop:
    """The loop of this process, running; started when first needed, and anew when it was closed."""
    with _lock:
        loop = _homes.get(os.getpid())
        if loop is None or loop.is_closed():
            loop = asyncio.new_event_loop()
            threading.Thread(target=_keep_running, args=(loop,), name="unabridged-home", daemon=True).start()
            _homes[os.getpid()] = loop
        return loop


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is closed, whatever stops it: a task that leaves the loop by force, or `loop.stop()`."""
    while not loop.is_closed():
        with suppress(BaseException):  # `SystemExit` in a task, say: the loop belongs to everybody
            loop.run_forever()


def _renew() -> None:
    """In a forked child: a lock that another thread held would never be released."""
    global _lock  # noqa: PLW0603 - the one place that replaces it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
