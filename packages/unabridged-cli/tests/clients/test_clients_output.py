"""What an install starts, shows and says: the command, a dry run, the status, and what can't be done."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_case import run
from effort import ALL
from install_case import CONFIG, PROGRAM, SETTINGS, clients, files_in, fill, home, install, path_of, scopes, write
from patience import PATIENCE
from unabridged_cli.clients import jsonc
from unabridged_cli.clients.configure import apply_change, find_program, plan_install, read_entry_status
from unabridged_cli.clients.entries import build_hook_command
from unabridged_cli.clients.registry import CLIENTS

__all__ = ["home"]


# -- the command that a client starts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
@pytest.mark.parametrize("script", [None, "exit 2", "exit 1", "kill -9 $$", "not a program"])
def test_a_hook_ends_clean_whatever_became_of_the_program(shell: str, script: str | None, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    program = tmp_path / "it's a folder" / "unabridged"
    if script is not None:
        head = "#!/nowhere/python\n" if script == "not a program" else "#!/bin/sh\n"
        write(program, f"{head}{script}\n").chmod(0o755)
    ended = subprocess.run(
        [shell, "-c", build_hook_command(str(program))], capture_output=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 0, "2 would stop Claude Code from compacting"
    assert ended.stdout == b""


def test_the_command_is_absolute_and_there(home: Path) -> None:
    run("install", "claude-code")
    (ours,) = (
        place
        for place in map(read_entry_status, CLIENTS["claude-code"].entries({"HOME": str(home)}, None))
        if place.what == "hooks"
    )
    assert ours.program is not None
    assert Path(ours.program).is_absolute()
    assert ours.can_start_program


def test_the_command_is_the_one_that_was_called_a_link_as_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a tool like pipx links stays where it is when the environment behind it changes."""
    real = write(tmp_path / "env" / "bin" / "unabridged", "#!/bin/sh\n")
    real.chmod(0o755)
    link = tmp_path / "bin" / "unabridged"
    link.parent.mkdir()
    link.symlink_to(real)
    monkeypatch.setattr("sys.argv", [str(link), "install"])
    assert find_program({}) == str(link)
    link.unlink()
    monkeypatch.setattr("sys.executable", str(tmp_path / "nowhere" / "python"))
    assert find_program({"PATH": str(real.parent)}) == str(real)
    with pytest.raises(ValueError, match="can't find the command"):
        find_program({"PATH": str(tmp_path)})


