"""How full the window is after a compaction, where the caller says so."""

from __future__ import annotations

from typing import Any

import pytest

from conversations import long_chat
from engine_case import compactor, rounds
from rows import rows
from unabridged import Compactor, Settings
from unabridged.errors import SettingsError
from unabridged.settings import resolve_limits


@rows("share", [0.2, 0.35, 0.5, 0.7])
@rows("messages", [long_chat(150), rounds(160)], ids=["talk", "rounds"])
def test_a_compaction_fills_the_window_to_the_target(share: float, messages: list[Any]) -> None:
    window = 16_000
    settings = Settings(target=("fraction", share), clear=None)
    engine = compactor(window, settings=settings)
    fitted = engine.fit(messages, thread="t")
    assert fitted.changed
    assert fitted.tokens_after <= share * window
    assert fitted.tokens_after >= 0.55 * share * window
    assert engine.replay(fitted.messages, thread="t") == messages


def test_a_clearing_that_leaves_more_than_the_target_is_not_enough() -> None:
    messages = rounds(60, size=200)
    engine = compactor(24_000)
    cleared = engine.fit(messages, thread="t")
    assert cleared.receipt is not None
    assert cleared.receipt.kind == "clearing"
    below = cleared.tokens_after - 500
    aimed = compactor(24_000, settings=Settings(target=("tokens", below))).fit(messages, thread="t")
    assert aimed.receipt is not None
    assert aimed.receipt.kind == "summary"
    assert aimed.tokens_after <= below


def test_every_compaction_of_a_long_run_meets_it_and_none_follows_at_once() -> None:
    engine = compactor(8_000, settings=Settings(target=("fraction", 0.5), clear=None))
    messages: list[Any] = []
    compactions = 0
    told = long_chat(100)
    for turn in told:
        messages = [*messages, turn]
        fitted = engine.fit(messages, thread="t")
        messages = fitted.messages
        if fitted.changed:
            compactions += 1
            assert fitted.tokens_after <= 4_000
    assert 3 <= compactions <= 1.5 * engine.plan(told).tokens / (0.85 * 8_000 - 4_000)


def test_another_target_does_not_pick_up_the_record_of_this_one() -> None:
    archive = compactor()._archive  # noqa: SLF001 - one archive for both
    messages = long_chat(150)
    half = Compactor(window=16_000, archive=archive, settings=Settings(target=("fraction", 0.5)))
    fifth = Compactor(window=16_000, archive=archive, settings=Settings(target=("fraction", 0.2)))
    assert fifth.fit(messages, thread="t").tokens_after < half.fit(messages, thread="t").tokens_after


@rows(
    ("given", "says"),
    [
        ({"target": ("fraction", 0.9)}, "target must be below the trigger"),
        ({"target": ("tokens", 7_000), "trigger": ("tokens", 6_000)}, "7,000 tokens wanted, trigger at 6,000"),
        *(
            ({"target": ("fraction", 0.5), "keep": keep}, "keep or target, not both")
            for keep in (("messages", 20), ("fraction", 0.1), ("fraction", 0.2), ("tokens", 10), [("fraction", 0.1)])
        ),
        ({"target": ("messages", 20)}, "target is a size"),
        ({"target": ("fraction", 1.5)}, "target fraction must be"),
        ({"target": 0.5}, "target takes pairs"),
        ({"target": [("fraction", 0.5), ("tokens", 5)]}, "target"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        resolve_limits(Settings(**given), 8_000)


def test_after_a_refusal_the_target_follows_the_smaller_window_or_gives_way() -> None:
    for target in (("fraction", 0.5), ("tokens", 7_000)):
        engine = compactor(16_000, settings=Settings(target=target))
        fitted = engine.fit(long_chat(150), thread="t")
        again = engine.overflowed(fitted, f"prompt is too long: {fitted.tokens_after} tokens > 5000 maximum")
        assert again.tokens_after < 5_000
