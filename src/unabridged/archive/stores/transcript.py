"""The transcript of a thread, for people and for tools that read files. The JSONL beside it is the truth.

It is added to where what is new comes last, and made anew where it belongs in between. Its last line says how far it
goes and where that line begins: a file whose end a crash or an editor cut off does not end so, and is made anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from unabridged.archive.protocol import Part, Scope
from unabridged.archive.stores.files import write_whole

_END: Final = "=== {files} files, {messages} messages, up to turn {turn}, {at} bytes\n"
_ENDS: Final = re.compile(rb"=== (\d+) files, (\d+) messages, up to turn (-?\d+), (\d+) bytes\n\Z")
_LONGEST: Final = 160
"""Bytes that the last line takes at most."""


class _End(NamedTuple):
    """How far a transcript goes: the thread's files and messages that are in it, its last turn, and where it ends."""

    files: int
    messages: int
    turn: int
    at: int


def bring_up_to_date(path: Path, scope: Scope, files: int, parts: Sequence[Part]) -> None:
    """Let the transcript say all of these parts, which come in the order they were stored in so many files."""
    end = _end_of(path)
    if end is not None and end.files == files and end.messages == len(parts):
        return
    new = sorted(parts[end.messages :], key=attrgetter("turn")) if end is not None else []
    if end is None or end.messages > len(parts) or (new and new[0].turn < end.turn):
        write_whole(path, _whole(scope, files, parts))
        return
    rendered = _render(new)
    last = new[-1].turn if new else end.turn
    with path.open("r+b") as file:
        file.seek(end.at)
        file.write(rendered + _line(_End(files, len(parts), last, end.at + len(rendered))))
        file.truncate()


def _whole(scope: Scope, files: int, parts: Sequence[Part]) -> bytes:
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
