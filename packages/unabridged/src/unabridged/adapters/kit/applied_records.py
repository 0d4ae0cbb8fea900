"""The original conversation of a host that keeps it, as the recorded compactions left it."""

from __future__ import annotations

from typing import Any

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.formats import Format
from unabridged.history.difference import compute_prefix_digests
from unabridged.history.lookup import apply_record
from unabridged.history.replay import fetch_messages


def apply_recorded_compactions(archive: Archive, scope: Scope, messages: list[Any], format_: Format) -> list[Any]:
    """Return the original conversation with the thread's recorded compactions applied, and all messages since.

    Nothing new is compacted. A compaction of a list that has changed since is skipped: then the one before it is
    applied, or the very list is returned.
    """
    for record in archive.newest(scope):
        if (result := _apply_lineage(archive, record, messages, format_)) is not None:
            return result
    return messages


def _apply_lineage(archive: Archive, record: Record, messages: list[Any], format_: Format) -> list[Any] | None:
    """Return the list with this compaction and those before it applied; None when they were made of another list.

    What stays is checked by the result; what goes is checked before each step.
    """
    lineage = [record]
    while (prior := lineage[-1].prior) and (before := archive.record(record.scope, prior)) is not None:
        lineage.append(before)
    result = messages
    for one in reversed(lineage):
        if one.start + len(one.before) > len(result) or not _has_removed_messages(archive, one, result, format_):
            return None
        result = apply_record(archive, one, result, format_)
    stop = record.start + len(record.after)
    meanings = (format_.read(message).meaning_digest for message in result[:stop])
    return result if compute_prefix_digests(meanings, "")[-1] == record.data.get("result") else None


def _has_removed_messages(archive: Archive, record: Record, messages: list[Any], format_: Format) -> bool:
    """Return whether the list has the messages that the record took out, to the letter or with the same meaning."""
    went = [(hash_, messages[record.start + i]) for i, hash_ in enumerate(record.before) if isinstance(hash_, str)]
    differs = [(hash_, message) for hash_, message in went if codec.digest(codec.encode(message)) != hash_]
    originals = fetch_messages(archive, record.scope, [hash_ for hash_, _ in differs])
    pairs = ((format_.read(originals[hash_]), format_.read(message)) for hash_, message in differs)
    return all(original.meaning_digest == found.meaning_digest for original, found in pairs)
