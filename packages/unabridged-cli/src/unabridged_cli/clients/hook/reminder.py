"""The text that the context gets after a client's compaction: what its summary may have lost, word for word.

It quotes people, names the files changed, and says how to read the rest: by rule, from the session itself, in the
conversation's language. The ledger goes on from the one of the last compaction, so that this, too, costs what is new.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from unabridged.archive.pins import pins_of
from unabridged.archive.protocol import Archive
from unabridged.errors import ArchiveError
from unabridged.languages import labels
from unabridged.ledger.entries import Ledger
from unabridged.ledger.sections import Sections
from unabridged.ledger.summary_turn import NAMES, render
from unabridged.summarise.summary_body import render_pins
from unabridged_cli.clients.hook.copying import COPY, newest_place, scope_of
from unabridged_cli.clients.hook.ledgers import keep_ledger, read_ledger
from unabridged_cli.clients.hook.log import log
from unabridged_cli.clients.hook.transcript import Source

BUDGET: Final = 2_300
"""Tokens of it, about four bytes each: Claude Code puts what has more than 10,000 characters into a file."""
ALONE: Final = 6_000
"""The same where no summary of the client's stands beside it."""
_LONGEST: Final = 15.0
"""Seconds after which only the newest of what is left is looked at."""
_PEOPLE: Final = 0.75
"""The share of the budget for people's words."""
_UNWANTED: Final = ("names", "checks")


class Reminder(NamedTuple):
    """A text for the context, empty where there is nothing to say."""

    text: str
    whole: bool
    """Whether all of the session was looked at."""


def remind(archive: Archive, source: Source, reason: str, *, alone: bool = False, keep: bool = True) -> Reminder:
    """The text for the context, archived with what it was made from.

    `alone`: it stands in the place of the client's summary, so it tells what was done as well, or is not given at all.
    `keep`: whether the archive is written to, which may be waited for in vain.
    """
    ledger, place, unread = read_ledger(archive, source, time.monotonic() + _LONGEST)
    if not ledger.people or (alone and unread):
        return Reminder("", not unread)
    archived = newest_place(archive, source, COPY).turn
    pins = render_pins(pins_of(archive, scope_of(source)))
    text = write_alone(ledger, archived, pins) if alone else write(ledger, archived, pins)
    try:
        if keep:
            keep_ledger(archive, source, ledger, place, reason=reason, of=text, unread=unread)
    except ArchiveError as error:  # the text is none the worse for it: the next one is made from the beginning
        log(f"{source.thread}: failed: what the context is told is not in the archive: {error}")
    return Reminder(text, not unread)


def write_alone(ledger: Ledger, archived: int, pins: str = "") -> str:
    """Return the ledger as the one summary of the conversation, within a larger budget."""
    told = _head(ledger, archived, pins, ALONE)
    return f"{told}\n\n{render(ledger, ALONE - _tokens(told) - 2, _tokens).text()}"


def _opening(ledger: Ledger, archived: int) -> str:
    """What this is, and how to read the messages that the archive has: the first so many of the session."""
    words, last = labels(ledger.language), max(ledger.end - 1, 0)
    readable = words["recall"] if archived > last else words["recall_part"].format(first=0, last=archived - 1)
    return f"[unabridged] {words['compacted'].format(first=0, last=last)} {readable if archived else ''}".rstrip()


def write(ledger: Ledger, archived: int, pins: str = "") -> str:
    """Return the ledger as the context gets it beside the client's summary, within the budget."""
    told = _head(ledger, archived, pins, BUDGET)
    room = BUDGET - _tokens(told) - 4
    # Beside prose, which the client's own summary is: so only what people said and what changed.
    beside = _tokens(render(ledger, room, _tokens, people=0, prose=" ", without=_UNWANTED).text())
    people = max(int(room * _PEOPLE), room - beside - 4)
    rendered = render(ledger, room, _tokens, people=people, total=room, prose=" ", without=_UNWANTED)
    text = f"{told}\n\n{rendered.text()}".strip()
    return f"{text}{_names(ledger, text, labels(ledger.language)['names'])}"


def _head(ledger: Ledger, archived: int, pins: str, budget: int) -> str:
    """Return what this is, and the pins in at most half of the budget."""
    opening = _opening(ledger, archived)
    if _tokens(pins) > budget // 2:
        pins = f"{pins[: 2 * budget].rpartition(chr(10))[0]}\n[\u2026]\n~~~"
    return f"{opening}\n\n{pins}".strip()


def _names(ledger: Ledger, told: str, heading: str) -> str:
    """The names that the next steps may have to spell and that are not told yet, in what is left of the budget.

    They are what a summary loses most of.
    """
    sections = Sections(ledger, _tokens)
    sections.know(told)
    room = BUDGET - _tokens(told) - _tokens(heading) - 4
    names = sections.names(min(room, NAMES))
    return f"\n\n## {heading}\n{names}" if names else ""


def _tokens(text: str) -> int:
    """About as many as any model counts: four bytes each, so that there are never more characters than four times."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4
