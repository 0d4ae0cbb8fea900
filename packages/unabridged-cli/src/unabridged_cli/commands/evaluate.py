"""`eval`: measure what an agent still has after its conversation was shortened, on real conversations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from unabridged.errors import SettingsError
from unabridged.sessions import write_file_atomically
from unabridged.sizes import parse_size
from unabridged_cli import screen
from unabridged_cli.options import require_writable

ConversationFiles = Annotated[
    Path,
    typer.Argument(
        help="A file or a folder of conversations: JSON, JSON Lines, sessions of Claude Code, Codex CLI or pi. "
        "Conversations may carry `questions` with `evidence`.",
        readable=False,
    ),
]
CutWindow = Annotated[str, typer.Option("--window", help="Cut where a window of this size is full: 24k.")]
Budget = Annotated[str, typer.Option("--budget", help="Tokens for what stands in for the past; several with commas.")]
EvaluatedModel = Annotated[
    str | None, typer.Option("--model", help="Measure a model's summaries too: provider:name. Costs its calls.")
]
Arm = Annotated[
    list[str] | None,
    typer.Option("--arm", help="Only this way of shortening; may be repeated. Default: all that can run here."),
]


def evaluate(
    data: ConversationFiles,
    *,
    window: CutWindow = "24k",
    budget: Budget = "1k,3k",
    model: EvaluatedModel = None,
    arm: Arm = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the numbers here as JSON; - for standard output.")
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Draw recall against tokens into this SVG file.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Only the first so many conversations.", min=1)] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            "--reader", help="Have this model read and mark the texts instead: provider:name. Costs its calls."
        ),
    ] = None,
    probes: Annotated[int, typer.Option("--probes", help="Questions that the reader writes.", min=1, max=40)] = 10,
    readings: Annotated[
        int, typer.Option("--readings", help="Readings of each text; every second in the order turned around.", min=1)
    ] = 2,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="Texts of yours to be read as well: NAME=FOLDER, a file for each conversation."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Keep every text, prompt, reply and mark in this new folder.")
    ] = None,
) -> None:
    """Measure what an agent needs next and still has after a compaction, at equal budgets of tokens.

    Each conversation is replayed and cut where the window would be full. Reported are the file names and identifiers
    that the next 60 calls use, stood before the cut, and are still in the context; people's messages kept word for
    word; the tokens that the whole run takes, with what must be fetched again because it was forgotten; and, for
    conversations with questions, whether the evidence is in the context or found by one search.

    Arms: unabridged (no model), model (with --model), tail (the last messages), and, where LangChain is installed,
    langchain and langchain-untrimmed (its middleware with the same summariser behind it) and unabridged+20 (ours beside
    the 20 messages that LangChain keeps).

    With --reader, each conversation is cut once, and a model reads what stands in for its past without knowing who
    wrote it: unabridged; with --model also model and plain (the same model, asked plainly, at the same size); and those
    that --text names. From what happened next it first writes probes, then marks each text 0, 1 or 2 on each, with the
    reason, and says which it prefers, and what a text says falsely of who said what.
    """
    from unabridged_corpus.evaluate.data import read_conversations  # noqa: PLC0415 - only this command measures
    from unabridged_corpus.evaluate.plot import draw_plot  # noqa: PLC0415 - likewise
    from unabridged_corpus.evaluate.report import evaluate as measure  # noqa: PLC0415 - likewise

    size, budgets = parse_window_and_budgets(window, budget)
    if reader is None and (text or keep):
        raise SettingsError("--text and --keep are for readings: name a model that reads, --reader provider:name")
    if reader is not None and (arm or plot_file):
        raise SettingsError("--arm and --plot are for counts: leave them out with --reader")
    to_stdout = str(json_file) == "-"
    for out in (plot_file, None if to_stdout else json_file):
        if out is not None:
            require_writable(out, data)
    conversations = read_conversations(data, limit=limit, warn=screen.print_notice)
    if reader is not None:
        how = {"model": model, "window": size, "budget": max(budgets), "probes": probes, "readings": readings}
        readings_report = _run_readings(conversations, reader, _parse_text_folders(text or []), keep, how)
        _write_report(readings_report, json_file, _print_readings)
        return
    measured = screen.track(conversations, "measuring")
    report = measure(data, measured, window=size, budgets=budgets, arms=arm or (), model=model)
    if not report.needs and not report.questions:
        raise SettingsError(f"no conversation in {data} is longer than {size:,} tokens: try a smaller --window")
    if plot_file is not None:
        drawn = draw_plot(report.needs, f"needed next and still there, {data.name}")
        write_file_atomically(plot_file, [drawn.encode()], mode=0o644)
    _write_report(report, json_file, _print_evaluation)


def parse_window_and_budgets(window: str, budget: str) -> tuple[int, list[int]]:
    """Return the window and the budgets that these options name."""
    budgets = [parse_size(part, "a budget") for part in budget.split(",") if part.strip()]
    size = parse_size(window, "a window")
    if not budgets or min(budgets) < 50:
        raise SettingsError(f"--budget {budget}: name at least 50 tokens, such as 1k or 1k,3k")
    if size < 1_000:
        raise SettingsError(f"--window {window}: a window has 1,000 tokens or more")
    return size, budgets


def _write_report(report: Any, json_file: Path | None, show: Callable[[Any], None]) -> None:
    """Write the report as JSON where that is asked for, and as tables unless that is on standard output."""
    if str(json_file) == "-":
        screen.print_json(asdict(report))
        return
    if json_file is not None:
        write_file_atomically(json_file, [json.dumps(asdict(report), indent=1).encode(), b"\n"], mode=0o644)
    show(report)


def _print_evaluation(report: Any) -> None:
    screen.print_line(f"{report.data}: cut every {report.window:,} tokens; counted: {report.counted}", "bold")
    if report.needs:
        first = report.needs[0]
        title = f"needed next and still in the context ({first.conversations} conversations, {first.cuts} cuts)"
        columns = ["arm", "budget", "tokens", "files", "names", "people verbatim"]
        rows = [[row.arm, row.budget, row.tokens, row.files, row.names, row.verbatim] for row in report.needs]
        screen.make_console().print(screen.build_table(title, columns, rows))
    if report.tasks:
        first = report.tasks[0]
        title = f"tokens per task, at cache prices ({first.conversations} conversations, a window of {first.window:,})"
        sizes = ("tokens", "from", "to", "sent", "summaries", "fetched again")
        columns = ["arm", *sizes, "needs", "missed", "refused runs"]
        tokens = [(row.tokens, *row.interval, row.sent, row.summaries, row.fetches) for row in report.tasks]
        counts = [(row.needs, row.missed, row.refused) for row in report.tasks]
        arms = zip(report.tasks, tokens, counts, strict=True)
        rows = [[row.arm, *map(round, spent), *numbers] for row, spent, numbers in arms]
        screen.make_console().print(screen.build_table(title, columns, rows))
    if report.questions:
        first = report.questions[0]
        title = f"questions with all their evidence ({first.questions}, a window of {first.window:,})"
        columns = ["arm", "tokens", "in context after a cut", "in context at the end", "or by one search"]
        rows = [[row.arm, row.tokens, row.after_cuts, row.in_context, row.or_search] for row in report.questions]
        screen.make_console().print(screen.build_table(title, columns, rows))


def _parse_text_folders(texts: list[str]) -> dict[str, Path]:
    """Return the folder of each name; each text is NAME=FOLDER."""
    folders: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not name or not equals or not Path(folder).is_dir() or name in folders:
            raise SettingsError(f"--text {text}: write NAME=FOLDER, a new name and a folder that is there")
        folders[name] = Path(folder)
    return folders


def _run_readings(
    data: Iterable[Any], reader: str, texts: dict[str, Path], keep: Path | None, how: dict[str, Any]
) -> Any:
    """Return the readings, shown on the screen as they are made; warn of what failed."""
    from unabridged_corpus.evaluate.readings import read_all_conversations  # noqa: PLC0415 - likewise

    with screen.show_spinner("reading") as status:

        def tell(what: str) -> None:
            status.update(Text(screen.escape_control_characters(what)))

        read = read_all_conversations(data, reader, texts=texts, folder=keep, tell=tell, **how)
    for what in (*read.failed, *(f"{name}: no window of {how['window']:,} tokens is full" for name in read.skipped)):
        screen.print_notice(what)
    if not read.readings:
        raise SettingsError("no reading was made" + ("" if read.failed else ": try a smaller --window"))
    return read


def _print_readings(read: Any) -> None:
    counts = f"{screen.format_count(len(read.readings), 'reading')}, {len(read.failed):,} failed"
    columns = ["text", "characters", "points", "share", "preferred", "how", "false"]
    rows = []
    for row in read.rows:
        how = {"clear": row.clear, "narrow": row.narrow, "tie": row.tied}
        ways = ", ".join(f"{count} {name}" for name, count in how.items() if count)
        points, first = f"{row.points} of {row.most}", f"{row.preferred:g} of {row.readings}"
        rows.append([row.candidate, row.characters, points, row.share, first, ways, row.false])
    screen.make_console().print(screen.build_table(f"marked by {read.reader} ({counts})", columns, rows))
    for who, cost in read.cost.items():
        screen.print_line(f"{who}: " + ", ".join(f"{name} {value:,.4g}" for name, value in cost.items()))
