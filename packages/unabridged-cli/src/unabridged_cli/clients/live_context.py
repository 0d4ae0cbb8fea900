"""What of a client's session is still in its context: the messages since the client's last compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from unabridged.archive.protocol import Archive, Part
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.hook.session_copy import COPY_KIND, newest_position, parts_of, scope_of
from unabridged_cli.clients.hook.transcript import HookSession, kind_of, read_from

_PAGE_MESSAGES: Final = 200
"""Archived messages that are read at once."""


def messages_in_context(archive: Archive, file: SessionFile, namespace: str) -> list[Part] | None:
    """Return the messages behind the client's last summary, in order; None where its file can't be read.

    Of the file only what is not archived is read; the rest comes from the archive, page by page, back to a summary.
    """
    try:
        kind = kind_of(file.path) if file.path.is_file() else None
        if kind is None:
            return None
        session = HookSession(kind, file.id, file.path, namespace)
        position = newest_position(archive, session, COPY_KIND)
        new = list(read_from(file.path, kind, position.offset))
    except OSError:
        return None
    parts, has_summary = _after_summary(parts_of(session, new, position.turn))
    last = position.turn
    while not has_summary and last > 0:
        first = max(last - _PAGE_MESSAGES, 0)
        page, has_summary = _after_summary(archive.parts(scope_of(session), first, last))
        parts, last = [*page, *parts], first
    return parts


def _after_summary(parts: Sequence[Part]) -> tuple[list[Part], bool]:
    """Return the parts behind the last summary among them, and whether there is one."""
    summaries = [i for i, part in enumerate(parts) if part.origin == "summary"]
    return list(parts[summaries[-1] + 1 :] if summaries else parts), bool(summaries)
