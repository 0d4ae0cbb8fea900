"""`inspect`: show the archive in a local web page."""

from __future__ import annotations

import sys
import webbrowser
from contextlib import AbstractContextManager, closing
from typing import Annotated

import typer

from unabridged.archive import open_archive
from unabridged.archive.opening import default_url, local_path
from unabridged.archive.protocol import Archive
from unabridged_cli import options, screen
from unabridged_cli.archives import open_store
from unabridged_cli.inspector.server import InspectorServer, serve


def inspect(
    *,
    port: Annotated[int, typer.Option("--port", help="Where to listen, on this machine alone; 0 finds one.")] = 0,
    archive: options.ArchiveUrl = None,
    write: Annotated[
        bool, typer.Option("--write", help="Allow undo and forget. Without it nothing in the archive changes.")
    ] = False,
    follow: Annotated[
        str | None,
        typer.Option(
            "--follow",
            help="Show a run as it happens: a session file, a file of events that a program writes, or the address of "
            "a gateway.",
            metavar="SOURCE",
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Look into the archive in a browser: threads, compactions before and after, search, any point replayed.

    Prints the address to open, with a token that works once; the page is for this machine and that browser alone.
    """
    with _open(archive, follow) as store:
        server = InspectorServer(store, port=port, write=write, follow=follow)
        screen.print_notice(f"{store.url}, {'undo and forget allowed' if write else 'read-only'}. Ctrl-C ends it")
        typer.echo(server.url)
        sys.stdout.flush()
        if open_:
            webbrowser.open(server.url)
        serve(server)


def _open(url: str | None, follow: str | None) -> AbstractContextManager[Archive]:
    """Return the archive; to follow a run there need not be one."""
    if follow is not None and url is None and not local_path(default_url()).exists():
        return closing(open_archive("memory:"))
    return open_store(url)
