"""Every block of code in the documentation runs: here, or in the test of the page that has one of its own."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import symtable
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

import workspace
from cli_case import SESSION, run
from places import ROOT
from rows import rows
from unabridged import Compactor, Hooks, Settings
from unabridged_cli.app import app
from unabridged_testing.loopback import Loopback, LoopbackReply

PAGES = sorted(p for p in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")] if p.name != "summary-turns.md")
ELSEWHERE = {
    "README.md": "packages/unabridged/tests/api/test_public.py",
    "adapters.md": "tests/helpers/doors/skeleton.py",
    "coming-from-langchain.md": "packages/unabridged/tests/adapters/test_langchain_examples.py",
    "crewai.md": "packages/unabridged/tests/adapters/test_crewai.py",
    "frameworks.md": "lab/scripts/frameworks/table.py",
    "gateway.md": "packages/unabridged-gateway/tests/test_gateway_examples.py",
    "google-adk.md": "packages/unabridged/tests/adapters/test_google_adk_examples.py",
    "langchain.md": "packages/unabridged/tests/adapters/test_langchain_examples.py",
    "litellm.md": "packages/unabridged/tests/adapters/test_litellm.py",
    "openai-agents.md": "packages/unabridged/tests/adapters/test_openai_agents_examples.py",
    "pydantic-ai.md": "packages/unabridged/tests/adapters/test_pydantic_ai_examples.py",
    "recall.md": "packages/unabridged/tests/recall/test_recall.py",
    "strands.md": "packages/unabridged/tests/adapters/test_strands_examples.py",
}
"""The pages whose Python another test runs, with what stands around it there."""
YOURS = {
    "coming-from-langchain.md": {"model", "tools"},  # a chat model of LangChain's, whichever
    "google-adk.md": {"model", "read_log"},  # a model of ADK's, and a tool with as many logs as the test reads
    "langchain.md": {"model", "tools"},  # a chat model of LangChain's, whichever
    "openai-agents.md": {"tools"},
    "pydantic-ai.md": {"model", "tools"},  # a model of Pydantic AI's, whichever
    "strands.md": {"model", "tools", "cheaper"},  # models of Strands', whichever
}
"""What a page uses and leaves to its reader, where any would do; the page says so, and its test puts one there."""
WORDS = {"text", "{toctree}", "{include}"}
"""Blocks that are no code: drawings, what a program prints, and how the site is put together."""
COMMANDS: Any = typer.main.get_command(app)
NOT_RUN = {"gateway", "inspect", "mcp", "watch", "install", "uninstall", "hook", "doctor", "eval"}
"""Commands that serve, change or check a client's configuration, or ask a model: of those, and those about a session,
the options must be there."""
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
EXTRAS = workspace.project()["optional-dependencies"]


class Block(NamedTuple):
    """A fenced block: its language and its lines."""

    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^(`{3,})(\S*)[^\n]*\n(.*?)^\1\s*$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(language, code) for _, language, code in found]


CODED = [page for page in PAGES if {block.language for block in blocks(page)} - WORDS]


@pytest.mark.parametrize("page", CODED, ids=lambda page: page.stem)
def test_the_code_of_the_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "xdg"))
    shutil.copy(SESSION, tmp_path / "session.json")
    (tmp_path / "session.jsonl").write_text("\n".join(map(json.dumps, json.loads(SESSION.read_text())["messages"])))
    elsewhere = ELSEWHERE.get(page.name)
    if elsewhere:
        assert f'"{page.name}"' in (ROOT / elsewhere).read_text(), f"{elsewhere} runs {page.name}"
    known: dict[str, Any] = {"__name__": page.stem}
    with Loopback(reading(), window=8_000) as provider:
        for name in ("OPENAI", "ANTHROPIC", "GEMINI"):
            monkeypatch.setenv(f"{name}_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", provider.url)
        for number, (language, code) in enumerate(blocks(page)):
            if language == "python" and not elsewhere:
                run_python(code, f"{page.name}: block {number}", known, tmp_path)
            elif language == "text" and page.name == "start.md":
                printed = re.sub(r"[\d,]+", "N", capsys.readouterr().out)
                assert [line for line in re.sub(r"[\d,]+", "N", code).splitlines() if line not in f"{printed}…"] == []
            elif language == "sh":
                run_shell(code)
            elif language == "json":
                json.loads(code)
            elif language == "toml":
                tomllib.loads(code)
            else:
                assert language in WORDS | {"python"}, f"{page.name}: nobody runs a block of {language!r}"
        close(known)
    assert provider.refused == []


@rows("page", CODED, ids=lambda page: page.stem)
def test_a_page_uses_nothing_that_it_does_not_show(page: Path) -> None:
    shown: set[str] = set()
    wanted: set[str] = set()
    for code in (block.code for block in blocks(page) if block.language == "python"):
        used, defined = names_in(symtable.symtable(code, page.name, "exec"))
        wanted |= used - shown - defined
        shown |= defined
    yours = YOURS.get(page.name, set())
    assert wanted - set(dir(builtins)) - {"__name__"} == yours
    said = re.findall(r"[^.]*\byour own\b", page.read_text(encoding="utf-8"))
    assert all(any(f"`{name}`" in sentence for sentence in said) for name in yours), "the page says that it is yours"


def names_in(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """The names that a block takes from outside of its functions, and those that it defines."""
    symbols = table.get_symbols()
    defined = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported() or one.is_namespace()}
    used = {one.get_name() for one in symbols if one.is_referenced()}
    inside = list(table.get_children())
    while inside:
        inner = inside.pop()
        used |= {one.get_name() for one in inner.get_symbols() if one.is_global() and one.is_referenced()}
        inside += inner.get_children()
    return used, defined


def reading() -> Any:
    """A model that reads two logs before each answer, where it has a tool."""
    numbers = itertools.count(1)

    def answer(messages: Any) -> LoopbackReply:
        del messages
        number = next(numbers)
        return (
            LoopbackReply("It is log 7.") if number % 8 == 0 else LoopbackReply("", [("read_log", {"number": number})])
        )

    return answer


def run_python(code: str, name: str, known: dict[str, Any], folder: Path) -> None:
    """A block in what the blocks before it left; one that begins with the name of a file is that file."""
    file = re.match(r"# (\w+\.py)\n", code)
    if file is None:
        exec(compile(code, name, "exec"), known)  # noqa: S102 - running the page is the test
        return
    (folder / file[1]).write_text(code, encoding="utf-8")
    if file[1].startswith("test_"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file[1]]
        alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert re.search(r"\d\d passed", done.stdout), done.stdout


def run_shell(code: str) -> None:
    """Each command as it stands; `pip`, `make` and a script by what they name."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if not words or words[0] in {"curl", "claude", "codex"}:
            continue
        if words[0] == "pip":
            assert words[1] == "install"
            named = [extra for word in words for extra in re.findall(r"\[(.*?)\]", word)]
            assert {extra for names in named for extra in names.split(",")} <= set(EXTRAS), line
        elif words[0] == "make":
            assert words[1] in TARGETS, line
        elif words[0] == ".venv/bin/python":
            assert (ROOT / words[1]).is_file(), line
        else:
            run_command(words)


