"""One self-contained HTML page about a thread: the saw-tooth, every compaction's before and after, and search.

Nothing is fetched, and nothing that a conversation says is obeyed: its text is escaped when the page is made, the
script never makes elements from text, and the page's own policy allows this one style and this one script by hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import chain, cycle, groupby
from string import Template
from typing import NamedTuple

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.cli.screen import number_of, plain, receipt_rows
from unabridged.errors import ArchiveError
from unabridged.events import COMPACTIONS, receipt_from
from unabridged.formats import detect
from unabridged.recall.lookup import reference

LONGEST = 20_000
"""Characters of one message on the page; `unabridged read` shows the rest."""


class Shown(NamedTuple):
    """A message as the page shows it."""

    label: str
    origin: str
    text: str


def render(archive: Archive, scope: Scope, records: Sequence[Record]) -> str:
    """The page as text."""
    parts, undone = archive.parts(scope), "There are no compactions" + ("." if records else ": all were undone.")
    records = [record for record in records if record.kind in COMPACTIONS]
    shown = {
        part.hash: Shown(
            f"[{part.turn}] {part.origin}, ref {reference(scope, part.turn, part.hash)}", part.origin, part.text
        )
        for part in parts
    }
    shown |= _put_in(archive, scope, records, shown)
    style, script = _asset("page.css"), _asset("page.js")
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        thread=_text(scope.thread),
        facts=_text(_facts(archive, scope, records, len(parts))),
        chart=chart(records) if records else f"<p>{undone}</p>",
        compactions="\n".join(_compaction(number, record, shown) for number, record in enumerate(records, 1)),
    )


def _facts(archive: Archive, scope: Scope, records: Sequence[Record], parts: int) -> str:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    kept = f"{number_of(len(records), 'compaction')}, {number_of(parts, 'message')} kept word for word"
    return f"{kept} · namespace {scope.namespace} · {archive.url} · made {made}"


def _put_in(archive: Archive, scope: Scope, records: Sequence[Record], known: Mapping[str, Shown]) -> dict[str, Shown]:
    """What compactions put in: summary turns, acknowledgments, cleared and shortened messages."""
    wanted = [item for record in records for item in (*record.after, *record.before) if isinstance(item, str)]
    found = dict[str, Shown]()
    for name, body in archive.bodies(scope, [item for item in dict.fromkeys(wanted) if item not in known]).items():
        try:
            message = codec.decode(body)
        except ArchiveError as error:
            found[name] = Shown("put in", "host", str(error))
            continue
        view = detect([message]).read(message)
        summary = view.text.startswith("[unabridged summary ")
        found[name] = Shown("the summary turn" if summary else f"put in, {view.role}", "summary", view.whole_text())
    return found


def _compaction(number: int, record: Record, shown: Mapping[str, Shown]) -> str:
    receipt = receipt_from(record.data["receipt"])
    when = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    rows = [
        ("when", when),
        ("tokens", f"{receipt.tokens_before:,} → {receipt.tokens_after:,}"),
        ("messages", f"{receipt.messages_before:,} → {receipt.messages_after:,}"),
        *receipt_rows(receipt),
    ]
    table = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
    share = max(1, round(100 * receipt.tokens_after / max(1, receipt.tokens_before)))
    return (
        f'<section class="compaction" id="c-{escape(record.id)}"><h2>{number}. {_text(record.kind)} '
        f"<code>{_text(record.id)}</code></h2>"
        f'<svg class="bars" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="bar-before" width="100" height="3"/>'
        f'<rect class="bar-after" y="4" width="{share}" height="3"/></svg>'
        f"<table>{table}</table>"
        f'<div class="sides"><div><h3>before</h3>{"".join(_side(record.before, shown))}</div>'
        f"<div><h3>after</h3>{''.join(_side(record.after, shown))}</div></div></section>"
    )


def _side(items: Sequence[str | int | None], shown: Mapping[str, Shown]) -> Iterator[str]:
    """The messages of one side in order; those that stayed are only counted."""
    for is_message, group in groupby(items, key=lambda item: isinstance(item, str)):
        listed = list(group)
        if not is_message:
            yield f'<p class="stayed">{len(listed):,} stayed</p>'
            continue
        for item in listed:
            yield _message(shown.get(str(item), Shown("missing: run unabridged verify", "host", "")))


def _message(message: Shown) -> str:
    text, cut = message.text[:LONGEST], len(message.text) - LONGEST
    more = f'<p class="stayed">{cut:,} more characters: unabridged read shows them</p>' if cut > 0 else ""
    opened = " open" if message.label == "the summary turn" else ""
    begins = " ".join(text[:160].split())
    return (
        f'<details class="message {escape(message.origin)}"{opened}><summary><b>{_text(message.label)}</b> '
        f"<span>{_text(begins)}</span></summary><pre>{_text(text)}</pre>{more}</details>"
    )


def _text(text: str) -> str:
    """Text that stays text, with what can't be seen made visible."""
    return escape(plain(text), quote=True)


def _asset(name: str) -> str:
    return (files("unabridged.cli") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """How a policy names one inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# -- the saw-tooth: tokens in the context over the turns of a conversation --------------------------------------------

WIDTH, HEIGHT = 960, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 16, 36


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


def points(marks: Sequence[Tooth]) -> list[tuple[int, int]]:
    """(turn, tokens) along the way: rising to each compaction, and falling there."""
    drops = (((tooth.turn, tooth.before), (tooth.turn, tooth.after)) for tooth in marks)
    return [(0, 0), *chain.from_iterable(drops)]


def chart(records: Sequence[Record]) -> str:
    """The drawing; each tooth is a link to its compaction."""
    marks = teeth(records)
    line = points(marks)
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
