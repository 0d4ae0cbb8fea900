"""What of a session a search can't find, because it is not in the archive: said, so that nobody takes it for unsaid."""

from __future__ import annotations

import os
from typing import Final

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.current_session import ToolCaller
from unabridged_cli.clients.hook.log import find_unresolved_failures
from unabridged_cli.clients.hook.session_copy import COPY_KIND, find_newest_position
from unabridged_cli.clients.hook.transcript import HookSession, detect_transcript_kind, read_messages_from
from unabridged_cli.clients.session_lookup import find_newest_compaction_offset
from unabridged_cli.clients.threads import session_thread_of

_GAP_WARNING: Final = "So what is not found here may have been said; `unabridged doctor` shows what to do."


def describe_gaps(archive: Archive, namespace: str, caller: ToolCaller, thread: str | None) -> str:
    """Return a warning about messages of this session, or of the project, that are not archived; else an empty text."""
    if caller.ignore_file is not None:
        return f"(New messages of this project are not archived: {caller.ignore_file} keeps it out.)"
    if thread is None:
        names = set(map(session_thread_of, archive.threads(namespace)))
        count = sum(file.thread not in names for file in caller.sessions)
        return f"({count:,} sessions of this project are not in the archive, and were not searched.)" if count else ""
    file = next((file for file in caller.sessions if file.thread == thread), None)
    return describe_session_gaps(archive, namespace, thread, file)


def describe_session_gaps(archive: Archive, namespace: str, thread: str, file: SessionFile | None) -> str:
    """Return a warning about messages of one session that are not archived; empty if all are or that is not known."""
    failure = next((failure for failure in find_unresolved_failures(os.environ) if failure.thread == thread), None)
    if failure is not None:
        return f"(Not all of this session is in the archive: {failure.reason}. {_GAP_WARNING})"
    count = 0 if file is None or not file.is_readable else _count_unarchived(archive, namespace, file)
    what = f"{count:,} messages that left the context of this session are not in the archive"
    return f"({what}: its hooks did not run, or could not write it. {_GAP_WARNING})" if count else ""


def _count_unarchived(archive: Archive, namespace: str, file: SessionFile) -> int:
    """Count the messages before the newest compaction of the file that the archive does not have."""
    kind = detect_transcript_kind(file.path)
    if kind is None:
        return 0
    offset = find_newest_position(archive, HookSession(kind, file.id, file.path, namespace), COPY_KIND).offset
    end = find_newest_compaction_offset(file, offset)
    return sum(message.end <= end for message in read_messages_from(file.path, kind, offset)) if end else 0
