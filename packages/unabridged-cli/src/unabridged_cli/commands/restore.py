"""`replay`, `undo` and `export`: use the record."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from unabridged.archive.protocol import Part, Record
from unabridged.compactor import Compactor
from unabridged.errors import UnabridgedError
from unabridged.formats import Message, get_format
from unabridged.marks import find_view_record_ids
from unabridged.sessions import LoadedFile, write_file_atomically
from unabridged.sessions.files import SESSION_FORMATS, render_file
from unabridged_cli import archives, options, screen
from unabridged_cli.clients.file_undo import FileUndoResult, undo_compactions_in_file
from unabridged_cli.targets import Target, resolve_target

Layout = Literal["messages", "text", "all"]
_UNUSED_WINDOW = 1_000_000
"""Where nothing is compacted, any will do."""


def _make_command(*, every: bool) -> Callable[[Callable[[], None]], Callable[..., None]]:
    """Return a decorator by which a description becomes the command that takes back one compaction, or every one."""

    def command(
        file: options.FileOrSession,
        *,
        out: options.Out = None,
        write: options.Write = False,
        archive: options.ArchiveUrl = None,
        namespace: options.Namespace = None,
        thread: options.ThreadName = None,
        format_: options.FormatName = None,
        which: options.ConversationChoice = None,
        as_json: options.AsJson = False,
        max_size: options.MaxSize = options.MAX_SIZE,
    ) -> None:
        target = _find_target(file, out, write=write)
        loaded = options.load_file(target.file, format_, which, max_size, keep_lines=True)
        target.check_layout(loaded)
        where = (archive, namespace, thread or target.thread)
        with screen.show_spinner("looking for compactions"):
            undone = undo_compactions_in_file(loaded, every=every)
        if undone is None:
            with _open_compactor_or_exit(loaded, target, where) as (compactor, name), screen.show_spinner("restoring"):
                restore = compactor.replay if every else compactor.undo
                _write_messages(target, loaded, restore(loaded.messages, thread=name), as_json=as_json, thread=name)
            return
        _write_undo_result(target, loaded, undone, as_json=as_json)
        with contextlib.suppress(UnabridgedError):  # without an archive, or with one that has nothing of it
            if not every:
                _retire_undone_records(loaded, target.file, undone.messages, where)

    def describe(description: Callable[[], None]) -> Callable[..., None]:
        command.__doc__ = description.__doc__
        return command

    return describe


@_make_command(every=True)
def replay() -> None:
    """Restore the whole conversation, exactly: every compaction that is in the file is taken back.

    In a client's session also those that the client made: what they replaced is still in its file.
    """


@_make_command(every=False)
def undo() -> None:
    """Restore the conversation before its newest compaction, with what came since; the compaction is retired.

    In a client's session it may be one that the client made. Its lines go, and all others stay as they are.
    """


def _find_target(file: Path, out: Path | None, *, write: bool) -> Target:
    """Return where the session comes from and goes to, which has to be named."""
    target = resolve_target(file, out, write=write)
    if target.out is None:
        screen.fail(f"say where it goes: -o OUT{', or --write to write the session back' if target.session else ''}", 2)
    target.check_path()
    return target


@contextlib.contextmanager
def _open_compactor_or_exit(
    loaded: LoadedFile, target: Target, where: archives.ArchiveLocation
) -> Iterator[tuple[Compactor, str]]:
    """Yield a compactor; end the program if nothing in a client's session names a compaction: no archive would help."""
    reader = get_format(loaded.format)
    marks = (find_view_record_ids(reader.read(message)) for message in loaded.messages)
    if loaded.kind in SESSION_FORMATS and not any(marks):
        screen.fail(f"no compaction stands in {loaded.path} that can be taken back: nothing was written", 2)
    with archives.open_compactor(loaded, target.file, where, window=_UNUSED_WINDOW) as opened:
        yield opened


def _retire_undone_records(
    loaded: LoadedFile, file: Path, before: list[Message], where: archives.ArchiveLocation
) -> None:
    """Retire the records of the compactions that were undone in the file: one of them may have had several."""
    url, namespace, thread = where
    with archives.open_store(url) as store:
        scope = archives.find_conversation_scope(store, namespace, loaded, file, thread)
        source: dict[str, Any] = {"format": loaded.format, "origin": loaded.origin_of()}
        with Compactor(archive=store, namespace=scope.namespace, window=_UNUSED_WINDOW, **source) as compactor:
            messages, last = loaded.messages, list[Message]()
            while messages not in (last, before):
                last, messages = messages, compactor.undo(messages, thread=scope.thread)


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
    """Write what a thread has in the archive to a file: what left its context, in order.

    Not in the archive is what stayed in the context: system message, pinned messages, a person's newest message, the
    newest part.
    """
    with archives.open_store(archive) as store:
        scope = archives.require_thread(store, namespace, thread)
        records = store.records(scope)
        parts = store.parts(scope)
        write_file_atomically(out, (text.encode("utf-8", "replace") for text in _render_export(layout, parts, records)))
    turns = [-1, *sorted({part.turn for part in parts})]
    stayed = [(before + 1, turn) for before, turn in pairwise(turns) if turn - before > 1]  # half-open ranges
    if as_json:
        counts = {"messages": len(parts), "compactions": len(records)}
        screen.print_json({"thread": thread, **counts, "stayed": stayed, "out": str(out)})
    else:
        screen.print_line(f"{screen.format_count(len(parts), 'message')} written to {out}.")
        if parts:
            gaps = f"turns {screen.format_turn_ranges(stayed)}, and " if stayed else ""
            missing = f"{gaps}all after turn {parts[-1].turn}"
            screen.print_notice(f"not in the archive, because it had not left the context: {missing}.")


def _write_messages(target: Target, loaded: LoadedFile, messages: list[Message], *, as_json: bool, thread: str) -> None:
    """Write what the archive gave back."""
    if messages is loaded.messages:
        screen.fail(f"no compaction of thread {thread!r} stands in {loaded.path}: nothing was written", 2)
    target.write(loaded, render_file(loaded, messages), backup=False)
    _print_message_counts(target, loaded, messages, as_json=as_json, thread=thread)


def _write_undo_result(target: Target, loaded: LoadedFile, undone: FileUndoResult, *, as_json: bool) -> None:
    """Write a session without its compactions; in place, the file as it was stays beside it."""
    with screen.show_spinner("writing"):
        target.write(loaded, undone.lines, backup=True)
    _print_message_counts(target, loaded, undone.messages, as_json=as_json, thread=target.thread)


def _print_message_counts(
    target: Target, loaded: LoadedFile, messages: list[Message], *, as_json: bool, thread: str | None
) -> None:
    if as_json:
        counts = {"messages_before": len(loaded.messages), "messages_after": len(messages)}
        screen.print_json({"thread": thread, **counts, "out": str(target.out)})
    else:
        count = screen.format_count(len(loaded.messages), "message")
        screen.print_line(f"{count} became {len(messages):,}, written to {target.out}.")


def _render_export(layout: Layout, parts: Sequence[Part], records: Sequence[Record]) -> Iterator[str]:
    """Yield the originals as they were, a line each; as text for people; or, with every record, as one document."""
    if layout != "all":
        yield from archives.render_messages(parts, as_text=layout == "text")
        return
    about = ({"turn": part.turn, "hash": part.hash, "role": part.role, "origin": part.origin} for part in parts)
    messages = [{**facts, "message": archives.decode_part(part)} for facts, part in zip(about, parts, strict=True)]
    document = {"records": [asdict(record) for record in records], "messages": messages}
    yield json.dumps(document, default=str, indent=1) + "\n"
