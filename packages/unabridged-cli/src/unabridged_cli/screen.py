"""Terminal and pipe: one-line errors, JSON, tables, progress, and text that can't do anything but be read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import typer
from rich import progress
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from unabridged.events import Receipt

# Escape sequences, and marks that turn text around or hide it: a terminal obeys them, whoever wrote them.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_Item = TypeVar("_Item")


def make_console() -> Console:
    """Return standard output: colours in a terminal, plain text in a pipe or with NO_COLOR."""
    return Console(highlight=False, emoji=False)


# -- texts ------------------------------------------------------------------------------------------------------------


def escape_control_characters(text: str) -> str:
    """Return the text with control characters escaped, so that a terminal can't act on them."""
    text = text.replace("\r\n", "\n")
    return _CONTROL_CHARACTERS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def shorten_to_one_line(text: str, length: int = 120) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(escape_control_characters(text[: 4 * length]).split())
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[: length - 1]}…"


def format_turn_ranges(turns: Iterable[tuple[int, int]]) -> str:
    """Return half-open ranges of turns, counted from 0, as people write them: 0-70, 72, 75-80; not too many."""
    listed = [str(first) if last - first == 1 else f"{first}-{last - 1}" for first, last in turns]
    more = [f"… and {len(listed) - 20:,} more"] if len(listed) > 20 else []
    return ", ".join([*listed[:20], *more])


def format_count(count: int, what: str) -> str:
    """Return a count as people say it: 1 compaction, 1,200 messages."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def format_local_minute(moment: float) -> str:
    """Return a Unix time in the time zone of this machine."""
    return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


# -- lines ------------------------------------------------------------------------------------------------------------


def print_line(text: str, style: str = "") -> None:
    """Print a line on standard output, whatever is in it."""
    make_console().print(Text(escape_control_characters(text), style=style), soft_wrap=True)


def print_notice(message: str) -> None:
    """Print one line for the person on standard error, so that pipes stay clean."""
    line = Text(f"unabridged: {escape_control_characters(message)}")
    Console(stderr=True, highlight=False, emoji=False, soft_wrap=True).print(line)


def fail(message: str, code: int) -> NoReturn:
    """End the program with one line that says what to do."""
    print_notice(" ".join(message.split()))
    raise SystemExit(code)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output, in ASCII, so that no pipe can break it."""
    typer.echo(json.dumps(value, ensure_ascii=True, default=str))


def confirm_or_exit(question: str, *, yes: bool) -> None:
    """Return if the person says yes, else end the program; in a script, only `--yes` says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("nobody is there to ask: say --yes to go on. Nothing was done", 2)
    if not typer.confirm(question, err=True):
        fail("nothing was done", 2)


# -- tables -----------------------------------------------------------------------------------------------------------


def build_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table; 1200 is shown as 1,200, 0.125 as 12.5%, None as nothing, and text as text."""
    heading = Text(escape_control_characters(title), style="bold")
    result = Table(title=heading, title_justify="left", show_header=any(columns))
    for name in columns:
        result.add_column(name, overflow="fold")
    for row in rows:
        result.add_row(*map(_format_cell, row))
    return result


def _format_cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, int | float):
        return Text(f"{value:,}" if isinstance(value, int) else f"{value:.1%}", justify="right")
    return Text("" if value is None else escape_control_characters(str(value)))


def build_facts_table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and values."""
    return build_table(title, ("", ""), rows)


def build_receipt_rows(receipt: Receipt) -> list[tuple[str, str]]:
    """Return what a receipt says about a compaction besides its size, as names and values."""
    return [
        ("why", receipt.reason),
        ("turns compacted", format_turn_ranges(receipt.turns)),
        *([("turns shortened", format_turn_ranges(receipt.edited))] if receipt.edited else []),
        ("summariser", receipt.summariser),
        *((name, f"{value:,.4g}") for name, value in receipt.cost.items()),
        *(("mended", what) for what in receipt.mended),
        *(("note", note) for note in receipt.notes),
    ]


# -- progress: on standard error, silent in a pipe --------------------------------------------------------------------


def track(items: Iterable[_Item], what: str) -> Iterable[_Item]:
    """Return the items with a bar that shows how many there were."""
    err = Console(stderr=True)
    return progress.track(items, what, console=err, transient=True, disable=not err.is_terminal)


@contextmanager
def show_progress(what: str, *columns: str | progress.ProgressColumn) -> Iterator[Callable[..., None]]:
    """Show a bar, in bytes unless the columns say otherwise; yield what takes how much is done, and of how much."""
    err = Console(stderr=True)
    columns = columns or (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int | None, description: str = what) -> None:
            bar.update(task, completed=done, total=total, description=description)

        yield update


def show_spinner(what: str) -> Status:
    """Return a spinner to be shown while something takes its time."""
    return Console(stderr=True).status(what)
