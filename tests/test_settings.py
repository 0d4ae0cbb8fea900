"""Settings: the tuple grammar, and what is refused before it can fail later."""

from __future__ import annotations

from typing import Any

import pytest

from unabridged.compaction.trigger import Load, trigger_reason
from unabridged.errors import SettingsError, UnabridgedError
from unabridged.measure.models import FALLBACK_WINDOW
from unabridged.settings import Settings, limits


def test_a_token_threshold_pulls_at_its_value_and_not_before() -> None:
    # R1
    bounds = limits(Settings(trigger=("tokens", 1_000), keep=("tokens", 100)), 200_000)
    assert trigger_reason(bounds, Load(999, 1)) is None
    assert trigger_reason(bounds, Load(1_000, 1)) == "1,000 tokens, the trigger is 1,000"


def test_the_default_trigger_is_85_percent_of_the_window_and_the_unknown_window_32768() -> None:
    # R2
    bounds = limits(Settings(), FALLBACK_WINDOW)
    assert FALLBACK_WINDOW == 32_768
    assert trigger_reason(bounds, Load(int(0.85 * 32_768) - 1, 1)) is None
    assert trigger_reason(bounds, Load(int(0.85 * 32_768), 1)) is not None


def test_a_message_count_pulls_whatever_the_tokens() -> None:
    # R3
    bounds = limits(Settings(trigger=("messages", 50), keep=("messages", 6)), 200_000)
    assert trigger_reason(bounds, Load(1, 49)) is None
    assert trigger_reason(bounds, Load(1, 50)) == "50 messages, the trigger is 50"


@pytest.mark.parametrize(
    ("tokens", "messages", "pulled"),
    [(100, 10, False), (5_000, 10, True), (1_000, 30, True), (1_000, 29, False), (999, 30, False)],
)
def test_a_list_is_any_and_a_mapping_inside_it_is_all(tokens: int, messages: int, pulled: bool) -> None:
    # R4
    settings = Settings(trigger=[("tokens", 5_000), {"tokens": 1_000, "messages": 30}], keep=("tokens", 100))
    assert (trigger_reason(limits(settings, 200_000), Load(tokens, messages)) is not None) is pulled


@pytest.mark.parametrize("condition", [{"tokens": 8_000, "fraction": 0.5}, {"fraction": 0.8, "tokens": 100}], ids=str)
def test_tokens_and_a_fraction_in_one_mapping_must_both_hold(condition: Any) -> None:
    bounds = limits(Settings(trigger=condition, keep=("messages", 2)), 10_000)
    assert (trigger_reason(bounds, Load(7_999, 9)), trigger_reason(bounds, Load(8_000, 9))) == (
        None,
        "8,000 tokens, the trigger is 8,000",
    )


def test_no_trigger_means_never() -> None:
    # R4
    assert trigger_reason(limits(Settings(trigger=None), 1_000), Load(10**9, 10**9)) is None
    assert trigger_reason(limits(Settings(trigger=[]), 1_000), Load(10**9, 10**9)) is None


@pytest.mark.parametrize(
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
        {"keep": None},
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
    bounds = limits(Settings(keep=[("fraction", 0.25), ("tokens", 900), ("messages", 6), ("messages", 9)]), 10_000)
    assert (bounds.keep_tokens, bounds.keep_messages) == (900, 6)


@pytest.mark.parametrize(
    ("trigger", "keep"),
    [
        (("fraction", 0.5), ("fraction", 0.5)),
        (("tokens", 1_000), ("tokens", 1_000)),
        (("tokens", 1_000), ("fraction", 0.9)),
        (("messages", 20), ("messages", 20)),
        ([("tokens", 5_000), ("messages", 10)], ("messages", 12)),
    ],
)
def test_a_keep_at_or_above_the_trigger_is_refused(trigger: Any, keep: Any) -> None:
    with pytest.raises(SettingsError, match="below the trigger"):
        limits(Settings(trigger=trigger, keep=keep), 10_000)


def test_the_reserve_is_an_eighth_of_a_small_window_and_4096_of_a_large_one() -> None:
    assert limits(Settings(), 8_000).budget == 7_000
    assert limits(Settings(), 200_000).budget == 195_904
    assert limits(Settings(reserve=10_000), 200_000).budget == 190_000


def test_a_fraction_is_of_the_window_and_capped_at_the_budget() -> None:
    bounds = limits(Settings(trigger=("fraction", 1.0)), 8_000)
    assert trigger_reason(bounds, Load(7_000, 1)) is not None
    assert trigger_reason(bounds, Load(6_999, 1)) is None


@pytest.mark.parametrize(("window", "settings"), [(0, Settings()), (10, Settings()), (1_000, Settings(reserve=1_000))])
def test_a_window_that_leaves_nothing_is_refused(window: int, settings: Settings) -> None:
    with pytest.raises(SettingsError):
        limits(settings, window)
