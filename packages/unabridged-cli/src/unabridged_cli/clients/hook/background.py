"""Work for which no client waits: done by a process of its own, one at a time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from unabridged.file_lock import lock_descriptor
from unabridged_cli.clients.hook.log import log, log_file_path
from unabridged_cli.clients.threads import thread_to_file_name

BACKGROUND_TIMEOUT_SECONDS: Final = 1_500.0
_NICENESS: Final = 10
"""How much the process lets other programs go first."""


def start_process(event: Mapping[str, str]) -> None:
    """Start a process with this event, in a session of its own: the end of the client, or of this hook, is not its end.

    Nothing is loaded from the client's folder (`-P`).
    """
    import subprocess  # noqa: PLC0415 - only here

    code = "from unabridged_cli.clients.hook import background, main; background.lower_priority(); "
    code += f"main({BACKGROUND_TIMEOUT_SECONDS + 60})"
    command, nowhere = [sys.executable, "-P", "-c", code], subprocess.DEVNULL
    streams: Any = {"stdin": subprocess.PIPE, "stdout": nowhere, "stderr": nowhere}
    child = subprocess.Popen(command, **streams, start_new_session=True)  # noqa: S603 - this program itself
    assert child.stdin is not None  # noqa: S101 - it is a pipe
    child.stdin.write(json.dumps(event).encode())
    child.stdin.close()
    log(f"{event['session_id']}: {event['hook_event_name']} is done by process {child.pid}")


def lower_priority() -> None:
    """Lower the priority of this process, where the system has priorities."""
    if sys.platform != "win32":
        with suppress(OSError):
            os.nice(_NICENESS)


@contextmanager
def lock_session(thread: str) -> Iterator[bool]:
    """Lock the session for this process; yield whether that succeeded. The lock ends with the process."""
    path = log_file_path(os.environ).with_name(f"rest-{thread_to_file_name(thread)}.lock")
    with lock_file(path) as is_first:
        yield is_first
        if is_first:
            path.unlink(missing_ok=True)


@contextmanager
def wait_for_turn(path: Path) -> Iterator[bool]:
    """Wait for the lock at this path and yield True; yield False at once if another process waits for it already."""
    with ExitStack() as locks:
        with lock_file(path.with_suffix(".next")) as is_first:
            if is_first:
                locks.enter_context(lock_file(path.with_suffix(".lock"), wait=True))
        yield is_first


@contextmanager
def lock_file(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Yield whether this process has the lock, and hold it as long."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield lock_descriptor(handle, wait=wait)
    finally:
        os.close(handle)
