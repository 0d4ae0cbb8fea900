"""`unabridged hook` on files and events that nobody meant well: no line stops it, and no line is lost."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from hook_case import archive, home
from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Scope
from unabridged.errors import SettingsError
from unabridged.languages import get_labels
from unabridged_cli.clients.hook import background, events
from unabridged_cli.clients.hook.log import log, log_file_path
from unabridged_cli.clients.threads import notes_folder

SESSION = "5b0c4d1e-8f6a-4a53-a3d1-77aa0f6c9e02"
RULE = "Never edit anything under vendor/."
LAST = "Please draw the map now."

__all__ = ["archive", "home"]
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the process that goes on in the background."""
    monkeypatch.setattr(background, "start_process", lambda _: None)


def line(content: str, role: str = "user", more: str = "") -> bytes:
    """A line of Claude Code's with this JSON as its content."""
    return f'{{"type":"{role}","sessionId":"s"{more},"message":{{"role":"{role}","content":{content}}}}}\n'.encode()


def call_with(arguments: str) -> bytes:
    return line(f'[{{"type":"tool_use","id":"a","name":"look","input":{arguments}}}]', "assistant")


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return f'{{"q":{opening * depth}"needle"{closing * depth}}}'


ODD = {
    "lists in lists, 200 deep": call_with(nested(200)),
    "objects in objects, 600 deep": call_with(nested(600, '{"a":', "}")),
    "lists in lists, 985 deep": call_with(nested(985)),
    "lists in lists, 100,000 deep": call_with(nested(100_000)),
    "a lone surrogate": line('"a needle \\ud800 here"'),
    "a NUL": line('"a needle \\u0000 here"'),
    "a NUL byte": line('"a needle \0 here"'),
    "bytes that are no UTF-8": line('"a needle @ here"').replace(b"@", b"\xff\xfe\x80"),
    "not a number": call_with('{"needle": NaN, "b": 1e999}'),
    "a number of 5,000 digits": call_with('{"needle": ' + "9" * 5_000 + "}"),
    "our own tag": call_with('{"$unabridged": "object", "class": "os.system", "of": "needle"}'),
    "half a line": b'{"type":"user","message":{"role":"user","content":"a needle\n',
    "content that is no content": line('{"needle": [1]}'),
    "a type that is a list": b'{"type":["user"],"sessionId":"s","message":{"role":"user","content":"needle"}}\n',
    "a type that is an object": b'{"type":{"needle":1},"payload":{"type":{}}}\n',
    "a mode that is a list": b'{"type":"attachment","sessionId":"s","attachment":{"type":"queued_command",'
    b'"prompt":"a needle","commandMode":["x"]}}\n',
    "an answer that is none": line('[{"type":"tool_result","tool_use_id":["a"],"content":{"needle":1}}]'),
}


def write(home: Path, *lines: bytes) -> Path:
    path = home / "session.jsonl"
    path.write_bytes(line(json.dumps(f"Count the stations. {RULE}")) + b"".join(lines) + line(json.dumps(LAST)))
    return path


def call(path: Path | str, event: str = "PreCompact", **more: Any) -> str:
    given = {"hook_event_name": event, "session_id": SESSION, "transcript_path": str(path), "cwd": "/home/ada", **more}
    said = events.answer_hook_event(json.dumps(given).encode())
    return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""


def scope(session: str = SESSION) -> Scope:
    return Scope("default", f"claude-code:{session}")


@pytest.mark.parametrize("what", ODD)
def test_no_line_stops_the_archive_or_the_context(what: str, home: Path, archive: Archive) -> None:
    path = write(home, ODD[what])
    call(path)
    told = call(path, "SessionStart", source="compact")
    call(path, "PostCompact", compact_summary="1. All user messages:\n - nothing")
    parts = archive.parts(scope())
    assert (RULE in parts[0].text, parts[-1].text) == (True, LAST)
    assert RULE in told
    assert LAST in told
    assert archive.verify() == []


@pytest.mark.parametrize("what", ODD)
def test_no_line_is_lost(what: str, home: Path, archive: Archive) -> None:
    """One that can't be read, or not be written as it is, is archived as text."""
    call(write(home, ODD[what]))
    _, odd, _ = archive.parts(scope())
    assert "needle" in json.dumps(codec.decode(archive.bodies(scope(), [odd.hash])[odd.hash]), ensure_ascii=False)


@pytest.mark.parametrize("what", ["half a line", "bytes that are no UTF-8", "lists in lists, 100,000 deep"])
def test_a_line_that_cannot_be_read_is_nobodys_word(what: str, home: Path, archive: Archive) -> None:
    damaged = ODD[what].replace(b"needle", b"Never again use tabs, needle")
    told = call(write(home, damaged), "SessionStart", source="compact")
    assert "Never again" not in told
    assert [part.origin for part in archive.parts(scope())] == ["person", "host", "person"]


