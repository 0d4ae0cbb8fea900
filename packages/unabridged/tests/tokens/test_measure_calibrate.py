from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Usage as AnthropicUsage
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import CompletionUsage
from openai.types.completion_usage import PromptTokensDetails
from openai.types.responses import ResponseUsage

from rows import rows
from unabridged.tokens.calibrate import Calibration, Usage, parse_usage
from unabridged.tokens.meter import Meter


def after(*ratios: float) -> float:
    calibration = Calibration()
    for ratio in ratios:
        calibration.observe(10_000, Usage(round(10_000 * ratio)))
    return calibration.factor


# -- reading reports -------------------------------------------------------------------------------------------------


def test_openai_chat_usage_includes_what_the_cache_served() -> None:
    details = PromptTokensDetails(cached_tokens=1_024, cache_write_tokens=64)
    usage = CompletionUsage(
        prompt_tokens=2_000, completion_tokens=50, total_tokens=2_050, prompt_tokens_details=details
    )
    assert parse_usage(usage) == Usage(2_000, cache_read=1_024, cache_write=64, output=50)
    bare = CompletionUsage(prompt_tokens=2_000, completion_tokens=50, total_tokens=2_050)
    assert parse_usage(bare) == Usage(2_000, output=50)


def test_openai_responses_usage_includes_what_the_cache_served() -> None:
    report = {
        "input_tokens": 2_000,
        "input_tokens_details": {"cached_tokens": 1_024, "cache_write_tokens": 0},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 10},
        "total_tokens": 2_050,
    }
    expected = Usage(2_000, cache_read=1_024, output=50)
    assert parse_usage(ResponseUsage.model_validate(report)) == parse_usage(report) == expected


# R11
def test_anthropic_usage_has_cached_input_beside_the_rest_and_it_is_added() -> None:
    usage = AnthropicUsage(
        input_tokens=12, cache_read_input_tokens=9_000, cache_creation_input_tokens=800, output_tokens=70
    )
    expected = Usage(9_812, cache_read=9_000, cache_write=800, output=70)
    assert parse_usage(usage) == parse_usage(usage.model_dump()) == expected
    assert parse_usage(AnthropicUsage(input_tokens=12, output_tokens=70)) == Usage(12, output=70)


@rows(
    ("report", "usage"),
    [
        (
            {
                "input_tokens": 900,
                "output_tokens": 20,
                "total_tokens": 920,
                "input_token_details": {"cache_read": 500, "cache_creation": 100},
            },
            Usage(900, 500, 100, 20),
        ),
        ({"input_tokens": 900, "output_tokens": 20, "total_tokens": 920}, Usage(900, output=20)),
        (
            SimpleNamespace(input_tokens=900, cache_read_tokens=500, cache_write_tokens=0, output_tokens=20),
            Usage(900, 500, 0, 20),
        ),
        (
            {"prompt_token_count": 900, "cached_content_token_count": 500, "candidates_token_count": 20},
            Usage(900, 500, 0, 20),
        ),
        ({"promptTokenCount": 900, "candidatesTokenCount": 20, "thoughtsTokenCount": 5}, Usage(900, output=25)),
        ({"inputTokens": 100, "cacheReadInputTokens": 500, "outputTokens": 20}, Usage(600, 500, 0, 20)),
    ],
    ids=["langchain", "langchain uncached", "pydantic-ai", "gemini", "gemini json", "bedrock"],
)
def test_reports_of_other_makers_are_understood(report: Any, usage: Usage) -> None:
    assert parse_usage(report) == usage


def test_a_whole_response_will_do() -> None:
    report = {"prompt_tokens": 7, "completion_tokens": 1}
    assert parse_usage({"id": "x", "choices": [], "usage": report}) == Usage(7, output=1)
    response = SimpleNamespace(usage=CompletionUsage(prompt_tokens=7, completion_tokens=1, total_tokens=8))
    assert parse_usage(response) == Usage(7, output=1)
    assert parse_usage(SimpleNamespace(usage_metadata={"input_tokens": 7, "output_tokens": 1})) == Usage(7, output=1)
    assert parse_usage(Usage(7)) == Usage(7)


