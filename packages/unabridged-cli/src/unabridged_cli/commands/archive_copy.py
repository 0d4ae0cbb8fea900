"""`archive copy`, and `archive sweep` for an archive with its messages in an object store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

import typer
from rich.progress import MofNCompleteColumn, Progress

from unabridged.archive.protocol import Archive
from unabridged.errors import SettingsError
from unabridged_cli import options, screen
from unabridged_cli.archives import open_store, require_thread
from unabridged_cli.copying import ArchiveCopy, copy_archive

_PROBLEMS_SHOWN = 20
_TEXT_BYTES_PATTERN = re.compile(rb"[\t\n\r\x20-\x7e]+")
_KEY_HELP = "A file with the key that {} is encrypted with: its bytes, or the same as hex digits."


def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The archive that is read: its URL, as --archive takes it elsewhere.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="The archive that gets it all; made where there is none yet.")
    ],
    *,
    namespace: Annotated[str | None, typer.Option("--namespace", help="Only this namespace.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="Only this conversation.")] = None,
    from_key: Annotated[Path | None, typer.Option(help=_KEY_HELP.format("FROM"), readable=False)] = None,
    to_key: Annotated[Path | None, typer.Option(help=_KEY_HELP.format("TO"), readable=False)] = None,
    as_json: options.AsJson = False,
) -> None:
    """Copy an archive into another of any kind, and compare both sides by digest. Ends with 1 when something differs.

    Everything comes along: messages, records (undone and replaced ones too), their order, and what the engine learned;
    not who holds a lease. The search index is made by TO's store. Without keys an encrypted archive is copied as it is,
    sealed.

    A conversation is there whole or not at all. Run it again after an interruption, or when FROM has grown: what is the
    same is left, what is new is added. A conversation that TO holds something else of is refused, and the others are
    copied. Nothing is removed.
    """
    if source == target and from_key == to_key:
        raise SettingsError("FROM and TO are the same archive: name another one to copy into")
    with _open_archive(source, from_key) as origin, _open_archive(target, to_key, new=True) as destination:
        if thread is not None:
            namespace, thread = require_thread(origin, namespace, thread)
        with screen.show_progress("copying", *Progress.get_default_columns(), MofNCompleteColumn()) as progress:
            copied = copy_archive(origin, destination, namespace=namespace, thread=thread, tell=progress)
        urls = {"from": origin.url, "to": destination.url}
    if as_json:
        screen.print_json({**urls, **asdict(copied)})
    else:
        _print_copy_result(copied, urls["to"])
    if copied.problems:
        raise typer.Exit(1)


def sweep(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Spare what may belong to a record that is being written: 1h, 1d.")
    ] = "1h",
    archive: options.ArchiveUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove the objects that no record refers to: what a crash left in the bucket of an archive with `bodies=`."""
    with open_store(archive) as store:
        if not isinstance(store, Sweepable):
            raise SettingsError(f"{store.url} keeps its messages itself: only an archive with bodies= is swept")
        with screen.show_spinner("sweeping"):
            removed = store.sweep(options.parse_age(older_than))
        url = store.url
    if as_json:
        screen.print_json({"archive": url, "removed": removed})
    else:
        screen.print_line(f"{screen.format_count(removed, 'object')} that nothing refers to removed from {url}.")


@runtime_checkable
class Sweepable(Protocol):
    """An archive that can leave something behind elsewhere."""

    def sweep(self, grace: float) -> int:
        """Remove what nothing refers to and is older than `grace` seconds; return how many objects that were."""


@contextmanager
def _open_archive(url: str, key: Path | None, *, new: bool = False) -> Iterator[Archive]:
    secret = None if key is None else _read_key(key)
    with open_store(url, new=new) as archive:
        if secret is None:
            yield archive
        else:
            from unabridged.archive.encrypted import EncryptedArchive  # noqa: PLC0415 - only with the extra

            yield EncryptedArchive(archive, secret)


def _read_key(file: Path) -> bytes:
    """Return the key in the file. Other text is refused: it would be used as a key, and nobody could name it again."""
    data = file.read_bytes()
    if not _TEXT_BYTES_PATTERN.fullmatch(data):
        return data
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        raise SettingsError(f"{file} holds text that is no key: write the key as hex digits, or as its bytes") from None


def _print_copy_result(copied: ArchiveCopy, url: str) -> None:
    same = copied.threads - copied.new - copied.grown
    states = f"{copied.new:,} new, {copied.grown:,} brought up to date, {same:,} there already"
    screen.print_line(f"{screen.format_count(copied.threads, 'thread')} in {url} as in the source: {states}.")
    written = f"{screen.format_count(copied.records, 'record')} and {screen.format_count(copied.messages, 'message')}"
    screen.print_line(f"Written: {written} ({copied.size:,} bytes), {screen.format_count(copied.notes, 'note')}.")
    screen.print_line(f"Both sides have the digest {copied.digest}.")
    for problem in copied.problems[:_PROBLEMS_SHOWN]:
        screen.print_notice(problem)
    if len(copied.problems) > _PROBLEMS_SHOWN:
        screen.print_notice(f"and {len(copied.problems) - _PROBLEMS_SHOWN:,} more like that; --json lists them all")
