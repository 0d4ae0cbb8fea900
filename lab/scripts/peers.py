"""Run the peers' own tests against ours, only the import changed: `python lab/scripts/peers.py`.

The source distributions of LangChain, Strands and OpenAI Agents ship their tests. Each is fetched in the installed
version into a temporary folder, its test files are run as they are (what fails then is the environment's) and once more
with our classes in the place of theirs. What differs must stand in `lab/scripts/peers.toml` with a reason. Exits with 1
when a failure is not explained, or when an explained one passes. Deep Agents' source distribution holds no tests, which
the same file says: it is listed apart and not counted as passed. Name a checkout of its tests with `--deepagents`.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import redis_sessions
import workspace

ROOT = Path(__file__).resolve().parents[2]
LANGCHAIN = "unabridged.adapters.langchain"
ENCRYPTED = "tests/extensions/memory/test_encrypt_session.py"
CONFTEST = """
import asyncio, inspect
import pytest

import workspace

@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test, 30))
    return True
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer: its package, the modules whose classes are replaced, where the test files are, and our module.

    `python` is the interpreter that runs them; with `conftest`, the peer's own conftest files stay; `theirs` has names
    that stay the peer's own, by test file.
    """

    package: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    ours: str = LANGCHAIN
    python: Callable[[], str] = lambda: sys.executable
    conftest: bool = False
    theirs: Mapping[str, frozenset[str]] = field(default_factory=dict)


PEERS = (
    Peer(
        "langchain",
        ("langchain.agents.middleware.summarization", "langchain.agents.middleware"),
        ("tests/unit_tests/agents/middleware/implementations/test_summarization.py",),
    ),
    Peer(
        "deepagents",
        ("deepagents.middleware.summarization", "deepagents.middleware"),
        (
            "tests/unit_tests/middleware/test_summarization_middleware.py",
            "tests/unit_tests/middleware/test_summarization_factory.py",
            "tests/unit_tests/middleware/test_compact_tool.py",
            "tests/unit_tests/middleware/test_compaction_recovery.py",
        ),
    ),
    Peer(
        "strands-agents",
        (
            "strands.agent.conversation_manager.sliding_window_conversation_manager",
            "strands.agent.conversation_manager.summarizing_conversation_manager",
        ),
        (
            "tests/strands/agent/test_conversation_manager.py",
            "tests/strands/agent/test_summarizing_conversation_manager.py",
        ),
        "strands_stand_ins",
    ),
    Peer(
        "openai-agents",
        (
            "agents",
            "agents.run",
            "agents.extensions.memory",
            "agents.extensions.memory.encrypt_session",
            "agents.extensions.memory.redis_session",
            "agents.extensions.memory.sqlalchemy_session",
        ),
        (
            "tests/memory/test_session.py",
            "tests/memory/test_session_limit.py",
            "tests/extensions/memory/test_async_sqlite_session.py",
            ENCRYPTED,
            "tests/extensions/memory/test_redis_session.py",
            "tests/extensions/memory/test_sqlalchemy_session.py",
            "tests/test_call_model_input_filter.py",
            "tests/test_call_model_input_filter_unit.py",
        ),
        "openai_agents_stand_ins",
        redis_sessions.python,
        conftest=True,
        theirs={ENCRYPTED: frozenset({"RedisSession", "SQLAlchemySession", "SQLiteSession"})},  # ours belongs around
    ),
)


def download_sdist(package: str, folder: Path) -> Path:
    """Download the package's source distribution in the installed version, and return where it is unpacked."""
    wanted = f"{package}=={version(package)}"
    where = folder / "sdist"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", package, wanted]
    subprocess.run([*command, "-d", str(where)], check=True, stderr=subprocess.DEVNULL)
    (archive,) = where.glob(f"{package.replace('-', '_')}-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def replace_imports(source: str, peer: Peer, known: frozenset[str]) -> str:
    """Return the test file with these names imported from us; private ones stay the peer's own."""
    lines = source.split("\n")
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    for node in sorted(imports, key=lambda node: -node.lineno):
        if node.module not in peer.modules:
            continue
        new = []
        for name in node.names:
            module = peer.ours if name.name in known else node.module
            renamed = f" as {name.asname}" if name.asname else ""
            new.append(" " * node.col_offset + f"from {module} import {name.name}{renamed}")
        lines[node.lineno - 1 : node.end_lineno] = new
    return "\n".join(lines)


def names_of(peer: Peer) -> frozenset[str]:
    """Return the public names of our module."""
    script = f"import {peer.ours} as ours; print(' '.join(ours.__all__))"
    command = [peer.python(), "-c", script]
    said = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return frozenset(said.stdout.split())


def environment(**more: str) -> dict[str, str]:
    """Return this environment with this tree's code first on the path."""
    return {**os.environ, "PYTHONPATH": workspace.python_path(ROOT / "lab" / "scripts"), **more}


def outcomes(python: str, tree: Path, files: tuple[str, ...]) -> dict[str, str]:
    """Return every test of these files by its name, with "" or the first line of its failure."""
    report = tree / "report.xml"
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:warnings",
        "--rootdir",
        str(tree),
        "-c",
        os.devnull,
    ]
    command = [python, "-m", "pytest", *options, "--import-mode=prepend", "--junitxml", str(report), *files]
    subprocess.run(
        command,
        cwd=tree,
        env=environment(PYTHONPATH=workspace.python_path(tree, ROOT / "lab" / "scripts")),
        check=False,
        stdout=subprocess.DEVNULL,
    )
    found = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by the line above
        wrong = [child.get("message") or child.tag for child in case if child.tag in {"failure", "error"}]
        if not any(child.tag == "skipped" for child in case):
            module = str(case.get("classname")).rpartition(".")[2]
            found[f"{module}::{case.get('name')}"] = wrong[0].split("\n")[0] if wrong else ""
    return found


