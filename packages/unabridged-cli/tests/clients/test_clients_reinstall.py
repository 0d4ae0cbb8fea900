"""A second install, an uninstall after others wrote the file: what was there before the first is never lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cli_case import run
from install_case import CONFIG, PLACES, PROGRAM, SETTINGS, clients, files_in, home, install, path_of, uninstall, write
from unabridged_cli.clients import jsonc
from unabridged_cli.clients.configure import backup_path_of
from unabridged_cli.clients.entries import HOOK_EVENTS, build_hook_command
from unabridged_cli.clients.entries import HOOKS as OURS
from unabridged_cli.clients.registry import CLIENTS

__all__ = ["home"]

THEIRS = {"hooks": [{"type": "command", "command": "say done"}]}
IN_JSON = [param for param in PLACES if not str(param.values[1]).endswith(".toml")]
HOOKS = pytest.mark.parametrize(("name", "file"), [("claude-code", "settings.json"), ("codex", "hooks.json")])


def text_for(path: Path) -> str:
    return CONFIG if path.suffix == ".toml" else SETTINGS


def edited(path: Path, text: str) -> str:
    """The text with something of the user's behind ours."""
    return text + "\n[tui]\ntheme = 1\n" if path.suffix == ".toml" else text.rstrip()[:-1] + ', "theme": 1}\n'


# -- a second install -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "file"), PLACES)
@pytest.mark.parametrize("made", [False, True], ids=["a file that was there", "a file that it made"])
def test_a_second_install_leaves_a_file_that_was_edited_since(name: str, file: str, made: bool, home: Path) -> None:
    path = path_of(name, file)
    if not made:
        write(path, text_for(path))
    write(path, edited(path, install(path, name)))
    before = files_in(home)
    install(path, name)
    assert files_in(home) == before


def test_a_client_that_wrote_its_files_anew_has_it_all_already(home: Path) -> None:
    original = '{"model": "opus"}\n'
    write(home / ".claude" / "settings.json", original)
    run("install", "claude-code")
    for path in (home / ".claude" / "settings.json", home / ".claude.json"):
        value = json.loads(path.read_text())
        write(path, json.dumps({**value, "theme": "dark"}, indent=4, sort_keys=True))
    before = files_in(home)
    assert "has it all already; nothing was changed" in run("install", "claude-code").err
    assert files_in(home) == before
    assert backup_path_of(home / ".claude" / "settings.json").read_text() == original


@pytest.mark.parametrize(("name", "file"), PLACES)
def test_a_new_path_is_written_in_place_and_the_first_copy_survives(name: str, file: str) -> None:
    path = path_of(name, file)
    write(path, text_for(path))
    old = edited(path, install(path, name, "/old place/unabridged"))
    write(path, old)
    assert install(path, name, "/new place/unabridged") == old.replace("/old place/", "/new place/")
    assert backup_path_of(path).read_text() == text_for(path)


@HOOKS
def test_a_hook_behind_ours_keeps_its_index(name: str, file: str) -> None:
    path = path_of(name, file)
    value = json.loads(install(path, name, "/old/unabridged"))
    for event in HOOK_EVENTS:
        value["hooks"][event].append(THEIRS)
    places = [value["hooks"][event].index(THEIRS) for event in HOOK_EVENTS]
    write(path, json.dumps(value))
    for program in ("/old/unabridged", "/new/unabridged"):
        hooks = json.loads(install(path, name, program))["hooks"]
        assert [hooks[event].index(THEIRS) for event in HOOK_EVENTS] == places


@HOOKS
@pytest.mark.parametrize("text", ["", '{"model": "opus"}', SETTINGS], ids=["no file", "one line", "a file"])
def test_an_install_of_an_earlier_version_is_brought_in_line_and_taken_out_to_the_byte(
    name: str, file: str, text: str
) -> None:
    """Three hooks with 60 seconds each, and none at the end of a session."""
    path, old = path_of(name, file), text
    for event in ("PreCompact", "SessionStart", "PostCompact"):
        ours = {"type": "command", "command": build_hook_command(PROGRAM), "timeout": 60}
        old = jsonc.insert(old, ("hooks", event), None, {"hooks": [ours]})
    write(path, old)
    if text:
        write(backup_path_of(path), text)
    states = [row["state"] for row in run("status", name, "--json").json if row["path"] == str(path)]
    assert states == ["partly"]
    now = install(path, name)
    assert install(path, name) == now
    hooks = jsonc.parse_document(now).value["hooks"]
    assert [group.get("matcher") for group in hooks["SessionStart"]] == ["startup|resume|clear", "compact"]
    assert "60" not in now
    assert uninstall(path, name) == (text or None)


