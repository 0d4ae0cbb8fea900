"""`forget` and `prune`: remove records for good."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from unabridged.archive import store_rules
from unabridged.archive.protocol import Archive, Scope
from unabridged.archive.transcripts import forget_namespace, forget_thread
from unabridged.sizes import parse_size
from unabridged_cli import options
from unabridged_cli.archives import list_scopes, open_store, require_threads
from unabridged_cli.clients.threads import session_thread_of
from unabridged_cli.screen import confirm_or_exit, escape_control_characters, fail, format_count, print_json, print_line

_REMAINING_SHOWN = 10
"""Messages that stay, in a terminal."""


def forget(
    context: typer.Context,
    thread: Annotated[str | None, typer.Argument(help="The conversation's name in the archive.")] = None,
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", help="Instead of one thread all whose newest compaction is older: 30d."),
    ] = None,
    yes: options.AssumeYes = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove from the archive, for good: records, originals, and everything only they used. Says what goes, and asks.

    A thread; or, without one, the whole namespace that --namespace names; or what is older than --older-than, in that
    namespace or in all. No thread is removed by half.
    """
    is_whole = thread is None and options.is_on_command_line(context, "namespace")
    if (thread is None) == (older_than is None) and not is_whole:
        fail("name a thread, or --namespace for a whole namespace, or --older-than 30d for what is old", 2)
    with open_store(archive) as store:
        if thread is not None:
            gone = require_threads(store, namespace, thread)
            count = format_count(sum(len(store.records(scope)) for scope in gone), "compaction")
            name = escape_control_characters(session_thread_of(gone[0].thread))
            confirm_or_exit(f"Remove thread {name!r} with {count} from {store.url}, for good?", yes=yes)
            staying = _find_shared_messages(store, gone)
            for scope in gone:
                forget_thread(store, scope)
        else:
            _, gone, staying = _confirm_and_forget(store, namespace, older_than, None, yes=yes, quiet=as_json)
    if as_json:
        print_json({"forgotten": [scope._asdict() for scope in gone], "staying": staying})
    elif thread is not None:
        print_line(f"Thread {thread} is forgotten.")
        _print_shared_messages(staying)
    elif gone:
        print_line(f"{format_count(len(gone), 'thread')} forgotten.")
        _print_shared_messages(staying)


def prune(
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="The age of a thread's newest compaction: 90d, 12w.")
    ] = None,
    to_size: Annotated[
        str | None,
        typer.Option("--to-size", help="The longest unused go until a namespace's messages take at most this: 500m."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: options.AssumeYes = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Forget the threads that have not been compacted for so long, of all namespaces or of the one that is named.

    Or those that a namespace has no room for: the ones whose newest compaction is the oldest. Says what goes, and asks.
    """
    if older_than is None and to_size is None:
        fail("name an age, as in --older-than 90d, or a size, as in --to-size 500m", 2)
    with open_store(archive) as store:
        count, how = len(list_scopes(store, namespace)), {"yes": yes, "quiet": as_json, "dry_run": dry_run}
        would, gone, staying = _confirm_and_forget(store, namespace, older_than, to_size, **how)
    if not as_json:
        _print_shared_messages(staying)
    else:
        facts: dict[str, Any] = {"staying": staying}
        facts |= {"forgotten": [scope._asdict() for scope in gone], "would_go": [scope._asdict() for scope in would]}
        print_json({**facts, "threads": count})


def _confirm_and_forget(
    store: Archive,
    namespace: str | None,
    older_than: str | None,
    to_size: str | None,
    *,
    yes: bool,
    quiet: bool,
    dry_run: bool = False,
) -> tuple[list[Scope], list[Scope], list[dict[str, Any]]]:
    """List the threads to remove, ask for confirmation, and remove them, namespace by namespace.

    Without age and size, remove the whole namespace. Return the threads that were listed, those that were removed, and
    the messages of theirs that other threads share.
    """
    whole = older_than is None and to_size is None
    scopes = list_scopes(store, namespace)
    spaces = [str(namespace)] if whole else list(dict.fromkeys(scope.namespace for scope in scopes))
    moments = {space: _find_cutoff_time(store, space, older_than, to_size) for space in spaces}
    would = [scope for scope in scopes if store_rules.is_older(store.newest_time(scope), moments[scope.namespace])]
    if not quiet:
        for scope in would:
            print_line(f"  {scope.thread} (namespace {scope.namespace})")
        since = f" have not been compacted for {older_than}" if older_than and not to_size else " would go"
        print_line(f"{len(would):,} of {format_count(len(scopes), 'thread')}{since}.")
    if dry_run or (not would and not whole):
        return would, [], []
    named = f"namespace {escape_control_characters(str(namespace))!r}, " if whole else ""
    confirm_or_exit(f"Remove {named}{format_count(len(would), 'thread')} from {store.url}, for good?", yes=yes)
    staying = [] if whole else _find_shared_messages(store, would)
    gone = [Scope(space, name) for space, before in moments.items() for name in forget_namespace(store, space, before)]
    return would, gone, staying


def _find_cutoff_time(store: Archive, space: str, older_than: str | None, to_size: str | None) -> float | None:
    """Return the Unix time before which a namespace's threads are removed; with both the later, with neither None."""
    if older_than is None and to_size is None:
        return None
    aged = time.time() - options.parse_age(older_than) if older_than is not None else 0.0
    if to_size is None:
        return aged
    return max(aged, store_rules.find_cutoff_for_size(store, space, parse_size(to_size, "a size")) or 0.0)


def _find_shared_messages(store: Archive, gone: list[Scope]) -> list[dict[str, Any]]:
    """Return the messages of these threads that others have too, and which: they stay there."""
    going = set(gone)
    found: list[dict[str, Any]] = []
    for scope in gone:
        for turn, threads in store.shared(scope).items():
            others = [name for name in threads if Scope(scope.namespace, name) not in going]
            if others:
                found.append({**scope._asdict(), "turn": turn, "also_in": others})
    return found


def _print_shared_messages(staying: list[dict[str, Any]]) -> None:
    """Name what is still in the archive of what was forgotten."""
    if staying:
        print_line(f"{format_count(len(staying), 'message')} of that stay, since other threads hold the same:")
    for one in staying[:_REMAINING_SHOWN]:
        others = ", ".join(escape_control_characters(session_thread_of(name)) for name in one["also_in"][:3])
        more = f" and {len(one['also_in']) - 3:,} more" if len(one["also_in"]) > 3 else ""
        own = escape_control_characters(session_thread_of(one["thread"]))
        print_line(f"  turn {one['turn']} of {own}, in {others}{more}")
    if len(staying) > _REMAINING_SHOWN:
        print_line(f"  and {len(staying) - _REMAINING_SHOWN:,} more: --json names all of them")
