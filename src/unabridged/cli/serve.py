"""`mcp`: a thread's search and read as tools, for an agent's host."""

from __future__ import annotations

from typing import Annotated

import typer

from unabridged.cli import options
from unabridged.recall import mcp_server


def mcp(
    *,
    thread: Annotated[str, typer.Option("--thread", help="The conversation whose history is served.")],
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = options.NAMESPACE,
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
    if http is None:
        mcp_server.serve(archive, namespace, thread)
    else:
        mcp_server.serve(archive, namespace, thread, transport="http", host=host, port=http, token=token)
