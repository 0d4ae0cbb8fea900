"""The sessions of a project whose files grew since they were archived: so every session is, also without a compaction.

How large each file was then is noted in a file for each client and project. So nothing of the archive is opened where
nothing is new, and a session that somebody had the archive forget does not come back until it goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from unabridged.archive.protocol import Archive
from unabridged.errors import UnabridgedError
from unabridged.sessions.files import write_file_atomically
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.hook.actions import archive_new_messages, use_or_open_archive
from unabridged_cli.clients.hook.background import BACKGROUND_TIMEOUT_SECONDS, lock_session, wait_for_turn
from unabridged_cli.clients.hook.log import log, log_failure, log_file_path, set_logged_session
from unabridged_cli.clients.hook.transcript import HookSession, detect_transcript_kind
from unabridged_cli.clients.session_lookup import find_project_folder, is_same_folder, list_all_sessions

ArchivedSizes = dict[str, int]
"""How many bytes each file had when it was archived, by its path."""


def archive_grown_sessions(own: SessionFile, folder: str, reason: str) -> None:
    """Archive the new messages of every session of this client in a project, including `own`.

    `folder` is the project's folder if the session's file does not name one. Do nothing if another
    process waits to do it.
    """
    project = find_project_folder(own) or folder
    path = sizes_file_path(own.client, project)
    with wait_for_turn(path) as is_first:
        sizes = _read_sizes(path)
        grown = list(_find_grown_sessions(own, project, sizes)) if is_first else []
        if not grown:
            return
        with use_or_open_archive() as archive:
            for session in grown:
                set_logged_session(session.thread)
                if _archive_session_file(archive, session, reason):
                    sizes[str(session.path)] = session.size
                    write_file_atomically(path, [json.dumps(sizes).encode()])


def _find_grown_sessions(own: SessionFile, project: str, sizes: ArchivedSizes) -> Iterator[SessionFile]:
    """Yield the sessions of the project, newest first, that have another size than when they were archived."""
    listed = list_all_sessions(os.environ, own.client)
    if own.path.is_file() and own.path not in [session.path for session in listed]:
        listed.append(replace(own, size=own.path.stat().st_size))
    for session in listed:
        if sizes.get(str(session.path)) == session.size or not session.is_readable:
            continue
        if session.path == own.path or is_same_folder(find_project_folder(session), project):
            yield session


def _archive_session_file(archive: Archive, file: SessionFile, reason: str) -> bool:
    """Archive what is new in a session; return whether all that its file had when it was listed is there now."""
    kind = detect_transcript_kind(file.path)
    if kind is None or kind.client != file.client:
        return True  # nothing was said in it yet
    session = HookSession(kind, file.id, file.path)
    try:
        with lock_session(session.thread) as is_first:
            if not is_first:
                log(f"{session.thread}: another process is at it")
            seconds = BACKGROUND_TIMEOUT_SECONDS
            return is_first and archive_new_messages(archive, session, reason, seconds, is_waited_for=False)
    except (UnabridgedError, OSError) as error:
        log_failure(f"{type(error).__name__}: {error}")
        return False


def sizes_file_path(client: str, project: str) -> Path:
    """Return where the sizes of this client's sessions of this project are noted."""
    name = sha256(os.path.realpath(project).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return log_file_path(os.environ).with_name("archived") / f"{client}-{name}.json"


def _read_sizes(path: Path) -> ArchivedSizes:
    try:
        value = json.loads(path.read_bytes())
        return {str(name): int(size) for name, size in value.items() if Path(name).exists()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
