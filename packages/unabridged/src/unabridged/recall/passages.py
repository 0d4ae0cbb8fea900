"""Matches as passages: each in its surroundings, and what belongs to one place of the conversation shown together.

A passage begins with its best match and grows: a match that stands in it already brings its own neighbours, one that
stands directly beside it joins it. So a long exchange about one thing is read as one, and no message is shown twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from unabridged.archive.protocol import Archive, Hit, Part, Scope
from unabridged.archive.references import reference
from unabridged.formats import Format
from unabridged.recall.excerpts import find_place, pieces_of
from unabridged.recall.results import LIVE, Found, Neighbour, Result
from unabridged.text_tools import quote

_WIDE: Final = re.compile("[^\u0000-\u2e7f]")
_Key = tuple[int, str]
"""Turn and hash: a turn may have several versions, in branches."""


class Look(NamedTuple):
    """One search: where, for what, and how many characters of a result and of its neighbours are shown."""

    archive: Archive
    scope: Scope
    query: str
    width: int
    beside: int
    format: Format | None
    live: Sequence[Part] = ()
    """What still stands in the context."""
    standing: frozenset[str] = frozenset()
    """The hashes of these."""


@dataclass(slots=True)
class _Passage:
    result: Result
    near: dict[int, Neighbour] = field(default_factory=dict)
    """What is shown beside the result, by turn."""

    def whole(self) -> Result:
        before, after = self.result.turn - 1, self.result.turn + 1
        more = tuple(self.near[turn] for turn in sorted(self.near) if turn not in {before, after})
        return replace(self.result, before=self.near.get(before), after=self.near.get(after), more=more)


def gather_passages(look: Look, hits: Sequence[Hit], limit: int, room: int) -> Found:
    """The best `limit` matches as passages, then others in a line each, in about `room` characters of text."""
    shelf = _Shelf(look, room - _weight(Found(look.query).head()) - 60)
    best = hits[:limit]
    joined = 0
    for number, hit in enumerate(best):
        passage = shelf.place_of(hit)
        if passage is not None:
            joined += 1
            shelf.grow(passage, hit)
        elif not shelf.open(hit):
            best = best[:number]
            break
    others = shelf.lines(hits[limit:]) if len(best) == len(hits[:limit]) else ()
    results = [passage.whole() for passage in shelf.passages]
    while len(results) > 1 and _weight(Found(look.query, tuple(results), 1, others).text()) > room:
        others, results = (others[:-1], results) if others else (others, results[:-1])
    return Found(look.query, tuple(results), max(len(hits[:limit]) - joined - len(results), 0), others)


class _Shelf:
    """The passages so far, where each message stands, and the room that is left."""

    def __init__(self, look: Look, room: int) -> None:
        self.passages: list[_Passage] = []
        self._look, self._left = look, room
        self._places: dict[_Key, _Passage] = {}
        """Where a message is shown in full."""

    def place_of(self, hit: Hit) -> _Passage | None:
        """The passage that the hit belongs to: it stands in it, or it is short and stands right beside it."""
        known = self._places.get((hit.turn, hit.hash))
        if known is not None or len(hit.text) > self._look.beside:
            return known
        beside = ((part.turn, part.hash) for part in self._around(hit) if abs(part.turn - hit.turn) == 1)
        return next((self._places[key] for key in beside if key in self._places), None)

    def open(self, hit: Hit) -> bool:
        """A passage of its own for this hit; False when there is no room. The first always finds some."""
        near = self._around(hit)
        part = next((part for part in near if (part.turn, part.hash) == (hit.turn, hit.hash)), None)
        if part is None:
            return True  # the thread was forgotten a moment ago
        result = _result(self._look, hit, part)
        cost = _weight(result.text()) + 2
        if self.passages and cost > self._left:
            return False
        self._left -= cost
        made = _Passage(result)
        self.passages.append(made)
        if len(result.excerpt) == result.length:
            self._places[hit.turn, hit.hash] = made
        self._beside(made, near, hit.turn)
        return True

    def grow(self, passage: _Passage, hit: Hit) -> None:
        """What stands beside this hit, and the hit itself, put into the passage as far as there is room."""
        self._beside(passage, self._around(hit), passage.result.turn)

    def lines(self, hits: Sequence[Hit]) -> tuple[Neighbour, ...]:
        """Those of the hits that are not shown yet, each in one line, as far as there is room."""
        found: list[Neighbour] = []
        for hit in hits:
            if (hit.turn, hit.hash) in self._places:
                continue
            part = next((part for part in self._around(hit, 0, 0) if part.hash == hit.hash), None)
            line = None if part is None else _match(self._look, hit, part)
            if line is None or not self._pay(line):
                break
            found.append(line)
        return tuple(found)

    def _pay(self, line: Neighbour) -> bool:
        cost = _weight(line.text) + 4
        if cost > self._left:
            return False
        self._left -= cost
        return True

    def _beside(self, passage: _Passage, near: Sequence[Part], best: int) -> None:
        for part in near:
            key = (part.turn, part.hash)
            if part.turn == best or part.turn in passage.near or key in self._places:
                continue
            line = _neighbour(self._look, part)
            if not self._pay(line):
                continue
            passage.near[part.turn] = line
            if len(part.text) <= self._look.beside:
                self._places[key] = passage

    def _around(self, hit: Hit, before: int = 1, after: int = 2) -> Sequence[Part]:
        """The hit's own part and its neighbours: one before, two after, since answers follow questions."""
        first, last = max(hit.turn - before, 0), hit.turn + after + 1
        near = list(self._look.archive.parts(self._look.scope, first, last))
        known = {(part.turn, part.hash) for part in near}
        near += [part for part in self._look.live if first <= part.turn < last and (part.turn, part.hash) not in known]
        near.sort(key=lambda part: part.turn)
        return [part for part in _branch(self._look, near, hit) if part.turn != hit.turn or part.hash == hit.hash]


