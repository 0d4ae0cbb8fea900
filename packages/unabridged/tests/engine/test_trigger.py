"""When to compact: one decision, from sizes and from what came of the last try."""

from __future__ import annotations

from typing import Any

import pytest

from rows import rows
from unabridged.engine.trigger import (
    MADE_EARLY,
    WAITING_REASON,
    Attempts,
    Decision,
    MessageGoal,
    RequestSize,
    TriggerInput,
    decide,
    find_message_goal,
    find_trigger_reason,
    is_worth_it,
)
from unabridged.settings import Settings, resolve_limits

LIMITS = resolve_limits(Settings(trigger=("tokens", 1_000)), 2_000)
NEVER = resolve_limits(Settings(trigger=None), 2_000)
REASON = "1,200 tokens, the trigger is 1,000"
OVER = "1,900 tokens, the trigger is 1,000"
FAILED = Attempts(failed_at=1_190, failed_why="no safe cut")
LONG = resolve_limits(Settings(trigger=("tokens", 9_000)), 20_000)


def situation(tokens: int = 1_200, **options: Any) -> TriggerInput:
    """Above the trigger, within the budget, nothing tried before."""
    usual: dict[str, Any] = {
        "limits": LIMITS, "size": RequestSize(tokens, 9), "estimate": tokens, "is_over": False, "attempts": Attempts(),
    }  # fmt: skip
    return TriggerInput(**{**usual, **options})


@rows(
    ("options", "expected"),
    [
        ({}, Decision("compact", REASON)),
        ({"tokens": 999}, Decision("nothing")),
        ({"attempts": FAILED}, Decision("wait", "no safe cut")),
        ({"attempts": Attempts(1_900, "no safe cut"), "tokens": 1_900}, Decision("compact", OVER)),
        ({"attempts": FAILED, "is_forced": True}, Decision("compact", REASON)),
        ({"attempts": Attempts(1_000, "no safe cut")}, Decision("compact", REASON)),
        ({"is_in_background": True}, Decision("wait", WAITING_REASON)),
        ({"is_in_background": True, "tokens": 1_900}, Decision("compact", OVER)),
        ({"limits": NEVER, "background_share": 0.1, "cache_seconds": 300.0}, Decision("nothing")),
        ({"limits": NEVER, "asked_why": "asked for"}, Decision("compact", "asked for")),
    ],
)
def test_what_is_done_now(options: dict[str, Any], expected: Decision) -> None:
    # R2 R17
    assert decide(situation(**options)) == expected


@rows(
    ("options", "action"),
    [
        ({"tokens": 800}, "begin"),
        ({"tokens": 799}, "nothing"),
        ({"tokens": 800, "cache_seconds": 0.0}, "begin"),
        ({"tokens": 800, "cache_seconds": 0.0, "is_in_background": True}, "nothing"),
        ({"tokens": 800, "cache_seconds": 0.0, "attempts": Attempts(begun_at=MADE_EARLY)}, "nothing"),
        ({"tokens": 800, "attempts": Attempts(begun_at=790)}, "nothing"),
        ({"tokens": 840, "attempts": Attempts(begun_at=800)}, "begin"),
        ({"tokens": 700, "cache_seconds": 0.0}, "clear"),
    ],
)
def test_near_the_trigger_a_summary_is_begun_once_and_nothing_is_cleared_meanwhile(
    options: dict[str, Any], action: str
) -> None:
    limits = resolve_limits(Settings(trigger=("tokens", 1_001)), 2_000)
    assert decide(situation(**options, limits=limits, background_share=0.8)).action == action


def test_too_close_to_the_budget_is_a_reason_but_never_without_a_trigger() -> None:
    assert find_trigger_reason(LIMITS, RequestSize(999, 1)) is None
    over = find_trigger_reason(LIMITS, RequestSize(999, 1), is_over=True)
    assert over == "999 tokens, too close to the budget of 1,800"
    assert find_trigger_reason(NEVER, RequestSize(10**9, 10**9), is_over=True) is None


@pytest.mark.parametrize(
    ("tokens", "looked_at", "idle", "lifetime", "action"),
    [
        (5_000, 0, 10.0, None, "nothing"),
        (5_000, 4_000, 10.0, 300.0, "clear"),
        (4_999, 4_000, 10.0, 300.0, "nothing"),
        (4_001, 4_000, 300.0, 300.0, "clear"),
    ],
)
def test_a_look_is_due_when_enough_is_new_or_the_cache_has_expired(
    tokens: int, looked_at: int, idle: float, lifetime: float | None, action: str
) -> None:
    attempts = Attempts(looked_at=looked_at)
    now = situation(tokens, limits=LONG, attempts=attempts, idle_seconds=idle, cache_seconds=lifetime)
    assert decide(now).action == action


@rows(
    ("trigger", "to_go"),
    [
        (("messages", 30), [0, 10, 10]),
        ([("tokens", 1_000), ("messages", 30)], [0, 10, 10]),
        ([{"tokens": 1_000, "messages": 30}], [0, 10, 10]),
        ([("messages", 31), ("messages", 30)], [0, 10, 10]),
        (("tokens", 1_000), [0, 0, 0]),
        (None, [0, 0, 0]),
    ],
    ids=str,
)
def test_where_a_trigger_counts_messages_a_third_of_it_must_go_once_there_are_so_many(
    trigger: Any, to_go: list[int]
) -> None:
    # R35
    counted = resolve_limits(Settings(trigger=trigger, keep=("messages", 5)), 2_000)
    assert [find_message_goal(counted, messages, 1).fewest_gone for messages in (29, 30, 31)] == to_go


def test_where_a_trigger_counts_few_messages_one_more_must_go_than_are_put_in() -> None:
    # R35
    counted = resolve_limits(Settings(trigger=("messages", 3), keep=("messages", 1)), 2_000)
    assert [find_message_goal(counted, 3, inserted).fewest_gone for inserted in (1, 2)] == [2, 3]


def test_a_compaction_in_tokens_must_free_a_share_of_the_trigger_and_more_where_it_cant_be_met() -> None:
    def is_worth(freed: int, *, meets_trigger: bool) -> bool:
        return is_worth_it(
            LIMITS, MessageGoal(), gone=9, freed=freed, meets_trigger=meets_trigger, is_over=False, is_forced=False
        )

    for meets_trigger, share in ((True, 0.05), (False, 0.5)):
        least = int(share * LIMITS.tokens_below_trigger)
        assert is_worth(least, meets_trigger=meets_trigger)
        assert not is_worth(least - 1, meets_trigger=meets_trigger)
