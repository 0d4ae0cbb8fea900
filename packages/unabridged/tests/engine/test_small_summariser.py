"""A summariser that says "too long" and no number: asked in smaller asks, remembered, and never in the way."""

from __future__ import annotations

from typing import Any

import pytest

from conversations import assistant, user
from unabridged import Compactor, Settings

NOTE = "The pumps were looked at one after the other. All of them are steady, and nothing is left to be done. "
TRIGGER = 8_000


class Small:
    """Takes so many characters, and refuses more without saying how many."""

    def __init__(self, most: int) -> None:
        self.most, self.asked, self.refused = most, 0, 0

    def __call__(self, prompt: str) -> str:
        self.asked += 1
        if len(prompt) > self.most:
            self.refused += 1
            raise ValueError("prompt is too long")
        return NOTE


def talk(model: Small, turns: int = 60) -> list[int]:
    """The sizes of the requests of a long conversation."""
    settings = Settings(trigger=("tokens", TRIGGER), keep=("messages", 6), cool_down=0.001)
    engine = Compactor(model, agent="gpt-4.1", window=100_000, archive="memory:", settings=settings)
    messages: list[Any] = []
    sizes = []
    for n in range(turns):
        messages = [*messages, user(f"Question {n}. " + "What about the pump in this hall? " * 18)]
        fitted = engine.fit(messages, thread="t")
        sizes.append(fitted.tokens_after)
        messages = [*fitted.messages, assistant(f"Answer {n}. " + "The pump is steady, as it was before. " * 18)]
    return sizes


@pytest.mark.parametrize("most", [40_000, 20_000, 12_000])
def test_its_limit_is_found_in_a_few_calls_and_remembered(most: int) -> None:
    model = Small(most)
    sizes = talk(model)
    assert max(sizes) < TRIGGER
    assert model.asked > model.refused
    assert model.refused <= 3


def test_one_that_takes_nothing_is_given_up_and_the_summary_is_made_without_it() -> None:
    model = Small(0)
    sizes = talk(model)
    assert max(sizes) < TRIGGER
    assert model.asked <= 8
