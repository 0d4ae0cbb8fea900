"""Which entries of a ledger come first, and which go when there are too many.

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

from unabridged.intent import Request
from unabridged.ledger.entries import HALF_LIFE, Action, Deed, File, Ledger, Name, Note

T = TypeVar("T")

MAX_REQUESTS, MAX_RULES, MAX_ACTIONS, MAX_FAULTS, MAX_NOTES, MAX_FILES, MAX_NAMES = 80, 80, 60, 8, 40, 160, 300
MAX_SAYINGS = 240
MAX_DECISIONS = 40
"""Notes that tell a decision; `MAX_NOTES` bounds the others."""

_LIKELY, _LIKELY_FILES = 80, 16
"""Names and files that the next steps need most, about what a thousand tokens hold: before those that merely last."""


def fade(weight: float, messages: int) -> float:
    """What a weight is worth after so many more messages."""
    return weight * math.pow(2.0, -max(messages, 0) / HALF_LIFE)


def within_bounds(ledger: Ledger) -> Ledger:
    """The ledger with each list within its bound; what matters least goes first, and is counted."""
    dropped = dict(ledger.dropped)
    kept = {
        "requests": _bounded_requests(ledger.requests),
        "rules": _best(ledger.rules, MAX_RULES, lambda rule: (rule.lifted < 0, rule.strength, rule.turn)),
        "lifts": ledger.lifts[-MAX_RULES:],
        "actions": _bounded_actions(ledger.actions),
        "faults": ledger.faults[-MAX_FAULTS:],
        "notes": _bounded_notes(ledger),
        "sayings": _best(ledger.sayings, MAX_SAYINGS, lambda saying: (saying.weight, saying.turn)),
        "files": _best(ledger.files, MAX_FILES, lambda file: (file_rank(file, ledger.end), file.path)),
        "names": _bounded_names(ledger),
    }
    for key, entries in kept.items():
        lost = len(getattr(ledger, key)) - len(entries)
        if lost and key not in {"lifts", "sayings"}:
            dropped[key] = dropped.get(key, 0) + lost
    changes: dict[str, Any] = {**kept, "dropped": tuple(sorted(dropped.items()))}
    return replace(ledger, **changes)


def name_rank(name: Name, end: int) -> float:
    """How likely the next steps need this name: lately used first; what a person named or was used a lot lasts."""
    return fade(name.weight, end - name.turn) + 0.02 * math.sqrt(name.uses) + 0.05 * max(2 * name.asked, name.told)


def names_by_rank(ledger: Ledger) -> list[Name]:
    """The names, those first that the next steps will need; then by turns those told on their own, however long ago.

    Code can be read again, but nobody can guess an id. Those of people come first, then the oldest: so none of them is
    lost from one round to the next while its share of the room holds them.
    """
    ranked = sorted(ledger.names, key=lambda name: (-name_rank(name, ledger.end), name.text))
    likely, rest = ranked[:_LIKELY], ranked[_LIKELY:]
    return likely + _in_turn([rest, _told(rest)], (1, 0, 1))


def _told(names: Sequence[Name]) -> list[Name]:
    """Those that were told on their own: people's before the others', ids before names, the oldest first."""
    told = (name for name in names if name.told)
    return sorted(told, key=lambda name: (not name.asked, -name.told, name.turn, name.text))


def notes_by_rank(ledger: Ledger) -> list[Note]:
    """The notes, what the next steps need most first: telling and new; but what was decided long ago still holds.

    So most places go to decisions, while there are any, and some to what else told most in each part of it.
    """
    fresh = sorted(ledger.notes, key=lambda note: (note.weight - (ledger.end - note.turn) / 100, note.turn))
    lasting = _in_turn(_quarters(ledger), (0, 1, 2, 3))
    return _in_turn([fresh[::-1], decisions(ledger), lasting], (0, 1, 1, 2, 1))


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


def _quarters(ledger: Ledger) -> list[list[Note]]:
    """The notes of each quarter of the conversation, the best first."""
    stretch = max(1, ledger.end - ledger.first)
    quarters: list[list[Note]] = [[], [], [], []]
    for note in sorted(ledger.notes, key=lambda note: (note.weight, -note.turn))[::-1]:
        quarters[min(3, max(0, note.turn - ledger.first) * 4 // stretch)].append(note)
    return quarters


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


_DEED_RANK = {
    "create": 0.6, "change": 0.6, "mention": 0.6, "delete": 0.3, "move": 0.3, "attach": 0.3, "run": 0.2, "read": 0.1,
}  # fmt: skip
_LASTING: frozenset[Deed] = frozenset({"mention", "create", "change", "delete", "move"})


def file_rank(file: File, end: int) -> float:
    """How likely the next steps need this file: what was changed stays longer than what was only seen."""
    lasting = max((_DEED_RANK.get(deed, 0.0) for deed, _ in file.deeds), default=0.0)
    return fade(file.weight, end - file.turn) + lasting


def files_by_rank(files: Sequence[File], end: int) -> list[File]:
    """The files, those first that the next steps will need; then by turns what people named and what was changed.

    Of those the oldest come first, for the same reason as with names.
    """
    ranked = sorted(files, key=lambda file: (-file_rank(file, end), file.path))
    likely, rest = ranked[:_LIKELY_FILES], ranked[_LIKELY_FILES:]
    lasting = [(file, deeds) for file in rest if (deeds := {deed for deed, _ in file.deeds} & _LASTING)]
    lasting.sort(key=lambda entry: ("mention" not in entry[1], entry[0].turn, entry[0].path))
    return likely + _in_turn([rest, [file for file, _ in lasting]], (0, 1))


def _best(entries: tuple[Any, ...], most: int, key: Any) -> tuple[Any, ...]:
    """The highest ranked entries, in the order they stood."""
    if len(entries) <= most:
        return entries
    places = sorted(range(len(entries)), key=lambda i: key(entries[i]), reverse=True)[:most]
    return tuple(entries[i] for i in sorted(places))


def _bounded_names(ledger: Ledger) -> tuple[Name, ...]:
    """A quarter of the places is for what was told on its own: a single large file has more names than there are."""
    lasting = {name.text for name in _told(ledger.names)[: MAX_NAMES // 4]} if len(ledger.names) > MAX_NAMES else set()
    return _best(ledger.names, MAX_NAMES, lambda name: (name.text in lasting, name_rank(name, ledger.end), name.text))


def _bounded_requests(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Open ones always stay; of the finished ones the first (it set the scene) and the newest."""
    over = len(requests) - MAX_REQUESTS
    if over <= 0:
        return requests
    finished = [i for i, request in enumerate(requests) if request.state in {"finished", "withdrawn"}]
    go = set(finished[1 : 1 + over])
    return tuple(request for i, request in enumerate(requests) if i not in go)


def _bounded_actions(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """The newest, and of the older ones rather those that changed something."""
    if len(actions) <= MAX_ACTIONS:
        return actions
    newest = actions[-MAX_ACTIONS * 2 // 3 :]
    older = actions[: -len(newest)]
    lasting = [action for action in older if action.deed in {"create", "change", "delete", "move"} or action.failed]
    return (*lasting[-(MAX_ACTIONS - len(newest)) :], *newest)
