"""`threads`, `show`, `search`, `read` and `verify`: read the record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Record, Scope
from unabridged.archive.references import REFERENCE_FORMS
from unabridged.errors import SettingsError
from unabridged.events import COMPACTION_KINDS, receipt_from_dict
from unabridged.recall import Found, lookup
from unabridged.recall.passages import MAX_RESULTS
from unabridged.sessions import write_file_atomically
from unabridged_cli import options, screen
from unabridged_cli.archives import list_scopes, open_store, require_thread, require_threads
from unabridged_cli.clients.archive_gaps import describe_session_gaps
from unabridged_cli.clients.session_lookup import find_session, is_session_name
from unabridged_cli.inspector import pages


def threads(
    *,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """List the conversations that have something in the archive: of all namespaces, or of the one that is named.

    A message counts once among the distinct ones, however often it was said. What compactions had put in, a summary or
    a stub, counts too once it was compacted in turn.
    """
    with open_store(archive) as store:
        facts = [_summarise_thread(store, scope) for scope in list_scopes(store, namespace)]
        url = store.url
    if as_json:
        screen.print_json({"archive": url, "namespace": namespace, "threads": facts})
    elif not facts:
        which = f" of namespace {namespace}" if namespace is not None else ""
        screen.print_line(f"{url} holds no threads{which}.")
    else:
        columns = ("namespace", "thread", "compactions", "distinct messages", "newest", "tokens then")
        screen.make_console().print(screen.build_table(url, columns, map(_format_thread_row, facts)))


def _summarise_thread(store: Archive, scope: Scope) -> dict[str, Any]:
    records = store.records(scope)
    compactions = [record for record in records if record.kind in COMPACTION_KINDS]
    last = receipt_from_dict(compactions[-1].data["receipt"]) if compactions else None
    return {
        **scope._asdict(),
        "compactions": len(compactions),
        "kept": len({item for record in records for item in record.before if isinstance(item, str)}),
        "newest": max((record.created for record in records), default=None),
        "tokens_before": last.tokens_before if last else None,
        "tokens_after": last.tokens_after if last else None,
    }


def _format_thread_row(facts: dict[str, Any]) -> tuple[object, ...]:
    newest = screen.format_local_minute(facts["newest"]) if facts["newest"] else None
    tokens = f"{facts['tokens_before']:,} → {facts['tokens_after']:,}" if facts["compactions"] else None
    state = tokens if newest else "all undone"
    return facts["namespace"], facts["thread"], facts["compactions"], facts["kept"], newest, state


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
    """Show the compactions of a thread, oldest first: why, what went, tokens before and after."""
    with open_store(archive) as store:
        scope, *others = require_threads(store, namespace, thread)
        records = store.records(scope)
        if html is not None:
            with screen.show_spinner("making the page"):
                write_file_atomically(html, [pages.build_frozen_page(store, scope).encode()])
        records = [*records, *(record for other in others for record in store.records(other))]
    if as_json:
        receipts = [{**asdict(receipt_from_dict(record.data["receipt"])), "prior": record.prior} for record in records]
        names = {"thread": thread, "namespace": scope.namespace}
        screen.print_json({**names, "compactions": receipts, "html": str(html or "") or None})
        return
    count = sum(record.kind in COMPACTION_KINDS for record in records)
    screen.print_line(f"thread {thread}: {screen.format_count(count, 'compaction')}", "bold")
    for record in records:
        _print_record(record)
    if html is not None:
        screen.print_line(f"Written to {html}.")


def _print_record(record: Record) -> None:
    receipt = receipt_from_dict(record.data["receipt"])
    head = f"{receipt.id}  {screen.format_local_minute(record.created)}  {receipt.kind}"
    turns = f"  turns {screen.format_turn_ranges(receipt.turns)}" if receipt.turns else ""
    if record.kind in COMPACTION_KINDS:
        screen.print_line(f"{head} by {receipt.summariser}")
        screen.print_line(f"  {receipt.tokens_before:,} → {receipt.tokens_after:,} tokens; {receipt.reason}")
        shortened = f", shortened {screen.format_turn_ranges(receipt.edited)}" if receipt.edited else ""
        screen.print_line(turns + shortened, "dim")
        return
    screen.print_line(f"{head}  {receipt.reason}")
    for line in filter(None, (turns, *(f"  {note}" for note in receipt.notes))):
        screen.print_line(screen.escape_control_characters(line), "dim")


def search(
    query: Annotated[str, typer.Argument(help="Literal words; what stands in double quotes is looked for as it is.")],
    *,
    thread: options.ThreadName = None,
    limit: Annotated[int, typer.Option(help="The most results for each thread.", min=1, max=MAX_RESULTS)] = 5,
    most: Annotated[int, typer.Option("--threads", help="The most threads to show, the best first.", min=1)] = 50,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Find what left the context and matches best, in one thread or in all of them."""
    with open_store(archive) as store:
        if gaps := _describe_gaps(store, namespace, thread):
            screen.print_notice(gaps)
        if thread is None:
            spaces = list(dict.fromkeys(scope.namespace for scope in list_scopes(store, namespace)))
            matching = lookup.find_threads(store, spaces, query)
            found = lookup.search_each_thread(store, matching.scopes[:most], matching.query, limit)
        else:
            matching = lookup.ThreadSearch(query, require_threads(store, namespace, thread))
            found = {scope: lookup.search(store, scope, query, limit) for scope in matching.scopes}
            matching = matching._replace(scopes=[scope for scope in matching.scopes if found[scope].results])
    if as_json:
        hits = [{**scope._asdict(), **asdict(one)} for scope, of_thread in found.items() for one in of_thread.results]
        counts = {"threads": len(matching.scopes), "threads_exact": matching.exact, "threads_shown": len(found)}
        screen.print_json({"query": query, "namespace": namespace, **counts, "results": hits})
        return
    if not any(of_thread.results for of_thread in found.values()):
        screen.print_line("Nothing that left the context matches. Search is literal: try one telling word.")
        return
    console = screen.make_console()
    for scope, of_thread in found.items():
        for result in of_thread.results:
            head = Text(f"[{result.turn}] {screen.escape_control_characters(scope.thread)}", style="bold")
            console.print(head.append(f"  {result.whose}, ref {result.ref}", style="dim"))
            console.print(Text(f"  {screen.shorten_to_one_line(result.excerpt, 2_000)}"))
    screen.print_line(_describe_result_counts(matching, found, thread), "dim")