def run_command(words: list[str]) -> None:
    assert words[0] == "unabridged", words
    if words[1] in NOT_RUN or any(re.fullmatch(r"[a-z-]+:[0-9a-f]+", word) for word in words):
        options = {option for parameter in COMMANDS.get_command(None, words[1]).params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, words
        return
    done = run(*words[1:])
    assert done.code == 0, (words, done.err)


def close(known: dict[str, Any]) -> None:
    """Let go of every client and compactor that the page left open."""
    for value in list(known.values()):
        if hasattr(value, "close") and not isinstance(value, type):
            closed = value.close()
            if inspect.iscoroutine(closed):
                asyncio.run(closed)


HOOKS = ROOT / "docs" / "hooks.md"


@rows("number", range(1, sum(block.language == "python" for block in blocks(HOOKS))))
def test_each_example_of_a_hook_needs_only_the_conversation_and_its_own_imports(number: int) -> None:
    conversation, *examples = [block.code for block in blocks(HOOKS) if block.language == "python"]
    known: dict[str, Any] = {"__name__": "hooks"}
    for code in (conversation, examples[number - 1]):
        exec(compile(code, f"hooks.md: example {number}", "exec"), known)  # noqa: S102 - running the page is the test
    close(known)


def test_the_page_on_hooks_has_an_example_of_each() -> None:
    text = HOOKS.read_text(encoding="utf-8")
    titles = re.findall(r"^## (\w+)\n+```python", text, re.MULTILINE)
    given = {*inspect.signature(Compactor).parameters, *Settings.__dataclass_fields__, *Hooks.__dataclass_fields__}
    assert set(titles) <= given
    listed = re.findall(r"^\| (?:\[`(\w+)`\]\(#\1\)|`(\w+)`) \| `", text, re.MULTILINE)
    assert [name for name, _ in listed if name] == titles
    assert {*Hooks.__dataclass_fields__, "on_event", "state", "origin", "redact", "pin"} == set(titles)


def test_a_language_on_the_page_has_only_entries_that_there_are() -> None:
    (shown,) = [json.loads(block.code) for block in blocks(ROOT / "docs" / "extending.md") if block.language == "json"]
    english = json.loads(
        (ROOT / "packages" / "unabridged" / "src" / "unabridged" / "languages" / "en.json").read_text(encoding="utf-8")
    )
    assert set(shown) <= set(english)
    assert set(shown["words"]) <= set(english["words"])


def test_no_page_has_a_test_of_its_own_for_nothing() -> None:
    names = [page.name for page in CODED]
    assert [name for name in ELSEWHERE if name not in names] == []


def commands() -> Iterator[str]:
    """Every command that a page names in its text."""
    for page in PAGES:
        yield from re.findall(r"`unabridged ([a-z]+)", page.read_text(encoding="utf-8"))


def test_every_command_that_a_page_names_is_there() -> None:
    assert set(commands()) <= set(COMMANDS.list_commands(None))
