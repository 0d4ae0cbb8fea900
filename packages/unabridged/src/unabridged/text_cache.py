"""What was worked out about a text is remembered for a while: every compaction reads most texts of the last one again.

Nothing here is needed for correctness: what was let go is worked out anew. Results are shared by all who ask, so only
functions that always give the same, and give what nobody can change, are remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST = 2_000_000
"""Characters of text that are held on to at most, in the whole process."""
_LONGEST = MOST // 16
"""A longer text is not remembered: it would push out too many others."""
_ENTRY = 200
"""What an entry counts beside its characters, so that many small texts are bounded too."""


class Memory:
    """What is known of each text. Two generations: what was not asked for while one filled up is gone with the next.

    Needs no lock: at worst two threads work the same out, or a generation goes early.
    """

    def __init__(self, most: int = MOST) -> None:
        self._half = most // 2
        self._young: dict[str, dict[object, Any]] = {}
        self._old: dict[str, dict[object, Any]] = {}
        self._held = 0

    def of(self, text: str) -> dict[object, Any]:
        """The results for this text so far, to be read and added to."""
        known = self._young.get(text)
        if known is not None:
            return known
        known = self._old.get(text)
        if known is None:
            known = {}
        self._held += len(text) + _ENTRY
        if self._held > self._half:
            self._old, self._young, self._held = self._young, {}, len(text) + _ENTRY
        self._young[text] = known
        return known

    @property
    def characters(self) -> int:
        """The characters of all texts that are held on to."""
        return sum(map(len, {**self._young, **self._old}))

    def clear(self) -> None:
        """Let go of everything."""
        self._young, self._old, self._held = {}, {}, 0


_memory = Memory()
forget = _memory.clear


def remembered(work: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """The same function of a text (and of a few small values), worked out once while the text is remembered."""

    @wraps(work)
    def known(text: str, /, *args: P.args, **options: P.kwargs) -> T:
        if len(text) > _LONGEST:
            return work(text, *args, **options)
        results = _memory.of(text)
        key = (work, args, *options.values()) if args or options else work
        try:
            found: T = results[key]
        except KeyError:
            found = results[key] = work(text, *args, **options)
        return found

    return known
