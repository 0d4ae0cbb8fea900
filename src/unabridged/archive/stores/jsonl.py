"""One `store` of the directory archive as lines of JSON, and back.

The first line is the record, with the names of namespace and thread; each line after it is a part, its message last and
as it stands, or left out when the thread has it already. A line `{"retire": id}` takes a record out of look-ups.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from unabridged.archive import codec, rules
from unabridged.archive.protocol import Part, Record, Scope
from unabridged.errors import ArchiveError

VERSION: Final = 1
_MESSAGE: Final = b',"message":'


class Entry(NamedTuple):
    """What one file says: a record with the parts that were new, or the id of a record to retire."""

    scope: Scope
    record: Record | None
    parts: list[Part]
    retired: str | None = None


def write_entry(record: Record, parts: Sequence[Part], held: Collection[str]) -> bytes:
    """The file of one `store`; messages with the hashes in `held` are in an earlier file."""
    lines = [codec.encode({**_head(record.scope), "record": rules.record_fields(record)})]
    written = set(held)
    for part in parts:
        lines.append(_write_part(part, is_held=part.hash in written))
        written.add(part.hash)
    return b"".join(line + b"\n" for line in lines)


def write_retirement(scope: Scope, record_id: str) -> bytes:
    """The file of one `retire`."""
    return codec.encode({**_head(scope), "retire": record_id}) + b"\n"


def read_entry(data: bytes, name: str, held: Mapping[str, bytes]) -> Entry:
    """What the file says; an `ArchiveError` with its name when it can't be read. `held` has the earlier messages."""
    if not data.endswith(b"\n"):
        raise ArchiveError(f"{name} was cut off. Restore it from a backup.")
    lines = data.split(b"\n")[:-1]
    try:
        head = codec.decode(lines[0])
        if head["version"] != VERSION:
            raise ArchiveError(
                f"{name} is of version {head['version']}, this program knows {VERSION}. Update unabridged."
            )
        scope = Scope(head["namespace"], head["thread"])
        if "retire" in head:
            return Entry(scope, None, [], head["retire"])
        known = dict(held)
        parts = [_read_part(line, known) for line in lines[1:]]
        return Entry(scope, rules.record_of(scope, head["record"]), parts)
    except (LookupError, TypeError, ValueError) as error:
        raise ArchiveError(f"{name} can't be read: {error!r}. Restore it from a backup.") from error


def scope_of(line: bytes) -> Scope | None:
    """Whose file it is, by its first line; None if that can't be read."""
    head = codec.decode(line)
    if isinstance(head, dict) and isinstance(head.get("namespace"), str) and isinstance(head.get("thread"), str):
        return Scope(head["namespace"], head["thread"])
    return None


def record_id(line: bytes) -> str | None:
    """Which record the file brings, by its first line; None if it brings none."""
    head = codec.decode(line)
    record = head.get("record") if isinstance(head, dict) else None
    return record.get("id") if isinstance(record, dict) else None


def _head(scope: Scope) -> dict[str, Any]:
    return {"version": VERSION, "namespace": scope.namespace, "thread": scope.thread}


def _write_part(part: Part, *, is_held: bool) -> bytes:
    fields = {"turn": part.turn, "role": part.role, "origin": part.origin, "hash": part.hash, "text": part.text}
    if is_held:
        return codec.encode(fields)
    if _is_one_line_of_json(part.body):
        return codec.encode(fields)[:-1] + _MESSAGE + part.body + b"}"
    return codec.encode({**fields, "base64": base64.b64encode(part.body).decode("ascii")})


def _read_part(line: bytes, known: dict[str, bytes]) -> Part:
    # Inside a JSON string the quotes would be escaped, and no field before the message holds an object of its own.
    head, found, body = line.partition(_MESSAGE)
    fields = codec.decode(head + b"}") if found else codec.decode(line)
    if found:
        body = body[:-1]
    elif "base64" in fields:
        body = base64.b64decode(fields["base64"])
    else:
        body = known[fields["hash"]]
    known[fields["hash"]] = body
    return Part(fields["hash"], body, fields["turn"], fields["role"], fields["origin"], fields["text"])


def _is_one_line_of_json(body: bytes) -> bool:
    if b"\n" in body or b"\r" in body:
        return False
    try:
        json.loads(body.decode())
    except (ValueError, RecursionError):
        return False
    return True
