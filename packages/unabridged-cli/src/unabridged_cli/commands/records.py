"""The record, read: `threads`, `show`, `search`, `read`, `verify`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.archive.references import FORMS
from unabridged.errors import SettingsError
from unabridged.events import COMPACTIONS, receipt_from
from unabridged.history import DEFAULT
from unabridged.recall import Found, lookup
from unabridged.sessions import write_whole
from unabridged_cli import options
from unabridged_cli.archives import open_store, require_thread, require_threads, scopes
from unabridged_cli.clients.found import find_session, names_a_client
from unabridged_cli.clients.missing import missing_of
from unabridged_cli.clients.threads import thread_of
from unabridged_cli.inspector import pages
from unabridged_cli.screen import console, number_of, one_line, plain, print_json, say, spans, table, tell, working

_PAGE = 50
"""Threads that are searched at once."""


def threads(
    *,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """The conversations that have something in the archive: of all namespaces, or of the one that is named.

    A message counts once among the distinct ones, however often it was said. What compactions had put in, a summary or
    a stub, counts too once it was compacted in turn.
    """
    with open_store(archive) as store:
        found = [(scope, store.records(scope)) for scope in scopes(store, namespace)]
        where = store.url
    if as_json:
        listed = [{"namespace": scope.namespace, **_thread(scope.thread, records)} for scope, records in found]
        print_json({"archive": where, "namespace": namespace, "threads": listed})
    elif not found:
        which = f" of namespace {namespace}" if namespace is not None else ""
        say(f"{where} holds no threads{which}.")
    else:
        columns = ("namespace", "thread", "compactions", "distinct messages", "newest", "tokens then")
        rows = [(scope.namespace, *_thread_row(_thread(scope.thread, records))) for scope, records in found]
        console().print(table(where, columns, rows))


def _thread(name: str, records: Sequence[Record]) -> dict[str, Any]:
    compactions = [record for record in records if record.kind in COMPACTIONS]
    last = receipt_from(compactions[-1].data["receipt"]) if compactions else None
    return {
        "thread": name,
        "compactions": len(compactions),
        "kept": len({item for record in records for item in record.before if isinstance(item, str)}),
        "newest": max((record.created for record in records), default=None),
        "tokens_before": last.tokens_before if last else None,
        "tokens_after": last.tokens_after if last else None,
    }


def _thread_row(facts: dict[str, Any]) -> tuple[object, ...]:
    if not facts["newest"]:
        return facts["thread"], 0, 0, None, "all undone"
    if not facts["compactions"]:
        return facts["thread"], 0, facts["kept"], _minute(facts["newest"]), None
    tokens = f"{facts['tokens_before']:,} → {facts['tokens_after']:,}"
    return facts["thread"], facts["compactions"], facts["kept"], _minute(facts["newest"]), tokens


def _minute(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def show(
    thread: options.ThreadArgument,
    *,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            help="Write the page of `inspect` for this thread as one file that needs nothing else.",
            readable=False,
        ),
    ] = None,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """The compactions of a thread, oldest first: why, what went, tokens before and after."""
    with open_store(archive) as store:
        scope, *others = require_threads(store, namespace, thread)
        records = store.records(scope)
        if html is not None:
            with working("making the page"):
                write_whole(html, [pages.freeze(store, scope).encode()])
        records = [*records, *(record for other in others for record in store.records(other))]
    if as_json:
        receipts = [{**asdict(receipt_from(record.data["receipt"])), "prior": record.prior} for record in records]
        found = {"thread": thread, "namespace": scope.namespace}
        print_json({**found, "compactions": receipts, "html": str(html or "") or None})
        return
    count = sum(record.kind in COMPACTIONS for record in records)
    say(f"thread {thread}: {number_of(count, 'compaction')}", "bold")
    for record in records:
        _say_record(record)
    if html is not None:
        say(f"Written to {html}.")


def _say_record(record: Record) -> None:
    receipt = receipt_from(record.data["receipt"])
    head = f"{receipt.id}  {_minute(record.created)}  {receipt.kind}"
    turns = f"  turns {spans(receipt.turns)}" if receipt.turns else ""
    if record.kind in COMPACTIONS:
        say(f"{head} by {receipt.summariser}")
        say(f"  {receipt.tokens_before:,} → {receipt.tokens_after:,} tokens; {receipt.reason}")
        say(turns + (f", shortened {spans(receipt.edited)}" if receipt.edited else ""), "dim")
        return
    say(f"{head}  {receipt.reason}")
    for line in filter(None, (turns, *(f"  {note}" for note in receipt.notes))):
        say(plain(line), "dim")


def search(
    query: Annotated[str, typer.Argument(help="Literal words; what stands in double quotes is looked for as it is.")],
    *,
    thread: options.ThreadName = None,
    limit: Annotated[int, typer.Option(help="The most results for each thread.", min=1, max=lookup.MOST)] = 5,
    most: Annotated[int, typer.Option("--threads", help="The most threads to show, the best first.", min=1)] = 50,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """What left the context and matches best, in one thread or in all of them."""
    with open_store(archive) as store:
        if missing := _missing(store, namespace, thread):
            tell(missing)
        if thread is None:
            spaces = list(dict.fromkeys(scope.namespace for scope in scopes(store, namespace)))
            held = lookup.threads_with(store, spaces, query)
            found = _search_pages(store, held.scopes[:most], held.query, limit)
        else:
            held = lookup.Across(query, require_threads(store, namespace, thread))
            found = {scope: lookup.search(store, scope, query, limit) for scope in held.scopes}
            held = held._replace(scopes=[scope for scope in held.scopes if found[scope].results])
    if as_json:
        hits = [{**scope._asdict(), **asdict(one)} for scope, of_thread in found.items() for one in of_thread.results]
        counts = {"threads": len(held.scopes), "threads_exact": held.exact, "threads_shown": len(found)}
        print_json({"query": query, "namespace": namespace, **counts, "results": hits})
        return
    if not any(of_thread.results for of_thread in found.values()):
        say("Nothing that left the context matches. Search is literal: try one telling word.")
        return
    screen = console()
    for scope, of_thread in found.items():
        for result in of_thread.results:
            head = Text(f"[{result.turn}] {plain(scope.thread)}", style="bold")
            screen.print(head.append(f"  {result.whose}, ref {result.ref}", style="dim"))
            screen.print(Text(f"  {one_line(result.excerpt, 400)}"))
    say(_counted(held, found, thread), "dim")


def _search_pages(store: Archive, where: Sequence[Scope], query: str, limit: int) -> dict[Scope, Found]:
    """Return what the threads hold, a page of them at a time."""
    found: dict[Scope, Found] = {}
    for at in range(0, len(where), _PAGE):
        found |= lookup.search_page(store, where[at : at + _PAGE], query, limit)
    return found


def _counted(held: lookup.Across, found: Mapping[Scope, Found], thread: str | None) -> str:
    """Return how much there is, and how much of it is shown."""
    matches = sum(of_thread.matches for of_thread in found.values())
    shown = sum(len(of_thread.results) for of_thread in found.values())
    at_least = "at least " if any(of_thread.at_least for of_thread in found.values()) else ""
    threads = number_of(sum(bool(of_thread.results) for of_thread in found.values()), "thread")
    told = f"{number_of(shown, 'passage')} of {at_least}{number_of(matches, 'message')} that match, in {threads}."
    if thread is None and len(held.scopes) > len(found):
        told += f" {held.told.capitalize()} hold it: --threads {len(held.scopes)} shows all."
    return told


def _missing(store: Archive, namespace: str | None, thread: str | None) -> str:
    """What of a coding agent's session is not in the archive, if this is one and some is."""
    if thread is None or not names_a_client(thread):
        return ""
    try:
        file = find_session(thread, os.environ)
    except SettingsError:  # its file is gone
        return ""
    return missing_of(store, namespace or DEFAULT, thread_of(file.client, file.id), file)


def read(
    ref: Annotated[str, typer.Argument(help=f"{FORMS[0].upper()}{FORMS[1:]}.")],
    *,
    thread: Annotated[str, typer.Option("--thread", help="The conversation's name in the archive.")],
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """One archived message in full; with --json, exactly as it was."""
    with open_store(archive) as store:
        scope = require_thread(store, namespace, thread)
        reading = lookup.read(store, scope, ref, page=1 << 40)
        message = lookup.original(store, scope, ref) if as_json else None
    if as_json:
        facts = {"ref": reading.ref, "turn": reading.turn, "role": reading.role, "origin": reading.origin}
        print_json({**facts, "message": message})
        return
    say(f"[{reading.turn}] ref {reading.ref}", "bold")
    for piece in reading.pieces:
        say(f"{piece.whose}:", "dim")
        say(piece.text)


def verify(
    thread: Annotated[str | None, typer.Argument(help="One thread; by default everything in the archive.")] = None,
    *,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Check every reference, hash and part. Ends with 1 when something is wrong."""
    with open_store(archive) as store:
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
