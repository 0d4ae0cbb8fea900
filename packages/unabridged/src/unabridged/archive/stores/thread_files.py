"""The files of a thread's log in its folder: one of JSON lines for each entry.

The first line of an entry is the record, with the version and the names of namespace and thread; each line after it is
a part, its message last and as it stands, or left out when the thread has it already. A line `{"retire": id}` takes a
record out of look-ups. These files are the truth.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from unabridged.archive import codec, store_rules
from unabridged.archive.protocol import Part, Scope
from unabridged.archive.stores.base_log import Entry
from unabridged.errors import ArchiveError

_HEAD_KEY: Final = "unabridged"
"""The first field of the first line: its value is the version. Versions before the first release wrote another."""
_MESSAGE_FIELD: Final = b',"message":'


class EntryHead(NamedTuple):
    """What the first line says: whose file it is, and which record it brings, if any."""

    scope: Scope
    record_id: str | None
    is_unreleased: bool
    """Whether a version before the first release wrote it."""


def encode_entry(scope: Scope, entry: Entry, held_hashes: Collection[str]) -> bytes:
    """Return the file of one entry; messages with the hashes in `held_hashes` are in an earlier file."""
    record = {"retire": entry.retired} if entry.record is None else {"record": store_rules.record_fields(entry.record)}
    lines = [codec.encode({_HEAD_KEY: store_rules.ARCHIVE_VERSION, **scope._asdict(), **record})]
    written: set[str] = set()
    for part in entry.parts:
        lines.append(_encode_part(part, is_held=part.hash in held_hashes or part.hash in written))
        written.add(part.hash)
    return b"".join(line + b"\n" for line in lines)


def decode_entry(data: bytes, name: str, scope: Scope, held_bodies: Mapping[str, bytes]) -> Entry:
    """Return the entry of the file; raise an `ArchiveError` with its name if it can't be read or is another thread's.

    `held_bodies` has the earlier messages.
    """
    if not data.endswith(b"\n"):
        raise ArchiveError(f"{name} was cut off. Restore it from a backup.")
    lines = data.split(b"\n")[:-1]
    try:
        head = codec.decode(lines[0])
        store_rules.check_version(name, None if _is_unreleased(head) else head[_HEAD_KEY])
        owner = Scope(head["namespace"], head["thread"])
        if owner != scope:
            raise ArchiveError(f"{name} belongs to {store_rules.describe_scope(owner)}. Put it back where it was.")
        if "retire" in head:
            return Entry(None, retired=head["retire"])
        new: dict[str, bytes] = {}
        parts = [_decode_part(line, held_bodies, new) for line in lines[1:]]
        return Entry(store_rules.record_from_fields(scope, head["record"]), parts)
    except (LookupError, TypeError, ValueError) as error:
        raise ArchiveError(f"{name} can't be read: {error!r}. Restore it from a backup.") from error


def decode_head(line: bytes) -> EntryHead | None:
    """Return what the first line of a file says; None if it can't be read."""
    with suppress(ArchiveError):
        match head := codec.decode(line):
            case {"namespace": str(namespace), "thread": str(thread), "record": {"id": str(record_id)}}:
                return EntryHead(Scope(namespace, thread), record_id, _is_unreleased(head))
            case {"namespace": str(namespace), "thread": str(thread)}:
                return EntryHead(Scope(namespace, thread), None, _is_unreleased(head))
    return None


def _is_unreleased(head: Mapping[str, object]) -> bool:
    """Return whether a first line is of a version before the first release."""
    return head.get(_HEAD_KEY, 0 if "version" in head else None) in range(store_rules.ARCHIVE_VERSION)


def _encode_part(part: Part, *, is_held: bool) -> bytes:
    fields = {"turn": part.turn, "role": part.role, "origin": part.origin, "hash": part.hash, "text": part.text}
    if is_held:
        return codec.encode(fields)
    if _is_one_line_of_json(part.body):
        return codec.encode(fields)[:-1] + _MESSAGE_FIELD + part.body + b"}"
    return codec.encode({**fields, "base64": base64.b64encode(part.body).decode("ascii")})


def _decode_part(line: bytes, held_bodies: Mapping[str, bytes], new: dict[str, bytes]) -> Part:
    # Inside a JSON string the quotes would be escaped, and no field before the message holds an object of its own.
    head, found, body = line.partition(_MESSAGE_FIELD)
    fields = codec.decode(head + b"}" if found else line)
    if found:
        body = body[:-1]
    elif "base64" in fields:
        body = base64.b64decode(fields["base64"])
    else:
        body = held_bodies[fields["hash"]] if fields["hash"] in held_bodies else new[fields["hash"]]
    new[fields["hash"]] = body
    return Part(fields["hash"], body, fields["turn"], fields["role"], fields["origin"], fields["text"])


def _is_one_line_of_json(body: bytes) -> bool:
    try:
        json.loads(body.decode())
    except (ValueError, RecursionError):
        return False
    return b"\n" not in body and b"\r" not in body
