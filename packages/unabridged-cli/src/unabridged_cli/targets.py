"""What a command works on: a file, or a client's session by its name, which is written back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from unabridged.sessions import LoadedFile, write_file_atomically
from unabridged.sessions.files import yield_if_unchanged
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.client_processes import list_processes_with_session
from unabridged_cli.clients.registry import CLIENTS
from unabridged_cli.clients.session_lookup import find_project_folder, find_session, is_session_name
from unabridged_cli.clients.threads import list_session_threads
from unabridged_cli.clients.write_back import require_entry_ids, write_back
from unabridged_cli.options import is_stdin, require_writable
from unabridged_cli.screen import fail, print_notice


@dataclass(frozen=True, slots=True)
class Target:
    """The input and output of a command: the file to read, its client session if one was named, the output path."""

    file: Path
    session: SessionFile | None
    out: Path | None
    """None for nowhere; the file itself where a session is written back."""

    @property
    def thread(self) -> str | None:
        """Return the thread for compactions of the session that was named."""
        return list_session_threads(self.session.thread)[1] if self.session else None

    @property
    def is_in_place(self) -> bool:
        """Return whether a session is written back."""
        return self.session is not None and self.out == self.file

    def check_layout(self, loaded: LoadedFile) -> None:
        """Raise `SessionFileError` for a session that can't be written back, before anything is paid for."""
        if self.is_in_place:
            require_entry_ids(loaded)

    def write(self, loaded: LoadedFile, pieces: Iterable[bytes], *, backup: bool) -> None:
        """Write the result, all of it or nothing; in place only while no client has the session open.

        With a backup the file as it was stays beside it: for what takes lines out.
        """
        if self.out is None:
            return
        self.check_path()
        if not self.is_in_place:
            write_file_atomically(self.out, yield_if_unchanged(loaded, pieces), mode=loaded.path.stat().st_mode & 0o777)
        elif copy := write_back(loaded, pieces, keep=backup):
            print_notice(f"the session as it was is in {copy}")

    def check_path(self) -> None:
        """Refuse a path that can't be written, before anything is paid for."""
        if self.out is None:
            return
        if not self.is_in_place:
            require_writable(self.out, self.file)
        elif self.session is not None:
            _require_closed(self.session)


def resolve_target(file: Path, out: Path | None = None, *, write: bool = False) -> Target:
    """Return what `file` names: a file of that name, else a session as `client:ID`."""
    name = str(file)
    if is_stdin(file) or not is_session_name(name) or file.exists():
        _require_client_or_file(name, file)
        if write:
            fail("--write is for a client's session, given as client:ID: name -o OUT for a file", 2)
        return Target(file, None, out)
    if write and out is not None:
        fail("say --write or -o OUT, not both", 2)
    session = find_session(name, os.environ)
    if not session.is_readable:
        fail(f"sessions of {CLIENTS[session.client].title} can be listed, not read yet", 2)
    return Target(session.path, session, session.path if write else out)


def _require_client_or_file(name: str, file: Path) -> None:
    """End the program if this looks like the name of a session, and is neither that nor a file."""
    client, colon, _ = name.partition(":")
    if not colon or "/" in client or os.path.lexists(file):
        return
    if client in CLIENTS:
        fail(f"{name!r} names no session: say some of its id, as in {client}:3f2a. `unabridged sessions` lists them", 2)
    fail(f"can't read {name}: no such file, and no client {client!r}: there are {', '.join(CLIENTS)}", 2)


def _require_closed(session: SessionFile) -> None:
    """End the program if the client may have the session open, or if the file is not the client's own."""
    client = CLIENTS[session.client]
    folder = client.sessions_folder(os.environ).resolve()
    if folder not in session.path.resolve().parents:
        why = "nothing outside the client's own folder is written"
        fail(f"{session.path} leads out of {folder}: {why}. Name -o OUT", 2)
    running = list_processes_with_session(session, find_project_folder(session))
    if running:
        listed = ", ".join(running[:3])
        fail(f"{client.title} is running there and may have the session open: end {listed} first, or name -o OUT", 2)
