"""Draw recall against tokens as SVG: each arm a line, names solid and files dashed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import log10

from unabridged_corpus.evaluate.report import NeedsRow

WIDTH, HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 190, 40, 48
_COLOURS = ("#b3261e", "#1a56a8", "#2e7d32", "#8a5a00", "#6a1b9a", "#00796b")
_STYLE = "font-family='sans-serif' font-size='12' fill='#333'"


def draw_plot(rows: Sequence[NeedsRow], title: str) -> str:
    """Return the drawing; tokens on a logarithmic scale, since arms that keep messages take many more."""
    tokens = [max(row.tokens, 1) for row in rows] or [1]
    low, high = log10(min(tokens)) - 0.1, log10(max(tokens)) + 0.1
    scale = _Scale(low, max(high, low + 0.3))
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>",
        f"<title>{escape(title)}</title><rect width='{WIDTH}' height='{HEIGHT}' fill='#fff'/>",
        f"<text x='{_LEFT}' y='22' {_STYLE} font-weight='bold'>{escape(title)}</text>",
        *_draw_axes(scale),
    ]
    for place, arm in enumerate(dict.fromkeys(row.arm for row in rows)):
        parts += _draw_arm(arm, [row for row in rows if row.arm == arm], scale, place)
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Scale:
    """The positions of tokens and shares on the drawing."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def x(self, tokens: float) -> float:
        across = (log10(max(tokens, 1)) - self.low) / (self.high - self.low)
        return round(_LEFT + across * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, share: float) -> float:
        return round(_TOP + (1 - share) * (HEIGHT - _TOP - _BOTTOM), 1)


def _draw_axes(scale: _Scale) -> Iterator[str]:
    right = WIDTH - _RIGHT
    for tenth in range(0, 11, 2):
        y = scale.y(tenth / 10)
        yield f"<line x1='{_LEFT}' x2='{right}' y1='{y}' y2='{y}' stroke='#ddd'/>"
        yield f"<text x='{_LEFT - 8}' y='{y + 4}' {_STYLE} text-anchor='end'>{tenth * 10} %</text>"
    for tokens in (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000):
        if scale.low <= log10(tokens) <= scale.high:
            x = scale.x(tokens)
            yield f"<line x1='{x}' x2='{x}' y1='{_TOP}' y2='{HEIGHT - _BOTTOM}' stroke='#eee'/>"
            yield f"<text x='{x}' y='{HEIGHT - _BOTTOM + 18}' {_STYLE} text-anchor='middle'>{tokens:,}</text>"
    middle = (_LEFT + right) / 2
    legend = "tokens in the context (solid: names, dashed: files)"
    yield f"<text x='{middle}' y='{HEIGHT - 10}' {_STYLE} text-anchor='middle'>{legend}</text>"


def _draw_arm(arm: str, rows: Sequence[NeedsRow], scale: _Scale, place: int) -> Iterator[str]:
    colour = _COLOURS[place % len(_COLOURS)]
    ordered = sorted(rows, key=lambda row: row.tokens)
    for kind, dashes in (("names", ""), ("files", " stroke-dasharray='5 4'")):
        spots = [(scale.x(row.tokens), scale.y(getattr(row, kind)), row) for row in ordered]
        line = " ".join(f"{x},{y}" for x, y, _ in spots)
        yield f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2'{dashes}/>"
        for x, y, row in spots:
            title = f"{arm}: {getattr(row, kind):.1%} of {kind} in {row.tokens:,} tokens"
            yield f"<circle cx='{x}' cy='{y}' r='4' fill='{colour}'><title>{escape(title)}</title></circle>"
    y = _TOP + 14 + 20 * place
    x = WIDTH - _RIGHT + 16
    yield f"<line x1='{x}' x2='{x + 20}' y1='{y}' y2='{y}' stroke='{colour}' stroke-width='3'/>"
    yield f"<text x='{x + 28}' y='{y + 4}' {_STYLE}>{escape(arm)}</text>"
