"""The work around a compaction, on the archive that is given, that `UNABRIDGED_ARCHIVE` names, or the user's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unabridged.archive.opening import open_archive
from unabridged.archive.protocol import Archive
from unabridged.errors import ArchiveError, UnabridgedError
from unabridged_cli.clients.hook.copying import copy_new
from unabridged_cli.clients.hook.findings import take_certain
from unabridged_cli.clients.hook.log import log
from unabridged_cli.clients.hook.transcript import Source

if TYPE_CHECKING:
    from unabridged_cli.clients.hook.reminder import Reminder

WAIT: Final = 5.0
"""Seconds to wait for another writer of the archive."""
BRIEFLY: Final = 2.0
"""The same where a client starts."""
BEFORE: Final = 15.0
"""Seconds of archiving before a compaction; what is left is done by a process of its own while the client goes on."""
AFTER: Final = 2.0
"""The same after it."""


def archive_session(source: Source, reason: str, seconds: float, archive: Archive | None = None) -> bool:
    """Archive what is new in the session; whether all of it is there now."""
    with opened(archive) as store:
        return copy(store, source, reason, seconds)


class Told(NamedTuple):
    """A text for the context, and whether all of the session was looked at and is archived."""

    text: str
    whole: bool


def tell_context(source: Source, reason: str, archive: Archive | None = None, *, compacted: bool) -> Told:
    """What the context is told: after a compaction what a summary loses, and what was found about the last summary.

    An archive that can't be used takes nothing from that: the session file has it all.
    """
    try:
        with opened(archive, WAIT if compacted else BRIEFLY) as store:
            told = _told(store, source, reason, compacted=compacted)
    except UnabridgedError as error:
        log(f"{source.thread}: failed: told without the archive: {error}")
        told = Told(_remind(open_archive("memory:"), source, reason).text if compacted else "", whole=True)
    log(f"{source.thread}: {len(told.text):,} characters for the context")
    return told


def _told(archive: Archive, source: Source, reason: str, *, compacted: bool) -> Told:
    certain = take_certain(archive, source)
    if not compacted:
        return Told(certain, whole=True)
    whole = kept = True
    try:  # first: the text says what the archive has
        whole = copy(archive, source, reason, AFTER)
    except ArchiveError as error:  # another try is waited for in vain: it is done again before the next compaction
        log(f"{source.thread}: failed: what is new is not in the archive: {error}")
        kept = False
    reminder = _remind(archive, source, reason, keep=kept)
    return Told("\n\n".join(filter(None, (reminder.text, certain))), whole and reminder.whole)


def _remind(archive: Archive, source: Source, reason: str, *, alone: bool = False, keep: bool = True) -> Reminder:
    from unabridged_cli.clients.hook.reminder import remind  # noqa: PLC0415 - only here, and it takes its time

    return remind(archive, source, reason, alone=alone, keep=keep)


def summarise(source: Source, reason: str) -> str:
    """Our summary, for a client that takes one in the place of its own; none unless all of the session is archived."""
    with opened() as archive:
        whole = copy(archive, source, reason, BEFORE)
        text = _remind(archive, source, reason, alone=True).text if whole else ""
    log(f"{source.thread}: {f'summed up in {len(text):,} characters' if text else 'left to its client to sum up'}")
    return text


def check_summary(source: Source, reason: str, summary: Any, archive: Archive | None = None) -> None:
    """Hold the client's summary against the record."""
    from unabridged_cli.clients.hook import claims  # noqa: PLC0415 - only here

    with opened(archive) as store:
        copy(store, source, reason, AFTER)
        found = claims.check(store, source, summary if isinstance(summary, str) else "")
    log(f"{source.thread}: {len(found)} findings about the client's summary")


def copy(archive: Archive, source: Source, reason: str, seconds: float, *, waited_for: bool = True) -> bool:
    """Archive what is new, and say so in the log; whether all of it is there now."""
    began = time.monotonic()
    later = waited_for and source.kind.lasting  # else nobody comes to it later
    copied = copy_new(archive, source, reason, began + seconds, waited_for=later)
    log(f"{source.thread}: {copied.messages:,} messages archived in {time.monotonic() - began:.2f} s ({reason})")
    return copied.whole


@contextmanager
def opened(given: Archive | None = None, wait: float = WAIT) -> Iterator[Archive]:
    """The archive that was given, which stays open; else the one of the environment."""
    if given is not None:
        yield given
        return
    archive = open_archive(os.environ.get("UNABRIDGED_ARCHIVE") or None, probe=False, wait=wait)
    try:
        yield archive
    finally:
        archive.close()
