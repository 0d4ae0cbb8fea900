"""A conversation as a bar: each message has its share, its colour says whose words it is, its glyph its fate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from unabridged.results import PlannedMessage

Fate = Literal["stayed", "went", "changed", "new"]
COLORS = {
    **dict.fromkeys(("system", "tools"), "cyan"),
    **dict.fromkeys(("person", "user"), "green"),
    **dict.fromkeys(("model", "assistant", "thinking"), "blue"),
    "tool": "yellow",
    "host": "magenta",
    "summary": "bold red",
}
OTHER_COLOR = "yellow"
_GLYPHS: dict[Fate, tuple[str, str]] = {
    "stayed": ("█", "stayed"),
    "went": ("░", "went"),
    "changed": ("▒", "cleared or shortened"),
    "new": ("▓", "put in"),
}
"""For each fate its glyph, and what it is called."""


class BarPiece(NamedTuple):
    """One piece of a bar: whose words it is, what became of it, and its tokens."""

    whose: str
    fate: Fate
    tokens: int


def group_by_fate(planned: Sequence[PlannedMessage]) -> Iterator[list[PlannedMessage]]:
    """Yield the messages in runs that have the same fate for the same reason."""
    return (list(run) for _, run in groupby(planned, key=lambda one: (one.fate, one.why)))


def draw_before_and_after(
    before: Sequence[BarPiece], after: Sequence[BarPiece], totals: tuple[int, int], budget: int, width: int
) -> RenderableType:
    """Return both bars on one scale, so that the second is as much shorter as the request is, with the budget's end."""
    cells = max(10, width - 28)
    scale = max(*totals, budget, 1)
    mark = min(cells - 1, round(cells * budget / scale))
    ruler = f"{'':9}{' ' * mark}╵" + (f" budget {budget:,}" if mark < cells - 20 else "")
    shown = {piece.whose for piece in (*before, *after)}
    legend = [part for name, color in COLORS.items() if name in shown for part in (("■ ", color), f"{name}   ")]
    fates = "   ".join(f"{glyph} {meaning}" for glyph, meaning in _GLYPHS.values())
    return Group(
        Text.assemble(f"{'before':>7}  ", draw_bar(before, cells, scale), f" {totals[0]:,} tokens"),
        Text.assemble(f"{'after':>7}  ", draw_bar(after, cells, scale), f" {totals[1]:,} tokens"),
        Text(ruler, style="dim"),
        Text.assemble(" " * 9, *legend),
        Text(" " * 9 + fates, style="dim"),
    )


def draw_bar(pieces: Iterable[BarPiece], cells: int, scale: int) -> Text:
    """Return the pieces side by side; so many cells stand for `scale` tokens."""
    text, tokens = Text(), 0
    for piece in pieces:
        tokens += piece.tokens
        more = round(cells * tokens / scale) - len(text)
        text.append(_GLYPHS[piece.fate][0] * more, style=COLORS.get(piece.whose, OTHER_COLOR))
    return text
