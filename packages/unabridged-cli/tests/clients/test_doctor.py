"""`unabridged doctor`: nothing is wrong where all is well, and each broken set-up is found with its remedy."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import effort
from cli_case import Ran, run
from client_machine import IDS, Machine
from plugin_case import RUN, change_json, install_plugin, write_program
from rows import rows
from unabridged.archive.opening import open_archive
from unabridged_cli.clients.hook import background, log
from unabridged_cli.clients.hook.events import answer_hook_event

pytest.importorskip("mcp")


def new_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine of its own with the program on its PATH, and nothing else of ours."""
    machine = Machine(tmp_path, monkeypatch)
    program = write_program(machine.home / "bin")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setattr(background, "start_process", lambda _: None)
    monkeypatch.chdir(machine.project)
    for name in ("OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "UNABRIDGED_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    open_archive(machine.archive).close()
    return machine


def set_up(machine: Machine, client: str, how: str) -> None:
    """An install or the plugin, and a session in which the hooks ran."""
    if how != "plugin":
        assert run("install", client).code == 0
    if how != "install":
        install_plugin(client, machine.home)
    event = {"hook_event_name": "SessionStart", "source": "startup", "session_id": IDS.get(client, "s1")}
    answer_hook_event(json.dumps({**event, "client": client, "cwd": str(machine.project)}).encode())


def wrong_in(ran: Ran) -> dict[str, str]:
    """What is wrong, by the check, with its remedy behind it."""
    return {check["what"]: f"{check['found']} -> {check['remedy']}" for check in ran.json if not check["ok"]}


WELL = [("pi", "install"), ("codex", "plugin"), ("claude-code", "both")]
MORE_WELL = [("opencode", "install"), ("claude-code", "install"), ("claude-code", "plugin"), ("codex", "install")]


@rows(("client", "how"), WELL + (MORE_WELL if effort.ALL else []))
def test_nothing_is_wrong_where_all_is_well(
    client: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(new_machine(tmp_path, monkeypatch), client, how)
    ran = run("doctor", "--json")
    assert (ran.code, wrong_in(ran)) == (0, {})
    assert ("with 4 tools" in ran.out) is (client != "pi")
    assert {check["client"] for check in ran.json} == {"", client}


Spoil = Callable[[Machine, pytest.MonkeyPatch], object]


class Broken(NamedTuple):
    """A set-up that was spoilt, the check that must find it, and words of what is said."""

    client: str
    how: str
    spoil: Spoil
    what: str
    words: str


def setting(variable: str, value: str) -> Spoil:
    return lambda machine, monkeypatch: monkeypatch.setenv(variable, value.format(home=machine.home))


def claude_settings(**values: object) -> Spoil:
    return lambda machine, _: change_json(machine.home / ".claude" / "settings.json", **values)


def program(script: str) -> Spoil:
    return lambda machine, _: write_program(machine.home / "bin", script)


def removed(pattern: str) -> Spoil:
    def remove(machine: Machine, _: pytest.MonkeyPatch) -> None:
        (path,) = machine.home.glob(pattern)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return remove


def without_the_library(machine: Machine, _: pytest.MonkeyPatch) -> None:
    """Make the import of the extra's library fail, as where it is not installed."""
    (machine.home / "mcp.py").write_text("raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')\n")
    write_program(machine.home / "bin", f'export PYTHONPATH="{machine.home}:$PYTHONPATH"\n{RUN}')


def without_a_hook(machine: Machine, _: pytest.MonkeyPatch) -> None:
    path = machine.home / ".claude" / "settings.json"
    hooks = json.loads(path.read_text())["hooks"]
    change_json(path, hooks={event: groups for event, groups in hooks.items() if event != "PreCompact"})


def with_a_comment(machine: Machine, _: pytest.MonkeyPatch) -> None:
    path = machine.home / ".claude" / "settings.json"
    path.write_text(f"// mine\n{path.read_text()}")


def with_cut_settings(machine: Machine, _: pytest.MonkeyPatch) -> None:
    path = machine.home / ".claude" / "settings.json"
    path.write_text(path.read_text()[:-3])


def with_an_old_plugin(machine: Machine, _: pytest.MonkeyPatch) -> None:
    (manifest,) = machine.home.glob(".codex/plugins/cache/*/*/*/.claude-plugin/plugin.json")
    change_json(manifest, version="0.0.9")


def with_a_session_without_hooks(machine: Machine, _: pytest.MonkeyPatch) -> None:
    shutil.rmtree(machine.home / "state")
    path = machine.put("claude-code")
    os.utime(path, (time.time() + 5, time.time() + 5))


def with_trust_in_all_but_one(machine: Machine, _: pytest.MonkeyPatch) -> None:
    """Have the trust in four of five hooks of the plugin noted, as Codex writes it."""
    shutil.rmtree(machine.home / "state")
    with (machine.home / ".codex" / "config.toml").open("a") as stream:
        for place in ("pre_compact:0", "session_start:0", "session_start:1", "session_end:0"):
            key = f"unabridged@unabridged:hooks/hooks.json:{place}:0"
            stream.write(f'\n[hooks.state."{key}"]\ntrusted_hash = "sha256:00"\n')


def with_a_failure(_: Machine, __: pytest.MonkeyPatch) -> None:
    log.set_logged_session(f"claude-code:{IDS['claude-code']}")
    log.log_failure("OSError: the disk is full")
    log.set_logged_session("")


def with_a_broken_archive(machine: Machine, _: pytest.MonkeyPatch) -> None:
    (machine.home / "archive.db").write_text("no database\n" * 99)


def installed_twice(_: Machine, __: pytest.MonkeyPatch) -> None:
    assert run("install", "codex", "--scope", "project").code == 0


def with_a_server_of_the_project(_: Machine, __: pytest.MonkeyPatch) -> None:
    assert run("install", "claude-code", "--scope", "project").code == 0


PLUGINS = "plugins/cache/unabridged/unabridged/*"
OLD = f'[ "$1" = --version ] && echo 0.0.9 && exit\n{RUN}'
BROKEN = {
    "the program was removed": Broken(
        "claude-code", "install", removed("bin/unabridged"), "program", "is gone -> unabridged install claude-code"
    ),
    "the program is not on the PATH": Broken(
        "codex", "plugin", setting("PATH", "/usr/bin:/bin"), "program", "-> put its folder on the PATH"
    ),
    "the library of the server is missing": Broken(
        "codex", "install", without_the_library, "MCP server", "-> pip install 'unabridged[mcp]'"
    ),
    "a hook was taken out": Broken("claude-code", "install", without_a_hook, "hooks", "unabridged install claude-code"),
    "the plugin is disabled": Broken(
        "claude-code", "plugin", claude_settings(enabledPlugins={"unabridged@unabridged": False}), "plugin", "enable it"
    ),
    "the plugin's folder is gone": Broken(
        "claude-code", "plugin", removed(f".claude/{PLUGINS}"), "plugin", "is not there -> install"
    ),
    "Codex does not trust one hook": Broken(
        "codex", "plugin", with_trust_in_all_but_one, "trust", "4 of 5 hooks are trusted -> start codex, type /hooks"
    ),
    "no hook ran in a session": Broken("claude-code", "install", with_a_session_without_hooks, "runs", "never ran"),
    "the archive is no database": Broken("codex", "plugin", with_a_broken_archive, "archive", "UNABRIDGED_ARCHIVE"),
    "the hooks are installed twice": Broken(
        "codex", "install", installed_twice, "duplicates", "-> unabridged uninstall codex --scope project"
    ),
}
MORE_BROKEN = {
    "the program's environment is broken": Broken(
        "claude-code", "install", program("exec python3 -c 'import no_such_library'"), "program", "no_such_library"
    ),
    "the program is of another version": Broken("claude-code", "plugin", program(OLD), "program", "is version 0.0.9"),
    "a comment is in the settings": Broken("claude-code", "install", with_a_comment, "hooks", "no plain JSON"),
    "the settings are cut off": Broken("claude-code", "plugin", with_cut_settings, "hooks", "is ignored"),
    "all hooks are turned off": Broken(
        "claude-code", "plugin", claude_settings(disableAllHooks=True), "hooks", "disableAllHooks"
    ),
    "the server was taken out": Broken("claude-code", "install", removed(".claude.json"), "MCP server", "has none"),
    "the plugin is of another version": Broken("codex", "plugin", with_an_old_plugin, "plugin", "is version 0.0.9"),
    "Codex trusts no hook": Broken("codex", "install", removed("state"), "trust", "0 of 5 hooks are trusted"),
    "a hook could not archive": Broken("claude-code", "plugin", with_a_failure, "runs", "the disk is full"),
    "the archive's folder is not there": Broken(
        "claude-code", "plugin", setting("UNABRIDGED_ARCHIVE", "sqlite:////nowhere/a.db"), "archive", "/nowhere"
    ),
    "hooks can't take notes": Broken(
        "claude-code", "plugin", setting("XDG_STATE_HOME", "{home}/archive.db"), "notes", "can't write"
    ),
    "the namespace can't be used": Broken(
        "claude-code", "plugin", setting("UNABRIDGED_NAMESPACE", ""), "settings", "UNABRIDGED_NAMESPACE"
    ),
    "the tools are offered twice": Broken(
        "claude-code", "plugin", with_a_server_of_the_project, "duplicates", ".mcp.json"
    ),
    "nothing is installed": Broken("pi", "nothing", lambda _, __: None, "set-up", "unabridged install pi"),
}
TRIED = BROKEN | (MORE_BROKEN if effort.ALL else {})


@rows("broken", TRIED.values(), ids=list(TRIED))
def test_each_broken_set_up_is_found_with_its_remedy(
    broken: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = new_machine(tmp_path, monkeypatch)
    if broken.how != "nothing":
        set_up(machine, broken.client, broken.how)
    broken.spoil(machine, monkeypatch)
    ran = run("doctor", broken.client, "--json")
    assert ran.code == 1
    assert broken.words in wrong_in(ran).get(broken.what, ""), ran.out


def test_a_line_a_check_is_printed_and_what_is_wrong_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = new_machine(tmp_path, monkeypatch)
    set_up(machine, "claude-code", "install")
    (machine.home / ".claude" / "settings.json").unlink()
    lines = run("doctor").out.splitlines()
    wrong = [line for line in lines if not line.startswith("ok     ")]
    assert len(lines) > len(wrong)
    assert [line.partition(". To do: ")[2] for line in wrong] == ["unabridged install claude-code"]


def test_without_any_client_it_says_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_machine(tmp_path, monkeypatch)
    ran = run("doctor")
    assert ran.code == 1
    assert "unabridged install CLIENT" in ran.out
    assert run("doctor", "emacs").code == 2


def test_a_doctor_leaves_nothing_in_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = new_machine(tmp_path, monkeypatch)
    run("doctor")
    archive = open_archive(machine.archive)
    assert not archive.namespaces()
    archive.close()
