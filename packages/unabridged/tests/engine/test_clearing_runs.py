"""Clearing in the engine, below the trigger: at prices that are told, after a pause, on lists that came in illegal."""

from __future__ import annotations

from typing import Any

import pytest

from conversations import anthropic_round, assistant, chat_round, user
from unabridged import Compactor, Settings, check
from unabridged.settings import Clear, Prices


def rounds(count: int, words: int = 200) -> list[Any]:
    found = [user("Read all of it and compare.")]
    return [
        *found,
        *(m for n in range(count) for m in chat_round(f"t{n}", f"line {n} of it\n" * words, path=f"{n}.py")),
    ]


def compactor(prices: Prices | None, *, payback: bool = True, **clear: Any) -> Compactor:
    settings = Settings(clear=Clear(prices=prices, payback=payback, **clear), recall=True)
    return Compactor(window=500_000, archive="memory:", settings=settings)


def test_where_the_model_is_not_known_clearing_pays_at_the_prices_that_are_told() -> None:
    with compactor(Prices()) as told, compactor(None) as untold:
        messages, same = rounds(1), rounds(1)
        kinds: list[str] = []
        for n in range(40):
            came = chat_round(f"later{n}", f"line {n} of it\n" * 200)
            fitted = told.fit([*messages, *came], thread="t")
            messages = fitted.messages
            kinds += [fitted.receipt.kind] if fitted.changed and fitted.receipt else []
            same = [*same, *came]
            assert untold.fit(same, thread="t").messages is same
        assert set(kinds) == {"clearing"}
        assert told.replay(messages, thread="t") == same


def test_payback_turned_off_clears_nothing_below_the_trigger_whatever_the_prices() -> None:
    with compactor(Prices(), payback=False) as engine:
        messages = rounds(40)
        assert engine.fit(messages, thread="t").messages is messages


@pytest.mark.parametrize(("pause", "cleared"), [(20.0, False), (400.0, True)])
def test_after_a_pause_longer_than_the_cache_lives_rewriting_costs_nothing(pause: float, cleared: bool) -> None:
    now = 0.0
    with compactor(Prices(read=0.1, write=1.25, lifetime=300.0)) as engine:
        engine._runner.clock = lambda: now  # noqa: SLF001 - time passes as the test says
        messages = rounds(3)
        assert not engine.fit(messages, thread="t").changed
        now += 20.0
        messages += rounds(6)[7:]
        assert not engine.fit(messages, thread="t").changed
        now += pause
        messages += rounds(7)[13:]
        assert engine.fit(messages, thread="t").changed == cleared


def test_a_conversation_that_came_in_illegal_is_mended_when_it_is_cleared_and_left_alone_when_not() -> None:
    aborted = anthropic_round("never", "x")[0]  # a call that never got its result
    broken = [user("Read all of it."), aborted, user("Go on.")]
    with compactor(Prices()) as engine:
        short = [*broken, *anthropic_round("a", "line of it\n" * 400)]
        assert engine.fit(short, thread="short").messages is short
        messages = [*broken, *(m for n in range(12) for m in anthropic_round(f"t{n}", f"line {n} of it\n" * 400))]
        fitted = engine.fit(messages, thread="t")
        assert fitted.receipt is not None
        assert fitted.receipt.kind == "clearing"
        assert check(messages) != []
        assert check(fitted.messages) == []
        assert engine.replay(fitted.messages, thread="t") == messages


def test_a_caller_who_resends_everything_gets_what_was_cleared_at_every_call() -> None:
    with compactor(Prices()) as engine:
        whole = rounds(14)
        first = engine.fit(list(whole), thread="t")
        assert first.changed
        for _ in range(4):
            whole += [assistant("Noted."), user("Go on.")]
            again = engine.fit(list(whole), thread="t")
            assert again.messages[: len(first.messages)] == first.messages