def has_tests(peer: Peer, tree: Path) -> bool:
    """Return whether any of the peer's test files exists, and print a line when none does."""
    if any((tree / name).is_file() for name in peer.tests):
        return True
    print(f"{peer.package} {version(peer.package)}: no tests in its sdist. {without_tests().get(peer.package, '')}")
    return False


def compare(peer: Peer, tree: Path, *, verbose: bool) -> int:
    """Run the peer's tests both ways and say what differs; how many differences nobody explained."""
    for conftest in () if peer.conftest else tree.rglob("conftest.py"):
        conftest.unlink()
    (tree / "conftest.py").write_text(CONFTEST)
    files = tuple(name for name in peer.tests if (tree / name).is_file())
    python = peer.python()
    theirs = {name: wrong for name, wrong in outcomes(python, tree, files).items() if not wrong}
    known = names_of(peer)
    for name in files:
        path = tree / name
        path.write_text(replace_imports(path.read_text(), peer, known - peer.theirs.get(name, frozenset())))
    now = outcomes(python, tree, files)
    failed = {name: now.get(name, "not collected") for name in theirs if now.get(name, "not collected")}
    reasons = read_explained(peer.package)
    print(
        f"{peer.package} {version(peer.package)}: {len(theirs)} pass with theirs, {len(theirs) - len(failed)} with ours"
    )
    wrong = 0
    for name, error in sorted(failed.items()):
        reason = reasons.get(name) or reasons.get(name.partition("[")[0])
        wrong += reason is None
        if verbose or reason is None:
            print(f"  {name}\n    {reason or 'NOT EXPLAINED'}\n    {error[:200]}")
    for name in sorted(reasons):
        if not any(one == name or one.partition("[")[0] == name for one in failed):
            wrong += 1
            print(f"  {name}: explained, and passes or is gone: take it out of the list")
    return wrong


def read_differences() -> dict[str, Any]:
    """Return the contents of `lab/scripts/peers.toml`."""
    return tomllib.loads((ROOT / "lab" / "scripts" / "peers.toml").read_text(encoding="utf-8"))


def read_explained(package: str) -> dict[str, str]:
    """Return the intended differences, each with its reason."""
    return {name: group["reason"] for group in read_differences().get(package, ()) for name in group["tests"]}


def without_tests() -> dict[str, str]:
    """Return the peers whose source distribution holds no tests, each with what is tested instead."""
    return {package: group["instead"] for package, group in read_differences()["without-tests"].items()}


def describe_result(compared: Sequence[str], untested: Sequence[str], wrong: int) -> str:
    """Return the last line: how many peers were compared, and which could not be."""
    left = f"; not compared: {', '.join(untested)} (no tests in its sdist)" if untested else ""
    return f"{len(compared)} of {len(PEERS)} peers compared, {wrong} differences not explained{left}"


def main() -> int:
    """Compare with every peer; 1 when something is not explained."""
    parser = argparse.ArgumentParser(description="Run the peers' own tests against ours.")
    parser.add_argument(
        "--deepagents", type=Path, help="a folder with Deep Agents' tests: libs/deepagents of a checkout"
    )
    parser.add_argument("--verbose", action="store_true", help="also what is explained")
    chosen = parser.parse_args()
    wrong, compared, untested = 0, [], []
    for peer in PEERS:
        with tempfile.TemporaryDirectory() as folder:
            tree = download_sdist(peer.package, Path(folder))
            if peer.package == "deepagents" and chosen.deepagents:
                shutil.copytree(chosen.deepagents / "tests", tree / "tests")
            if has_tests(peer, tree):
                compared.append(peer.package)
                wrong += compare(peer, tree, verbose=chosen.verbose)
            else:
                untested.append(peer.package)
    print(describe_result(compared, untested, wrong))
    return min(wrong + len(set(untested) - set(without_tests())), 1)


if __name__ == "__main__":
    sys.exit(main())
