"""What changes the archive, or takes something out of it: told first, then done, with a word that holds for a while."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Part, Scope
from unabridged.archive.transcripts import forget_thread
from unabridged.errors import ArchiveError, SettingsError
from unabridged.events import COMPACTIONS

PATIENCE: Final = 300.0
"""Seconds within which the second yes must come."""
_MOST: Final = 100

Work = Callable[[], dict[str, Any]]


class Asked:
    """What was asked for once, each under a word of its own; the same word does it, once."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[float, Work]] = {}
        self._lock = threading.Lock()

    def ask(self, question: str, work: Work) -> dict[str, Any]:
        """The question for the person, and the word that answers it with yes."""
        word = secrets.token_urlsafe(16)
        with self._lock:
            now = time.monotonic()
            kept = {name: item for name, item in self._waiting.items() if item[0] > now}
            self._waiting = dict(list(kept.items())[-_MOST:])
            self._waiting[word] = (now + PATIENCE, work)
        return {"question": question, "word": word}

    def answer(self, word: str) -> dict[str, Any]:
        """Do what the word stands for."""
        with self._lock:
            until, work = self._waiting.pop(word, (0.0, None))
        if work is None or until < time.monotonic():
            raise SettingsError("that was not asked for, or too long ago: ask again")
        return work()


def undo(archive: Archive, scope: Scope) -> tuple[str, Work]:
    """Retire the thread's newest compaction, if it is still the newest then."""
    record = next((record for record in archive.newest(scope) if record.kind in COMPACTIONS), None)
    if record is None:
        raise ArchiveError("there is no compaction to undo in this thread")

    def work() -> dict[str, Any]:
        newest = next((one for one in archive.newest(scope) if one.kind in COMPACTIONS), None)
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


def forget(archive: Archive, scope: Scope) -> tuple[str, Work]:
    """Remove the thread for good."""
    held = next(iter(archive.holdings(scope.namespace, [scope.thread])), None)
    if held is None:
        raise ArchiveError("there is nothing of this thread in the archive")

    def work() -> dict[str, Any]:
        forget_thread(archive, scope)
        return {"forgotten": True}

    question = (
        f"Remove this thread from {archive.url} for good, with all of its {held.messages:,} messages? "
        "Lists that were compacted with it can't be replayed or undone afterwards."
    )
    return question, work


def export(archive: Archive, scope: Scope, layout: str) -> Iterator[str]:
    """What left the context: the messages, a line each; or, as `text`, for people."""
    for part in archive.parts(scope):
        if layout == "text":
            yield f"[{part.turn}] {part.origin} ({part.role})\n{part.text}\n\n"
        else:
            yield json.dumps(_decoded(part), ensure_ascii=False, default=_plain) + "\n"


def _decoded(part: Part) -> Any:
    try:
        return codec.decode(part.body)
    except ArchiveError:
        return {"role": part.role, "content": part.text}


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_unset=True)
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)
