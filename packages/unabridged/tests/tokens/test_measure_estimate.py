"""The estimate against real counts: o200k by its own tokenizer, Claude's two precomputed in `corpora/counts.json`."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toktok import batch_count  # type: ignore[import-untyped]

from effort import examples
from places import HELPERS
from rows import rows
from unabridged.formats.base import Family
from unabridged.tokens.estimate import estimate

CORPORA = HELPERS / "corpora"
COUNTS: dict[str, dict[str, Any]] = json.loads((CORPORA / "counts.json").read_text(encoding="utf-8"))
TEXTS = {name: (CORPORA / f"{name}.txt").read_text(encoding="utf-8") for name in COUNTS}
NAMED = ("english", "code_python", "code_other", "json", "shell", "chinese", "japanese", "russian", "base64")
EXTRA = tuple(sorted(set(COUNTS) - set(NAMED)))
FAMILIES: tuple[Family, ...] = ("openai", "claude", "claude-3")

any_text = st.text(st.characters(exclude_categories=()), max_size=300)
any_family = st.sampled_from(get_args(Family))


def error(text: str, family: Family, real: int) -> float:
    return estimate(text, family) / real - 1


# R10
@rows("family", FAMILIES)
@rows("corpus", NAMED)
def test_the_estimate_of_a_corpus_is_at_most_5_percent_low_and_40_percent_high(corpus: str, family: Family) -> None:
    assert -0.05 <= error(TEXTS[corpus], family, COUNTS[corpus][family]) <= 0.40


# R10
@rows("family", FAMILIES)
@rows("corpus", EXTRA)
def test_other_languages_and_emoji_are_never_far_off(corpus: str, family: Family) -> None:
    assert -0.05 <= error(TEXTS[corpus], family, COUNTS[corpus][family]) <= 0.40


@pytest.mark.parametrize("corpus", ["chinese", "shell", "base64", "json"])
def test_a_quarter_token_a_character_would_not_pass(corpus: str) -> None:
    for family in FAMILIES:
        assert len(TEXTS[corpus]) / 4 < 0.95 * COUNTS[corpus][family]


# R10
@rows("family", FAMILIES)
@rows("corpus", NAMED)
def test_pieces_of_a_corpus_stray_little_further_than_the_whole(corpus: str, family: Family) -> None:
    for start, stop, *real in COUNTS[corpus]["slices"]:
        piece = TEXTS[corpus][start:stop]
        assert -0.08 <= error(piece, family, real[FAMILIES.index(family)]) <= 0.60, piece


# R10
@settings(max_examples=examples(90, 180), deadline=None)
@given(st.sampled_from(NAMED), st.floats(0, 1), st.integers(200, 3_000))
def test_any_piece_of_200_characters_or_more_is_close_to_o200k(corpus: str, place: float, size: int) -> None:
    text = TEXTS[corpus]
    start = int(place * max(0, len(text) - size))
    piece = text[start : start + size]
    assert -0.08 <= error(piece, "openai", batch_count([piece], "o200k_base", threads=1)[0]) <= 0.70


# R10
@settings(max_examples=examples(30, 60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMED), st.floats(0, 1)), min_size=4, max_size=8))
def test_a_mixture_of_kinds_in_one_text_is_no_harder(cuts: list[tuple[str, float]]) -> None:
    starts = [(TEXTS[corpus], int(place * (len(TEXTS[corpus]) - 200))) for corpus, place in cuts]
    mixed = "\n".join(text[start : start + 200] for text, start in starts)
    assert -0.08 <= error(mixed, "openai", batch_count([mixed], "o200k_base", threads=1)[0]) <= 0.50


def test_the_stored_counts_are_what_the_tokenizer_says() -> None:
    real = batch_count([TEXTS[name] for name in COUNTS], "o200k_base", threads=1)
    assert [COUNTS[name]["openai"] for name in COUNTS] == real


@settings(deadline=None)
@given(any_text, any_family)
def test_any_string_has_an_estimate_and_only_the_empty_one_is_free(text: str, family: Family) -> None:
    assert (estimate(text, family) > 0) == bool(text)


@settings(deadline=None)
@given(any_text, any_text, any_family)
def test_joined_texts_cost_about_what_they_cost_apart(one: str, other: str, family: Family) -> None:
    together = estimate(one + other, family)
    assert together <= estimate(one, family) + estimate(other, family) + 8
    assert together >= 0.75 * max(estimate(one, family), estimate(other, family)) - 8


@settings(deadline=None)
@given(any_text)
def test_an_unknown_model_gets_the_highest_estimate(text: str) -> None:
    assert estimate(text, "unknown") >= max(estimate(text, family) for family in FAMILIES)


def test_the_same_text_always_has_the_same_estimate_however_much_came_between() -> None:
    first = {name: estimate(text, "claude") for name, text in TEXTS.items()}
    for number in range(60_000):  # more pieces than are remembered
        estimate(f"{number:x}abc", "claude")
    assert {name: estimate(text, "claude") for name, text in TEXTS.items()} == first


@rows("text", ["a" * 300_000, " " * 300_000, "-" * 300_000, "A" * 300_000, "é" * 300_000, "漢" * 9_999])
def test_a_very_long_run_of_one_character_is_counted_too(text: str) -> None:
    assert 0 < estimate(text, "openai") < 2 * len(text)
