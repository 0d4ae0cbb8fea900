"""`install`, `uninstall`, `status`: this package in the configuration of a coding agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.errors import SettingsError
from unabridged_cli import options
from unabridged_cli.clients import CLIENTS, Client
from unabridged_cli.clients.configure import (
    Change,
    apply,
    copy_of,
    find_program,
    plan_install,
    plan_uninstall,
    root_of,
    standing,
    strange_copies,
)
from unabridged_cli.clients.hook.log import log_file, open_failures
from unabridged_cli.clients.runs import last_run, session_without_hooks
from unabridged_cli.screen import console, print_json, say, table, tell


class Reach(StrEnum):
    """For whom: every project of this user, or the one in this folder."""

    user = "user"
    project = "project"


_NAMES = ", ".join(CLIENTS)
_CACHES = frozenset({".cache", "Caches", "tmp"})
"""Folders whose contents come and go, as where `uvx` puts a program."""
ClientName = Annotated[str, typer.Argument(metavar="CLIENT", help=f"Which one: {_NAMES}.")]
AnyClient = Annotated[str | None, typer.Argument(metavar="CLIENT", help=f"Which one: {_NAMES}. Default: all.")]
ScopeOption = Annotated[
    Reach, typer.Option("--scope", help="`user`: in every project. `project`: in this folder alone.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the exact change, as a diff, and write nothing.")]


def install(
    client: ClientName,
    *,
    scope: ScopeOption = Reach.user,
    dry_run: DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Add hooks and the MCP server to a coding agent's own configuration, and nothing else.

    From then on every session is archived, before its client compacts it and at its end; the model is told after a
    compaction what a summary loses, and it can search the rest. Comments, order and other hooks stay; the file as it
    was is kept beside it (`.before-unabridged`). Can be run again, after an upgrade or a move.
    """
    chosen, project = _chosen(client), _project(scope)
    places = [place for place in chosen.places(os.environ, project) if place.what != "MCP server" or _has_mcp()]
    program = find_program(os.environ)
    changes = plan_install(places, program)
    _carry_out(changes, root_of(chosen, os.environ, project), dry_run=dry_run)
    stand = list(map(standing, places))
    ours = [one for one in stand if one.state == "installed"]
    notes = [f"{chosen.title} has it all already; nothing was changed"] if not changes and ours == stand else []
    for stands in stand:
        if stands.state == "other":
            notes.append(f"{stands.path} has somebody's own named unabridged ({stands.what}): it was left as it is")
        notes += [stands.problem] if stands.problem else []
    if any(part in _CACHES for part in Path(program).parts):
        notes.append(f"{program} is in a cache, which may be emptied: install it for good (uv tool install, pipx)")
    if not _has_mcp():
        notes.append(
            "the MCP server is left out, its library is missing: pip install 'unabridged[mcp]', run this again"
        )
    known = chosen.notes(project) if changes or ours else ()
    _report(changes, [*notes, *known], dry_run=dry_run, as_json=as_json)


