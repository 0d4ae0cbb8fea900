"""Which entries of a ledger come first; when there are too many, the last of them go.

What was met lately is what the next steps need, and it fades. What holds until somebody says otherwise does not: what
was decided, what people named, ids that were told on their own. So each order has places for both; of what lasts the
oldest come first, so that a new round never takes the place of what an earlier one kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any, TypeVar

from unabridged.intent import Request, Rule
from unabridged.ledger.entries import CHANGES, Action, File, Ledger, Name, Note, Saying, fade

T = TypeVar("T")

MAX_REQUESTS, MAX_RULES, MAX_ACTIONS, MAX_FAULTS, MAX_NOTES, MAX_FILES, MAX_NAMES = 80, 80, 60, 8, 40, 160, 300
MAX_SAYINGS = 240
MAX_DECISIONS = 40
"""Notes that tell a decision; `MAX_NOTES` bounds the others."""

_LIKELY, _LIKELY_FILES = 80, 16
"""Names and files that the next steps need most, about what a thousand tokens hold: before those that merely last."""
_LASTING = 75
"""Of those that merely last, the most that come before all others."""


def within_bounds(ledger: Ledger) -> Ledger:
    """The ledger with each list within its bound; what matters least goes first, and is counted."""
    dropped = dict(ledger.dropped)
    kept: dict[str, tuple[Any, ...]] = {
        "requests": _bounded_requests(ledger.requests),
        "rules": _first(sorted(ledger.rules, key=_strength), MAX_RULES, ledger.rules),
        "lifts": ledger.lifts[-MAX_RULES:],
        "actions": _bounded_actions(ledger.actions),
        "faults": ledger.faults[-MAX_FAULTS:],
        "notes": _bounded_notes(ledger),
        "sayings": _first(sayings_by_rank(ledger), MAX_SAYINGS, ledger.sayings),
        "files": _first(files_by_rank(ledger), MAX_FILES, ledger.files),
        "names": _first(names_by_rank(ledger), MAX_NAMES, ledger.names),
    }
    for key, entries in kept.items():
        lost = len(getattr(ledger, key)) - len(entries)
        if lost and key not in {"lifts", "sayings"}:
            dropped[key] = dropped.get(key, 0) + lost
    return replace(ledger, **kept, dropped=tuple(sorted(dropped.items())))  # type: ignore[arg-type]


# -- names and files --------------------------------------------------------------------------------------------------


def name_rank(name: Name, end: int) -> float:
    """How likely the next steps need this name: lately used first; what was told on its own or used a lot lasts."""
    return fade(name.weight, end - name.turn) + 0.02 * math.sqrt(name.uses) + 0.1 * (name.asked or name.told)


def names_by_rank(ledger: Ledger) -> list[Name]:
    """The names, those first that the next steps will need; then those told on their own, however long ago.

    Code can be read again, but nobody can guess an id. People's come first.
    """
    ranked = sorted(ledger.names, key=lambda name: (-name_rank(name, ledger.end), name.text))
    told = (name for name in ranked[_LIKELY:] if name.told)
    return _likely_first(ranked, _LIKELY, sorted(told, key=lambda name: (not name.asked, name.turn, name.text)))


def file_rank(file: File, end: int) -> float:
    """How likely the next steps need this file: what was named or changed stays longer than what was only seen."""
    return fade(file.weight, end - file.turn) + 0.6 * (file.named or file.changed)


def files_by_rank(ledger: Ledger) -> list[File]:
    """The files, those first that the next steps will need; then what people named, and what was changed."""
    ranked = sorted(ledger.files, key=lambda file: (-file_rank(file, ledger.end), file.path))
    lasting = (file for file in ranked[_LIKELY_FILES:] if file.named or file.changed)
    in_order = sorted(lasting, key=lambda file: (not file.named, file.turn, file.path))
    return _likely_first(ranked, _LIKELY_FILES, in_order)


def _likely_first(ranked: Sequence[T], likely: int, lasting: Sequence[T]) -> list[T]:
    return list(dict.fromkeys([*ranked[:likely], *lasting[:_LASTING], *ranked]))


# -- what was said ----------------------------------------------------------------------------------------------------


def notes_by_rank(ledger: Ledger) -> list[Note]:
    """The notes, what the next steps need most first: by turns what is new, what was decided, and what told most."""
    fresh = sorted(ledger.notes, key=lambda note: (note.weight - (ledger.end - note.turn) / 100, note.turn))
    telling = sorted(ledger.notes, key=lambda note: (-note.weight, note.turn))
    return _in_turn([fresh[::-1], decisions(ledger), telling], (0, 1, 1, 2, 1))


def decisions(ledger: Ledger) -> list[Note]:
    """The notes that tell a decision, those first that should stay when there is no room for all.

    Half of them from the beginning on, which everything since rests on: as nothing is put before those later, none of
    them is lost from one round to the next. The others by turns the newest and the weightiest.
    """
    decided = sorted((note for note in ledger.notes if note.decided), key=lambda note: (note.turn, note.text))
    heaviest = sorted(decided, key=lambda note: (note.weight, -note.turn))
    return _in_turn([decided, decided[::-1], heaviest[::-1]], (0, 1, 0, 2))


def decisions_within(ledger: Ledger, room: int, cost: Callable[[Note], int]) -> list[Note]:
    """The decisions that this room has to hold, as `cost` counts them; one too long for it leaves it to the next."""
    chosen: list[Note] = []
    for note in decisions(ledger):
        size = cost(note)
        if size <= room:
            chosen.append(note)
            room -= size
    return chosen


def _bounded_notes(ledger: Ledger) -> tuple[Note, ...]:
    """Decisions have places of their own, so that findings can't crowd them out, however many there are."""
    kept = decisions(ledger)[:MAX_DECISIONS]
    kept += [note for note in notes_by_rank(ledger) if not note.decided][:MAX_NOTES]
    return tuple(sorted(kept, key=lambda note: (note.turn, note.text)))


