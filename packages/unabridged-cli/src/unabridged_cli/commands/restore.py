"""The record, used: `replay`, `undo`, `export`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from unabridged.archive import codec
from unabridged.archive.protocol import Part, Record
from unabridged.compactor import Compactor
from unabridged.errors import ArchiveError, UnabridgedError
from unabridged.formats import Message, format_named
from unabridged.marks import marked_ids
from unabridged.sessions import Loaded, write_whole
from unabridged.sessions.files import CLIENTS, pieces_with
from unabridged_cli import options
from unabridged_cli.archives import open_compactor, open_store, require_thread, scope_of
from unabridged_cli.clients.taken_back import TakenBack, take_back
from unabridged_cli.screen import fail, number_of, print_json, say, spans, tell, working
from unabridged_cli.targets import Target, target_of

Layout = Literal["messages", "text", "all"]
_ANY_WINDOW = 1_000_000
"""Where nothing is compacted, any will do."""


def replay(
    file: options.FileOrSession,
    *,
    out: options.Out = None,
    write: options.Write = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    thread: options.ThreadName = None,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """The whole conversation again, exactly: every compaction that stands in the file is taken back.

    In a client's session also those that the client made: what they replaced is still in its file.
    """
    target = _restored_to(file, out, write=write)
    loaded = options.load_file(target.file, format_, which, max_size, keep_lines=True)
    target.check_layout(loaded)
    place = (archive, namespace, thread or target.thread)
    if (taken := _take_back(loaded, every=True)) is not None:
        _write_taken(target, loaded, taken, as_json=as_json)
        return
    _require_compaction(loaded)
    with open_compactor(loaded, target.file, *place, window=_ANY_WINDOW) as (compactor, name), working("replaying"):
        _write(target, loaded, compactor.replay(loaded.messages, thread=name), as_json=as_json, thread=name)


def undo(
    file: options.FileOrSession,
    *,
    out: options.Out = None,
    write: options.Write = False,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    thread: options.ThreadName = None,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """The conversation as it was before its newest compaction, and what came since; the compaction is retired.

    In a client's session it may be one that the client made. Its lines go, and all others stay as they are.
    """
    target = _restored_to(file, out, write=write)
    loaded = options.load_file(target.file, format_, which, max_size, keep_lines=True)
    target.check_layout(loaded)
    place = (archive, namespace, thread or target.thread)
    if (taken := _take_back(loaded)) is not None:
        _write_taken(target, loaded, taken, as_json=as_json)
        with contextlib.suppress(UnabridgedError):  # without an archive, or with one that has nothing of it
            _retire(loaded, target.file, taken.messages, place)
        return
    _require_compaction(loaded)
    with open_compactor(loaded, target.file, *place, window=_ANY_WINDOW) as (compactor, name), working("undoing"):
        _write(target, loaded, compactor.undo(loaded.messages, thread=name), as_json=as_json, thread=name)


def _take_back(loaded: Loaded, *, every: bool = False) -> TakenBack | None:
    with working("looking for compactions"):
        return take_back(loaded, every=every)


def _require_compaction(loaded: Loaded) -> None:
    """End here if nothing in a client's session names a compaction of ours: no archive would help."""
    reader = format_named(loaded.format)
    if loaded.kind in CLIENTS and not any(marked_ids(reader.read(message)) for message in loaded.messages):
        fail(f"no compaction stands in {loaded.path} that can be taken back: nothing was written", 2)


def _restored_to(file: Path, out: Path | None, *, write: bool) -> Target:
    """Where it comes from and goes to, which has to be named."""
    target = target_of(file, out, write=write)
    if target.out is None:
        fail(f"say where it goes: -o OUT{', or --write to write the session back' if target.session else ''}", 2)
    target.check_place()
    return target


