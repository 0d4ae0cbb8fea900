"""The mutants of `make mutants` are named by exact text: they must not go stale with the code they break."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from places import ROOT

SCRIPT = ROOT / "lab" / "scripts" / "mutants.py"


def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look their module up by its name
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not SCRIPT.is_file(), reason="a copy of the tree without its scripts: that of a mutant")
def test_every_mutant_can_still_be_made() -> None:
    module = mutants()
    assert {mutant.name: why for mutant in module.MUTANTS if (why := module.stale(mutant))} == {}
    assert len({mutant.name for mutant in module.MUTANTS}) == len(module.MUTANTS)
