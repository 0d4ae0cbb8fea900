"""No estimate is more than `ERROR_BOUND` below the true count, in languages, scripts and patterns it was not made for.

OpenAI's and Qwen's counts by their own tokenizers; Claude's, which has none to install, by `count_claude.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toktok import batch_count  # type: ignore[import-untyped]

import noise
from effort import examples
from places import HELPERS
from rows import rows
from unabridged import Compactor
from unabridged.formats.base import Family
from unabridged.tokens.estimate import ERROR_BOUND, HIGH, HIGH_UNKNOWN, estimate
from unabridged.tokens.meter import Meter

CORPORA = HELPERS / "corpora"
CLAUDE: dict[str, list[int]] = json.loads((CORPORA / "claude_counts.json").read_text(encoding="utf-8"))
VOCABULARIES: dict[Family, str] = {"openai": "o200k_base", "gpt-4": "cl100k_base", "other": "qwen3.5"}
PATTERNS = [kind for kind in noise.KINDS if not kind.startswith("random ")]


def too_low(texts: dict[str, str], family: Family, real: list[int]) -> dict[str, str]:
    """The texts whose estimate is below the bound, and by how much."""
    errors = {name: estimate(text, family) / count - 1 for (name, text), count in zip(texts.items(), real, strict=True)}
    return {name: f"{error:+.1%}" for name, error in errors.items() if error < -ERROR_BOUND}


def counted(texts: dict[str, str], family: Family) -> list[int]:
    return [max(1, count) for count in batch_count(list(texts.values()), VOCABULARIES[family], threads=1)]


def test_there_are_more_than_a_hundred_languages_and_fifty_kinds_of_noise() -> None:
    assert len(noise.LANGUAGES) > 100
    assert len(PATTERNS) > 50
    assert min(map(len, noise.LANGUAGES.values())) > 100


@pytest.mark.parametrize("family", VOCABULARIES)
def test_no_language_is_estimated_far_too_low(family: Family) -> None:
    assert too_low(noise.LANGUAGES, family, counted(noise.LANGUAGES, family)) == {}


@pytest.mark.parametrize("family", VOCABULARIES)
def test_no_noise_is_estimated_far_too_low(family: Family) -> None:
    texts = {f"{kind} {seed}": noise.made(kind, seed) for kind in noise.KINDS for seed in range(5)}
    assert too_low(texts, family, counted(texts, family)) == {}


@pytest.mark.parametrize(
    ("family", "vocabulary", "high"),
    [("openai", "o200k_base", HIGH), ("gpt-4", "cl100k_base", HIGH), ("unknown", "o200k_base", HIGH_UNKNOWN)],
)
def test_no_corpus_is_estimated_higher_than_is_said(family: Family, vocabulary: str, high: float) -> None:
    names = ("english", "german", "russian", "chinese", "japanese", "code_python", "code_other", "json", "shell")
    texts = [(CORPORA / f"{name}.txt").read_text(encoding="utf-8") for name in names]
    real = batch_count(texts, vocabulary, threads=1)
    assert max(estimate(text, family) / count for text, count in zip(texts, real, strict=True)) <= high


@pytest.mark.parametrize(("family", "column"), [("claude", 1), ("claude-3", 2)])
def test_no_language_and_no_noise_is_far_too_low_for_claude(family: Family, column: int) -> None:
    texts = noise.samples()
    assert {name: crc32(text.encode()) for name, text in texts.items()} == {
        name: row[0] for name, row in CLAUDE.items()
    }
    low = too_low(texts, family, [max(1, row[column]) for row in CLAUDE.values()])
    assert set(low) <= {"one pattern"}  # a few characters said over and over may be words that Claude has no piece for


def test_an_unknown_model_gets_the_highest_estimate_of_any_of_them() -> None:
    families: tuple[Family, ...] = ("openai", "gpt-4", "claude", "claude-3", "other")
    for text in noise.samples().values():
        assert estimate(text, "unknown") >= max(estimate(text, family) for family in families)


any_cut = st.tuples(
    st.sampled_from([*noise.KINDS, *noise.LANGUAGES]), st.integers(0, 10**6), st.floats(0, 1), st.integers(20, 800)
)


def piece_of(cut: tuple[str, int, float, int]) -> str:
    name, seed, place, size = cut
    text = noise.LANGUAGES.get(name) or noise.made(name, seed)
    start = int(place * max(0, len(text) - size))
    return text[start : start + size]


@settings(max_examples=examples(90, 180), deadline=None)
@given(st.lists(any_cut, min_size=1, max_size=8), st.sampled_from(["", " ", "\n", "\n\n", ", ", "```\n"]))
def test_no_mixture_of_languages_and_noise_is_far_too_low(cuts: list[tuple[str, int, float, int]], glue: str) -> None:
    text = glue.join(map(piece_of, cuts))
    text *= 1 + 200 // len(text)
    for family, vocabulary in VOCABULARIES.items():
        assert estimate(text, family) >= (1 - ERROR_BOUND) * batch_count([text], vocabulary, threads=1)[0]


@pytest.mark.parametrize("family", ["openai", "gpt-4"])
def test_languages_are_not_far_too_high_either(family: Family) -> None:
    real = counted(noise.LANGUAGES, family)
    errors = [estimate(text, family) / count - 1 for text, count in zip(noise.LANGUAGES.values(), real, strict=True)]
    assert sum(errors) / len(errors) < 0.25
    assert max(errors) < 0.70


# -- what `fit` returns, by a real tokenizer ---------------------------------------------------------------------------


def test_the_error_that_a_meter_reserves_is_the_bound_of_the_estimate() -> None:
    assert Meter(model="gpt-5").error == ERROR_BOUND


def pasted(text: str) -> str:
    """At least 1,500 characters of it."""
    return (text + "\n") * (1 + 1_500 // len(text))


@rows("name", ["dna", "digit grid", "progress bars", "one character", "emoji", "Lao", "Welsh", "Indonesian", "Odia"])
def test_what_fit_returns_is_within_the_budget_by_a_real_tokenizer(name: str) -> None:
    compactor = Compactor(agent="gpt-5", window=16_000, archive="memory:")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello."}]
    largest = 0
    for i in range(25):
        for role in ("assistant", "user"):
            text = noise.LANGUAGES.get(name) or noise.made(name, crc32(f"{i} {role}".encode()))
            messages.append({"role": role, "content": pasted(text)})
        messages = compactor.fit(messages, thread="t").messages
        real = batch_count([message["content"] for message in messages], "o200k_base", threads=1)
        largest = max(largest, sum(real) + 4 * len(messages))
    assert compactor.limits.budget / 3 < largest <= compactor.limits.budget


def test_the_table_of_pieces_is_read_only_when_something_is_estimated() -> None:
    code = (
        "import unabridged, unabridged.tokens.estimate as e\n"
        "print(e._load_pieces_table.cache_info().currsize); e.estimate('hello', 'openai'); "
        "print(e._load_pieces_table.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]
