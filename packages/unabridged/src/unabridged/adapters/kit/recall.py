"""What the recall tools of a framework answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from unabridged.archive.protocol import Archive, Hit, Part, Record, Scope
from unabridged.formats import Format
from unabridged.history.replay import RecordCache, find_applied_record
from unabridged.marks import find_view_record_ids
from unabridged.recall.tools import tools


def look_up(
    archive: Archive, scope: Scope | None, name: str, arguments: Mapping[str, Any] | str, format_: Format | None = None
) -> str:
    """Return what a recall tool answers in the conversation of the run that calls it; `scope` None: it has no name."""
    if scope is None:
        return "[recall] This run has no thread, so nothing of it is kept under a name."
    return tools(archive, scope, format=format_).call(name, arguments)


def limit_to_removed_messages(
    archive: Archive, scope: Scope, messages: Sequence[Any], format_: Format, also: Sequence[str] = ()
) -> Archive:
    """Return a view of the archive with only those messages of the thread that compactions removed from this list.

    For hosts where another conversation may have had the thread's name before. `also` are ids of records that the list
    does not show.
    """
    return cast("Archive", _RemovedMessagesArchive(archive, scope, messages, format_, also))


class _RemovedMessagesArchive:
    """An archive whose messages are those that left a list; all else is the archive's own.

    The records are read when something is asked for: what the archive raises is then the tool's answer.
    """

    def __init__(
        self, archive: Archive, scope: Scope, messages: Sequence[Any], format_: Format, also: Sequence[str]
    ) -> None:
        self._archive, self._scope, self._also = archive, scope, also
        self._messages, self._format = messages, format_

    def _find_records(self) -> list[Record]:
        """Return the records that stand in the list, those that it or `also` names, and all before them."""
        records = RecordCache(self._archive, self._scope)
        views = [self._format.read(message) for message in self._messages]
        applied = find_applied_record(self._archive, self._scope, views, records)
        names = [*self._also, *(name for view in views for name in find_view_record_ids(view))]
        by_id = {record.id: record for name in names if (record := records.find(name)) is not None}
        if applied is not None:
            by_id[applied.record.id] = applied.record
        lineage = list(by_id.values())
        for record in lineage:  # grows by what stood before each
            prior = records.find(record.prior) if record.prior and record.prior not in by_id else None
            if prior is not None:
                by_id[prior.id] = prior
                lineage.append(prior)
        return lineage

    @cached_property
    def _removed_hashes(self) -> set[str]:
        return {item for record in self._find_records() for item in record.before if isinstance(item, str)}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the best matches among them."""
        asked_limit = limit
        while True:  # what is not among them may match better
            hits = self._archive.search(scope, query, asked_limit)
            own = [hit for hit in hits if hit.hash in self._removed_hashes]
            if len(own) >= limit or len(hits) < asked_limit:
                return own[:limit]
            asked_limit *= 4

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """Return those of them with these turns."""
        return [part for part in self._archive.parts(scope, first, last) if part.hash in self._removed_hashes]

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Return the bodies of those of them with these hashes."""
        return self._archive.bodies(scope, [item for item in hashes if item in self._removed_hashes])
