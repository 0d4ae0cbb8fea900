"""Tests of everything that an adapter must do: subclass `AdapterContract` and say how to open an agent.

    class TestMyFramework(AdapterContract):
        @pytest.fixture
        def door(self):
            return MyDoor()    # see `Door`: an agent of the framework with the adapter, and a model that asks a brain

Sixteen scenarios, each with the framework's real runner. The contract plays the model: it looks at every request as a
provider would (legal, within the window) and at what the model was shown.
"""

# Tests that ship: a name is its own sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from unabridged.errors import NotInstalled

try:
    import pytest
except ImportError as error:
    raise NotInstalled(__name__, "pytest", error) from error

from unabridged_testing.adapter_contract import conversation_scenarios as conversations
from unabridged_testing.adapter_contract import run_scenarios as runs
from unabridged_testing.adapter_contract.interface import (
    RECALL_TOOLS,
    Brain,
    Content,
    Door,
    Image,
    ModelReply,
    Seen,
    Session,
    TooLong,
)

__all__ = [
    "RECALL_TOOLS",
    "SCENARIOS",
    "AdapterContract",
    "Brain",
    "Content",
    "Door",
    "Image",
    "ModelReply",
    "Seen",
    "Session",
    "TooLong",
]

SCENARIOS: Mapping[str, Callable[[Door, Path], None]] = {
    "long chain": runs.check_long_chain,
    "parallel calls": runs.check_parallel_calls,
    "pending approval": runs.check_pending_approval,
    "overflow": runs.check_overflow,
    "summariser down": runs.check_summariser_down,
    "images": conversations.check_images,
    "streaming": runs.check_streaming,
    "resume after restart": conversations.check_resume,
    "undo": conversations.check_undo,
    "recall": conversations.check_recall,
    "off": conversations.check_off,
    "below the trigger": conversations.check_below_trigger,
    "two agents at once": runs.check_two_at_once,
    "names": conversations.check_thread_names,
    "rules verbatim after ten compactions": conversations.check_rules_verbatim,
    "replay exact": conversations.check_exact_replay,
}
"""By name. Each takes a door and an empty folder, and raises what is wrong."""


class AdapterContract:
    """The behaviour of every adapter: a test for each scenario, named by it; a `door` fixture opens the agent."""

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_scenario(self, scenario: str, door: Door, tmp_path: Path) -> None:
        SCENARIOS[scenario](door, tmp_path)
