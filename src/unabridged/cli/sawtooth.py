"""The saw-tooth: tokens in the context over the turns of a conversation, as an SVG drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from typing import NamedTuple

from unabridged.archive.protocol import Record
from unabridged.events import receipt_from

WIDTH, HEIGHT = 960, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 16, 36
_MOST_POINTS = 1_500


class Tooth(NamedTuple):
    """One compaction on the chart: at which turn, and the tokens before and after it."""

    id: str
    turn: int
    before: int
    after: int


def teeth(records: Sequence[Record]) -> list[Tooth]:
    """Where each compaction stands among the turns of the original conversation."""
    found = list[Tooth]()
    for record in sorted(records, key=lambda record: record.created):
        receipt = receipt_from(record.data["receipt"])
        known = record.data["turns"]
        turn = record.data["next_turn"] + max(0, receipt.messages_after - len(known))
        turn = max(turn, found[-1].turn if found else 1)
        found.append(Tooth(record.id, turn, receipt.tokens_before, receipt.tokens_after))
    return found


def points(marks: Sequence[Tooth], sizes: Mapping[int, int]) -> list[tuple[int, int]]:
    """(turn, tokens) along the way: growing as the messages did, falling at each compaction."""
    line = [(0, 0)]
    for tooth in marks:
        turn, tokens = line[-1]
        between = range(turn, tooth.turn)
        known = [sizes[t] for t in between if t in sizes]
        usual = max(1, sum(known) // len(known)) if known else 1
        weights = [sizes.get(t, usual) for t in between]
        grown, whole = 0, sum(weights)
        step = max(1, len(weights) * len(marks) // _MOST_POINTS)
        for place, weight in enumerate(weights):
            grown += weight
            if place % step == 0 or place == len(weights) - 1:
                line.append((turn + place + 1, tokens + round((tooth.before - tokens) * grown / max(1, whole))))
        if not weights:
            line.append((tooth.turn, tooth.before))
        line.append((tooth.turn, tooth.after))
    return line


def chart(records: Sequence[Record], sizes: Mapping[int, int]) -> str:
    """The drawing; each tooth is a link to its compaction."""
    marks = teeth(records)
    line = points(marks, sizes)
    last, most = max(1, line[-1][0]), max(1, *(tokens for _, tokens in line))

    def x(turn: float) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * turn / last, 1)

    def y(tokens: float) -> float:
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * tokens / most, 1)

    path = " ".join(f"{x(turn)},{y(tokens)}" for turn, tokens in line)
    parts = [
        f'<svg id="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="tokens in the context over turns">',
        *(_level(y(value), value) for value in _ticks(most)),
        *(f'<text class="tick" x="{x(t)}" y="{HEIGHT - 16}" text-anchor="middle">{t:,}</text>' for t in _ticks(last)),
        f'<text class="tick" x="{WIDTH - _RIGHT}" y="{HEIGHT - 2}" text-anchor="end">turns</text>',
        f'<polygon class="area" points="{x(0)},{y(0)} {path} {x(last)},{y(0)}"/>',
        f'<polyline class="line" points="{path}"/>',
    ]
    for tooth in marks:
        said = f"turn {tooth.turn:,}: {tooth.before:,} → {tooth.after:,} tokens"
        parts.append(
            f'<a href="#c-{escape(tooth.id)}"><line class="drop" x1="{x(tooth.turn)}" y1="{y(tooth.before)}" '
            f'x2="{x(tooth.turn)}" y2="{y(tooth.after)}"/><circle class="tooth" cx="{x(tooth.turn)}" '
            f'cy="{y(tooth.before)}" r="5"><title>{said}</title></circle></a>'
        )
    return "\n".join([*parts, "</svg>"])


def _level(height: float, value: int) -> str:
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{height}" y2="{height}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{height + 4}" text-anchor="end">{value:,}</text>'
    )


def _ticks(most: int) -> list[int]:
    """Round numbers from 0 up to `most`, five or so."""
    step, factors = 1, cycle((2, 2.5, 2))
    while most / step > 6:
        step = round(step * next(factors))
    return list(range(0, most + 1, step))