def _result(look: Look, hit: Hit, part: Part) -> Result:
    pieces = pieces_of(part, look.format)
    place = find_place(pieces, look.query, look.width)
    return Result(
        ref=hit.ref or ("" if hit.live else reference(look.scope, hit.turn, hit.hash)),
        turn=hit.turn,
        role=hit.role,
        origin=hit.origin,
        whose=pieces[place.piece].whose,
        excerpt=pieces[place.piece].text[place.start : place.stop],
        offset=sum(len(piece.text) for piece in pieces[: place.piece]) + place.start,
        length=sum(len(piece.text) for piece in pieces),
        score=hit.score,
        live=hit.live,
    )


def _branch(look: Look, near: Sequence[Part], hit: Hit) -> Sequence[Part]:
    """Of several versions of a neighbour, those that left the context together with the hit."""
    if len({part.turn for part in near}) == len(near):
        return near
    records = look.archive.records(look.scope)
    together = {item for record in records if hit.hash in record.before for item in record.before}
    return [part for part in near if part.hash in together] or near


def _match(look: Look, hit: Hit, part: Part) -> Neighbour:
    """A match in one line: whole when it is short, else the stretch of it that matches."""
    if len(part.text) <= look.beside:
        return _neighbour(look, part)
    found = _result(look._replace(width=160), hit, part)
    return Neighbour(
        hit.turn,
        found.ref,
        f"[{hit.turn}] {f'{LIVE} ' if found.live else ''}{found.whose} {quote(f'…{found.excerpt}…')}",
    )


def _neighbour(look: Look, part: Part) -> Neighbour:
    pieces = pieces_of(part, look.format)
    width = look.beside if len(part.text) <= look.beside else min(look.beside, 160)
    told = [f"{piece.whose} {quote(piece.text, width)}" for piece in pieces[:2]]
    more = f" and {len(pieces) - 2} more" if len(pieces) > 2 else ""
    live = f"{LIVE} " if part.hash in look.standing else ""
    text = f"[{part.turn}] {live}{', '.join(told)}{more}"
    return Neighbour(part.turn, reference(look.scope, part.turn, part.hash), text)


def _weight(text: str) -> int:
    """Characters, those of scripts without spaces three times: they take as many tokens."""
    return len(text) if text.isascii() else len(text) + 2 * len(_WIDE.findall(text))
