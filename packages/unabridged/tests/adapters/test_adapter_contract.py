"""Every adapter runs the contract whole: each module in `tests/helpers/doors/` has a `DOOR`. One is the docs' own."""

from __future__ import annotations

import ast
import os
from importlib.util import find_spec

import pytest

from doors import APART, door_named
from effort import ALL
from places import HELPERS
from unabridged_testing.adapter_contract import SCENARIOS, AdapterContract, Door
from unabridged_testing.adapter_contract.breakages import BREAKAGES, BrokenAdapterContract

DOORS = [path.stem for path in sorted((HELPERS / "doors").glob("[!_]*.py"))]


SECOND = ("langchain_async", "sdk_gemini", "sdk_messages")
"""Second ways into an adapter that runs the contract whole by the first: here each of them has a third of it."""


class TestEveryAdapter(AdapterContract):
    @pytest.fixture(params=DOORS)
    def door(self, request: pytest.FixtureRequest) -> Door:
        number = list(SCENARIOS).index(request.node.callspec.params["scenario"])
        if not ALL and request.param in SECOND and request.param != SECOND[number % len(SECOND)]:
            pytest.skip("a second way into the same adapter: make test ALL=1")
        return open_door(request.param)


BROKEN = DOORS if os.environ.get("UNABRIDGED_BREAKAGES") else ["sdk"]
"""The doors behind which adapters are broken: one shows that the contract notices it; `make contract` takes all."""


class TestEveryAdapterBroken(BrokenAdapterContract):
    @pytest.fixture(params=BROKEN)
    def door(self, request: pytest.FixtureRequest) -> Door:
        return open_door(request.param)


def open_door(name: str) -> Door:
    if find_spec(APART.get(name, "unabridged")) is None:
        pytest.skip(f"{APART[name]} can't be installed beside the other frameworks: make versions WHAT={APART[name]}")
    return door_named(name)


def test_there_is_a_breakage_for_each_scenario() -> None:
    assert {scenario for breakage in BREAKAGES.values() for scenario in breakage.noticed_by} == set(SCENARIOS)


def test_the_adapter_on_the_page_is_small_and_the_page_tells_its_size_and_every_scenario() -> None:
    from doors.skeleton import MODULES, PAGE

    page = PAGE.read_text(encoding="utf-8")
    lines = sum(code_lines(MODULES[name]) for name in ("tinybot_format", "tinybot_compaction"))
    assert lines < 150
    assert f"{lines} lines with its format" in page
    assert not [name for name in SCENARIOS if f"| {name} |" not in page]


def code_lines(source: str) -> int:
    """Lines that are neither empty, nor a comment, nor part of a docstring."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            told |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(1 for i, line in lines if line.strip() and not line.lstrip().startswith("#") and i not in told)
