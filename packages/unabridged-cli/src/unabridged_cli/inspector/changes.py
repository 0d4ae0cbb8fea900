"""What changes the archive, or takes something out of it: asked first, then done for a word that holds for a while."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.archive.transcripts import forget_thread
from unabridged.errors import ArchiveError, SettingsError
from unabridged.events import COMPACTION_KINDS

CONFIRM_SECONDS: Final = 300.0
"""Time within which the second yes must come."""
_MAX_WAITING: Final = 100

ChangeFunction = Callable[[], dict[str, Any]]


class PendingChanges:
    """Changes that wait for a confirmation, each stored under a random token that works once."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[float, ChangeFunction]] = {}
        self._lock = threading.Lock()

    def add(self, question: str, work: ChangeFunction) -> dict[str, Any]:
        """Store a change; return the question for the person and the token that confirms it."""
        word = secrets.token_urlsafe(16)
        with self._lock:
            now = time.monotonic()
            kept = {name: item for name, item in self._waiting.items() if item[0] > now}
            self._waiting = dict(list(kept.items())[-_MAX_WAITING:])
            self._waiting[word] = (now + CONFIRM_SECONDS, work)
        return {"question": question, "word": word}

    def confirm(self, word: str) -> dict[str, Any]:
        """Carry out the change stored under this token, and return its result."""
        with self._lock:
            until, work = self._waiting.pop(word, (0.0, None))
        if work is None or until < time.monotonic():
            raise SettingsError("that was not asked for, or too long ago: ask again")
        return work()


def plan_undo(archive: Archive, scope: Scope) -> tuple[str, ChangeFunction]:
    """Return the question and the work that retires the thread's newest compaction, if it is still the newest then."""
    record = _find_newest_compaction(archive, scope)
    if record is None:
        raise ArchiveError("there is no compaction to undo in this thread")

    def work() -> dict[str, Any]:
        newest = _find_newest_compaction(archive, scope)
        if newest is None or newest.id != record.id:
            raise ArchiveError("the thread was compacted again meanwhile: look at it, and ask again")
        archive.retire(scope, record.id)
        return {"undone": record.id}

    question = (
        f"Undo compaction {record.id}, the newest of this thread? It is taken out of look-ups: a host that resends its "
        "whole history gets the messages themselves again. A host that keeps the shortened list keeps it, and can "
        "still replay it. Nothing is removed from the archive."
    )
    return question, work


def _find_newest_compaction(archive: Archive, scope: Scope) -> Record | None:
    return next((record for record in archive.newest(scope) if record.kind in COMPACTION_KINDS), None)


def plan_forget(archive: Archive, scope: Scope) -> tuple[str, ChangeFunction]:
    """Return the question and the work that removes the thread for good."""
    contents = next(iter(archive.holdings(scope.namespace, [scope.thread])), None)
    if contents is None:
        raise ArchiveError("there is nothing of this thread in the archive")

    def work() -> dict[str, Any]:
        forget_thread(archive, scope)
        return {"forgotten": True}

    question = (
        f"Remove this thread from {archive.url} for good, with all of its {contents.messages:,} messages? "
        "Lists that were compacted with it can't be replayed or undone afterwards."
    )
    return question, work
