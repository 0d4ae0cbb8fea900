"""Search over all threads: one query tells which have something, then passage by passage, a moment at a time."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Final

from unabridged.archive.protocol import Archive, Scope
from unabridged.recall import lookup
from unabridged_cli.inspector import sessions
from unabridged_cli.inspector.listing import cut, thread_id

MOMENT: Final = 0.25
"""Seconds of one answer: what is found is shown while the rest is searched."""
PAGE: Final = 20
"""Threads that are searched at once."""
EACH: Final = 4
"""Results of one thread among those of all."""


def threads_with(archive: Archive, query: str) -> lookup.Across:
    """The threads of all namespaces that have something, each namespace's best one first."""
    return lookup.threads_with(archive, archive.namespaces(), query)


def search(archive: Archive, held: lookup.Across, first: int, limit: int = EACH) -> dict[str, Any]:
    """What the threads from `first` on have, and where to go on; `next` is None when all were searched."""
    until = time.monotonic() + MOMENT
    found: list[dict[str, Any]] = []
    at, matches, at_least = first, 0, False
    while at < len(held.scopes) and (at == first or time.monotonic() < until):
        scopes = held.scopes[at : at + PAGE]
        alone = len(held.scopes) == 1  # then more of its messages are looked at
        page = (
            {scopes[0]: lookup.search(archive, scopes[0], held.query, limit)}
            if alone
            else lookup.search_page(archive, scopes, held.query, limit)
        )
        at = min(at + PAGE, len(held.scopes))
        for scope, of_thread in page.items():
            named = sessions.describe_shortly(archive, scope) if of_thread.results else {}
            found += [{**_told(scope, result), **named} for result in of_thread.results]
            matches, at_least = matches + of_thread.matches, at_least or of_thread.at_least
    following = at if at < len(held.scopes) else None
    counts = {"matches": matches, "at_least": at_least, "total": len(held.scopes), "exact": held.exact}
    return {"found": found, "searched": at, **counts, "next": following}


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
