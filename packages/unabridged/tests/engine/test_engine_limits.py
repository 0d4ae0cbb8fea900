"""The engine when it can't work normally: too large, illegal, nothing to gain, an archive that fails."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from conversations import assistant, chat_round, long_chat, system, user
from engine_case import chat_of, compactor, rounds
from rows import rows
from unabridged import Settings, WontFit, check
from unabridged.archive.protocol import Part, Record
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.errors import ArchiveError
from unabridged.events import Event, Failed, Unchanged


def test_one_tool_result_twice_the_window_is_shortened_around_a_note() -> None:
    # R17
    engine = compactor(8_000)
    huge = "\n".join(f"row {i}: value {i * i}" for i in range(4_000))
    messages = [user("Count the rows."), *chat_round("query", huge, sql="select *")]
    fitted = engine.fit(messages, thread="t")
    assert fitted.tokens_after <= engine.limits.budget
    assert check(fitted.messages) == []
    assert "row 0: value 0" in fitted.messages[-1]["content"]
    assert "row 3999:" in fitted.messages[-1]["content"]
    assert "left out to fit the window" in fitted.messages[-1]["content"]
    assert engine.replay(fitted.messages, thread="t") == messages
    assert engine.fit(fitted.messages, thread="t").messages is fitted.messages


def test_one_turn_of_500_rounds_keeps_the_persons_message_and_cuts_between_rounds() -> None:
    # R16
    messages = rounds(500)
    fitted = compactor(16_000).fit(messages, thread="t")
    assert check(fitted.messages) == []
    assert fitted.messages[1] is messages[0]
    assert fitted.messages[-2:] == messages[-2:]
    assert "Message 0 of the user follows" in fitted.messages[0]["content"]


def test_fixed_overhead_above_the_window_is_one_typed_error_with_its_numbers() -> None:
    engine = compactor(4_000)
    with pytest.raises(WontFit) as raised:
        engine.fit(long_chat(3), thread="t", system="rule " * 8_000)
    error = raised.value
    assert error.overhead > error.window == 4_000
    assert error.floor > error.budget
    assert f"{error.floor:,}" in str(error)


@pytest.mark.parametrize("messages", [[], [user("hello")], [system("a"), system("b")]], ids=["empty", "one", "system"])
def test_small_conversations_are_left_alone(messages: list[Any]) -> None:
    # R19
    engine = compactor(4_000)
    assert engine.fit(messages, thread="t").messages is messages
    assert engine.compact(messages, thread="t") is None
    assert engine.replay(messages, thread="t") == messages


def test_only_system_messages_over_the_budget_wont_fit() -> None:
    # R18
    with pytest.raises(WontFit, match="system prompt"):
        compactor(1_000).fit([system("rule " * 900), system("rule " * 900)], thread="t")


@pytest.mark.parametrize("rounds", [1_000, pytest.param(25_000, marks=pytest.mark.long)])
def test_fifty_thousand_messages_are_compacted(rounds: int) -> None:
    messages = long_chat(rounds, words=6)
    engine = compactor(32_000)
    fitted = engine.fit(messages, thread="t")
    assert fitted.tokens_after <= engine.limits.budget
    assert len(engine.replay(fitted.messages, thread="t")) == len(messages) == 2 * rounds + 1


def test_an_irreducible_conversation_does_not_compact_again_at_every_turn() -> None:
    # R35
    events: list[Event] = []
    engine = compactor(
        4_000, on_event=events.append, settings=Settings(trigger=("fraction", 0.5), pin=lambda m: "PIN" in str(m))
    )
    pinned = user("PIN " + "fixed " * 400)
    while engine.plan([pinned, user("x")]).trigger is None:
        pinned["content"] += "fixed " * 20
    messages: list[Any] = [pinned, assistant("noted")]
    compactions = 0
    for i in range(60):
        fitted = engine.fit([*messages, user(f"turn {i}"), assistant("ok")], thread="t")
        compactions += fitted.changed
        messages = fitted.messages
    assert compactions <= 6
    assert sum(isinstance(event, Unchanged) for event in events) <= compactions + 1


def test_an_illegal_conversation_is_mended_and_that_is_said() -> None:
    messages = [user("go"), chat_round("read", "lost")[0], user("what now?"), *long_chat(40)]
    engine = compactor()
    fitted = engine.fit(messages, thread="t")
    assert check(messages) != []
    assert check(fitted.messages) == []
    assert fitted.receipt is not None
    assert any(note.startswith("repaired: ") for note in fitted.receipt.notes)
    assert engine.replay(fitted.messages, thread="t") == messages


def test_compact_leaves_calls_that_still_wait_for_an_answer_alone() -> None:
    messages = [*long_chat(40), chat_round("deploy", "later")[0]]
    engine = compactor(100_000)
    done = engine.compact(messages, thread="t")
    assert done is not None
    assert done.messages[-1] is messages[-1]


def test_off_means_no_change_on_any_path() -> None:
    engine = compactor(1_000, settings=Settings(off=True))
    messages = long_chat(40)
    assert engine.fit(messages, thread="t").messages is messages
    assert engine.compact(messages, thread="t") is None
    assert engine.plan(messages, thread="t").plan is None


@rows("trigger", [None, []], ids=str)
@rows("background", [None, 0.1], ids=["clearing", "background"])
@rows("agent", ["gpt-4.1", "claude-sonnet-4-5"])
def test_no_trigger_means_that_fit_changes_nothing_at_any_size_on_any_path(
    trigger: Any, background: float | None, agent: str
) -> None:
    asked: list[str] = []
    events: list[Event] = []
    options: dict[str, Any] = {"agent": agent, "on_event": events.append}
    options["settings"] = Settings(trigger=trigger, background=background)

    def summarise(text: str) -> str:
        asked.append(text)
        return "They worked on."

    engine = compactor(4_000, model=summarise, **options)
    now, whole, messages = 0.0, rounds(100, 400), []
    engine._runner.clock = lambda: now  # noqa: SLF001 - a pause in which a provider's cache expires
    for i in range(0, len(whole), 10):
        messages += whole[i : i + 10]
        now += 3_600.0 * (i % 3)
        fitted = engine.fit(messages, thread="t")
        assert (fitted.messages is messages, fitted.changed) == (True, False)
    assert engine._runner.background._work == {}  # noqa: SLF001 - nothing was begun in the background
    assert (asked, events) == ([], [])


def test_no_trigger_means_never_but_compact_still_works() -> None:
    # R4, R42
    engine = compactor(4_000, settings=Settings(trigger=None))
    messages = long_chat(40)
    assert engine.fit(messages, thread="t").messages is messages
    done = engine.compact(messages, thread="t")
    assert done is not None
    assert done.tokens_after < done.tokens_before
    assert engine.fit(done.messages, thread="t").messages is done.messages
    assert engine.fit(messages, thread="t").messages is messages  # who sends it all again asks again


def test_compact_works_at_any_size_and_says_what_it_did() -> None:
    # R42
    engine = compactor(200_000)
    messages = long_chat(40)
    done = engine.compact(messages, thread="t")
    assert done is not None
    assert done.receipt is not None
    assert done.receipt.reason == "asked for"
    assert engine.replay(done.messages, thread="t") == messages


@pytest.mark.parametrize("form", ["user", "pair", "alternate"])
def test_pins_stay_and_roles_still_alternate_where_that_is_asked_for(form: Any) -> None:
    # R27
    messages = long_chat(40)
    pinned = messages[10]
    how = Settings(pin=lambda message: message is pinned, form=form)
    fitted = compactor(settings=how).fit(messages, thread="t")
    assert sum(message is pinned for message in fitted.messages) == 1
    roles = [message["role"] for message in fitted.messages]
    if form != "user":
        assert all(one != other for one, other in itertools.pairwise(roles))
    else:
        own = {id(message) for message in messages}
        assert [id(message) in own for message in fitted.messages].count(False) == 1, "the summary alone is put in"


class FullDisk(MemoryArchive):
    """An archive that can't be written."""

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        raise ArchiveError(f"no space left for {len(parts)} messages of {record.scope.thread}")


def test_when_the_archive_fails_nothing_is_evicted_and_the_turn_goes_on_while_it_fits() -> None:
    # R37
    events: list[Event] = []
    engine = compactor(4_000, archive=FullDisk(), on_event=events.append)
    messages = chat_of(engine, engine.limits.budget)
    assert engine.plan(messages).trigger is not None
    fitted = engine.fit(messages, thread="t")
    assert fitted.messages is messages
    assert "no space left" in fitted.why
    assert any(isinstance(event, Failed) and event.stage == "archive" for event in events)
    with pytest.raises(ArchiveError, match="no space left"):
        engine.fit(long_chat(60), thread="t")
