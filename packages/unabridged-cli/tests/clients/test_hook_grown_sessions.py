"""Every session is archived, also one that never compacts: at its end, and at the start of the next one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from client_machine import CLIENTS, IDS, Machine, machine
from patience import PATIENCE
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged_cli.clients.hook import background, events, grown_sessions
from unabridged_cli.clients.hook.log import find_unresolved_failures, log_file_path
from unabridged_cli.clients.ignore_file import IGNORE_FILE_NAME
from unabridged_cli.clients.threads import build_session_thread

__all__ = ["machine"]

OTHER = "3f2a6a1c-ffff-4000-8000-00000000000f"
PROGRAM = [
    sys.executable,
    "-c",
    "import sys; sys.argv = ['unabridged', 'hook']; from unabridged.__main__ import main; main()",
]
STARTS = ("startup", "resume", "clear")


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The events of processes that would be started."""
    found: list[Any] = []
    monkeypatch.setattr(background, "start_process", found.append)
    return found


def event(machine: Machine, client: str, path: Path | None, name: str, session: str = "", **more: Any) -> bytes:
    about = {"session_id": session or IDS[client], "cwd": str(machine.project), "client": client}
    file = {"transcript_path": str(path)} if path else {}
    return json.dumps({"hook_event_name": name, **about, **file, **more}).encode()


def count(machine: Machine, client: str, session: str = "") -> int:
    archive = open_archive(machine.archive)
    try:
        return len(archive.parts(Scope("default", build_session_thread(client, session or IDS[client]))))
    finally:
        archive.close()


def work(handed: list[Any]) -> None:
    """Do what the processes would."""
    while handed:
        assert events.answer_hook_event(json.dumps(handed.pop(0)).encode()) == ""


def grow(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, *lines[-3:]]))


@CLIENTS
def test_at_the_end_of_a_session_another_process_archives_it(client: str, machine: Machine, handed: list[Any]) -> None:
    path = machine.put(client)
    assert events.answer_hook_event(event(machine, client, path, "SessionEnd", reason="other")) == ""
    assert not Path(machine.archive.removeprefix("sqlite:///")).exists(), "the hook itself opens no archive"
    assert len(handed) == 1
    work(handed)
    assert count(machine, client) > 3


@CLIENTS
@pytest.mark.parametrize("source", STARTS)
def test_at_a_start_the_sessions_of_the_project_that_grew_are_archived(
    source: str, client: str, machine: Machine, handed: list[Any]
) -> None:
    """Also those whose end nobody was told of; none of another project, and none of another client."""
    path = machine.put(client, OTHER)
    elsewhere = machine.put(client, "3f2a6a1c-aaaa-4000-8000-00000000000a", folder=machine.home / "elsewhere")
    others = [machine.put(other) for other in IDS if other != client]
    new = path.with_name(path.name.replace(OTHER, IDS[client]))  # not written yet
    begun = (new, IDS[client]) if source != "resume" else (path, OTHER)
    events.answer_hook_event(event(machine, client, begun[0], "SessionStart", begun[1], source=source))
    work(handed)
    first = count(machine, client, OTHER)
    assert first > 3
    archive = open_archive(machine.archive)
    assert archive.threads("default") == [build_session_thread(client, OTHER)]
    archive.close()
    assert elsewhere.exists()
    assert all(other.exists() for other in others)
    grow(path)
    events.answer_hook_event(event(machine, client, new, "SessionStart", source="startup"))
    work(handed)
    assert count(machine, client, OTHER) > first


