"""`unabridged status`: whether hooks run, what failed, and what a search says where not all is archived."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli_case import run
from client_machine import CLIENTS, IDS, Machine, machine
from unabridged.archive.opening import open_archive
from unabridged_cli.clients.current_session import find_caller
from unabridged_cli.clients.hook import background, log
from unabridged_cli.clients.hook.events import answer_hook_event
from unabridged_cli.clients.ignore_file import IGNORE_FILE_NAME
from unabridged_cli.clients.registry import CLIENTS as KNOWN
from unabridged_cli.clients.session_tools import SessionTools
from unreleased_archives import REFUSAL, REMEDY, make_sqlite

__all__ = ["machine"]


@pytest.fixture(autouse=True)
def _alone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine.project)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(background, "start_process", lambda _: None)


def hooks_row(client: str) -> dict[str, Any]:
    rows = run("status", client, "--json").json
    return next(row for row in rows if row["scope"] == "user" and row["what"] != "MCP server")


def event(machine: Machine, client: str, path: Path, name: str, **more: Any) -> bytes:
    about = {"session_id": IDS[client], "transcript_path": str(path), "cwd": str(machine.project), "client": client}
    return json.dumps({"hook_event_name": name, **about, **more}).encode()


def later_than_the_install(path: Path) -> Path:
    moment = time.time() + 5
    os.utime(path, (moment, moment))
    return path


# -- hooks that do not run ---------------------------------------------------------------------------------------------


@CLIENTS
def test_hooks_that_never_ran_are_named_with_the_remedy(client: str, machine: Machine) -> None:
    before = machine.put(client, "3f2a6a1c-ffff-4000-8000-00000000000f")
    os.utime(before, (1_000, 1_000))
    assert run("install", client).code == 0
    ran = run("status", client)
    assert ran.code == 0, "there was no session yet"
    assert "never" in ran.out
    assert KNOWN[client].remedy in " ".join(ran.err.split())
    later_than_the_install(machine.put(client))
    ran = run("status", client)
    assert ran.code == 1
    said = " ".join(ran.err.split())
    assert "never ran" in said
    assert f"{client}:{IDS[client]}" in said
    assert KNOWN[client].remedy in said
    assert hooks_row(client)["ran"] is None


def test_codex_is_told_to_trust_the_hooks(machine: Machine) -> None:
    run("install", "codex")
    later_than_the_install(machine.put("codex"))
    assert "/hooks, and trust" in " ".join(run("status", "codex").err.split())


@CLIENTS
def test_hooks_that_run_are_shown_with_the_time(client: str, machine: Machine) -> None:
    run("install", client)
    path = later_than_the_install(machine.put(client))
    began = time.time()
    answer_hook_event(event(machine, client, path, "SessionStart", source="startup"))
    ran = run("status", client)
    assert (ran.code, ran.err) == (0, "")
    assert hooks_row(client)["ran"] >= began


def test_hooks_that_ran_before_they_were_changed_and_not_since_are_told(machine: Machine) -> None:
    """Codex has to be told to trust a hook again that an install changed."""
    path = machine.put("codex")
    answer_hook_event(event(machine, "codex", path, "SessionStart", source="startup"))
    run("install", "codex")
    later_than_the_install(machine.put("codex", "019a2b3c-ffff-7000-8000-00000000000f"))
    ran = run("status", "codex")
    assert ran.code == 1
    assert "ran last on" in ran.err


def test_a_session_of_a_project_that_is_left_out_says_nothing_about_hooks(machine: Machine) -> None:
    run("install", "claude-code")
    later_than_the_install(machine.put("claude-code"))
    (machine.project / IGNORE_FILE_NAME).touch()
    assert run("status", "claude-code").code == 0


# -- what failed -------------------------------------------------------------------------------------------------------


@contextmanager
def locked(machine: Machine) -> Iterator[None]:
    """An archive that another program holds all the time."""
    path = machine.archive.removeprefix("sqlite:///")
    open_archive(machine.archive).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


def fail_to_archive(machine: Machine, client: str, path: Path) -> None:
    """Call the hook before a compaction as its program does, which logs what goes wrong."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever the store says
        answer_hook_event(event(machine, client, path, "PreCompact", trigger="auto"))
    log.log_failure(f"{type(raised.value).__name__}: {raised.value}")


@CLIENTS
def test_what_the_hook_could_not_do_is_shown_until_it_is_made_good(client: str, machine: Machine) -> None:
    run("install", client)
    path = machine.put(client)
    answer_hook_event(event(machine, client, path, "SessionStart", source="startup"))
    with locked(machine):
        fail_to_archive(machine, client, path)
    ran = run("status", client)
    assert ran.code == 1
    said = " ".join(ran.err.split())
    assert f"the hook failed on {time.strftime('%Y')}" in said
    assert f"{client}:{IDS[client]}" in said
    assert "hook.log" in said
    assert hooks_row(client)["problems"]
    answer_hook_event(event(machine, client, path, "PreCompact", trigger="auto"))
    assert run("status", client).code == 0