def _describe_result_counts(matching: lookup.ThreadSearch, found: Mapping[Scope, Found], thread: str | None) -> str:
    """Return a sentence on how much there is, and how much of it is shown."""
    matches = sum(of_thread.matches for of_thread in found.values())
    shown = sum(len(of_thread.results) for of_thread in found.values())
    at_least = "at least " if any(of_thread.at_least for of_thread in found.values()) else ""
    threads = screen.format_count(sum(bool(of_thread.results) for of_thread in found.values()), "thread")
    text = f"{screen.format_count(shown, 'passage')} of {at_least}{screen.format_count(matches, 'message')} that match"
    text += f", in {threads}."
    if thread is None and len(matching.scopes) > len(found):
        text += f" {matching.count_in_words.capitalize()} hold it: --threads {len(matching.scopes)} shows all."
    return text


def _describe_gaps(store: Archive, namespace: str | None, thread: str | None) -> str:
    """Return what of a coding agent's session is not in the archive; empty if all is, or if this is no such session."""
    if thread is None or not is_session_name(thread):
        return ""
    try:
        file = find_session(thread, os.environ)
    except SettingsError:  # its file is gone
        return ""
    return describe_session_gaps(store, namespace or DEFAULT_NAMESPACE, file.thread, file)


def read(
    ref: Annotated[str, typer.Argument(help=f"{REFERENCE_FORMS[0].upper()}{REFERENCE_FORMS[1:]}.")],
    *,
    thread: Annotated[str, typer.Option("--thread", help="The conversation's name in the archive.")],
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Show one archived message in full; with --json, exactly as it was."""
    with open_store(archive) as store:
        scope = require_thread(store, namespace, thread)
        reading = lookup.read(store, scope, ref, page=1 << 40)
        message = lookup.original(store, scope, ref) if as_json else None
    if as_json:
        facts = {"ref": reading.ref, "turn": reading.turn, "role": reading.role, "origin": reading.origin}
        screen.print_json({**facts, "message": message})
        return
    screen.print_line(f"[{reading.turn}] ref {reading.ref}", "bold")
    for piece in reading.pieces:
        screen.print_line(f"{piece.whose}:", "dim")
        screen.print_line(piece.text)


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
        with screen.show_spinner("verifying"):
            problems = list(store.verify(scope))
        url = store.url
    if as_json:
        screen.print_json({"archive": url, "thread": thread, "problems": problems})
    else:
        what = f"thread {thread} in {url}" if thread is not None else url
        for problem in problems:
            screen.print_line(problem)
        count = screen.format_count(len(problems), "problem")
        screen.print_line(f"{count} in {what}." if problems else f"{what}: everything is there and intact.")
    if problems:
        raise typer.Exit(1)
