"""A line-based session with a new list of messages: lines that stay are copied, the rest is made by the client's rules.

The order of the output is that of the new list. A line that is no message (progress, a snapshot, an event) goes with
the message in front of it; one that belongs to nobody always stays. Where a client links its lines into a chain, the
first line after a cut gets a new link, and that one field is all that changes in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from unabridged.formats import Format, Message, format_named
from unabridged.formats.fields import plain
from unabridged.sessions.loaded import FREE, PAST, Lines, Loaded
from unabridged.sessions.text import dump, raw_line

Entry = dict[str, Any]
"""What one line says."""

# -- which of the messages that were read stand in the new list -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """A message of the new list, and the index of the one it was: None for a new one."""

    message: Message
    index: int | None
    same: bool
    """Whether nothing about it changed."""


def match(loaded: Loaded, new: Sequence[Message]) -> list[Match]:
    """Find each message of the new list among those that were read.

    First by identity, which is what the engine promises for a message that stays. What is left was edited (a cleared
    result, dropped reasoning) or copied: its call ids, else its text, say which one it was.
    """
    places = {id(message): index for index, message in enumerate(loaded.messages)}
    taken: set[int] = set()
    found: list[int | None] = []
    for message in new:
        index = places.get(id(message))
        if index is not None and index in taken:
            index = None
        found.append(index)
        if index is not None:
            taken.add(index)
    if None in found:
        _find_edited(loaded, new, found, taken)
    return [
        Match(
            message,
            index,
            index is not None and (loaded.messages[index] is message or loaded.messages[index] == message),
        )
        for message, index in zip(new, found, strict=True)
    ]


def _find_edited(loaded: Loaded, new: Sequence[Message], found: list[int | None], taken: set[int]) -> None:
    format_ = format_named(loaded.format)
    left: dict[Hashable, list[int]] = {}
    for index in range(len(loaded.messages) - 1, -1, -1):
        if index not in taken:
            left.setdefault(_likeness(format_, loaded.messages[index]), []).append(index)
    for place, message in enumerate(new):
        if found[place] is None and (candidates := left.get(_likeness(format_, message))):
            found[place] = candidates.pop()


def _likeness(format_: Format, message: Message) -> Hashable:
    """What an edit leaves alone: who speaks, and the ids of calls and answers; for plain text the text itself."""
    view = format_.read(message)
    ids = tuple(call.id for call in view.calls), tuple(answer.call_id for answer in view.answers)
    return (view.role, ids) if any(ids) else (view.role, view.text or id(message))


def is_summary(loaded: Loaded, found: Match) -> bool:
    """Whether this is a new turn that only speaks, in the user's place: the summary turn of a compaction."""
    if found.index is not None:
        return False
    view = format_named(loaded.format).read(found.message)
    return view.role == "user" and not view.answers and not view.calls


# -- the new file -----------------------------------------------------------------------------------------------------


class LineWriter:
    """How lines of our own are written. As it is for plain JSON Lines: a message a line, no chain, no mark."""

    names: tuple[str, str] | None = None
    """The fields that link lines into a chain: its own id and its parent's. None where there is no chain."""

    def __init__(self, loaded: Loaded, lines: Lines, tokens_before: int) -> None:
        self.loaded, self.lines, self.tokens_before = loaded, lines, tokens_before

    def marked_range(self, matches: Sequence[Match], summary: int | None) -> tuple[int, int] | None:
        """The range of the new list that the mark of the compaction holds; None when no mark is needed."""
        del matches, summary
        return None

    def mark(self, messages: Sequence[Message], dropped: int, parent: str | None) -> list[Entry]:
        """The lines that stand for a compaction, summary included."""
        raise NotImplementedError

    def new_lines(self, message: Message, parent: str | None) -> list[Entry]:
        """The lines of a message that was not in the file."""
        del parent
        return [plain(message)]

    def edited_lines(self, message: Message, entries: Sequence[Entry]) -> list[Entry | None]:
        """Each line of an edited message: the same object where it says what it said, None where it has to go."""
        return [plain(message), *(None for _ in entries[1:])]


@dataclass(slots=True)
class _Out:
    """Copies and makes lines, and links each one to what is now in front of it."""

    lines: Lines
    stream: BinaryIO
    names: tuple[str, str] | None
    waiting: list[int]
    """Lines that stay without belonging to a message that does, the first one last."""
    linked: set[str] = field(default_factory=set)
    """Lines written since the chain was last cut: a link to one of them still holds."""
    newest: str | None = None
    cut: bool = False
    """Whether the next message follows something else than it did."""
    last: int = -1
    """Index of the newest message that was copied."""

    def flush(self, before: int) -> Iterator[bytes]:
        """The waiting lines that stood before line `before`."""
        while self.waiting and self.waiting[-1] < before:
            number = self.waiting.pop()
            yield self.copy(number, raw_line(self.stream, self.lines, number), first=False)

    def copy(self, number: int, raw: bytes, *, first: bool) -> bytes:
        """The line as it is, with its parent replaced where the chain was cut."""
        if self.names is None or (own := self.lines.ids[number]) is None:
            return raw
        if number in self.lines.path:
            parent = self.lines.parents[number]
            lost = parent not in self.linked and number not in self.lines.roots
            if lost or (first and self.cut):
                raw = raw if parent == self.newest else relink(raw, self.names[1], self.newest)
            if first and self.cut:
                self.cut = False
                self.linked.clear()
            self.newest = own
        self.linked.add(own)
        return raw

    def add(self, entries: Sequence[Entry]) -> Iterator[bytes]:
        """Lines of our own."""
        for entry in entries:
            if self.names is not None:
                self.newest = str(entry[self.names[0]])
                self.linked = {self.newest}
            yield dump(entry)
        self.cut = True


