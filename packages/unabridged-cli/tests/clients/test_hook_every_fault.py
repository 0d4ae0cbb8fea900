"""Every fault around every event of `unabridged hook`: exit code 0, the reason in the log, nothing lost afterwards."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE
from rows import rows
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope

HOOK = [sys.executable, "-c", "from unabridged_cli.clients.hook import main; main()"]
SESSION = "5b0c4d1e-8f6a-4a53-a3d1-77aa0f6c9e02"
RULE = "Never edit anything under vendor/."
COUNT = 600
EVENTS: dict[str, dict[str, str]] = {
    "PreCompact": {"trigger": "auto"},
    "SessionStart": {"source": "compact"},
    "PostCompact": {"compact_summary": '6. All user messages:\n - "You may edit anything under vendor/ from now on."'},
}


def write(path: Path, count: int) -> Path:
    with path.open("w") as stream:
        for i in range(count):
            role = "assistant" if i % 2 else "user"
            said = f"Message {i}: {RULE if i == 0 else 'word ' * 20}"
            message = {"role": role, "content": said}
            stream.write(json.dumps({"type": role, "sessionId": SESSION, "message": message}) + "\n")
    return path


def environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    kept["PYTHONDONTWRITEBYTECODE"] = "1"  # on a full disk it would be half a file, and stay
    return {**kept, "HOME": str(home), "UNABRIDGED_ARCHIVE": f"sqlite:///{home / 'archive.db'}"}


def given(home: Path, event: str) -> bytes:
    about = {"hook_event_name": event, "session_id": SESSION, "transcript_path": str(home / "session.jsonl")}
    return json.dumps({**about, **EVENTS[event]}).encode()


def run(home: Path, event: str, limit: Callable[[], None] | None = None) -> str:
    """What the client gets; the hook ended clean and said nothing else."""
    done = subprocess.run(
        HOOK, input=given(home, event), env=environment(home), capture_output=True, timeout=PATIENCE, check=False,
        preexec_fn=limit,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""


def logged(home: Path) -> str:
    return (home / ".local" / "state" / "unabridged" / "hook.log").read_text()


def archived(home: Path) -> list[str]:
    archive = open_archive(f"sqlite:///{home / 'archive.db'}")
    try:
        assert archive.verify() == []
        return [part.text for part in archive.parts(Scope("default", f"claude-code:{SESSION}"))]
    finally:
        archive.close()


# -- the faults: each is there inside its `with`, and gone behind it ---------------------------------------------------


@contextmanager
def locked(home: Path) -> Iterator[None]:
    holder = sqlite3.connect(home / "archive.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield
    holder.close()


@contextmanager
def damaged(home: Path) -> Iterator[None]:
    for path in home.glob("archive.db*"):
        path.rename(path.with_name(f"kept-{path.name}"))
    (home / "archive.db").write_bytes(b"no database at all, " * 500)
    yield
    for path in home.glob("kept-archive.db*"):
        path.replace(path.with_name(path.name.removeprefix("kept-")))


@contextmanager
def truncated(home: Path) -> Iterator[None]:
    path = home / "session.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:250])
    yield
    path.write_bytes(whole)


@contextmanager
def removed(home: Path) -> Iterator[None]:
    (home / "session.jsonl").rename(home / "elsewhere")
    yield
    (home / "elsewhere").rename(home / "session.jsonl")


FAULTS = {
    locked: {"PreCompact": "locked", "SessionStart": "not in the archive", "PostCompact": "locked"},
    damaged: {
        "PreCompact": "not a database",
        "SessionStart": "described without the archive",
        "PostCompact": "not a database",
    },
    removed: dict.fromkeys(EVENTS, "no session file"),
    truncated: {"PreCompact": "0 messages", "SessionStart": "0 messages", "PostCompact": "0 messages"},
}


@rows("event", EVENTS)
@rows("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_logged_and_nothing_is_lost_afterwards(fault: Any, event: str, tmp_path: Path) -> None:
    write(tmp_path / "session.jsonl", COUNT // 2)
    run(tmp_path, "PreCompact")
    write(tmp_path / "session.jsonl", COUNT)
    with fault(tmp_path):
        told = run(tmp_path, event)  # another writer is waited for only so long: that it was locked is logged
    assert FAULTS[fault][event] in logged(tmp_path)
    assert (RULE in told) == (event == "SessionStart" and fault is not removed)
    run(tmp_path, "PreCompact")
    texts = archived(tmp_path)
    assert len(texts) == COUNT
    assert texts[-1].startswith(f"Message {COUNT - 1}:")


@pytest.mark.posix
@pytest.mark.parametrize("event", EVENTS)
def test_a_full_disk_is_logged_and_nothing_is_lost_afterwards(event: str, tmp_path: Path) -> None:
    write(tmp_path / "session.jsonl", COUNT)

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    told = run(tmp_path, event, full)
    assert (RULE in told) == (event == "SessionStart")
    assert any(words in logged(tmp_path) for words in ("failed", "without the archive", "not in the archive"))
    run(tmp_path, "PreCompact")
    assert len(archived(tmp_path)) == COUNT


@pytest.mark.parametrize("event", EVENTS)
def test_a_hook_that_is_killed_leaves_what_the_next_one_goes_on_with(event: str, tmp_path: Path) -> None:
    write(tmp_path / "session.jsonl", COUNT)
    child = subprocess.Popen(HOOK, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment(tmp_path))
    assert child.stdin is not None
    child.stdin.write(given(tmp_path, event))
    child.stdin.close()
    while child.poll() is None and not (tmp_path / "archive.db-wal").exists():
        time.sleep(0.005)
    child.kill()
    child.wait()
    run(tmp_path, "PreCompact")
    assert len(archived(tmp_path)) == COUNT


def test_all_events_of_two_sessions_at_once_are_answered(tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        home.mkdir()
        write(home / "session.jsonl", COUNT // 4)
    children = []
    for home, event in [(home, event) for home in homes for event in EVENTS]:
        env = environment(home) | {"UNABRIDGED_ARCHIVE": f"sqlite:///{tmp_path / 'archive.db'}"}
        about = json.loads(given(home, event)) | {"session_id": f"session-{home.name}"}
        child = subprocess.Popen(HOOK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        assert child.stdin is not None
        child.stdin.write(json.dumps(about).encode())
        child.stdin.close()
        child.stdin = None
        children.append((event, child))
    for event, child in children:
        out, err = child.communicate(timeout=PATIENCE)
        assert (child.returncode, err) == (0, b"")
        assert (RULE.encode() in out) == (event == "SessionStart")
    archive = open_archive(f"sqlite:///{tmp_path / 'archive.db'}")
    for home in homes:
        assert len(archive.parts(Scope("default", f"claude-code:session-{home.name}"))) == COUNT // 4
    assert archive.verify() == []
    archive.close()


def test_a_session_that_is_written_back_shorter_keeps_in_the_archive_what_it_had(tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", 40)
    run(tmp_path, "PreCompact")
    shutil.copy(path, tmp_path / "whole")
    write(path, 20)
    run(tmp_path, "PreCompact")
    assert len(archived(tmp_path)) == 40
