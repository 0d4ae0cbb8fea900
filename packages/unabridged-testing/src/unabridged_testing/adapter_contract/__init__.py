"""What every adapter of a framework must do, as tests: subclass `AdapterContract` and say how to open an agent.

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

from unabridged_testing.adapter_contract import runs, talks
from unabridged_testing.adapter_contract.interface import (
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

Scenario = Callable[[Door, Path], None]
SCENARIOS: Mapping[str, Scenario] = {
    "long chain": runs.long_chain,
    "parallel calls": runs.parallel_calls,
    "pending approval": runs.pending_approval,
    "overflow": runs.overflow,
    "summariser down": runs.summariser_down,
    "images": talks.images,
    "streaming": runs.streaming,
    "resume after restart": talks.resume,
    "undo": talks.undo,
    "recall": talks.recall,
    "off": talks.off,
    "below the trigger": talks.below_trigger,
    "two agents at once": runs.two_at_once,
    "names": talks.names,
    "rules verbatim after ten compactions": talks.rules_verbatim,
    "replay exact": talks.replay_exact,
}
"""Each takes a door and an empty folder, and raises what is wrong."""


class AdapterContract:
    """The behaviour of every adapter, each sentence a test."""

    def test_a_long_chain_of_calls_needs_no_refusal(self, door: Door, tmp_path: Path) -> None:
        runs.long_chain(door, tmp_path)

    def test_calls_at_once_stay_with_their_results(self, door: Door, tmp_path: Path) -> None:
        runs.parallel_calls(door, tmp_path)

    def test_a_call_that_waits_for_approval_runs_once_and_afterwards(self, door: Door, tmp_path: Path) -> None:
        runs.pending_approval(door, tmp_path)

    def test_a_refusal_as_too_long_is_mended_once_and_learned_from(self, door: Door, tmp_path: Path) -> None:
        runs.overflow(door, tmp_path)

    def test_a_summariser_that_fails_ends_no_run(self, door: Door, tmp_path: Path) -> None:
        runs.summariser_down(door, tmp_path)

    def test_pictures_are_shown_go_and_come_back(self, door: Door, tmp_path: Path) -> None:
        talks.images(door, tmp_path)

    def test_a_stream_comes_in_pieces_behind_a_refusal_too(self, door: Door, tmp_path: Path) -> None:
        runs.streaming(door, tmp_path)

    def test_another_process_goes_on_where_this_one_stopped(self, door: Door, tmp_path: Path) -> None:
        talks.resume(door, tmp_path)

    def test_the_newest_compaction_can_be_taken_back(self, door: Door, tmp_path: Path) -> None:
        talks.undo(door, tmp_path)

    def test_an_agent_reads_again_what_left_its_context(self, door: Door, tmp_path: Path) -> None:
        talks.recall(door, tmp_path)

    def test_switched_off_nothing_changes(self, door: Door, tmp_path: Path) -> None:
        talks.off(door, tmp_path)

    def test_below_the_trigger_nothing_changes(self, door: Door, tmp_path: Path) -> None:
        talks.below_trigger(door, tmp_path)

    def test_two_conversations_at_once_know_nothing_of_each_other(self, door: Door, tmp_path: Path) -> None:
        runs.two_at_once(door, tmp_path)

    def test_a_name_is_kept_as_it_is_and_what_is_none_is_refused(self, door: Door, tmp_path: Path) -> None:
        talks.names(door, tmp_path)

    def test_rules_stand_to_the_letter_after_ten_compactions(self, door: Door, tmp_path: Path) -> None:
        talks.rules_verbatim(door, tmp_path)

    def test_the_original_conversation_comes_back_exactly(self, door: Door, tmp_path: Path) -> None:
        talks.replay_exact(door, tmp_path)
