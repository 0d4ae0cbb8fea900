"""`unabridged hook` as a program: whatever happens to it, the client goes on; and it does not wait long."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE
from rows import rows
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unreleased_archives import REFUSAL, REMEDY, files_in, make_sqlite

HOOK = [
    sys.executable,
    "-c",
    "import sys; sys.argv = ['unabridged', 'hook']; from unabridged.__main__ import main; main()",
]
SESSION = "5b0c4d1e-8f6a-4a53-a3d1-77aa0f6c9e02"


def environment(home: Path, **more: str) -> dict[str, str]:
    archive = f"sqlite:///{home / 'archive.db'}"
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "UNABRIDGED_ARCHIVE": archive, **more}


def transcript(home: Path, count: int = 4, session: str = SESSION) -> Path:
    path = home / f"{session}.jsonl"
    with path.open("w") as stream:
        for i in range(count):
            role = "assistant" if i % 2 else "user"
            message = {"role": role, "content": f"Message {i} of {session}: always keep it."}
            stream.write(json.dumps({"type": role, "sessionId": session, "message": message}) + "\n")
    return path


def event(path: Path, name: str = "PreCompact", session: str = SESSION, **more: Any) -> bytes:
    return json.dumps({"hook_event_name": name, "session_id": session, "transcript_path": str(path), **more}).encode()


def run(home: Path, given: bytes, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        HOOK,
        input=given,
        env=environment(home, **more.pop("env", {})),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        **more,
    )


def logged(home: Path) -> str:
    path = home / ".local" / "state" / "unabridged" / "hook.log"
    return path.read_text() if path.exists() else ""


def archived(home: Path, session: str = SESSION) -> int:
    archive = open_archive(f"sqlite:///{home / 'archive.db'}")
    try:
        assert archive.verify() == []
        return len(archive.parts(Scope("default", f"claude-code:{session}")))
    finally:
        archive.close()


def passed(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether the client is told of nothing at all."""
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@rows(
    "given",
    [b"", b"{", b"[]", b"null", b"\xff", b"{}", b'{"hook_event_name": "PreCompact"}', b'{"hook_event_name": "Stop"}',
     b'{"hook_event_name": "PreCompact", "session_id": "x", "transcript_path": "/nowhere/at/all.jsonl"}',
     b'{"hook_event_name": "SessionStart", "source": "compact", "session_id": 7, "transcript_path": null}'],
)  # fmt: skip
def test_an_event_that_makes_no_sense_is_logged_and_nothing_else(given: bytes, tmp_path: Path) -> None:
    assert passed(run(tmp_path, given))
    assert logged(tmp_path)


def test_a_transcript_that_was_truncated_is_archived_from_where_it_agrees(tmp_path: Path) -> None:
    path = transcript(tmp_path, count=10)
    assert passed(run(tmp_path, event(path)))
    path.write_bytes(path.read_bytes()[:-300])
    assert passed(run(tmp_path, event(path)))
    assert passed(run(tmp_path, event(transcript(tmp_path, count=12))))
    assert archived(tmp_path) == 12


def limited(seconds: float, before: str = "pass") -> list[str]:
    return [sys.executable, "-c", f"{before}; from unabridged_cli.clients.hook import main; main({seconds})"]


def test_an_event_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen(limited(0.2), stdin=subprocess.PIPE, env=environment(tmp_path)) as child:
        assert child.wait(timeout=PATIENCE) == 0
    assert "given up" in logged(tmp_path)


@pytest.mark.posix
def test_what_holds_the_whole_interpreter_is_ended_by_the_system(tmp_path: Path) -> None:
    held = (
        "import re; from unabridged_cli.clients.hook import events; "
        "events.answer_hook_event = lambda _: re.match('(a+)+$', 'a' * 99 + 'b')"
    )
    child = subprocess.Popen(limited(0.2, held), stdin=subprocess.DEVNULL, env=environment(tmp_path))
    assert child.wait(timeout=PATIENCE) == -signal.SIGALRM


