"""The reference is what the commands say, every command says an example, and no section goes without a word."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import typer

from cli_case import run
from places import ROOT
from rows import rows
from unabridged import __version__
from unabridged.settings import OPTIONAL_SECTIONS
from unabridged_cli.app import app

GROUP: Any = typer.main.get_command(app)
TOP = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}
GROUPS = {name: command.commands for name, command in TOP.items() if hasattr(command, "commands")}
COMMANDS = {name: command for name, command in TOP.items() if name not in GROUPS} | {
    f"{group} {name}": command for group, commands in GROUPS.items() for name, command in commands.items()
}


def test_the_reference_is_up_to_date() -> None:
    code = "import sys; sys.path.insert(0, 'lab/scripts'); import generate_cli_docs as docs; print(docs.page(), end='')"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / "cli.md").read_text() == made, "run lab/scripts/generate_cli_docs.py"


def test_the_page_on_summaries_names_every_section_that_can_be_left_out() -> None:
    page = (ROOT / "docs" / "summaries.md").read_text(encoding="utf-8")
    lines = page.partition("## What stands in it")[2].partition("\n## ")[0].splitlines()
    named = [name for line in lines if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(named) == sorted(OPTIONAL_SECTIONS)


@rows("name", COMMANDS)
def test_every_command_has_an_example_and_json(name: str) -> None:
    done = run(*name.split(), "--help")
    assert done.code == 0
    assert f"unabridged {name}" in done.out
    options = [option for parameter in COMMANDS[name].params for option in parameter.opts]
    assert "--json" in options or name in {
        "hook",
        "mcp",
        "gateway",
        "inspect",
    }  # whose output is for a program, or a browser


def test_the_version_and_the_exit_codes_are_told() -> None:
    assert run("--version").out.strip() == __version__
    assert "Exit codes" in run("--help").out


def test_no_file_of_the_command_line_is_long() -> None:
    for file in (ROOT / "packages" / "unabridged-cli" / "src" / "unabridged_cli").glob("**/*.py"):
        assert len(file.read_text().splitlines()) <= 300, file.name
