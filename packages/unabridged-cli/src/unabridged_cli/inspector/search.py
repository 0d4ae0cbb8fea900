"""Search over all threads: one query finds which have something, then passages are read a moment at a time."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Final

from unabridged.archive.protocol import Archive, Scope
from unabridged.recall import Result, lookup
from unabridged_cli.inspector import sessions
from unabridged_cli.inspector.listing import name_thread

ANSWER_SECONDS: Final = 0.25
"""Time of one answer: what is found is shown while the rest is searched."""
THREADS_AT_ONCE: Final = 20
RESULTS_PER_THREAD: Final = 4


def search_threads(
    archive: Archive, threads: lookup.ThreadSearch, first: int, limit: int = RESULTS_PER_THREAD
) -> dict[str, Any]:
    """Return what the threads from `first` on have, and where to go on; `next` is None when all were searched."""
    until = time.monotonic() + ANSWER_SECONDS
    found: list[dict[str, Any]] = []
    at, matches, at_least = first, 0, False
    while at < len(threads.scopes) and (at == first or time.monotonic() < until):
        scopes = threads.scopes[at : at + THREADS_AT_ONCE]
        if len(threads.scopes) == 1:  # then more of its messages are looked at
            page = {scopes[0]: lookup.search(archive, scopes[0], threads.query, limit)}
        else:
            page = lookup.search_each_thread(archive, scopes, threads.query, limit)
        at = min(at + THREADS_AT_ONCE, len(threads.scopes))
        for scope, of_thread in page.items():
            names = sessions.describe_thread_briefly(archive, scope) if of_thread.results else {}
            found += [{**_build_result_row(scope, result), **names} for result in of_thread.results]
            matches, at_least = matches + of_thread.matches, at_least or of_thread.at_least
    following = at if at < len(threads.scopes) else None
    counts = {"matches": matches, "at_least": at_least, "total": len(threads.scopes), "exact": threads.exact}
    return {"found": found, "searched": at, **counts, "next": following}


def _build_result_row(scope: Scope, result: Result) -> dict[str, Any]:
    facts = asdict(result)
    shown = {name: facts[name] for name in ("turn", "ref", "whose", "origin", "excerpt", "offset", "length")}
    for side in ("before", "after"):
        shown[side] = facts[side] and {"turn": facts[side]["turn"], "text": facts[side]["text"]}
    names = name_thread(scope)
    return {"thread": names.pop("id"), **names, **shown}
