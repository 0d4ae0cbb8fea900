"""Run work in the background that makes summaries early: at most one for each thread at a time, only a record each.

The swap is the ordinary look-up at the trigger: what arrived meanwhile simply follows the prefix, and a record whose
prefix was edited is never found. So one is enough until the list changes, and nothing before the swap should change it:
while one is there or under way, nothing is cleared because it pays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextvars import copy_context
from threading import Lock, Thread

from unabridged.archive.protocol import Scope

log = logging.getLogger("unabridged")


class BackgroundWork:
    """The threads in which one compactor makes summaries early."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._work: dict[Scope, Thread] = {}

    def start(self, scope: Scope, work: Callable[[], object]) -> None:
        """Run this work in a thread of its own, unless some is under way for the conversation already."""
        with self._guard:
            self._work = {key: worker for key, worker in self._work.items() if worker.is_alive()}
            if scope in self._work:
                return
            context = copy_context()  # a host's state may depend on the caller's context holds
            worker = Thread(target=context.run, args=(_run_and_log_errors, work), name="unabridged-early", daemon=True)
            self._work[scope] = worker
            worker.start()

    def is_running(self, scope: Scope) -> bool:
        """Return whether work for the thread is under way."""
        worker = self._work.get(scope)
        return worker is not None and worker.is_alive()

    def wait(self, scope: Scope, seconds: float) -> None:
        """Wait for the work of this thread, at most so long."""
        worker = self._work.get(scope)
        if worker is not None:
            worker.join(seconds)

    def wait_for_all(self, seconds: float) -> None:
        """Wait for the work of every thread, at most so long altogether."""
        until = time.monotonic() + seconds
        for worker in list(self._work.values()):
            worker.join(max(0.0, until - time.monotonic()))


def _run_and_log_errors(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        log.exception("a summary in the background failed; nothing was changed")
