"""`mcp`: serve search and read as tools for an agent's host, of one thread or of a coding agent's sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.archive.names import check_name
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Scope
from unabridged.recall.tools import Tools
from unabridged_cli import mcp_server, options, screen
from unabridged_cli.archives import describe_missing_thread, find_thread, open_store
from unabridged_cli.clients.current_session import ToolCaller, client_from_mcp_name, find_caller
from unabridged_cli.clients.once import is_served_by_install
from unabridged_cli.clients.session_tools import SessionTools


def mcp(
    context: typer.Context,
    *,
    thread: Annotated[
        str | None,
        typer.Option("--thread", help="The conversation whose history is served. Default: a coding agent's sessions."),
    ] = None,
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
    """Serve search_history, read_history, list_sessions and list_compactions over MCP. Needs the extra `mcp`.

    With --thread the first two, for that conversation alone. Without it for the coding agent that starts it: for the
    session that is open, and all sessions of the project when asked to. Where it is not certain which session asks, the
    answer lists those that fit.

    Over stdio, for a host that starts it as a child process; with --http over streamable HTTP, on this machine alone
    unless a token says who may ask. This command prints no JSON of its own: stdio is the protocol's.
    """
    for option in ("token", "host"):
        if http is None and options.is_on_command_line(context, option):
            screen.fail(f"--{option} is for HTTP, and this serves over stdio: add --http PORT, or leave it out", 2)
    how: dict[str, Any] = {} if http is None else {"transport": "http", "host": host, "port": http, "token": token}
    with open_store(archive, new=True) as store:
        if thread is None:
            space = check_name(DEFAULT_NAMESPACE if namespace is None else namespace, "namespace")
            is_offered = not is_served_by_install(os.environ)
            mcp_server.serve_tools(SessionTools(store, _find_mcp_caller, space, is_offered), **how)
        else:
            mcp_server.serve_tools(Tools(store, _find_served_scope(store, namespace, thread)), **how)


def _find_mcp_caller() -> ToolCaller:
    return find_caller(os.environ, Path.cwd(), client_from_mcp_name(mcp_server.client_name.get()))


def _find_served_scope(store: Archive, namespace: str | None, thread: str) -> Scope:
    """Return the thread that was named, which may come to be while this serves."""
    scope = find_thread(store, namespace, thread)
    if scope is None:
        missing = describe_missing_thread(store, namespace, thread)
        screen.print_notice(f"{missing}. Until it is compacted, a search finds nothing")
    return scope or Scope(DEFAULT_NAMESPACE if namespace is None else namespace, thread)
