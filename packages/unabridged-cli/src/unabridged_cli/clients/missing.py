"""What of a session a search can't find, because it is not in the archive: said, so that nobody takes it for unsaid."""

from __future__ import annotations

import os
from typing import Final

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.current import Asking
from unabridged_cli.clients.found import compaction_in, is_readable
from unabridged_cli.clients.hook.copying import COPY, newest_place
from unabridged_cli.clients.hook.log import open_failures
from unabridged_cli.clients.hook.transcript import Source, kind_of, read_from
from unabridged_cli.clients.threads import session_of, thread_of

_SO: Final = "So what is not found here may have been said; `unabridged status` shows what to do."


def missing_from(archive: Archive, namespace: str, asking: Asking, thread: str | None) -> str:
    """Return a sentence on what of this session, or of all of the project, is not in the archive; empty if all is."""
    if asking.left_out is not None:
        return f"(New messages of this project are not archived: {asking.left_out} keeps it out.)"
    if thread is None:
        held = set(map(session_of, archive.threads(namespace)))
        count = sum(thread_of(file.client, file.id) not in held for file in asking.sessions)
        return f"({count:,} sessions of this project are not in the archive, and were not searched.)" if count else ""
    file = next((file for file in asking.sessions if thread_of(file.client, file.id) == thread), None)
    return missing_of(archive, namespace, thread, file)


def missing_of(archive: Archive, namespace: str, thread: str, file: SessionFile | None) -> str:
    """Return a sentence on what of one session is not in the archive; empty if all is, or nobody knows."""
    failed = next((failure for failure in open_failures(os.environ) if failure.thread == thread), None)
    if failed is not None:
        return f"(Not all of this session is in the archive: {failed.reason}. {_SO})"
    count = 0 if file is None or not is_readable(file) else _count_unarchived(archive, namespace, file)
    why = "its hooks did not run, or could not write it"
    return (
        f"({count:,} messages that left the context of this session are not in the archive: {why}. {_SO})"
        if count
        else ""
    )


def _count_unarchived(archive: Archive, namespace: str, file: SessionFile) -> int:
    """Count the messages before the newest compaction of the file that the archive does not have."""
    kind = kind_of(file.path)
    if kind is None:
        return 0
    source = Source(kind, file.id, file.path, namespace)
    offset = newest_place(archive, source, COPY).offset
    end = compaction_in(file, offset)
    return sum(said.end <= end for said in read_from(file.path, kind, offset)) if end else 0
