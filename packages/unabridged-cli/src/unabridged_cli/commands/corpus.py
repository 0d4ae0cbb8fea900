"""`corpus`: the commands for a session, over many of them, on this machine or on a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import progress as bars
from rich.console import Console

from unabridged.sizes import number
from unabridged_cli import options
from unabridged_cli.commands.check import Provider
from unabridged_cli.commands.compact import Keep, Now, Summariser, Trigger, settings_of
from unabridged_cli.commands.evaluate import Arm, Budget, CutWindow, EvaluatedModel, budgets_of
from unabridged_cli.screen import console, facts, number_of, one_line, print_json, say, tell
from unabridged_corpus.inputs import SHARD
from unabridged_corpus.manifest import MANIFEST, Report
from unabridged_corpus.running import Progress, run
from unabridged_corpus.spending import Limit
from unabridged_corpus.works import Check, Compact, Evaluate, Measure, Repair, Work

In = Annotated[
    str,
    typer.Argument(
        metavar="IN",
        help="The sessions: a file, a folder or a quoted pattern. JSON, JSON Lines (messages or conversations), "
        "Parquet (a conversation a row), sessions of Claude Code, Codex CLI or pi.",
    ),
]
OutFolder = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="A folder for the results: new, or with some of the same work.", readable=False),
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Processes here. Default: one a core.", min=1)]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray", metavar="ADDRESS", help="On the Ray cluster there instead: auto, HOST:6379; local for one of its own."
    ),
]
ShardSize = Annotated[str, typer.Option("--shard", help="Bytes of input that make a part of the result.")]
Rate = Annotated[float | None, typer.Option("--rate", help="The most calls of the model a minute, of all workers.")]
MaxTokens = Annotated[
    str | None, typer.Option("--max-tokens", help="The most tokens of the model in this run, of all workers: 2m.")
]
MaxDollars = Annotated[
    float | None, typer.Option("--max-dollars", help="The most that the model may cost in this run, of all workers.")
]
CopiesTo = Annotated[
    str | None,
    typer.Option("--archive", help="Copy the originals there: sqlite:///agent.db, dir:folder or postgresql://…"),
]
Whose = Annotated[str | None, typer.Option("--namespace", help="Whose conversations these are, in the archive.")]
_SHARD = f"{SHARD // 1_000_000}m"
_SHOWN = 5


def compact(
    source: In,
    out: OutFolder,
    *,
    window: options.Window = None,
    model: options.ModelName = None,
    summariser: Summariser = None,
    trigger: Trigger = None,
    keep: Keep = None,
    now: Now = False,
    archive: CopiesTo = None,
    namespace: Whose = None,
    rate: Rate = None,
    max_tokens: MaxTokens = None,
    max_dollars: MaxDollars = None,
    jobs: Jobs = None,
    ray: Ray = None,
    format_: options.FormatName = None,
    shard: ShardSize = _SHARD,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Make every session of a corpus fit a window.

    OUT gets the results, a line for each session, in part-*.jsonl, and manifest.json: every input with its digest,
    counts, and failures with file and reason. The originals stay in IN and are named by path and digest; with --archive
    they are copied there.

    One bad session is reported and the rest is done; it ends with 1 then. Run it again to go on after an interruption:
    only what is new, changed or failed is done.
    """
    wanted = settings_of(trigger, keep, window)
    limit = _limit(rate, max_tokens, max_dollars)
    where: dict[str, Any] = {"archive": archive, "namespace": namespace}
    work = Compact(agent=model, model=summariser, now=now, limit=limit, **wanted, **where)
    _do(work, source, out, as_json, jobs=jobs, ray=ray, format=format_, shard=shard, max_size=max_size)