def _retire(
    loaded: Loaded, file: Path, before: list[Message], place: tuple[str | None, str | None, str | None]
) -> None:
    """Take the records that were undone out of look-ups: one compaction of a file may have been several."""
    url, namespace, thread = place
    with open_store(url) as store:
        scope = scope_of(store, namespace, loaded, file, thread)
        source: dict[str, Any] = {"format": loaded.format, "origin": loaded.origin_of()}
        with Compactor(archive=store, namespace=scope.namespace, window=_ANY_WINDOW, **source) as compactor:
            messages, left = loaded.messages, list[Message]()
            while messages not in (left, before):
                left, messages = messages, compactor.undo(messages, thread=scope.thread)


def export(
    thread: options.ThreadArgument,
    *,
    out: options.RequiredOut,
    layout: Annotated[
        Layout,
        typer.Option("--as", help="The messages that left, a line each; a text to read; or all, with every record."),
    ] = "messages",
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """What a thread has in the archive, as a file: what left its context, in order.

    Not in the archive is what stayed in the context: system message, pinned messages, a person's newest message, the
    newest part.
    """
    with open_store(archive) as store:
        scope = require_thread(store, namespace, thread)
        records = store.records(scope)
        parts = store.parts(scope)
        write_whole(out, (text.encode("utf-8", "replace") for text in _layout(layout, parts, records)))
    known = [-1, *sorted({part.turn for part in parts})]
    stayed = [(before + 1, turn) for before, turn in pairwise(known) if turn - before > 1]  # half-open ranges
    if as_json:
        counts = {"messages": len(parts), "compactions": len(records)}
        print_json({"thread": thread, **counts, "stayed": stayed, "out": str(out)})
    else:
        say(f"{number_of(len(parts), 'message')} written to {out}.")
        if parts:
            turns = f"turns {spans(stayed)}, and " if stayed else ""
            tell(f"not in the archive, because it had not left the context: {turns}all after turn {parts[-1].turn}.")


def _write(target: Target, loaded: Loaded, messages: list[Message], *, as_json: bool, thread: str) -> None:
    """Write what the archive gave back."""
    if messages is loaded.messages:
        fail(f"no compaction of thread {thread!r} stands in {loaded.path}: nothing was written", 2)
    target.write(loaded, pieces_with(loaded, messages), backup=False)
    _tell_written(target, loaded, messages, as_json=as_json, thread=thread)


def _write_taken(target: Target, loaded: Loaded, taken: TakenBack, *, as_json: bool) -> None:
    """Write a session without its compactions; in place, the file as it was stays beside it."""
    with working("writing"):
        target.write(loaded, taken.lines, backup=True)
    _tell_written(target, loaded, taken.messages, as_json=as_json, thread=target.thread)


def _tell_written(
    target: Target, loaded: Loaded, messages: list[Message], *, as_json: bool, thread: str | None
) -> None:
    if as_json:
        counts = {"messages_before": len(loaded.messages), "messages_after": len(messages)}
        print_json({"thread": thread, **counts, "out": str(target.out)})
    else:
        say(f"{number_of(len(loaded.messages), 'message')} became {len(messages):,}, written to {target.out}.")


def _layout(layout: Layout, parts: Sequence[Part], records: Sequence[Record]) -> Iterator[str]:
    """The originals as they were, a line each; for people; or, with every record, as one document."""
    if layout == "messages":
        yield from (json.dumps(_decode(part), ensure_ascii=False, default=str) + "\n" for part in parts)
    elif layout == "text":
        yield from (f"[{part.turn}] {part.origin} ({part.role})\n{part.text}\n\n" for part in parts)
    else:
        messages = [
            {"turn": part.turn, "hash": part.hash, "role": part.role, "origin": part.origin, "message": _decode(part)}
            for part in parts
        ]
        whole = {"records": [asdict(record) for record in records], "messages": messages}
        yield json.dumps(whole, default=str, indent=1) + "\n"


def _decode(part: Part) -> Any:
    """The message; an SDK's object whose package is not here as what is readable in it."""
    try:
        return codec.decode(part.body)
    except ArchiveError:
        return {"role": part.role, "content": part.text}
