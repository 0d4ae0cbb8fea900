"""The record, used: `replay`, `undo`, `export`, `forget`, `prune`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from unabridged.archive import codec
from unabridged.archive.protocol import Part, Record, Scope
from unabridged.cli import options
from unabridged.cli.records import known
from unabridged.cli.screen import ask, console, fail, plain, print_json, working
from unabridged.engine import Compactor
from unabridged.errors import ArchiveError
from unabridged.formats import Message
from unabridged.sessions import Loaded, save, write_whole

Needed = Annotated[
    Path, typer.Option("--out", "-o", help="Where the result goes; never the file that was read.", readable=False)
]


def replay(
    file: options.File,
    *,
    out: Needed,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    thread: options.ThreadName = None,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """The whole conversation again, exactly: every compaction that stands in the file is taken back."""
    loaded = options.loaded_from(file, format_, which, max_size)
    with _compactor(loaded, file, archive, namespace, thread) as (compactor, name), working("replaying"):
        whole = compactor.replay(loaded.messages, thread=name)
        _write(loaded, whole, out, as_json=as_json, thread=name)


def undo(
    file: options.File,
    *,
    out: Needed,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    thread: options.ThreadName = None,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """The conversation as it was before its newest compaction, and what came since; the compaction is retired."""
    loaded = options.loaded_from(file, format_, which, max_size)
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
    namespace: options.Namespace = options.NAMESPACE,
    as_json: options.AsJson = False,
) -> None:
    """What a thread has in the archive, as a file: what left its context, in order."""
    scope = Scope(namespace, thread)
    with options.opened(archive) as store:
        records = known(store, scope)
        parts = store.parts(scope)
        pieces = {"messages": _lines, "text": _transcript, "all": _all}[layout](parts, records)
        write_whole(out, pieces)
    if as_json:
        print_json({"thread": thread, "messages": len(parts), "compactions": len(records), "out": str(out)})
    else:
        console().print(plain(f"{len(parts):,} messages written to {out}."), markup=False, soft_wrap=True)


def forget(
    thread: options.ThreadArgument,
    *,
    yes: options.Yes = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    as_json: options.AsJson = False,
) -> None:
    """Remove a thread from the archive: its records, its originals, and everything only it used."""
    scope = Scope(namespace, thread)
    with options.opened(archive) as store:
        records = known(store, scope)
        ask(f"Remove thread {plain(thread)!r} with {len(records):,} compactions from {store.url}, for good?", yes=yes)
        store.forget(scope)
    if as_json:
        print_json({"forgotten": [thread]})
    else:
        console().print(plain(f"Thread {thread} is forgotten."), markup=False, soft_wrap=True)


def prune(
    *,
    older_than: Annotated[str, typer.Option("--older-than", help="The age of a thread's newest compaction: 90d, 12w.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: options.Yes = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
    as_json: options.AsJson = False,
) -> None:
    """Forget the threads of a namespace that have not been compacted for so long. Says what goes, and asks."""
    before = time.time() - options.age(older_than)
    with options.opened(archive) as store:
        found = {name: store.records(Scope(namespace, name)) for name in store.threads(namespace)}
        # A thread whose compactions were all undone tells no age: it stays.
        old = [name for name, records in found.items() if records and max(r.created for r in records) < before]
        if not as_json:
            for name in old:
                console().print(plain(f"  {name}: {len(found[name]):,} compactions"), markup=False, soft_wrap=True)
            said = f"{len(old):,} of {len(found):,} threads have not been compacted for {older_than}."
            console().print(plain(said), markup=False, soft_wrap=True)
        if old and not dry_run:
            ask(f"Remove these {len(old):,} threads from {store.url}, for good?", yes=yes)
            for name in old:
                store.forget(Scope(namespace, name))
    if as_json:
        print_json({"forgotten": [] if dry_run else old, "would_go": old, "threads": len(found)})


@contextmanager
def _compactor(
    loaded: Loaded, file: Path, url: str | None, namespace: str, thread: str | None
) -> Iterator[tuple[Compactor, str]]:
    """A compactor on the archive, and the thread that the conversation belongs to."""
    with options.opened(url) as archive:
        name = thread or options.thread_of(archive, namespace, loaded.messages, loaded.format, file)
        known(archive, Scope(namespace, name))
        origin = loaded.origin_of()
        compactor = Compactor(archive=archive, namespace=namespace, format=loaded.format, origin=origin)
        with compactor:
            yield compactor, name


def _write(loaded: Loaded, messages: list[Message], out: Path, *, as_json: bool, thread: str) -> None:
    if messages is loaded.messages:
        fail(f"no compaction of thread {thread!r} stands in {loaded.path}: nothing was written", 2)
    save(loaded, messages, out)
    if as_json:
        counts = {"messages_before": len(loaded.messages), "messages_after": len(messages)}
        print_json({"thread": thread, **counts, "out": str(out)})
    else:
        said = f"{len(loaded.messages):,} messages became {len(messages):,}, written to {out}."
        console().print(plain(said), markup=False, soft_wrap=True)


def _lines(parts: Sequence[Part], records: Sequence[Record]) -> Iterator[bytes]:
    """The originals as they were, a line each."""
    del records
    for part in parts:
        yield json.dumps(_decoded(part), ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


def _transcript(parts: Sequence[Part], records: Sequence[Record]) -> Iterator[bytes]:
    """For people, and for tools that read files."""
    del records
    for part in parts:
        yield f"[{part.turn}] {part.origin} ({part.role})\n{part.text}\n\n".encode("utf-8", "replace")


def _all(parts: Sequence[Part], records: Sequence[Record]) -> Iterator[bytes]:
    """One document: every record, and every original with its hash and its place."""
    whole: dict[str, Any] = {
        "records": [
            {
                **{name: getattr(record, name) for name in ("id", "key", "length", "start", "kind", "prior", "model")},
                "created": record.created,
                "before": record.before,
                "after": record.after,
                "data": record.data,
            }
            for record in records
        ],
        "messages": [
            {"turn": part.turn, "hash": part.hash, "role": part.role, "origin": part.origin, "message": _decoded(part)}
            for part in parts
        ],
    }
    yield json.dumps(whole, ensure_ascii=True, default=str, indent=1).encode() + b"\n"


def _decoded(part: Part) -> Any:
    """The message; an SDK's object whose package is not here as what is readable in it."""
    try:
        return codec.decode(part.body)
    except ArchiveError:
        return {"role": part.role, "content": part.text}
