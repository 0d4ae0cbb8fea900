"""What there was no time for while a client waited: done by a process of its own while the client goes on.

It archives the rest of the session and then looks at all of it, so that the next event has only what is new to do. One
at a time for a session; if it is ended, the next event or the next process goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from unabridged.archive.protocol import Archive
from unabridged.clients.hook.around import copy, opened
from unabridged.clients.hook.log import log, log_file
from unabridged.clients.hook.transcript import Source
from unabridged.clients.threads import file_name

LONGEST: Final = 1_500.0
"""Seconds that it may take."""
_NICE: Final = 10
"""How much it lets other programs go first."""


def do_rest_later(event: Mapping[str, str]) -> None:
    """Start a process with this event, in a group of its own; nothing is loaded from the client's folder (`-P`)."""
    import subprocess  # noqa: PLC0415 - hardly ever needed

    code = f"from unabridged.clients.hook import main; main({LONGEST + 60})"
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
    log(f"{event['session_id']}: the rest is done by process {child.pid}")


def do_rest(source: Source, reason: str, archive: Archive | None = None) -> None:
    """Archive what is left of the session, then the ledger of all of it; nothing if another process is at it."""
    from unabridged.clients.hook.ledgers import carry_on  # noqa: PLC0415 - only here, and it takes its time

    until = time.monotonic() + LONGEST
    with only_one(source.thread) as first, opened(archive) as store:
        if not first:
            log(f"{source.thread}: another process is at the rest")
        elif copy(store, source, reason, LONGEST, waited_for=False):
            carry_on(store, source, reason, until)
            log(f"{source.thread}: all of it was looked at ({reason})")


def be_patient() -> None:
    """Let other programs go first, where the system knows that."""
    with suppress(AttributeError, OSError):
        os.nice(_NICE)


@contextmanager
def only_one(thread: str) -> Iterator[bool]:
    """Whether this is the only process at the rest of the session, as long as it is. A lock goes with its process."""
    try:
        import fcntl  # noqa: PLC0415 - not every system has it
    except ImportError:
        yield True
        return
    path = log_file(os.environ).with_name(f"rest-{file_name(thread)}.lock")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        first = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            first = False
        yield first
        if first:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)
