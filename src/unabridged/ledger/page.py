"""A page with a budget: sections in a fixed order, filled line by line in the order of what matters most."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, Literal, NamedTuple

from unabridged.text_tools import Count

_WORD = re.compile(r"\w{3,}")
_A_LINE = 60
"""Tokens that a heading and a line take."""


Shorten = Literal["none", "first", "all"]
"""Which lines may be shortened: later there may be room for the whole, but a section should not stay empty."""


class Line(NamedTuple):
    """A candidate for a section: where it would stand in it, and its text, which may be several lines."""

    order: float
    text: str
    key: str = ""
    """Items can be put at the end of a line that has one."""
    shorter: Callable[[int], str] | None = None
    """Makes a version of about so many characters, when the whole is too long."""
    rank: float = inf
    """How much it matters: a helping serves those of a rank or above."""
    head: Line | None = None
    """The line that it stands under, which comes with the first that does."""


class Item(NamedTuple):
    """A candidate that stands at the end of the line `head`, or where a line with the key `beside` is shown, of that.

    A `name` that is on the page already, and an empty text, need no place.
    """

    text: str
    head: Line
    rank: float = inf
    name: str = ""
    beside: str = ""


class Section:
    """One section: a heading, and candidates in order of importance, taken as far as the budget goes.

    Candidates are made when it is their turn, so that they may depend on what is on the page by then.
    """

    def __init__(self, heading: str, candidates: Iterable[Line | Item], *, piecemeal: bool = False) -> None:
        self.heading, self.piecemeal = heading, piecemeal
        self.lines: list[Line] = []
        self._candidates = iter(candidates)
        self._next: Line | Item | None = None

    def peek(self) -> Line | Item | None:
        """The candidate whose turn it is."""
        if self._next is None:
            self._next = next(self._candidates, None)
        return self._next

    def advance(self) -> None:
        """Go on to the next candidate."""
        self._next = None

    def left(self) -> list[Any]:
        """The candidates that found no place."""
        found = [*([self._next] if self._next is not None else []), *self._candidates]
        self._next, self._candidates = None, iter(found)
        return found


class Page:
    """Sections under one budget. Every addition is paid for; the text is counted once more as a whole in the end."""

    def __init__(self, budget: int, count: Count) -> None:
        self.budget, self.count = budget, count
        # Counts of pieces may add up to less than the count of the whole.
        self.left = budget - max(2, budget // 50)
        self.sections: dict[str, Section] = {}
        self._words: set[str] = set()
        self._items: dict[str, list[str]] = {}
        """The items at the end of each line on the page that has a key."""
        self._added: list[tuple[list[Any], Line | str]] = []

    def know(self, text: str) -> None:
        """Note what stands elsewhere in the context, so that its names are not listed again."""
        self._words.update(_WORD.findall(text))

    def fill(self, section: Section, share: float, least: float = 0.0, shorten: Shorten = "first") -> None:
        """Take candidates of at least this rank until this share of the budget, or what is left of it, is used up.

        A share of next to nothing still buys a line: in a small budget, those who are served first get theirs. What
        is bought piecemeal may go beyond its share by a piece.
        """
        room = int(self.budget * share)
        stop = self.left - (room if section.piecemeal else max(room, _A_LINE))
        while (candidate := section.peek()) is not None and candidate.rank >= least:
            if section.piecemeal and self.left <= stop:
                return
            limit = self.left if section.piecemeal else self.left - stop
            squeeze = shorten == "all" or (shorten == "first" and not section.lines)
            if not self._place(section, candidate, limit, squeeze=squeeze):
                return
            section.advance()

    def _place(self, section: Section, candidate: Line | Item, limit: int, *, squeeze: bool) -> bool:
        """Whether the candidate is on the page now, with the line that it stands under or at the end of."""
        if isinstance(candidate, Item):
            if not candidate.text or candidate.name in self._words:
                return True
            if candidate.beside in self._items:
                return self._append(candidate, candidate.beside, "" if self._items[candidate.beside] else ":")
        head = candidate.head
        costs = self.count(candidate.text)
        if head is not None and head.key not in self._items and not self.add(section, head, self.left - costs):
            return False
        if isinstance(candidate, Item):
            return self._append(candidate, candidate.head.key)
        return self.add(section, candidate, limit, squeeze=squeeze)

    def add(self, section: Section, line: Line, limit: int, *, squeeze: bool = False) -> bool:
        """Add a line when it costs no more than `limit` and what is left, if need be shortened; False otherwise."""
        limit = min(limit, self.left)
        heading = self._heading(section)
        cost = self._cost(line)
        if cost + heading > limit and squeeze and line.shorter is not None:
            line = self._shortened(line, limit - heading)
            cost = self._cost(line)
        if cost + heading > limit:
            return False
        self.left -= cost + heading
        section.lines.append(line)
        self._added.append((section.lines, line))
        if line.key:
            self._items[line.key] = []
        self.know(line.text)
        return True

    def _append(self, item: Item, key: str, mark: str = "") -> bool:
        text = mark + item.text
        cost = self.count(text)
        if cost > self.left:
            return False
        self.left -= cost
        self._items[key].append(text)
        self._added.append((self._items[key], text))
        if item.name:
            self._words.add(item.name)
        return True

    def drop(self, section: Section, lines: Iterable[Line]) -> None:
        """Take these lines off the page again; what they cost can be spent anew."""
        for line in lines:
            section.lines.remove(line)
            self._added = [entry for entry in self._added if entry[1] is not line]
            self.left += self._cost(line) + self._heading(section)

    def texts(self) -> dict[str, str]:
        """The text of each section. Should they count as too long together, what was added last goes first."""
        while self.count("\n\n".join((texts := self._texts()).values())) > self.budget:
            if not self._added:
                return {}
            holder, _ = self._added.pop()
            holder.pop()
        return texts

    def _texts(self) -> dict[str, str]:
        texts = {}
        for name, section in self.sections.items():
            ordered = sorted(section.lines, key=lambda line: line.order)
            if lines := [line.text + "".join(self._items.get(line.key, ())) for line in ordered]:
                texts[name] = "\n".join([f"## {section.heading}", *lines])
        return texts

    def _cost(self, line: Line) -> int:
        return self.count(line.text + "\n")

    def _heading(self, section: Section) -> int:
        """What the heading costs that comes with the first line."""
        return 0 if section.lines else self.count(f"\n## {section.heading}\n")

    def _shortened(self, line: Line, tokens: int) -> Line:
        """The line, short enough for so many tokens where that is possible."""
        if line.shorter is None or tokens < 24:
            return line
        chars = len(line.text) * (tokens - 4) // max(self.count(line.text), 1)
        for _ in range(6):
            text = line.shorter(chars)
            if self.count(text + "\n") <= tokens:
                return line._replace(text=text)
            chars = chars * 4 // 5
        return line