def check(
    source: In,
    out: OutFolder,
    *,
    provider: Provider = None,
    model: options.ModelName = None,
    pending: options.Pending = False,
    jobs: Jobs = None,
    ray: Ray = None,
    format_: options.FormatName = None,
    shard: ShardSize = _SHARD,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """What a provider would refuse in every session of a corpus, with message and rule.

    Ends with 1 when something would be refused, or can't be read.
    """
    work = Check(providers=tuple(provider or ()), agent=model, pending=pending)
    report = _do(work, source, out, as_json, jobs=jobs, ray=ray, format=format_, shard=shard, max_size=max_size)
    if report.counts.get("refused"):
        raise typer.Exit(1)


def repair(
    source: In,
    out: OutFolder,
    *,
    provider: Annotated[str | None, typer.Option("--provider", help="Mend for this one. Default: by format.")] = None,
    model: options.ModelName = None,
    pending: options.Pending = False,
    jobs: Jobs = None,
    ray: Ray = None,
    format_: options.FormatName = None,
    shard: ShardSize = _SHARD,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Every session of a corpus mended, with the least change, so that its provider takes it."""
    work = Repair(provider=provider, agent=model, pending=pending)
    _do(work, source, out, as_json, jobs=jobs, ray=ray, format=format_, shard=shard, max_size=max_size)


def measure(
    source: In,
    out: OutFolder,
    *,
    model: options.ModelName = None,
    jobs: Jobs = None,
    ray: Ray = None,
    format_: options.FormatName = None,
    shard: ShardSize = _SHARD,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """What fills the window of every session of a corpus, by whom and by tool, and what it costs."""
    work = Measure(agent=model)
    _do(work, source, out, as_json, jobs=jobs, ray=ray, format=format_, shard=shard, max_size=max_size)


def evaluate(
    source: In,
    out: OutFolder,
    *,
    window: CutWindow = "24k",
    budget: Budget = "1k,3k",
    model: EvaluatedModel = None,
    arm: Arm = None,
    rate: Rate = None,
    max_tokens: MaxTokens = None,
    max_dollars: MaxDollars = None,
    jobs: Jobs = None,
    ray: Ray = None,
    format_: options.FormatName = None,
    shard: ShardSize = _SHARD,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """What an agent needs next and still has after a compaction, for every session of a corpus.

    A line for each session; the counts of the manifest have, for each arm and budget, the number of conversations and
    the sums of their shares.
    """
    size, budgets = budgets_of(window, budget)
    how: dict[str, Any] = {"model": model, "limit": _limit(rate, max_tokens, max_dollars)}
    work = Evaluate(window=size, budgets=tuple(budgets), arms=tuple(arm or ()), **how)
    _do(work, source, out, as_json, jobs=jobs, ray=ray, format=format_, shard=shard, max_size=max_size)


def _limit(rate: float | None, max_tokens: str | None, max_dollars: float | None) -> Limit:
    return Limit(rate, number(max_tokens, "tokens") if max_tokens else None, max_dollars)


def _do(
    work: Work, source: str, out: Path, as_json: bool, *, jobs: int | None, shard: str, max_size: str, **how: Any
) -> Report:
    how |= {
        "max_size": number(max_size, "a size"),
        "shard": number(shard, "a size"),
        "jobs": jobs or os.cpu_count() or 1,
    }
    with _bar(work.name) as progress, redirect_stdout(sys.stderr):  # where Ray tells of workers that it lost
        report = run(work, source, out, progress=progress, **how)
    if as_json:
        print_json(asdict(report))
    else:
        _show(report)
    if report.failures:
        raise typer.Exit(1)
    return report


def _show(report: Report) -> None:
    console().print(facts("what became of it", [(name, f"{value:,.10g}") for name, value in report.counts.items()]))
    done = f"{number_of(report.sessions, 'session')}, {report.fresh:,} of them now"
    say(f"{done}, in {number_of(report.parts, 'part')}: {report.out / MANIFEST}")
    for failure in report.failures[:_SHOWN]:
        line = f", line {failure.line}" if failure.line else ""
        tell(f"{failure.file}{line}: {one_line(failure.reason, 400)}")
    if report.failures:
        failed = number_of(len(report.failures), "session")
        tell(f"{failed} failed, and the rest is done: see {report.out / MANIFEST}")


@contextmanager
def _bar(what: str) -> Iterator[Callable[[Progress], None]]:
    """A bar in bytes of input, and how many sessions that are; silent in a pipe."""
    err = Console(stderr=True)
    columns = (
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as shown:
        task = shown.add_task(what, total=None)

        def update(at: Progress) -> None:
            failed = f", {at.failed:,} failed" if at.failed else ""
            told = f"{what}: {number_of(at.sessions, 'session')}{failed}"
            shown.update(task, completed=at.done, total=at.total, description=told)

        yield update
