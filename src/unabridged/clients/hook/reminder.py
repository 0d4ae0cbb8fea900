"""What the context gets after a client's compaction: what its summary may have lost, word for word.

Standing rules, open and interrupted requests, what is finished, the files changed, and how to read the rest: by rule,
from the session itself, in the conversation's language. The ledger goes on from the one of the last compaction, so that
this, too, costs what is new.
"""

from __future__ import annotations

import time
from math import inf
from typing import Final, NamedTuple

from unabridged.archive.protocol import Archive
from unabridged.clients.hook.copying import COPY, newest_place
from unabridged.clients.hook.ledgers import keep_ledger, read_ledger
from unabridged.clients.hook.log import log
from unabridged.clients.hook.transcript import Source
from unabridged.errors import ArchiveError
from unabridged.languages import labels
from unabridged.ledger.entries import Ledger
from unabridged.ledger.sections import Sections
from unabridged.ledger.summary_turn import NAMES, render
from unabridged.text_tools import quote

BUDGET: Final = 2_300
"""Tokens of it, about four bytes each: Claude Code puts what has more than 10,000 characters into a file."""
ALONE: Final = 6_000
"""The same where no summary of the client's stands beside it."""
_LONGEST: Final = 15.0
"""Seconds after which only the newest of what is left is looked at."""
_FINISHED: Final = 12
"""Finished requests that are named, the newest."""
_WIDTH: Final = 160
"""Characters of a finished request."""
_WANTED: Final = ("open", "doubtful", "rules")
_UNWANTED: Final = ("names", "checks", "own_words")


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
    if (not ledger.requests and not ledger.rules) or (alone and unread):
        return Reminder("", not unread)
    archived = newest_place(archive, source, COPY).turn
    text = write_alone(ledger, archived) if alone else write(ledger, archived)
    try:
        if keep:
            keep_ledger(archive, source, ledger, place, reason=reason, of=text, unread=unread)
    except ArchiveError as error:  # the text is none the worse for it: the next one is made from the beginning
        log(f"{source.thread}: what the context is told is not in the archive: {error}")
    return Reminder(text, not unread)


def write_alone(ledger: Ledger, archived: int) -> str:
    """The ledger as the one summary of the conversation, within a larger budget."""
    told = _opening(ledger, archived)
    return f"{told}\n\n{render(ledger, ALONE - _tokens(told) - 2, _tokens).text()}"


def _opening(ledger: Ledger, archived: int) -> str:
    """What this is, and how to read the messages that the archive has: the first so many of the session."""
    words, last = labels(ledger.language), max(ledger.end - 1, 0)
    readable = words["recall"] if archived > last else words["recall_part"].format(first=0, last=archived - 1)
    return f"[unabridged] {words['compacted'].format(first=0, last=last)} {readable if archived else ''}".rstrip()


def write(ledger: Ledger, archived: int) -> str:
    """The ledger as the context gets it beside the client's summary, within the budget."""
    words, told = labels(ledger.language), _opening(ledger, archived)
    finished = _finished(ledger, words["finished"])
    room = BUDGET - _tokens(told) - _tokens(finished) - 4
    # Beside prose, which the client's own summary is: so only what people want and what changed.
    sections = dict(render(ledger, room, _tokens, prose=" ", without=_UNWANTED).sections)
    spare = room - sum(_tokens(text) + 2 for text in sections.values())
    if "rules" in sections:
        sections["rules"] = _more_rules(ledger, sections["rules"], spare)
    wanted = (sections.get(name, "") for name in _WANTED)
    rest = (text for name, text in sections.items() if name not in _WANTED)
    text = "\n\n".join(text.strip() for text in (told, *wanted, finished, *rest) if text.strip())
    return f"{text}{_names(ledger, text, words['names'])}"


def _more_rules(ledger: Ledger, told: str, spare: int) -> str:
    """The section of standing rules, with as many more of them as the room takes that the others left."""
    heading, _, rules = told.partition("\n")
    more = Sections(ledger, _tokens, (), inf, " ").rules(_tokens(rules) + max(spare, 0))
    return f"{heading}\n{more}"


def _names(ledger: Ledger, told: str, heading: str) -> str:
    """The names that the next steps may have to spell and that are not told yet, in what is left of the budget.

    They are what a summary loses most of.
    """
    sections = Sections(ledger, _tokens, (), inf, "")
    sections.know(told)
    room = BUDGET - _tokens(told) - _tokens(heading) - 4
    names = sections.names(min(room, NAMES))
    return f"\n\n## {heading}\n{names}" if names else ""


def _finished(ledger: Ledger, heading: str) -> str:
    sure = [request for request in ledger.finished if not request.doubtful]
    done = [request for request in sure if request.state == "finished" and request.kind == "new"]
    lines = [f"- [{request.turn}] {quote(request.text, _WIDTH)}" for request in done[-_FINISHED:]]
    return "\n".join([f"## {heading}", *lines]) if lines else ""


def _tokens(text: str) -> int:
    """About as many as any model counts: four bytes each, so that there are never more characters than four times."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4
