"""Numbers with their intervals, as values and as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from unabridged_corpus.evaluate.score import bootstrap_interval

NONE = "-"
"""Stands in a cell where there is nothing to say."""


MANY = 500
"""From so many values on the interval is narrow, and fewer draws tell as much."""


class Figure(NamedTuple):
    """A mean over conversations with its 95 % bootstrap interval, and over how many."""

    mean: float
    low: float
    high: float
    of: int


def figure(values: Iterable[float | None]) -> Figure | None:
    """Return the figure of these values, one for each conversation; None when there are none."""
    listed = [value for value in values if value is not None]
    if not listed:
        return None
    if min(listed) == max(listed):  # whatever is drawn, the mean is this
        return Figure(listed[0], listed[0], listed[0], len(listed))
    low, high = bootstrap_interval(listed, 2_000 if len(listed) < MANY else 400)
    return Figure(sum(listed) / len(listed), low, high, len(listed))


def percent(one: Sequence[float] | None) -> str:
    """Return text such as `98.2 % (97.1 to 99.0)`."""
    if one is None:
        return NONE
    mean, low, high = (100 * value for value in one[:3])
    return f"{mean:.1f} % ({low:.1f} to {high:.1f})"


def points(one: Sequence[float] | None) -> str:
    """Return text such as `+12.0 (10.1 to 14.2)`, in percentage points."""
    if one is None:
        return NONE
    mean, low, high = (100 * value for value in one[:3])
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def ratio(one: Sequence[float] | None) -> str:
    """Return text such as `0.66 (0.61 to 0.72)`."""
    return NONE if one is None else f"{one[0]:.2f} ({one[1]:.2f} to {one[2]:.2f})"


def thousands(one: Sequence[float] | None) -> str:
    """Return text such as `141.2 (120.4 to 163.0)`, in thousands."""
    if one is None:
        return NONE
    mean, low, high = (value / 1000 for value in one[:3])
    return f"{mean:.1f} ({low:.1f} to {high:.1f})"


def times(value: float) -> str:
    """Return text such as `0.4 x`, `12 x` or `1,340 x`."""
    return f"{value:.2f} x" if value < 1 else f"{value:.1f} x" if value < 10 else f"{value:,.0f} x"


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], align: str = "---:") -> str:
    """Return rows as Markdown; all columns but the first are aligned like this."""
    lines = [list(heads), ["---", *(align for _ in heads[1:])], *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
