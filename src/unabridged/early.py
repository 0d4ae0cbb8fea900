"""Summaries made early, in the background: at most one for each thread at a time. What they make is only a record.

The swap is the ordinary look-up at the trigger: what arrived meanwhile simply follows the prefix, and a record whose
prefix was edited is never found.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from unabridged.archive.protocol import Scope

log = logging.getLogger("unabridged")


class Early:
    """The background work of one compactor."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._work: dict[Scope, threading.Thread] = {}

    def start(self, scope: Scope, work: Callable[[], object]) -> bool:
        """Do this work beside everything else, unless some is under way for the thread already."""
        with self._guard:
            self._work = {key: worker for key, worker in self._work.items() if worker.is_alive()}
            if scope in self._work:
                return False
            worker = threading.Thread(target=_quietly, args=(work,), name="unabridged-early", daemon=True)
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


def _quietly(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        log.exception("a summary in the background failed; nothing was changed")
