"""Scenarios of long runs: one request of a person's, and more tool calls than a window holds."""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101

from __future__ import annotations

from pathlib import Path

from unabridged.testing.adapter_contract.case import Case
from unabridged.testing.adapter_contract.interface import Door
from unabridged.testing.adapter_contract.model import DONE, working

TASK = "Work through all sixty reports and tell me which of them mentions the pump."


def long_chain(door: Door, folder: Path) -> None:
    """Sixty calls in one turn, of a model that counts a third more tokens than we do, end without a refusal."""
    with Case(door, folder, working(60), heavier=1.3) as case:
        assert case.say(TASK) == DONE
        assert len(case.model.seen) == 61, "each result is shown to the model once as the newest"
        assert not case.model.refusals, f"{case.model.refusals[0]}: the usage that the model reports was not heeded"
        assert all(TASK in seen.text for seen in case.model.seen), "a request without what the user asked for"
        assert case.records(), "nothing was compacted, or it is not in the archive under the thread's name"
