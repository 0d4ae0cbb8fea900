"""Every adapter runs the contract whole: each module in `tests/doors/` has a `DOOR`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from unabridged.testing.adapter_contract import SCENARIOS, AdapterContract, Door
from unabridged.testing.adapter_contract.breakages import BREAKAGES, BrokenAdapterContract

DOORS = [path.stem for path in sorted(Path(__file__).with_name("doors").glob("[!_]*.py"))]


def door_named(name: str) -> Door:
    return cast("Door", import_module(f"doors.{name}").DOOR)


class TestEveryAdapter(AdapterContract):
    @pytest.fixture(params=DOORS)
    def door(self, request: pytest.FixtureRequest) -> Door:
        return door_named(request.param)


class TestEveryAdapterBroken(BrokenAdapterContract):
    @pytest.fixture(params=DOORS)
    def door(self, request: pytest.FixtureRequest) -> Door:
        return door_named(request.param)


def test_there_is_a_breakage_for_each_scenario() -> None:
    assert {scenario for breakage in BREAKAGES.values() for scenario in breakage.noticed_by} == set(SCENARIOS)
