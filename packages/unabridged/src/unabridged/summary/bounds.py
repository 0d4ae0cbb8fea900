"""Keep a ledger within its bounds: when there is too much, what the next steps need least goes.

What was met lately is what they need, and it fades. What a person named, and ids that stood on their own, last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from unabridged.summary.ledger import Action, Deed, File, Ledger, Name, Remark, fade
from unabridged.summary.story import worth

T = TypeVar("T")

MAX_RULES, MAX_FILES, MAX_NAMES = 80, 160, 300
MAX_MOMENTS = 60_000
"""Characters of what was said and done; a summary turn holds some ten thousand."""

_DEED_RANK: dict[Deed, float] = {
    "create": 0.6, "change": 0.6, "mention": 0.6, "delete": 0.3, "move": 0.3, "attach": 0.3, "run": 0.2, "read": 0.1,
}  # fmt: skip


def name_rank(name: Name, end: int) -> float:
    """Return how likely the next steps need this name: lately used first; what a person named or used a lot lasts."""
    return fade(name.weight, end - name.turn) + 0.02 * math.sqrt(name.uses) + 0.1 * (name.asked or name.told)


def file_rank(file: File, end: int) -> float:
    """Return how likely the next steps need this file: what was changed stays longer than what was only seen."""
    lasting = max((_DEED_RANK.get(deed, 0.0) for deed, _ in file.deeds), default=0.0)
    return fade(file.weight, end - file.turn) + lasting


def within_bounds(ledger: Ledger) -> Ledger:
    """Return the ledger with each list within its bound; what matters least goes first. People's words all stay."""
    moments = _bounded_moments(ledger)
    kept: dict[str, Any] = {
        "rules": ledger.rules[-MAX_RULES:],
        "actions": tuple(entry for entry in moments if isinstance(entry, Action)),
        "remarks": tuple(entry for entry in moments if isinstance(entry, Remark)),
        "files": _best(ledger.files, MAX_FILES, lambda file: (file_rank(file, ledger.end), file.path)),
        "names": _bounded_names(ledger),
    }
    return replace(ledger, **kept)


def _best(entries: tuple[T, ...], most: int, key: Callable[[T], Any]) -> tuple[T, ...]:
    """Return the highest ranked entries, in the order they stood."""
    if len(entries) <= most:
        return entries
    places = sorted(range(len(entries)), key=lambda i: key(entries[i]), reverse=True)[:most]
    return tuple(entries[i] for i in sorted(places))


def names_told(names: Iterable[Name]) -> list[Name]:
    """Return ids that stood on their own, people's first, then the oldest: nobody can guess or read up an id."""
    return sorted((name for name in names if name.told), key=lambda name: (not name.asked, name.turn, name.text))


def _bounded_names(ledger: Ledger) -> tuple[Name, ...]:
    """Return the names with a quarter of the places for ids on their own: a single large file could fill them all."""
    told = {name.text for name in names_told(ledger.names)[: MAX_NAMES // 4]}
    return _best(ledger.names, MAX_NAMES, lambda name: (name.text in told, name_rank(name, ledger.end), name.text))


def _bounded_moments(ledger: Ledger) -> Iterable[Remark | Action]:
    """Return what was said and done, without what says least for its size."""
    entries: list[Remark | Action] = [*ledger.remarks, *ledger.actions]
    sizes = [_size(entry) for entry in entries]
    if sum(sizes) <= MAX_MOMENTS:
        return entries
    room, kept = MAX_MOMENTS, set[int]()
    for i in sorted(range(len(entries)), key=lambda i: -worth(entries[i], ledger, sizes[i])):
        if sizes[i] <= room:
            room -= sizes[i]
            kept.add(i)
    return [entry for i, entry in enumerate(entries) if i in kept]


def _size(entry: Remark | Action) -> int:
    texts = [entry.text] if isinstance(entry, Remark) else [entry.target, entry.outcome, entry.gist]
    return sum(map(len, texts)) + 20 * len(texts)
