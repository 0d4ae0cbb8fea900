"""Summaries made early, in the background: at most one for each thread at a time. What they make is only a record.

The swap is the ordinary look-up at the trigger: what arrived meanwhile simply follows the prefix, and a record whose
prefix was edited is never found. So one is enough until the list changes, and nothing before the swap should change it:
while one is there or under way, nothing is cleared because it pays.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context

from unabridged.archive.protocol import Scope
from unabridged.compaction.trigger import has_grown
from unabridged.runtime.threads import Thread

MADE = 1 << 62
"""As the size at which one was begun: it is there, and the list has not changed since."""

log = logging.getLogger("unabridged")


class Background:
    """The background work of one compactor."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._work: dict[Scope, threading.Thread] = {}

    def begin(self, scope: Scope, thread: Thread, estimate: int, work: Callable[[], str]) -> bool:
        """Have the summary made, unless it is there or tried too recently; whether it is there or under way.

        The work ends with an empty string when it made a record, else with why it did not.
        """
        if thread.early_at == MADE or self.running(scope):
            return True
        if not has_grown(estimate, thread.early_at):
            return False
        thread.early_at = estimate

        def noted() -> None:
            if not work() and thread.early_at == estimate:  # else the list was changed meanwhile
                thread.early_at = MADE

        return self.start(scope, noted)

    def start(self, scope: Scope, work: Callable[[], object]) -> bool:
        """Do this work beside everything else, unless some is under way for the thread already."""
        with self._guard:
            self._work = {key: worker for key, worker in self._work.items() if worker.is_alive()}
            if scope in self._work:
                return False
            context = copy_context()  # a host's state may be told by what the caller's context holds
            worker = threading.Thread(target=context.run, args=(_quietly, work), name="unabridged-early", daemon=True)
            self._work[scope] = worker
            worker.start()
            return True

    def running(self, scope: Scope) -> bool:
        """Whether work for the thread is under way."""
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


def _quietly(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        log.exception("a summary in the background failed; nothing was changed")
