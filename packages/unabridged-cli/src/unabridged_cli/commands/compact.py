"""`compact`: make a conversation fit its window; show what went, what stayed, and the summary turn."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.panel import Panel
from rich.text import Text

from unabridged.compactor import Compaction
from unabridged.formats import Message, get_format
from unabridged.marks import is_generated_turn
from unabridged.sessions import LoadedFile
from unabridged.sessions.base import MessageMatch, match_messages
from unabridged.sessions.files import render_file
from unabridged.settings import Settings, resolve_limits
from unabridged.sizes import keep_from_texts, parse_size, trigger_from_texts
from unabridged.tokens.meter import Meter
from unabridged.tokens.models import find_family
from unabridged_cli import options, screen
from unabridged_cli.archives import open_compactor
from unabridged_cli.picture import BarPiece, Fate, draw_before_and_after
from unabridged_cli.targets import Target, resolve_target
from unabridged_corpus.works import fit_loaded, require_legal

_MEMORY_URL = "memory:"

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
    which: options.ConversationChoice = None,
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
    target = resolve_target(file, out, write=write)
    target.check_path()
    settings = settings_from(trigger, keep, window)
    loaded = options.load_file(target.file, format_, which, max_size)
    target.check_layout(loaded)
    agent = model or loaded.model
    settings |= {"agent": agent, "model": None if dry_run else summariser}
    is_preview = dry_run or (target.out is None and archive is None)
    where = (_MEMORY_URL if is_preview else archive, namespace, target.thread if thread is None else thread)
    opened = open_compactor(loaded, target.file, where, new=True, **settings)
    with opened as (compactor, name), screen.show_spinner("compacting"):
        compaction = fit_loaded(compactor, loaded, name, now=now)
        budget = compactor.limits.budget
    is_written = _write_result(target, loaded, compaction, agent, dry_run=dry_run)
    if as_json:
        screen.print_json(_build_outcome(loaded, compaction, target.out if is_written else None))
        return
    _print_compaction(loaded, compaction, budget, agent)
    if target.out is not None:
        why = "--dry-run" if dry_run else "there is nothing to compact"
        screen.print_line(f"Written to {target.out}." if is_written else f"Nothing was written: {why}.")
    elif is_preview and compaction.changed and not dry_run:
        remedy = f"{'say --write or' if target.session else 'name'} -o OUT to keep the result"
        screen.print_notice(f"this was only a look: {remedy}")


def _write_result(
    target: Target, loaded: LoadedFile, compaction: Compaction, agent: str | None, *, dry_run: bool
) -> bool:
    """Write the result where it goes, if it goes anywhere; return whether it was written."""
    if target.is_in_place and not compaction.changed:
        return False  # a session that stays as it is, is its client's to mend
    require_legal(loaded, compaction, agent, f"unabridged check {target.file} --repair -o OUT")
    if target.out is None or dry_run:
        return False
    target.write(loaded, render_file(loaded, compaction.messages, tokens_before=compaction.tokens_before), backup=False)
    return True


def settings_from(trigger: list[str] | None, keep: list[str] | None, window: str | None) -> dict[str, Any]:
    """Return what these options mean to a compactor; raise `SettingsError` before a large file is read."""
    chosen: dict[str, Any] = {"trigger": trigger_from_texts(trigger)} if trigger else {}
    settings = Settings(**chosen, **({"keep": keep_from_texts(keep)} if keep else {}))
    tokens = parse_size(window, "a window") if window else None
    if tokens is not None:
        resolve_limits(settings, tokens)
    return {"settings": settings, "window": tokens}


def _build_outcome(loaded: LoadedFile, compaction: Compaction, out: Path | None) -> dict[str, Any]:
    file = {"file": str(loaded.path), "kind": loaded.kind, "format": loaded.format, "changed": compaction.changed}
    tokens = {"tokens_before": compaction.tokens_before, "tokens_after": compaction.tokens_after}
    messages = {"messages_before": len(loaded.messages), "messages_after": len(compaction.messages)}
    why = {"legal": f"legal for {loaded.format}", "why": compaction.why}
    where = {"namespace": compaction.namespace, "thread": compaction.thread}
    receipt = {"receipt": asdict(compaction.receipt) if compaction.receipt else None, "out": str(out) if out else None}
    return {**file, **tokens, **messages, **why, **where, **receipt, "messages": compaction.messages}


def _print_compaction(loaded: LoadedFile, compaction: Compaction, budget: int, agent: str | None) -> None:
    console = screen.make_console()
    reader = get_format(loaded.format)
    meter = Meter(model=agent, family=find_family(agent, reader.family))
    matches = match_messages(loaded, compaction.messages)
    before, after = _build_bar_pieces(loaded, matches, meter)
    overhead = meter.overhead(loaded.system, loaded.tools)
    head = [BarPiece("system", "stayed", overhead)] if overhead else []
    totals = (compaction.tokens_before, compaction.tokens_after)
    console.print(draw_before_and_after(head + before, head + after, totals, budget, console.width))
    console.print()
    views = (reader.read(match.message) for match in matches if match.index is None)
    texts = (view.text for view in views if is_generated_turn(view))
    if summary := next((text for text in texts if text.startswith("[unabridged summary ")), ""):
        text = Text(screen.escape_control_characters(summary))
        console.print(Panel(text, title="the summary turn", border_style="red"))
    console.print(screen.build_facts_table("what became of the messages", _count_fates(before, after)))
    console.print(screen.build_facts_table("receipt", _build_outcome_rows(loaded, compaction, budget)))


def _build_bar_pieces(
    loaded: LoadedFile, matches: list[MessageMatch], meter: Meter
) -> tuple[list[BarPiece], list[BarPiece]]:
    """Return every message of both lists with its size and its fate."""
    reader = get_format(loaded.format)

    def piece(message: Message, fate: Fate, index: int | None) -> BarPiece:
        view = reader.read(message)
        whose: str = view.origin if index is None else loaded.origins.get(index, view.origin)
        if view.role == "system":
            whose = "system"
        elif index is None and is_generated_turn(view):
            whose = "summary"
        return BarPiece(whose, fate, meter.message(view, message))

    fates: dict[int | None, Fate] = {match.index: "stayed" if match.is_unchanged else "changed" for match in matches}
    listed = enumerate(screen.track(loaded.messages, "drawing"))
    before = [piece(message, fates.get(index, "went"), index) for index, message in listed]
    after = [piece(new.message, "new" if new.index is None else fates[new.index], new.index) for new in matches]
    return before, after


def _count_fates(before: list[BarPiece], after: list[BarPiece]) -> list[tuple[str, str]]:
    def count(pieces: list[BarPiece], fate: Fate) -> str:
        chosen = [piece.tokens for piece in pieces if piece.fate == fate]
        return f"{len(chosen):,} with {sum(chosen):,} tokens"

    changed = sum(piece.tokens for piece in after if piece.fate == "changed")
    return [
        ("stayed", count(before, "stayed")),
        ("cleared or shortened", f"{count(before, 'changed')}, now {changed:,}"),
        ("went", count(before, "went")),
        ("put in", count(after, "new")),
    ]


def _build_outcome_rows(loaded: LoadedFile, compaction: Compaction, budget: int) -> list[tuple[str, str]]:
    share = f" ({compaction.tokens_after / compaction.tokens_before:.0%})" if compaction.tokens_before else ""
    rows = [
        ("tokens", f"{compaction.tokens_before:,} → {compaction.tokens_after:,}{share}, budget {budget:,}"),
        ("messages", f"{len(loaded.messages):,} → {len(compaction.messages):,}"),
        ("check", f"legal for {loaded.format}"),
    ]
    receipt = compaction.receipt
    if receipt is None:
        return [*rows, ("unchanged", compaction.why or "below the trigger: nothing to do")]
    is_in_file = receipt.archive == _MEMORY_URL
    where = "in the file that was read" if is_in_file else f"{receipt.archive}, thread {receipt.thread}"
    return [*rows, *screen.build_receipt_rows(receipt), ("originals", where), ("id", receipt.id)]
