"""Plots as SVG, written out: a few marks on two axes need no library, and a file that can be read can be reviewed."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

INK, FAINT, OURS, THEIRS = "#7a828e", "#c9ced6", "#2f81f7", "#9a6ddb"
_STYLE = 'font-family="system-ui, sans-serif" font-size="12"'


def bars(title: str, values: Mapping[str, Sequence[float] | None], *, most: float | None = None, unit: str = "") -> str:
    """A bar for each name, its interval as a whisker; values are (mean, low, high, …)."""
    shown = {name: value for name, value in values.items() if value is not None}
    top = most or max([value[2] for value in shown.values()] or [1.0]) or 1.0
    left, width, step = 230, 400, 24
    parts = [_text(10, 20, title, weight="bold")]
    for row, (name, value) in enumerate(shown.items()):
        y = 36 + row * step
        mean, low, high = (left + width * min(max(part, 0.0), top) / top for part in value[:3])
        colour = OURS if name.startswith("ours") else THEIRS
        parts += [
            _text(left - 8, y + 13, name, anchor="end"),
            f'<rect x="{left}" y="{y}" width="{max(mean - left, 0.5):.1f}" height="16" fill="{colour}" opacity="0.8"/>',
            f'<path d="M{low:.1f} {y + 8}H{high:.1f}M{low:.1f} {y + 4}v8M{high:.1f} {y + 4}v8" stroke="{INK}"/>',
            _text(max(mean, high) + 6, y + 13, _number(value[0], unit)),
        ]
    return _svg(left + width + 90, 44 + len(shown) * step, parts)


def scatter(title: str, across: str, up: str, marks: Mapping[str, tuple[float, float]]) -> str:
    """A named mark for each pair; the axes begin at 0 and end beyond the largest."""
    left, top, width, height = 60, 36, 520, 300
    most = max([x for x, _ in marks.values()] or [1.0]) * 1.05 or 1.0
    parts = [_text(10, 20, title, weight="bold"), _frame(left, top, width, height)]
    for i in range(5):
        x, y = left + width * i / 4, top + height - height * i / 4
        parts += [_text(x, top + height + 16, f"{most * i / 4:.2f}", anchor="middle")]
        parts += [_text(left - 6, y + 4, f"{25 * i} %", anchor="end")]
    parts += [_text(left + width / 2, top + height + 34, across, anchor="middle"), _text(left + 6, top + 14, up)]
    taken: list[float] = []
    for name, (a, b) in sorted(marks.items(), key=lambda item: -item[1][1]):
        x, y = left + width * a / most, top + height * (1 - min(b, 1.0))
        label = y + 4
        while any(abs(label - other) < 12 for other in taken):
            label += 3
        taken.append(label)
        colour = OURS if name.startswith("ours") else THEIRS
        right = x > left + width * 0.6
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>',
            _text(x - 9 if right else x + 9, label, name, anchor="end" if right else "start"),
        ]
    return _svg(left + width + 130, top + height + 46, parts)


def lines(title: str, across: str, up: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A line for each name, both axes logarithmic."""
    left, top, width, height = 70, 36, 460, 300
    xs = [math.log10(x) for line in series.values() for x, _ in line] or [0.0, 1.0]
    ys = [math.log10(max(y, 1e-9)) for line in series.values() for _, y in line] or [0.0, 1.0]
    low, high = math.floor(min(ys)), math.ceil(max(ys)) or 1
    spread = (max(xs) - min(xs)) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        across_ = left + width * (math.log10(x) - min(xs)) / spread
        return across_, top + height - height * (math.log10(max(y, 1e-9)) - low) / max(high - low, 1)

    parts = [_text(10, 20, title, weight="bold"), _frame(left, top, width, height)]
    powers = [(10.0**power, at(10 ** min(xs), 10.0**power)[1]) for power in range(low, high + 1)]
    parts += [_text(left - 6, y + 4, f"{value:,g}", anchor="end") for value, y in powers]
    sizes = sorted({x for line in series.values() for x, _ in line})
    parts += [_text(at(x, 1)[0], top + height + 16, f"{x:,.0f}", anchor="middle") for x in sizes]
    parts += [_text(left + width / 2, top + height + 34, across, anchor="middle"), _text(left + 6, top + 14, up)]
    taken: list[float] = []
    for name, line in sorted(series.items(), key=lambda item: -item[1][-1][1]):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in line))
        colour = OURS if name.startswith("ours") else THEIRS
        label = at(*line[-1])[1] + 4
        while any(abs(label - other) < 12 for other in taken):
            label += 3
        taken.append(label)
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            _text(left + width + 6, label, name),
        ]
    return _svg(left + width + 230, top + height + 60, parts)


def grid(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[str]], colours: Mapping[str, str]) -> str:
    """A coloured square for each cell, with what the colours mean below."""
    left, top, step = 230, 120, 26
    parts = [_text(10, 20, title, weight="bold")]
    for i, head in enumerate(heads):
        x = left + i * step + 13
        turned = f'transform="rotate(-50 {x} {top - 8})"'
        parts.append(f'<text x="{x}" y="{top - 8}" fill="{INK}" {turned}>{html.escape(head)}</text>')
    for row, (name, cells) in enumerate(rows.items()):
        y = top + row * step
        parts.append(_text(left - 8, y + 17, name, anchor="end"))
        for i, cell in enumerate(cells):
            colour = colours.get(cell, FAINT)
            parts.append(f'<rect x="{left + i * step}" y="{y}" width="22" height="22" rx="3" fill="{colour}"/>')
    bottom = top + len(rows) * step + 14
    for i, (meaning, colour) in enumerate(colours.items()):
        x = 20 + i % 3 * 210
        y = bottom + i // 3 * 20
        parts += [f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>', _text(x + 18, y + 11, meaning)]
    return _svg(max(left + len(heads) * step + 80, 660), bottom + 20 * (1 + (len(colours) - 1) // 3) + 6, parts)


def _frame(left: float, top: float, width: float, height: float) -> str:
    return f'<path d="M{left} {top}v{height}h{width}" fill="none" stroke="{FAINT}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    said = html.escape(text)
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{INK}" text-anchor="{anchor}" font-weight="{weight}">{said}</text>'


def _number(value: float, unit: str) -> str:
    return f"{100 * value:.1f} %" if unit == "%" else f"{value:.2f}{unit}"


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_STYLE}>\n' + "\n".join(parts) + "\n</svg>\n"
