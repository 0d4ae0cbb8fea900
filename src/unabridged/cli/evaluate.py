"""`eval`: what an agent still has after its conversation was shortened, measured on real conversations."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.cli.options import number, writable
from unabridged.cli.screen import console, print_json, say, table, tell, track
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
    from unabridged.evaluate.data import conversations  # noqa: PLC0415 - only this command measures
    from unabridged.evaluate.plot import plot  # noqa: PLC0415 - likewise
    from unabridged.evaluate.report import evaluate as measure  # noqa: PLC0415 - likewise

    budgets = [number(part, "a budget") for part in budget.split(",") if part.strip()]
    size = number(window, "a window")
    if not budgets or min(budgets) < 50:
        raise SettingsError(f"--budget {budget}: name at least 50 tokens, such as 1k or 1k,3k")
    if size < 1_000:
        raise SettingsError(f"--window {window}: a window has 1,000 tokens or more")
    to_stdout = str(json_file) == "-"
    for out in (plot_file, None if to_stdout else json_file):
        if out is not None:
            writable(out, data)
    found = track(conversations(data, limit=limit, warn=tell), "measuring")
    report = measure(data, found, window=size, budgets=budgets, arms=arm or (), model=model)
    if not report.needs and not report.questions:
        raise SettingsError(f"no conversation in {data} is longer than {size:,} tokens: try a smaller --window")
    if plot_file is not None:
        write_whole(plot_file, [plot(report.needs, f"needed next and still there, {data.name}").encode()], mode=0o644)
    if to_stdout:
        print_json(asdict(report))
        return
    if json_file is not None:
        write_whole(json_file, [json.dumps(asdict(report), indent=1).encode(), b"\n"], mode=0o644)
    _show(report)


def _show(report: Any) -> None:
    say(f"{report.data}: cut every {report.window:,} tokens; counted: {report.counted}", "bold")
    if report.needs:
        first = report.needs[0]
        title = f"needed next and still in the context ({first.conversations} conversations, {first.cuts} cuts)"
        columns = ["arm", "budget", "tokens", "files", "names", "people verbatim"]
        rows = [[row.arm, row.budget, row.tokens, row.files, row.names, row.verbatim] for row in report.needs]
        console().print(table(title, columns, rows))
    if report.questions:
        first = report.questions[0]
        title = f"questions with all their evidence ({first.questions}, a window of {first.window:,})"
        columns = ["arm", "tokens", "in context after a cut", "in context at the end", "or by one search"]
        rows = [[row.arm, row.tokens, row.after_cuts, row.in_context, row.or_search] for row in report.questions]
        console().print(table(title, columns, rows))
