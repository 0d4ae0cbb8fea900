"""The record, used: `replay`, `undo`, `export`, `forget`, `prune`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from unabridged.archive import codec, laws
from unabridged.archive.protocol import Archive, Part, Record, Scope
from unabridged.cli import options
from unabridged.cli.records import require_thread
from unabridged.cli.screen import ask, fail, number_of, plain, print_json, say, working
from unabridged.compactor import Compactor
from unabridged.errors import ArchiveError
from unabridged.formats import Message
from unabridged.sessions import Loaded, save, write_whole

_RECORD_FIELDS = ("id", "key", "length", "start", "kind", "prior", "model", "created", "before", "after", "data")
Needed = Annotated[
    Path, typer.Option("--out", "-o", help="Where the result goes; never the file that was read.", readable=False)
]


def replay(
    file: options.File,
    *,
    out: Needed,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    thread: options.ThreadName = None,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """The whole conversation again, exactly: every compaction that stands in the file is taken back."""
    loaded = options.load_file(file, format_, which, max_size)
    with _compactor(loaded, file, archive, namespace, thread) as (compactor, name), working("replaying"):
        whole = compactor.replay(loaded.messages, thread=name)
        _write(loaded, whole, out, as_json=as_json, thread=name)


def undo(
    file: options.File,
    *,
    out: Needed,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    thread: options.ThreadName = None,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """The conversation as it was before its newest compaction, and what came since; the compaction is retired."""
    loaded = options.load_file(file, format_, which, max_size)
    with _compactor(loaded, file, archive, namespace, thread) as (compactor, name), working("undoing"):
        _write(loaded, compactor.undo(loaded.messages, thread=name), out, as_json=as_json, thread=name)


def export(
    thread: options.ThreadArgument,
    *,
    out: Needed,
    layout: Annotated[
        Literal["messages", "text", "all"],
        typer.Option("--as", help="The messages that left, a line each; a text to read; or all, with every record."),
    ] = "messages",
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """What a thread has in the archive, as a file: what left its context, in order."""
    with options.open_store(archive) as store:
        scope = require_thread(store, namespace, thread)
        records = store.records(scope)
        parts = store.parts(scope)
        pieces = {"messages": _lines, "text": _transcript, "all": _all}[layout](parts, records)
        write_whole(out, pieces)
    if as_json:
        print_json({"thread": thread, "messages": len(parts), "compactions": len(records), "out": str(out)})
    else:
        say(f"{number_of(len(parts), 'message')} written to {out}.")


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
    if (thread is None) == (older_than is None) and (thread is not None or not _said(context, "namespace")):
        fail("name a thread, or --namespace for a whole namespace, or --older-than 30d for what is old", 2)
    with options.open_store(archive) as store:
        if thread is not None:
            scope = require_thread(store, namespace, thread)
            count = number_of(len(store.records(scope)), "compaction")
            ask(f"Remove thread {plain(thread)!r} with {count} from {store.url}, for good?", yes=yes)
            store.forget(scope)
            gone = [scope]
        else:
            before = time.time() - options.age(older_than) if older_than is not None else None
            gone = _remove(store, namespace, before, older_than, yes=yes, quiet=as_json)
    if as_json:
        print_json({"forgotten": [scope._asdict() for scope in gone]})
    elif thread is not None:
        say(f"Thread {thread} is forgotten.")
    elif gone:
        say(f"{number_of(len(gone), 'thread')} forgotten.")


def prune(
    *,
    older_than: Annotated[str, typer.Option("--older-than", help="The age of a thread's newest compaction: 90d, 12w.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: options.Yes = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Forget the threads that have not been compacted for so long, of all namespaces or of the one that is named.

    Says what goes, and asks: `forget --older-than` with a look beforehand.
    """
    before = time.time() - options.age(older_than)
    with options.open_store(archive) as store:
        would = _old_threads(store, namespace, before)
        count = len(options.scopes(store, namespace))
        if dry_run:
            gone = list[Scope]()
            if not as_json:
                _say_old(would, count, older_than)
        else:
            gone = _remove(store, namespace, before, older_than, yes=yes, quiet=as_json)
    if as_json:
        facts = {"forgotten": [scope._asdict() for scope in gone], "would_go": [scope._asdict() for scope in would]}
        print_json({**facts, "threads": count})


