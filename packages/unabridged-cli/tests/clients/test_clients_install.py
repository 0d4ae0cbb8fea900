"""Into a client's configuration and out of it again: nothing of anybody else's changes by a byte."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from cli_case import run
from install_case import (
    CONFIG,
    EMPTY_BOXES,
    PLACES,
    PROGRAM,
    SETTINGS,
    SHAPES,
    clients,
    files_in,
    fill,
    home,
    install,
    path_of,
    scopes,
    uninstall,
    write,
)
from unabridged_cli.clients import jsonc
from unabridged_cli.clients.configure import backup_path_of
from unabridged_cli.clients.entries import HOOK_EVENTS, build_hook_command

__all__ = ["home"]


# -- there and back ---------------------------------------------------------------------------------------------------


@clients
@scopes
def test_install_then_uninstall_leaves_every_file_as_it_was(name: str, scope: str, home: Path) -> None:
    fill(name, scope, home)
    before = files_in(home, Path.cwd())
    assert run("install", name, "--scope", scope).code == 0
    after = files_in(home, Path.cwd())
    assert after != before
    assert run("uninstall", name, "--scope", scope).code == 0
    assert files_in(home, Path.cwd()) == before


@clients
@scopes
def test_where_there_was_nothing_nothing_is_left(name: str, scope: str, home: Path) -> None:
    assert run("install", name, "--scope", scope).code == 0
    assert files_in(home, Path.cwd())
    assert run("uninstall", name, "--scope", scope).code == 0
    assert list(home.iterdir()) == list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(("name", "file"), PLACES)
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_whatever_shape_a_file_has_it_gets_it_back(name: str, file: str, shape: str) -> None:
    path = path_of(name, file)
    text = SHAPES[shape](CONFIG if path.suffix == ".toml" else SETTINGS)
    write(path, text)
    assert install(path, name) != text
    assert uninstall(path, name) == text
    assert not backup_path_of(path).exists()


@pytest.mark.parametrize("text", EMPTY_BOXES)
@pytest.mark.parametrize("file", ["settings.json", ".claude.json"])
def test_brackets_that_were_empty_are_so_again(file: str, text: str) -> None:
    path = write(path_of("claude-code", file), text)
    install(path, "claude-code")
    assert uninstall(path, "claude-code") == text


@pytest.mark.parametrize(("name", "file"), PLACES)
def test_what_was_written_between_stays(name: str, file: str) -> None:
    path = path_of(name, file)
    text, more = (CONFIG, "\n[tui]\ntheme = 1 # new\n") if path.suffix == ".toml" else (SETTINGS, "\n// new\n")
    write(path, text)
    write(path, install(path, name) + more)
    assert uninstall(path, name) == text + more


def test_a_client_that_rewrote_its_file_gets_out_what_is_ours_alone() -> None:
    path = write(path_of("claude-code", ".claude.json"), '{"numStartups": 1}')
    value = json.loads(install(path, "claude-code"))
    write(path, json.dumps({**value, "numStartups": 2, "theme": "dark"}, indent=4))
    assert json.loads(uninstall(path, "claude-code") or "") == {"numStartups": 2, "theme": "dark"}


def test_brackets_that_were_there_before_stay_when_the_file_changed_since() -> None:
    path = write(path_of("claude-code", "settings.json"), '{\n  "hooks": {"PreCompact": []}\n}\n')
    write(path, install(path, "claude-code").replace("{\n", '{\n  "model": "opus",\n', 1))
    assert uninstall(path, "claude-code") == '{\n  "model": "opus",\n  "hooks": {"PreCompact": []}\n}\n'


def test_a_hook_that_somebody_moved_into_a_group_of_theirs_goes_and_the_group_stays() -> None:
    ours = {"type": "command", "command": build_hook_command(PROGRAM)}
    theirs = {"type": "command", "command": "say done"}
    path = write(
        path_of("claude-code", "settings.json"), json.dumps({"hooks": {"PreCompact": [{"hooks": [ours, theirs]}]}})
    )
    assert json.loads(uninstall(path, "claude-code") or "") == {"hooks": {"PreCompact": [{"hooks": [theirs]}]}}


def test_tables_that_codex_put_into_ours_go_with_it() -> None:
    path = write(path_of("codex", "config.toml"), CONFIG)
    tools = '\n[mcp_servers.unabridged.tools.search_history]\napproval_mode = "approve"\n\n# trusted\n[x]\ny = 1\n'
    write(path, install(path, "codex") + tools)
    left = uninstall(path, "codex") or ""
    assert tomllib.loads(left) == {**tomllib.loads(CONFIG), "x": {"y": 1}}
    assert left == CONFIG + "\n# trusted\n[x]\ny = 1\n"


# -- what is in there then --------------------------------------------------------------------------------------------


SECONDS = {
    ("SessionStart", "startup|resume|clear"): 5,
    ("SessionStart", "compact"): 30,
    ("PreCompact", None): 30,
    ("PostCompact", None): 30,
    ("SessionEnd", None): 3,
}
"""How long each client may wait for each hook."""


@pytest.mark.parametrize(("name", "file"), [("claude-code", "settings.json"), ("codex", "hooks.json")])
def test_hooks_are_added_behind_those_that_are_there_each_with_its_own_time(name: str, file: str) -> None:
    path = write(path_of(name, file), SETTINGS)
    value = jsonc.parse_document(install(path, name)).value
    before = jsonc.parse_document(SETTINGS).value
    found = {}
    for event in HOOK_EVENTS:
        there = before["hooks"].get(event, [])
        assert value["hooks"][event][: len(there)] == there
        for group in value["hooks"][event][len(there) :]:
            (ours,) = group["hooks"]
            assert (ours["type"], ours["command"]) == ("command", build_hook_command(PROGRAM))
            found[event, group.get("matcher")] = ours["timeout"]
    assert found == SECONDS
    assert set(value["hooks"]) == {*HOOK_EVENTS, "Stop"}
    assert value["hooks"]["Stop"] == before["hooks"]["Stop"]
    assert {key: value[key] for key in before if key != "hooks"} == {
        key: before[key] for key in before if key != "hooks"
    }


def test_the_mcp_server_stands_where_each_client_looks_for_it() -> None:
    for name, file, path in (
        ("claude-code", ".claude.json", ("mcpServers", "unabridged")),
        ("opencode", "opencode.json", ("mcp", "unabridged")),
    ):
        entry = jsonc.value_at(install(path_of(name, file), name), path)
        command = entry["command"] if name == "opencode" else [entry["command"], *entry["args"]]
        assert command == [PROGRAM, "mcp"]
    entry = tomllib.loads(install(path_of("codex", "config.toml"), "codex"))["mcp_servers"]["unabridged"]
    assert [entry["command"], *entry["args"]] == [PROGRAM, "mcp"]
    assert "UNABRIDGED_ARCHIVE" in entry["env_vars"], "Codex hands on no variable that is not named"
    assert entry["startup_timeout_sec"] > 10, "Codex waits ten seconds by default, which a busy machine may need"


@clients
@scopes
def test_a_second_install_changes_nothing(name: str, scope: str, home: Path) -> None:
    fill(name, scope, home)
    run("install", name, "--scope", scope)
    before = files_in(home, Path.cwd())
    ran = run("install", name, "--scope", scope)
    assert ran.code == 0
    assert "nothing was changed" in ran.err
    assert files_in(home, Path.cwd()) == before


@pytest.mark.parametrize(("name", "file"), PLACES)
def test_an_install_from_another_place_replaces_the_first(name: str, file: str) -> None:
    path = path_of(name, file)
    text = CONFIG if path.suffix == ".toml" else SETTINGS
    write(path, text)
    install(path, name, "/old/unabridged")
    again = install(path, name)
    assert "/old/unabridged" not in again
    assert "/opt/my tools" in again
    assert uninstall(path, name) == text


def test_a_server_that_somebody_made_under_our_name_is_left_alone(home: Path) -> None:
    own = '{"mcpServers": {"unabridged": {"command": "/x/unabridged", "args": ["mcp", "--thread", "t"]}}}'
    path = write(home / ".claude.json", own)
    ran = run("install", "claude-code")
    assert "was left as it is" in ran.err
    assert path.read_text() == own
    run("uninstall", "claude-code")
    assert path.read_text() == own


@scopes
def test_a_file_with_comments_that_opencode_gets_later_hides_nothing_of_ours(scope: str, home: Path) -> None:
    folder = home / ".config" / "opencode" if scope == "user" else Path.cwd()
    write(folder / "opencode.json", '{"a": 1}')
    before = files_in(home, Path.cwd())
    run("install", "opencode", "--scope", scope)
    later = write(folder / "opencode.jsonc", '{"b": 2} // mine')
    shown = [row for row in json.loads(run("status", "opencode", "--json").out) if row["scope"] == scope]
    assert {row["state"] for row in shown} == {"installed"}
    assert "nothing was changed" in run("install", "opencode", "--scope", scope).err
    run("uninstall", "opencode", "--scope", scope)
    assert later.read_text() == '{"b": 2} // mine'
    later.unlink()
    assert files_in(home, Path.cwd()) == before


def test_both_files_of_opencode_are_looked_at_where_both_have_ours(home: Path) -> None:
    folder = home / ".config" / "opencode"
    run("install", "opencode")
    write(folder / "opencode.jsonc", (folder / "opencode.json").read_text())
    assert len(json.loads(run("uninstall", "opencode", "--json").out)["changes"]) == 3
    assert list(folder.glob("opencode.json*")) == []


def test_a_file_of_opencodes_that_cant_be_read_and_names_ours_is_told(home: Path) -> None:
    folder = home / ".config" / "opencode"
    run("install", "opencode")
    broken = folder / "opencode.json"
    broken.write_text(broken.read_text() + "}")
    write(folder / "opencode.jsonc", "{}")
    ran = run("uninstall", "opencode")
    assert ran.code == 2
    assert str(broken) in ran.line


def test_a_file_of_somebodys_under_our_name_is_left_alone(home: Path) -> None:
    path = write(home / ".pi" / "agent" / "extensions" / "unabridged.ts", "export default () => {};\n")
    before = files_in(home)
    said = run("install", "pi").err
    assert "was left as it is" in said
    assert "already" not in said
    assert "the extension brings" not in said, "ours is not there"
    run("uninstall", "pi")
    assert files_in(home) == before
    assert path.exists()


@pytest.mark.parametrize(("name", "file"), [("pi", ".pi/extensions"), ("opencode", ".opencode/plugins")])
def test_a_file_of_ours_says_how_it_is_taken_away_where_it_is(
    name: str, file: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = home / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    run("install", name, "--scope", "project")
    assert f"`unabridged uninstall {name} --scope project`" in (project / file / "unabridged.ts").read_text()
    run("uninstall", name, "--scope", "project")
    assert files_in(project) == {}


def test_an_extension_of_ours_that_somebody_wrote_into_is_told_and_taken_away(home: Path) -> None:
    run("install", "pi")
    path = home / ".pi" / "agent" / "extensions" / "unabridged.ts"
    path.write_text(re.sub("const PROGRAM = .*", r'const PROGRAM = "\\q";', path.read_text()))
    ran = run("status", "pi")
    assert ran.code == 1
    assert "install it again" in ran.err
    run("uninstall", "pi")
    assert not path.exists()