@dataclass(frozen=True, slots=True)
class _Step:
    """What comes next: the mark of the compaction, a message of our own, or lines to copy."""

    matches: Sequence[Match]
    numbers: Sequence[int] = ()
    """Lines to copy, in the file's own order."""
    mark: bool = False


def rewrite_lines(loaded: Loaded, lines: Lines, matches: Sequence[Match], writer: LineWriter) -> Iterator[bytes]:
    """The new file, in pieces."""
    dropped = len(loaded.messages) - sum(found.index is not None for found in matches)
    # Nothing went, but something stands before an earlier summary: that takes a mark, too, or it would not be found.
    looked_at = matches if dropped else matches[:1] if lines.summaries else ()
    summary = next((i for i, found in enumerate(looked_at) if is_summary(loaded, found)), None)
    marked = writer.marked_range(matches, summary)
    if marked:
        # The line of an earlier summary would be taken for the newest one: what it says becomes a turn like others.
        matches = [Match(m.message, None, same=False) if m.index in lines.summaries else m for m in matches]
    past_stays = marked is None and not lines.seams
    waiting = [n for n, owner in enumerate(lines.owners) if owner == FREE or (owner == PAST and past_stays)]
    steps = _steps(lines, matches, marked)
    with loaded.path.open("rb") as stream:
        out = _Out(lines, stream, writer.names, waiting[::-1])
        for place, step in enumerate(steps):
            following = next((later.numbers[0] for later in steps[place:] if later.numbers), len(lines))
            yield from out.flush(following)
            if step.mark:
                yield from out.add(writer.mark([found.message for found in step.matches], dropped, out.newest))
            elif step.matches[0].index is None:
                yield from out.add(writer.new_lines(step.matches[0].message, out.newest))
            else:
                yield from _copy_lines(loaded, step, writer, out)
        yield from out.flush(len(lines))


def _steps(lines: Lines, matches: Sequence[Match], marked: tuple[int, int] | None) -> list[_Step]:
    own: dict[int, list[int]] = {}
    for number, owner in enumerate(lines.owners):
        if owner >= 0:
            own.setdefault(owner, []).append(number)
    steps, at = list[_Step](), 0
    while at < len(matches):
        if marked and at == marked[0]:
            steps.append(_Step(matches[slice(*marked)], mark=True))
            at, marked = marked[1], None
            continue
        stop = at + 1
        while stop < len(matches) and not (marked and stop == marked[0]) and _side_by_side(lines, matches, stop):
            stop += 1
        run = matches[at:stop]
        numbers = sorted(n for found in run if found.index is not None for n in own.get(found.index, ()))
        steps.append(_Step(run, numbers))
        at = stop
    return steps


def _side_by_side(lines: Lines, matches: Sequence[Match], at: int) -> bool:
    """Whether the message stays, and right behind the one it stood behind, so that their lines may interleave."""
    here, before = matches[at], matches[at - 1]
    if not (here.same and before.same) or here.index is None or before.index is None:
        return False
    return here.index == before.index + 1 and here.index not in lines.seams


def _copy_lines(loaded: Loaded, step: _Step, writer: LineWriter, out: _Out) -> Iterator[bytes]:
    """The lines of messages that stay, and those of an edited one as they read now."""
    indices = [found.index for found in step.matches if found.index is not None]
    changed = _changes(loaded, step.matches[0], writer, out.stream)
    firsts = {loaded.lines[index][0] for index in indices}
    out.cut = out.cut or indices[0] in out.lines.seams or indices[0] - 1 != out.last
    for number in step.numbers:
        yield from out.flush(number)
        if number not in changed:
            yield out.copy(number, raw_line(out.stream, out.lines, number), first=number in firsts)
        elif (entry := changed[number]) is not None:
            yield out.copy(number, dump(entry), first=number in firsts)
    out.last = indices[-1]


def _changes(loaded: Loaded, found: Match, writer: LineWriter, stream: BinaryIO) -> dict[int, Entry | None]:
    """What the lines of an edited message say now, by their number."""
    if found.same or found.index is None:
        return {}
    where = loaded.lines[found.index]
    entries = [json.loads(raw_line(stream, writer.lines, number)) for number in where]
    edited = zip(where, entries, writer.edited_lines(found.message, entries), strict=True)
    return {number: new for number, old, new in edited if new is not old}


def relink(raw: bytes, name: str, parent: str | None) -> bytes:
    """The line with another parent and every other byte as it was."""
    entry = json.loads(raw)
    wanted = {**entry, name: parent}
    value = json.dumps(parent).encode()
    for found in re.finditer(rb'"%s"\s*:\s*(null|"[^"\\]*")' % name.encode(), raw):
        line = raw[: found.start(1)] + value + raw[found.end(1) :]
        if json.loads(line) == wanted:  # and not a field of the same name further down
            return line
    return dump(wanted)
