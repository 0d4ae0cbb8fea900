"""Remember for a while what was computed from a text: a compaction reads most texts of the last one again.

Nothing here is needed for correctness: what was let go is worked out anew. Results are shared by all who ask, so only
functions that always give the same, and give what nobody can change, are remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MAX_CHARACTERS = 2_000_000
"""Characters of text that are held on to at most, in the whole process."""
_MAX_TEXT_CHARACTERS = MAX_CHARACTERS // 16
"""A longer text is not remembered: it would push out too many others."""
_ENTRY_CHARACTERS = 200
"""What an entry counts beside its characters, so that many small texts are bounded too."""


class TextCache:
    """Cache the results computed from each text; when the younger of two generations is full, the older is dropped.

    Needs no lock: at worst two threads compute the same result, or a generation is dropped early.
    """

    def __init__(self, most: int = MAX_CHARACTERS) -> None:
        self._half = most // 2
        self._young: dict[str, dict[object, Any]] = {}
        self._old: dict[str, dict[object, Any]] = {}
        self._size = 0

    def results_for(self, text: str) -> dict[object, Any]:
        """Return the results for this text so far, to be read and added to."""
        if (results := self._young.get(text)) is not None:
            return results
        results = self._old.get(text, {})
        self._size += len(text) + _ENTRY_CHARACTERS
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, len(text) + _ENTRY_CHARACTERS
        self._young[text] = results
        return results

    @property
    def characters(self) -> int:
        """Return the characters of all texts that are held on to."""
        return sum(map(len, {**self._young, **self._old}))

    def clear(self) -> None:
        """Remove everything from the cache."""
        self._young, self._old, self._size = {}, {}, 0


_cache = TextCache()
clear_cache = _cache.clear


def cache_by_text(work: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """Decorate a function of a text so that its results are cached while the text is in the cache."""

    @wraps(work)
    def cached(text: str, /, *args: P.args, **options: P.kwargs) -> T:
        if len(text) > _MAX_TEXT_CHARACTERS:
            return work(text, *args, **options)
        results = _cache.results_for(text)
        key = (work, args, *options.values()) if args or options else work
        try:
            result: T = results[key]
        except KeyError:
            result = results[key] = work(text, *args, **options)
        return result

    return cached
