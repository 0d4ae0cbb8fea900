"""`sessions`: list what coding agents have on this machine, and what of it is in the archive."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.errors import SettingsError
from unabridged_cli import options, screen
from unabridged_cli.archives import list_scopes, open_store
from unabridged_cli.clients import session_lookup
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.registry import CLIENTS
from unabridged_cli.clients.threads import session_thread_of


def sessions(
    client: Annotated[str | None, typer.Argument(help=f"Only this client's: {', '.join(CLIENTS)}.")] = None,
    *,
    project: Annotated[
        Path | None, typer.Option("--project", help="Only those of this folder and below.", readable=False)
    ] = None,
    archive: options.ArchiveUrl = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """List every session of Claude Code, Codex, pi and opencode on this machine, newest first.

    With its size, how often it was compacted, by whomever, and when it was last archived. The name in the first column
    is what compact, replay, undo, search and show take. Sessions of opencode are only listed.
    """
    if client is not None and client not in CLIENTS:
        screen.fail(f"unknown client {client!r}: choose one of {', '.join(CLIENTS)}", 2)
    known = session_lookup.list_all_sessions(os.environ, client)
    overviews = [(session, session_lookup.read_overview(session)) for session in screen.track(known, "reading")]
    if project is not None:
        overviews = [pair for pair in overviews if session_lookup.is_folder_within(pair[1].project, str(project))]
    archived = _read_archive_times(archive, namespace)
    names = session_lookup.find_short_names((session for session, _ in overviews), known)
    if as_json:
        screen.print_json({"sessions": [_build_session_facts(*pair, archived) for pair in overviews]})
    elif not overviews:
        screen.print_line("There are no sessions.")
    else:
        columns = ("session", "project", "changed", "size", "compactions", "archived")
        rows = [_format_session_row(names[pair[0].path], *pair, archived) for pair in overviews]
        result = screen.build_table("Sessions", columns, rows)
        result.columns[0].no_wrap = True  # it is there to be copied
        screen.make_console().print(result)


def _read_archive_times(url: str | None, namespace: str | None) -> dict[str, float | None]:
    """Return when each thread was archived last; nothing where there is no archive, with a warning if one was named."""
    try:
        with open_store(url) as store:
            times: dict[str, float | None] = {}
            for scope in list_scopes(store, namespace):
                name = session_thread_of(scope.thread)
                times[name] = max(times.get(name) or 0.0, store.newest_time(scope) or 0.0) or None
            return times
    except SettingsError as error:
        if url is not None:
            screen.print_notice(str(error))
        return {}


def _build_session_facts(
    session: SessionFile, overview: session_lookup.SessionOverview, archived: dict[str, float | None]
) -> dict[str, Any]:
    file = {"client": session.client, "id": session.id, "path": str(session.path), "project": overview.project or None}
    numbers = {"size": session.size, "modified": session.modified, "compactions": overview.compactions}
    thread = session.thread
    return file | numbers | {"thread": thread, "in_archive": thread in archived, "archived": archived.get(thread)}


def _format_session_row(
    name: str, session: SessionFile, overview: session_lookup.SessionOverview, archived: dict[str, float | None]
) -> tuple[object, ...]:
    time = archived.get(session.thread)
    when = screen.format_local_minute(time) if time else "yes" if session.thread in archived else "no"
    home = f"{Path.home()}{os.sep}"
    project = overview.project
    if project.startswith(home):
        project = f"~{os.sep}{project.removeprefix(home)}"
    changed, size = screen.format_local_minute(session.modified), _format_size(session.size)
    return name, project, changed, size, overview.compactions, when


def _format_size(count: int) -> str:
    """Return bytes as people read them: 812 B, 4.1 kB, 200.0 MB."""
    amount, units = float(count), ["B", "kB", "MB", "GB"]
    while amount >= 1_000 and len(units) > 1:
        amount, units = amount / 1_000, units[1:]
    return f"{amount:,.1f} {units[0]}" if units[0] != "B" else f"{count} B"