def test_nobody_who_reads_the_answer_is_no_error(tmp_path: Path) -> None:
    given = event(transcript(tmp_path), "SessionStart", source="compact")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(HOOK, input=given, env=environment(tmp_path), stdout=writer, timeout=PATIENCE, check=False)
    os.close(writer)
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["PreCompact", "SessionStart"])
def test_an_archive_of_before_the_first_release_is_refused_and_the_log_says_the_remedy(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    make_sqlite(tmp_path / "old" / "a.db")
    before = files_in(tmp_path / "old")
    url = f"sqlite:///{tmp_path / 'old' / 'a.db'}"
    done = run(tmp_path, event(transcript(tmp_path), name, source="compact"), env={"UNABRIDGED_ARCHIVE": url})
    assert (done.returncode, done.stderr) == (0, b"")
    (line,) = [line for line in logged(tmp_path).splitlines() if "failed: " in line]
    assert f"claude-code:{SESSION}" in line
    assert f"{tmp_path / 'old' / 'a.db'} {REFUSAL}" in line
    assert line.endswith(REMEDY)
    assert files_in(tmp_path / "old") == before


def test_what_the_hook_writes_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = transcript(tmp_path)
    run(tmp_path, event(path, "SessionStart", source="compact"))
    written = [file for file in tmp_path.rglob("*") if file.is_file() and file != path]
    assert {file.name for file in written} >= {"archive.db", "hook.log"}
    assert {oct(file.stat().st_mode & 0o777) for file in written} == {"0o600"}
    assert "always keep it" not in logged(tmp_path), "nothing of a conversation is in the log"


def test_the_folder_that_the_client_works_in_is_not_loaded_from(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("json", "sqlite3", "unabridged", "platformdirs"):
        (project / f"{name}.py").write_text("raise SystemExit('loaded from the project')")
    script = "import sys; sys.path = [entry for entry in sys.path if entry]; " + HOOK[2].removeprefix("import sys; ")
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], input=event(transcript(tmp_path)), env=environment(tmp_path),
        cwd=project, capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert passed(done)
    assert archived(tmp_path) == 4


@pytest.mark.posix
def test_a_person_who_types_the_command_is_told_who_calls_it(tmp_path: Path) -> None:
    leader, follower = os.openpty()
    done = subprocess.run(
        HOOK, stdin=follower, env=environment(tmp_path), capture_output=True, timeout=PATIENCE, check=False
    )
    os.close(leader)
    os.close(follower)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"unabridged install" in done.stderr


def test_a_closed_standard_input_is_logged_and_stops_no_client(tmp_path: Path) -> None:
    shell = ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *HOOK]
    assert passed(subprocess.run(shell, env=environment(tmp_path), capture_output=True, timeout=PATIENCE, check=False))
    assert "standard input is closed" in logged(tmp_path)


def test_the_hook_needs_no_command_line_and_no_compactor(tmp_path: Path) -> None:
    code = HOOK[2].replace("main()", "") + (
        "import atexit, os; from unabridged_cli.clients import hook; hook._exit_immediately = lambda: None; main(); "
        "print(sorted(name for name in sys.modules if name in "
        "{'typer', 'rich', 'click', 'unabridged.compactor', 'unabridged_cli.app', 'unabridged.sessions', 'asyncio'}))"
    )
    code = code.replace("import main; ", "import main; ", 1)
    done = subprocess.run(
        [sys.executable, "-c", code], input=event(transcript(tmp_path)), env=environment(tmp_path),
        capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == b"[]", done.stderr


@pytest.mark.posix
@pytest.mark.parametrize(("name", "more"), [("PreCompact", {}), ("SessionStart", {"source": "compact"})])
def test_the_hook_takes_at_most_twenty_four_times_the_processor_time_of_an_empty_program(
    name: str, more: dict[str, str], tmp_path: Path
) -> None:
    """Sixteen times on a quiet machine, nineteen on a loaded one: a ratio holds on slow and fast machines alike."""
    given = event(transcript(tmp_path), name, **more)
    run(tmp_path, given)  # compiled, and the archive made

    def took(command: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command, input=given, env=environment(tmp_path), capture_output=True, check=True, timeout=PATIENCE
        )
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        return now.ru_utime - before.ru_utime + now.ru_stime - before.ru_stime

    both = [(took(HOOK), took([sys.executable, "-c", "pass"])) for _ in range(5)]
    hook, bare = map(min, zip(*both, strict=True))
    assert hook < 24 * bare
