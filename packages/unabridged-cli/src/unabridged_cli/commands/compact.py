"""`compact`: make a conversation fit its window; show what went, what stayed, and the summary that stands for it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.panel import Panel
from rich.text import Text

from unabridged.compactor import Compaction
from unabridged.formats import Message, format_named
from unabridged.marks import is_ours
from unabridged.measure.meter import Meter
from unabridged.measure.models import family_of
from unabridged.sessions import Loaded
from unabridged.sessions.files import pieces_with
from unabridged.sessions.loaded import Match, match
from unabridged.settings import Settings, limits
from unabridged.sizes import keep_of, number, trigger_of
from unabridged_cli import options
from unabridged_cli.archives import open_compactor
from unabridged_cli.picture import Fate, Piece, before_and_after
from unabridged_cli.screen import console, facts, plain, print_json, receipt_rows, say, tell, track, working
from unabridged_cli.targets import Target, target_of
from unabridged_corpus.works import fit_loaded, require_legal

_MEMORY = "memory:"

Summariser = Annotated[
    str | None, typer.Option(help="The model that writes the summary, provider:name. Default: no model.")
]
Trigger = Annotated[
    list[str] | None,
    typer.Option(help="When: 85%, 170k, messages=300, tokens=50k+messages=100, never. Repeated: any."),
]
Keep = Annotated[
    list[str] | None, typer.Option(help="How much of the end stays: 10%, 8k, messages=20. Repeated: the smallest.")
]
Now = Annotated[bool, typer.Option("--now", help="Compact whatever the size, if anything is gained.")]


def compact(
    file: options.FileOrSession,
    *,
    window: options.Window = None,
    model: options.ModelName = None,
    summariser: Summariser = None,
    trigger: Trigger = None,
    keep: Keep = None,
    now: Now = False,
    format_: options.FormatName = None,
    which: options.Which = None,
    out: options.Out = None,
    write: options.Write = False,
    as_json: options.AsJson = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen; nothing is written, stored or paid for.")
    ] = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    thread: options.ThreadName = None,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Make a conversation fit a window: show what went, what stayed, and the summary that stands for it.

    With -o the result is written in the layout it was read from, and the originals go to the archive; without it this
    is only a look, unless an archive is named. The file that was read stays as it is; only --write adds to it: a
    client's session gets the compaction as its client would write one, in lines behind those that are there.
    """
    target = target_of(file, out, write=write)
    target.check_place()
    wanted = settings_of(trigger, keep, window)
    loaded = options.load_file(target.file, format_, which, max_size)
    target.check_layout(loaded)
    agent = model or loaded.model
    wanted |= {"agent": agent, "model": None if dry_run else summariser}
    look = dry_run or (target.out is None and archive is None)
    place = (_MEMORY if look else archive, namespace, target.thread if thread is None else thread)
    with open_compactor(loaded, target.file, *place, new=True, **wanted) as (compactor, name), working("compacting"):
        done = fit_loaded(compactor, loaded, name, now=now)
        budget = compactor.limits.budget
    written = _write(target, loaded, done, agent, dry_run=dry_run)
    if as_json:
        print_json(_outcome(loaded, done, target.out if written else None))
        return
    _show(loaded, done, budget, agent)
    if target.out is not None:
        why = "--dry-run" if dry_run else "there is nothing to compact"
        say(f"Written to {target.out}." if written else f"Nothing was written: {why}.")
    elif look and done.changed and not dry_run:
        tell(f"this was only a look: {'say --write or' if target.session else 'name'} -o OUT to keep the result")


def _write(target: Target, loaded: Loaded, done: Compaction, agent: str | None, *, dry_run: bool) -> bool:
    """Write the result where it goes, if it goes anywhere; whether it was written."""
    if target.in_place and not done.changed:
        return False  # a session that stays as it is, is its client's to mend
    require_legal(loaded, done, agent, f"unabridged check {target.file} --repair -o OUT")
    if target.out is None or dry_run:
        return False
    target.write(loaded, pieces_with(loaded, done.messages, tokens_before=done.tokens_before), backup=False)
    return True


