"""What there was no time for while a client waited: done by a process of its own while the client goes on.

It archives the rest of the session and then looks at all of it, so that the next event has only what is new to do. One
at a time for a session; if it is ended, the next event or the next process goes on where it stopped.
"""

from __future__ import annotations

import time

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.hook.around import copy, opened
from unabridged_cli.clients.hook.later import LONGEST, only_one
from unabridged_cli.clients.hook.log import log
from unabridged_cli.clients.hook.transcript import Source


def do_rest(source: Source, reason: str, archive: Archive | None = None) -> None:
    """Archive what is left of the session, then the ledger of all of it; nothing if another process is at it."""
    from unabridged_cli.clients.hook.ledgers import carry_on  # noqa: PLC0415 - only here, and it takes its time

    until = time.monotonic() + LONGEST
    with only_one(source.thread) as first, opened(archive) as store:
        if not first:
            log(f"{source.thread}: another process is at the rest")
        elif copy(store, source, reason, LONGEST, waited_for=False):
            carry_on(store, source, reason, until)
            log(f"{source.thread}: all of it was looked at ({reason})")
