"""An adapter whose framework is too old says which version is installed and which one it needs; bounds stand once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import framework_versions
import workspace
from places import HELPERS
from rows import rows
from unabridged.adapters.framework_versions import LOWEST_VERSIONS, check_framework
from unabridged.errors import NotInstalled

EXTRAS = workspace.project()["optional-dependencies"]
ADAPTERS = Path(importlib.import_module("unabridged.adapters").__path__[0])
NO_FRAMEWORK = {"kit", "sdk"}
OLD = "0.0.1"
MODULES = {
    "agent-framework": "agent_framework",
    "claude-agent-sdk": "claude_agent_sdk",
    "crewai": "crewai",
    "google-adk": "google.adk",
    "langchain": "langchain",
    "litellm": "litellm",
    "llama-index": "llama_index",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
    "strands": "strands",
}
"""What each adapter imports of its framework."""


def install_old(package: str, folder: Path) -> None:
    """Let this package be found there first, in a version that is older than any."""
    about = folder / f"{package.replace('-', '_')}-{OLD}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {OLD}\n", encoding="utf-8")


def opening(extra: str) -> Callable[[], object]:
    """What a program does first with the adapter."""
    name = f"unabridged.adapters.{extra.replace('-', '_')}"
    if extra == "claude-agent-sdk":  # its session store does without the SDK
        hooks: Callable[[], object] = importlib.import_module(name).compaction_hooks
        return hooks
    return lambda: importlib.import_module(name)


def test_every_adapter_of_a_framework_has_a_bound_and_its_extra_asks_for_it() -> None:
    folders = {path.name for path in ADAPTERS.iterdir() if (path / "__init__.py").is_file()} - NO_FRAMEWORK
    assert {extra.replace("-", "_") for extra in LOWEST_VERSIONS} == folders
    for extra, packages in LOWEST_VERSIONS.items():
        theirs = [line for line in EXTRAS[extra] if not line.startswith("unabridged")]
        assert theirs == [f"{package}>={lowest}" for package, lowest in packages.items()]


@rows(("extra", "package"), [(extra, package) for extra in LOWEST_VERSIONS for package in LOWEST_VERSIONS[extra]])
def test_the_import_error_names_the_older_version_the_one_needed_and_the_remedy(
    extra: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = opening(extra)
    install_old(package, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    forget(monkeypatch, extra)
    for module in {MODULES[extra], *(name for name in sys.modules if name.startswith(f"{MODULES[extra]}."))}:
        monkeypatch.setitem(sys.modules, module, None)  # what an older version lacks can't be imported
    with pytest.raises(NotInstalled) as raised:
        use()
    told = f"({package} {OLD} is installed, and {LOWEST_VERSIONS[extra][package]} or newer is needed: "
    assert told in str(raised.value)
    assert str(raised.value).endswith(f"): pip install 'unabridged[{extra}]'")


def forget(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    """Let the adapter be imported anew, and come back as it was."""
    name = f"unabridged.adapters.{extra.replace('-', '_')}"
    for module in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, module)
    importlib.invalidate_caches()


@rows(
    ("found", "lowest", "enough"),
    [
        ("1.3.15", "1.3.15", True),
        ("1.3.15rc1", "1.3.15", True),
        ("1.3", "1.3.0", True),
        ("1.10.0", "1.9", True),
        ("2.0.0.dev1+local.7", "1.9", True),
        ("1.3.14", "1.3.15", False),
        ("1.3", "1.3.1", False),
        ("0.99.99", "1", False),
    ],
)
def test_an_older_version_that_can_be_imported_is_used_with_a_warning(
    found: str, lowest: str, enough: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("unabridged.adapters.framework_versions.LOWEST_VERSIONS", {"any": {"thing": lowest}})
    monkeypatch.setattr("unabridged.adapters.framework_versions.version", lambda _: found)
    with check_framework("any", "a part"):
        pass
    told = f"a part may not work: thing {found} is installed, and {lowest} or newer is needed: "
    assert caplog.messages == ([] if enough else [f"{told}pip install 'unabridged[any]'"])


def test_what_is_not_installed_is_told_by_the_import_itself() -> None:
    with (
        pytest.raises(NotInstalled, match=r"No module named 'no_such_framework'.*unabridged\[langchain\]"),
        check_framework("langchain", "a part"),
    ):
        importlib.import_module("no_such_framework")


def test_the_script_knows_every_framework_and_its_bound() -> None:
    frameworks = framework_versions.FRAMEWORKS
    assert set(LOWEST_VERSIONS) < set(frameworks)
    for extra, packages in LOWEST_VERSIONS.items():
        assert framework_versions.lowest(frameworks[extra]) == packages[frameworks[extra].package]
    doors = {path.stem for path in (HELPERS / "doors").glob("[!_]*.py")} - {"skeleton"}
    assert {door for framework in frameworks.values() for door in framework.doors} == doors
    assert list(framework_versions.chosen(["strands", "openai==3.0.0"])) == [
        ("strands", "lowest"), ("strands", "newest"), ("openai", "3.0.0"),
    ]  # fmt: skip


def test_the_script_sees_what_holds_and_what_fails_here(tmp_path: Path) -> None:
    framework = framework_versions.FRAMEWORKS["openai"]
    found = framework_versions.contract_of(framework.doors[0], tmp_path, [framework_versions.EXACT, "off"])
    assert found == {"sdk: replay exact": "", "sdk: off": ""}
    broken = {"import": "", "sdk: replay exact": "AssertionError: 3 messages in the place of 4", "sdk: off": ""}
    row = framework_versions.Row("openai", version("openai"), broken, 1.0)
    assert row.cells()[2:5] == ["ok", "FAIL", "1 of 2"]
    assert list(row.failed) == ["sdk: replay exact"]
