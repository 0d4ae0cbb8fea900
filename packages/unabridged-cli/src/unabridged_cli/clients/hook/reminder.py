"""The text that the context gets after a client's compaction: what its summary may have lost, word for word.

It quotes people, names the files changed, and says how to read the rest: by rule, from the session itself, in the
conversation's language. The ledger goes on from the one of the last compaction, so that this, too, costs what is new.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from unabridged.archive.pins import list_pins
from unabridged.archive.protocol import Archive
from unabridged.errors import ArchiveError
from unabridged.languages import get_labels
from unabridged.summary.layout import MAX_NAMES_TOKENS, render_within_budget
from unabridged.summary.ledger import Ledger
from unabridged.summary.sections import Sections
from unabridged.summary.summary_body import render_pins
from unabridged_cli.clients.hook.ledgers import archive_ledger, read_ledger
from unabridged_cli.clients.hook.log import log
from unabridged_cli.clients.hook.session_copy import COPY_KIND, find_newest_position, session_scope
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


def build_reminder(
    archive: Archive, session: HookSession, reason: str, *, alone: bool = False, keep: bool = True
) -> tuple[str, bool]:
    """Build the text for the context after a compaction, archive its ledger, and return the text.

    Also return whether the whole session was read. The text is empty if there is nothing to say. `alone`: it
    replaces the client's summary, so it also says what was done. `keep`: whether the archive may be written to.
    """
    read = read_ledger(archive, session, time.monotonic() + _TIME_LIMIT_SECONDS)
    ledger, unread = read.ledger, read.unread
    if not ledger.people or (alone and unread):
        return "", not unread
    archived = find_newest_position(archive, session, COPY_KIND).turn
    pins = render_pins(list_pins(archive, session_scope(session)))
    text = write_summary_text(ledger, archived, pins) if alone else write_reminder_text(ledger, archived, pins)
    try:
        if keep:
            archive_ledger(archive, session, read, reason, made_of=text)
    except ArchiveError as error:  # the text is none the worse for it: the next one is made from the beginning
        log(f"{session.thread}: failed: what the context is told is not in the archive: {error}")
    return text, not unread


def write_summary_text(ledger: Ledger, archived: int, pins: str = "") -> str:
    """Return the ledger as the one summary of the conversation, within a larger budget."""
    head = _write_head(ledger, archived, pins, SUMMARY_TOKENS)
    room = SUMMARY_TOKENS - _estimate_tokens(head) - 2
    return f"{head}\n\n{render_within_budget(ledger, room, _estimate_tokens).text()}"


def write_reminder_text(ledger: Ledger, archived: int, pins: str = "") -> str:
    """Return the ledger as the context gets it beside the client's summary, within the budget."""
    head = _write_head(ledger, archived, pins, REMINDER_TOKENS)
    room = REMINDER_TOKENS - _estimate_tokens(head) - 4
    # Beside prose, which the client's own summary is: so only what people said and what changed.
    render = partial(render_within_budget, ledger, room, _estimate_tokens, prose=" ", without=_LEFT_OUT_SECTIONS)
    others = _estimate_tokens(render(people=0).text())
    people = max(int(room * _PEOPLE_SHARE), room - others - 4)
    body = render(people=people, total=room)
    text = f"{head}\n\n{body.text()}".strip()
    return text + _write_names(ledger, text)


def _write_head(ledger: Ledger, archived: int, pins: str, budget: int) -> str:
    """Return the opening line, how to read archived messages, and the pins, which may take half of the budget."""
    words, last = get_labels(ledger.language), max(ledger.end - 1, 0)
    readable = words["recall"] if archived > last else words["recall_part"].format(first=0, last=archived - 1)
    compacted = words["compacted"].format(first=0, last=last)
    opening = f"[unabridged] {compacted} {readable if archived else ''}".rstrip()
    if _estimate_tokens(pins) > budget // 2:
        pins = f"{pins[: 2 * budget].rpartition(chr(10))[0]}\n[\u2026]\n~~~"
    return f"{opening}\n\n{pins}".strip()


def _write_names(ledger: Ledger, text: str) -> str:
    """Return a section of identifiers that the text lacks, within the rest of the budget; empty without any."""
    heading = get_labels(ledger.language)["names"]
    sections = Sections(ledger, _estimate_tokens)
    sections.mark_as_shown(text)
    room = REMINDER_TOKENS - _estimate_tokens(text) - _estimate_tokens(heading) - 4
    names = sections.names(min(room, MAX_NAMES_TOKENS))
    return f"\n\n## {heading}\n{names}" if names else ""


def _estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text: one for four bytes."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4
