"""When to compact: one decision, from sizes and from what came of the last try."""

from __future__ import annotations

from typing import Any

import pytest

from unabridged.compaction.trigger import (
    MAKING,
    Decision,
    Load,
    Now,
    decide,
    least_freed,
    messages_to_go,
    trigger_reason,
    worth_a_look,
)
from unabridged.settings import Settings, limits

BOUNDS = limits(Settings(trigger=("tokens", 1_000)), 2_000)
NEVER = limits(Settings(trigger=None), 2_000)
REASON = "1,200 tokens, the trigger is 1,000"


def now(**given: Any) -> Now:
    """Above the trigger, within the budget, nothing tried before."""
    usual: dict[str, Any] = {
        "limits": BOUNDS, "reason": REASON, "asked": False, "forced": False, "fits": True, "estimate": 1_200,
        "failed_at": 0, "failed_why": "", "in_background": False,
    }  # fmt: skip
    return Now(**{**usual, **given})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Decision("compact", REASON)),
        ({"reason": None}, Decision("nothing")),
        ({"reason": None, "payback": True}, Decision("clear")),
        ({"reason": None, "payback": True, "early": True}, Decision("begin")),
        ({"failed_at": 1_190, "failed_why": "no safe cut"}, Decision("wait", "no safe cut")),
        ({"failed_at": 1_190, "failed_why": "no safe cut", "fits": False}, Decision("compact", REASON)),
        ({"failed_at": 1_190, "failed_why": "no safe cut", "forced": True}, Decision("compact", REASON)),
        ({"failed_at": 1_000, "failed_why": "no safe cut"}, Decision("compact", REASON)),
        ({"in_background": True}, Decision("wait", MAKING)),
        ({"in_background": True, "fits": False}, Decision("compact", REASON)),
        ({"limits": NEVER, "reason": None, "payback": True, "early": True}, Decision("nothing")),
        ({"limits": NEVER, "reason": "asked for", "asked": True}, Decision("compact", "asked for")),
    ],
)
def test_what_is_done_now(given: dict[str, Any], expected: Decision) -> None:
    # R2 R17
    assert decide(now(**given)) == expected


def test_too_close_to_the_budget_is_a_reason_but_never_without_a_trigger() -> None:
    assert trigger_reason(BOUNDS, Load(999, 1)) is None
    assert trigger_reason(BOUNDS, Load(999, 1), over=True) == "999 tokens, too close to the budget of 1,800"
    assert trigger_reason(NEVER, Load(10**9, 10**9), over=True) is None


def test_a_look_is_due_when_enough_is_new_or_the_cache_has_expired() -> None:
    assert not worth_a_look(5_000, 0, 10.0, None)
    assert worth_a_look(5_000, 4_000, 10.0, 300.0)
    assert not worth_a_look(4_999, 4_000, 10.0, 300.0)
    assert worth_a_look(4_001, 4_000, 300.0, 300.0)


@pytest.mark.parametrize(
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
    counted = limits(Settings(trigger=trigger, keep=("messages", 5)), 2_000)
    assert [messages_to_go(counted, messages, 1) for messages in (29, 30, 31)] == to_go


def test_where_a_trigger_counts_few_messages_one_more_must_go_than_are_put_in() -> None:
    # R35
    counted = limits(Settings(trigger=("messages", 3), keep=("messages", 1)), 2_000)
    assert [messages_to_go(counted, 3, put_in) for put_in in (1, 2)] == [2, 3]


def test_a_compaction_in_tokens_must_free_a_share_of_the_trigger_and_more_where_it_cant_be_met() -> None:
    assert least_freed(BOUNDS, below_trigger=True) == int(0.05 * BOUNDS.target)
    assert least_freed(BOUNDS, below_trigger=False) == int(0.5 * BOUNDS.target)
