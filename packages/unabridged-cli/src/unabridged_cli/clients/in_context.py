"""What of a client's session still stands in its context: the messages since the client's last compaction."""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.archive.protocol import Archive, Part
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.hook.copying import COPY, newest_place, parts_of, scope_of
from unabridged_cli.clients.hook.transcript import Source, kind_of, read_from

_PAGE = 200
"""Archived messages that are read at once."""


def messages_in_context(archive: Archive, file: SessionFile, namespace: str) -> list[Part] | None:
    """Return the messages behind the client's last summary, in order; None where its file can't be read.

    Of the file only what is not archived is read; the rest comes from the archive, page by page, back to a summary.
    """
    try:
        kind = kind_of(file.path) if file.path.is_file() else None
        if kind is None:
            return None
        source = Source(kind, file.id, file.path, namespace)
        place = newest_place(archive, source, COPY)
        said = list(read_from(file.path, kind, place.offset))
    except OSError:
        return None
    found, since = _behind_summary(parts_of(source, said, place.turn))
    last = place.turn
    while not since and last > 0:
        first = max(last - _PAGE, 0)
        page, since = _behind_summary(archive.parts(scope_of(source), first, last))
        found, last = [*page, *found], first
    return found


def _behind_summary(parts: Sequence[Part]) -> tuple[list[Part], bool]:
    """Return the parts behind the last summary among them, and whether there is one."""
    places = [i for i, part in enumerate(parts) if part.origin == "summary"]
    return list(parts[places[-1] + 1 :] if places else parts), bool(places)
