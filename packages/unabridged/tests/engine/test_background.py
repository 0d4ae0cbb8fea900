"""Summaries made early: no turn waits for one before the budget is reached, and a stale one is never used."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from archive_support import new_schema, postgres_url
from conversations import anthropic_round, assistant, chat_round, long_chat, user
from engine_case import fill
from patience import PATIENCE
from unabridged import Compactor, Settings
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.postgres import open_postgres
from unabridged.asking.ask import Ask, Reply
from unabridged.errors import SettingsError
from unabridged.settings import Clear
from unabridged_testing.upstreams import SigningUpstream

PROSE = "They went through many questions about details, one after another, and settled each of them."


class Gate:
    """A summariser that answers when it is let."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.asked = threading.Event()
        self.asks: list[Ask] = []
        self.answered = 0

    def __call__(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        self.asked.set()
        self.open.wait(30)
        self.answered += 1
        return Reply(PROSE, "end", model="slow")


def grow(engine: Compactor, upto: int, messages: list[Any] | None = None) -> list[Any]:
    """A chat that takes just less than so many tokens."""
    begun = list(messages or long_chat(1, words=8))

    def grown(turns: int) -> list[Any]:
        more = list(begun)
        for _ in range(turns - 1):
            more.append(assistant(f"Answer {len(more)}, with some words."))
            more.append(user(f"Question {len(more) - 1}, what of it?"))
        return more

    return fill(engine, grown, upto - 1)


def settle(engine: Compactor, thread: str) -> None:
    engine._runner.background.wait(Scope(engine._namespace, thread), PATIENCE)  # noqa: SLF001 - waits for the background work itself


def test_a_summary_is_made_near_the_trigger_and_swapped_in_at_it_without_a_wait() -> None:
    gate = Gate()
    settings = Settings(background=0.7, deadline=30)
    with Compactor(gate, window=4_000, archive="memory:", settings=settings) as engine:
        near = grow(engine, int(0.8 * engine.limits.tokens_below_trigger))
        assert engine.fit(near, thread="t").messages is near
        full = grow(engine, engine.limits.budget, near)
        waiting = engine.fit(full, thread="t")  # pulled, but it still fits: nobody waits
        assert waiting.messages is full
        assert "in the background" in waiting.why
        assert gate.answered == 0
        gate.open.set()
        settle(engine, "t")
        made = len(gate.asks)
        more = [*full, assistant("Arrived meanwhile."), user("And this too.")]
        fitted = engine.fit(more, thread="t")
        assert fitted.changed
        assert fitted.receipt is not None
        assert "made early" in fitted.receipt.reason
        assert fitted.messages[-2:] == more[-2:]
        assert len(gate.asks) == made
        assert engine.replay(fitted.messages, thread="t") == more


def test_at_the_budget_the_turn_waits_for_what_is_being_made() -> None:
    gate = Gate()
    settings = Settings(background=0.7, deadline=30)
    with Compactor(gate, window=4_000, archive="memory:", settings=settings) as engine:
        near = grow(engine, int(0.8 * engine.limits.tokens_below_trigger))
        engine.fit(near, thread="t")
        over = grow(engine, engine.limits.budget + 1_000, near)
        threading.Timer(0.3, gate.open.set).start()
        fitted = engine.fit(over, thread="t")
        assert fitted.tokens_after <= engine.limits.budget
        assert PROSE in str(fitted.messages[0])


def test_what_was_made_for_an_edited_beginning_is_never_used() -> None:
    gate = Gate()
    gate.open.set()
    settings = Settings(background=0.7, deadline=30)
    with Compactor(gate, window=4_000, archive="memory:", settings=settings) as engine:
        near = grow(engine, int(0.8 * engine.limits.tokens_below_trigger))
        engine.fit(near, thread="t")
        settle(engine, "t")
        made = len(gate.asks)
        edited = [user("Something else entirely."), *near[1:]]
        over = grow(engine, engine.limits.budget + 500, edited)
        fitted = engine.fit(over, thread="t")
        assert engine.replay(fitted.messages, thread="t") == over
        assert len(gate.asks) > made


def test_a_failing_summariser_in_the_background_changes_nothing() -> None:
    def broken(_: Ask) -> Reply:
        raise RuntimeError("down")

    settings = Settings(background=0.7, deadline=1, retries=0, cool_down=60)
    with Compactor(broken, window=4_000, archive="memory:", settings=settings) as engine:
        near = grow(engine, int(0.8 * engine.limits.tokens_below_trigger))
        assert engine.fit(near, thread="t").messages is near
        settle(engine, "t")
        over = grow(engine, engine.limits.budget + 500, near)
        fitted = engine.fit(over, thread="t")
        assert fitted.receipt is not None
        assert fitted.receipt.summariser == "model-free"


def test_one_of_two_processes_makes_it() -> None:
    archive, gate = MemoryArchive(), Gate()
    settings = Settings(background=0.7, deadline=30)
    engines = [Compactor(gate, window=4_000, archive=archive, settings=settings, namespace="n") for _ in range(2)]
    near = grow(engines[0], int(0.8 * engines[0].limits.tokens_below_trigger))
    engines[0].fit(near, thread="t")
    assert gate.asked.wait(PATIENCE)
    engines[1].fit(near, thread="t")
    settle(engines[1], "t")  # ends while the other one still waits for its model
    assert (len(gate.asks), gate.answered) == (1, 0)
    gate.open.set()
    settle(engines[0], "t")
    assert len(archive.records(Scope("n", "t"))) == 1
    made = len(gate.asks)
    assert len({ask.instruction for ask in gate.asks}) == made  # nothing was asked twice
    full = grow(engines[0], engines[0].limits.budget, near)
    one, other = (engine.fit(list(full), thread="t") for engine in engines)
    assert one.messages == other.messages
    assert one.changed
    assert len(gate.asks) == made


def test_one_is_enough_until_the_list_changes() -> None:
    gate = Gate()
    gate.open.set()
    with Compactor(gate, window=4_000, archive="memory:", settings=Settings(background=0.6, deadline=30)) as engine:
        grown: list[Any] | None = None
        asked = []
        for share in (0.65, 0.75, 0.85, 0.95):
            grown = grow(engine, int(share * engine.limits.tokens_below_trigger), grown)
            assert engine.fit(grown, thread="t").messages is grown
            settle(engine, "t")
            asked.append(len(gate.asks))
        made = asked[0]
        assert asked == [made] * 4
        assert made > 0
        swapped = engine.fit(grow(engine, engine.limits.budget, grown), thread="t")
        assert swapped.changed
        again = grow(engine, int(0.8 * engine.limits.tokens_below_trigger), swapped.messages)
        engine.fit(again, thread="t")
        settle(engine, "t")
        assert len(gate.asks) > made


def test_where_clearing_will_do_no_model_is_asked_early() -> None:
    gate = Gate()
    gate.open.set()
    with Compactor(gate, window=8_000, archive="memory:", settings=Settings(background=0.6, deadline=30)) as engine:
        messages: list[Any] = [user("Read them all.")]
        while engine.plan(messages).trigger is None:
            messages += chat_round(f"read_{len(messages)}", "row " * 300)
            fitted = engine.fit(messages, thread="t")
            settle(engine, "t")
        assert fitted.receipt is not None
        assert fitted.receipt.kind == "clearing"
        assert gate.asks == []


def test_a_conversation_that_came_in_illegal_is_mended_before_a_model_is_paid() -> None:
    gate = Gate()
    gate.open.set()
    with Compactor(gate, window=4_000, archive="memory:", settings=Settings(background=0.6, deadline=30)) as engine:
        call, _ = chat_round("read", "never came")
        near = grow(
            engine, int(0.8 * engine.limits.tokens_below_trigger), [user("Go."), call, user("Stop, something else.")]
        )
        engine.fit(near, thread="t")
        settle(engine, "t")
        made = len(gate.asks)
        assert made > 0
        fitted = engine.fit(grow(engine, engine.limits.budget, near), thread="t")
        assert fitted.receipt is not None
        assert "made early" in fitted.receipt.reason
        assert len(gate.asks) == made


def test_thinking_said_between_the_making_and_the_swap_is_dropped_once_where_it_is_bound() -> None:
    gate = Gate()
    gate.open.set()
    settings = Settings(background=0.5, deadline=30, clear=None)
    with Compactor(gate, agent="claude-opus-5-5", window=6_000, archive="memory:", settings=settings) as engine:
        messages: list[Any] = [user("the task")]
        while engine.plan(messages).tokens < 0.6 * engine.limits.tokens_below_trigger:
            messages += anthropic_round(f"s{len(messages)}", "result " * 60, thinking=f"thought {len(messages)}")
        engine.fit(messages, thread="t")
        settle(engine, "t")
        while engine.plan(messages).trigger is None:
            messages += anthropic_round(f"s{len(messages)}", "result " * 60, thinking=f"thought {len(messages)}")
        swapped = engine.fit(messages, thread="t")
        assert swapped.changed
        assert "thought" not in str(swapped.messages)
        later = [*messages, *anthropic_round("new", "fine", thinking="a new thought")]
        again = engine.fit(later, thread="t")  # a caller who resends everything
        assert again.messages[: len(swapped.messages)] == swapped.messages
        assert "a new thought" in str(again.messages)
        assert engine.replay(again.messages, thread="t") == later


@pytest.mark.parametrize("wrong", [0, 1, 1.5, -0.2, True])
def test_a_share_outside_0_and_1_is_refused(wrong: float) -> None:
    with pytest.raises(SettingsError, match="background"):
        Settings(background=wrong)


def test_a_conversation_that_nobody_named_is_summarised_by_one_of_two_processes() -> None:
    archive, one, other = MemoryArchive(), Gate(), Gate()
    settings = Settings(background=0.7, deadline=30)
    with (
        Compactor(one, window=4_000, archive=archive, settings=settings) as here,
        Compactor(other, window=4_000, archive=archive, settings=settings) as there,
    ):
        near = grow(here, int(0.8 * here.limits.tokens_below_trigger))
        here.fit(near)
        assert one.asked.wait(PATIENCE)
        there.fit([user("Something else.")])
        there.fit([*near, assistant("Yes."), user("And then?")])
        one.open.set()
        other.open.set()
        for engine in (here, there):
            engine._runner.background.wait_for_all(20)  # noqa: SLF001 - waits for the background work itself
        assert not other.asks
        assert len(archive.threads("default")) == 1


def test_of_two_processes_that_compact_the_same_the_first_decides_what_both_send() -> None:
    archive, both = MemoryArchive(), threading.Barrier(2)
    turns = {name: threading.Lock() for name in ("Anna", "Bert")}  # two chunks of one process never meet each other

    def write(name: str, _: Ask) -> Reply:
        with turns[name]:
            both.wait(PATIENCE)
        return Reply(f"{PROSE} That is what {name} wrote.", "end", model=name)

    def compact(name: str) -> list[Any]:
        with Compactor(partial(write, name), window=4_000, archive=archive) as engine:
            done = engine.fit(long_chat(20, words=40), thread="t")
            assert engine.replay(done.messages, thread="t") == long_chat(20, words=40)
            return done.messages

    with ThreadPoolExecutor(2) as beside:
        one, other = beside.map(compact, turns)
    assert one == other
    assert "wrote" in str(one)


@pytest.mark.parametrize("thread", ["t", None])
def test_what_was_sent_without_a_model_replays_when_a_models_summary_takes_its_place(thread: str | None) -> None:
    archive, given, meanwhile = MemoryArchive(), long_chat(60, words=40), list[Any]()

    def write(_: Ask) -> Reply:  # another process has no model, and can't wait
        if not meanwhile:
            with Compactor(window=4_000, archive=archive) as other:
                meanwhile.extend(other.fit(given, thread=thread).messages)
        return Reply(PROSE, "end", model="slow")

    with Compactor(write, window=4_000, archive=archive) as engine:
        sent = engine.fit(given, thread=thread).messages
        assert (PROSE in str(meanwhile), PROSE in str(sent)) == (False, True)
        assert engine.replay(meanwhile, thread=thread) == engine.replay(sent, thread=thread) == given
    assert not archive.verify()
    with Compactor(window=4_000, archive=archive) as engine:
        assert engine.fit(given, thread=thread).messages == sent, "from now on, the model's"


def test_what_another_process_cleared_below_the_trigger_is_sent_from_here_too() -> None:
    provider = SigningUpstream()
    messages: list[Any] = [user("the task")]
    pays = Settings(clear=Clear(payback=True), recall=True)
    gate, settings = Gate(), replace(pays, background=0.4, deadline=30)  # so near the trigger, nothing is cleared
    with (
        closing(open_postgres(postgres_url(), schema=new_schema())) as archive,
        Compactor(agent="claude-opus-5-5", window=60_000, archive=archive, settings=pays) as here,
        Compactor(gate, agent="claude-opus-5-5", window=60_000, archive=archive, settings=settings) as there,
    ):
        cleared = 0
        for i in range(24):
            engine = here if i % 5 else there
            sent = engine.fit([*messages])
            cleared += sent.receipt is not None and sent.tokens_before < engine.limits.tokens_below_trigger
            provider.take(sent.messages)
            new = anthropic_round(f"step{i}", f"{i} result " * 900, thinking=f"thought {i}")
            messages += provider.sign(new, after=sent.messages)
        gate.open.set()
    assert cleared, "below the trigger"
