"""Two ledgers as one: the older folded into the newer, by rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from unabridged.intent import Lead, join_requests, merge_rules
from unabridged.languages import detect
from unabridged.ledger.entries import Ledger, Name, Saying
from unabridged.ledger.files import unite_files
from unabridged.ledger.notes import drop_repeats
from unabridged.ledger.outcomes import find_unresolved
from unabridged.ledger.rank import fade, within_bounds


def merge(older: Ledger, newer: Ledger) -> Ledger:
    """What both hold, each thing once, within the bounds; what the newer one answers of the older is finished.

    A ledger that is already part of the older one changes nothing, so folding the same block twice is harmless.
    """
    if older == Ledger():
        return newer
    if newer.end <= older.end and newer.first >= older.first:
        return older
    requests = join_requests(older.requests, newer.lead, newer.requests, tools=bool(older.actions or newer.actions))
    rules, lifts = merge_rules((*older.rules, *newer.rules), (*older.lifts, *newer.lifts), requests)
    dropped = Counter(dict(older.dropped)) + Counter(dict(newer.dropped))
    return within_bounds(
        Ledger(
            first=min(older.first, newer.first),
            end=max(older.end, newer.end),
            language=_language(older, newer),
            lead=_lead(older, newer),
            requests=requests,
            rules=rules,
            lifts=lifts,
            actions=(*older.actions, *newer.actions),
            faults=find_unresolved(older.faults, [*newer.actions, *newer.faults]),
            notes=drop_repeats((*older.notes, *newer.notes)),
            sayings=_sayings(older, newer),
            files=unite_files((*older.files, *newer.files)),
            names=_names(older, newer),
            said=newer.said or older.said,
            said_turn=newer.said_turn if newer.said else older.said_turn,
            dropped=tuple(sorted(dropped.items())),
        )
    )


def _language(older: Ledger, newer: Ledger) -> str:
    """The one that most messages of people are in: it does not change with a few words in another."""
    said = detect(dict.fromkeys(request.text for request in (*older.requests, *newer.requests)))
    return said or older.language or newer.language


def _lead(older: Ledger, newer: Ledger) -> Lead:
    """What happened before the first person spoke: when none did in the older one, the newer one's comes after it."""
    if older.requests or not (newer.lead.worked or newer.lead.answer):
        return older.lead
    return replace(newer.lead, worked=max(older.lead.worked, newer.lead.worked))


def _sayings(older: Ledger, newer: Ledger) -> tuple[Saying, ...]:
    """Both, in order; of a message that is met again what the newer one made of it."""
    again = {saying.turn for saying in newer.sayings}
    return (*(saying for saying in older.sayings if saying.turn not in again), *newer.sayings)


def _names(older: Ledger, newer: Ledger) -> tuple[Name, ...]:
    found = {name.text: name for name in older.names}
    for name in newer.names:
        known = found.setdefault(name.text, name)
        if known is not name:
            weight, uses = name.weight + fade(known.weight, name.turn - known.turn), name.uses + known.uses
            home, asked, told = name.home or known.home, name.asked or known.asked, name.told or known.told
            found[name.text] = Name(name.text, max(name.turn, known.turn), weight, uses, home, asked, told)
    return tuple(sorted(found.values(), key=lambda name: (name.turn, name.text)))
