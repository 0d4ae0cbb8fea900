"""What is published, as far as it can be told without building it; `make dist` does the rest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import asdict
from typing import Any

import pytest

import dist
import smoke
import unabridged
import workspace
from unabridged.archive import store_rules
from unabridged.events import Receipt, receipt_from_dict

ROOT = workspace.ROOT
PROJECT = workspace.project()
PROJECTS = [workspace.project(package.name) for package in workspace.PACKAGES]
EXTRAS = PROJECT["optional-dependencies"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.*"))]
OUTSIDE = (
    "agent_framework", "aiohttp", "agents", "anthropic", "claude_agent_sdk", "cryptography", "deepagents", "google",
    "httptools", "hypothesis", "langchain", "langchain_core", "langgraph", "llama_index", "mcp", "mcp_types",
    "msgspec", "openai", "opentelemetry", "prometheus_client", "psycopg", "pyarrow", "pydantic", "pydantic_ai",
    "pytest", "ray", "strands", "toktok", "uvicorn", "uvloop", "zstandard",
)  # fmt: skip
yaml: Any = pytest.importorskip("yaml")


def test_metadata_docs_and_code_agree() -> None:
    told = {line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line}
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    for package, project in zip(workspace.PACKAGES, PROJECTS, strict=True):
        assert project["name"] == package.name
        assert project["version"] == unabridged.__version__
        assert project["classifiers"] == PROJECT["classifiers"]
        assert project["requires-python"] == f">={min(told, key=lambda version: int(version[2:]))}"
        assert (package / project["readme"]).is_file()
        assert (package / "LICENSE").read_text(encoding="utf-8") == licence
    assert not [line for line in PROJECT["classifiers"] if line.startswith("License ::")], "the SPDX name says it"
    dependencies = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert [extra for extra in dist.extras() if f"extra `{extra}`" not in dependencies] == []
    texts = [
        path.read_text(encoding="utf-8")
        for path in (*PAGES, *(ROOT / "packages").glob("*/src/**/*.py"))
        if path.is_file()
    ]
    named = {
        extra for text in texts for names in re.findall(r"unabridged\[([\w,-]+)\]", text) for extra in names.split(",")
    }
    assert named - EXTRAS.keys() == set(), "named somewhere, and there is no such extra"
    assert EXTRAS.keys() - named == set(), "no page and no error says how to install it"


def test_every_extra_has_a_smoke_test_and_nothing_else_has() -> None:
    assert set(smoke.SMOKE) == {"", *dist.extras()}
    assert dist.ALSO.keys() <= set(dist.extras())
    assert all(dist.requirements(names) for names in dist.ALSO.values())
    for package in workspace.PACKAGES:
        whole = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))
        paths = whole["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
        assert all(path.startswith("/") for path in paths), "a name without a slash is found in every folder"
        assert {*dist.SHIPPED, *whole["project"]["license-files"]} >= {path.strip("/") for path in paths}


def test_distributions_of_one_release_ask_for_each_other_in_the_same_version() -> None:
    for project in PROJECTS:
        lines = [
            *project["dependencies"],
            *(line for extra in project.get("optional-dependencies", {}).values() for line in extra),
        ]
        own = [line for line in lines if line.startswith("unabridged")]
        assert all(line.endswith(f"=={unabridged.__version__}") for line in own), own
    assert dist.distributions() == ["unabridged"]
    assert dist.distributions("gateway") == ["unabridged", "unabridged-gateway", "unabridged-cli", "unabridged-corpus"]
    assert len(PROJECT["dependencies"]) <= 3


def test_what_needs_a_library_that_is_missing_says_how_to_install_it() -> None:
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({OUTSIDE!r}))\n"
        "sys.path.insert(0, 'lab/scripts')\n"
        "import smoke; print(smoke.import_everything('none'))\n"
        "try:\n    import unabridged.adapters.strands\n"
        "except ImportError as error:\n    print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    counted, said = ran.stdout.splitlines()
    assert int(re.findall(r"\d+", counted)[1]) >= 10, counted
    assert said.startswith("unabridged.adapters.strands can't be used (")
    assert said.endswith("): pip install 'unabridged[strands]'")


def test_the_workflows_run_what_there_is_on_every_python_that_is_promised() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    promised = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    flows = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert flows.keys() == {"ci", "release", "weekly"}
    for name, text in flows.items():
        flow = yaml.safe_load(text)
        assert flow["permissions"] == {"contents": "read"}
        assert not re.search(r"secrets\.|index-url", text)
        assert set(re.findall(r"make (\w+)", text)) <= targets
        for job in flow["jobs"].values():
            assert job["timeout-minutes"] <= 360
            assert job.get("permissions", {"id-token": "write"}) == {"id-token": "write"}
            for action in (step["uses"] for step in job["steps"] if "uses" in step):
                assert re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40}", action), (
                    f"{name}: {action} is not pinned by its commit"
                )
    jobs = yaml.safe_load(flows["ci"])["jobs"]
    for job in ("test", "dist", "systems"):
        assert set(jobs[job]["strategy"]["matrix"]["python"]) > set(promised), "each promised, and the next one"
    assert set(jobs["systems"]["strategy"]["matrix"]["system"]) == {"macos-15", "windows-2025"}
    assert jobs["test"]["steps"][-1]["run"] == ".ci/run"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_programs_are_uploaded_before_the_library_and_only_by_the_release() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    uploads = {
        name: job for name, job in jobs.items() if any("pypi-publish" in s.get("uses", "") for s in job["steps"])
    }
    assert uploads.keys() == {name for name, job in jobs.items() if "permissions" in job} == {"programs", "library"}
    assert uploads["programs"]["needs"] == ["build", "image"]
    assert uploads["library"]["needs"] == ["programs"]
    assert {job["environment"] for job in uploads.values()} == {"release"}


def test_the_page_on_versions_tells_those_of_the_stores() -> None:
    page = (ROOT / "docs" / "versioning.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| (\d+) \|", page, re.MULTILINE))
    tables = str(store_rules.ARCHIVE_VERSION)
    assert rows == {
        "tables in SQLite": tables,
        "tables in Postgres": tables,
        "files of a directory": str(store_rules.ARCHIVE_VERSION),
    }


def test_a_receipt_of_a_later_version_is_read_without_what_this_one_does_not_know() -> None:
    receipt = Receipt("r", "t", "summary", "why", 1.0, ((0, 4),), 9, 5, 900, 300, "memory:", "model-free")
    assert receipt_from_dict({**asdict(receipt), "of_a_later_version": 1}) == receipt


def test_the_demo_installs_what_it_runs_and_nothing_of_development() -> None:
    command = ["make", "--dry-run", "--always-make", "demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "compact examples/coding_session.json" in done.stdout
    asked = set(re.findall(r"(?:-e|-r) ([^\s;]+)", done.stdout))
    assert asked == {"packages/unabridged", "packages/unabridged-corpus", "packages/unabridged-cli"}
