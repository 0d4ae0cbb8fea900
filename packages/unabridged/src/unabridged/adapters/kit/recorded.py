"""A host that keeps the original conversation, and wants it as its compactions left it."""

from __future__ import annotations

from typing import Any

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.formats import Format
from unabridged.history.difference import chain
from unabridged.history.lookup import apply
from unabridged.history.replay import fetch


def as_recorded(archive: Archive, scope: Scope, messages: list[Any], format_: Format) -> list[Any]:
    """The original conversation as the thread's newest compaction left it, with what came since; nothing new is made.

    Whichever model it was made for. A compaction of a list that is another one by now is not applied: then the one
    before it is, or the very list is given back.
    """
    for record in archive.newest(scope):
        made = _applied(archive, record, messages, format_)
        if made is not None:
            return made
    return messages


def _applied(archive: Archive, record: Record, messages: list[Any], format_: Format) -> list[Any] | None:
    """The list with this compaction and those before it applied; None when it is not the list that they were made of.

    What stays is known by the result; what goes is looked at before.
    """
    lineage = [record]
    while (prior := lineage[-1].prior) and (before := archive.record(record.scope, prior)) is not None:
        lineage.append(before)
    made = messages
    for one in reversed(lineage):
        if one.start + len(one.before) > len(made) or not _goes(archive, one, made, format_):
            return None
        made = apply(archive, one, made, format_)
    stop = record.start + len(record.after)
    meanings = (format_.read(message).meaning for message in made[:stop])
    return made if chain(meanings, "")[-1] == record.data.get("result") else None


def _goes(archive: Archive, record: Record, messages: list[Any], format_: Format) -> bool:
    """Whether the messages that the record took out stand in the list, word for word or with the same meaning."""
    went = [(hash_, messages[record.start + i]) for i, hash_ in enumerate(record.before) if isinstance(hash_, str)]
    differs = [(hash_, message) for hash_, message in went if codec.digest(codec.encode(message)) != hash_]
    originals = fetch(archive, record.scope, [hash_ for hash_, _ in differs])
    return all(format_.read(originals[hash_]).meaning == format_.read(message).meaning for hash_, message in differs)