@rows(
    "report",
    [
        None,
        {},
        [],
        "usage",
        7,
        {"usage": None},
        {"prompt_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 3},
        {"prompt_tokens": -5},
        {"prompt_tokens": "12"},
        {"prompt_tokens": True},
        {"prompt_tokens": float("nan")},
        {"prompt_tokens": float("inf")},
        SimpleNamespace(usage=lambda: None),
    ],
)
def test_a_report_that_says_nothing_is_none(report: Any) -> None:
    assert parse_usage(report) is None


# -- learning from them ----------------------------------------------------------------------------------------------


def test_without_reports_the_estimate_stands() -> None:
    assert Calibration().factor == 1.0


# R6
def test_one_report_above_the_estimate_is_enough_to_raise_it() -> None:
    assert after(1.4) == pytest.approx(1.4)


def test_one_report_below_the_estimate_is_not_enough_to_lower_it() -> None:
    assert after(0.6) == 1.0


# R11
@rows("ratio", [0.3, 0.6, 0.8, 1.0, 1.2, 1.7])
def test_consistent_reports_move_it_all_the_way_both_ways(ratio: float) -> None:
    assert after(ratio, ratio, ratio) == pytest.approx(ratio)


# R11
@rows("odd", [0.0001, 0.1, 2.0, 10.0, 500.0])
@rows("place", range(6))
def test_one_odd_report_does_not_swing_it(odd: float, place: int) -> None:
    ratios = [0.8, 0.82, 0.79, 0.81, 0.8]
    ratios.insert(place, odd)
    assert 0.79 <= after(*ratios) <= 0.83
    assert after(odd) == 1.0


def test_reports_that_are_far_off_count_once_most_of_them_agree() -> None:
    assert after(10.0, 10.0) == 1.0
    assert after(10.0, 10.0, 10.0) == pytest.approx(10.0)


# R6
def test_two_reports_in_a_row_raise_it_at_any_time() -> None:
    calm = [0.8] * 9
    assert after(*calm, 1.3) == pytest.approx(0.8)
    assert after(*calm, 1.3, 1.25) == pytest.approx(1.25)


def test_old_reports_are_forgotten() -> None:
    assert after(*[1.3] * 20, *[0.8] * 9) == pytest.approx(0.8)


def test_reports_without_a_number_teach_nothing() -> None:
    calibration = Calibration()
    calibration.observe(0, Usage(100))
    calibration.observe(-5, Usage(100))
    calibration.observe(100, Usage(0))
    calibration.observe(100, Usage(-100))
    assert calibration.factor == 1.0


@rows("ratio", [1.1, 1.7, 2.7, 9.0])
@rows("before", [(), (1.0,) * 9, (0.8, 0.8)], ids=["new", "established", "low"])
def test_a_refusal_that_tells_its_count_is_believed_at_once_and_stays(ratio: float, before: tuple[float, ...]) -> None:
    calibration = Calibration()
    for report in before:
        calibration.observe(10_000, Usage(round(10_000 * report)))
    calibration.refused(10_000, round(10_000 * ratio))
    assert calibration.factor == pytest.approx(ratio)
    for _ in range(12):
        calibration.observe(10_000, Usage(round(10_000 * ratio)))
        assert calibration.factor == pytest.approx(ratio)


def test_after_a_refusal_one_lower_report_changes_nothing_and_a_majority_does() -> None:
    calibration = Calibration()
    calibration.refused(10_000, 27_000)
    calibration.observe(10_000, Usage(12_000))
    assert calibration.factor == pytest.approx(2.7)
    for _ in range(3):
        calibration.observe(10_000, Usage(12_000))
    assert calibration.factor == pytest.approx(1.2)


def test_a_refusal_never_lowers_it_and_one_that_no_count_explains_is_bounded() -> None:
    calibration = Calibration()
    calibration.observe(10_000, Usage(14_000))
    for estimated, requested in ((10_000, 12_000), (10_000, 0), (0, 12_000), (-1, 12_000)):
        calibration.refused(estimated, requested)
        assert calibration.factor == pytest.approx(1.4)
    calibration.refused(10, 2_000_000)
    assert calibration.factor == 10.0


# -- kept across a restart -------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.one_of(st.floats(0.01, 20), st.tuples(st.floats(0.5, 20)))), st.lists(st.floats(0.1, 5)))
def test_what_was_learned_is_the_same_after_a_restart(before: list[float | tuple[float]], later: list[float]) -> None:
    calibration = Calibration()
    for ratio in before:
        if isinstance(ratio, tuple):
            calibration.refused(10_000, round(10_000 * ratio[0]))
        else:
            calibration.observe(10_000, Usage(round(10_000 * ratio)))
    read = Calibration.from_json(json.loads(json.dumps(calibration.to_json("k"))), "k")
    assert read.factor == calibration.factor
    for ratio in later:
        for each in (calibration, read):
            each.observe(10_000, Usage(round(10_000 * ratio)))
        assert read.factor == calibration.factor


def test_what_was_learned_of_other_counts_is_not_taken_over() -> None:
    calibration = Calibration()
    calibration.observe(10_000, Usage(14_000))
    meters = [Meter(model="gpt-5"), Meter(model="gpt-5-mini"), Meter(model="claude-opus-5-5"), Meter()]
    meters += [Meter(model="gpt-5", exact=True), Meter(model="gpt-5", counter=lambda *_: 1)]
    assert len({meter.key for meter in meters}) == len(meters)
    for meter in meters[1:]:
        assert Calibration.from_json(calibration.to_json(meters[0].key), meter.key).factor == 1.0
    same = Meter(model="GPT-5")
    assert Calibration.from_json(calibration.to_json(meters[0].key), same.key).factor == pytest.approx(1.4)


@rows(
    "stored",
    [None, {}, [], "k", 7, {"key": "k"}, {"key": "k", "ratios": None}, {"key": "k", "ratios": "1.4"}, {"ratios": [1.4]}]
    + [{"key": "k", "ratios": [odd]} for odd in (0, -1, True, None, "1.4", [1.4], float("nan"), float("inf"), 10**400)],
)
def test_what_no_calibration_wrote_teaches_nothing(stored: Any) -> None:
    assert Calibration.from_json(stored, "k").factor == 1.0


@settings(deadline=None)
@given(st.lists(st.floats(0.5, 1.5), min_size=3, max_size=30), st.floats(0.001, 1_000))
def test_it_stays_within_what_was_reported_whatever_one_odd_report_says(ratios: list[float], odd: float) -> None:
    assert min(ratios) - 0.001 <= after(*ratios, odd) <= max(1.0, *ratios) + 0.3
