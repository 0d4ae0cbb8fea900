"""Sessions of coding agents written back in their place: compacted and taken back, while their client is closed."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_case import run
from client_machine import CLIENTS, IDS, NOW, Machine, compacted, machine, running
from unabridged.archive import open_archive
from unabridged.sessions import load, write_file_atomically
from unabridged_cli.clients.client_processes import is_client_process

__all__ = ["machine"]

CUT_OFF = b'{"type":"user","mess'


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
    path.chmod(0o644)
    done = run(command, f"{client}:{IDS[client][:6]}", "--write")
    assert done.code == 0, done.err
    assert path.read_bytes() == before
    (kept,) = [other for other in path.parent.iterdir() if other != path]
    assert kept.read_bytes() == short
    assert kept.suffix != ".jsonl", "no client lists it"
    assert kept.name in done.line
    assert (path.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o644, 0o600)


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


def test_a_client_is_told_to_run_there_by_any_name_of_the_folder(machine: Machine) -> None:
    link = machine.home / "link"
    link.symlink_to(machine.project)
    machine.put("claude-code", folder=link)
    with running("claude", machine.project):
        assert run("compact", "claude-code:3f2a", "--write", *NOW).code == 2


def test_a_client_is_told_by_its_program_or_its_script() -> None:
    assert is_client_process("claude-code", ["/home/ada/.local/bin/claude", "--resume"])
    assert is_client_process("claude-code", ["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"])
    assert is_client_process("pi", ["node", "/usr/lib/node_modules/@earendil-works/pi-coding-agent/dist/cli.js"])
    assert is_client_process(
        "claude-code", ["node", "--max-old-space-size=8192", "/opt/@anthropic-ai/claude-code/cli.js"]
    )
    assert not is_client_process("claude-code", ["vim", "notes.md", "claude"])
    assert not is_client_process("codex", [])


def test_a_session_that_leads_out_of_the_clients_folder_is_not_written(machine: Machine) -> None:
    path = machine.put("claude-code")
    elsewhere = machine.home / "elsewhere.jsonl"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    done = run("compact", "claude-code:3f2a", "--write", *NOW)
    assert (done.code, elsewhere.read_bytes()) == (2, before)
    assert "leads out" in done.line


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
    path, real = machine.put("codex"), write_file_atomically
    before = path.read_bytes()

    def meanwhile(*arguments: Any, **options: Any) -> None:
        with path.open("ab") as stream:
            stream.write(b'{"type":"event_msg","payload":{}}\n')
        real(*arguments, **options)

    monkeypatch.setattr("unabridged_cli.clients.write_back.write_file_atomically", meanwhile)
    done = run("compact", "codex:019a", "--write", *NOW)
    assert done.code == 2
    assert "changed while" in done.line
    assert path.read_bytes() == before + b'{"type":"event_msg","payload":{}}\n'
    assert [other for other in path.parent.iterdir() if other != path] == []


def test_a_session_behind_a_link_in_the_clients_folder_is_written_where_it_is(machine: Machine) -> None:
    link = machine.put("claude-code")
    path = machine.home / ".claude" / "elsewhere.jsonl"
    link.rename(path)
    link.symlink_to(path)
    before = path.read_bytes()
    compacted("claude-code")
    short = path.read_bytes()
    assert link.is_symlink()
    assert short.startswith(before)
    assert run("undo", "claude-code:3f2a", "--write").code == 0
    assert path.read_bytes() == before
    (kept,) = path.parent.glob("*.before")
    assert kept.read_bytes() == short


@pytest.mark.parametrize("command", [("undo",), ("replay",), ("compact", *NOW)])
def test_what_a_client_writes_in_the_last_moment_is_not_lost(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    path = machine.put("codex", file=f"codex{'' if command[0] == 'compact' else '_compacted'}.jsonl")
    before, real, late = path.read_bytes(), Path.replace, b'{"type":"event_msg","payload":{}}\n'

    def meanwhile(self: Path, target: Path) -> Path:
        if self.suffix == ".part":
            with path.open("ab") as stream:
                stream.write(late)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    done = run(command[0], "codex:019a", "--write", *command[1:])
    assert done.code == 2
    assert f"{path.name} changed while" in done.line
    assert path.read_bytes() == before + late
    assert [other for other in path.parent.iterdir() if other != path] == []


@pytest.mark.parametrize("command", [("undo",), ("replay",), ("compact", *NOW)])
def test_on_a_disk_that_is_read_only_nothing_is_written_and_one_line_says_so(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    path = machine.put("pi", file=f"pi{'' if command[0] == 'compact' else '_compacted'}.jsonl")
    before = path.read_bytes()
    open_archive(machine.archive, probe=True).close()  # it is on another disk

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("os.link", "tempfile.mkstemp", "shutil.copy2"):
        monkeypatch.setattr(name, refuse)
    done = run(command[0], "pi:72", "--write", *command[1:])
    assert done.code == 2
    assert "read-only file system" in done.line
    assert path.read_bytes() == before
    assert [other for other in path.parent.iterdir() if other != path] == []


@CLIENTS
def test_where_files_can_not_have_two_names_the_session_is_copied(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    path = machine.put(client)
    before = path.read_bytes()

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    compacted(client)
    short = path.read_bytes()
    assert [other for other in path.parent.iterdir() if other != path] == []
    assert run("undo", f"{client}:{IDS[client]}", "--write").code == 0
    (kept,) = path.parent.glob("*.before")
    assert (path.read_bytes(), kept.read_bytes()) == (before, short)


@CLIENTS
def test_a_last_line_that_is_cut_off_is_kept_beside_the_session(machine: Machine, client: str) -> None:
    path = machine.put(client)
    whole = path.read_bytes()
    path.write_bytes(whole + CUT_OFF)
    compacted(client)
    (kept,) = path.parent.glob("*.before")
    assert kept.read_bytes() == whole + CUT_OFF
    assert path.read_bytes().startswith(whole)


@CLIENTS
@pytest.mark.parametrize("command", ["undo", "replay"])
def test_a_last_line_that_is_cut_off_is_not_written_again(machine: Machine, client: str, command: str) -> None:
    path, out = machine.put(client), machine.home / "copy.jsonl"
    before = path.read_bytes()
    compacted(client)
    short = path.read_bytes() + CUT_OFF
    path.write_bytes(short)
    assert run(command, f"{client}:{IDS[client]}", "-o", out).code == 0
    assert run(command, f"{client}:{IDS[client]}", "--write").code == 0
    assert path.read_bytes() == out.read_bytes() == before
    (kept,) = path.parent.glob("*.before")
    assert kept.read_bytes() == short


@CLIENTS
@pytest.mark.parametrize("command", ["undo", "replay"])
def test_a_session_without_a_last_line_break_comes_back_to_the_byte(
    machine: Machine, client: str, command: str
) -> None:
    path = machine.put(client)
    before = path.read_bytes().removesuffix(b"\n")
    path.write_bytes(before)
    compacted(client)
    assert path.read_bytes().endswith(b"\n"), "the client goes on in a line of its own"
    assert run(command, f"{client}:{IDS[client]}", "--write").code == 0
    assert path.read_bytes() == before


@CLIENTS
@pytest.mark.parametrize("command", ["undo", "replay"])
@pytest.mark.parametrize("archived", [False, True])
def test_a_session_without_a_compaction_is_said_to_have_none(
    machine: Machine, client: str, command: str, archived: bool
) -> None:
    path = machine.put(client)
    before = path.read_bytes()
    if archived:
        compacted(client)
        assert run("undo", f"{client}:{IDS[client]}", "--write").code == 0
    done = run(command, f"{client}:{IDS[client]}", "--write")
    assert (done.code, path.read_bytes()) == (2, before)
    assert "no compaction stands in" in done.line
    assert "assumed" not in done.err


@pytest.mark.parametrize("command", [("undo",), ("replay",), ("compact", *NOW)])
@pytest.mark.parametrize("again", [False, True])
def test_a_pi_session_whose_entries_have_no_ids_is_not_written(
    machine: Machine, command: tuple[str, ...], again: bool
) -> None:
    path, out = machine.put("pi", file="pi_first_version.jsonl"), machine.home / "copy.jsonl"
    if again:
        assert run("compact", "pi:72", "-o", out, *NOW).code == 0
        path.write_bytes(out.read_bytes())
    before = path.read_bytes()
    done = run(command[0], "pi:72", "--write", *command[1:])
    assert (done.code, path.read_bytes()) == (2, before)
    assert "open the session once in pi" in done.line
    assert [other for other in path.parent.iterdir() if other != path] == []


def test_a_session_that_needs_no_compaction_is_not_written(machine: Machine) -> None:
    path = machine.put("codex")
    before = path.stat()
    done = run("compact", "codex:019a", "--write", "--window", "1m")
    assert done.code == 0
    assert "Nothing was written" in done.out
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_sessions_in_a_folder_that_the_user_named_are_the_clients_own(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.put("pi")
    folder = machine.home / "my sessions"
    folder.mkdir()
    moved = path.rename(folder / path.name)
    before = moved.read_bytes()
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", str(folder))
    compacted("pi")
    assert moved.read_bytes().startswith(before)
    assert len(moved.read_bytes()) > len(before)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give files away")
def test_a_session_keeps_its_owner_and_its_mode(machine: Machine) -> None:
    path = machine.put("claude-code")
    os.chown(path, 12345, 12346)
    path.chmod(0o640)
    compacted("claude-code")
    run("undo", "claude-code:3f2a", "--write")
    (kept,) = path.parent.glob("*.before")
    for one, mode in ((path, 0o640), (kept, 0o600)):
        assert (one.stat().st_uid, one.stat().st_gid, one.stat().st_mode & 0o777) == (12345, 12346, mode)


def test_a_client_of_somebody_else_is_no_hindrance(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = machine.put("claude-code").stat().st_uid
    for user, code in ((owner + 1, 0), (owner, 2), (0, 2)):
        monkeypatch.setattr("unabridged_cli.clients.client_processes.find_user_id", lambda _, user=user: user)
        with running("claude", machine.project):
            assert run("compact", "claude-code:3f2a", "--write", *NOW).code == code
