"""The sessions of coding agents on the command line: listed, compacted, taken back, searched."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli_case import Ran, run
from client_machine import IDS, Machine, machine
from unabridged.clients.running import is_client
from unabridged.sessions import load, write_whole

__all__ = ["machine"]

CLIENTS = pytest.mark.parametrize("client", ["claude-code", "codex", "pi"])
NOW = ("--now", "--keep", "messages=2")


@contextmanager
def running(program: str, folder: Path) -> Iterator[int]:
    """A process that calls itself so, in this folder."""
    arguments = [program, "-c", "print(flush=True); input()"]
    with subprocess.Popen(
        arguments, executable=sys.executable, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.communicate(b"\n", timeout=20)


def compacted(client: str) -> Ran:
    done = run("compact", f"{client}:{IDS[client][:4]}", "--write", "--json", *NOW)
    assert done.code == 0, done.err
    assert done.json["changed"]
    return done


def test_sessions_lists_every_client_with_size_compactions_and_archive(machine: Machine) -> None:
    paths = [machine.put(client) for client in IDS]
    machine.put("claude-code", "3f2a6a1c-ffff-4000-8000-00000000000f", file="claude_code_compacted.jsonl")
    compacted("pi")
    found = {session["id"]: session for session in run("sessions", "--json").json["sessions"]}
    assert {session["path"] for session in found.values()} > {str(path) for path in paths}
    assert [found[IDS[client]]["compactions"] for client in IDS] == [0, 0, 1]
    assert found["3f2a6a1c-ffff-4000-8000-00000000000f"]["compactions"] == 1
    assert [found[IDS[client]]["in_archive"] for client in IDS] == [False, False, True]
    assert {session["project"] for session in found.values()} == {str(machine.project)}
    assert all(session["size"] == Path(session["path"]).stat().st_size for session in found.values())
    shown = run("sessions").out
    assert "claude-code:3f2a6a1c-0" in shown, "a beginning that no other one has"
    assert "pi:72ab8af5 " in shown


def test_sessions_of_one_client_or_one_folder(machine: Machine) -> None:
    for client in IDS:
        machine.put(client)
    machine.put("codex", "019a2b3c-1111-7000-8000-000000000002", folder=machine.project / "below")
    machine.put("codex", "019a2b3c-2222-7000-8000-000000000002", folder=machine.home / "elsewhere")
    assert len(run("sessions", "codex", "--json").json["sessions"]) == 3
    assert len(run("sessions", "--project", machine.project, "--json").json["sessions"]) == 4
    assert "choose one of claude-code" in run("sessions", "cursor").line


def test_a_machine_without_sessions_and_files_that_are_none(machine: Machine) -> None:
    assert run("sessions").out.strip() == "There are no sessions."
    for data in (b"", b"\x00\xff", b"[]\n", b'{"type": "compacted", "cwd": 7, "payload": []}\n' * 2, b"[" * 100_000):
        machine.put("claude-code").write_bytes(data)
        assert run("sessions", "--json").json["sessions"][0]["compactions"] == 0


def test_sessions_of_opencode_are_only_listed(machine: Machine) -> None:
    path = machine.home / "data/opencode/storage/session/p/ses_1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"id": "ses_1", "directory": str(machine.project)}))
    (session,) = run("sessions", "opencode", "--json").json["sessions"]
    assert (session["project"], session["compactions"]) == (str(machine.project), None)
    assert "can be listed" in run("compact", "opencode:ses_1").line


@CLIENTS
def test_compacted_in_place_every_line_that_was_there_is_there(machine: Machine, client: str) -> None:
    path = machine.put(client)
    before = path.read_bytes()
    done = compacted(client)
    assert path.read_bytes().startswith(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert done.json["thread"] == f"{client}:{IDS[client]}/compacted"
    assert len(load(path).messages) == done.json["messages_after"]
    assert [other for other in path.parent.iterdir() if other != path] == []


@CLIENTS
@pytest.mark.parametrize("command", ["undo", "replay"])
def test_taken_back_in_place_the_file_is_the_very_file(machine: Machine, client: str, command: str) -> None:
    path = machine.put(client)
    before = path.read_bytes()
    compacted(client)
    short = path.read_bytes()
    done = run(command, f"{client}:{IDS[client][:6]}", "--write")
    assert done.code == 0, done.err
    assert path.read_bytes() == before
    (kept,) = [other for other in path.parent.iterdir() if other != path]
    assert kept.read_bytes() == short
    assert kept.suffix != ".jsonl", "no client lists it"
    assert kept.name in done.line
    assert path.stat().st_mode & 0o777 == kept.stat().st_mode & 0o777 == 0o600


def test_an_undone_compaction_is_retired_in_the_archive(machine: Machine) -> None:
    machine.put("claude-code")
    compacted("claude-code")
    assert run("show", "claude-code:3f2a", "--json").json["compactions"]
    run("undo", "claude-code:3f2a", "--write")
    assert run("show", "claude-code:3f2a", "--json").json["compactions"] == []


@pytest.mark.parametrize("file", ["claude_code_compacted.jsonl", "claude_code_preserved.jsonl"])
def test_a_compaction_of_the_clients_own_is_undone_without_any_archive(machine: Machine, file: str) -> None:
    path = machine.put("claude-code", file=file)
    old = path.read_bytes().splitlines()
    done = run("undo", "claude-code:3", "--write", "--json")
    assert done.code == 0, done.err
    assert done.json["messages_after"] > done.json["messages_before"]
    new = path.read_bytes().splitlines()
    assert b"compact_boundary" not in path.read_bytes()
    assert len([line for line in new if line not in old]) <= 1
    assert run("undo", "claude-code:3", "--write").code == 2, "there is no other"


@CLIENTS
def test_nothing_is_written_while_the_client_runs_there(machine: Machine, client: str) -> None:
    path = machine.put(client)
    before = path.read_bytes()
    program = {"claude-code": "claude", "codex": "/opt/bin/codex", "pi": "pi"}[client]
    with running(program, machine.project) as pid:
        for command in (["compact", *NOW], ["undo"], ["replay"]):
            done = run(command[0], f"{client}:{IDS[client]}", "--write", *command[1:])
            assert done.code == 2
            assert f"process {pid}" in done.line
        out = machine.home / "copy.jsonl"
        assert run("compact", f"{client}:{IDS[client]}", "-o", out, *NOW).code == 0
    assert path.read_bytes() == before
    with running(program, machine.home):
        compacted(client)


def test_a_client_is_told_by_its_program_or_its_script() -> None:
    assert is_client("claude-code", ["/home/ada/.local/bin/claude", "--resume"])
    assert is_client("claude-code", ["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"])
    assert is_client("pi", ["node", "/usr/lib/node_modules/@earendil-works/pi-coding-agent/dist/cli.js"])
    assert not is_client("claude-code", ["vim", "notes.md", "claude"])
    assert not is_client("codex", [])


def test_a_session_that_leads_out_of_the_clients_folder_is_not_written(machine: Machine) -> None:
    path = machine.put("claude-code")
    elsewhere = machine.home / "elsewhere.jsonl"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    done = run("compact", "claude-code:3f2a", "--write", *NOW)
    assert (done.code, elsewhere.read_bytes()) == (2, before)
    assert "leads out" in done.line


def test_a_name_that_fits_several_or_none_is_said(machine: Machine) -> None:
    machine.put("codex")
    machine.put("codex", "019a2b3c-1111-7000-8000-000000000002")
    several = run("undo", "codex:019a", "--write").line
    assert "codex:019a2b3c-0" in several
    assert "codex:019a2b3c-1" in several
    assert "begins with 'ffff'" in run("undo", "codex:ffff", "--write").line
    assert "no such file" in run("compact", "cursor:1").line, "not a client: a file"


def test_where_a_result_goes_has_to_be_said(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine.put("pi")
    assert "--write" in run("undo", "pi:72").line
    assert "-o OUT" in run("undo", path).line
    assert "client:ID" in run("undo", path, "--write").line
    assert "not both" in run("undo", "pi:72", "--write", "-o", tmp_path / "x").line
    monkeypatch.delenv("UNABRIDGED_ARCHIVE")
    assert "--write" in run("compact", "pi:72", *NOW).line


def test_a_session_that_changes_while_it_is_compacted_is_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = machine.put("codex"), write_whole
    before = path.read_bytes()

    def meanwhile(*arguments: Any, **options: Any) -> None:
        with path.open("ab") as stream:
            stream.write(b'{"type":"event_msg","payload":{}}\n')
        real(*arguments, **options)

    monkeypatch.setattr("unabridged.cli.targets.write_whole", meanwhile)
    done = run("compact", "codex:019a", "--write", *NOW)
    assert done.code == 2
    assert "changed while" in done.line
    assert path.read_bytes() == before + b'{"type":"event_msg","payload":{}}\n'
    assert [other for other in path.parent.iterdir() if other != path] == []


def test_search_and_show_take_the_beginning_of_a_sessions_name(machine: Machine) -> None:
    for client in IDS:
        machine.put(client)
        compacted(client)
    found = run("search", "clock.py", "--thread", "claude-code:3", "--json").json["results"]
    assert {hit["thread"] for hit in found} == {f"claude-code:{IDS['claude-code']}/compacted"}
    assert run("show", "codex:019", "--json").json["compactions"]
    assert "no thread" in run("show", "codex:ff").line
