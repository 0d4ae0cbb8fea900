"""The transcript of one thread: a text file with everything that left its context, in order, for people and tools.

    # t1

    namespace default, thread t1

    --- turn 0 · user, person · sha256:9f3a1c2e4b5d
    What that message said.

    === 1 messages, up to turn 0, record 9f3a1c2e4b5d, 95 bytes

Its first lines say whose it is. It is added to where what is new comes last, and made anew where it belongs in between.
Its last line says how far it goes and where that line begins: a file whose end a crash or an editor cut off does not
end so, and is made anew. A line of a message that looks like one of these marks is set in by a space.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from unabridged.archive.protocol import Part, Scope
from unabridged.archive.stores.files import to_folder_name, write_atomically
from unabridged.text_tools import to_one_line

_END_LINE: Final = "=== {messages} messages, up to turn {turn}, record {record}, {at} bytes\n"
_END_LINE_PATTERN: Final = re.compile(rb"=== (\d+) messages, up to turn (-?\d+), record ([^\s,]+), (\d+) bytes\n\Z")
_MAX_END_LINE_BYTES: Final = 200
"""Bytes that the last line takes at most."""
_FORGED_LINE_PATTERN: Final = re.compile(r"(?<![^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])(?=--- turn |=== )")
"""Where a line of a message begins like one of ours."""
_NO_RECORD: Final = "-"


class TranscriptEnd(NamedTuple):
    """How far a transcript goes: its messages, its last turn, the newest record that it knows, and where it ends."""

    messages: int
    turn: int
    record: str
    at: int


@dataclass(frozen=True, slots=True)
class TranscriptSource:
    """The archived thread that a transcript is written from."""

    count: int
    """How many messages have left its context."""
    newest: str
    """The id of the record that was stored last."""
    has_record: Callable[[str], bool]
    """Returns whether the thread has the record: else the file was written from another conversation."""
    parts_since: Callable[[TranscriptEnd | None], Sequence[Part]]
    """Returns the messages that a file lacks that goes so far, where they come after what it has; all with None."""


def write_transcript(path: Path, scope: Scope, source: TranscriptSource) -> None:
    """Write all that the source has into the transcript."""
    if (end := _read_end(path)) is not None and (end.messages, end.record) == (source.count, source.newest):
        return
    new = _find_new_parts(end, source)
    if end is None or new is None:
        write_atomically(path, _render_whole(scope, source.newest, source.parts_since(None)))
        return
    rendered = _render_parts(new)
    last = new[-1].turn if new else end.turn
    with path.open("r+b") as file:
        file.seek(end.at)
        end = TranscriptEnd(end.messages + len(new), last, source.newest, end.at + len(rendered))
        file.write(rendered + _render_end_line(end))
        file.truncate()


def write_empty_transcript(path: Path, scope: Scope) -> None:
    """Write a transcript that names its thread and has nothing else."""
    write_atomically(path, _render_whole(scope, _NO_RECORD, ()))


def is_transcript_of(path: Path, scope: Scope) -> bool:
    """Return whether the path is a file, no link, whose first lines say that it is the transcript of this thread."""
    head = _render_head(scope)
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with path.open("rb") as file:
            return file.read(len(head)) == head
    except FileNotFoundError:
        return False


def _find_new_parts(end: TranscriptEnd | None, source: TranscriptSource) -> list[Part] | None:
    """Return what is to be added to a file that goes so far, in order; None where all of it has to be written anew."""
    if end is None or end.messages > source.count or not source.has_record(end.record):
        return None
    new = sorted(source.parts_since(end), key=attrgetter("turn")) if end.messages < source.count else []
    in_between = bool(new) and new[0].turn < end.turn
    return None if in_between or end.messages + len(new) != source.count else new


def _render_head(scope: Scope) -> bytes:
    names = f"namespace {to_folder_name(scope.namespace)}, thread {to_folder_name(scope.thread)}"
    return f"# {to_one_line(scope.thread)}\n\n{names}\n\n".encode("utf-8", "backslashreplace")


def _render_whole(scope: Scope, record_id: str, parts: Sequence[Part]) -> bytes:
    ordered = sorted(parts, key=attrgetter("turn"))
    rendered, last = _render_head(scope) + _render_parts(ordered), ordered[-1].turn if ordered else -1
    return rendered + _render_end_line(TranscriptEnd(len(parts), last, record_id, len(rendered)))


def _render_parts(parts: Iterable[Part]) -> bytes:
    lines: list[str] = []
    for part in parts:
        who = part.role if part.role == part.origin else f"{part.role}, {part.origin}"
        lines += [f"--- turn {part.turn} · {who} · {part.hash[:19]}\n{_FORGED_LINE_PATTERN.sub(' ', part.text)}\n\n"]
    return "".join(lines).encode("utf-8", "backslashreplace")


def _render_end_line(end: TranscriptEnd) -> bytes:
    return _END_LINE.format(**end._asdict()).encode("utf-8", "backslashreplace")


def _read_end(path: Path) -> TranscriptEnd | None:
    """Return how far the file goes; None where there is none, or it does not end as we end one."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MAX_END_LINE_BYTES))
            found = _END_LINE_PATTERN.search(file.read())
    except OSError:
        return None
    if found is None:
        return None
    messages, turn, record_id, at = found.groups()
    end = TranscriptEnd(int(messages), int(turn), record_id.decode("utf-8", "replace"), int(at))
    return end if end.at == size - len(found[0]) else None
