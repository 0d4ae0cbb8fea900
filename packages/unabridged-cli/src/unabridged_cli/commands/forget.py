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
from unabridged_cli.archives import open_store, require_threads, scopes
from unabridged_cli.clients.threads import session_of
from unabridged_cli.screen import ask, fail, number_of, plain, print_json, say

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
    yes: options.Yes = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove from the archive, for good: records, originals, and everything only they used. Says what goes, and asks.

    A thread; or, without one, the whole namespace that --namespace names; or what is older than --older-than, in that
    namespace or in all. No thread is removed by half.
    """
    if (thread is None) == (older_than is None) and (thread is not None or not options.is_typed(context, "namespace")):
        fail("name a thread, or --namespace for a whole namespace, or --older-than 30d for what is old", 2)
    with open_store(archive) as store:
        if thread is not None:
            gone = require_threads(store, namespace, thread)
            count = number_of(sum(len(store.records(scope)) for scope in gone), "compaction")
            ask(
                f"Remove thread {plain(session_of(gone[0].thread))!r} with {count} from {store.url}, for good?", yes=yes
            )
            staying = _find_remaining(store, gone)
            for scope in gone:
                forget_thread(store, scope)
        else:
            gone, staying = _forget_old(store, namespace, older_than, None, yes=yes, quiet=as_json)
    if as_json:
        print_json({"forgotten": [scope._asdict() for scope in gone], "staying": staying})
    elif thread is not None:
        say(f"Thread {thread} is forgotten.")
        _say_remaining(staying)
    elif gone:
        say(f"{number_of(len(gone), 'thread')} forgotten.")
        _say_remaining(staying)


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
    yes: options.Yes = False,
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
        would, count = _old_threads(store, namespace, older_than, to_size), len(scopes(store, namespace))
        gone, staying = _forget_old(store, namespace, older_than, to_size, yes=yes, quiet=as_json, dry_run=dry_run)
    if not as_json:
        _say_remaining(staying)
    else:
        facts: dict[str, Any] = {"staying": staying}
        facts |= {"forgotten": [scope._asdict() for scope in gone], "would_go": [scope._asdict() for scope in would]}
        print_json({**facts, "threads": count})


def _forget_old(
    store: Archive,
    namespace: str | None,
    older_than: str | None,
    to_size: str | None,
    *,
    yes: bool,
    quiet: bool,
    dry_run: bool = False,
) -> tuple[list[Scope], list[dict[str, Any]]]:
    """Say what would go, ask, and remove it, namespace by namespace; without age and size, all of the one named.

    Return what went, and the messages of it that stay since others have them.
    """
    would = _old_threads(store, namespace, older_than, to_size)
    whole = older_than is None and to_size is None
    if not quiet:
        for scope in would:
            say(f"  {scope.thread} (namespace {scope.namespace})")
        since = f" have not been compacted for {older_than}" if older_than and not to_size else " would go"
        say(f"{len(would):,} of {number_of(len(scopes(store, namespace)), 'thread')}{since}.")
    if dry_run or (not would and not whole):
        return [], []
    named = f"namespace {plain(str(namespace))!r}, " if whole else ""
    ask(f"Remove {named}{number_of(len(would), 'thread')} from {store.url}, for good?", yes=yes)
    spaces = [str(namespace)] if whole else list(dict.fromkeys(scope.namespace for scope in would))
    staying = [] if whole else _find_remaining(store, would)
    moments = {space: None if whole else _time_limit(store, space, older_than, to_size) for space in spaces}
    gone = [Scope(space, name) for space, before in moments.items() for name in forget_namespace(store, space, before)]
    return gone, staying


def _old_threads(
    store: Archive, namespace: str | None, older_than: str | None, to_size: str | None = None
) -> list[Scope]:
    """Return the threads whose newest compaction, undone or not, is too old; all of them without age and size."""
    found = scopes(store, namespace)
    if older_than is None and to_size is None:
        return found
    spaces = dict.fromkeys(scope.namespace for scope in found)
    moments = {space: _time_limit(store, space, older_than, to_size) for space in spaces}
    return [scope for scope in found if store_rules.is_older(store.newest_time(scope), moments[scope.namespace])]


def _time_limit(store: Archive, space: str, older_than: str | None, to_size: str | None) -> float:
    """Return the Unix time before which threads of the namespace are to go; of age and size what takes more."""
    aged = time.time() - options.age(older_than) if older_than is not None else 0.0
    sized = store_rules.moment_for_size(store, space, parse_size(to_size, "a size")) if to_size is not None else None
    return max(aged, sized or 0.0)


def _find_remaining(store: Archive, gone: list[Scope]) -> list[dict[str, Any]]:
    """Return the messages of these threads that others have too, and which: they stay there."""
    going = set(gone)
    found: list[dict[str, Any]] = []
    for scope in gone:
        for turn, threads in store.shared(scope).items():
            others = [name for name in threads if Scope(scope.namespace, name) not in going]
            if others:
                found.append({**scope._asdict(), "turn": turn, "also_in": others})
    return found


def _say_remaining(staying: list[dict[str, Any]]) -> None:
    """Name what is still in the archive of what was forgotten."""
    if staying:
        say(f"{number_of(len(staying), 'message')} of that stay, since other threads hold the same:")
    for one in staying[:_REMAINING_SHOWN]:
        others = ", ".join(plain(session_of(name)) for name in one["also_in"][:3])
        more = f" and {len(one['also_in']) - 3:,} more" if len(one["also_in"]) > 3 else ""
        say(f"  turn {one['turn']} of {plain(session_of(one['thread']))}, in {others}{more}")
    if len(staying) > _REMAINING_SHOWN:
        say(f"  and {len(staying) - _REMAINING_SHOWN:,} more: --json names all of them")
