"""A conversation as a bar: each message takes its share, its colour is whose words it is, its glyph its fate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

Fate = Literal["stayed", "went", "changed", "new"]
COLORS = {
    "system": "cyan",
    "person": "green",
    "model": "blue",
    "tool": "yellow",
    "host": "magenta",
    "unknown": "bright_black",
    "summary": "bold red",
}
GLYPHS: dict[Fate, str] = {"stayed": "█", "went": "░", "changed": "▒", "new": "▓"}
_MEANING: dict[Fate, str] = {
    "stayed": "stayed",
    "went": "went",
    "changed": "cleared or shortened",
    "new": "put in",
}


class Piece(NamedTuple):
    """One message of a bar: whose words, what became of it, how many tokens."""

    origin: str
    fate: Fate
    tokens: int


def before_and_after(
    before: Sequence[Piece], after: Sequence[Piece], totals: tuple[int, int], budget: int, width: int
) -> RenderableType:
    """Both bars on one scale, so that the second is as much shorter as the request is, and where the budget ends."""
    cells = max(10, width - 28)
    scale = max(*totals, budget, 1)
    mark = min(cells - 1, round(cells * budget / scale))
    ruler = Text(f"{'':9}{' ' * mark}╵ budget {budget:,}" if mark < cells - 20 else f"{'':9}{' ' * mark}╵", style="dim")
    return Group(
        _bar("before", before, totals[0], cells, scale),
        _bar("after", after, totals[1], cells, scale),
        ruler,
        legend({piece.origin for piece in (*before, *after)}),
        fates(),
    )


def _bar(label: str, pieces: Iterable[Piece], tokens: int, cells: int, scale: int) -> Text:
    text = Text(f"{label:>7}  ")
    drawn, total = 0, 0
    for piece in pieces:
        total += piece.tokens
        upto = round(cells * total / scale)
        text.append(GLYPHS[piece.fate] * (upto - drawn), style=COLORS[piece.origin])
        drawn = max(drawn, upto)
    text.append(f" {tokens:,} tokens")
    return text


def legend(origins: Iterable[str]) -> Text:
    """Which colour is whose."""
    text = Text(" " * 9)
    shown = set(origins)
    for origin, color in COLORS.items():
        if origin in shown:
            text.append("■ ", style=color)
            text.append(f"{origin}   ")
    return text


def fates() -> Text:
    """Which glyph means what."""
    return Text(" " * 9 + "   ".join(f"{GLYPHS[fate]} {meaning}" for fate, meaning in _MEANING.items()), style="dim")
