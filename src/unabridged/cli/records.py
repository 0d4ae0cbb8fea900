"""The record, read: `threads`, `show`, `search`, `read`, `verify`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.archive.references import FORMS
from unabridged.cli import options, page
from unabridged.cli.screen import console, fail, one_line, plain, print_json, spans, working
from unabridged.job import receipt_of
from unabridged.recall import lookup
from unabridged.sessions import write_whole


def threads(
    *,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    as_json: options.AsJson = False,
) -> None:
    """The conversations of a namespace that have something in the archive."""
    with options.opened(archive) as store:
        names = store.threads(namespace)
        found = [(name, store.records(Scope(namespace, name))) for name in names]
        where = store.url
    if as_json:
        print_json({"archive": where, "namespace": namespace, "threads": [_thread(*item) for item in found]})
        return
    screen = console()
    if not found:
        screen.print(plain(f"{where} holds no threads of namespace {namespace}."), markup=False)
        return
    table = Table(title=Text(plain(f"{where}, namespace {namespace}")), title_justify="left", title_style="bold")
    table.add_column("thread", overflow="fold")
    for name in ("compactions", "messages kept", "newest", "tokens then"):
        table.add_column(name, justify="right")
    for name, records in found:
        facts = _thread(name, records)
        tokens = f"{facts['tokens_before']:,} → {facts['tokens_after']:,}" if records else "all undone"
        table.add_row(Text(plain(name)), str(len(records)), f"{facts['kept']:,}", _day(facts["newest"]), tokens)
    screen.print(table)


def show(
    thread: options.ThreadArgument,
    *,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write one self-contained page: chart, before and after, search.", readable=False),
    ] = None,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    as_json: options.AsJson = False,
) -> None:
    """The compactions of a thread, oldest first: why, what went, tokens before and after."""
    scope = Scope(namespace, thread)
    with options.opened(archive) as store:
        records = known(store, scope)
        if html is not None:
            with working("making the page"):
                write_whole(html, [page.render(store, scope, records).encode("utf-8", "replace")])
    if as_json:
        receipts = [{**asdict(receipt_of(record)), "prior": record.prior} for record in records]
        print_json({"thread": thread, "namespace": namespace, "compactions": receipts, "html": str(html or "") or None})
        return
    screen = console()
    screen.print(Text(plain(f"thread {thread}: {len(records):,} compactions"), style="bold"))
    for record in records:
        receipt = receipt_of(record)
        screen.print(Text(f"{receipt.id}  {_day(record.created)}  {receipt.kind} by {plain(receipt.summariser)}"))
        screen.print(Text(f"  {receipt.tokens_before:,} → {receipt.tokens_after:,} tokens; {plain(receipt.reason)}"))
        screen.print(Text(f"  turns {spans(receipt.turns)}", style="dim"))
    if html is not None:
        screen.print(plain(f"Written to {html}."), markup=False)


def search(
    query: Annotated[str, typer.Argument(help="Literal words; what stands in double quotes is looked for as it is.")],
    *,
    thread: options.ThreadName = None,
    limit: Annotated[int, typer.Option(help="The most results for each thread.", min=1, max=lookup.MOST)] = 5,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    as_json: options.AsJson = False,
) -> None:
    """What left the context and matches best, in one thread or in all of the namespace."""
    with options.opened(archive) as store:
        names = [thread] if thread is not None else store.threads(namespace)
        if thread is not None:
            known(store, Scope(namespace, thread))
        found = {name: lookup.search(store, Scope(namespace, name), query, limit).results for name in names}
    if as_json:
        hits = [{"thread": name, **asdict(result)} for name, results in found.items() for result in results]
        print_json({"query": query, "namespace": namespace, "results": hits})
        return
    screen = console()
    if not any(found.values()):
        screen.print("Nothing that left the context matches. Search is literal: try one telling word.", markup=False)
    for name, results in found.items():
        for result in results:
            head = Text(f"[{result.turn}] {plain(name)}", style="bold")
            screen.print(head.append(f"  {result.whose}, ref {result.ref}", style="dim"))
            screen.print(Text(f"  {one_line(result.excerpt, 400)}"))


def read(
    ref: Annotated[str, typer.Argument(help=f"{FORMS[0].upper()}{FORMS[1:]}.")],
    *,
    thread: Annotated[str, typer.Option("--thread", help="The conversation's name in the archive.")],
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    as_json: options.AsJson = False,
) -> None:
    """One archived message in full; with --json, exactly as it was."""
    scope = Scope(namespace, thread)
    with options.opened(archive) as store:
        known(store, scope)
        reading = lookup.read(store, scope, ref, page=1 << 40)
        message = lookup.original(store, scope, ref) if as_json else None
    if as_json:
        facts = {"ref": reading.ref, "turn": reading.turn, "role": reading.role, "origin": reading.origin}
        print_json({**facts, "message": message})
        return
    screen = console()
    screen.print(Text(f"[{reading.turn}] ref {reading.ref}", style="bold"))
    for piece in reading.pieces:
        screen.print(Text(f"{piece.whose}:", style="dim"))
        screen.print(Text(plain(piece.text)), soft_wrap=True)


def verify(
    thread: Annotated[str | None, typer.Argument(help="One thread; by default everything in the archive.")] = None,
    *,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    as_json: options.AsJson = False,
) -> None:
    """Check every reference, hash and part. Ends with 1 when something is wrong."""
    with options.opened(archive) as store:
        if thread is not None:
            known(store, Scope(namespace, thread))
        with working("verifying"):
            problems = list(store.verify(Scope(namespace, thread) if thread is not None else None))
        where = store.url
    if as_json:
        print_json({"archive": where, "thread": thread, "problems": problems})
    else:
        what = f"thread {thread} in {where}" if thread is not None else where
        for problem in problems:
            console().print(plain(problem), markup=False, soft_wrap=True)
        said = f"{len(problems):,} problems in {what}." if problems else f"{what}: everything is there and intact."
        console().print(plain(said), markup=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def known(store: Archive, scope: Scope) -> Sequence[Record]:
    """The thread's records; one that is not there is said, with those that are."""
    names = store.threads(scope.namespace)
    if scope.thread not in names:
        listed = ", ".join(one_line(name, 40) for name in names[:5]) or "none"
        more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
        fail(
            f"no thread {scope.thread!r} in namespace {scope.namespace!r} of {store.url}: it has {listed}{more}. "
            "Name another with --archive, --namespace or --thread",
            2,
        )
    return store.records(scope)


def _thread(name: str, records: Sequence[Record]) -> dict[str, Any]:
    last = receipt_of(records[-1]) if records else None
    return {
        "thread": name,
        "compactions": len(records),
        "kept": len(set(_went(records))),
        "newest": max((record.created for record in records), default=None),
        "tokens_before": last.tokens_before if last else None,
        "tokens_after": last.tokens_after if last else None,
    }


def _went(records: Sequence[Record]) -> Iterable[str]:
    return (item for record in records for item in record.before if isinstance(item, str))


def _day(created: float | None) -> str:
    return datetime.fromtimestamp(created, UTC).astimezone().strftime("%Y-%m-%d %H:%M") if created else ""
