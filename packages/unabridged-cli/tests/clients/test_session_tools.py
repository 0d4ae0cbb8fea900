"""The tools for coding agents: which session asks, and what they answer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import pytest

import workspace
from cli_case import run
from client_machine import IDS, Machine, machine
from patience import PATIENCE
from unabridged.archive.opening import open_archive
from unabridged_cli.clients.current_session import (
    ToolCaller,
    client_from_mcp_name,
    find_caller,
    list_ancestor_processes,
)
from unabridged_cli.clients.hook.events import answer_hook_event
from unabridged_cli.clients.session_lookup import list_all_sessions
from unabridged_cli.clients.session_tools import SessionTools
from unabridged_cli.clients.threads import OpenSession, note_open_session

__all__ = ["machine"]

OTHER = "3f2a6a1c-ffff-4000-8000-00000000000f"
CLAUDE, CODEX = f"claude-code:{IDS['claude-code']}", f"codex:{IDS['codex']}"


def environ(machine: Machine, **more: str) -> dict[str, str]:
    return {"HOME": str(machine.home), **more}


def note(machine: Machine, session: str, process: int, moment: float) -> None:
    note_open_session(OpenSession("claude-code", session, str(machine.project), "", process, moment), environ(machine))


# -- which session asks ------------------------------------------------------------------------------------------------


def test_the_only_session_of_the_folder_asks(machine: Machine) -> None:
    machine.put("codex")
    machine.put("pi", folder=machine.home / "elsewhere")
    assert find_caller(environ(machine), machine.project, "codex", {}, 0.0).thread == CODEX


CLIENTS = ("claude-code", "codex", "pi", "opencode", None)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("noted", [True, False])
def test_a_session_of_another_client_never_asks(client: str | None, noted: bool, machine: Machine) -> None:
    """Whatever is there of others: files, notes for the same processes, a variable that Claude Code left."""
    for other in ("claude-code", "codex", "pi"):
        if other != client:
            machine.put(other)
            if noted:
                opened = OpenSession(other, IDS[other], str(machine.project), "", 4711, 2_000.0)
                note_open_session(opened, environ(machine))
    given = environ(machine, **({} if client == "claude-code" else {"CLAUDE_CODE_SESSION_ID": IDS["claude-code"]}))
    asking = find_caller(given, machine.project, client, {4711: 1_000.0}, 0.0)
    assert asking.threads == []
    assert len(asking.sessions) == (3 if client in {"opencode", None} else 2), "but they can be named"


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_of_several_sessions_of_its_own_none_is_guessed(client: str, machine: Machine) -> None:
    machine.put(client)
    machine.put(client, OTHER)
    asking = find_caller(environ(machine), machine.project, client, {}, 0.0)
    assert asking.thread is None
    assert sorted(asking.threads) == sorted([f"{client}:{IDS[client]}", f"{client}:{OTHER}"])


def test_a_session_that_was_not_written_since_the_server_began_does_not_ask(machine: Machine) -> None:
    old = machine.put("codex", OTHER)
    os.utime(old, (1_000, 1_000))
    assert find_caller(environ(machine), machine.project, "codex", {}, 2_000.0).thread is None
    machine.put("codex")
    assert find_caller(environ(machine), machine.project, "codex", {}, 2_000.0).thread == CODEX


def test_the_nearest_process_is_the_one_that_asks(machine: Machine) -> None:
    """One client may have started another of its kind."""
    note(machine, "inner", 12, 2_000.0)
    note(machine, "outer", 11, 3_000.0)
    asking = find_caller(environ(machine), machine.project, "claude-code", {12: 1_500.0, 11: 1_000.0})
    assert asking.thread == "claude-code:inner"


@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("codex-mcp-client", "codex"),
        ("claude-code", "claude-code"),
        ("opencode", "opencode"),
        ("Cursor", None),
        ("", None),
    ],
)
def test_a_client_is_known_by_the_name_that_it_gives_itself(name: str, client: str | None) -> None:
    assert client_from_mcp_name(name) == client


def test_claude_code_names_its_session_when_it_starts_the_server(machine: Machine) -> None:
    machine.put("claude-code", OTHER)
    machine.put("claude-code")
    given = environ(machine, CLAUDE_CODE_SESSION_ID=OTHER)
    assert find_caller(given, machine.project, "claude-code", {}).thread == f"claude-code:{OTHER}"


def test_a_note_of_the_same_process_is_fresher_than_what_it_was_started_with(machine: Machine) -> None:
    given = environ(machine, CLAUDE_CODE_SESSION_ID="first")
    note(machine, "another", 99, 5_000.0)
    note(machine, "first", 4711, 2_000.0)
    note(machine, "cleared", 4711, 3_000.0)
    assert find_caller(given, machine.project, "claude-code", {4711: 1_000.0, 1: 0.0}).thread == "claude-code:cleared"
    assert find_caller(given, machine.project, "claude-code", {4711: 4_000.0, 1: 0.0}).thread == "claude-code:first", (
        "an older process"
    )


def test_the_project_is_the_one_that_was_noted_wherever_the_server_runs(machine: Machine) -> None:
    machine.put("codex")
    note(machine, "now", 4711, 2_000.0)
    asking = find_caller(environ(machine), machine.home, "claude-code", {4711: 1_000.0})
    assert [session.client for session in asking.sessions] == ["codex"]


@pytest.mark.parametrize("cwd", ["\0", "\ud800", "/" + "a" * 5_000, "loop", 7, ["x"]])
def test_what_a_damaged_session_says_about_its_folder_hides_no_other(machine: Machine, cwd: Any) -> None:
    machine.put("codex")
    (machine.home / "loop").symlink_to(machine.home / "loop")
    odd = machine.put("claude-code")
    odd.write_text(
        json.dumps({"type": "user", "sessionId": "s", "cwd": cwd if cwd != "loop" else f"{machine.home}/loop"})
    )
    assert find_caller(environ(machine), machine.project, "codex", {}, 0.0).thread == CODEX
    assert len(run("sessions", "--json", "--project", machine.project).json["sessions"]) == 1
    assert run("sessions").code == 0
    assert run("undo", "claude-code:3", "--write").code == 2


def test_a_folder_is_the_same_by_all_its_names(machine: Machine) -> None:
    link = machine.home / "link"
    link.symlink_to(machine.project)
    machine.put("codex", folder=link)
    assert find_caller(environ(machine), machine.project, "codex", {}, 0.0).thread == CODEX
    assert len(run("sessions", "--json", "--project", machine.project).json["sessions"]) == 1


def test_this_process_knows_who_started_it() -> None:
    above = list_ancestor_processes()
    assert above
    assert all(0 <= began <= time.time() for began in above.values())


# -- what the tools answer ---------------------------------------------------------------------------------------------


@pytest.fixture
def tools(machine: Machine) -> Any:
    """The tools of a project with two archived sessions of Claude Code and one of Codex elsewhere."""
    machine.put("claude-code")
    path = machine.put("claude-code", OTHER, file="claude_code_rewound.jsonl")
    machine.put("codex", folder=machine.home / "elsewhere")
    event = {"hook_event_name": "PreCompact", "session_id": OTHER, "transcript_path": str(path), "trigger": "auto"}
    assert answer_hook_event(json.dumps(event).encode()) == ""
    for name in (CLAUDE, CODEX):
        assert run("compact", name, "--write", "--now", "--keep", "messages=2", "--json").json["changed"]
    archive = open_archive(machine.archive)
    yield lambda client="claude-code", **more: SessionTools(
        archive, lambda: find_caller(environ(machine, **more), machine.project, client, {}, 0.0)
    )
    archive.close()


def test_search_and_read_answer_for_the_session_that_asks(tools: Any) -> None:
    mine = tools(CLAUDE_CODE_SESSION_ID=IDS["claude-code"])
    found = mine.answer("search_history", {"query": "clock.py"})
    assert not found.error
    assert "Best matches" in found.text
    ref = found.text.partition(" ref ")[2].partition(",")[0]
    assert not mine.answer("read_history", {"ref": ref}).error
    other = tools(CLAUDE_CODE_SESSION_ID=OTHER)
    assert "Nothing matches" in other.answer("search_history", {"query": "clock.py"}).text


@pytest.mark.parametrize("client", CLIENTS)
def test_when_it_is_not_certain_who_asks_sessions_are_listed_and_one_can_be_named(
    client: str | None, tools: Any
) -> None:
    nobody = tools(client)
    for name, given in (
        ("search_history", {"query": "clock.py"}),
        ("list_compactions", {}),
        ("read_history", {"ref": 1}),
    ):
        told = nobody.answer(name, given)
        assert told.error
        assert "not certain" in told.text
        assert "this conversation" not in told.text
        assert CLAUDE in told.text
        assert OTHER in told.text
        assert CODEX not in told.text, "not of this project"
    assert "Best matches" in nobody.answer("search_history", {"query": "clock.py", "session": "3f2a6a1c-0"}).text
    assert nobody.answer("search_history", {"query": "clock.py", "session": "3f2a"}).error, "two begin so"


def test_all_sessions_of_the_project_are_searched_when_asked_to(tools: Any) -> None:
    other = tools(CLAUDE_CODE_SESSION_ID=OTHER)
    found = other.answer("search_history", {"query": "clock.py", "all_sessions": True})
    assert f"Session {CLAUDE}/compacted:" in found.text
    ref = found.text.partition(" ref ")[2].partition(",")[0]
    assert not other.answer("read_history", {"ref": ref}).error, "a reference leads to its own session"
    assert "left the context of that session" in found.text
    assert "this conversation" not in found.text
    mine = tools(CLAUDE_CODE_SESSION_ID=IDS["claude-code"])
    assert "of this conversation" in mine.answer("search_history", {"query": "clock.py", "all_sessions": True}).text
    assert "Nothing that was archived" in other.answer("search_history", {"query": "xyzzy", "all_sessions": True}).text


def test_one_session_and_all_of_them_are_not_searched_at_once(tools: Any) -> None:
    both = tools().answer("search_history", {"query": "clock.py", "session": CLAUDE, "all_sessions": True})
    assert both.error
    assert "one of them" in both.text
    assert not tools().answer("search_history", {"query": "clock.py", "session": CLAUDE, "all_sessions": False}).error


def archived(machine: Machine, number: int, said: str) -> str:
    """One more session of the project, in which this was said."""
    session = f"{number:08}-0000-4000-8000-000000000000"
    path = machine.home / ".claude/projects/-project" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    line = {"type": "user", "uuid": "u", "sessionId": session, "cwd": str(machine.project)}
    path.write_text(json.dumps(line | {"message": {"role": "user", "content": said}}) + "\n")
    os.utime(path, (number, number))
    event = {"hook_event_name": "PreCompact", "session_id": session, "transcript_path": str(path)}
    assert answer_hook_event(json.dumps(event).encode()) == ""
    return f"claude-code:{session}"


def test_none_of_many_sessions_is_left_out_of_a_search(machine: Machine) -> None:
    oldest = archived(machine, 1, f"The depot code is KESTREL-7319. {'Long ago. ' * 400}")
    for number in range(2, 45):
        archived(machine, number, f"Station {number} is open.")
    archive = open_archive(machine.archive)
    tools = SessionTools(archive, lambda: find_caller(environ(machine), machine.project, "claude-code", {}, 0.0))
    found = tools.answer("search_history", {"query": "depot code", "all_sessions": True}).text
    assert f"Session {oldest}:" in found
    assert len(found) > 600, "the only one that has something gets the room"
    many = tools.answer("search_history", {"query": "station", "all_sessions": True}).text
    assert len(many) < 20_000
    assert all(f"{number:08}-0000" in many for number in range(2, 45)), "those without room are named"
    archive.close()


def test_sessions_of_other_projects_can_not_be_reached(tools: Any) -> None:
    mine = tools(CLAUDE_CODE_SESSION_ID=IDS["claude-code"])
    for name, given in (("search_history", {"query": "a"}), ("read_history", {"ref": "0"}), ("list_compactions", {})):
        for session in (CODEX, "codex", IDS["codex"], "", 7, ["x"]):
            told = mine.answer(name, {**given, "session": session})
            assert told.error, (name, session)
    assert CODEX not in mine.answer("list_sessions", {}).text


def test_sessions_and_compactions_are_listed(tools: Any) -> None:
    mine = tools(CLAUDE_CODE_SESSION_ID=IDS["claude-code"])
    listed = mine.answer("list_sessions", None).text
    assert f"{CLAUDE}, archived" in listed
    assert listed.count("this conversation") == 1
    told = mine.answer("list_compactions", {})
    assert "summary" in told.text
    assert "turns" in told.text


def test_before_anything_is_archived_the_answer_says_so(machine: Machine) -> None:
    archive = open_archive("memory:")
    asks = SessionTools(archive, lambda: ToolCaller([], [CLAUDE]))
    assert "yet" in asks.answer("list_sessions", {}).text
    assert "yet" in asks.answer("list_compactions", {}).text
    assert "Nothing that left" in asks.answer("search_history", {"query": "x"}).text
    machine.put("codex")
    nobody = SessionTools(archive, lambda: ToolCaller(list_all_sessions(environ(machine)), []))
    assert "yet" in nobody.answer("search_history", {"query": "x"}).text


def test_calls_that_can_not_be_answered_say_what_would_be(tools: Any) -> None:
    mine = tools(CLAUDE_CODE_SESSION_ID=IDS["claude-code"])
    for name, given in (
        ("search_history", {}), ("search_history", "{"), ("search_history", {"query": "x", "of": 1}),
        ("read_history", {}), ("list_sessions", {"x": 1}), ("forget", {}),
    ):  # fmt: skip
        assert mine.answer(name, given).error, (name, given)


@pytest.mark.usefixtures("tools")
def test_the_server_answers_for_the_project_that_it_is_started_in(machine: Machine) -> None:
    mcp, mcp_types = pytest.importorskip("mcp"), pytest.importorskip("mcp_types")
    given = environ(machine, UNABRIDGED_ARCHIVE=machine.archive, CLAUDE_CODE_SESSION_ID=IDS["claude-code"])
    given["PYTHONPATH"] = workspace.python_path()
    command = ["-c", "from unabridged_cli.app import main; main(['mcp'])"]
    child = mcp.StdioServerParameters(command=sys.executable, args=command, env=given, cwd=str(machine.project))

    async def ask(name: str) -> tuple[list[str], str]:
        me = mcp_types.Implementation(name=name, version="1")
        async with mcp.Client(child, client_info=me) as client:
            listed = await client.list_tools()
            found = await client.call_tool("search_history", {"query": "clock.py"})
            return [tool.name for tool in listed.tools], found.content[0].text

    names, text = asyncio.run(asyncio.wait_for(ask("claude-code"), PATIENCE))
    assert names == ["search_history", "read_history", "list_sessions", "list_compactions"]
    assert "Best matches" in text
    for name in ("codex-mcp-client", "another"):
        assert "which session asks is not certain" in asyncio.run(asyncio.wait_for(ask(name), PATIENCE))[1]


def test_what_a_hook_archived_and_what_we_compacted_are_both_found_and_never_mixed_up(
    tools: Any, machine: Machine
) -> None:
    path = next(machine.home.rglob(f"{IDS['claude-code']}.jsonl"))
    event = {"hook_event_name": "PreCompact", "session_id": IDS["claude-code"], "transcript_path": str(path)}
    assert answer_hook_event(json.dumps(event).encode()) == ""
    mine = tools(CLAUDE_CODE_SESSION_ID=IDS["claude-code"])
    found = mine.answer("search_history", {"query": "utcoffset"}).text
    assert f"Session {CLAUDE}:" in found
    refs = {part.partition(",")[0] for part in found.split(" ref ")[1:]}
    assert all(not mine.answer("read_history", {"ref": ref}).error for ref in refs)
    both = mine.answer("read_history", {"ref": "1"})
    assert both.error, "each counts its turns in its own way"
    assert both.text.count("ref 1-") == 2
    assert run("forget", "claude-code:3f2a6a1c-0", "--yes").code == 0
    assert "Nothing matches" in mine.answer("search_history", {"query": "utcoffset"}).text
