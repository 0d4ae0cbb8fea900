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
    """The results computed from each text. Of two generations, the older goes when the younger is full.

    Needs no lock: at worst two threads work the same out, or a generation goes early.
    """

    def __init__(self, most: int = MAX_CHARACTERS) -> None:
        self._half = most // 2
        self._young: dict[str, dict[object, Any]] = {}
        self._old: dict[str, dict[object, Any]] = {}
        self._size = 0

    def of(self, text: str) -> dict[object, Any]:
        """Return the results for this text so far, to be read and added to."""
        results = self._young.get(text)
        if results is not None:
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
        """Let go of everything."""
        self._young, self._old, self._size = {}, {}, 0


_cache = TextCache()
forget = _cache.clear


def remembered(work: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """Return the same function of a text (and of a few small values), worked out once while the text is remembered."""

    @wraps(work)
    def cached(text: str, /, *args: P.args, **options: P.kwargs) -> T:
        if len(text) > _MAX_TEXT_CHARACTERS:
            return work(text, *args, **options)
        results = _cache.of(text)
        key = (work, args, *options.values()) if args or options else work
        try:
            result: T = results[key]
        except KeyError:
            result = results[key] = work(text, *args, **options)
        return result

    return cached
