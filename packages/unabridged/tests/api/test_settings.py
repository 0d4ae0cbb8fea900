"""Settings: the tuple grammar, and what is refused before it can fail later."""

from __future__ import annotations

from typing import Any

import pytest

from rows import rows
from unabridged.engine.trigger import RequestSize, find_trigger_reason
from unabridged.errors import SettingsError, UnabridgedError
from unabridged.settings import FALLBACK_WINDOW, Settings, resolve_limits
from unabridged.tokens.estimate import ERROR_BOUND


def test_a_token_threshold_pulls_at_its_value_and_not_before() -> None:
    # R1
    bounds = resolve_limits(Settings(trigger=("tokens", 1_000), keep=("tokens", 100)), 200_000)
    assert find_trigger_reason(bounds, RequestSize(999, 1)) is None
    assert find_trigger_reason(bounds, RequestSize(1_000, 1)) == "1,000 tokens, the trigger is 1,000"


def test_the_default_trigger_is_85_percent_of_the_window_and_the_unknown_window_32768() -> None:
    # R2
    bounds = resolve_limits(Settings(), FALLBACK_WINDOW)
    assert FALLBACK_WINDOW == 32_768
    assert find_trigger_reason(bounds, RequestSize(int(0.85 * 32_768) - 1, 1)) is None
    assert find_trigger_reason(bounds, RequestSize(int(0.85 * 32_768), 1)) is not None


def test_a_message_count_pulls_whatever_the_tokens() -> None:
    # R3
    bounds = resolve_limits(Settings(trigger=("messages", 50), keep=("messages", 6)), 200_000)
    assert find_trigger_reason(bounds, RequestSize(1, 49)) is None
    assert find_trigger_reason(bounds, RequestSize(1, 50)) == "50 messages, the trigger is 50"


@pytest.mark.parametrize(
    ("tokens", "messages", "pulled"),
    [(100, 10, False), (5_000, 10, True), (1_000, 30, True), (1_000, 29, False), (999, 30, False)],
)
def test_a_list_is_any_and_a_mapping_inside_it_is_all(tokens: int, messages: int, pulled: bool) -> None:
    # R4
    settings = Settings(trigger=[("tokens", 5_000), {"tokens": 1_000, "messages": 30}], keep=("tokens", 100))
    assert (find_trigger_reason(resolve_limits(settings, 200_000), RequestSize(tokens, messages)) is not None) is pulled


@pytest.mark.parametrize("condition", [{"tokens": 8_000, "fraction": 0.5}, {"fraction": 0.8, "tokens": 100}], ids=str)
def test_tokens_and_a_fraction_in_one_mapping_must_both_hold(condition: Any) -> None:
    bounds = resolve_limits(Settings(trigger=condition, keep=("messages", 2)), 10_000)
    assert (find_trigger_reason(bounds, RequestSize(7_999, 9)), find_trigger_reason(bounds, RequestSize(8_000, 9))) == (
        None,
        "8,000 tokens, the trigger is 8,000",
    )


def test_no_trigger_means_never() -> None:
    # R4
    assert find_trigger_reason(resolve_limits(Settings(trigger=None), 1_000), RequestSize(10**9, 10**9)) is None
    assert find_trigger_reason(resolve_limits(Settings(trigger=[]), 1_000), RequestSize(10**9, 10**9)) is None


@rows(
    "wrong",
    [
        {"trigger": ("tokens", True)},
        {"trigger": ("tokens", "1000")},
        {"trigger": ("tokens", 0)},
        {"trigger": ("tokens", 10.5)},
        {"trigger": ("fraction", 0)},
        {"trigger": ("fraction", 1.2)},
        {"trigger": ("fraction", float("nan"))},
        {"trigger": ("fraction", "0.5")},
        {"trigger": ("bytes", 10)},
        {"trigger": "tokens"},
        {"trigger": 0.85},
        {"trigger": [("tokens", 10, 20)]},
        {"trigger": [{}]},
        {"keep": []},
        {"keep": ("messages", -1)},
        {"keep": [("messages", 3), "all"]},
        {"reserve": -5},
        {"summary": 0},
        {"summary": True},
        {"pin": "message"},
        {"off": 1},
    ],
    ids=str,
)
def test_wrong_values_are_refused_when_settings_are_built(wrong: dict[str, Any]) -> None:
    # R5
    with pytest.raises(SettingsError) as refused:
        Settings(**wrong)
    assert isinstance(refused.value, UnabridgedError)
    assert isinstance(refused.value, ValueError)
    assert "got" in str(refused.value) or "needs" in str(refused.value)


def test_the_valid_range_is_in_the_message() -> None:
    # R5
    with pytest.raises(SettingsError, match="above 0 and at most 1; got 85"):
        Settings(trigger=("fraction", 85))


def test_keep_takes_the_smallest_of_several_ceilings() -> None:
    # R13
    bounds = resolve_limits(
        Settings(keep=[("fraction", 0.25), ("tokens", 900), ("messages", 6), ("messages", 9)]), 10_000
    )
    assert (bounds.keep_tokens, bounds.keep_messages) == (900, 6)


