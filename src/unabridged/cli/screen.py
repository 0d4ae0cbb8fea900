"""Terminal and pipe: consoles, one-line errors, JSON, progress bars, and text that can't do anything but be read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

# Escape sequences, and marks that turn text around or hide it: a terminal obeys them, whoever wrote them.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def console() -> Console:
    """Standard output: colours in a terminal, plain text in a pipe or with NO_COLOR."""
    return Console(highlight=False, emoji=False)


def plain(text: str) -> str:
    """The text with everything that a terminal would obey shown by its number."""
    text = text.replace("\r\n", "\n")
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, most: int = 120) -> str:
    """The beginning of a text on one line."""
    line = " ".join(plain(text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def spans(turns: Iterable[tuple[int, int]]) -> str:
    """Half-open ranges of turns, counted from 0, as people write them: 0-70, 72, 75-80; not too many."""
    listed = [str(first) if last - first == 1 else f"{first}-{last - 1}" for first, last in turns]
    more = [f"… and {len(listed) - 20:,} more"] if len(listed) > 20 else []
    return ", ".join([*listed[:20], *more])


def number_of(count: int, what: str) -> str:
    """So many of something, as people say it: 1 compaction, 1,200 messages."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def tell(message: str) -> None:
    """One line for the person, on standard error, so that pipes stay clean."""
    Console(stderr=True, highlight=False, emoji=False, soft_wrap=True).print(Text(f"unabridged: {plain(message)}"))


def fail(message: str, code: int) -> NoReturn:
    """End with one line that says what to do."""
    tell(" ".join(message.split()))
    raise SystemExit(code)


def print_json(value: Any) -> None:
    """One JSON document on standard output, in ASCII, so that no pipe can break it."""
    typer.echo(json.dumps(value, ensure_ascii=True, default=str))


def ask(question: str, *, yes: bool) -> None:
    """Go on if the person says so; in a script, only `--yes` says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("nobody is there to ask: say --yes to go on. Nothing was done", 2)
    if not typer.confirm(question, err=True):
        fail("nothing was done", 2)


def say(text: str) -> None:
    """A line on standard output, whatever stands in it."""
    console().print(plain(text), markup=False, soft_wrap=True)


def table_of(title: str, names: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    """A table without rows: columns of names, which stay on one line, and then of numbers."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def facts(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """A table of names and values."""
    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


@contextmanager
def progress_bar(what: str, *columns: ProgressColumn, shown: bool = True) -> Iterator[Callable[..., None]]:
    """A progress bar on standard error; gets `completed`, `total` and `description`. Silent in a pipe."""
    err = Console(stderr=True)
    with Progress(*columns, console=err, transient=True, disable=not (shown and err.is_terminal)) as progress:
        task = progress.add_task(what, total=None)
        yield partial(progress.update, task)


@contextmanager
def reading(file: Path, doing: str = "reading", unit: str = "bytes") -> Iterator[Callable[[int, int], None]]:
    """A progress bar for a file that takes a while; gets what is done so far and in all."""
    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn())
    with progress_bar(f"{doing} {plain(file.name)}", *columns) as update:
        yield lambda done, size: update(completed=done, total=size)


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar for work on many things; called once for each."""
    with progress_bar(what, *Progress.get_default_columns(), shown=total >= 2_000) as update:
        done = count(1)

        def step() -> None:
            if (number := next(done)) % 256 == 0:  # drawing is not the work
                update(completed=number, total=total)

        yield step


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner while something takes its time. Silent in a pipe."""
    err = Console(stderr=True)
    if not err.is_terminal:
        yield
        return
    with err.status(what):
        yield
