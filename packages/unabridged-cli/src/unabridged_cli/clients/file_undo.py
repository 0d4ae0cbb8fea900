"""Compactions taken out of a client's session: what they replaced is still in the file, above them.

Clients only ever add to their files, and so do we. So the way back needs no archive: the lines that a compaction put in
go, and a line behind them that named one of them names what stood there before. Every other line is the very line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from unabridged.formats import Message
from unabridged.sessions.base import Entry, FileLine, LineFile, LoadedFile, SessionCompaction, SessionFormat
from unabridged.sessions.files import SESSION_FORMATS
from unabridged.sessions.text import ADDED_LINE_BREAK, check_unchanged, read_lines


class FileUndoResult(NamedTuple):
    """A session without some of its compactions."""

    compactions: int
    """How many were taken out."""
    lines: list[bytes]
    """The file, line by line."""
    messages: list[Message]
    """The conversation that its client would send then."""


def undo_compactions_in_file(loaded: LoadedFile, *, every: bool = False) -> FileUndoResult | None:
    """Return the session without its newest compaction (`every`: without all); None if its file can't be undone."""
    if loaded.kind not in SESSION_FORMATS or not isinstance(loaded.source, LineFile):
        return None
    client = SESSION_FORMATS[loaded.kind]
    check_unchanged(loaded.path, loaded.source.stamp)
    all_lines = loaded.source.lines or read_lines(loaded.path, loaded.source.stamp)
    lines = [line for line in all_lines if line.start < loaded.source.complete_size]
    count = 0
    while (count == 0 or every) and (newest := client.newest_compaction(_read_session_entries(client, lines))):
        lines = _remove_compaction(lines, newest)
        count += 1
    if not count:
        return None
    messages = client.read(_read_session_entries(client, lines)).messages
    return FileUndoResult(count, [line.raw for line in lines], messages)


def _filter_object_lines(lines: list[FileLine]) -> Iterator[FileLine]:
    """Yield the lines that are a client's own."""
    return (line for line in lines if isinstance(line.value, dict))


def _read_session_entries(client: SessionFormat, lines: list[FileLine]) -> list[Entry]:
    return [client.read_entry(line.value) for line in _filter_object_lines(lines)]


def _remove_compaction(lines: list[FileLine], compaction: SessionCompaction) -> list[FileLine]:
    """Return all lines but the compaction's; the last without its line break, where the one that went says so."""
    first = list(_filter_object_lines(lines))[min(compaction.lines)]
    left = list(_drop_and_relink_lines(lines, compaction))
    if left and left[-1].number <= first.number and first.raw.endswith(ADDED_LINE_BREAK):
        left[-1] = left[-1]._replace(raw=left[-1].raw.removesuffix(b"\n"))
    return left


def _drop_and_relink_lines(lines: list[FileLine], compaction: SessionCompaction) -> Iterator[FileLine]:
    """Yield all lines except the compaction's; later lines that refer to them refer to the lines before instead."""
    numbers = {line.number: number for number, line in enumerate(_filter_object_lines(lines))}
    names = "|".join(map(re.escape, compaction.replacements))
    links = re.compile(rf'("(?:{compaction.link_fields})"\s*:\s*")({names})"'.encode()) if names else None
    for line in lines:
        number = numbers.get(line.number, -1)
        if number not in compaction.lines:
            is_behind = number > min(compaction.lines)
            yield _relink_line(line, links, compaction.replacements) if links and is_behind else line


def _relink_line(line: FileLine, links: re.Pattern[bytes], replacements: Mapping[str, str]) -> FileLine:
    """Replace the ids of removed lines in a line's own link fields, and return the line.

    Text that a message quotes may look like a link, so a replacement counts only if no nested field changes.
    """
    raw, value = line.raw, line.value
    for link in reversed(list(links.finditer(line.raw))):
        new = b'%b%b%b"' % (raw[: link.start()], link[1], replacements[link[2].decode()].encode()) + raw[link.end() :]
        changed = json.loads(new)
        if _has_equal_non_text_fields(changed, value):
            raw, value = new, changed
    return line._replace(raw=raw, value=value)


def _has_equal_non_text_fields(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Return whether all fields of the two are equal but those that are texts."""
    return all(one[name] == other[name] for name in other if not isinstance(other[name], str))
