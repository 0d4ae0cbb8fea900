"""What of a client's session is still in its context: the messages since the client's last compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from unabridged.archive.protocol import Archive, Part
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.hook.session_copy import COPY_KIND, build_parts, find_newest_position, session_scope
from unabridged_cli.clients.hook.transcript import HookSession, detect_transcript_kind, read_messages_from

_PAGE_MESSAGES: Final = 200
"""Archived messages that are read at once."""


def read_context_messages(archive: Archive, file: SessionFile, namespace: str) -> list[Part] | None:
    """Return the messages after the client's last summary, in order; None if its file can't be read.

    New messages are read from the file, the others from the archive, page by page, back to a summary.
    """
    try:
        kind = detect_transcript_kind(file.path) if file.path.is_file() else None
        if kind is None:
            return None
        session = HookSession(kind, file.id, file.path, namespace)
        position = find_newest_position(archive, session, COPY_KIND)
        new = list(read_messages_from(file.path, kind, position.offset))
    except OSError:
        return None
    parts, has_summary = _drop_summarised_parts(build_parts(session, new, position.turn))
    last = position.turn
    while not has_summary and last > 0:
        first = max(last - _PAGE_MESSAGES, 0)
        page, has_summary = _drop_summarised_parts(archive.parts(session_scope(session), first, last))
        parts, last = [*page, *parts], first
    return parts


def _drop_summarised_parts(parts: Sequence[Part]) -> tuple[list[Part], bool]:
    """Return the parts behind the last summary among them, and whether there is one."""
    summaries = [i for i, part in enumerate(parts) if part.origin == "summary"]
    return list(parts[summaries[-1] + 1 :] if summaries else parts), bool(summaries)
