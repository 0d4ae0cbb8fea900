"""`eval`: what an agent still has after its conversation was shortened, measured on real conversations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from unabridged.cli.options import number
from unabridged.cli.screen import console, one_line, plain, print_json, progress_bar, table_of, tell
from unabridged.errors import SettingsError
from unabridged.sessions import write_whole

Data = Annotated[
    Path,
    typer.Argument(
        help="A file or a folder of conversations: JSON, JSON Lines, sessions of Claude Code, Codex CLI or pi. "
        "Conversations may carry `questions` with `evidence`.",
        readable=False,
    ),
]


def evaluate(
    data: Data,
    *,
    window: Annotated[str, typer.Option("--window", help="Cut where a window of this size is full: 24k.")] = "24k",
    budget: Annotated[
        str, typer.Option("--budget", help="Tokens for what stands in for the past; several with commas.")
    ] = "1k,3k",
    model: Annotated[
        str | None, typer.Option("--model", help="Measure a model's summaries too: provider:name. Costs its calls.")
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", help="Only this way of shortening; may be repeated. Default: all that can run here."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the numbers here as JSON; - for standard output.")
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Draw recall against tokens into this SVG file.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Only the first so many conversations.", min=1)] = None,
) -> None:
    """What an agent needs next and still has after a compaction, at equal budgets of tokens.

    Each conversation is replayed and cut where the window would be full. Reported are the file names and identifiers
    that the next 60 calls use, stood before the cut, and are still in the context; people's messages kept word for
    word; and, for conversations with questions, whether the evidence is in the context or found by one search.

    Arms: unabridged (no model), model (with --model), tail (the last messages), and, where LangChain is installed,
    langchain and langchain-untrimmed (its middleware with the same summariser behind it) and unabridged+20 (ours beside
    the 20 messages that LangChain keeps).
    """
    from unabridged.evaluate.data import conversations, how_many  # noqa: PLC0415 - only this command measures
    from unabridged.evaluate.plot import plot  # noqa: PLC0415 - likewise
    from unabridged.evaluate.report import evaluate as measure  # noqa: PLC0415 - likewise

    budgets = [number(part, "a budget") for part in budget.split(",") if part.strip()]
    size = number(window, "a window")
    if not budgets or min(budgets) < 50:
        raise SettingsError(f"--budget {budget}: name at least 50 tokens, such as 1k or 1k,3k")
    if size < 1_000:
        raise SettingsError(f"--window {window}: a window has 1,000 tokens or more")
    _writable(plot_file, json_file)
    total = how_many(data)
    with _measuring(min(total, limit or total)) as step:
        report = measure(
            data,
            conversations(data, limit=limit, warn=tell),
            window=size,
            budgets=budgets,
            arms=arm or (),
            model=model,
            progress=step,
        )
    if not report.needs and not report.questions:
        raise SettingsError(f"no conversation in {data} is longer than {size:,} tokens: try a smaller --window")
    if plot_file is not None:
        write_whole(plot_file, [plot(report.needs, f"needed next and still there, {data.name}").encode()], mode=0o644)
    if json_file is not None and str(json_file) != "-":
        write_whole(json_file, [json.dumps(report.as_json(), indent=1).encode(), b"\n"], mode=0o644)
    if str(json_file) == "-":
        print_json(report.as_json())
    else:
        _show(report)


def _writable(*files: Path | None) -> None:
    """Refuse a place that can't be written before the work begins."""
    for file in files:
        if file is not None and str(file) != "-" and not file.resolve().parent.is_dir():
            raise SettingsError(f"can't write {file}: there is no folder {file.resolve().parent}")


@contextmanager
def _measuring(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar over conversations; told the name of the one that is next."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with progress_bar("", *columns) as update:
        done = count()
        yield lambda name: update(completed=next(done), total=total, description=one_line(name, 60))


def _show(report: Any) -> None:
    screen = console()
    head = f"{report.data}: cut every {report.window:,} tokens; counted: {report.counted}"
    screen.print(Text(plain(head), style="bold"))
    if report.needs:
        screen.print(_needs(report.needs))
    if report.questions:
        screen.print(_questions(report.questions))


def _needs(rows: Any) -> Table:
    first = rows[0]
    title = f"needed next and still in the context ({first.conversations} conversations, {first.cuts} cuts)"
    table = table_of(title, ["arm"], ("budget", "tokens", "files", "names", "people verbatim"))
    last = first.budget
    for row in rows:
        if row.budget != last:
            table.add_section()
            last = row.budget
        shares = (f"{share:.1%}" for share in (row.files, row.names, row.verbatim))
        table.add_row(row.arm, f"{row.budget:,}", f"{row.tokens:,}", *shares)
    return table


def _questions(rows: Any) -> Table:
    first = rows[0]
    title = f"questions with all their evidence ({first.questions}, a window of {first.window:,})"
    columns = ("tokens", "in context after a cut", "in context at the end", "or by one search")
    table = table_of(title, ["arm"], columns)
    for row in rows:
        reached = "" if row.or_search is None else f"{row.or_search:.1%}"
        table.add_row(row.arm, f"{row.tokens:,}", f"{row.after_cuts:.1%}", f"{row.in_context:.1%}", reached)
    return table
