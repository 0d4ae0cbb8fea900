"""What of a session a search can't find, because it is not in the archive: said, so that nobody takes it for unsaid."""

from __future__ import annotations

import os
from typing import Final

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.current_session import ToolCaller
from unabridged_cli.clients.hook.log import open_failures
from unabridged_cli.clients.hook.session_copy import COPY_KIND, newest_position
from unabridged_cli.clients.hook.transcript import HookSession, kind_of, read_from
from unabridged_cli.clients.session_lookup import is_readable, newest_compaction
from unabridged_cli.clients.threads import session_of

_CONSEQUENCE: Final = "So what is not found here may have been said; `unabridged status` shows what to do."


def describe_gaps(archive: Archive, namespace: str, caller: ToolCaller, thread: str | None) -> str:
    """Return a sentence on what of this session, or of all of the project, is not in the archive; empty if all is."""
    if caller.ignore_file is not None:
        return f"(New messages of this project are not archived: {caller.ignore_file} keeps it out.)"
    if thread is None:
        names = set(map(session_of, archive.threads(namespace)))
        count = sum(file.thread not in names for file in caller.sessions)
        return f"({count:,} sessions of this project are not in the archive, and were not searched.)" if count else ""
    file = next((file for file in caller.sessions if file.thread == thread), None)
    return describe_session_gaps(archive, namespace, thread, file)


def describe_session_gaps(archive: Archive, namespace: str, thread: str, file: SessionFile | None) -> str:
    """Return a sentence on what of one session is not in the archive; empty if all is, or nobody knows."""
    failure = next((failure for failure in open_failures(os.environ) if failure.thread == thread), None)
    if failure is not None:
        return f"(Not all of this session is in the archive: {failure.reason}. {_CONSEQUENCE})"
    count = 0 if file is None or not is_readable(file) else _count_unarchived(archive, namespace, file)
    what = f"{count:,} messages that left the context of this session are not in the archive"
    return f"({what}: its hooks did not run, or could not write it. {_CONSEQUENCE})" if count else ""


def _count_unarchived(archive: Archive, namespace: str, file: SessionFile) -> int:
    """Count the messages before the newest compaction of the file that the archive does not have."""
    kind = kind_of(file.path)
    if kind is None:
        return 0
    offset = newest_position(archive, HookSession(kind, file.id, file.path, namespace), COPY_KIND).offset
    end = newest_compaction(file, offset)
    return sum(message.end <= end for message in read_from(file.path, kind, offset)) if end else 0
