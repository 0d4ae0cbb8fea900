"""The text that the context gets after a client's compaction: what its summary may have lost, word for word.

It quotes people, names the files changed, and says how to read the rest: by rule, from the session itself, in the
conversation's language. The ledger goes on from the one of the last compaction, so that this, too, costs what is new.
"""

from __future__ import annotations

import time
from typing import Final

from unabridged.archive.pins import pins_of
from unabridged.archive.protocol import Archive
from unabridged.errors import ArchiveError
from unabridged.languages import labels
from unabridged.summary.layout import MAX_NAMES_TOKENS, render
from unabridged.summary.ledger import Ledger
from unabridged.summary.sections import Sections
from unabridged.summary.summary_body import render_pins
from unabridged_cli.clients.hook.ledgers import keep_ledger, read_ledger
from unabridged_cli.clients.hook.log import log
from unabridged_cli.clients.hook.session_copy import COPY_KIND, newest_position, scope_of
from unabridged_cli.clients.hook.transcript import HookSession

REMINDER_TOKENS: Final = 2_300
"""Tokens of it, about four bytes each: Claude Code puts what has more than 10,000 characters into a file."""
SUMMARY_TOKENS: Final = 6_000
"""The same where no summary of the client's stands beside it."""
_TIME_LIMIT_SECONDS: Final = 15.0
"""Time after which only the newest of what is left is looked at."""
_PEOPLE_SHARE: Final = 0.75
"""The share of the budget for people's words."""
_LEFT_OUT_SECTIONS: Final = ("names", "checks")


def remind(
    archive: Archive, session: HookSession, reason: str, *, alone: bool = False, keep: bool = True
) -> tuple[str, bool]:
    """Return the text for the context, archived with what it was made from, and whether all of the session was read.

    The text is empty where there is nothing to say. `alone`: it stands in the place of the client's summary, so it says
    what was done as well, or nothing at all. `keep`: whether the archive is written to, which may wait in vain.
    """
    ledger, end, unread = read_ledger(archive, session, time.monotonic() + _TIME_LIMIT_SECONDS)
    if not ledger.people or (alone and unread):
        return "", not unread
    archived = newest_position(archive, session, COPY_KIND).turn
    pins = render_pins(pins_of(archive, scope_of(session)))
    text = write_alone(ledger, archived, pins) if alone else write(ledger, archived, pins)
    try:
        if keep:
            keep_ledger(archive, session, ledger, end, reason=reason, made_of=text, unread=unread)
    except ArchiveError as error:  # the text is none the worse for it: the next one is made from the beginning
        log(f"{session.thread}: failed: what the context is told is not in the archive: {error}")
    return text, not unread


def write_alone(ledger: Ledger, archived: int, pins: str = "") -> str:
    """Return the ledger as the one summary of the conversation, within a larger budget."""
    head = _write_head(ledger, archived, pins, SUMMARY_TOKENS)
    return f"{head}\n\n{render(ledger, SUMMARY_TOKENS - _tokens(head) - 2, _tokens).text()}"


def write(ledger: Ledger, archived: int, pins: str = "") -> str:
    """Return the ledger as the context gets it beside the client's summary, within the budget."""
    head = _write_head(ledger, archived, pins, REMINDER_TOKENS)
    room = REMINDER_TOKENS - _tokens(head) - 4
    # Beside prose, which the client's own summary is: so only what people said and what changed.
    others = _tokens(render(ledger, room, _tokens, people=0, prose=" ", without=_LEFT_OUT_SECTIONS).text())
    people = max(int(room * _PEOPLE_SHARE), room - others - 4)
    body = render(ledger, room, _tokens, people=people, total=room, prose=" ", without=_LEFT_OUT_SECTIONS)
    text = f"{head}\n\n{body.text()}".strip()
    return text + _write_names(ledger, text)


def _write_head(ledger: Ledger, archived: int, pins: str, budget: int) -> str:
    """Return what this is, how to read the messages that the archive has, and the pins in half of the budget."""
    words, last = labels(ledger.language), max(ledger.end - 1, 0)
    readable = words["recall"] if archived > last else words["recall_part"].format(first=0, last=archived - 1)
    compacted = words["compacted"].format(first=0, last=last)
    opening = f"[unabridged] {compacted} {readable if archived else ''}".rstrip()
    if _tokens(pins) > budget // 2:
        pins = f"{pins[: 2 * budget].rpartition(chr(10))[0]}\n[\u2026]\n~~~"
    return f"{opening}\n\n{pins}".strip()


def _write_names(ledger: Ledger, text: str) -> str:
    """Return the names that the next steps may have to spell and that the text has not, in what is left of the budget.

    They are what a summary loses most of.
    """
    heading = labels(ledger.language)["names"]
    sections = Sections(ledger, _tokens)
    sections.know(text)
    room = REMINDER_TOKENS - _tokens(text) - _tokens(heading) - 4
    names = sections.names(min(room, MAX_NAMES_TOKENS))
    return f"\n\n## {heading}\n{names}" if names else ""


def _tokens(text: str) -> int:
    """Return about as many as any model counts: four bytes each, so never more characters than four times."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4
