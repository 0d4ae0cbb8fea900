"""The sessions of coding agents on the command line: listed, named, searched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_case import run
from client_machine import IDS, NOW, Machine, compacted, machine
from unabridged.archive.opening import open_archive

__all__ = ["machine"]


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
    open_archive(machine.archive).close()
    hint = run("show", "opencode:ses_1").line
    assert "unabridged install opencode" in hint
    assert "--write" not in hint, "that would be refused"
    assert str(machine.home / "data/opencode") in run("compact", "opencode:nosuch", "--write").line


def test_only_what_is_in_the_home_folder_is_shown_as_that(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    machine.put("pi", folder=machine.home.with_name(f"{machine.home.name}-else") / "p")
    machine.put("codex", folder=machine.home / "p")
    shown = run("sessions").out
    assert "~-else" not in shown
    assert " ~/p " in shown


def test_a_name_that_fits_several_or_none_is_said(machine: Machine) -> None:
    machine.put("codex")
    machine.put("codex", "019a2b3c-1111-7000-8000-000000000002")
    several = run("undo", "codex:019a", "--write").line
    assert "codex:019a2b3c-0" in several
    assert "codex:019a2b3c-1" in several
    assert "begins with 'ffff'" in run("undo", "codex:ffff", "--write").line


def test_search_and_show_take_the_beginning_of_a_sessions_name(machine: Machine) -> None:
    for client in IDS:
        machine.put(client)
        compacted(client)
    found = run("search", "clock.py", "--thread", "claude-code:3", "--json").json["results"]
    assert {hit["thread"] for hit in found} == {f"claude-code:{IDS['claude-code']}/compacted"}
    assert run("show", "codex:019", "--json").json["compactions"]
    assert "no thread" in run("show", "codex:ff").line


def test_two_files_of_the_same_id_are_said_and_none_is_guessed(machine: Machine) -> None:
    first = machine.put("codex")
    second = machine.home / ".codex/archived_sessions" / first.name
    second.parent.mkdir()
    second.write_bytes(first.read_bytes())
    for name in (IDS["codex"], IDS["codex"][:6]):
        done = run("compact", f"codex:{name}", "--write", *NOW)
        assert done.code == 2
        assert str(first) in done.line
        assert str(second) in done.line
    assert first.read_bytes() == second.read_bytes()


def test_a_name_of_no_client_is_said_with_those_that_there_are(machine: Machine) -> None:
    del machine
    for name in ("claude:3f2a", "cursor:1"):
        line = run("compact", name).line
        assert "no such file" in line
        assert "claude-code, codex, pi, opencode" in line
    assert "claude-code:3f2a" in run("compact", "claude-code:").line


def test_a_session_that_is_here_and_not_in_the_archive_is_said(machine: Machine) -> None:
    machine.put("claude-code")
    machine.put("pi")
    compacted("pi")
    for command in (("show",), ("search", "x", "--thread")):
        line = run(*command, "claude-code:3f2a").line
        assert "nothing of claude-code:3f2a6a1c is in" in line
        assert "unabridged install claude-code" in line
