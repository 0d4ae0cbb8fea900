"""Calls at the very end of a list wait for their results: nothing is put in for them, so no call gets two."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import anthropic_round, chat_round, converse_round, gemini_round, responses_round
from effort import ALL
from engine_case import compactor
from properties_case import EXAMPLES, compactor_for, profile, same
from rows import rows
from unabridged import Compactor, Settings, WontFit, check
from unabridged.formats import FORMATS, Format
from unabridged.legality import NO_RESULT
from unabridged_testing import Conversation, Shape, make_conversation, refusals, shapes

ROUNDS: dict[str, Any] = {
    "openai-chat": chat_round,
    "openai-responses": responses_round,
    "anthropic": anthropic_round,
    "gemini": gemini_round,
    "bedrock-converse": converse_round,
}


def said(format_: str, role: Literal["user", "assistant"], text: str) -> Any:
    return FORMATS[format_].text(role, text)


def talk(format_: str, turns: int = 40) -> list[Any]:
    return [
        message
        for n in range(turns)
        for message in (
            said(format_, "user", f"What about pump {n}? " * 12),
            said(format_, "assistant", f"Pump {n} is steady. " * 25),
        )
    ]


def answers_to_each_call(format_: Format, messages: list[Any]) -> Counter[str]:
    return Counter(answer.call_id for message in messages for answer in format_.read(message).answers)


@rows("how", ["carried", "resent"])
@rows("door", ["fit", "compact"])
@rows("format_", ROUNDS)
def test_calls_at_the_end_get_no_stand_ins_and_their_results_make_the_list_legal(
    format_: str, door: str, how: str
) -> None:
    calls = len(ROUNDS[format_]("edit", "a", "b")) - (2 if format_ in {"openai-chat", "openai-responses"} else 1)
    both = ROUNDS[format_]("edit", "Written.", "Written too.", path="a.py")
    before = [*talk(format_), said(format_, "user", "Write both files.")]
    engine = compactor(8_000, format=format_)
    fitted = getattr(engine, door)([*before, *both[:calls]], thread="t")
    assert fitted.changed
    assert NO_RESULT not in str(fitted.messages)
    assert fitted.messages[-calls:] == both[:calls]
    given = [*(fitted.messages if how == "carried" else [*before, *both[:calls]]), *both[calls:]]
    sent = engine.fit(given, thread="t").messages
    assert not check(sent, format=format_)
    assert not refusals(format_, sent)
    assert engine.replay(sent, thread="t") == [*before, *both]


def test_a_call_that_a_person_went_on_behind_still_gets_a_stand_in() -> None:
    round_ = chat_round("edit", "Written.", "Written too.")
    engine = compactor(8_000)
    sent = engine.fit([*talk("openai-chat"), *round_[:2], {"role": "user", "content": "Stop."}], thread="t").messages
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["edit-0", "edit-1"]
    assert NO_RESULT in str(sent)
    assert not check(sent, format="openai-chat")


def test_a_summary_made_in_the_background_puts_nothing_in_for_calls_at_the_end() -> None:
    engine = Compactor(
        lambda prompt: "The pumps were looked at, one by one, and every one of them is steady.",  # noqa: ARG005
        window=8_000,
        archive="memory:",
        settings=Settings(background=0.3),
    )
    both = chat_round("edit", "Written.", "Written too.")
    given: list[Any] = []
    for message in [*talk("openai-chat", 12), {"role": "user", "content": "Write both files."}, *both]:
        given.append(message)
        engine.fit(list(given), thread="t")
        engine._runner.background.wait_for_all(30)  # noqa: SLF001 - nothing public waits for it
    given += talk("openai-chat", 20)
    sent = engine.fit(given, thread="t").messages
    assert not check(sent, format="openai-chat")
    assert NO_RESULT not in str(sent)


def grown_by_one_message(conversation: Conversation, format_: str, window: int, *, carried: bool) -> int:
    """`fit` at every prefix of the conversation; how many of them end in calls that wait and were compacted."""
    found, done = 0, 0
    kept: list[Any] = []
    stops = set(conversation.stops)
    with compactor_for(format_, window) as engine:
        for stop in range(1, len(conversation.messages) + 1):
            if conversation.what[stop - 1] == "reasoning":
                continue  # an item comes with what it led to
            begun = kept if carried else []
            messages = [*begun, *copy.deepcopy(conversation.messages[done if carried else 0 : stop])]
            fitted = engine.fit(messages, thread="t")
            assert NO_RESULT not in str(fitted.messages), f"a stand-in in a legal conversation, prefix {stop}"
            twice = {
                call: n
                for call, n in answers_to_each_call(FORMATS[format_], fitted.messages).items()
                if n > answers_to_each_call(FORMATS[format_], conversation.messages)[call]
            }
            assert not twice, f"more results than were given, prefix {stop}: {twice}"
            if stop in stops:
                assert not check(fitted.messages, format=format_), f"prefix {stop}"
                assert not refusals(format_, fitted.messages), f"prefix {stop}"
            else:
                assert not check(fitted.messages, format=format_, pending=True), f"prefix {stop}"
                found += fitted.changed and conversation.what[stop - 1] == "call"
            assert same(engine.replay(fitted.messages, thread="t"), conversation.messages[:stop]), f"replay at {stop}"
            kept, done = list(fitted.messages), stop
    return found


RESENT = ("openai-chat", "anthropic")
EVERY_PREFIX = [(format_, carried) for carried in (True, False) for format_ in (FORMATS if carried or ALL else RESENT)]
"""One format with results of their own and one with results in a turn are enough for the way that carries nothing."""


@pytest.mark.parametrize(("format_", "carried"), EVERY_PREFIX)
def test_fitted_at_every_prefix_no_call_ever_has_two_results(format_: str, carried: bool) -> None:
    compacted_while_waiting = 0

    @settings(profile, max_examples=max(4, EXAMPLES // 30))
    @given(shape=shapes(format_), window=st.sampled_from([2_000, 3_000]))
    def hold(shape: Shape, window: int) -> None:
        nonlocal compacted_while_waiting
        conversation = make_conversation(shape)
        try:
            compacted_while_waiting += grown_by_one_message(conversation, format_, window, carried=carried)
        except WontFit:
            return

    hold()
    assert compacted_while_waiting > 0
