"""Whether the hooks of a client run: what they noted, held against the sessions that the client wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from unabridged_cli.clients.client import CodingAgent, Environ, SessionFile, format_utc_minute
from unabridged_cli.clients.hook.log import find_unresolved_failures, log_file_path
from unabridged_cli.clients.ignore_file import find_ignore_file
from unabridged_cli.clients.session_lookup import find_project_folder, is_same_folder, list_all_sessions
from unabridged_cli.clients.threads import list_open_sessions

_RECENT_SECONDS: Final = 7 * 86_400
"""How long a session counts: notes are not kept for ever."""


def find_last_run_time(client: CodingAgent, environ: Environ, project: Path | None) -> float | None:
    """Return when a hook of the client ran last, in this project if one is named; None if none is known to have run."""
    notes = (note for note in list_open_sessions(environ) if note.client == client.name)
    times = (note.time for note in notes if project is None or is_same_folder(note.project, str(project)))
    return max(times, default=None)


def find_session_without_hooks(
    client: CodingAgent, environ: Environ, file: Path, project: Path | None
) -> SessionFile | None:
    """Return the newest session written since the hooks were installed, if no hook has run in it or since; else None.

    A hook runs at the start of each session. `project` limits the search to one folder.
    """
    since = max(file.stat().st_mtime, time.time() - _RECENT_SECONDS)
    if (find_last_run_time(client, environ, project) or 0.0) >= since:
        return None
    noted = {note.thread for note in list_open_sessions(environ)}
    for session in list_all_sessions(environ, client.name):
        if session.modified <= since:
            return None
        folder = find_project_folder(session)
        if find_ignore_file(folder) is None and (project is None or is_same_folder(folder, str(project))):
            return None if session.thread in noted else session
    return None


def find_hook_problems(
    agent: CodingAgent, environ: Environ, path: Path, project: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield what shows that the hooks do not work, and the remedy: a session in which none ran, and logged failures.

    `path` was written when the hooks were installed.
    """
    session = find_session_without_hooks(agent, environ, path, project)
    if session is not None:
        ran = find_last_run_time(agent, environ, project)
        so_far = f"ran last on {format_utc_minute(ran)}" if ran else "never ran"
        hooks, written = f"the hooks of {agent.title} in {path}", format_utc_minute(session.modified)
        yield f"{hooks} {so_far}, and not in {session.thread}, which was written on {written}", agent.remedy
    for failure in find_unresolved_failures(environ):
        if failure.thread.partition(":")[0] in {agent.name, ""}:
            named = f" for {failure.thread}" if failure.thread else ""
            when = format_utc_minute(failure.time)
            yield f"the hook failed on {when}{named}: {failure.reason}", f"see {log_file_path(environ)}"
