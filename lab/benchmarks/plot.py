"""Draw plots as SVG without a library, so that the files can be read and reviewed.

Every plot has its own background, light or dark as the reader's system is set, so that it is readable on any page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

WIDTH = 760
LEFT = 240
"""Where bars and cells begin; names stand before it."""
_STYLE = """<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px } .soft { fill: #59636e; font-size: 12px } .tiny { font-size: 10.5px }
.on { fill: #fff; font-weight: 600 } .strong { font-weight: 600 }
.value { paint-order: stroke; stroke: #fff; stroke-width: 4px; stroke-linejoin: round }
.ground { fill: #fff } .rule { stroke: #d1d9e0; fill: none } .whisker { stroke: #1f2328; stroke-opacity: .55 }
.first { fill: #0969da } .own { fill: #54aeff } .peer { fill: #b4a1d8 } .none { fill: #afb8c1 }
.line-first { stroke: #0969da } .line-own { stroke: #54aeff } .line-peer { stroke: #b4a1d8 }
.line-none { stroke: #afb8c1 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .soft { fill: #9198a1 } .on { fill: #fff } .ground { fill: #0d1117 } .value { stroke: #0d1117 }
  .rule { stroke: #3d444d } .whisker { stroke: #f0f6fc }
  .first { fill: #1f6feb } .own { fill: #79c0ff } .peer { fill: #8957e5 } .none { fill: #656c76 }
  .line-first { stroke: #1f6feb } .line-own { stroke: #79c0ff } .line-peer { stroke: #8957e5 }
  .line-none { stroke: #656c76 }
}
</style>"""
_STEP = 14
"""Pixels that two labels need between them."""


def bars(
    title: str,
    note: str,
    values: Mapping[str, Sequence[float] | None],
    *,
    most: float | None = None,
    unit: str = "",
    mark: float | None = None,
    best: int = 0,
) -> str:
    """Draw a bar for each name, its interval as a whisker.

    Values are (mean, low, high, …); a name without one begins a group. `mark` draws a line at a value to compare
    with. `best` sorts peers: 1 the largest first, -1 the smallest; 0 leaves all as they are. Ours come first.
    """
    shown = {name: value for name, value in values.items() if value is not None}
    order = list(shown)
    if best:
        order.sort(key=lambda name: (not _own(name), 0.0 if _own(name) else -best * shown[name][0]))
    highest = max([*(value[2] for value in shown.values() if value), mark or 0.0])
    top = most or highest or 1.0
    width, step, y = WIDTH - LEFT - 90, 24, 52
    parts = _heading(title, note)
    end = y + len(order) * step
    for tick in _ticks(top):
        x = LEFT + width * tick / top
        parts += [_rule(f"M{x:.1f} {y - 4}V{end}"), _text(x, end + 14, _number(tick, unit, 0), "soft", "middle")]
    if mark is not None:
        x = LEFT + width * mark / top
        parts.append(f'<path d="M{x:.1f} 46V{end}" class="whisker" stroke-dasharray="4 3"/>')
    for name in order:
        value = shown[name]
        if not value:
            parts.append(_text(LEFT - 10, y + 15, name, "strong", "end"))
        else:
            parts += _bar(name, value, y, width / top, unit)
        y += step
    return _svg(WIDTH, end + 24, parts)


def _bar(name: str, value: Sequence[float], y: float, scale: float, unit: str) -> list[str]:
    mean, low, high = (LEFT + max(part, 0.0) * scale for part in value[:3])
    parts = [
        _text(LEFT - 10, y + 15, name.partition("|")[2] or name, "strong" if name == "ours" else "", "end"),
        f'<rect x="{LEFT}" y="{y + 3}" width="{max(mean - LEFT, 1):.1f}" height="17" rx="2" class="{_class(name)}"/>',
    ]
    if high - low > 1:
        middle = y + 11.5
        d = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"
        parts.append(f'<path d="{d}" class="whisker" fill="none"/>')
    kind = "value strong" if name == "ours" else "value"
    return [*parts, _text(max(mean, high) + 8, y + 16, _number(value[0], unit), kind)]


def lines(title: str, note: str, across: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw a line of microseconds for each name on two logarithmic axes, with the name at its end."""
    left, top, width, height = 78, 58, 420, 340
    xs = [math.log10(x) for line in series.values() for x, _ in line] or [0.0, 1.0]
    ys = [math.log10(max(y, 1e-9)) for line in series.values() for _, y in line] or [0.0, 1.0]
    low, high = math.floor(min(ys)), max(max(ys) + 0.1, math.floor(min(ys)) + 1)
    spread = (max(xs) - min(xs)) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(max(y, 1e-9)) - low) / (high - low)
        return left + width * (math.log10(x) - min(xs)) / spread, top + height * (1 - share)

    parts = _heading(title, note)
    for power in range(low, math.floor(high) + 1):
        y = at(10 ** min(xs), 10.0**power)[1]
        parts += [_rule(f"M{left} {y:.1f}h{width}")]
        parts += [_text(left - 8, y + 4, _micros(10.0**power), "soft", "end")]
    for x in sorted({x for line in series.values() for x, _ in line}):
        parts.append(_text(at(x, 1)[0], top + height + 18, f"{x:,.0f}", "soft", "middle"))
    parts.append(_text(left + width / 2, top + height + 36, across, "soft", "middle"))
    ends = {name: at(*line[-1])[1] for name, line in series.items()}
    labels = _apart(ends, top, top + height + 20)
    for name in sorted(series, key=_own):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in series[name]))
        end, label = ends[name], labels[name]
        thick = 3.5 if name == "ours" else 2
        style = f'fill="none" stroke-width="{thick}" class="line-{_class(name)}"'
        parts.append(f'<polyline points="{path}" {style}/>')
        parts.append(_rule(f"M{left + width + 3} {end:.1f}L{left + width + 20} {label - 4:.1f}"))
        parts.append(_text(left + width + 24, label, name, "strong" if name == "ours" else ""))
    return _svg(WIDTH, top + height + 52, parts)


def _apart(wanted: Mapping[str, float], top: float, bottom: float) -> dict[str, float]:
    """Return positions for labels, as near to their lines as possible without overlap."""
    order = sorted(wanted, key=lambda name: wanted[name])
    groups: list[list[str]] = []
    starts: list[float] = []
    for name in order:  # those that would touch share a group, whose middle is where they all would like to be
        groups.append([name])
        starts.append(wanted[name] + 4)
        while len(groups) > 1 and starts[-2] + _STEP * len(groups[-2]) > starts[-1]:
            groups[-2:] = [groups[-2] + groups[-1]]
            middle = sum(wanted[one] + 4 for one in groups[-1]) / len(groups[-1])
            high = bottom - _STEP * (len(groups[-1]) - 1)
            starts[-2:] = [min(max(middle - _STEP * (len(groups[-1]) - 1) / 2, top), high)]
    return {
        name: start + _STEP * i for group, start in zip(groups, starts, strict=True) for i, name in enumerate(group)
    }


def grid(
    title: str, note: str, heads: Sequence[str], rows: Mapping[str, Sequence[str]], cells: Mapping[str, tuple[str, str]]
) -> str:
    """Draw a coloured cell with a word in it for each outcome, and a legend of the words below."""
    top, tall, wide = 158, 26, (WIDTH - LEFT - 90) / max(1, len(heads))
    parts = _heading(title, note)
    for i, head in enumerate(heads):
        x, y = LEFT + (i + 0.5) * wide, top - 8
        parts.append(f'<text x="{x:.1f}" y="{y}" transform="rotate(-40 {x:.1f} {y})">{html.escape(head)}</text>')
    for row, (name, found) in enumerate(rows.items()):
        y = top + row * tall
        parts.append(_text(LEFT - 10, y + 17, name, "strong" if _own(name) else "", "end"))
        for i, one in enumerate(found):
            word, colour = cells.get(one, ("?", "#6e7781"))
            x = LEFT + i * wide
            box = f'width="{wide - 3:.1f}" height="{tall - 3}" rx="3" fill="{colour}"'
            parts += [
                f'<rect x="{x:.1f}" y="{y}" {box}/>',
                _text(x + (wide - 3) / 2, y + 16, word, "on tiny", "middle"),
            ]
    bottom = top + len(rows) * tall + 14
    for i, (meaning, (word, colour)) in enumerate(cells.items()):
        x, y = 16 + i % 3 * 245, bottom + i // 3 * 24
        parts += [
            f'<rect x="{x}" y="{y}" width="44" height="18" rx="3" fill="{colour}"/>',
            _text(x + 22, y + 13, word, "on tiny", "middle"),
            _text(x + 52, y + 14, meaning),
        ]
    return _svg(WIDTH, bottom + 24 * (1 + (len(cells) - 1) // 3) + 4, parts)


def _own(name: str) -> bool:
    return name.partition("|")[2].startswith("ours") or name.startswith("ours")


def _class(name: str) -> str:
    name = name.partition("|")[2] or name
    return "first" if name == "ours" else "own" if name.startswith("ours") else "none" if name == "raw" else "peer"


def _ticks(top: float) -> list[float]:
    """Return four to eight round values from 0 to the top."""
    size = 10 ** math.floor(math.log10(top))
    step = next(size * part for part in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if top / (size * part) <= 8)
    return [i * step for i in range(int(top / step + 1e-9) + 1)]


def _heading(title: str, note: str) -> list[str]:
    return [_text(16, 24, title, "title"), _text(16, 42, note, "soft")]


def _rule(path: str) -> str:
    return f'<path d="{path}" class="rule"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    more = f' class="{kind}"' * bool(kind) + f' text-anchor="{anchor}"' * (anchor != "start")
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(text)}</text>'


def _micros(value: float) -> str:
    return f"{value:,.10g} µs" if value < 1_000 else f"{value / 1_000:,.10g} ms"


def _number(value: float, unit: str, digits: int = 1) -> str:
    if unit == "%":
        return f"{100 * value:.{digits}f} %" if digits else f"{100 * value:.3g} %"
    return f"{value:.2f}{unit}" if digits else f"{value:.3g}{unit}"


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    ground = '<rect width="100%" height="100%" rx="6" class="ground"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n' + "\n".join([_STYLE, ground, *parts]) + "\n</svg>\n"
