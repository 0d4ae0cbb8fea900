"""Keep a ledger within its bounds: when there is too much, what the next steps need least goes.

What was met lately is what they need, and it fades. What a person named, and ids that stood on their own, last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from unabridged.summary.ledger import Action, Deed, File, Ledger, Name, Remark, fade_weight
from unabridged.summary.story import rate_moment

T = TypeVar("T")

MAX_RULES, MAX_FILES, MAX_NAMES = 80, 160, 300
MAX_MOMENTS = 60_000
"""Characters of what was said and done; a summary turn holds some ten thousand."""

_DEED_RANK: dict[Deed, float] = {
    "create": 0.6, "change": 0.6, "mention": 0.6, "delete": 0.3, "move": 0.3, "attach": 0.3, "run": 0.2, "read": 0.1,
}  # fmt: skip


def rank_name(name: Name, end: int) -> float:
    """Return how likely the next steps need this name: lately used first; what a person named or used a lot lasts."""
    return fade_weight(name.weight, end - name.turn) + 0.02 * math.sqrt(name.uses) + 0.1 * (name.asked or name.told)


def rank_file(file: File, end: int) -> float:
    """Return how likely the next steps need this file: what was changed stays longer than what was only seen."""
    lasting = max((_DEED_RANK.get(deed, 0.0) for deed, _ in file.deeds), default=0.0)
    return fade_weight(file.weight, end - file.turn) + lasting


def limit_ledger(ledger: Ledger) -> Ledger:
    """Return the ledger with each list within its bound; what matters least goes first. People's words all stay."""
    moments = _limit_moments(ledger)
    return replace(
        ledger,
        rules=ledger.rules[-MAX_RULES:],
        actions=tuple(entry for entry in moments if isinstance(entry, Action)),
        remarks=tuple(entry for entry in moments if isinstance(entry, Remark)),
        files=_keep_best(ledger.files, MAX_FILES, lambda file: (rank_file(file, ledger.end), file.path)),
        names=_limit_names(ledger),
    )


def _keep_best(entries: tuple[T, ...], most: int, key: Callable[[T], Any]) -> tuple[T, ...]:
    """Return the highest ranked entries, in the order they stood."""
    if len(entries) <= most:
        return entries
    places = sorted(range(len(entries)), key=lambda i: key(entries[i]), reverse=True)[:most]
    return tuple(entries[i] for i in sorted(places))


def list_standalone_names(names: Iterable[Name]) -> list[Name]:
    """Return the ids that stood on their own, people's first, then the oldest."""
    return sorted((name for name in names if name.told), key=lambda name: (not name.asked, name.turn, name.text))


def _limit_names(ledger: Ledger) -> tuple[Name, ...]:
    """Return the names with a quarter of the places for ids on their own: a single large file could fill them all."""
    told = {name.text for name in list_standalone_names(ledger.names)[: MAX_NAMES // 4]}
    return _keep_best(ledger.names, MAX_NAMES, lambda name: (name.text in told, rank_name(name, ledger.end), name.text))


def _limit_moments(ledger: Ledger) -> Iterable[Remark | Action]:
    """Return what was said and done, without what says least for its size."""
    entries: list[Remark | Action] = [*ledger.remarks, *ledger.actions]
    sizes = [_count_entry_characters(entry) for entry in entries]
    if sum(sizes) <= MAX_MOMENTS:
        return entries
    room, kept = MAX_MOMENTS, set[int]()
    for i in sorted(range(len(entries)), key=lambda i: -rate_moment(entries[i], ledger, sizes[i])):
        if sizes[i] <= room:
            room -= sizes[i]
            kept.add(i)
    return [entry for i, entry in enumerate(entries) if i in kept]


def _count_entry_characters(entry: Remark | Action) -> int:
    texts = [entry.text] if isinstance(entry, Remark) else [entry.target, entry.outcome, entry.gist]
    return sum(map(len, texts)) + 20 * len(texts)
