"""Plugin and install together: each event is answered once, and the tools are offered once."""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from cli_case import run
from client_machine import IDS, Machine, machine
from patience import PATIENCE
from plugin_case import PLUGIN, run_hook, write_program
from unabridged_cli.clients import once
from unabridged_cli.clients.entries import build_hook_command
from unabridged_cli.clients.hook.log import log_file_path
from unabridged_cli.clients.once import PLUGIN_VARIABLE, is_first_hook

__all__ = ["machine"]


def environment(machine: Machine) -> dict[str, str]:
    """Return the environment in which a client starts both hooks, with the program on the PATH."""
    folder = write_program(machine.home / "bin").parent
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "CLAUDE_PLUGIN_ROOT": str(PLUGIN)}


def compacted(machine: Machine, client: str) -> bytes:
    about = {"session_id": IDS[client], "transcript_path": str(machine.put(client)), "cwd": str(machine.project)}
    return json.dumps({"hook_event_name": "SessionStart", "source": "compact", **about}).encode()


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_of_two_hooks_that_are_called_at_once_one_answers_each_time(client: str, machine: Machine) -> None:
    given, event = environment(machine), compacted(machine, client)
    ours = build_hook_command(str(machine.home / "bin" / "unabridged"))
    plugin = 'sh "${CLAUDE_PLUGIN_ROOT}/hooks/run.sh" || exit 0'
    for _ in range(2):  # the same event comes again: two compactions in one turn
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda command: run_hook(command, event, given), (ours, plugin)))
        assert [one.returncode for one in done] == [0, 0]
        (answer,) = [one.stdout for one in done if one.stdout]
        assert json.loads(answer)["hookSpecificOutput"]["additionalContext"].startswith("[unabridged]")
    said = log_file_path(os.environ).read_text()
    assert said.count("answered by the other hook") == said.count("characters for the context") == 2


def test_a_hook_that_is_alone_answers_every_event(machine: Machine) -> None:
    for variables in ({}, {PLUGIN_VARIABLE: "1"}):
        given = {**variables, "HOME": str(machine.home / f"of {len(variables)}")}
        assert all(is_first_hook(b"event", given) for _ in range(3))


def test_two_hooks_answer_each_event_once_whichever_comes_first(machine: Machine) -> None:
    install, plugin = {"HOME": str(machine.home)}, {"HOME": str(machine.home), PLUGIN_VARIABLE: "1"}
    for first, second in ((install, plugin), (plugin, install), (install, plugin)):
        assert [is_first_hook(b"event", first), is_first_hook(b"event", second)] == [True, False]
    assert is_first_hook(b"one", install)
    assert is_first_hook(b"another", plugin)


def test_a_hook_that_starts_to_run_later_does_not_take_an_old_note_for_its_own(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_first_hook(b"event", {"HOME": str(machine.home)})
    monkeypatch.setattr(once, "_PAIR_SECONDS", -1.0)
    assert is_first_hook(b"event", {"HOME": str(machine.home), PLUGIN_VARIABLE: "1"})


@pytest.mark.usefixtures("machine")
def test_notes_are_for_their_owner_alone_and_hold_nothing() -> None:
    is_first_hook(b"event", os.environ)
    folder = log_file_path(os.environ).parent / "answered"
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700, 0o700]
    notes = [path for path in folder.iterdir() if path.suffix != ".lock"]
    assert [(path.stat().st_mode & 0o777, path.stat().st_size) for path in notes] == [(0o600, 0)]


def test_where_no_note_can_be_written_every_hook_answers(machine: Machine) -> None:
    (machine.home / "file").touch()
    given = {"HOME": str(machine.home), "XDG_STATE_HOME": str(machine.home / "file")}
    assert is_first_hook(b"event", given)
    assert is_first_hook(b"event", {**given, PLUGIN_VARIABLE: "1"})


@pytest.mark.parametrize(
    ("installed", "variables", "offered"),
    [
        (False, {PLUGIN_VARIABLE: "1", "CLAUDECODE": "1"}, 4),
        (True, {PLUGIN_VARIABLE: "1", "CLAUDECODE": "1"}, 0),
        (True, {PLUGIN_VARIABLE: "1"}, 4),  # Codex: the install's server of this name is the only one
        (True, {"CLAUDECODE": "1"}, 4),
    ],
)
def test_the_plugins_server_in_claude_code_leaves_the_tools_to_the_installs(
    installed: bool, variables: dict[str, str], offered: int, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcp = pytest.importorskip("mcp")
    monkeypatch.chdir(machine.project)
    program = write_program(machine.home / "bin")
    if installed:
        monkeypatch.setattr("sys.argv", [str(program)])
        assert run("install", "claude-code").code == 0
    given = {**environment(machine), **variables}
    child = mcp.StdioServerParameters(command=str(program), args=["mcp"], env=given, cwd=str(machine.project))

    async def steps() -> None:
        async with mcp.Client(child) as client:
            assert len((await client.list_tools()).tools) == offered

    asyncio.run(asyncio.wait_for(steps(), PATIENCE))
