"""Which thread a session is, and which sessions clients have open."""

from __future__ import annotations

import os
import time
from pathlib import Path

from unabridged_cli.clients.threads import (
    OpenSession,
    build_session_thread,
    list_open_sessions,
    note_open_session,
    notes_folder,
)


def opened(session: str, moment: float = 1.0, client: str = "claude-code") -> OpenSession:
    return OpenSession(client, session, "/home/ines/tidepool", f"/home/ines/{session}.jsonl", 4711, moment)


def test_a_thread_is_named_as_the_command_line_names_the_session() -> None:
    assert build_session_thread("codex", "019a") == "codex:019a" == opened("019a", client="codex").thread


def test_what_was_noted_is_read_again_newest_first(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    note_open_session(opened("a", 1.0), environ)
    note_open_session(opened("b", 3.0), environ)
    note_open_session(opened("a", 2.0), environ)
    assert list_open_sessions(environ) == [opened("b", 3.0), opened("a", 2.0)]


def test_notes_are_for_their_owner_alone_and_stay_in_their_folder(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    note_open_session(opened("../../../etc/passwd"), environ)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.parent == notes_folder(environ)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_note_that_cannot_be_read_is_none_and_an_old_one_goes(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    assert list_open_sessions(environ) == []
    note_open_session(opened("old"), environ)
    (old,) = notes_folder(environ).iterdir()
    os.utime(old, (1, 1))
    for name, text in (("a.json", "{"), ("b.json", "[]"), ("c.json", '{"client": "codex"}'), ("d.json", "\x00")):
        (notes_folder(environ) / name).write_text(text)
    assert [note.session for note in list_open_sessions(environ)] == ["old"]
    note_open_session(opened("new", time.time()), environ)
    assert [note.session for note in list_open_sessions(environ)] == ["new"]
