"""The peers whose framework is installed with this project, run without a fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.driver import Peer, Process
from benchmarks.framework_family import Numbered, response_item, response_piece
from benchmarks.harness import MADE
from benchmarks.parts import survival
from conversations import assistant, chat_round, user
from unabridged_testing import refusals

FRAMEWORKS = ("strands", "google_adk", "openai_agents")
_RUNNING: dict[str, Process] = {}


@pytest.fixture(scope="module", autouse=True)
def _processes() -> Iterator[None]:
    yield
    while _RUNNING:
        _RUNNING.popitem()[1].close()


def turns(
    name: str, given: list[dict[str, Any]], window: int, fake: str = "extractive", which: int = 0
) -> list[dict[str, Any]]:
    """Return what the peer answers at each model call, in this project's environment."""
    if name not in _RUNNING:
        _RUNNING[name] = Process(Peer(name, ()))
    process = _RUNNING[name]
    arm = list(process.hello()["arms"])[which]
    process.ask("start", arm=arm, window=window, fake=fake, budget=100)
    stops = [i for i, message in enumerate(given) if message["role"] == "assistant"] + [len(given)]
    answers, taken = list[dict[str, Any]](), 0
    for stop in stops:
        usage = 170 * len(answers[-1]["request"]) if answers else None  # what a message of such a run is
        answers.append(process.ask("turn", new=given[taken:stop], usage=usage))
        taken = stop
    return answers


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_below_the_trigger_a_framework_sends_the_very_messages(name: str) -> None:
    given = [user("Read it."), *chat_round("read", "A"), *chat_round("read", "B"), assistant("Done."), user("Thanks.")]
    answers = turns(name, given, 100_000)
    assert [answer["error"] for answer in answers] == [None] * len(answers)
    assert answers[-1]["request"] == list(range(len(given)))
    assert [answer["calls"] for answer in answers] == [[]] * len(answers)


@pytest.mark.parametrize("name", ["strands", "google_adk"])
def test_a_run_that_outgrows_the_window_is_summarised_and_stays_legal(name: str) -> None:
    given = survival.conversation(0)[0]
    answers = turns(name, given, 6_000)
    made = {int(number): message for answer in answers for number, message in answer["made"].items()}
    requests = [[made[n] if n >= MADE else given[n] for n in answer["request"]] for answer in answers]
    assert any(answer["calls"] for answer in answers)
    assert len(requests[-1]) < len(given) / 2
    assert [refusals("openai-chat", request) for request in requests] == [[]] * len(requests)


def test_openai_agents_compacts_at_the_end_of_a_run_and_not_before() -> None:
    rounds = [message for _ in range(6) for message in chat_round("read", "A")]
    answers = turns("openai_agents", [user("Read it."), *rounds, assistant("Done."), user("Once more.")], 100_000)
    assert [len(answer["calls"]) for answer in answers] == [0] * (len(answers) - 1) + [1]
    assert answers[-1]["request"] == [0, MADE, 14]


def test_openai_agents_with_a_run_a_step_compacts_within_the_window() -> None:
    answers = turns("openai_agents", survival.conversation(0)[0], 6_000, which=1)
    assert any(answer["calls"] for answer in answers)
    assert max(len(answer["request"]) for answer in answers) < 40
    assert [answer["error"] for answer in answers] == [None] * len(answers)


def test_a_summariser_that_fails_ends_the_run_of_a_strands_agent_only_when_a_request_was_refused() -> None:
    answers = turns("strands", survival.conversation(0)[0], 6_000, fake="connection lost")
    errors = [answer["error"] for answer in answers]
    first = next(i for i, error in enumerate(errors) if error)
    assert "connection reset" in errors[first]
    assert any(answer["calls"] for answer in answers[:first])


def test_a_message_in_pieces_is_the_very_message_again_or_what_is_left_of_it() -> None:
    call, result = chat_round("read", "A")
    spoken = {**call, "content": "I look."}
    numbered = Numbered()
    items = [response_item(piece, n) for n, pieces in map(numbered.split, [spoken, result]) for piece in pieces]
    assert [item["type"] for item in items] == ["message", "function_call", "function_call_output"]
    joined = numbered.join([response_piece(item) for item in items])
    assert joined[0] is spoken
    assert joined[1] is result
    assert numbered.join([response_piece(items[0])]) == [assistant("I look.")]
