"""The plugin for Claude Code and Codex: its files agree with the code, and its hooks never stop a client."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import unabridged
from places import ROOT
from plugin_case import PLUGIN, run_hook, write_program
from rows import rows
from unabridged_cli.clients.entries import HOOKS
from unabridged_cli.clients.registry import CLIENTS

HANDLERS = [
    (event, group.get("matcher", ""), handler)
    for event, groups in json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"].items()
    for group in groups
    for handler in group["hooks"]
]


def environment(tmp_path: Path, *folders: Path) -> dict[str, str]:
    """Return the environment of a hook: a PATH with the shell's tools, and these folders before them."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sh", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    path = os.pathsep.join(map(str, (*folders, tools)))
    return {"PATH": path, "HOME": str(tmp_path), "CLAUDE_PLUGIN_ROOT": str(PLUGIN)}


def test_both_manifests_are_one_and_have_the_projects_version() -> None:
    manifests = [json.loads((PLUGIN / f".{name}-plugin" / "plugin.json").read_text()) for name in ("claude", "codex")]
    assert manifests[0] == manifests[1]
    assert manifests[0]["version"] == unabridged.__version__
    (listed,) = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text())["plugins"]
    assert (ROOT / listed["source"] / ".claude-plugin" / "plugin.json").is_file()
    assert listed["name"] == manifests[0]["name"] == "unabridged"


def test_the_plugin_has_the_hooks_and_the_server_of_an_install() -> None:
    listed = sorted((event, matcher, handler["timeout"]) for event, matcher, handler in HANDLERS)
    assert listed == sorted(HOOKS)
    server = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"]["unabridged"]
    assert [server["command"], *server["args"]] == ["unabridged", "mcp"]
    codex = next(entry for entry in CLIENTS["codex"].entries({"HOME": "/nowhere"}, None) if entry.what == "MCP server")
    assert json.dumps(server["env_vars"]) in codex.add("", "/x/unabridged")


@rows("handler", [handler for _, _, handler in HANDLERS], ids=lambda handler: handler["command"])
def test_a_hook_without_the_program_says_so_once_a_session_and_ends_well(
    handler: dict[str, Any], tmp_path: Path
) -> None:
    done = run_hook(handler["command"], b"{}", environment(tmp_path))
    assert (done.returncode, done.stderr) == (0, b"")
    if " start" not in handler["command"]:
        assert not done.stdout
        return
    (line,) = done.stdout.splitlines()
    assert "pip install" in json.loads(line)["systemMessage"]


@pytest.mark.parametrize("script", ["exit 2", "kill -9 $$", "exec /nowhere"])
def test_a_hook_whose_program_fails_ends_well(script: str, tmp_path: Path) -> None:
    """An exit code of 2 would stop Claude Code from compacting."""
    given = environment(tmp_path, write_program(tmp_path / "bin", script).parent)
    for _, _, handler in HANDLERS:
        assert run_hook(handler["command"], b"{}", given).returncode == 0


def test_a_hook_of_a_plugin_whose_folder_is_gone_ends_well(tmp_path: Path) -> None:
    given = {**environment(tmp_path), "CLAUDE_PLUGIN_ROOT": str(tmp_path / "gone")}
    assert all(run_hook(handler["command"], b"{}", given).returncode == 0 for _, _, handler in HANDLERS)


def test_only_the_start_of_a_session_says_what_is_missing() -> None:
    assert [matcher for _, matcher, handler in HANDLERS if " start" in handler["command"]] == ["startup|resume|clear"]
