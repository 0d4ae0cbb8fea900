"""A page with a budget: sections in a fixed order, filled line by line in the order of what matters most."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from unabridged.texts import Count

_WORD = re.compile(r"\w{3,}")
_A_LINE = 60
"""Tokens that a heading and a line take."""


class Line(NamedTuple):
    """A candidate for a section: where it would stand in it, and its text, which may be several lines."""

    order: float
    text: str
    key: str = ""
    """Names can be attached to a line that has one."""
    shorter: Callable[[int], str] | None = None
    """Makes a version of about so many characters, when the whole is too long."""


class Section:
    """One section: a heading, and candidates in order of importance, taken as far as the budget goes."""

    def __init__(self, heading: str, candidates: Iterator[Line]) -> None:
        self.heading = heading
        self._candidates = candidates
        self.next: Line | None = next(candidates, None)
        self.lines: list[Line] = []

    def advance(self) -> None:
        """Go on to the next candidate."""
        self.next = next(self._candidates, None)

    def extend(self, candidates: Iterator[Line]) -> None:
        """More candidates, after those that are left."""
        self._candidates = chain(self._candidates, candidates)
        if self.next is None:
            self.advance()

    def left(self) -> list[Line]:
        """The candidates that found no place."""
        found = [*([self.next] if self.next is not None else []), *self._candidates]
        self.next, self._candidates = (found[0] if found else None), iter(found[1:])
        return found


class Page:
    """Sections under one budget. Every addition is paid for; the text is counted once more as a whole in the end."""

    def __init__(self, budget: int, count: Count) -> None:
        self.budget = budget
        self.count = count
        # Counts of pieces may add up to less than the count of the whole.
        self.left = budget - max(2, budget // 50)
        self.words: set[str] = set()
        self._sections: list[Section] = []
        self._attached: dict[str, list[str]] = {}
        self._added: list[tuple[Section, Line] | tuple[str, str]] = []

    def section(self, heading: str, candidates: Iterator[Line]) -> Section:
        """A new section at the end of the page; without lines it does not show."""
        made = Section(heading, candidates)
        self._sections.append(made)
        return made

    def fill(self, section: Section, share: float, *, last: bool = False, whole: bool = False) -> None:
        """Take candidates until this share of the whole budget, or what is left of it, is used up.

        A share of next to nothing still buys a line: in a small budget, those who are served first get theirs. With
        `whole`, none is shortened: the section is filled again later.
        """
        stop = self.left - max(int(self.budget * share), _A_LINE)
        while section.next is not None:
            # Later there may be room for the whole line; but a section should not stay empty for want of it.
            squeeze = not whole and (last or not section.lines)
            if not self.add(section, section.next, self.left - stop, squeeze=squeeze):
                break
            section.advance()

    def add(self, section: Section, line: Line, limit: int, *, squeeze: bool = False) -> bool:
        """Add a line when it costs no more than `limit` and what is left, if need be shortened; False otherwise."""
        limit = min(limit, self.left)
        head = 0 if section.lines else self.count(f"\n## {section.heading}\n")
        cost = self.count(line.text + "\n") + head
        if cost > limit and squeeze and line.shorter is not None:
            line = self._shortened(line, limit - head)
            cost = self.count(line.text + "\n") + head
        if cost > limit:
            return False
        section.lines.append(line)
        self._added.append((section, line))
        self.left -= cost
        self.know(line.text)
        return True

    def drop(self, section: Section, lines: Iterable[Line]) -> None:
        """Take these lines off the page again; what they cost can be spent anew."""
        for line in lines:
            section.lines.remove(line)
            self._added.remove((section, line))
            self.left += self.count(line.text + "\n")
            self.left += 0 if section.lines else self.count(f"\n## {section.heading}\n")

    def put_by(self, tokens: int) -> None:
        """Keep so many tokens for later, or with a negative number take them up again."""
        self.left -= tokens

    def know(self, text: str) -> None:
        """Note what stands elsewhere in the context, so that its names are not listed again."""
        self.words.update(_WORD.findall(text))

    def attach(self, key: str, text: str) -> bool:
        """Add a piece to the end of the line with this key; False when it is not affordable."""
        cost = self.count(text)
        if cost > self.left:
            return False
        self.left -= cost
        self._attached.setdefault(key, []).append(text)
        self._added.append((key, text))
        return True

    def attached(self, key: str) -> bool:
        """Whether the line with this key has a piece yet."""
        return bool(self._attached.get(key))

    def text(self) -> str:
        """The page. Should it count as too long as a whole, what was added last goes first."""
        text = self._whole()
        while self._added and self.count(text) > self.budget:
            section, line = self._added.pop()
            if isinstance(section, Section):
                section.lines.remove(line)  # type: ignore[arg-type]
            else:
                self._attached[section].pop()
            text = self._whole()
        return text if self.count(text) <= self.budget else ""

    def _whole(self) -> str:
        parts = []
        for section in self._sections:
            ordered = sorted(section.lines, key=lambda line: line.order)
            lines = [line.text + "".join(self._attached.get(line.key, ())) for line in ordered]
            if lines:
                parts.append("\n".join([f"## {section.heading}", *lines]))
        return "\n\n".join(parts)

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
