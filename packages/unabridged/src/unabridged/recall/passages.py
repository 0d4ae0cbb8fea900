"""Matches as passages: each in its surroundings, and what belongs to one place of the conversation shown together.

A passage begins with its best match and grows: a match that it already shows brings its own neighbours, a short one
directly beside it joins it. So a long exchange about one thing is read as one, and no message is shown twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from unabridged.archive.protocol import Archive, Hit, Part, Scope
from unabridged.archive.references import make_reference
from unabridged.formats import Format
from unabridged.recall.excerpts import find_best_stretch, split_by_voice
from unabridged.recall.results import LIVE_LABEL, Found, Neighbour, Result
from unabridged.text_tools import quote

MAX_RESULTS: Final = 20
"""Results of one search in their surroundings; further matches follow in a line each."""
_CHARACTERS_EACH: Final = 1_400
"""What a result may take, on average, when few are asked for."""
_LINE_CHARACTERS: Final = 160
"""Of a long message that is shown in a line."""
_WIDE_CHARACTER_PATTERN: Final = re.compile("[^\u0000-\u2e7f]")


@dataclass(slots=True)
class _Passage:
    result: Result
    near: dict[int, Neighbour] = field(default_factory=dict)
    """What is shown beside the result, by turn."""

    def build(self) -> Result:
        before, after = self.result.turn - 1, self.result.turn + 1
        more = tuple(self.near[turn] for turn in sorted(self.near) if turn not in {before, after})
        return replace(self.result, before=self.near.get(before), after=self.near.get(after), more=more)


def gather_passages(
    archive: Archive,
    scope: Scope,
    query: str,
    hits: Sequence[Hit],
    limit: int,
    *,
    room: int,
    format: Format | None,  # noqa: A002 - the word every part uses for it
    live: Sequence[Part] = (),
) -> Found:
    """Return the best `limit` matches as passages, then others in a line each, in about `room` characters of text."""
    limit = min(max(limit, 1), MAX_RESULTS)
    room = min(room, max(limit, 2) * _CHARACTERS_EACH)
    builder = _PassageBuilder(archive, scope, query, room=room, format_=format, live=live)
    best, joined = hits[:limit], 0
    for number, hit in enumerate(best):
        passage = builder.find_passage(hit)
        if passage is not None:
            joined += 1
            builder.add_neighbours(passage, builder.read_around(hit))
        elif not builder.open_passage(hit):
            best = best[:number]
            break
    others = builder.build_lines(hits[limit:]) if len(best) == len(hits[:limit]) else ()
    results = [passage.build() for passage in builder.passages]
    while len(results) > 1 and _count_weighted_characters(Found(query, tuple(results), 1, others).text()) > room:
        others, results = (others[:-1], results) if others else (others, results[:-1])
    return Found(query, tuple(results), max(len(hits[:limit]) - joined - len(results), 0), others)


class _PassageBuilder:
    """The passages of a search so far, where each message is shown, and the room that is left."""

    def __init__(
        self, archive: Archive, scope: Scope, query: str, *, room: int, format_: Format | None, live: Sequence[Part]
    ) -> None:
        self.passages: list[_Passage] = []
        self._archive, self._scope, self._query, self._format, self._live = archive, scope, query, format_, live
        self._live_hashes = frozenset(part.hash for part in live)
        self._width, self._beside = min(max(room // 6, 120), 500), min(max(room // 20, 60), 500)
        """Characters that are shown of a result and of its neighbours."""
        self._left = room - _count_weighted_characters(Found(query).head()) - 60
        self._near: dict[tuple[int, str], Sequence[Part]] = {}
        """What was read around each hit."""
        self._shown: dict[tuple[int, str], _Passage] = {}
        """Where a message is shown in full, by turn and hash: a turn may have several versions, in branches."""

    def find_passage(self, hit: Hit) -> _Passage | None:
        """Return the passage that the hit belongs to: one that shows it, or that a short hit stands right beside."""
        passage = self._shown.get((hit.turn, hit.hash))
        if passage is not None or len(hit.text) > self._beside:
            return passage
        beside = ((part.turn, part.hash) for part in self.read_around(hit) if abs(part.turn - hit.turn) == 1)
        return next((self._shown[key] for key in beside if key in self._shown), None)

    def open_passage(self, hit: Hit) -> bool:
        """Begin a passage with this hit; return False when there is no room. The first always finds some."""
        near = self.read_around(hit)
        part = next((part for part in near if (part.turn, part.hash) == (hit.turn, hit.hash)), None)
        if part is None:
            return True  # the thread was forgotten a moment ago
        result = self._build_result(hit, part, self._width)
        cost = _count_weighted_characters(result.text()) + 2
        if self.passages and cost > self._left:
            return False
        self._left -= cost
        passage = _Passage(result)
        self.passages.append(passage)
        if len(result.excerpt) == result.length:
            self._shown[hit.turn, hit.hash] = passage
        self.add_neighbours(passage, near)
        return True

    def add_neighbours(self, passage: _Passage, near: Sequence[Part]) -> None:
        """Add those of the messages to the passage that are not shown yet, as far as there is room."""
        for part in near:
            key = (part.turn, part.hash)
            if part.turn == passage.result.turn or part.turn in passage.near or key in self._shown:
                continue
            line = self._build_neighbour(part)
            if not self._take_room(_count_weighted_characters(line.text) + 4):
                continue
            passage.near[part.turn] = line
            if len(part.text) <= self._beside:
                self._shown[key] = passage

    def build_lines(self, hits: Sequence[Hit]) -> tuple[Neighbour, ...]:
        """Return those of the hits that are not shown yet, each in one line, as far as there is room."""
        lines: list[Neighbour] = []
        for hit in hits:
            if (hit.turn, hit.hash) in self._shown:
                continue
            part = next((part for part in self.read_around(hit, 0, 0) if part.hash == hit.hash), None)
            line = None if part is None else self._build_line(hit, part)
            if line is None or not self._take_room(_count_weighted_characters(line.text) + 4):
                break
            lines.append(line)
        return tuple(lines)

    def read_around(self, hit: Hit, before: int = 1, after: int = 2) -> Sequence[Part]:
        """Return the hit's own part and its neighbours: one before, two after, since answers follow questions."""
        if (known := self._near.get((hit.turn, hit.hash))) is not None:
            return known
        first, last = max(hit.turn - before, 0), hit.turn + after + 1
        near = list(self._archive.parts(self._scope, first, last))
        archived = {(part.turn, part.hash) for part in near}
        near += [part for part in self._live if first <= part.turn < last and (part.turn, part.hash) not in archived]
        near.sort(key=lambda part: part.turn)
        near = [part for part in self._select_same_branch(near, hit) if part.turn != hit.turn or part.hash == hit.hash]
        self._near[hit.turn, hit.hash] = near
        return near

    def _select_same_branch(self, near: Sequence[Part], hit: Hit) -> Sequence[Part]:
        """Return, of several versions of a neighbour, those that left the context together with the hit."""
        if len({part.turn for part in near}) == len(near):
            return near
        records = self._archive.records(self._scope)
        together = {item for record in records if hit.hash in record.before for item in record.before}
        return [part for part in near if part.hash in together] or near

    def _take_room(self, cost: int) -> bool:
        if has_room := cost <= self._left:
            self._left -= cost
        return has_room

    def _build_result(self, hit: Hit, part: Part, width: int) -> Result:
        pieces = split_by_voice(part, self._format)
        best = find_best_stretch(pieces, self._query, width)
        return Result(
            ref=hit.ref or ("" if hit.live else make_reference(self._scope, hit.turn, hit.hash)),
            turn=hit.turn,
            role=hit.role,
            origin=hit.origin,
            whose=pieces[best.piece].whose,
            excerpt=pieces[best.piece].text[best.start : best.stop],
            offset=sum(len(piece.text) for piece in pieces[: best.piece]) + best.start,
            length=sum(len(piece.text) for piece in pieces),
            score=hit.score,
            live=hit.live,
        )

    def _build_line(self, hit: Hit, part: Part) -> Neighbour:
        """Return a match in one line: whole when it is short, else the stretch of it that matches."""
        if len(part.text) <= self._beside:
            return self._build_neighbour(part)
        result = self._build_result(hit, part, _LINE_CHARACTERS)
        live = f"{LIVE_LABEL} " if result.live else ""
        return Neighbour(hit.turn, result.ref, f"[{hit.turn}] {live}{result.whose} {quote(f'…{result.excerpt}…')}")

    def _build_neighbour(self, part: Part) -> Neighbour:
        pieces = split_by_voice(part, self._format)
        width = self._beside if len(part.text) <= self._beside else min(self._beside, _LINE_CHARACTERS)
        shown = ", ".join(f"{piece.whose} {quote(piece.text, width)}" for piece in pieces[:2])
        more = f" and {len(pieces) - 2} more" if len(pieces) > 2 else ""
        live = f"{LIVE_LABEL} " if part.hash in self._live_hashes else ""
        ref = make_reference(self._scope, part.turn, part.hash)
        return Neighbour(part.turn, ref, f"[{part.turn}] {live}{shown}{more}")


def _count_weighted_characters(text: str) -> int:
    """Count characters, those of scripts without spaces three times: they take as many tokens."""
    return len(text) if text.isascii() else len(text) + 2 * len(_WIDE_CHARACTER_PATTERN.findall(text))