@HOOKS
@pytest.mark.parametrize("what", ["an event is gone", "a matcher", "another timeout", "twice"])
def test_what_is_not_right_is_written_anew_and_the_first_copy_survives(name: str, file: str, what: str) -> None:
    path = write(path_of(name, file), '{"model": "opus"}')
    value = json.loads(install(path, name))
    groups = value["hooks"]["PreCompact"]
    match what:
        case "an event is gone":
            del value["hooks"]["PreCompact"]
        case "a matcher":
            groups[0]["matcher"] = "manual"
        case "another timeout":
            groups[0]["hooks"][0]["timeout"] = 1
        case "twice":
            groups += groups
    write(path, json.dumps({**value, "theme": "dark"}))
    again = jsonc.parse_document(install(path, name)).value
    assert {event: len(groups) for event, groups in again["hooks"].items()} == Counter(hook.event for hook in OURS)
    assert again["hooks"]["PreCompact"] == again["hooks"]["PostCompact"]
    assert backup_path_of(path).read_text() == '{"model": "opus"}'
    assert json.loads(uninstall(path, name) or "") == {"model": "opus", "theme": "dark"}


def test_the_users_own_line_with_our_old_path_stays() -> None:
    path = write(path_of("claude-code", ".claude.json"), '{"mine": "/old/unabridged"}')
    install(path, "claude-code", "/old/unabridged")
    assert json.loads(install(path, "claude-code", "/new/unabridged"))["mine"] == "/old/unabridged"
    assert uninstall(path, "claude-code") == '{"mine": "/old/unabridged"}'


def test_what_codex_put_into_our_table_survives_a_second_install() -> None:
    path = path_of("codex", "config.toml")
    text = install(path, "codex") + '\n[mcp_servers.unabridged.tools.search_history]\napproval_mode = "approve"\n'
    write(path, text)
    assert install(path, "codex") == text


def test_a_server_that_was_written_anew_in_one_line_needs_no_second_install() -> None:
    path = path_of("codex", "config.toml")
    keys = install(path, "codex").splitlines()[1:]
    text = f"[mcp_servers]\nunabridged = {{ {', '.join(keys)} }}\n"
    write(path, text)
    assert install(path, "codex") == text


# -- an uninstall after others wrote the file -------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "file"), IN_JSON)
@pytest.mark.parametrize("indent", [None, 4])
def test_a_file_that_an_install_made_goes_though_its_client_wrote_it_anew(
    name: str, file: str, indent: int | None
) -> None:
    path = path_of(name, file)
    write(path, json.dumps(json.loads(install(path, name)), indent=indent))
    assert uninstall(path, name) is None


def test_a_toml_file_that_an_install_made_goes_though_its_client_wrote_it_anew() -> None:
    path = path_of("codex", "config.toml")
    write(path, "[mcp_servers]\n\n" + install(path, "codex"))
    assert uninstall(path, "codex") is None


@pytest.mark.parametrize("text", ["{}", "{}\n", '{"hooks": {}}'])
def test_a_file_that_was_there_stays_though_it_held_nothing(text: str) -> None:
    path = write(path_of("claude-code", "settings.json"), text)
    write(path, json.dumps(json.loads(install(path, "claude-code"))))
    assert json.loads(uninstall(path, "claude-code") or "") == json.loads(text)
    assert uninstall(path, "claude-code") is not None, "nor does a second uninstall take it"


def test_a_comment_in_a_file_that_an_install_made_keeps_it() -> None:
    path = path_of("claude-code", "settings.json")
    write(path, "// mine\n" + install(path, "claude-code"))
    assert (uninstall(path, "claude-code") or "").startswith("// mine\n")


# -- a copy that nobody knows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rewritten", [True, False], ids=["rewritten by hand", "deleted"])
def test_a_copy_that_an_uninstall_leaves_is_named(rewritten: bool, home: Path) -> None:
    path = write(home / ".claude" / "settings.json", SETTINGS)
    run("install", "claude-code")
    path.unlink()
    if rewritten:
        write(path, '{"model": "haiku"}')
    ran = run("uninstall", "claude-code")
    assert ran.code == 0
    assert f"{backup_path_of(path)} was left" in " ".join(ran.err.split())
    assert backup_path_of(path).read_text() == SETTINGS


@clients
@pytest.mark.parametrize("there", [True, False], ids=["a file", "no file"])
def test_a_foreign_file_under_the_copys_name_is_neither_written_over_nor_removed(
    name: str, there: bool, home: Path
) -> None:
    for place in CLIENTS[name].entries({"HOME": str(home)}, None):
        path = place.path
        if there and path.suffix != ".ts":
            write(path, text_for(path))
    write(backup_path_of(path), "somebody's own")
    before = files_in(home)
    ran = run("install", name)
    assert (ran.code, f"{backup_path_of(path)} is there already" in ran.line) == (2, True)
    assert files_in(home) == before, "all or nothing"
    assert run("uninstall", name).code == 0
    assert files_in(home) == before


def test_a_file_that_was_put_back_by_hand_takes_an_install_again() -> None:
    path = write(path_of("claude-code", "settings.json"), SETTINGS)
    first = install(path, "claude-code")
    write(path, backup_path_of(path).read_text())
    assert install(path, "claude-code") == first
    assert uninstall(path, "claude-code") == SETTINGS
    assert not backup_path_of(path).exists()


def test_a_link_under_the_copys_name_is_not_taken_for_one(home: Path) -> None:
    path = write(home / ".claude" / "settings.json", SETTINGS)
    backup_path_of(path).symlink_to(path)
    assert run("install", "claude-code").code == 2
    assert path.read_text() == SETTINGS
