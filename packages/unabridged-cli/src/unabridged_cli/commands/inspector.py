"""`inspect`: show the archive in a local web page."""

from __future__ import annotations

import sys
import webbrowser
from typing import Annotated

import typer

from unabridged_cli import options, screen
from unabridged_cli.archives import open_store
from unabridged_cli.inspector.server import serve


def inspect(
    *,
    port: Annotated[int, typer.Option("--port", help="Where to listen, on this machine alone; 0 finds one.")] = 0,
    archive: options.ArchiveUrl = None,
    write: Annotated[
        bool, typer.Option("--write", help="Allow undo and forget. Without it nothing in the archive changes.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Look into the archive in a browser: threads, compactions before and after, search, any point replayed.

    Prints the address to open, with a token that works once; the page is for this machine and that browser alone.
    """

    def on_listen(url: str) -> None:
        typer.echo(url)
        sys.stdout.flush()
        if open_:
            webbrowser.open(url)

    with open_store(archive) as store:
        screen.print_notice(f"{store.url}, {'undo and forget allowed' if write else 'read-only'}. Ctrl-C ends it")
        serve(store, port=port, write=write, on_listen=on_listen)
