"""The files in a thread's folder: one of JSON lines for each entry of its log, and the transcript for people.

The first line of an entry is the record, with the names of namespace and thread; each line after it is a part, its
message last and as it stands, or left out when the thread has it already. A line `{"retire": id}` takes a record out
of look-ups. These files are the truth.

The transcript is added to where what is new comes last, and made anew where it belongs in between. Its last line says
how far it goes and where that line begins: a file whose end a crash or an editor cut off does not end so, and is made
anew.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from unabridged.archive import codec, store_rules
from unabridged.archive.protocol import Part, Scope
from unabridged.archive.stores.base_log import Entry
from unabridged.archive.stores.files import write_whole
from unabridged.errors import ArchiveError

VERSION: Final = 1
_MESSAGE: Final = b',"message":'
_END: Final = "=== {files} files, {messages} messages, up to turn {turn}, {at} bytes\n"
_ENDS: Final = re.compile(rb"=== (\d+) files, (\d+) messages, up to turn (-?\d+), (\d+) bytes\n\Z")
_LONGEST: Final = 160
"""Bytes that the last line takes at most."""


class Head(NamedTuple):
    """What the first line says: whose file it is, and which record it brings, if any."""

    scope: Scope
    record_id: str | None


def write_entry(scope: Scope, entry: Entry, held: Collection[str]) -> bytes:
    """The file of one entry; messages with the hashes in `held` are in an earlier file."""
    record = {"retire": entry.retired} if entry.record is None else {"record": store_rules.record_fields(entry.record)}
    lines = [codec.encode({"version": VERSION, "namespace": scope.namespace, "thread": scope.thread, **record})]
    written: set[str] = set()
    for part in entry.parts:
        lines.append(_write_part(part, is_held=part.hash in held or part.hash in written))
        written.add(part.hash)
    return b"".join(line + b"\n" for line in lines)


def read_entry(data: bytes, name: str, scope: Scope, held: Mapping[str, bytes]) -> Entry:
    """The entry that the file has; an `ArchiveError` with its name when it can't be read, or is another thread's.

    `held` has the earlier messages.
    """
    if not data.endswith(b"\n"):
        raise ArchiveError(f"{name} was cut off. Restore it from a backup.")
    lines = data.split(b"\n")[:-1]
    try:
        head = codec.decode(lines[0])
        if head["version"] != VERSION:
            raise ArchiveError(
                f"{name} is of version {head['version']}, this program knows {VERSION}. Update unabridged."
            )
        owner = Scope(head["namespace"], head["thread"])
        if owner != scope:
            raise ArchiveError(f"{name} belongs to {store_rules.describe(owner)}. Put it back where it was.")
        if "retire" in head:
            return Entry(None, retired=head["retire"])
        new: dict[str, bytes] = {}
        parts = [_read_part(line, held, new) for line in lines[1:]]
        return Entry(store_rules.record_of(scope, head["record"]), parts)
    except (LookupError, TypeError, ValueError) as error:
        raise ArchiveError(f"{name} can't be read: {error!r}. Restore it from a backup.") from error


def read_head(line: bytes) -> Head | None:
    """What the first line of a file says; None if it can't be read."""
    with suppress(ArchiveError):
        match codec.decode(line):
            case {"namespace": str(namespace), "thread": str(thread), "record": {"id": str(record_id)}}:
                return Head(Scope(namespace, thread), record_id)
            case {"namespace": str(namespace), "thread": str(thread)}:
                return Head(Scope(namespace, thread), None)
    return None


def _write_part(part: Part, *, is_held: bool) -> bytes:
    fields = {"turn": part.turn, "role": part.role, "origin": part.origin, "hash": part.hash, "text": part.text}
    if is_held:
        return codec.encode(fields)
    if _is_one_line_of_json(part.body):
        return codec.encode(fields)[:-1] + _MESSAGE + part.body + b"}"
    return codec.encode({**fields, "base64": base64.b64encode(part.body).decode("ascii")})


def _read_part(line: bytes, held: Mapping[str, bytes], new: dict[str, bytes]) -> Part:
    # Inside a JSON string the quotes would be escaped, and no field before the message holds an object of its own.
    head, found, body = line.partition(_MESSAGE)
    fields = codec.decode(head + b"}" if found else line)
    if found:
        body = body[:-1]
    elif "base64" in fields:
        body = base64.b64decode(fields["base64"])
    else:
        body = held[fields["hash"]] if fields["hash"] in held else new[fields["hash"]]
    new[fields["hash"]] = body
    return Part(fields["hash"], body, fields["turn"], fields["role"], fields["origin"], fields["text"])


def _is_one_line_of_json(body: bytes) -> bool:
    try:
        json.loads(body.decode())
    except (ValueError, RecursionError):
        return False
    return b"\n" not in body and b"\r" not in body


class _End(NamedTuple):
    """How far a transcript goes: the thread's files and messages that are in it, its last turn, and where it ends."""

    files: int
    messages: int
    turn: int
    at: int


def write_transcript(path: Path, scope: Scope, files: int, parts: Sequence[Part]) -> None:
    """Let the transcript say all of these parts, which come in the order they were stored in so many files."""
    end = _end_of(path)
    if end is not None and end.files == files and end.messages == len(parts):
        return
    new = sorted(parts[end.messages :], key=attrgetter("turn")) if end is not None else []
    if end is None or end.messages > len(parts) or (new and new[0].turn < end.turn):
        write_whole(path, _render_whole(scope, files, parts))
        return
    rendered = _render(new)
    last = new[-1].turn if new else end.turn
    with path.open("r+b") as file:
        file.seek(end.at)
        file.write(rendered + _line(_End(files, len(parts), last, end.at + len(rendered))))
        file.truncate()


def _render_whole(scope: Scope, files: int, parts: Sequence[Part]) -> bytes:
    ordered = sorted(parts, key=attrgetter("turn"))
    rendered = f"# {scope.thread}\n\n".encode("utf-8", "backslashreplace") + _render(ordered)
    return rendered + _line(_End(files, len(parts), ordered[-1].turn if ordered else -1, len(rendered)))


def _render(parts: Iterable[Part]) -> bytes:
    lines: list[str] = []
    for part in parts:
        who = part.role if part.role == part.origin else f"{part.role}, {part.origin}"
        lines += [f"--- turn {part.turn} · {who} · {part.hash[:19]}\n{part.text}\n\n"]
    return "".join(lines).encode("utf-8", "backslashreplace")


def _line(end: _End) -> bytes:
    return _END.format(**end._asdict()).encode()


def _end_of(path: Path) -> _End | None:
    """How far the file goes; None where there is none, or it does not end as we end one."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LONGEST))
            found = _ENDS.search(file.read())
    except OSError:
        return None
    end = _End(*map(int, found.groups())) if found else None
    return end if end is not None and found is not None and end.at == size - len(found[0]) else None