@pytest.mark.parametrize(
    ("trigger", "keep"),
    [
        (("fraction", 0.5), ("fraction", 0.5)),
        (("tokens", 1_000), ("tokens", 1_000)),
        (("messages", 20), ("messages", 20)),
        ([("tokens", 5_000), ("messages", 10)], ("messages", 12)),
        ([("tokens", 5_000), ("fraction", 0.2)], [("fraction", 0.3), ("fraction", 0.2)]),
    ],
)
def test_a_keep_at_or_above_the_trigger_in_any_window_is_refused_when_settings_are_built(
    trigger: Any, keep: Any
) -> None:
    # R5
    with pytest.raises(SettingsError, match="below the trigger"):
        Settings(trigger=trigger, keep=keep)


@pytest.mark.parametrize(
    ("trigger", "keep", "kept"),
    [
        (("tokens", 1_000), ("fraction", 0.9), 333),
        (("fraction", 0.1), ("tokens", 5_000), 333),
        ([("tokens", 600), ("messages", 100)], ("fraction", 0.1), 200),
    ],
)
def test_a_keep_that_a_window_puts_above_the_trigger_is_lowered_with_one_warning(
    trigger: Any, keep: Any, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    # R13
    settings = Settings(trigger=trigger, keep=keep)
    bounds = [resolve_limits(settings, 10_000) for _ in range(3)]
    assert {bound.keep_tokens for bound in bounds} == {kept}
    assert f"{kept:,} are kept" in bounds[0].note
    assert sum("are kept" in text for text in caplog.messages) <= 1


@rows("tokens", [10, 1_000, 60_000, 170_000])
@rows("window", [8_000, 200_000, 1_000_000, None])
def test_the_default_keep_is_a_tenth_of_the_window_or_a_third_of_a_trigger_that_is_lower(
    tokens: int, window: int | None
) -> None:
    # R13
    bounds = resolve_limits(Settings(trigger=("tokens", tokens)), window)
    assert bounds.keep_tokens == min((window or tokens) // 10, min(tokens, bounds.budget) // 3)
    assert bounds.note == ""
    assert resolve_limits(Settings(), 200_000).keep_tokens == 20_000


def test_a_keep_alone_never_moves_the_trigger() -> None:
    # R13
    for keep in (("fraction", 0.8), ("messages", 5), ("tokens", 100_000)):
        assert resolve_limits(Settings(keep=keep), 50_000).trigger == resolve_limits(Settings(), 50_000).trigger


def test_a_keep_above_two_thirds_of_a_trigger_in_messages_gives_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    # R52
    for keep in (6, 7, 7):
        resolve_limits(Settings(trigger=("messages", 10), keep=("messages", keep)), 10_000)
    assert [text.partition(":")[0] for text in caplog.messages] == [
        "keep=7 messages is above two thirds of the trigger of 10 messages"
    ]


@rows(
    ("trigger", "window", "budget"),
    [
        (("tokens", 60_000), 60_000, 75_000),
        ([("tokens", 9_000), ("tokens", 6_000), ("messages", 40)], 6_000, 7_500),
        ({"tokens": 50_000, "messages": 100}, 50_000, 62_500),
        ([("tokens", 60_000), ("fraction", 0.85)], 32_768, 29_492),
        (("fraction", 0.5), 32_768, 29_492),
        (("messages", 50), 32_768, 29_492),
        (None, 32_768, 29_492),
    ],
)
def test_where_nobody_knows_the_window_a_trigger_in_tokens_takes_its_place(
    trigger: Any, window: int, budget: int
) -> None:
    # R2 R45
    bounds = resolve_limits(Settings(trigger=trigger), None)
    assert (bounds.window, bounds.budget) == (window, budget)
    assert bounds.assumed is (window != FALLBACK_WINDOW)


def test_the_reserve_is_a_tenth_of_a_small_window_and_4096_of_a_large_one() -> None:
    assert resolve_limits(Settings(), 8_000).budget == 7_200
    assert resolve_limits(Settings(), 200_000).budget == 195_904
    assert resolve_limits(Settings(reserve=10_000), 200_000).budget == 190_000


@pytest.mark.parametrize("window", [500, 2_000, 8_000, 32_768, 200_000])
def test_no_default_pulls_the_trigger_below_the_trigger(window: int) -> None:
    """The error of an estimate is within the reserve: a request below 85 % of the window is not too close to it."""
    bounds = resolve_limits(Settings(), window)
    assert bounds.budget / (1 + ERROR_BOUND) >= 0.85 * window


def test_a_fraction_is_of_the_window_and_capped_at_the_budget() -> None:
    bounds = resolve_limits(Settings(trigger=("fraction", 1.0)), 8_000)
    assert find_trigger_reason(bounds, RequestSize(7_200, 1)) is not None
    assert find_trigger_reason(bounds, RequestSize(7_199, 1)) is None


@pytest.mark.parametrize(("window", "settings"), [(0, Settings()), (10, Settings()), (1_000, Settings(reserve=1_000))])
def test_a_window_that_leaves_nothing_is_refused(window: int, settings: Settings) -> None:
    with pytest.raises(SettingsError):
        resolve_limits(settings, window)
