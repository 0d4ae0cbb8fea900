"""Work for which no client waits: done by a process of its own, one at a time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from unabridged_cli.clients.hook.log import log, log_file
from unabridged_cli.clients.threads import file_name

LONGEST: Final = 1_500.0
"""Seconds that it may take."""
_NICE: Final = 10
"""How much it lets other programs go first."""


def do_later(event: Mapping[str, str]) -> None:
    """Start a process with this event, in a session of its own: the end of the client, or of this hook, is not its end.

    Nothing is loaded from the client's folder (`-P`).
    """
    import subprocess  # noqa: PLC0415 - only here

    code = f"from unabridged_cli.clients.hook import main; main({LONGEST + 60})"
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
    log(f"{event['session_id']}: {event['hook_event_name']} is done by process {child.pid}")


def be_patient() -> None:
    """Let other programs go first, where the system knows that."""
    with suppress(AttributeError, OSError):
        os.nice(_NICE)


@contextmanager
def only_one(thread: str) -> Iterator[bool]:
    """Whether this is the only process at the rest of the session, as long as it is. A lock goes with its process."""
    path = log_file(os.environ).with_name(f"rest-{file_name(thread)}.lock")
    with locked(path) as first:
        yield first
        if first:
            path.unlink(missing_ok=True)


@contextmanager
def in_turn(path: Path) -> Iterator[bool]:
    """Wait until no other process works on what this file is about; False if another one waits for that already."""
    with ExitStack() as held:
        with locked(path.with_suffix(".next")) as first:
            if first:
                held.enter_context(locked(path.with_suffix(".lock"), wait=True))
        yield first


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether this process has the lock, as long as it has it."""
    try:
        import fcntl  # noqa: PLC0415 - not every system has it
    except ImportError:
        yield True
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        first = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            first = False
        yield first
    finally:
        os.close(handle)
