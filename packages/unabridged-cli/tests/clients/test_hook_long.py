"""`unabridged hook` on sessions that are longer than there is time for: told at once, and caught up with afterwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hook_case import archive, home
from patience import PATIENCE
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.languages import get_labels
from unabridged_cli.clients.hook import actions, background, events, ledgers
from unabridged_cli.clients.hook.log import log_file_path
from unabridged_cli.clients.hook.transcript import read_messages_from
from unabridged_cli.clients.threads import build_session_thread

SESSION = "5b0c4d1e-8f6a-4a53-a3d1-77aa0f6c9e02"
FIRST, MIDDLE, LAST = "Never edit anything under vendor/.", "Always write dates as ISO 8601.", "Now draw the map."
SCOPE = Scope("default", build_session_thread("claude-code", SESSION))
Line = dict[str, Any]

__all__ = ["archive", "home"]
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The events of processes that would be started."""
    found: list[Any] = []
    monkeypatch.setattr(background, "start_process", found.append)
    return found


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which there is time for one stretch of the file, and for one block and the newest one."""
    monkeypatch.setattr(actions, "BEFORE_COMPACTION_SECONDS", -1.0)
    monkeypatch.setattr(actions, "AFTER_COMPACTION_SECONDS", -1.0)
    monkeypatch.setattr("unabridged_cli.clients.hook.session_copy._STRETCH_BYTES", 1)
    monkeypatch.setattr("unabridged_cli.clients.hook.reminder._TIME_LIMIT_SECONDS", -1.0)
    monkeypatch.setattr(ledgers, "_BLOCK_MESSAGES", 10)
    monkeypatch.setattr(ledgers, "_NEWEST_BLOCKS_READ", 1)


@pytest.fixture
def much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is never too slow."""
    monkeypatch.setattr(actions, "BEFORE_COMPACTION_SECONDS", 600.0)
    monkeypatch.setattr(actions, "AFTER_COMPACTION_SECONDS", 600.0)
    monkeypatch.setattr("unabridged_cli.clients.hook.reminder._TIME_LIMIT_SECONDS", 600.0)


def line(role: str, content: Any) -> Line:
    return {"type": role, "sessionId": SESSION, "message": {"role": role, "content": content}}


def work(count: int, name: str) -> list[Line]:
    lines = []
    for i in range(count):
        use = [{"type": "tool_use", "id": f"{name}{i}", "name": "Bash", "input": {"command": f"count {i}"}}]
        lines += [line("assistant", f"Number {i} is next."), line("assistant", use)]
        lines += [line("user", [{"type": "tool_result", "tool_use_id": f"{name}{i}", "content": "x" * 500}])]
    return lines


def session() -> list[Line]:
    """A rule at the beginning and one in the middle, much work between them, and a request at the end."""
    lines = [line("user", f"Count the stations. {FIRST}"), *work(15, "a"), line("assistant", "All are counted.")]
    lines += [line("user", f"List them. {MIDDLE}"), *work(15, "b"), line("assistant", "All are listed.")]
    lines += [line("user", "Sort them by tide."), *work(15, "c"), line("assistant", "All are sorted.")]
    return [*lines, line("user", LAST)]


def write(home: Path, lines: list[Line]) -> Path:
    path = home / "session.jsonl"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return path


def event(path: Path, name: str, **more: Any) -> bytes:
    return json.dumps({"hook_event_name": name, "session_id": SESSION, "transcript_path": str(path), **more}).encode()


def call(path: Path, name: str, **more: Any) -> str:
    said = events.answer_hook_event(event(path, name, **more))
    return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""


def reminders(archive: Archive) -> list[Record]:
    return [record for record in archive.records(SCOPE) if record.kind == "reminder"]


@pytest.mark.usefixtures("no_time")
def test_when_time_runs_out_before_a_compaction_a_process_of_its_own_archives_the_rest(
    home: Path, archive: Archive, later: list[Any]
) -> None:
    lines = session()
    path = write(home, lines)
    call(path, "PreCompact")
    assert len(archive.parts(SCOPE)) == 1
    (given,) = later
    assert events.answer_hook_event(json.dumps(given).encode()) == ""
    assert len(archive.parts(SCOPE)) == len(lines)


