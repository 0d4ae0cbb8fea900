"""`unabridged hook`: what Claude Code, Codex and pi call around a compaction, with JSON on standard input.

    PreCompact                  the session is archived, as far as it is new
    session_before_compact      the same, and our summary in the place of pi's
    SessionStart (compact)      the context gets what a summary loses
    PostCompact                 the client's summary is compared with the record
    SessionStart, SessionEnd    a process of its own archives the project's sessions that grew

Reading order: `events` (what each event does), `actions` (what is done with a session), `transcript` (a session file as
it grows), `session_copy` (its messages in the archive), `reminder` (what is put into the context) and `ledgers` (from
what), `background` (processes of their own), `grown_sessions` (all sessions of a project), `summary_check` and
`findings` (what a summary says and the record does not), `log`. Whatever goes wrong, the client goes on: the exit code
is 0, and the log says why.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Final

HOOK_TIMEOUT_SECONDS: Final = 25.0
"""Time after which the hook gives up, whatever it is doing."""
_GRACE_SECONDS: Final = 3
"""Time for a thread to end the process, which waits for whatever holds the interpreter, as one match of a pattern does.
The signal's exit code is not 0: the command of an install ends clean all the same."""


def main(timeout: float = HOOK_TIMEOUT_SECONDS) -> None:
    """Answer the event on standard input. Never an error for the client, and never a long wait."""
    _set_timeout(timeout)
    try:
        if sys.stdin is None:
            _try_log_failure("standard input is closed, so there is no event")
            _exit_immediately()
        elif sys.stdin.isatty():
            print("unabridged hook is called by a coding agent: unabridged install CLIENT sets it up", file=sys.stderr)  # noqa: T201 - for the person who typed it
            _exit_immediately()
        from unabridged_cli.clients.hook.events import answer_hook_event  # noqa: PLC0415 - what fails to load must not stop a client

        if output := answer_hook_event(sys.stdin.buffer.read()):
            sys.stdout.write(output)
            sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - a client goes on whatever happens here
        _try_log_failure(f"{type(error).__name__}: {error}")
    _exit_immediately()


def _set_timeout(seconds: float) -> None:
    """End this process after so many seconds; by the system itself a little later, should Python not come to it."""

    def give_up() -> None:
        _try_log_failure(f"given up after {seconds:.0f} s: the next event goes on with what is not archived yet")
        _exit_immediately()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(seconds) + _GRACE_SECONDS)


def _try_log_failure(reason: str) -> None:
    try:
        from unabridged_cli.clients.hook.log import log_failure  # noqa: PLC0415 - see above

        log_failure(reason)
    except Exception:  # noqa: BLE001, S110 - there is nobody left to tell
        pass


def _exit_immediately() -> None:
    """Leave at once: a pipe that nobody reads, or a thread that hangs, must not turn into an exit code."""
    os._exit(0)
