"""`mcp`: a thread's search and read as tools, for an agent's host."""

from __future__ import annotations

from typing import Annotated

import typer

from unabridged.archive.protocol import Scope
from unabridged.cli import options
from unabridged.cli.archives import describe_missing, find_thread, open_store
from unabridged.cli.screen import tell
from unabridged.history.namespace import DEFAULT
from unabridged.recall import mcp_server


def mcp(
    *,
    thread: Annotated[str, typer.Option("--thread", help="The conversation whose history is served.")],
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    http: Annotated[
        int | None, typer.Option("--http", help="Serve over HTTP on this port instead of stdio; 0 finds one.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="With --http: the address to listen on.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="UNABRIDGED_TOKEN", help="With --http: who asks must know it.", hidden=False),
    ] = None,
) -> None:
    """Serve a thread's recall tools over MCP: search_history and read_history. Needs the extra `mcp`.

    Over stdio, for a host that starts it as a child process; with --http over streamable HTTP, on this machine alone
    unless a token says who may ask. This command prints no JSON of its own: stdio is the protocol's.
    """
    with open_store(archive, new=True) as store:
        scope = find_thread(store, namespace, thread)
        if scope is None:
            tell(f"{describe_missing(store, namespace, thread)}. Until it is compacted, a search finds nothing")
            scope = Scope(namespace or DEFAULT, thread)
        if http is None:
            mcp_server.serve(store, *scope)
        else:
            mcp_server.serve(store, *scope, transport="http", host=host, port=http, token=token)