def _remove(
    store: Archive, namespace: str | None, before: float | None, older_than: str | None, *, yes: bool, quiet: bool
) -> list[Scope]:
    """Say what would go, ask, and remove it: namespace by namespace, each in one go."""
    would = _old_threads(store, namespace, before)
    if not quiet:
        _say_old(would, len(options.scopes(store, namespace)), older_than)
    if not would and older_than is not None:
        return []
    whole = f"namespace {plain(str(namespace))!r}, " if older_than is None else ""
    ask(f"Remove {whole}{number_of(len(would), 'thread')} from {store.url}, for good?", yes=yes)
    spaces = [str(namespace)] if older_than is None else list(dict.fromkeys(scope.namespace for scope in would))
    return [Scope(space, name) for space in spaces for name in store.forget_namespace(space, before)]


def _say_old(would: Sequence[Scope], count: int, older_than: str | None) -> None:
    for scope in would:
        say(f"  {scope.thread} (namespace {scope.namespace})")
    since = f" have not been compacted for {older_than}" if older_than is not None else " would go"
    say(f"{len(would):,} of {number_of(count, 'thread')}{since}.")


def _old_threads(store: Archive, namespace: str | None, before: float | None) -> list[Scope]:
    """The threads whose newest compaction, undone or not, is older; all of them without an age."""
    scopes = options.scopes(store, namespace)
    return [scope for scope in scopes if laws.is_older(store.newest_time(scope), before)]


def _said(context: typer.Context, parameter: str) -> bool:
    """Whether the person wrote the option on the command line: what removes much is not taken from elsewhere."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


@contextmanager
def _compactor(
    loaded: Loaded, file: Path, url: str | None, namespace: str | None, thread: str | None
) -> Iterator[tuple[Compactor, str]]:
    """A compactor on the archive, and the thread that the conversation belongs to."""
    with options.open_store(url) as archive:
        scope = options.thread_of(archive, namespace, loaded, file, thread)
        if scope.thread not in archive.threads(scope.namespace):
            scope = require_thread(archive, namespace, scope.thread)
        origin = loaded.origin_of()
        compactor = Compactor(archive=archive, namespace=scope.namespace, format=loaded.format, origin=origin)
        with compactor:
            yield compactor, scope.thread


def _write(loaded: Loaded, messages: list[Message], out: Path, *, as_json: bool, thread: str) -> None:
    if messages is loaded.messages:
        fail(f"no compaction of thread {thread!r} stands in {loaded.path}: nothing was written", 2)
    save(loaded, messages, out)
    if as_json:
        counts = {"messages_before": len(loaded.messages), "messages_after": len(messages)}
        print_json({"thread": thread, **counts, "out": str(out)})
    else:
        say(f"{number_of(len(loaded.messages), 'message')} became {len(messages):,}, written to {out}.")


def _lines(parts: Sequence[Part], records: Sequence[Record]) -> Iterator[bytes]:
    """The originals as they were, a line each."""
    del records
    for part in parts:
        yield json.dumps(_decode(part), ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


def _transcript(parts: Sequence[Part], records: Sequence[Record]) -> Iterator[bytes]:
    """For people, and for tools that read files."""
    del records
    for part in parts:
        yield f"[{part.turn}] {part.origin} ({part.role})\n{part.text}\n\n".encode("utf-8", "replace")


def _all(parts: Sequence[Part], records: Sequence[Record]) -> Iterator[bytes]:
    """One document: every record, and every original with its hash and its place."""
    whole: dict[str, Any] = {
        "records": [{name: getattr(record, name) for name in _RECORD_FIELDS} for record in records],
        "messages": [
            {"turn": part.turn, "hash": part.hash, "role": part.role, "origin": part.origin, "message": _decode(part)}
            for part in parts
        ],
    }
    yield json.dumps(whole, ensure_ascii=True, default=str, indent=1).encode() + b"\n"


def _decode(part: Part) -> Any:
    """The message; an SDK's object whose package is not here as what is readable in it."""
    try:
        return codec.decode(part.body)
    except ArchiveError:
        return {"role": part.role, "content": part.text}
