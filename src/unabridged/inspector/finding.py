"""Search over all threads: one query tells which have something, then passage by passage, a moment at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from unabridged.archive.protocol import Archive, Scope
from unabridged.inspector.listing import cut, thread_id
from unabridged.recall import lookup

MOMENT: Final = 0.25
"""Seconds of one answer: what is found is shown while the rest is searched."""
EACH: Final = 4
"""Results of one thread among those of all."""


def threads_with(archive: Archive, query: str) -> list[Scope]:
    """The threads of all namespaces that have something, each namespace's best one first."""
    return [scope for namespace in archive.namespaces() for scope in lookup.threads_with(archive, namespace, query)]


def search(archive: Archive, scopes: Sequence[Scope], query: str, first: int, limit: int = EACH) -> dict[str, Any]:
    """What the threads from `first` on have, and where to go on; `next` is None when all were searched."""
    until = time.monotonic() + MOMENT
    found: list[dict[str, Any]] = []
    at = first
    while at < len(scopes) and (at == first or time.monotonic() < until):
        scope = scopes[at]
        at += 1
        found += [_told(scope, result) for result in lookup.search(archive, scope, query, limit).results]
    return {"found": found, "searched": at, "total": len(scopes), "next": at if at < len(scopes) else None}


def _told(scope: Scope, result: lookup.Result) -> dict[str, Any]:
    said = asdict(result)
    neighbours = {
        side: said[side] and {"turn": said[side]["turn"], "text": said[side]["text"]} for side in ("before", "after")
    }
    return {
        "thread": thread_id(scope),
        "namespace": cut(scope.namespace),
        "name": cut(scope.thread),
        **{name: said[name] for name in ("turn", "ref", "whose", "origin", "excerpt", "offset", "length")},
        **neighbours,
    }
