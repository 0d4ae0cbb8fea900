"""What the package promises to be: its names, its imports, its README."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unabridged
from places import ROOT

CORE = {
    "ArchiveError",
    "Compaction",
    "Compactor",
    "Finding",
    "Hooks",
    "IllegalConversation",
    "Outlook",
    "Receipt",
    "Settings",
    "SettingsError",
    "SummaryFailed",
    "UnabridgedError",
    "WontFit",
    "check",
    "dump",
    "load",
    "native",
    "repair",
    "thread",
    "wrap",
}
FRAMEWORKS = {
    "agent_framework", "anthropic", "agents", "cryptography", "deepagents", "genai_prices", "google", "httpx",
    "httpx2", "hypothesis", "langchain", "langchain_core", "langgraph", "llama_index", "mcp", "numpy", "openai",
    "platformdirs", "psycopg", "pydantic", "pydantic_ai", "pytest", "requests", "rich", "starlette", "strands",
    "tiktoken", "toktok", "typer", "uvicorn",
}  # fmt: skip


def test_the_public_names_are_exactly_these() -> None:
    assert set(unabridged.__all__) == CORE
    assert all(hasattr(unabridged, name) for name in CORE)


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after this statement and not before it."""
    code = (
        "import sys, json; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_importing_the_package_loads_the_standard_library_and_nothing_else() -> None:
    loaded = loaded_by("import unabridged")
    assert loaded - set(sys.stdlib_module_names) == {"unabridged"}
    assert not loaded & FRAMEWORKS


def test_what_wraps_a_client_loads_no_sdk() -> None:
    loaded = loaded_by("import unabridged\nunabridged.wrap, unabridged.thread, unabridged.load(unabridged.dump([{}]))")
    assert not loaded & FRAMEWORKS


def test_a_whole_compaction_loads_no_framework() -> None:
    loaded = loaded_by(
        "import unabridged\n"
        "messages = [{'role': 'user' if i % 2 == 0 else 'assistant', 'content': 'word ' * 200} for i in range(51)]\n"
        "assert unabridged.Compactor(window=4000, archive='memory:').fit(messages, thread='t').changed"
    )
    assert not loaded & FRAMEWORKS


def test_core_modules_import_no_adapter() -> None:
    root = ROOT / "packages" / "unabridged" / "src" / "unabridged"
    for file in root.rglob("*.py"):
        if file in {root / "__init__.py", root / "formats" / "__init__.py"}:
            continue  # the names there are loaded when they are used: a message of that framework, for a format
        if "adapters" in file.parts:
            continue
        assert "unabridged.adapters" not in file.read_text(), file


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_code_in_the_readme_runs_and_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    for number, code in enumerate(blocks(ROOT / "README.md")):
        exec(compile(code, f"README block {number}", "exec"), {})  # noqa: S102 - running the README is the test
    printed = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert capsys.readouterr().out == "".join(printed) != ""
