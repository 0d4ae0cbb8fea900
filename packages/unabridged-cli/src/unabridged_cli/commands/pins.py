"""`pin`, `unpin` and `pins`: texts that are in every summary turn of a thread."""

from __future__ import annotations

from typing import Annotated

import typer

from unabridged.archive import pins as pinned
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Scope
from unabridged_cli import options
from unabridged_cli.archives import open_store, require_thread
from unabridged_cli.screen import fail, format_count, print_json, print_line

Text = Annotated[str, typer.Argument(help="The text, kept byte for byte.")]
Thread = Annotated[str, typer.Option("--thread", help="The conversation's name in the archive.")]


def pin(
    text: Text,
    *,
    thread: Thread,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Keep a text in every summary turn of a thread, from the next compaction on."""
    with open_store(archive) as store:
        texts = pinned.pin(store, _find_pin_scope(store, namespace, thread), text)
    if as_json:
        print_json({"thread": thread, "pins": list(texts)})
    else:
        print_line(f"Pinned. Thread {thread} has {format_count(len(texts), 'pin')}.")


def unpin(
    text: Text,
    *,
    thread: Thread,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Take a pin away, from the next compaction on."""
    with open_store(archive) as store:
        scope = _find_pin_scope(store, namespace, thread)
        if not pinned.unpin(store, scope, text):
            fail(f"thread {thread} has no pin with this text: see unabridged pins --thread {thread}", 2)
        left = pinned.list_pins(store, scope)
    if as_json:
        print_json({"thread": thread, "pins": list(left)})
    else:
        print_line("The pin is gone from the next compaction on.")


def pins(
    *,
    thread: Thread,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """List the texts that are pinned to a thread."""
    with open_store(archive) as store:
        texts = pinned.list_pins(store, _find_pin_scope(store, namespace, thread))
    if as_json:
        print_json({"thread": thread, "pins": list(texts)})
    elif not texts:
        print_line(f"Thread {thread} has no pins.")
    for text in texts if not as_json else ():
        print_line(f"- {text}")


def _find_pin_scope(store: Archive, namespace: str | None, thread: str) -> Scope:
    """Return the scope of the thread; a thread that the archive does not have yet may get pins all the same."""
    spaces = [namespace] if namespace is not None else store.namespaces()
    if any(thread in store.threads(space) for space in spaces):
        return require_thread(store, namespace, thread)
    return Scope(DEFAULT_NAMESPACE if namespace is None else namespace, thread)