def _in_turn(lists: Sequence[Sequence[T]], order: Sequence[int]) -> list[T]:
    """The next of each list, taken in this order over and over until all are empty; each entry once."""
    ranked: dict[T, None] = {}
    queues, places = [[*reversed(entries)] for entries in lists], cycle(order)
    while any(queues):
        queue = queues[next(places)]
        while queue:
            if (entry := queue.pop()) not in ranked:
                ranked[entry] = None
                break
    return list(ranked)


def sayings_by_rank(ledger: Ledger) -> list[Saying]:
    """What was said in mere talk, what tells most first, newer before older."""
    return sorted(ledger.sayings, key=lambda saying: (-saying.weight, -saying.turn))


# -- bounds -----------------------------------------------------------------------------------------------------------


def _first(ranked: Sequence[T], most: int, entries: tuple[T, ...]) -> tuple[T, ...]:
    """The first of the ranked entries, in the order they stood."""
    kept = frozenset(ranked[:most])
    return tuple(entry for entry in entries if entry in kept)


def _strength(rule: Rule) -> tuple[bool, int, int]:
    return rule.lifted >= 0, -rule.strength, -rule.turn


def _bounded_requests(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Open ones always stay; of the finished ones the first (it set the scene) and the newest."""
    finished = [i for i, request in enumerate(requests) if request.state in {"finished", "withdrawn"}]
    over = max(len(requests) - MAX_REQUESTS, 0)
    go = set(finished[1 : 1 + over])
    return tuple(request for i, request in enumerate(requests) if i not in go)


def _bounded_actions(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """The newest, and of the older ones rather those that changed something."""
    if len(actions) <= MAX_ACTIONS:
        return actions
    newest = actions[-MAX_ACTIONS * 2 // 3 :]
    older = actions[: -len(newest)]
    lasting = [action for action in older if action.deed in CHANGES or action.failed]
    return (*lasting[-(MAX_ACTIONS - len(newest)) :], *newest)
