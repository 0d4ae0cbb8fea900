"""Compactions taken out of a client's session: what they replaced is still in the file, above them.

Clients only ever add to their files, and so do we. So the way back needs no archive: the lines that a compaction put in
go, and a line behind them that named one of them names what stood there before. Every other line is the very line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unabridged.formats import Message
from unabridged.sessions.files import CLIENTS
from unabridged.sessions.loaded import Client, Compaction, Entry, Line, Lines, Loaded
from unabridged.sessions.text import UNENDED, check_unchanged, read_lines


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A session without some of its compactions."""

    compactions: int
    """How many were taken out."""
    lines: list[bytes]
    """The file, line by line."""
    messages: list[Message]
    """The conversation that its client would send then."""


def take_back(loaded: Loaded, *, every: bool = False) -> TakenBack | None:
    """The session without its newest compaction, or without any; None when it has none that the file can take back."""
    if loaded.kind not in CLIENTS or not isinstance(loaded.source, Lines):
        return None
    client = CLIENTS[loaded.kind]
    check_unchanged(loaded.path, loaded.source.stamp)
    found_there = loaded.source.kept or read_lines(loaded.path, loaded.source.stamp)
    lines = [line for line in found_there if line.start < loaded.source.whole]
    count = 0
    while (count == 0 or every) and (found := client.newest_compaction(_entries(client, lines))):
        lines = _ended_as_before(list(_without(lines, found)), _first_line(lines, found))
        count += 1
    if not count:
        return None
    session = client.read(_entries(client, lines))
    return TakenBack(count, [line.raw for line in lines], session.messages)


def _objects(lines: list[Line]) -> Iterator[Line]:
    """The lines that are looked at: a client's own."""
    return (line for line in lines if isinstance(line.value, dict))


def _entries(client: Client, lines: list[Line]) -> list[Entry]:
    return [client.entry_of(line.value) for line in _objects(lines)]


def _without(lines: list[Line], compaction: Compaction) -> Iterator[Line]:
    """All lines but the compaction's; those behind it linked to what is there."""
    numbers = {line.number: number for number, line in enumerate(_objects(lines))}
    names = "|".join(map(re.escape, compaction.instead))
    links = re.compile(rf'("(?:{compaction.links})"\s*:\s*")({names})"'.encode()) if names else None
    for line in lines:
        number = numbers.get(line.number, -1)
        if number in compaction.lines:
            continue
        behind = number > min(compaction.lines)
        yield _linked(line, links, compaction.instead) if links and behind else line


def _first_line(lines: list[Line], compaction: Compaction) -> Line:
    return list(_objects(lines))[min(compaction.lines)]


def _ended_as_before(lines: list[Line], gone: Line) -> list[Line]:
    """The lines that are left; the last one without its line break, where the one that went says so."""
    if not lines or lines[-1].number > gone.number or not gone.raw.endswith(UNENDED):
        return lines
    return [*lines[:-1], lines[-1]._replace(raw=lines[-1].raw.removesuffix(b"\n"))]


def _linked(line: Line, links: re.Pattern[bytes], instead: Mapping[str, str]) -> Line:
    """The line with the names of lines that went replaced where it gives them; nothing else of it changes.

    What it quotes looks the same. So of all places that look like a link, only those count whose change changes no more
    than the line's own fields.
    """
    raw, value = line.raw, line.value
    for found in reversed(list(links.finditer(line.raw))):
        new = b'%b%b%b"' % (raw[: found.start()], found[1], instead[found[2].decode()].encode()) + raw[found.end() :]
        changed = json.loads(new)
        if _same_inside(changed, value):
            raw, value = new, changed
    return line._replace(raw=raw, value=value)


def _same_inside(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether all fields of the two are equal but those that are texts."""
    return all(one[name] == other[name] for name in other if not isinstance(other[name], str))