def settings_of(trigger: list[str] | None, keep: list[str] | None, window: str | None) -> dict[str, Any]:
    """What a compactor is told of these options; what contradicts itself is said before a large file is read."""
    given = {"trigger": trigger_of(trigger)} if trigger else {}
    settings = Settings(**given, **({"keep": keep_of(keep)} if keep else {}))
    tokens = number(window, "a window") if window else None
    if tokens is not None:
        limits(settings, tokens)
    return {"settings": settings, "window": tokens}


def _outcome(loaded: Loaded, done: Compaction, out: Path | None) -> dict[str, Any]:
    return {
        "file": str(loaded.path),
        "kind": loaded.kind,
        "format": loaded.format,
        "changed": done.changed,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "messages_before": len(loaded.messages),
        "messages_after": len(done.messages),
        "legal": f"legal for {loaded.format}",
        "why": done.why,
        "namespace": done.namespace,
        "thread": done.thread,
        "receipt": asdict(done.receipt) if done.receipt else None,
        "out": str(out) if out else None,
        "messages": done.messages,
    }


def _show(loaded: Loaded, done: Compaction, budget: int, agent: str | None) -> None:
    screen = console()
    reader = format_named(loaded.format)
    meter = Meter(model=agent, family=family_of(agent, reader.family))
    matches = match(loaded, done.messages)
    before, after = _pieces(loaded, matches, meter)
    fixed = meter.overhead(loaded.system, loaded.tools)
    head = [Piece("system", "stayed", fixed)] if fixed else []
    totals = (done.tokens_before, done.tokens_after)
    screen.print(before_and_after(head + before, head + after, totals, budget, screen.width))
    screen.print()
    views = (reader.read(found.message) for found in matches if found.index is None)
    summary = next((view.text for view in views if is_ours(view) and view.text.startswith("[unabridged summary ")), "")
    if summary:
        screen.print(Panel(Text(plain(summary)), title="the summary turn", border_style="red"))
    screen.print(facts("what became of the messages", _count_fates(before, after)))
    screen.print(facts("receipt", _receipt(loaded, done, budget)))


def _pieces(loaded: Loaded, matches: list[Match], meter: Meter) -> tuple[list[Piece], list[Piece]]:
    """Every message of both lists with its size and its fate."""
    reader = format_named(loaded.format)

    def piece(message: Message, fate: Fate, index: int | None) -> Piece:
        view = reader.read(message)
        whose: str = view.origin if index is None else loaded.origins.get(index, view.origin)
        if view.role == "system":
            whose = "system"
        elif index is None and is_ours(view):
            whose = "summary"
        return Piece(whose, fate, meter.message(view, message))

    fates: dict[int | None, Fate] = {found.index: "stayed" if found.same else "changed" for found in matches}
    listed = enumerate(track(loaded.messages, "drawing"))
    before = [piece(message, fates.get(index, "went"), index) for index, message in listed]
    after = [piece(new.message, "new" if new.index is None else fates[new.index], new.index) for new in matches]
    return before, after


def _count_fates(before: list[Piece], after: list[Piece]) -> list[tuple[str, str]]:
    def count(pieces: list[Piece], fate: Fate) -> str:
        chosen = [piece.tokens for piece in pieces if piece.fate == fate]
        return f"{len(chosen):,} with {sum(chosen):,} tokens"

    changed = sum(piece.tokens for piece in after if piece.fate == "changed")
    return [
        ("stayed", count(before, "stayed")),
        ("cleared or shortened", f"{count(before, 'changed')}, now {changed:,}"),
        ("went", count(before, "went")),
        ("put in", count(after, "new")),
    ]


def _receipt(loaded: Loaded, done: Compaction, budget: int) -> list[tuple[str, str]]:
    share = f" ({done.tokens_after / done.tokens_before:.0%})" if done.tokens_before else ""
    rows = [
        ("tokens", f"{done.tokens_before:,} → {done.tokens_after:,}{share}, budget {budget:,}"),
        ("messages", f"{len(loaded.messages):,} → {len(done.messages):,}"),
        ("check", f"legal for {loaded.format}"),
    ]
    receipt = done.receipt
    if receipt is None:
        return [*rows, ("unchanged", done.why or "below the trigger: nothing to do")]
    where = "in the file that was read" if receipt.archive == _MEMORY else f"{receipt.archive}, thread {receipt.thread}"
    return [*rows, *receipt_rows(receipt), ("originals", where), ("id", receipt.id)]
