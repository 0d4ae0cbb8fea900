"""What every adapter of a framework must do, as tests: subclass `AdapterContract` and say how to open an agent.

    class TestMyFramework(AdapterContract):
        @pytest.fixture
        def door(self):
            return MyDoor()    # see `Door`: an agent of the framework with the adapter, and a model that asks a brain

Fourteen scenarios, each with the framework's real runner. The contract plays the model: it looks at every request as a
provider would (legal, within the window) and at what the model was shown.
"""

# Tests that ship: a name is its own sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from unabridged.testing.adapter_contract.interface import (
    RECALL,
    Brain,
    Content,
    Door,
    Image,
    Said,
    Seen,
    Session,
    TooLong,
)
from unabridged.testing.adapter_contract.runs import long_chain

__all__ = [
    "RECALL",
    "SCENARIOS",
    "AdapterContract",
    "Brain",
    "Content",
    "Door",
    "Image",
    "Said",
    "Seen",
    "Session",
    "TooLong",
]

SCENARIOS: Mapping[str, Callable[[Door, Path], None]] = {
    "long chain": long_chain,
}
"""Each takes a door and an empty folder, and raises what is wrong."""


class AdapterContract:
    """The behaviour of every adapter, each sentence a test."""

    def test_a_long_chain_of_calls_ends_without_a_refusal(self, door: Door, tmp_path: Path) -> None:
        long_chain(door, tmp_path)
