"""`corpus`: the commands for one session, over many of them, on this machine or on a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.sizes import parse_size
from unabridged_cli import options, screen
from unabridged_cli.commands.check import Provider
from unabridged_cli.commands.compact import Keep, Now, Summariser, Trigger, settings_from
from unabridged_cli.commands.evaluate import Arm, Budget, CutWindow, EvaluatedModel, parse_window_and_budgets
from unabridged_corpus.inputs import SHARD_BYTES
from unabridged_corpus.manifest import MANIFEST_FILE, Report
from unabridged_corpus.running import Progress, run
from unabridged_corpus.spending import SpendingLimit
from unabridged_corpus.works import Check, Compact, Evaluate, Measure, Repair, Work

InputFiles = Annotated[
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
CallRate = Annotated[float | None, typer.Option("--rate", help="The most calls of the model a minute, of all workers.")]
MaxTokens = Annotated[
    str | None, typer.Option("--max-tokens", help="The most tokens of the model in this run, of all workers: 2m.")
]
MaxDollars = Annotated[
    float | None, typer.Option("--max-dollars", help="The most that the model may cost in this run, of all workers.")
]
CopyArchiveUrl = Annotated[
    str | None,
    typer.Option("--archive", help="Copy the originals there: sqlite:///agent.db, dir:folder or postgresql://…"),
]
CorpusNamespace = Annotated[
    str | None, typer.Option("--namespace", help="Whose conversations these are, in the archive.")
]
_DEFAULT_SHARD_SIZE = f"{SHARD_BYTES // 1_000_000}m"
_FAILURES_SHOWN = 5


def _make_corpus_command(make_work: Callable[..., Work]) -> Callable[..., None]:
    """Return the command that does this work over a corpus: with its own options, and those of all such commands.

    The command ends with 1 when a session failed, or when a provider would refuse one.
    """

    def command(
        source: InputFiles,
        out: OutFolder,
        *,
        jobs: Jobs = None,
        ray: Ray = None,
        format_: options.FormatName = None,
        shard: ShardSize = _DEFAULT_SHARD_SIZE,
        as_json: options.AsJson = False,
        max_size: options.MaxSize = options.MAX_SIZE,
        **own: Any,
    ) -> None:
        work = make_work(**own)
        how: dict[str, Any] = {"ray": ray, "format": format_, "jobs": jobs or os.cpu_count() or 1}
        how |= {"max_size": parse_size(max_size, "a size"), "shard": parse_size(shard, "a size")}
        # On standard output Ray would tell of workers that it lost.
        with screen.show_progress(work.name) as update, redirect_stdout(sys.stderr):
            how["progress"] = lambda at: update(at.done, at.total, _describe_progress(work, at))
            report = run(work, source, out, **how)
        if as_json:
            screen.print_json(asdict(report))
        else:
            _print_corpus_report(report)
        if report.failures or report.counts.get("refused"):
            raise typer.Exit(1)

    shared = [p for p in signature(command, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
    own_parameters = signature(make_work, eval_str=True).parameters.values()
    command.__signature__ = Signature([*shared[:2], *own_parameters, *shared[2:]])  # type: ignore[attr-defined] # for typer
    command.__doc__ = make_work.__doc__
    return command


@_make_corpus_command
def compact(
    *,
    window: options.Window = None,
    model: options.ModelName = None,
    summariser: Summariser = None,
    trigger: Trigger = None,
    keep: Keep = None,
    now: Now = False,
    archive: CopyArchiveUrl = None,
    namespace: CorpusNamespace = None,
    rate: CallRate = None,
    max_tokens: MaxTokens = None,
    max_dollars: MaxDollars = None,
) -> Work:
    """Make every session of a corpus fit a window.

    OUT gets the results, a line for each session, in part-*.jsonl, and manifest.json: every input with its digest,
    counts, and failures with file and reason. The originals stay in IN and are named by path and digest; with --archive
    they are copied there.

    One bad session is reported and the rest is done; it ends with 1 then. Run it again to go on after an interruption:
    only what is new, changed or failed is done.
    """
    where: dict[str, Any] = {"archive": archive, "namespace": namespace}
    limit = _build_spending_limit(rate, max_tokens, max_dollars)
    settings = settings_from(trigger, keep, window)
    return Compact(agent=model, model=summariser, now=now, limit=limit, **settings, **where)


@_make_corpus_command
def check(*, provider: Provider = None, model: options.ModelName = None, pending: options.Pending = False) -> Work:
    """Find what a provider would refuse in every session of a corpus, with message and rule.

    Ends with 1 when something would be refused, or can't be read.
    """
    return Check(providers=tuple(provider or ()), agent=model, pending=pending)


@_make_corpus_command
def repair(
    *,
    provider: Annotated[str | None, typer.Option("--provider", help="Mend for this one. Default: by format.")] = None,
    model: options.ModelName = None,
    pending: options.Pending = False,
) -> Work:
    """Mend every session of a corpus, with the least change, so that its provider takes it."""
    return Repair(provider=provider, agent=model, pending=pending)


@_make_corpus_command
def measure(*, model: options.ModelName = None) -> Work:
    """Measure what fills the window of every session of a corpus, by whom and by tool, and what it costs."""
    return Measure(agent=model)


@_make_corpus_command
def evaluate(
    *,
    window: CutWindow = "24k",
    budget: Budget = "1k,3k",
    model: EvaluatedModel = None,
    arm: Arm = None,
    rate: CallRate = None,
    max_tokens: MaxTokens = None,
    max_dollars: MaxDollars = None,
) -> Work:
    """Measure what an agent needs next and still has after a compaction, for every session of a corpus.

    A line for each session; the counts of the manifest have, for each arm and budget, the number of conversations and
    the sums of their shares.
    """
    size, budgets = parse_window_and_budgets(window, budget)
    limit = _build_spending_limit(rate, max_tokens, max_dollars)
    return Evaluate(window=size, budgets=tuple(budgets), arms=tuple(arm or ()), model=model, limit=limit)


def _build_spending_limit(rate: float | None, max_tokens: str | None, max_dollars: float | None) -> SpendingLimit:
    return SpendingLimit(rate, parse_size(max_tokens, "tokens") if max_tokens else None, max_dollars)


def _print_corpus_report(report: Report) -> None:
    counts = [(name, f"{value:,.10g}") for name, value in report.counts.items()]
    screen.make_console().print(screen.build_facts_table("what became of it", counts))
    done = f"{screen.format_count(report.sessions, 'session')}, {report.fresh:,} of them now"
    screen.print_line(f"{done}, in {screen.format_count(report.parts, 'part')}: {report.out / MANIFEST_FILE}")
    for failure in report.failures[:_FAILURES_SHOWN]:
        line = f", line {failure.line}" if failure.line else ""
        screen.print_notice(f"{failure.file}{line}: {screen.shorten_to_one_line(failure.reason, 400)}")
    if report.failures:
        failed = screen.format_count(len(report.failures), "session")
        screen.print_notice(f"{failed} failed, and the rest is done: see {report.out / MANIFEST_FILE}")


def _describe_progress(work: Work, at: Progress) -> str:
    failed = f", {at.failed:,} failed" if at.failed else ""
    return f"{work.name}: {screen.format_count(at.sessions, 'session')}{failed}"
