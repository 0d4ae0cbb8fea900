"""Below the trigger nothing happens: a property over formats, models, names of threads and ways to send a history."""

from __future__ import annotations

import importlib
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversations import anthropic_round, assistant, chat_round, user
from effort import examples
from rows import rows
from unabridged import Compactor, Settings
from unabridged.formats import FORMATS
from unabridged.settings import Clear, Prices
from unabridged_testing import conversations

AGENTS = [None, "claude-opus-4-5", "claude-opus-5-5", "gpt-5-mini", "gemini-2.5-pro"]
WINDOWS = [2_000, 8_000, 32_768, 200_000]


@pytest.fixture(autouse=True, scope="module")
def _gemini_is_imported() -> None:
    """Import its SDK before anything is drawn: that draws random numbers, which a strategy must not."""
    importlib.import_module("google.genai.types")


def is_below(engine: Compactor, tokens: int) -> bool:
    return all(tokens < condition["tokens"] for condition in engine.limits.trigger)


@pytest.mark.parametrize("format_name", sorted(FORMATS))
@settings(max_examples=examples(10, 25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(),
    agent=st.sampled_from(AGENTS),
    window=st.sampled_from(WINDOWS),
    thread=st.sampled_from([None, "t"]),
    carried=st.booleans(),
)
def test_a_request_below_the_trigger_leaves_as_it_came(
    *, format_name: str, data: st.DataObject, agent: str | None, window: int, thread: str | None, carried: bool
) -> None:
    # R8
    whole = data.draw(conversations(format_name))
    with Compactor(agent=agent, window=window, archive="memory:", format=format_name) as engine:
        for length in range(1, len(whole) + 1):
            messages = whole[:length] if carried else deepcopy(whole[:length])
            planned = engine.plan(messages, thread=thread)
            if not is_below(engine, planned.tokens):
                return
            fitted = engine.fit(messages, thread=thread)
            assert planned.trigger is None
            assert fitted.messages is messages
            assert not fitted.changed
            assert fitted.receipt is None
        assert not list(engine.threads())


def bulky(rounds: int, words: int = 400) -> list[Any]:
    return [user("Read all."), *(m for i in range(rounds) for m in anthropic_round(f"read{i}", f"line {i} " * words))]


@rows("agent", AGENTS)
@rows("thread", [None, "t"])
def test_bulky_results_stay_whole_however_often_they_are_sent(agent: str | None, thread: str | None) -> None:
    # R8
    with Compactor(agent=agent, window=200_000, archive="memory:", format="anthropic") as engine:
        for rounds in range(1, 31):
            messages = bulky(rounds)
            assert engine.fit(messages, thread=thread).messages is messages
        assert not list(engine.threads())


def test_a_list_that_was_compacted_and_is_now_below_the_trigger_leaves_as_it_came() -> None:
    # R8
    with Compactor(window=8_000, archive="memory:") as engine:
        messages = bulky(40, words=40)
        assert engine.fit(messages, thread="t").changed
        fork = deepcopy(messages[:15])
        assert engine.fit(fork, thread="t").messages is fork
        assert engine.fit(deepcopy(messages), thread="t").changed, "the whole list is as large as it was"


def test_what_a_provider_refused_stays_compacted_below_the_trigger() -> None:
    # R8
    with Compactor(window=200_000, archive="memory:") as engine:
        messages = bulky(12)
        sent = engine.overflowed(engine.fit(messages, thread="t"), "prompt is too long: 9000 tokens > 6000 maximum")
        assert sent.changed
        again = engine.fit([*deepcopy(messages), assistant("Read."), user("And?")], thread="t")
        assert again.messages[: len(sent.messages)] == sent.messages


def test_clearing_below_the_trigger_is_an_option_and_says_what_it_needs(caplog: pytest.LogCaptureFixture) -> None:
    # R8
    pays = Clear(payback=True, prices=Prices())
    messages = [user("Read."), *(m for i in range(30) for m in chat_round(f"read{i}", f"line {i} " * 400))]
    for recall in (False, False, True):
        with Compactor(window=10**6, archive="memory:", settings=Settings(clear=pays, recall=recall)) as engine:
            assert engine.fit(messages, thread="t").changed
    warned = [text for text in caplog.messages if text.startswith("Clear(payback=True)")]
    assert len(warned) <= 1, "once in a process"
    assert all("Settings(recall=True)" in text for text in warned)


@rows("rounds", [3, 30, 300])
@rows("clear", [None, Clear()], ids=["no clearing", "clearing"])
def test_plan_says_what_fit_does(rounds: int, clear: Clear | None) -> None:
    # R8
    for messages in (
        bulky(rounds, words=60),
        [m for i in range(rounds) for m in (user(f"q {i} " * 40), assistant("a"))],
    ):
        with Compactor(window=8_000, archive="memory:", settings=Settings(clear=clear)) as engine:
            outlook = engine.plan(messages, thread="t")
            fitted = engine.fit(messages, thread="t")
            assert (
                outlook.trigger is not None and (outlook.plan is not None or outlook.clears != ())
            ) == fitted.changed
            if fitted.receipt is not None:
                assert (fitted.receipt.kind == "clearing") == (outlook.clears != ())
            assert engine.plan(messages, thread="t").why.startswith("what was recorded") == fitted.changed
