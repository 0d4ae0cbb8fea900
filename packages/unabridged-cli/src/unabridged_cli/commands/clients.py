"""`install`, `uninstall`, `status`: this package in the configuration of a coding agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.errors import SettingsError
from unabridged_cli import options, screen
from unabridged_cli.clients import configure
from unabridged_cli.clients.client import CodingAgent, format_utc_minute
from unabridged_cli.clients.hook_runs import find_hook_problems, find_last_run_time
from unabridged_cli.clients.registry import CLIENTS


class InstallScope(StrEnum):
    """Whom an install is for: every project of this user, or the one in this folder."""

    user = "user"
    project = "project"


_CLIENT_NAMES = ", ".join(CLIENTS)
_CACHE_FOLDERS = frozenset({".cache", "Caches", "tmp"})
"""Folders whose contents come and go, as where `uvx` puts a program."""
ClientName = Annotated[str, typer.Argument(metavar="CLIENT", help=f"Which one: {_CLIENT_NAMES}.")]
AnyClient = Annotated[str | None, typer.Argument(metavar="CLIENT", help=f"Which one: {_CLIENT_NAMES}. Default: all.")]
ScopeOption = Annotated[
    InstallScope, typer.Option("--scope", help="`user`: in every project. `project`: in this folder alone.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the exact change, as a diff, and write nothing.")]


def install(
    client: ClientName,
    *,
    scope: ScopeOption = InstallScope.user,
    dry_run: DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Add hooks and the MCP server to a coding agent's own configuration, and nothing else.

    From then on every session is archived, before its client compacts it and at its end; the model is told after a
    compaction what a summary loses, and it can search the rest. Comments, order and other hooks stay; the file as it
    was is kept beside it (`.before-unabridged`). Can be run again, after an upgrade or a move.
    """
    agent, project, has_mcp = find_client(client), _choose_project_folder(scope), find_spec("mcp") is not None
    entries = [entry for entry in agent.entries(os.environ, project) if entry.what != "MCP server" or has_mcp]
    program = configure.find_program(os.environ)
    changes = configure.plan_install(entries, program)
    _apply_changes(changes, configure.find_root_folder(agent, os.environ, project), dry_run=dry_run)
    statuses = list(map(configure.read_entry_status, entries))
    ours = [status for status in statuses if status.state == "installed"]
    notes = [f"{agent.title} has it all already; nothing was changed"] if not changes and ours == statuses else []
    for status in statuses:
        if status.state == "other":
            notes.append(f"{status.path} has somebody's own named unabridged ({status.what}): it was left as it is")
        notes += [status.problem] if status.problem else []
    if _CACHE_FOLDERS.intersection(Path(program).parts):
        notes.append(f"{program} is in a cache, which may be emptied: install it for good (uv tool install, pipx)")
    if not has_mcp:
        remedy = "pip install 'unabridged[mcp]', run this again"
        notes.append(f"the MCP server is left out, its library is missing: {remedy}")
    notes += agent.list_install_notes(project) if changes or ours else ()
    _print_changes(changes, notes, dry_run=dry_run, as_json=as_json)


