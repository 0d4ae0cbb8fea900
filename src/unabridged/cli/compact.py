"""`compact`: make a conversation fit its window; show what went, what stayed, and the summary that stands for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.panel import Panel
from rich.text import Text

from unabridged.archive.protocol import Archive
from unabridged.cli import options
from unabridged.cli.large_files import BITE, fit_in_bites
from unabridged.cli.picture import Fate, Piece, before_and_after
from unabridged.cli.screen import (
    console,
    counting,
    facts,
    fail,
    plain,
    print_json,
    reading,
    say,
    spans,
    tell,
    working,
)
from unabridged.compactor import Compaction, Compactor
from unabridged.formats import Message, format_named
from unabridged.legal import check
from unabridged.marks import is_ours
from unabridged.measure.meter import Meter
from unabridged.measure.models import family_of
from unabridged.sessions import Loaded, save
from unabridged.sessions.loaded import Match, match
from unabridged.settings import Settings, limits

_MEMORY = "memory:"
_LARGE = 2 * BITE
"""Bytes above which a file is compacted in bites."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the person asked for, checked."""

    settings: Settings
    window: int | None
    agent: str | None
    summariser: str | None
    archive: str | None
    namespace: str | None
    thread: str | None
    now: bool


def compact(
    file: options.File,
    *,
    window: Annotated[
        str | None, typer.Option(help="The window in tokens: 32768, 32k, 1m. Default: the model's, or 32,768.")
    ] = None,
    model: options.ModelName = None,
    summariser: Annotated[
        str | None, typer.Option(help="The model that writes the summary, provider:name. Default: none, by rule.")
    ] = None,
    trigger: Annotated[
        list[str] | None,
        typer.Option(help="When: 85%, 170k, messages=300, tokens=50k+messages=100, never. Repeated: any."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="How much of the end stays: 10%, 8k, messages=20. Repeated: the smallest.")
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Compact whatever the size, if anything is gained.")] = False,
    format_: options.FormatName = None,
    which: options.Which = None,
    out: options.Out = None,
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

    The file that was read is never changed. With -o the result is written in the layout it was read from, and the
    originals go to the archive; without it this is only a look, unless an archive is named.
    """
    if out is not None:
        options.writable(out, file)
    given: dict[str, Any] = {"trigger": options.trigger_of(trigger)} if trigger else {}
    chosen = Settings(**given, **({"keep": options.keep_of(keep)} if keep else {}))
    tokens = options.number(window, "a window") if window else None
    if tokens is not None:
        limits(chosen, tokens)  # what contradicts itself is said before a large file is read
    loaded = options.load_file(file, format_, which, max_size)
    look = dry_run or (out is None and archive is None)
    wanted = _Wanted(
        chosen,
        tokens,
        model or loaded.model,
        None if dry_run else summariser,
        _MEMORY if look else archive,
        namespace,
        thread,
        now,
    )
    done, budget = _compact(loaded, wanted, file)
    if look and done.receipt is not None:
        done = replace(done, receipt=replace(done.receipt, archive=_MEMORY))
    legal = _legal(loaded, done, wanted.agent, file)
    if out is not None and not dry_run:
        save(loaded, done.messages, out, tokens_before=done.tokens_before)
    if as_json:
        print_json(_outcome(loaded, done, legal, None if dry_run else out))
        return
    _show(loaded, done, legal, budget, wanted.agent)
    if out is not None:
        say(f"Written to {out}." if not dry_run else "Nothing was written: --dry-run.")
    elif look and done.changed and not dry_run:
        tell("this was only a look: name -o OUT to keep the result")


def _compact(loaded: Loaded, wanted: _Wanted, file: Path) -> tuple[Compaction, int]:
    """The outcome, and the budget it had to meet."""
    with _archive(wanted, loaded) as archive:
        scope = options.thread_of(archive, wanted.namespace, loaded, file, wanted.thread)
        compactor = Compactor(
            wanted.summariser,
            agent=wanted.agent,
            window=wanted.window,
            archive=archive,
            settings=wanted.settings,
            namespace=scope.namespace,
            format=loaded.format,
            origin=loaded.origin_of(),
        )
        asked: dict[str, Any] = {"thread": scope.thread, "system": loaded.system, "tools": loaded.tools}
        with compactor:
            return _fit(compactor, loaded, asked, now=wanted.now), compactor.limits.budget


@contextmanager
def _archive(wanted: _Wanted, loaded: Loaded) -> Iterator[Archive]:
    """The archive that was named; for a look at a very large file, one on disk that is gone afterwards."""
    if wanted.archive != _MEMORY or loaded.path.stat().st_size <= _LARGE:
        with options.open_store(wanted.archive, new=True) as archive:
            yield archive
        return
    with (
        TemporaryDirectory(prefix="unabridged-") as folder,
        options.open_store(f"sqlite:///{folder}/look.db", new=True) as archive,
    ):
        yield archive


def _fit(compactor: Compactor, loaded: Loaded, asked: dict[str, Any], *, now: bool) -> Compaction:
    """As asked for, else only where it does not fit; a very large file bite by bite."""
    if loaded.path.stat().st_size > _LARGE:
        with reading(loaded.path, "compacting", "messages") as progress:
            done = fit_in_bites(compactor, loaded, asked, progress)
        if done.changed or not now:
            return done
    with working("compacting"):
        at_once = compactor.compact(loaded.messages, **asked) if now else None
        return at_once if at_once is not None else compactor.fit(loaded.messages, **asked)


def _legal(loaded: Loaded, done: Compaction, agent: str | None, file: Path) -> str:
    """That the provider takes the result. One that can't be sent is not worth writing."""
    findings = check(done.messages, format=loaded.format, model=agent, pending=True)
    if findings:
        more = f" and {len(findings) - 1:,} more" if len(findings) > 1 else ""
        fail(f"{findings[0].message}{more}. Mend it first: unabridged check {file} --repair -o OUT", 1)
    return f"legal for {loaded.format}"


def _outcome(loaded: Loaded, done: Compaction, legal: str, out: Path | None) -> dict[str, Any]:
    return {
        "file": str(loaded.path),
        "kind": loaded.kind,
        "format": loaded.format,
        "changed": done.changed,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "messages_before": len(loaded.messages),
        "messages_after": len(done.messages),
        "legal": legal,
        "why": done.why,
        "namespace": done.namespace,
        "thread": done.thread,
        "receipt": asdict(done.receipt) if done.receipt else None,
        "out": str(out) if out else None,
        "messages": done.messages,
    }


def _show(loaded: Loaded, done: Compaction, legal: str, budget: int, agent: str | None) -> None:
    screen = console()
    matches = match(loaded, done.messages)
    before, after = _pieces(loaded, matches, agent)
    totals = (done.tokens_before, done.tokens_after)
    screen.print(before_and_after(before, after, totals, budget, screen.width))
    screen.print()
    reader = format_named(loaded.format)
    views = (reader.read(found.message) for found in matches if found.index is None)
    summary = next((view.text for view in views if is_ours(view) and view.text.startswith("[unabridged summary ")), "")
    if summary:
        screen.print(Panel(Text(plain(summary)), title="the summary turn", border_style="red"))
    screen.print(
        facts("what became of the messages", _became(before, after, fixed=bool(loaded.system or loaded.tools)))
    )
    screen.print(facts("receipt", _receipt(done, legal, budget, len(loaded.messages))))


def _pieces(loaded: Loaded, matches: list[Match], agent: str | None) -> tuple[list[Piece], list[Piece]]:
    """Every message of both lists with its size and its fate; the fixed part of the request first."""
    meter = Meter(model=agent, family=family_of(agent, format_named(loaded.format).family))
    reader = format_named(loaded.format)
    fates: dict[int, Fate] = {m.index: "stayed" if m.same else "changed" for m in matches if m.index is not None}
    before, after = list[Piece](), list[Piece]()
    with counting("drawing", len(loaded.messages)) as step:
        for index, message in enumerate(loaded.messages):
            before.append(
                _piece(reader.read(message), message, fates.get(index, "went"), meter, loaded.origins.get(index))
            )
            step()
    for found in matches:
        if found.index is not None and found.same:
            after.append(before[found.index])
            continue
        view = reader.read(found.message)
        after.append(_piece(view, found.message, "changed" if found.index is not None else "new", meter, None))
    fixed = meter.overhead(loaded.system, loaded.tools)
    head = [Piece("system", "stayed", fixed)] if loaded.system or loaded.tools else []
    return head + before, head + after


def _piece(view: Any, message: Message, fate: Fate, meter: Meter, said: str | None) -> Piece:
    ours = fate == "new" and is_ours(view)
    origin = "summary" if ours else "system" if view.role == "system" else said or view.origin
    return Piece(origin, fate, meter.message(view, message))


def _became(before: list[Piece], after: list[Piece], *, fixed: bool) -> list[tuple[str, str]]:
    before, after = before[fixed:], after[fixed:]  # system prompt and tools are no messages

    def said(pieces: list[Piece], fate: Fate) -> str:
        chosen = [piece.tokens for piece in pieces if piece.fate == fate]
        return f"{len(chosen):,} with {sum(chosen):,} tokens"

    changed = sum(piece.tokens for piece in after if piece.fate == "changed")
    return [
        ("stayed", said(before, "stayed")),
        ("cleared or shortened", f"{said(before, 'changed')}, now {changed:,}"),
        ("went", said(before, "went")),
        ("put in", said(after, "new")),
    ]


def _receipt(done: Compaction, legal: str, budget: int, before: int) -> list[tuple[str, str]]:
    share = f" ({done.tokens_after / done.tokens_before:.0%})" if done.tokens_before else ""
    rows = [
        ("tokens", f"{done.tokens_before:,} → {done.tokens_after:,}{share}, budget {budget:,}"),
        ("messages", f"{before:,} → {len(done.messages):,}"),
        ("check", legal),
    ]
    if done.receipt is None:
        return [*rows, ("unchanged", done.why or "below the trigger: nothing to do")]
    receipt = done.receipt
    where = f"{receipt.archive}, thread {receipt.thread}" if receipt.archive != _MEMORY else "in the file that was read"
    rows += [
        ("why", receipt.reason),
        ("turns compacted", spans(receipt.turns)),
        *([("turns shortened", spans(receipt.edited))] if receipt.edited else []),
        ("summariser", receipt.summariser),
        ("originals", plain(where)),
        ("id", receipt.id),
    ]
    rows += [("mended", plain(mended)) for mended in receipt.mended]
    return rows + [("note", plain(note)) for note in receipt.notes]
