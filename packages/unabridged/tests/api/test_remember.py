"""What was worked out about a text is kept for a while, and never more of it than the bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from unabridged import text_cache as remember
from unabridged.text_cache import TextCache, cache_by_text

Counted = tuple[Callable[..., int], list[str]]


@pytest.fixture
def counted() -> Counted:
    """A function of a text that is remembered, and the texts it was really asked about."""
    asked: list[str] = []

    @cache_by_text
    def length(text: str, more: int = 0, *, twice: bool = False) -> int:
        asked.append(text)
        return (len(text) + more) * (2 if twice else 1)

    remember.clear_cache()
    return length, asked


def test_the_same_text_is_worked_out_once(counted: Counted) -> None:
    length, asked = counted
    same = "a text, and more"[:6]
    assert [length("a text"), length(same), length("another")] == [6, 6, 7]
    assert asked == ["a text", "another"]


def test_other_values_beside_the_text_are_told_apart(counted: Counted) -> None:
    length, _ = counted
    assert [length("a"), length("a", 1), length("a", twice=True), length("a", 1, twice=True)] == [1, 2, 2, 4]
    assert [length("a"), length("a", 1), length("a", twice=True), length("a", 1, twice=True)] == [1, 2, 2, 4]


def test_two_functions_of_one_text_do_not_mix(counted: Counted) -> None:
    length, _ = counted

    @cache_by_text
    def first(text: str) -> str:
        return text[:1]

    assert (length("abc"), first("abc"), length("abc"), first("abc")) == (3, "a", 3, "a")


def test_what_is_forgotten_is_worked_out_anew(counted: Counted) -> None:
    length, asked = counted
    length("a text")
    remember.clear_cache()
    assert length("a text") == 6
    assert asked == ["a text", "a text"]


def test_a_text_that_would_push_out_all_others_is_not_held(counted: Counted) -> None:
    length, asked = counted
    huge = "x" * remember.MAX_CHARACTERS
    assert length(huge) == length(huge) == remember.MAX_CHARACTERS
    assert len(asked) == 2


def test_no_more_is_held_than_the_bound() -> None:
    memory = TextCache(most=100_000)
    for i in range(5_000):
        memory.results_for(f"{i} " + "x" * (i % 977))
    assert memory.characters <= 100_000


def test_what_is_asked_for_again_and_again_stays() -> None:
    memory = TextCache(most=100_000)
    memory.results_for("the open request")["rules"] = 3
    for i in range(2_000):
        memory.results_for(f"{i} " + "x" * 400)
        assert memory.results_for("the open request") == {"rules": 3}
