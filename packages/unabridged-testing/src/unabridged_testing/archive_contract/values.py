"""What the archive's contract suite is built from: messages, records, and where they belong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import pytest

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Part, Record, RecordData, Scope
from unabridged.errors import ArchiveError

TEST_SCOPE: Final = Scope("here", "thread 1")
OTHER_SCOPE: Final = Scope("there", "thread 1")

_numbers = itertools.count()


def make_part(text: str, turn: int, role: str = "user", origin: str = "person") -> Part:
    """Return a message with this text, as a part."""
    body = codec.encode({"role": role, "content": text})
    return Part(codec.digest(body), body, turn, role, origin, text)


def make_summary(text: str) -> Part:
    """Return a message that was put in."""
    return make_part(text, -1, "user", "summary")


def make_record(
    parts: Sequence[Part],
    after: Part | None = None,
    *,
    scope: Scope = TEST_SCOPE,
    key: str = "k",
    kind: str = "summary",
    model: str | None = None,
    created: float = 1_700_000_000.5,
    record_id: str = "",
    data: Mapping[str, object] | None = None,
) -> Record:
    """Return a record, with an id of its own, that tells how these parts were replaced."""
    before = tuple(part.hash for part in parts)
    put_in = () if after is None else (after.hash,)
    stored = cast("RecordData", data or {})  # stores keep any JSON
    record_id = record_id or f"record{next(_numbers)}"
    return Record(record_id, scope, key, len(parts), 0, before, put_in, kind, None, model, created, stored)


def store_parts(archive: Archive, *parts: Part, after: Part | None = None, **fields: Any) -> Record:
    """Return the record under which the archive now holds these parts; `fields` are those of `make_record`."""
    return archive.store(make_record(parts, after, **fields), [*parts, after] if after else parts)


def catch_archive_error(call: Callable[[], Any]) -> str:
    """Return the message of the `ArchiveError` that the call raises; anything else fails the test."""
    with pytest.raises(ArchiveError) as raised:
        call()
    return str(raised.value)