def test_a_command_in_a_cache_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = write(tmp_path / ".cache" / "uv" / "unabridged", "#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(program)])
    assert "is in a cache, which may be emptied" in run("install", "codex").err


# -- dry-run, status, trouble -----------------------------------------------------------------------------------------


@clients
@scopes
@pytest.mark.parametrize("filled", [True, False])
def test_a_dry_run_prints_the_change_and_makes_none(name: str, scope: str, filled: bool, home: Path) -> None:
    if filled:
        fill(name, scope, home)
    before = files_in(home, Path.cwd())
    shown = run("install", name, "--scope", scope, "--dry-run").out
    assert files_in(home, Path.cwd()) == before
    assert "unabridged" in shown
    patch = shutil.which("patch")
    if filled or patch is None:
        return  # what others wrote beside ours is masked
    subprocess.run([patch, "-p0", "-s", "-d/"], input=shown.encode(), check=True, timeout=PATIENCE)
    patched = files_in(home, Path.cwd())
    assert run("install", name, "--scope", scope).err.count("nothing was changed") == 1
    assert patched == files_in(home, Path.cwd())


def test_as_json_what_was_done_is_one_document(home: Path) -> None:
    done = run("install", "codex", "--json")
    assert done.err == ""
    assert [(change["what"], change["done"]) for change in done.json["changes"]] == [
        ("hooks", "written"),
        ("MCP server", "written"),
    ]
    assert any("/hooks" in note for note in done.json["notes"])
    assert [change["done"] for change in run("uninstall", "codex", "--json").json["changes"]] == ["removed", "removed"]
    assert files_in(home) == {}


SECRETS = {
    "an object": {"oauth": {"token": "sk-SECRET-1"}, "pin": 4711000, "sk-SECRET-2": True, "many": ["sk-SECRET-3"]},
    "servers": {"mcpServers": {"a": {"env": {"T": "sk-SECRET-1"}}}, "mcp": {"a": {"headers": {"K": "sk-SECRET-2"}}}},
    "hooks": {
        "hooks": {
            "PreCompact": [{"matcher": "sk-SECRET-1", "hooks": [{"type": "command", "command": "save sk-SECRET-2"}]}],
            "SessionStart": [],
            "SessionEnd": [{"hooks": [{"type": "command", "command": "say --key sk-SECRET-3", "timeout": 4711000}]}],
        }
    },
}
LAID_OUT: dict[str, Callable[[Any], str]] = {
    "on one line": json.dumps,
    "packed": lambda value: json.dumps(value, separators=(",", ":")),
    "indented": lambda value: json.dumps(value, indent=2),
    "with comments": lambda value: f"// sk-SECRET-8\n{json.dumps(value)[:-1]} /* sk-\nSECRET-9 */ }} // sk-SECRET-7",
}
CONFIGS = ['key = "sk-SECRET-1"', '[a.b]\nkey = """\nsk-SECRET-1\n"""\n# sk-SECRET-2', "a = [ # x\n 'sk-SECRET-1' ]\n"]


WRITTEN = [
    (name, laid_out, what)
    for i, name in enumerate(CLIENTS)
    for j, laid_out in enumerate(LAID_OUT)
    for k, what in enumerate(SECRETS)
    if ALL or (i + j + k) % len(SECRETS) == 0
]
"""Each client with each layout, and each of these with each secret; with ALL=1 all three with each other."""


@pytest.mark.parametrize(("name", "laid_out", "what"), WRITTEN)
def test_nothing_that_shows_a_change_shows_what_is_not_ours(name: str, laid_out: str, what: str, home: Path) -> None:
    """An install and an uninstall, tried and done, whatever the file looks like."""
    for place in CLIENTS[name].entries({"HOME": str(home)}, None):
        if place.path.suffix == ".toml":
            write(place.path, CONFIGS[len(what) % len(CONFIGS)])
        elif place.path.suffix != ".ts":
            write(place.path, LAID_OUT[laid_out](SECRETS[what]))
    for command, *more in (("install", "--dry-run"), ("install", "--json"), ("uninstall", "--dry-run"), ("uninstall",)):
        done = run(command, name, *more)
        assert done.code == 0, done.err
        assert done.out
        assert "SECRET" not in done.out + done.err
        assert "4711" not in done.out + done.err


@pytest.mark.parametrize("text", [*CONFIGS, CONFIG])
def test_a_diff_shows_nothing_of_a_toml_file_that_is_not_ours(text: str, home: Path) -> None:
    write(home / ".codex" / "config.toml", text)
    shown = run("install", "codex", "--dry-run").out
    assert "+[mcp_servers.unabridged]" in shown
    assert "secret" not in shown.lower()


def test_what_of_ours_moves_past_somebodys_own_shows_nothing_of_that(home: Path) -> None:
    """An install from before has ours in front of theirs; the new one puts it behind."""
    ours = {"type": "command", "command": build_hook_command("/old/unabridged"), "timeout": 60}
    theirs = {"type": "command", "command": "say sk-SECRET-1"}
    groups = [{"hooks": [ours]}, {"hooks": [theirs]}]
    for laid_out in LAID_OUT.values():
        write(home / ".claude" / "settings.json", laid_out({"hooks": {"PreCompact": groups, "Stop": groups}}))
        shown = run("install", "claude-code", "--dry-run").out
        assert "/old/unabridged" in shown
        assert "SECRET" not in shown


def test_status_says_what_stands_where_and_whether_it_runs(home: Path) -> None:
    assert {row["state"] for row in run("status", "--json").json} == {"absent"}
    run("install", "codex")
    rows = run("status", "codex", "--json").json
    assert [(row["scope"], row["what"], row["state"], row["runs"]) for row in rows] == [
        ("user", "hooks", "installed", True),
        ("user", "MCP server", "installed", True),
        ("project", "hooks", "absent", None),
        ("project", "MCP server", "absent", None),
    ]
    install(home / ".codex" / "hooks.json", "codex", "/gone/unabridged")
    ran = run("status", "codex")
    assert "its program is gone" in ran.out
    assert "/gone/unabridged, which is gone: unabridged install codex" in ran.err


def test_status_tells_a_hook_that_is_missing(home: Path) -> None:
    path = write(home / ".claude" / "settings.json", "{}")
    text = install(path, "claude-code")
    path.write_text(jsonc.remove(text, ("hooks", "SessionStart")))
    states = [row["state"] for row in run("status", "claude-code", "--json").json]
    assert states == ["partly", "absent", "absent", "absent"]
    install(path, "claude-code")
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["claude-code", "codex"])
@pytest.mark.parametrize("text", ["// mine\n{}\n", '{"a": 1,}'])
def test_a_client_that_reads_plain_json_ignores_a_file_with_comments_and_that_is_said(
    name: str, text: str, home: Path
) -> None:
    path = write(path_of(name, "settings.json" if name == "claude-code" else "hooks.json"), text)
    ran = run("install", name)
    assert ran.code == 0
    assert f"{path} is ignored by its client: it is no plain JSON" in ran.err
    assert "is ignored by its client" in run("status", name).err
    run("uninstall", name)
    assert path.read_text() == text
    assert home in path.parents


def test_hooks_that_are_switched_off_are_said(home: Path) -> None:
    write(home / ".claude" / "settings.json", '{"disableAllHooks": true}')
    assert "is ignored by its client: disableAllHooks is set" in run("install", "claude-code").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"hooks": ', "expected a value"),
        ('{"hooks": []}', "hooks is not an object"),
        ('{"hooks": {"PreCompact": {}}}', "hooks.PreCompact is not a list"),
    ],
)
def test_a_file_that_cant_be_read_stops_all_before_anything_is_written(text: str, said: str, home: Path) -> None:
    path = write(home / ".claude" / "settings.json", text)
    ran = run("install", "claude-code")
    assert ran.code == 2
    assert str(path) in ran.line
    assert said in ran.line
    assert "nothing was changed" in ran.line
    assert files_in(home) == {path: text.encode()}


