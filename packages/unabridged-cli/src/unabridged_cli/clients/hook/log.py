"""The hook's own log: for its owner alone, in the user's state folder, and nothing of a conversation is in it."""

from __future__ import annotations

import calendar
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from unabridged_cli.clients.client import Environ, folder_from_variable

_MAX_BYTES: Final = 1_000_000
"""Bytes of the log, after which it begins anew; the one before is kept beside it."""
_MAX_LINE_CHARACTERS: Final = 600
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
_LINE_PATTERN: Final = re.compile(r"(\S+) \d+ (?:([\w.-]+:[\w.-]+): )?(failed: )?(.*)")
_ARCHIVED_PATTERN: Final = re.compile(r"[\d,]+ messages archived in ")
_FAILURE_LIFETIME_SECONDS: Final = 7 * 86_400
"""How long a failure is shown."""
_current_thread: list[str] = [""]


class HookFailure(NamedTuple):
    """Something that went wrong, when (seconds since 1970), and for which session, if that is known."""

    time: float
    thread: str
    reason: str


def log_file_path(environ: Environ) -> Path:
    """Return where the hook writes what it did, and what went wrong."""
    return folder_from_variable(environ, "XDG_STATE_HOME", ".local", "state") / "unabridged" / "hook.log"


def log(line: str) -> None:
    """Add a line to the log. Where that can't be, nobody can be told: it is lost, and nothing else is."""
    with suppress(OSError):
        path = log_file_path(os.environ)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the folders above it as the user has them
        if path.exists() and path.stat().st_size > _MAX_BYTES:
            path.replace(path.with_suffix(".log.1"))
        stamp = time.strftime(_TIME_FORMAT, time.gmtime())
        plain = "".join(sign if sign.isprintable() else " " for sign in " ".join(line.split())[:_MAX_LINE_CHARACTERS])
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{stamp} {os.getpid()} {plain}\n".encode("utf-8", "replace"))
        finally:
            os.close(handle)


def set_logged_session(thread: str) -> None:
    """Set the session that all failures logged from now on refer to."""
    _current_thread[0] = thread


def log_failure(reason: str) -> None:
    """Add to the log that something went wrong."""
    log(f"{_current_thread[0]}: failed: {reason}" if _current_thread[0] else f"failed: {reason}")


def find_unresolved_failures(environ: Environ) -> list[HookFailure]:
    """Return the failures of the last days that no later success has resolved, newest first, one for each session.

    A failure is resolved when its session was archived later; without a known session, when any session was.
    """
    failures: dict[str, HookFailure] = {}
    for line in _read_log_lines(log_file_path(environ)):
        moment, thread, failed, text = line.groups(default="")
        if failed:
            failures[thread] = HookFailure(_parse_timestamp(moment), thread, text)
        elif _ARCHIVED_PATTERN.match(text):
            failures.pop(thread, None)
            failures.pop("", None)
    recent = (failure for failure in failures.values() if failure.time > time.time() - _FAILURE_LIFETIME_SECONDS)
    return sorted(recent, key=lambda failure: -failure.time)


def _read_log_lines(path: Path) -> list[re.Match[str]]:
    texts = []
    for each in (path.with_suffix(".log.1"), path):
        with suppress(OSError):
            texts += each.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in map(_LINE_PATTERN.fullmatch, texts) if line is not None]


def _parse_timestamp(stamp: str) -> float:
    try:
        return calendar.timegm(time.strptime(stamp, _TIME_FORMAT))
    except ValueError:
        return 0.0
