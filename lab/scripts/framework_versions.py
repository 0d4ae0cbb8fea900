"""Run every adapter on the lowest and the newest version of its framework: what `make versions` runs.

Each version gets an environment of its own, in which the adapter is imported and the adapter contract is run with the
framework's real runner (`tests/helpers/doors/`): its scenario "replay exact" takes an agent with tools through three
or more compactions and gets the original conversation back. `framework_versions.py strands==1.58.0` tries any other
version, which is how a lower bound is found. Prints a table and exits with 1 when anything fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dist
import workspace

ROOT = workspace.ROOT
EDITABLE = workspace.editable(["unabridged", "unabridged-cli", "unabridged-corpus", "unabridged-testing"])
TESTS = ROOT / "packages" / "unabridged" / "tests" / "adapters"
EXACT = "replay exact"


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework: its package, its doors, and what these need besides.

    Its lower bound is that of an extra; an SDK, which has none, is `tried` from a version on.
    """

    package: str
    doors: tuple[str, ...]
    extra: str = ""
    also: tuple[str, ...] = ()
    tried: str = ""
    tests: str = ""
    """The file of tests that run nowhere else: the framework can't be installed beside the others."""
    server: tuple[str, ...] = ()
    """What these install besides, to start a server of the framework's."""


FRAMEWORKS = {
    "agent-framework": Framework(
        "agent-framework-core", ("agent_framework",), "agent-framework", ("agent-framework-openai",)
    ),
    "langchain": Framework("langchain", ("langchain", "langchain_async"), "langchain"),
    "pydantic-ai": Framework("pydantic-ai-slim", ("pydantic_ai",), "pydantic-ai", ("openai",)),
    "openai-agents": Framework("openai-agents", ("openai_agents",), "openai-agents"),
    "llama-index": Framework(
        "llama-index-core", ("llama_index",), "llama-index", ("llama-index-llms-google-genai", "openai")
    ),
    "strands": Framework("strands-agents", ("strands",), "strands"),
    "google-adk": Framework("google-adk", ("google_adk",), "google-adk"),
    "litellm": Framework(
        "litellm",
        ("litellm", "litellm_completion"),
        "litellm",
        ("mcp",),
        tests="test_litellm.py",
        server=("litellm[proxy]",),
    ),
    "crewai": Framework("crewai", ("crewai", "crewai_async"), "crewai", ("crewai-files",), tests="test_crewai.py"),
    "claude-agent-sdk": Framework("claude-agent-sdk", (), "claude-agent-sdk"),
    "openai": Framework("openai", ("sdk",), tried="2.0.0"),
    "anthropic": Framework("anthropic", ("sdk_messages",), also=("openai",), tried="2.0.0"),  # doors share a module
    "google-genai": Framework("google-genai", ("sdk_gemini",), also=("openai",), tried="2.0.0"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one version: each check with its error, or ""."""

    name: str
    version: str
    checks: dict[str, str]
    seconds: float

    @property
    def failed(self) -> dict[str, str]:
        """Return the checks that failed."""
        return {check: error for check, error in self.checks.items() if error}

    def cells(self) -> list[str]:
        """Return the cells of the table's row."""
        scenarios = [error for check, error in self.checks.items() if check != "import"]
        contract = f"{scenarios.count('')} of {len(scenarios)}" if scenarios else "-"
        exact = [error for check, error in self.checks.items() if check.endswith(EXACT)]
        return [
            self.name, self.version, _mark([self.checks["import"]]), _mark(exact), contract, f"{self.seconds:.0f} s"
        ]  # fmt: skip


def _mark(errors: Sequence[str]) -> str:
    if not errors:
        return "-"
    return "FAIL" if any(errors) else "ok"


# -- outside: an environment for each version -------------------------------------------------------------------------


def lowest(framework: Framework) -> str:
    """Return the lower bound of the extra, or the version that was tried."""
    if not framework.extra:
        return framework.tried
    lines: list[str] = workspace.project()["optional-dependencies"][framework.extra]
    return next(line.partition(">=")[2] for line in lines if re.split(r"[\[><=]", line)[0] == framework.package)


def pinned(framework: Framework, wanted: str) -> list[str]:
    """Return what is installed beside the project; `lowest` installs everything the extra needs at its lower bound."""
    also = dist.requirements(framework.also)
    if wanted == "newest":
        return [framework.package, *also]
    if wanted != "lowest" or not framework.extra:
        return [f"{framework.package}=={lowest(framework) if wanted == 'lowest' else wanted}", *also]
    lines = workspace.project()["optional-dependencies"][framework.extra]
    return [*(line.replace(">=", "==") for line in lines if not line.startswith("unabridged")), *also]


def attempt(name: str, wanted: str, folder: Path) -> Row:
    """Make the environment, and run the checks in it."""
    begun = time.monotonic()
    shown = lowest(FRAMEWORKS[name]) if wanted == "lowest" else wanted
    try:
        environment = dist.Environment(folder / f"{name}-{wanted}")
        environment.install(*EDITABLE, *pinned(FRAMEWORKS[name], wanted))
        said = dist.run(folder, environment.python, __file__, "--inside", name).splitlines()[-1]
        found = json.loads(said)
        if FRAMEWORKS[name].tests and wanted == "newest":
            environment.install("pytest", *FRAMEWORKS[name].server)
            found["checks"]["tests"] = error_of(partial(run_tests, name, environment.python, folder))
    except dist.Failed as error:
        found = {"version": shown, "checks": {"import": str(error)}}
    return Row(name, found["version"], found["checks"], time.monotonic() - begun)


def run_tests(name: str, python: Path, folder: Path) -> None:
    """Run the adapter's own tests, and the contract with each deliberate breakage, as `make test` does for others."""
    doors = " or ".join(f"[{door}-" for door in FRAMEWORKS[name].doors)
    files = [TESTS / file for file in (FRAMEWORKS[name].tests, "test_adapter_contract.py")]
    chosen = f"{files[0].stem} or (Broken and ({doors}))"
    settings = ("-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "-W", "default", "-p", "no:cacheprovider")
    os.environ["UNABRIDGED_BREAKAGES"] = "1"
    dist.run(folder, python, "-m", "pytest", *settings, "-k", chosen, *files)


def chosen(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each framework with the versions to try: the lowest and the newest unless one is named."""
    for given in names or FRAMEWORKS:
        name, _, wanted = given.partition("==")
        if name not in FRAMEWORKS:
            raise SystemExit(f"there is no framework {name!r}: choose from {', '.join(FRAMEWORKS)}")
        yield from ((name, one) for one in ([wanted] if wanted else ["lowest", "newest"]))


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    head = ["framework", "version", "import", "three compactions, replay exact", "contract", "took"]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# -- inside: what runs in such an environment -------------------------------------------------------------------------


def inside(name: str) -> dict[str, Any]:
    """Return the installed version and each check with its error, or "" where it passed."""
    framework = FRAMEWORKS[name]
    sys.path.append(str(ROOT / "tests" / "helpers"))  # for the doors; behind everything that is installed
    checks: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        if framework.doors:
            doors = {door: error_of(partial(importlib.import_module, f"doors.{door}")) for door in framework.doors}
            checks["import"] = "; ".join(filter(None, doors.values()))
            for door in (door for door, error in doors.items() if not error):
                checks |= contract_of(door, Path(folder))
        else:
            checks |= session_store()
    return {"version": version(framework.package), "checks": checks}


def contract_of(name: str, folder: Path, only: Sequence[str] = ()) -> dict[str, str]:
    """Return every scenario of the adapter contract with its error."""
    from unabridged_testing.adapter_contract import SCENARIOS  # noqa: PLC0415 - installed only inside

    door, found = importlib.import_module(f"doors.{name}").DOOR, {}
    for scenario in only or SCENARIOS:
        place = folder / f"{name}-{scenario}".replace(" ", "-")
        place.mkdir()
        found[f"{name}: {scenario}"] = error_of(partial(SCENARIOS[scenario], door, place))
    return found


def session_store() -> dict[str, str]:
    """Run the Claude Agent SDK's own conformance suite for session stores, since that SDK compacts by itself."""
    import smoke  # noqa: PLC0415 - needs what is installed only inside

    return {
        "import": error_of(partial(importlib.import_module, "claude_agent_sdk")),
        "conformance suite": error_of(partial(smoke.claude_agent_sdk, Path())),
    }


def error_of(act: Callable[[], object]) -> str:
    """Return the exception that it raises in one line, or "" when it raises none."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - that is the question
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ""


def main() -> int:
    """Try each version, and return 1 when one of them fails."""
    parser = argparse.ArgumentParser(
        description="Run every adapter on the lowest and the newest version of its framework."
    )
    parser.add_argument("what", nargs="*", help=f"NAME or NAME==VERSION, of {', '.join(FRAMEWORKS)}")
    parser.add_argument("--inside", metavar="NAME", help="run the checks here, in this environment")
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(inside(given.inside)))
        return 0
    rows = []
    for name, wanted in chosen(given.what):
        with tempfile.TemporaryDirectory(prefix="unabridged-versions-") as folder:
            rows.append(attempt(name, wanted, Path(folder)))
        print(" | ".join(rows[-1].cells()), flush=True)
        for check, error in rows[-1].failed.items():
            print(f"  {check}: {error}", flush=True)
    print(f"\nPython {sys.version.split()[0]}, {time.strftime('%Y-%m-%d')}\n\n{table(rows)}")
    return 1 if any(row.failed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