def test_where_nothing_grew_no_archive_is_opened(
    machine: Machine, handed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.put("claude-code")
    events.answer_hook_event(event(machine, "claude-code", path, "SessionEnd"))
    work(handed)
    monkeypatch.setattr(grown_sessions, "use_or_open_archive", lambda: pytest.fail("the archive is opened"))
    events.answer_hook_event(event(machine, "claude-code", path, "SessionStart", source="startup"))
    work(handed)


def test_a_session_that_was_forgotten_does_not_come_back_until_it_goes_on(machine: Machine, handed: list[Any]) -> None:
    path = machine.put("claude-code")
    events.answer_hook_event(event(machine, "claude-code", path, "SessionEnd"))
    work(handed)
    archive = open_archive(machine.archive)
    archive.forget(Scope("default", build_session_thread("claude-code", IDS["claude-code"])))
    archive.close()
    events.answer_hook_event(event(machine, "claude-code", None, "SessionStart", OTHER, source="startup"))
    work(handed)
    assert count(machine, "claude-code") == 0
    grow(path)
    events.answer_hook_event(event(machine, "claude-code", path, "SessionEnd"))
    work(handed)
    assert count(machine, "claude-code") > 3


@CLIENTS
@pytest.mark.parametrize("where", ["project", "above"])
@pytest.mark.parametrize("name", ["SessionStart", "SessionEnd", "PreCompact", events.ARCHIVE_GROWN_EVENT])
def test_a_project_that_is_left_out_is_not_archived(
    name: str, where: str, client: str, machine: Machine, handed: list[Any]
) -> None:
    path = machine.put(client)
    ((machine.project if where == "project" else machine.home) / IGNORE_FILE_NAME).touch()
    events.answer_hook_event(event(machine, client, path, name, source="startup", reason="x"))
    assert handed == []
    assert not Path(machine.archive.removeprefix("sqlite:///")).exists()
    assert IGNORE_FILE_NAME in log_file_path(os.environ).read_text()
    assert find_unresolved_failures(os.environ) == []


def test_a_session_that_can_not_be_archived_is_logged_and_tried_again(
    machine: Machine, handed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.put("claude-code")
    broken = machine.home / "broken.db"
    broken.write_text("this is no database\n" * 100)
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", f"sqlite:///{broken}")
    events.answer_hook_event(event(machine, "claude-code", path, "SessionEnd"))
    work(handed)
    (failure,) = find_unresolved_failures(os.environ)
    assert failure.thread == build_session_thread("claude-code", IDS["claude-code"])
    assert "database" in failure.reason
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", machine.archive)
    events.answer_hook_event(event(machine, "claude-code", None, "SessionStart", OTHER, source="startup"))
    work(handed)
    assert count(machine, "claude-code") > 3
    assert find_unresolved_failures(os.environ) == []


# -- the processes themselves ------------------------------------------------------------------------------------------


def wait_for(done: Any) -> None:
    """Wait until something is done by a process that nobody can wait for."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, log_file_path(os.environ).read_text()
        time.sleep(0.1)


def has_all(machine: Machine) -> bool:
    return Path(machine.archive.removeprefix("sqlite:///")).exists() and "messages archived" in _log()


def _log() -> str:
    path = log_file_path(os.environ)
    return path.read_text() if path.exists() else ""


@pytest.mark.posix
@CLIENTS
def test_the_process_outlives_a_client_that_kills_the_hook_and_all_that_it_started(
    client: str, machine: Machine
) -> None:
    """Claude Code ends a hook after 1.5 s whatever its timeout says: its whole group of processes."""
    path = machine.put(client)
    with subprocess.Popen(
        PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as hook:
        assert hook.stdin is not None
        hook.stdin.write(event(machine, client, path, "SessionEnd"))
        hook.stdin.close()
        wait_for(lambda: "is done by process" in _log())
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(hook.pid, signal.SIGKILL)
        hook.wait()
    wait_for(lambda: has_all(machine))
    wait_for(lambda: list((machine.home / "state" / "unabridged" / "archived").glob("*.json")))
    assert count(machine, client) > 3


@pytest.fixture
def worker(machine: Machine) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that do the work, which end with the test."""
    del machine
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_only_one_process_is_at_the_sessions_of_a_project_and_one_waits(
    machine: Machine, handed: list[Any], worker: list[subprocess.Popen[bytes]]
) -> None:
    path = machine.put("claude-code")
    events.answer_hook_event(event(machine, "claude-code", path, "SessionEnd"))
    given = json.dumps(handed.pop()).encode()
    sizes = grown_sessions.sizes_file_path("claude-code", str(machine.project))

    def start() -> subprocess.Popen[bytes]:
        code = "from unabridged_cli.clients.hook import main; main(1500)"
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.close()
        worker.append(process)
        return process

    with background.wait_for_turn(sizes) as mine:
        assert mine
        waiting = start()
        wait_for(lambda: _is_held(sizes.with_suffix(".next")))
        assert start().wait() == 0, "a third one is not needed"
        assert waiting.poll() is None
        assert not Path(machine.archive.removeprefix("sqlite:///")).exists()
        grow(path)  # what is new until its turn comes is archived, too
    assert waiting.wait() == 0
    archived = count(machine, "claude-code")
    events.answer_hook_event(event(machine, "claude-code", path, "PreCompact"))
    assert count(machine, "claude-code") == archived > 3


def _is_held(path: Path) -> bool:
    if not path.exists():
        return False
    with background.lock_file(path) as free:
        return not free
