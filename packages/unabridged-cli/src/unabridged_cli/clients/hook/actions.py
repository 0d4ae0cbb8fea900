"""What the hook does with a session, on the given archive, the one that `UNABRIDGED_ARCHIVE` names, or the default."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from unabridged.archive.opening import open_archive
from unabridged.archive.protocol import Archive
from unabridged.errors import ArchiveError, UnabridgedError
from unabridged_cli.clients.hook.background import BACKGROUND_TIMEOUT_SECONDS, lock_session
from unabridged_cli.clients.hook.findings import take_certain
from unabridged_cli.clients.hook.log import log
from unabridged_cli.clients.hook.session_copy import copy_new
from unabridged_cli.clients.hook.transcript import HookSession

LOCK_SECONDS: Final = 5.0
"""Time to wait for another writer of the archive."""
START_LOCK_SECONDS: Final = 2.0
"""The same where a client starts."""
BEFORE_SECONDS: Final = 15.0
"""Time of archiving before a compaction; the rest is done by a process of its own while the client goes on."""
AFTER_SECONDS: Final = 2.0
"""The same after it."""


def archive_session(session: HookSession, reason: str, seconds: float, archive: Archive | None = None) -> bool:
    """Archive what is new in the session; return whether all of it is there now."""
    with open_or_use(archive) as store:
        return copy(store, session, reason, seconds)


def describe_for_context(
    session: HookSession, reason: str, archive: Archive | None = None, *, is_compacted: bool
) -> tuple[str, bool]:
    """Return a text for the context, and whether all of the session was looked at and is archived.

    After a compaction it says what a summary loses, and what was found about the last summary. An archive that can't be
    used takes nothing from that: the session file has it all.
    """
    try:
        with open_or_use(archive, LOCK_SECONDS if is_compacted else START_LOCK_SECONDS) as store:
            text, is_complete = _describe(store, session, reason, is_compacted=is_compacted)
    except UnabridgedError as error:
        log(f"{session.thread}: failed: described without the archive: {error}")
        text, is_complete = _remind(open_archive("memory:"), session, reason)[0] if is_compacted else "", True
    log(f"{session.thread}: {len(text):,} characters for the context")
    return text, is_complete


def _describe(archive: Archive, session: HookSession, reason: str, *, is_compacted: bool) -> tuple[str, bool]:
    certain = take_certain(archive, session)
    if not is_compacted:
        return certain, True
    is_complete = is_writable = True
    try:  # first: the text says what the archive has
        is_complete = copy(archive, session, reason, AFTER_SECONDS)
    except ArchiveError as error:  # another try would wait in vain: it is done again before the next compaction
        log(f"{session.thread}: failed: what is new is not in the archive: {error}")
        is_writable = False
    text, is_read = _remind(archive, session, reason, keep=is_writable)
    return "\n\n".join(filter(None, (text, certain))), is_complete and is_read


def _remind(
    archive: Archive, session: HookSession, reason: str, *, alone: bool = False, keep: bool = True
) -> tuple[str, bool]:
    from unabridged_cli.clients.hook.reminder import remind  # noqa: PLC0415 - only here, and it takes its time

    return remind(archive, session, reason, alone=alone, keep=keep)


def summarise(session: HookSession, reason: str) -> str:
    """Return our summary, for a client that takes one; nothing unless all of the session is archived."""
    with open_or_use() as archive:
        is_complete = copy(archive, session, reason, BEFORE_SECONDS)
        text = _remind(archive, session, reason, alone=True)[0] if is_complete else ""
    log(f"{session.thread}: {f'summed up in {len(text):,} characters' if text else 'left to its client to sum up'}")
    return text


def check_summary(session: HookSession, reason: str, summary: Any, archive: Archive | None = None) -> None:
    """Compare the client's summary with the record."""
    from unabridged_cli.clients.hook import summary_check  # noqa: PLC0415 - only here

    with open_or_use(archive) as store:
        copy(store, session, reason, AFTER_SECONDS)
        findings = summary_check.check(store, session, summary if isinstance(summary, str) else "")
    log(f"{session.thread}: {len(findings)} findings about the client's summary")


def complete_session(session: HookSession, reason: str, archive: Archive | None = None) -> None:
    """Archive what there was no time for while a client waited, then the ledger of the whole session.

    So the next event has only what is new to do. Nothing is done if another process is at it; if this one is ended, the
    next event or the next process goes on where it stopped.
    """
    from unabridged_cli.clients.hook.ledgers import carry_on  # noqa: PLC0415 - only here, and it takes its time

    deadline = time.monotonic() + BACKGROUND_TIMEOUT_SECONDS
    with lock_session(session.thread) as is_first, open_or_use(archive) as store:
        if not is_first:
            log(f"{session.thread}: another process is at the rest")
        elif copy(store, session, reason, BACKGROUND_TIMEOUT_SECONDS, is_waited_for=False):
            carry_on(store, session, reason, deadline)
            log(f"{session.thread}: all of it was looked at ({reason})")


def copy(archive: Archive, session: HookSession, reason: str, seconds: float, *, is_waited_for: bool = True) -> bool:
    """Archive what is new, and log it; return whether all of it is there now."""
    began = time.monotonic()
    has_later = is_waited_for and session.kind.is_lasting  # else nobody comes to it later
    copied = copy_new(archive, session, reason, began + seconds, is_waited_for=has_later)
    log(f"{session.thread}: {copied.messages:,} messages archived in {time.monotonic() - began:.2f} s ({reason})")
    return copied.is_complete


@contextmanager
def open_or_use(archive: Archive | None = None, seconds: float = LOCK_SECONDS) -> Iterator[Archive]:
    """Yield the archive, which stays open; without one that of the environment, which is closed in the end."""
    if archive is not None:
        yield archive
        return
    opened = open_archive(os.environ.get("UNABRIDGED_ARCHIVE") or None, probe=False, wait=seconds)
    try:
        yield opened
    finally:
        opened.close()
