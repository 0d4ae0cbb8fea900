"""The mutants of `make mutants` are named by exact text: they must not go stale with the code they break."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
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


@pytest.mark.skipif(not SCRIPT.is_file(), reason="a copy of the tree without its scripts: that of a mutant")
def test_a_mutant_that_was_killed_is_tried_again_when_anything_it_depends_on_changed(tmp_path: Path) -> None:
    module = mutants()
    mutant = module.MUTANTS[0]
    key = module.digest_mutant(mutant, "code", 200)
    others = {
        module.digest_mutant(mutant, "other code", 200),
        module.digest_mutant(mutant, "code", 100),
        module.digest_mutant(replace(mutant, new="pass"), "code", 200),
        module.digest_mutant(replace(mutant, tests=()), "code", 200),
    }
    assert len(others | {key}) == 5
    results = tmp_path / "mutants.jsonl"
    assert module.read_killed(results) == set()
    rows = [{"digest": key, "end": "killed"}, *({"digest": other, "end": "survived"} for other in others)]
    results.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert module.read_killed(results) == {key}