def test_an_archive_of_before_the_first_release_is_shown_with_the_remedy(machine: Machine) -> None:
    run("install", "claude-code")
    path = machine.put("claude-code")
    answer_hook_event(event(machine, "claude-code", path, "SessionStart", source="startup"))
    make_sqlite(machine.home / "archive.db")
    before = (machine.home / "archive.db").read_bytes()
    fail_to_archive(machine, "claude-code", path)
    ran = run("status", "claude-code")
    assert ran.code == 1
    said = " ".join(ran.err.split())
    assert f"{machine.home / 'archive.db'} {REFUSAL}" in said
    assert REMEDY in said
    (problem,) = hooks_row("claude-code")["problems"]
    assert REMEDY in problem
    assert (machine.home / "archive.db").read_bytes() == before
    for old in machine.home.glob("archive.db*"):
        old.rename(old.with_name(f"old-{old.name}"))
    answer_hook_event(event(machine, "claude-code", path, "PreCompact", trigger="auto"))
    assert run("status", "claude-code").code == 0


def test_a_failure_without_a_session_is_shown_until_something_works(machine: Machine) -> None:
    run("install", "claude-code")
    log.set_logged_session("")
    log.log_failure("JSONDecodeError: no JSON")
    assert "no JSON" in run("status", "claude-code").err
    path = machine.put("claude-code")
    answer_hook_event(event(machine, "claude-code", path, "SessionStart", source="startup"))
    assert run("status", "claude-code").code == 1
    answer_hook_event(event(machine, "claude-code", path, "PreCompact"))
    assert run("status", "claude-code").code == 0


def test_a_failure_of_long_ago_is_not_shown(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    run("install", "claude-code")
    log.set_logged_session("")
    log.log_failure("the disk is full")
    assert run("status", "claude-code").code == 1
    monkeypatch.setattr(log, "_FAILURE_LIFETIME_SECONDS", -5)
    assert run("status", "claude-code").code == 0
    assert machine.home.exists()


def test_a_program_that_is_gone_and_a_file_that_is_ignored_end_with_1(machine: Machine) -> None:
    run("install", "claude-code")
    settings = machine.home / ".claude" / "settings.json"
    text = settings.read_text()
    for spoilt in (text.replace("/unabridged hook", "/gone/unabridged hook"), f"// mine\n{text}", text[:-5], ""):
        settings.write_text(spoilt)
        assert run("status", "claude-code").code == (1 if spoilt else 0)


# -- what a search says ------------------------------------------------------------------------------------------------

_COMPACTED = {
    "claude-code": {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}},
    "codex": {"type": "compacted", "payload": {"message": "A summary."}},
    "pi": {"type": "compaction", "id": "c1", "parentId": None, "summary": "A summary.", "firstKeptEntryId": "x"},
}


def compact(path: Path, client: str) -> None:
    """Let the client compact its session."""
    with path.open("a") as stream:
        stream.write(json.dumps(_COMPACTED[client]) + "\n")


def search(machine: Machine, client: str, **more: Any) -> str:
    archive = open_archive(machine.archive)
    try:
        tools = SessionTools(
            archive, lambda: find_caller({"HOME": str(machine.home)}, machine.project, client, {}, 0.0)
        )
        return tools.answer("search_history", {"query": "xyzzy", **more}).text
    finally:
        archive.close()


@CLIENTS
def test_a_search_says_what_left_the_context_and_is_not_archived(client: str, machine: Machine) -> None:
    """Its hooks never ran, or the archive was locked when the client compacted."""
    path = machine.put(client)
    assert "may have been said" not in search(machine, client), "nothing has left the context"
    compact(path, client)
    assert "So what is not found here may have been said" in search(machine, client)
    answer_hook_event(event(machine, client, path, "PreCompact"))
    assert "may have been said" not in search(machine, client)
    compact(path, client)
    assert "may have been said" not in search(machine, client), "all that stands before it is there"


@CLIENTS
def test_a_search_says_that_the_archive_could_not_be_written(client: str, machine: Machine) -> None:
    path = machine.put(client)
    with locked(machine):
        fail_to_archive(machine, client, path)
        said = search(machine, client)
    assert "Not all of this session is in the archive" in said
    assert "may have been said" in said


@CLIENTS
def test_the_command_line_says_it_too_as_pis_tools_need_it(client: str, machine: Machine) -> None:
    path = machine.put(client)
    open_archive(machine.archive).close()
    compact(path, client)
    named = f"{client}:{IDS[client]}"
    assert "may have been said" in run("search", "xyzzy", "--thread", named).err, "nothing of it is archived"
    answer_hook_event(event(machine, client, path, "PreCompact"))
    assert run("search", "xyzzy", "--thread", named).err == ""


def test_a_search_over_all_sessions_counts_those_that_are_not_archived(machine: Machine) -> None:
    machine.put("claude-code")
    machine.put("codex")
    assert "2 sessions of this project are not in the archive" in search(machine, "codex", all_sessions=True)


def test_a_search_in_a_project_that_is_left_out_says_so(machine: Machine) -> None:
    machine.put("claude-code")
    (machine.project / IGNORE_FILE_NAME).touch()
    assert IGNORE_FILE_NAME in search(machine, "claude-code")
