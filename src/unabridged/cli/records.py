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
from unabridged.cli.screen import console, fail, number_of, one_line, plain, print_json, say, spans, working
from unabridged.events import receipt_from
from unabridged.recall import lookup
from unabridged.sessions import write_whole


def threads(
    *,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """The conversations that have something in the archive: of all namespaces, or of the one that is named."""
    with options.open_store(archive) as store:
        found = [(scope, store.records(scope)) for scope in options.scopes(store, namespace)]
        where = store.url
    if as_json:
        listed = [{"namespace": scope.namespace, **_thread(scope.thread, records)} for scope, records in found]
        print_json({"archive": where, "namespace": namespace, "threads": listed})
        return
    screen = console()
    if not found:
        which = f" of namespace {namespace}" if namespace is not None else ""
        say(f"{where} holds no threads{which}.")
        return
    table = Table(title=Text(plain(where)), title_justify="left", title_style="bold")
    for name in ("namespace", "thread"):
        table.add_column(name, overflow="fold")
    for name in ("compactions", "messages kept", "newest", "tokens then"):
        table.add_column(name, justify="right")
    for scope, records in found:
        facts = _thread(scope.thread, records)
        tokens = f"{facts['tokens_before']:,} → {facts['tokens_after']:,}" if records else "all undone"
        names = (Text(plain(scope.namespace)), Text(plain(scope.thread)))
        table.add_row(*names, str(len(records)), f"{facts['kept']:,}", _day(facts["newest"]), tokens)
    screen.print(table)


def show(
    thread: options.ThreadArgument,
    *,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write one self-contained page: chart, before and after, search.", readable=False),
    ] = None,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """The compactions of a thread, oldest first: why, what went, tokens before and after."""
    with options.open_store(archive) as store:
        scope = require_thread(store, namespace, thread)
        records = store.records(scope)
        if html is not None:
            with working("making the page"):
                write_whole(html, [page.render(store, scope, records).encode("utf-8", "replace")])
    if as_json:
        receipts = [{**asdict(receipt_from(record.data["receipt"])), "prior": record.prior} for record in records]
        found = {"thread": thread, "namespace": scope.namespace}
        print_json({**found, "compactions": receipts, "html": str(html or "") or None})
        return
    screen = console()
    screen.print(Text(plain(f"thread {thread}: {number_of(len(records), 'compaction')}"), style="bold"))
    for record in records:
        receipt = receipt_from(record.data["receipt"])
        screen.print(Text(f"{receipt.id}  {_day(record.created)}  {receipt.kind} by {plain(receipt.summariser)}"))
        screen.print(Text(f"  {receipt.tokens_before:,} → {receipt.tokens_after:,} tokens; {plain(receipt.reason)}"))
        also = f", shortened {spans(receipt.edited)}" if receipt.edited else ""
        screen.print(Text(f"  turns {spans(receipt.turns)}{also}", style="dim"))
    if html is not None:
        say(f"Written to {html}.")


def search(
    query: Annotated[str, typer.Argument(help="Literal words; what stands in double quotes is looked for as it is.")],
    *,
    thread: options.ThreadName = None,
    limit: Annotated[int, typer.Option(help="The most results for each thread.", min=1, max=lookup.MOST)] = 5,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """What left the context and matches best, in one thread or in all of them."""
    with options.open_store(archive) as store:
        scopes = options.scopes(store, namespace) if thread is None else [require_thread(store, namespace, thread)]
        found = {scope: lookup.search(store, scope, query, limit).results for scope in scopes}
    if as_json:
        hits = [{**scope._asdict(), **asdict(result)} for scope, results in found.items() for result in results]
        print_json({"query": query, "namespace": namespace, "results": hits})
        return
    screen = console()
    if not any(found.values()):
        say("Nothing that left the context matches. Search is literal: try one telling word.")
    for scope, results in found.items():
        for result in results:
            head = Text(f"[{result.turn}] {plain(scope.thread)}", style="bold")
            screen.print(head.append(f"  {result.whose}, ref {result.ref}", style="dim"))
            screen.print(Text(f"  {one_line(result.excerpt, 400)}"))


def read(
    ref: Annotated[str, typer.Argument(help=f"{FORMS[0].upper()}{FORMS[1:]}.")],
    *,
    thread: Annotated[str, typer.Option("--thread", help="The conversation's name in the archive.")],
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """One archived message in full; with --json, exactly as it was."""
    with options.open_store(archive) as store:
        scope = require_thread(store, namespace, thread)
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
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Check every reference, hash and part. Ends with 1 when something is wrong."""
    with options.open_store(archive) as store:
        scope = require_thread(store, namespace, thread) if thread is not None else None
        with working("verifying"):
            problems = list(store.verify(scope))
        where = store.url
    if as_json:
        print_json({"archive": where, "thread": thread, "problems": problems})
    else:
        what = f"thread {thread} in {where}" if thread is not None else where
        for problem in problems:
            say(problem)
        count = number_of(len(problems), "problem")
        say(f"{count} in {what}." if problems else f"{what}: everything is there and intact.")
    if problems:
        raise typer.Exit(1)


def require_thread(store: Archive, namespace: str | None, thread: str) -> Scope:
    """The thread of this name; one that is not there is said, with those that are."""
    scope = options.find_thread(store, namespace, thread)
    if scope is None:
        fail(f"{describe_missing(store, namespace, thread)}. Name another with --archive, --namespace or --thread", 2)
    return scope


def describe_missing(store: Archive, namespace: str | None, thread: str) -> str:
    """That there is no such thread, and which there are."""
    spaces = options.spaces(store, namespace)
    names = [name for space in spaces for name in store.threads(space)]
    listed = ", ".join(one_line(name, 40) for name in names[:5]) or "none"
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    where = f"namespace {namespace!r}" if namespace is not None else "any namespace"
    return f"no thread {thread!r} in {where} of {store.url}: it has {listed}{more}"


def _thread(name: str, records: Sequence[Record]) -> dict[str, Any]:
    last = receipt_from(records[-1].data["receipt"]) if records else None
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