@pytest.mark.parametrize(("file", "text"), [("config.toml", "a = {}\n"), ("hooks.json", '{{"a": {}}}\n')])
def test_a_number_that_is_too_long_to_read_stops_all_with_the_files_name(file: str, text: str, home: Path) -> None:
    path = write(path_of("codex", file), text.format("1" * 5_000))
    before = files_in(home)
    for command in ("install", "uninstall"):
        ran = run(command, "codex")
        assert ran.code == 2
        assert f"can't change {path}: " in ran.line
        assert "digits" in ran.line
        assert "nothing was changed" in ran.line
    assert "unreadable" in run("status", "codex", "--json").out
    assert files_in(home) == before


def test_a_table_that_cant_be_added_to_is_said(home: Path) -> None:
    path = write(home / ".codex" / "config.toml", 'mcp_servers = { a = { command = "b" } }\n')
    ran = run("install", "codex")
    assert (ran.code, "make it a table of its own" in ran.line) == (2, True)
    assert files_in(home) == {path: path.read_bytes()}


def test_a_file_that_is_not_utf_8_is_said_and_stays(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(b"# caf\xe9\n")
    ran = run("install", "codex")
    assert (ran.code, "byte 5 is no UTF-8" in ran.line) == (2, True)
    assert files_in(home) == {path: b"# caf\xe9\n"}


def test_a_file_that_changed_in_this_moment_is_not_written_over(home: Path) -> None:
    path = write(home / ".claude" / "settings.json", "{}")
    (change,) = plan_install(CLIENTS["claude-code"].entries({"HOME": str(home)}, None)[:1], PROGRAM)
    write(path, '{"a": 1}')
    with pytest.raises(ValueError, match="run it again"):
        apply_change(change, home)
    assert path.read_text() == '{"a": 1}'


def test_a_link_stays_a_link_and_rights_stay_as_they_are(home: Path) -> None:
    kept = write(home / "dotfiles" / "settings.json", SETTINGS)
    kept.chmod(0o640)
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.symlink_to(kept)
    run("install", "claude-code")
    assert path.is_symlink()
    assert "unabridged" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    run("uninstall", "claude-code")
    assert kept.read_text() == SETTINGS


@clients
def test_a_link_to_a_file_that_is_not_there_yet_is_as_it_was_after_an_uninstall(name: str, home: Path) -> None:
    links = [place.path for place in CLIENTS[name].entries({"HOME": str(home)}, None)]
    for link in links:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(home / "dotfiles" / link.name)
    (home / "dotfiles").mkdir()
    run("install", name)
    assert all("unabridged" in link.read_text() for link in links)
    run("uninstall", name)
    assert all(link.is_symlink() for link in links)
    assert list((home / "dotfiles").iterdir()) == []


@clients
@pytest.mark.parametrize("what", ["a folder", "a link to itself"])
def test_what_is_no_file_is_told_and_left_alone(what: str, name: str, home: Path) -> None:
    *others, path = [place.path for place in CLIENTS[name].entries({"HOME": str(home)}, None)]
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "a folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    for command in ("install", "uninstall"):
        ran = run(command, name)
        assert ran.code == 2
        assert f"can't read {path}" in ran.err
        assert not any(other.exists() for other in others), "all or nothing"
    assert "unreadable" in run("status", name, "--json").out


@clients
def test_what_is_new_is_its_owners_alone(name: str, home: Path) -> None:
    fill(name, "user", home)
    before = set(files_in(home))
    run("install", name)
    made = set(files_in(home)) - before
    assert made
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}


def test_a_client_that_is_unknown_is_said_with_those_that_are_known() -> None:
    ran = run("install", "cursor")
    assert (ran.code, ran.line) == (
        2,
        "unabridged: there is no client 'cursor': choose one of claude-code, codex, pi, opencode",
    )


@clients
def test_an_uninstall_of_what_was_never_installed_changes_nothing(name: str, home: Path) -> None:
    fill(name, "user", home)
    before = files_in(home)
    ran = run("uninstall", name)
    assert ran.code == 0
    assert "nothing was changed" in ran.err
    assert files_in(home) == before


def test_codex_users_are_told_to_trust_the_hooks() -> None:
    assert "/hooks" in run("install", "codex").err


def test_a_clients_own_variable_says_where_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    run("install", "claude-code")
    run("install", "codex")
    made = {str(path.relative_to(tmp_path)) for path in files_in(tmp_path / "claude", tmp_path / "codex")}
    assert made == {"claude/settings.json", "claude/.claude.json", "codex/hooks.json", "codex/config.toml"}
    assert files_in(tmp_path / "home") == {}