def test_blank_lines_are_no_messages(home: Path, archive: Archive) -> None:
    call(write(home, b"\n", b"  \r\n", b"\0\0\0\n"))
    assert len(archive.parts(scope())) == 2


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_text_of_millions_of_characters_is_archived_whole_and_does_not_silence_the_hook(
    role: str, home: Path, archive: Archive
) -> None:
    long = " ".join(f"word{i}" for i in range(100_000))
    path = write(home, line(json.dumps(f"Look at this. {long} Always call it a tide."), role))
    began = time.process_time()
    told = call(path, "SessionStart", source="compact")
    assert time.process_time() - began < 15
    assert RULE in told
    assert LAST in told
    if role == "user":
        assert "Always call it a tide." in told, "its end is looked at, as its beginning is"
    else:  # the last words of the assistant stand only as what a short message answers
        assert told.count("Always call it a tide.") == told.count(f"{get_labels('en')['reply']} \u201c")
    assert long in archive.parts(scope())[1].text


@pytest.mark.parametrize(
    "session",
    ["../../etc/passwd", "a/compacted", "/root", "a\\b", "a\nb", "a\0b", "\ud800", "x" * 513, "", None, True, ["x"]],
)
def test_a_session_id_that_is_no_name_is_refused(session: Any, home: Path, archive: Archive) -> None:
    path = write(home)
    before = sorted(str(file) for file in home.rglob("*") if "state" not in file.parts)
    for event in ("PreCompact", "SessionStart"):
        with pytest.raises(SettingsError, match="session_id"):
            call(path, event, session_id=session, source="compact")
    assert archive.threads("default") == []
    assert sorted(str(file) for file in home.rglob("*") if "state" not in file.parts) == before


@pytest.mark.parametrize("session", ["..", "~", "x" * 300, "Zürich 7", 7])
def test_a_session_under_any_other_name_is_archived_under_it(session: Any, home: Path, archive: Archive) -> None:
    path = write(home)
    call(path, "SessionStart", session_id=session, source="startup")
    call(path, "PreCompact", session_id=session)
    assert archive.threads("default") == [f"claude-code:{session}"]
    assert {file.parent.name for file in home.rglob("*.json")} == {"open"}, "the note stands in its own folder"


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/mem", "..", "", "a\0b", "~nobody-here/x", "\ud800"])
def test_what_is_no_session_file_is_not_read(path: str) -> None:
    with pytest.raises((ValueError, RuntimeError, OSError), match=r"session file|home directory|I/O|Input"):
        call(path)


@pytest.mark.posix
def test_a_pipe_in_the_place_of_the_session_is_not_waited_for(home: Path) -> None:
    os.mkfifo(home / "session.jsonl")
    with pytest.raises(ValueError, match="session file"):
        call(home / "session.jsonl")


def test_a_file_that_only_claims_to_be_a_session_elsewhere_is_read_and_never_written(home: Path) -> None:
    path = write(home)
    linked = home / "linked.jsonl"
    linked.symlink_to(path)
    before = path.read_bytes()
    assert RULE in call(linked, "SessionStart", source="compact")
    assert path.read_bytes() == before
    assert linked.is_symlink()


def test_where_no_note_can_be_written_the_context_is_told_all_the_same(home: Path) -> None:
    (home / "state").write_text("a file, where a folder is needed")
    assert RULE in call(write(home), "SessionStart", source="compact")


def test_notes_and_log_are_for_their_owner_alone(home: Path) -> None:
    call(write(home), "SessionStart", source="startup")
    environ = {"XDG_STATE_HOME": str(home / "state")}
    (note,) = notes_folder(environ).iterdir()
    log("a line")
    assert {oct(path.stat().st_mode & 0o777) for path in (note, log_file_path(environ))} == {"0o600"}
    assert oct((home / "state" / "unabridged").stat().st_mode & 0o777) == "0o700"


def test_nothing_in_a_line_of_the_log_moves_the_cursor_or_poses_as_another_line(home: Path) -> None:
    log("a\x1b[2Jb\nc\x00d\u202ee\x85f\ud800g")
    text = log_file_path({"XDG_STATE_HOME": str(home / "state")}).read_text()
    assert text.count("\n") == 1
    assert text.strip().isprintable()


@pytest.mark.parametrize(
    "url", ["postgresql://ada:sesame@127.0.0.1:1/x", "nonsense://ada:sesame@host/x?password=sesame"]
)
def test_the_password_of_an_archive_stands_in_no_log(url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", url)
    path = write(home)
    told = call(path, "SessionStart", source="compact")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which the program logs
        call(path)
    log(f"failed: {raised.value}")
    assert RULE in told
    assert "sesame" not in log_file_path({"XDG_STATE_HOME": str(home / "state")}).read_text() + told
