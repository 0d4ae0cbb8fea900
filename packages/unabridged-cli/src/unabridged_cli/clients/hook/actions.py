"""What the hook does with a session, on the given archive, the one that `UNABRIDGED_ARCHIVE` names, or the default."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from unabridged.archive.opening import open_archive
from unabridged.archive.protocol import Archive
from unabridged.errors import ArchiveError, UnabridgedError
from unabridged_cli.clients.hook.background import BACKGROUND_TIMEOUT_SECONDS, lock_session
from unabridged_cli.clients.hook.findings import report_certain_findings
from unabridged_cli.clients.hook.log import log
from unabridged_cli.clients.hook.session_copy import copy_new_messages
from unabridged_cli.clients.hook.transcript import HookSession

LOCK_SECONDS: Final = 5.0
"""Time to wait for another writer of the archive."""
START_LOCK_SECONDS: Final = 2.0
"""The same where a client starts."""
BEFORE_COMPACTION_SECONDS: Final = 15.0
"""Time of archiving before a compaction; the rest is done by a process of its own while the client goes on."""
AFTER_COMPACTION_SECONDS: Final = 2.0
"""The same after it."""


def answer_session_event(
    session: HookSession, reason: str, event: Mapping[str, Any], archive: Archive | None = None
) -> tuple[dict[str, Any], bool]:
    """Handle an event around a compaction; return the answer, and whether all of the session is archived."""
    if event["hook_event_name"] == "PreCompact":
        return {}, archive_session(session, reason, BEFORE_COMPACTION_SECONDS, archive)
    if event["hook_event_name"] == "PostCompact":
        check_summary(session, reason, event.get("compact_summary"), archive)
    if event["hook_event_name"] != "SessionStart":
        return {}, True
    is_compacted = event.get("source") == "compact"
    text, is_complete = build_context_text(session, reason, archive, is_compacted=is_compacted)
    output = {"hookEventName": "SessionStart", "additionalContext": text}
    return {"hookSpecificOutput": output} if text else {}, is_complete


def archive_session(session: HookSession, reason: str, seconds: float, archive: Archive | None = None) -> bool:
    """Archive what is new in the session; return whether all of it is there now."""
    with use_or_open_archive(archive) as store:
        return archive_new_messages(store, session, reason, seconds)


def build_context_text(
    session: HookSession, reason: str, archive: Archive | None = None, *, is_compacted: bool
) -> tuple[str, bool]:
    """Return the text to add to the client's context, and whether the whole session was read and archived.

    After a compaction the text has what the summary lost and the problems found in it. If the archive can't be used,
    the text is made from the session file alone.
    """
    try:
        with use_or_open_archive(archive, LOCK_SECONDS if is_compacted else START_LOCK_SECONDS) as store:
            text, is_complete = _build_context_text_from(store, session, reason, is_compacted=is_compacted)
    except UnabridgedError as error:
        log(f"{session.thread}: failed: described without the archive: {error}")
        text, is_complete = _build_reminder(open_archive("memory:"), session, reason)[0] if is_compacted else "", True
    log(f"{session.thread}: {len(text):,} characters for the context")
    return text, is_complete


def _build_context_text_from(
    archive: Archive, session: HookSession, reason: str, *, is_compacted: bool
) -> tuple[str, bool]:
    certain = report_certain_findings(archive, session)
    if not is_compacted:
        return certain, True
    is_complete = is_writable = True
    try:  # first: the text says what the archive has
        is_complete = archive_new_messages(archive, session, reason, AFTER_COMPACTION_SECONDS)
    except ArchiveError as error:  # another try would wait in vain: it is done again before the next compaction
        log(f"{session.thread}: failed: what is new is not in the archive: {error}")
        is_writable = False
    text, is_read = _build_reminder(archive, session, reason, keep=is_writable)
    return "\n\n".join(filter(None, (text, certain))), is_complete and is_read


def _build_reminder(
    archive: Archive, session: HookSession, reason: str, *, alone: bool = False, keep: bool = True
) -> tuple[str, bool]:
    from unabridged_cli.clients.hook.reminder import build_reminder  # noqa: PLC0415 - only here, and it takes its time

    return build_reminder(archive, session, reason, alone=alone, keep=keep)


def summarise(session: HookSession, reason: str) -> str:
    """Return our summary, for a client that takes one; nothing unless all of the session is archived."""
    with use_or_open_archive() as archive:
        is_complete = archive_new_messages(archive, session, reason, BEFORE_COMPACTION_SECONDS)
        text = _build_reminder(archive, session, reason, alone=True)[0] if is_complete else ""
    log(f"{session.thread}: {f'summed up in {len(text):,} characters' if text else 'left to its client to sum up'}")
    return text


def check_summary(session: HookSession, reason: str, summary: Any, archive: Archive | None = None) -> None:
    """Compare the client's summary with the record."""
    from unabridged_cli.clients.hook import summary_check  # noqa: PLC0415 - only here

    with use_or_open_archive(archive) as store:
        archive_new_messages(store, session, reason, AFTER_COMPACTION_SECONDS)
        findings = summary_check.record_findings(store, session, summary if isinstance(summary, str) else "")
    log(f"{session.thread}: {len(findings)} findings about the client's summary")


def finish_archiving(session: HookSession, reason: str, archive: Archive | None = None) -> None:
    """Archive the messages that were skipped while a client waited, then the ledger of the whole session.

    Do nothing if another process does this already; if this process ends early, the next one continues.
    """
    from unabridged_cli.clients.hook.ledgers import complete_ledger  # noqa: PLC0415 - only here, and it takes its time

    deadline = time.monotonic() + BACKGROUND_TIMEOUT_SECONDS
    with lock_session(session.thread) as is_first, use_or_open_archive(archive) as store:
        if not is_first:
            log(f"{session.thread}: another process is at the rest")
        elif archive_new_messages(store, session, reason, BACKGROUND_TIMEOUT_SECONDS, is_waited_for=False):
            complete_ledger(store, session, reason, deadline)
            log(f"{session.thread}: all of it was looked at ({reason})")


def archive_new_messages(
    archive: Archive, session: HookSession, reason: str, seconds: float, *, is_waited_for: bool = True
) -> bool:
    """Archive the new messages and log how many; return whether the whole session is archived now."""
    began = time.monotonic()
    has_later = is_waited_for and session.kind.is_lasting  # else nobody comes to it later
    copied = copy_new_messages(archive, session, reason, began + seconds, is_waited_for=has_later)
    log(f"{session.thread}: {copied.messages:,} messages archived in {time.monotonic() - began:.2f} s ({reason})")
    return copied.is_complete


@contextmanager
def use_or_open_archive(archive: Archive | None = None, seconds: float = LOCK_SECONDS) -> Iterator[Archive]:
    """Yield the given archive, which stays open; without one, open that of the environment and close it afterwards."""
    if archive is not None:
        yield archive
        return
    opened = open_archive(os.environ.get("UNABRIDGED_ARCHIVE") or None, probe=False, wait=seconds)
    try:
        yield opened
    finally:
        opened.close()