def uninstall(
    client: ClientName,
    *,
    scope: ScopeOption = Reach.user,
    dry_run: DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Take out what `install` added: the configuration is as it was, to the byte where nobody else changed it.

    The archive stays; `unabridged forget` empties it.
    """
    chosen, project = _chosen(client), _project(scope)
    places = chosen.places(os.environ, project)
    changes = plan_uninstall(places)
    strange = strange_copies(places)
    _carry_out(changes, root_of(chosen, os.environ, project), dry_run=dry_run)
    none = f"nothing of unabridged is in the configuration of {chosen.title}; nothing was changed"
    left = [
        f"{copy} was left: the file beside it has nothing of unabridged, so nobody knows whose it is. It may hold "
        "keys: remove it if you don't need it"
        for copy in strange
    ]
    _report(changes, [*([] if changes else [none]), *left], dry_run=dry_run, as_json=as_json)


def status(client: AnyClient = None, *, as_json: options.AsJson = False) -> None:
    """Where this package stands in the configuration of coding agents, and whether it works there.

    Ends with 1 where something is wrong: what a client calls can't be started or is not as this version installs it,
    hooks do not run, or a session could not be archived. What to do about it is said.
    """
    rows = [row for chosen in ([_chosen(client)] if client else CLIENTS.values()) for row in _standings(chosen)]
    problems = list(dict.fromkeys(problem for row in rows for problem in row["problems"]))
    if as_json:
        print_json(rows)
    else:
        columns = ("client", "scope", "what", "state", "ran last", "where")
        console().print(table("coding agents", columns, map(_row, rows)))
        for problem in problems or _unrun(rows):
            tell(problem)
    if problems:
        raise SystemExit(1)


def _row(row: dict[str, Any]) -> tuple[object, ...]:
    state = row["state"] if row["runs"] is not False else "its program is gone"
    ran = (_minute(row["ran"]) if row["ran"] else "never") if _has_hooks(row) else None
    return row["client"], row["scope"], row["what"], state, ran, row["path"]


def _has_hooks(row: dict[str, Any]) -> bool:
    return row["what"] != "MCP server" and row["state"] in {"installed", "partly"}


def _unrun(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What to do about hooks that have not run: nothing is wrong yet, there was no session."""
    for row in rows:
        if _has_hooks(row) and not row["ran"]:
            client = CLIENTS[row["client"]]
            yield f"the hooks of {client.title} in {row['path']} have not run yet; if they don't: {client.unrun}"


def _standings(client: Client) -> list[dict[str, Any]]:
    found = []
    for scope in Reach:
        project = _project(scope)
        for place in client.places(os.environ, project):
            stands = standing(place)
            runs = stands.runs if stands.program is not None else None
            row = {"client": client.name, "scope": scope.value, **asdict(stands), "runs": runs, "ran": None}
            problems = [stands.problem] if stands.problem else []
            if runs is False:
                problems.append(
                    f"{place.path} starts {stands.program}, which is gone: unabridged install {client.name}"
                )
            if _has_hooks(row):
                row["ran"] = last_run(client, os.environ, project)
                problems += _troubles(client, place.path, project)
            found.append(row | {"problems": problems})
    return found


def _troubles(client: Client, path: Path, project: Path | None) -> Iterator[str]:
    """What shows that the hooks do not do their work: sessions in which none ran, and failures that they logged."""
    session = session_without_hooks(client, os.environ, path, project)
    if session is not None:
        ran = last_run(client, os.environ, project)
        so_far = f"ran last on {_minute(ran)}" if ran else "never ran"
        yield (
            f"the hooks of {client.title} in {path} {so_far}, and not in {client.name}:{session.id}, "
            f"which was written on {_minute(session.modified)}: {client.unrun}"
        )
    for failure in open_failures(os.environ):
        if failure.thread.partition(":")[0] in {client.name, ""}:
            named = f" for {failure.thread}" if failure.thread else ""
            yield f"the hook failed on {_minute(failure.time)}{named}: {failure.reason} ({log_file(os.environ)})"


def _minute(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _carry_out(changes: list[Change], root: Path, *, dry_run: bool) -> None:
    for change in changes if not dry_run else ():
        apply(change, root)


def _report(changes: list[Change], notes: list[str], *, dry_run: bool, as_json: bool) -> None:
    """What was done, or would be, on standard output; what the person has to know on standard error."""
    if as_json:
        listed = [
            {"path": change.place.path, "what": change.place.what, "done": _done(change), "diff": change.diff()}
            for change in changes
        ]
        print_json({"dry_run": dry_run, "changes": listed, "notes": notes})
        return
    for change in changes:
        if dry_run:
            typer.echo(change.diff(), nl=False)
        else:
            kept = f"; as it was: {copy_of(change.place.path).name}" if change.copy is not None else ""
            say(f"{change.place.path}: {_done(change)} ({change.place.what}){kept}")
    for note in notes:
        tell(note)


def _done(change: Change) -> str:
    return "removed" if change.after is None else "written" if change.before is None else "changed"


def _has_mcp() -> bool:
    """Whether the library of the extra `mcp` is installed."""
    return find_spec("mcp") is not None


def _chosen(name: str) -> Client:
    if name not in CLIENTS:
        raise SettingsError(f"there is no client {name!r}: choose one of {_NAMES}")
    return CLIENTS[name]


def _project(scope: Reach) -> Path | None:
    return Path.cwd() if scope is Reach.project else None