def test_a_message_that_alone_takes_too_long_is_left_to_that_process_and_stops_nothing(
    home: Path, archive: Archive, later: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unabridged_cli.clients.hook.session_copy._LONG_MESSAGE_BYTES", 5_000)
    lines = [line("user", f"Look at this. {FIRST}"), line("user", "long " * 2_000), line("user", LAST)]
    path = write(home, lines)
    call(path, "PreCompact")
    assert len(archive.parts(SCOPE)) == 1, "what stands before it is there"
    told = call(path, "SessionStart", source="compact")
    assert FIRST in told
    assert LAST in told
    assert len(later) == 2
    events.answer_hook_event(json.dumps(later[0]).encode())
    assert [part.turn for part in archive.parts(SCOPE)] == [0, 1, 2]
    call(path, "PreCompact")
    assert len(later) == 2, "nothing is left"


def test_a_large_image_is_archived_at_once(
    home: Path, archive: Archive, later: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unabridged_cli.clients.hook.session_copy._LONG_MESSAGE_BYTES", 5_000)
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 10_000}
    path = write(home, [line("user", FIRST), line("user", [{"type": "image", "source": source}]), line("user", LAST)])
    call(path, "PreCompact")
    assert len(archive.parts(SCOPE)) == 3
    assert later == []


@pytest.mark.usefixtures("much_time")
def test_of_a_very_long_session_what_people_said_is_looked_at_to_its_beginning(
    home: Path, later: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(home, session())
    whole = call(path, "SessionStart", source="compact")
    monkeypatch.setattr(ledgers, "_TAIL_BYTES", 2_000)
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", "memory:")
    assert call(path, "SessionStart", source="compact") == whole
    assert all(said in whole for said in (FIRST, MIDDLE, LAST))
    assert later == []


@pytest.mark.usefixtures("no_time")
def test_when_there_is_no_time_the_first_and_the_newest_are_told_and_nothing_is_built_on_that(
    home: Path, archive: Archive, later: list[Any]
) -> None:
    path = write(home, session())
    told = call(path, "SessionStart", source="compact")
    assert FIRST in told
    assert LAST in told
    assert MIDDLE not in told
    (record,) = reminders(archive)
    assert "no time" in record.data["receipt"]["notes"][0]
    assert "ledger" not in record.data
    assert [given["hook_event_name"] for given in later] == [events.COPY_REST_EVENT]


@pytest.mark.usefixtures("no_time")
def test_what_there_was_no_time_for_is_told_the_next_time(home: Path, archive: Archive, later: list[Any]) -> None:
    lines = session()
    path = write(home, lines)
    call(path, "SessionStart", source="compact")
    events.answer_hook_event(json.dumps(later.pop()).encode())
    assert len(archive.parts(SCOPE)) == len(lines)
    write(path.parent, [*lines, line("assistant", "It is drawn."), line("user", "And the legend.")])
    told = call(path, "SessionStart", source="compact")
    assert all(said in told for said in (FIRST, MIDDLE, "And the legend."))
    assert archive.verify() == []


@pytest.mark.usefixtures("no_time", "later")
def test_the_process_goes_on_where_the_one_before_it_was_stopped(home: Path, archive: Archive) -> None:
    lines = session()
    path = write(home, lines)
    source = events.find_event_session({"session_id": SESSION, "transcript_path": str(path)})
    reached = [0]
    while reached[-1] < len(lines):
        ledgers.complete_ledger(archive, source, "the rest", time.monotonic() - 1)
        reached.append(reminders(archive)[-1].data["place"]["turn"])
        assert reached[-1] > reached[-2], "a block at a time, and none twice"
    assert len(reached) > 3
    told = call(path, "SessionStart", source="compact")
    assert all(said in told for said in (FIRST, MIDDLE, LAST))


@pytest.mark.parametrize("size", [1, 3, 10, 1_000])
def test_however_the_session_is_cut_into_blocks_the_same_is_told(
    size: int, home: Path, monkeypatch: pytest.MonkeyPatch, later: list[Any]
) -> None:
    monkeypatch.setattr(ledgers, "_BLOCK_MESSAGES", size)
    monkeypatch.setattr(ledgers, "_MAX_BLOCK_LENGTH", 2)
    monkeypatch.setattr(actions, "AFTER_COMPACTION_SECONDS", 600.0)  # however slow the machine
    monkeypatch.setattr("unabridged_cli.clients.hook.reminder._TIME_LIMIT_SECONDS", 600.0)
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", "memory:")
    path = write(home, [*session(), *work(20, "d")])
    told = call(path, "SessionStart", source="compact")
    places = [told.index(said) for said in (FIRST, MIDDLE, "Sort them by tide.", LAST)]
    assert places == sorted(places)
    monkeypatch.setattr(ledgers, "_BLOCK_MESSAGES", 100_000)
    whole = call(path, "SessionStart", source="compact")
    assert _REPLY.sub("", told) == _REPLY.sub("", whole)
    assert later == []


_REPLY = re.compile(rf", {get_labels('en')['reply']} “[^”]*”")


def test_a_short_message_at_the_beginning_of_a_block_keeps_the_words_that_it_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "_BLOCK_MESSAGES", 1)
    told = call(write(home, session()), "SessionStart", source="compact")
    assert "“All are sorted.”: “Now draw the map.”" in told


def test_a_long_stretch_of_work_is_cut_behind_a_tools_answer(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(ledgers, "_BLOCK_MESSAGES", 4)
    monkeypatch.setattr(ledgers, "_MAX_BLOCK_LENGTH", 1)
    path = write(home, [line("user", FIRST), *work(12, "a")])
    source = events.find_event_session({"session_id": SESSION, "transcript_path": str(path)})
    messages = list(enumerate(read_messages_from(path, source.kind, 0)))
    blocks = list(ledgers.split_into_blocks(messages))
    assert len(blocks) > 4
    assert [message for block in blocks for message in block] == messages
    assert all(ledgers.is_tool_result(block[-1][1].message) for block in blocks)


def test_only_one_process_is_at_the_rest_of_a_session(home: Path, archive: Archive) -> None:
    path = write(home, session())
    source = events.find_event_session({"session_id": SESSION, "transcript_path": str(path)})
    with background.lock_session(source.thread) as first:
        assert first
        code = (
            "import sys; from unabridged_cli.clients.hook import events; "
            "events.answer_hook_event(sys.stdin.buffer.read())"
        )
        subprocess.run(
            [sys.executable, "-c", code],
            input=event(path, events.COPY_REST_EVENT),
            env=dict(os.environ),
            check=True,
            timeout=PATIENCE,
        )
        assert archive.parts(SCOPE) == []
    assert "another process" in log_file_path(os.environ).read_text()
    actions.finish_archiving(source, "the rest")
    assert len(archive.parts(SCOPE)) == len(session())
    assert [path.name for path in (home / "state" / "unabridged").iterdir()] == ["hook.log"], "no lock is left"