def uninstall(
    client: ClientName,
    *,
    scope: ScopeOption = InstallScope.user,
    dry_run: DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Take out what `install` added: the configuration is as it was, to the byte where nobody else changed it.

    The archive stays; `unabridged forget` empties it.
    """
    agent, project = find_client(client), _choose_project_folder(scope)
    entries = agent.entries(os.environ, project)
    changes = configure.plan_uninstall(entries)
    strange = configure.find_stray_backups(entries)
    _apply_changes(changes, configure.find_root_folder(agent, os.environ, project), dry_run=dry_run)
    nothing = f"nothing of unabridged is in the configuration of {agent.title}; nothing was changed"
    why = "the file beside it has nothing of unabridged, so nobody knows whose it is"
    left = [f"{copy} was left: {why}. It may hold keys: remove it if you don't need it" for copy in strange]
    _print_changes(changes, [*([] if changes else [nothing]), *left], dry_run=dry_run, as_json=as_json)


def status(client: AnyClient = None, *, as_json: options.AsJson = False) -> None:
    """Show where this package is in the configuration of coding agents, and whether it works there.

    Ends with 1 where something is wrong: what a client calls can't be started or is not as this version installs it,
    hooks do not run, or a session could not be archived. What to do about it is said.
    """
    agents = [find_client(client)] if client else CLIENTS.values()
    rows = [row for agent in agents for row in _build_status_rows(agent)]
    problems = list(dict.fromkeys(problem for row in rows for problem in row["problems"]))
    if as_json:
        screen.print_json(rows)
    else:
        columns = ("client", "scope", "what", "state", "ran last", "where")
        screen.make_console().print(screen.build_table("coding agents", columns, map(_format_status_row, rows)))
        for problem in problems or _describe_unrun_hooks(rows):
            screen.print_notice(problem)
    if problems:
        raise SystemExit(1)


def _format_status_row(row: dict[str, Any]) -> tuple[object, ...]:
    state = row["state"] if row["runs"] is not False else "its program is gone"
    ran = (format_utc_minute(row["ran"]) if row["ran"] else "never") if _has_hooks(row) else None
    return row["client"], row["scope"], row["what"], state, ran, row["path"]


def _has_hooks(row: dict[str, Any]) -> bool:
    return row["what"] != "MCP server" and row["state"] in {"installed", "partly"}


def _describe_unrun_hooks(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what to do about hooks that have not run: nothing is wrong yet, there was no session."""
    for row in rows:
        if _has_hooks(row) and not row["ran"]:
            agent = CLIENTS[row["client"]]
            yield f"the hooks of {agent.title} in {row['path']} have not run yet; if they don't: {agent.remedy}"


def _build_status_rows(agent: CodingAgent) -> Iterator[dict[str, Any]]:
    for scope in InstallScope:
        project = _choose_project_folder(scope)
        for status in map(configure.read_entry_status, agent.entries(os.environ, project)):
            runs = status.can_start_program
            row = {"client": agent.name, "scope": scope.value, **asdict(status), "runs": runs, "ran": None}
            problems = [status.problem] if status.problem else []
            if runs is False:
                gone = f"{status.path} starts {status.program}, which is gone"
                problems.append(f"{gone}: unabridged install {agent.name}")
            if _has_hooks(row):
                row["ran"] = find_last_run_time(agent, os.environ, project)
                found = find_hook_problems(agent, os.environ, status.path, project)
                problems += [f"{problem}: {remedy}" for problem, remedy in found]
            yield row | {"problems": problems}


def _apply_changes(changes: list[configure.FileChange], root: Path, *, dry_run: bool) -> None:
    for change in changes if not dry_run else ():
        configure.apply_change(change, root)


def _print_changes(changes: list[configure.FileChange], notes: list[str], *, dry_run: bool, as_json: bool) -> None:
    """Print what was done, or would be, on standard output; what the person has to know on standard error."""
    if as_json:
        listed = [
            {"path": change.entry.path, "what": change.entry.what, "done": change.kind, "diff": change.diff()}
            for change in changes
        ]
        screen.print_json({"dry_run": dry_run, "changes": listed, "notes": notes})
        return
    for change in changes:
        if dry_run:
            typer.echo(change.diff(), nl=False)
        else:
            kept = f"; as it was: {configure.backup_path_of(change.entry.path).name}" if change.copy is not None else ""
            screen.print_line(f"{change.entry.path}: {change.kind} ({change.entry.what}){kept}")
    for note in notes:
        screen.print_notice(note)


def find_client(name: str) -> CodingAgent:
    """Return the client of this name; raise `SettingsError` for an unknown one."""
    if name not in CLIENTS:
        raise SettingsError(f"there is no client {name!r}: choose one of {_CLIENT_NAMES}")
    return CLIENTS[name]


def _choose_project_folder(scope: InstallScope) -> Path | None:
    return Path.cwd() if scope is InstallScope.project else None
