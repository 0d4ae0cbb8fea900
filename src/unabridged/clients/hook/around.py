"""The work around a compaction, on the archive that is given, that `UNABRIDGED_ARCHIVE` names, or the user's own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from unabridged.archive.opening import open_archive
from unabridged.archive.protocol import Archive
from unabridged.clients.hook.copying import copy_new
from unabridged.clients.hook.findings import take_certain
from unabridged.clients.hook.log import log
from unabridged.clients.hook.transcript import Source
from unabridged.errors import ArchiveError, UnabridgedError

WAIT: Final = 5.0
"""Seconds to wait for another writer of the archive."""
BEFORE: Final = 15.0
"""Seconds of archiving before a compaction; what is left is done by a process of its own while the client goes on."""
AFTER: Final = 2.0
"""The same after it."""
REST: Final = 1_500.0
"""Seconds that the process of its own may take."""


def archive_session(source: Source, reason: str, seconds: float, archive: Archive | None = None) -> bool:
    """Archive what is new in the session; whether all of it is there now."""
    with _opened(archive) as store:
        return _copy(store, source, reason, seconds)


def tell_context(source: Source, reason: str, archive: Archive | None = None, *, compacted: bool) -> str:
    """What the context is told: after a compaction what a summary loses, and what was found about the last summary.

    An archive that can't be used takes nothing from that: the session file has it all.
    """
    try:
        with _opened(archive) as store:
            told = _told(store, source, reason, compacted=compacted)
    except UnabridgedError as error:
        log(f"{source.thread}: told without the archive: {error}")
        told = _told(open_archive("memory:"), source, reason, compacted=compacted)
    log(f"{source.thread}: {len(told):,} characters for the context")
    return told


def _told(archive: Archive, source: Source, reason: str, *, compacted: bool) -> str:
    certain = take_certain(archive, source)
    if not compacted:
        return certain
    from unabridged.clients.hook import reminder  # noqa: PLC0415 - only here, and it takes its time

    told = "\n\n".join(filter(None, (reminder.remind(archive, source, reason), certain)))
    with suppress(ArchiveError):  # it was done before the compaction, and is done again before the next
        _copy(archive, source, reason, AFTER)
    return told


def summarise(source: Source, reason: str) -> str:
    """Our summary, for a client that takes one in the place of its own; none unless all of the session is archived."""
    from unabridged.clients.hook import reminder  # noqa: PLC0415 - only here, and it takes its time

    with _opened() as archive:
        text = reminder.remind(archive, source, reason, alone=True) if _copy(archive, source, reason, BEFORE) else ""
    log(f"{source.thread}: {f'summed up in {len(text):,} characters' if text else 'left to its client to sum up'}")
    return text


def check_summary(source: Source, reason: str, summary: Any, archive: Archive | None = None) -> None:
    """Hold the client's summary against the record."""
    from unabridged.clients.hook import claims  # noqa: PLC0415 - only here

    with _opened(archive) as store:
        _copy(store, source, reason, AFTER)
        found = claims.check(store, source, summary if isinstance(summary, str) else "")
    log(f"{source.thread}: {len(found)} findings about the client's summary")


def archive_rest_later(event: Mapping[str, Any]) -> None:
    """Start a process that archives the rest, in a group of its own: the client does not wait for it.

    `-P`: nothing is loaded from the folder that the client works in.
    """
    import subprocess  # noqa: PLC0415 - hardly ever needed

    code = f"from unabridged.clients.hook import main; main({REST + 60})"
    child = subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdin is not None  # noqa: S101 - it is a pipe
    child.stdin.write(json.dumps(event).encode())
    child.stdin.close()
    log(f"the rest is archived by process {child.pid}")


def _copy(archive: Archive, source: Source, reason: str, seconds: float) -> bool:
    began = time.monotonic()
    copied = copy_new(archive, source, reason, began + seconds)
    log(f"{source.thread}: {copied.messages:,} messages archived in {time.monotonic() - began:.2f} s ({reason})")
    return copied.whole


@contextmanager
def _opened(given: Archive | None = None) -> Iterator[Archive]:
    """The archive that was given, which stays open; else the one of the environment."""
    if given is not None:
        yield given
        return
    archive = open_archive(os.environ.get("UNABRIDGED_ARCHIVE") or None, probe=False, wait=WAIT)
    try:
        yield archive
    finally:
        archive.close()
