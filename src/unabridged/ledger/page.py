"""A page with a budget: sections in a fixed order, filled line by line in the order of what matters most."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from unabridged.text_tools import Count

_WORD = re.compile(r"\w{3,}")
_A_LINE = 60
"""Tokens that a heading and a line take."""


class Line(NamedTuple):
    """A candidate for a section: where it would stand in it, and its text, which may be several lines."""

    order: float
    text: str
    key: str = ""
    """Items can be put at the end of a line that has one."""
    shorter: Callable[[int], str] | None = None
    """Makes a version of about so many characters, when the whole is too long."""
    lesser: bool = False
    """Whether it waits until everything else had its share."""


class Item(NamedTuple):
    """A candidate at the end of the line `head`, which comes with the first; where the line `beside` is shown, of that.

    What is on the page already needs no place.
    """

    text: str
    head: Line
    beside: str = ""
    lesser: bool = False


class Section:
    """One section: a heading, its lines so far, and the candidates that wait, the most important first."""

    def __init__(self, heading: str, candidates: Iterable[Line | Item]) -> None:
        self.heading = heading
        self.lines: list[Line] = []
        self.waiting = deque(candidates)


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
        self._added: list[list[Any]] = []
        """Where each addition went, as its last entry."""

    def know(self, text: str) -> None:
        """Note what stands elsewhere in the context, so that its names are not listed again."""
        self._words.update(_WORD.findall(text))

    def fill(self, section: Section, share: float, *, lesser: bool = False, shorten: bool = True) -> None:
        """Take candidates until this share of the budget, or what is left of it, is used up.

        A share of next to nothing still buys a line: in a small budget, those who are served first get theirs. The
        first line of a section may be shortened; for the others there may be room later.
        """
        stop = self.left - max(int(self.budget * share), _A_LINE)
        while section.waiting and (lesser or not section.waiting[0].lesser):
            candidate, limit = section.waiting[0], self.left - stop
            if isinstance(candidate, Item):
                placed = self._append(section, candidate, limit)
            else:
                placed = self.add(section, candidate, limit, shorten=shorten and not section.lines)
            if not placed:
                return
            section.waiting.popleft()

    def add(self, section: Section, line: Line, limit: int, *, shorten: bool = False) -> bool:
        """Add a line when it costs no more than `limit` and what is left, if need be shortened; False otherwise."""
        heading = 0 if section.lines else self.count(f"\n## {section.heading}\n")
        limit = min(limit, self.left) - heading
        cost = self.count(line.text + "\n")
        if cost > limit and shorten:
            line = self._shortened(line, limit)
            cost = self.count(line.text + "\n")
        if cost > limit:
            return False
        self._spend(cost + heading, section.lines, line)
        if line.key:
            self._items[line.key] = []
        self.know(line.text)
        return True

    def _append(self, section: Section, item: Item, limit: int) -> bool:
        """Put an item at the end of its line, as `add` does."""
        if item.text in self._words:
            return True
        cost = self.count(f" {item.text}")
        limit = min(limit, self.left) - cost
        key = item.beside if item.beside in self._items else item.head.key
        if limit < 0 or (key not in self._items and not self.add(section, item.head, limit)):
            return False
        self._spend(cost, self._items[key], item.text)
        self._words.add(item.text)
        return True

    def _spend(self, cost: int, holder: list[Any], entry: Line | str) -> None:
        self.left -= cost
        holder.append(entry)
        self._added.append(holder)

    def texts(self) -> dict[str, str]:
        """The text of each section. Should they count as too long together, what was added last goes first."""
        while self.count("\n\n".join((texts := self._texts()).values())) > self.budget:
            if not self._added:
                return {}
            self._added.pop().pop()
        return texts

    def _texts(self) -> dict[str, str]:
        texts = {}
        for name, section in self.sections.items():
            if lines := [self._text(line) for line in sorted(section.lines, key=lambda line: line.order)]:
                texts[name] = "\n".join([f"## {section.heading}", *lines])
        return texts

    def _text(self, line: Line) -> str:
        """The line with its items, after a colon where there is something before them."""
        items = self._items.get(line.key)
        return f"{line.text}{' ' if line.text == '-' else ': '}{' '.join(items)}" if items else line.text

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
