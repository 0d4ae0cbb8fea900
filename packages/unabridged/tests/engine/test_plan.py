"""Plans: what a compaction will do, from numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unabridged import Compactor
from unabridged.engine.plan import (
    MAX_SHARE_AFTERWARDS,
    MIN_SUMMARY_TOKENS,
    Bounds,
    FrameSizes,
    Situation,
    find_newest_person_message,
    make_plan,
)
from unabridged.engine.trigger import MessageGoal
from unabridged.errors import WontFit
from unabridged.messages import Answer, View
from unabridged.results import Plan
from unabridged.settings import Limits, Settings, resolve_limits
from unabridged.text_tools import cut_middle, find_common_cap


def person(text: str = "do it") -> View:
    return View("user", "person", text)


def model(text: str = "done") -> View:
    return View("assistant", "model", text)


def situation_of(
    views: list[View],
    sizes: list[int],
    overhead: int,
    limits: Limits,
    least: Callable[[int], int],
    *,
    separator: int = 0,
    fewest_gone: int = 0,
    newest: frozenset[int] = frozenset(),
) -> Situation:
    bounds = Bounds(limits.tokens_below_trigger, limits.budget)
    frame, goal = FrameSizes(100, separator), MessageGoal(fewest_gone)
    return Situation(views, sizes, overhead, bounds, limits, frame, least, newest=newest, goal=goal)


def situation(sizes: list[int], window: int = 1_000, overhead: int = 0, **options: Any) -> Situation:
    views = [person() if i % 2 == 0 else model() for i in range(len(sizes))]
    return situation_of(
        views, sizes, overhead, resolve_limits(Settings(), window), lambda _: 60, separator=18, **options
    )


def after(now: Situation, plan: Plan) -> int:
    kept = sum(min(size, plan.caps.get(i, size)) for i, size in enumerate(now.sizes) if i not in plan.gone)
    put_in = plan.summary + now.frame.header + now.count_separator_tokens(plan.gone, plan.place)
    return now.overhead + kept + (put_in if plan.gone else 0)


def test_a_plan_leaves_room_for_a_full_summary_below_the_trigger() -> None:
    now = situation([50] * 40)
    plan = make_plan(now)
    assert isinstance(plan, Plan)
    assert plan.gone
    assert after(now, plan) <= now.bounds.target


@pytest.mark.parametrize("keep", [("tokens", 3_900), ("messages", 70)], ids=str)
def test_what_is_asked_for_stays_while_the_request_then_takes_two_thirds_of_the_trigger(keep: tuple[str, int]) -> None:
    # R48
    bounds = resolve_limits(Settings(trigger=("tokens", 4_000), keep=keep), 10_000)  # type: ignore[arg-type]
    views = [person() if i % 2 == 0 else model() for i in range(90)]
    now = situation_of(views, [50] * 90, 200, bounds, lambda _: 60)
    plan = make_plan(now)
    assert isinstance(plan, Plan)
    assert 0.9 * MAX_SHARE_AFTERWARDS * now.bounds.target < after(now, plan) <= MAX_SHARE_AFTERWARDS * now.bounds.target
    assert plan.note.startswith(f"keep is {keep[1]:,} {keep[0]}: {90 - plan.tail} messages of ")


def test_of_a_tail_that_has_room_nothing_is_said() -> None:
    # R48
    bounds = resolve_limits(Settings(trigger=("tokens", 4_000), keep=("messages", 20)), 10_000)
    views = [person() if i % 2 == 0 else model() for i in range(90)]
    plan = make_plan(situation_of(views, [50] * 90, 200, bounds, lambda _: 60))
    assert isinstance(plan, Plan)
    assert (plan.tail, plan.note) == (70, "")


def test_where_the_trigger_cant_be_met_nothing_is_done_before_half_of_it_can_go() -> None:
    bounds = resolve_limits(Settings(trigger=("tokens", 4_000), keep=("tokens", 400)), 100_000)

    def plan_of(count: int) -> Plan | str:
        views = [person() if i % 2 == 0 else model() for i in range(count)]
        return make_plan(situation_of(views, [50] * count, 5_000, bounds, lambda _: 60))

    assert [isinstance(plan_of(count), Plan) for count in (40, 60, 100)] == [False, False, True]


def test_where_a_trigger_by_messages_fired_fewer_messages_are_enough_whatever_they_take() -> None:
    # R35
    bounds = resolve_limits(Settings(trigger=("messages", 24), keep=("messages", 22)), 100_000)

    def plan_of(count: int, gone: int) -> Plan | str:
        views = [person() if i % 2 == 0 else model() for i in range(count)]
        return make_plan(situation_of(views, [1] * count, 0, bounds, lambda _: 1, fewest_gone=gone))

    assert [isinstance(plan_of(count, 2), Plan) for count in (22, 24, 30)] == [False, True, True]
    assert [isinstance(plan_of(count, 3), Plan) for count in (24, 26)] == [False, True], "a turn more is put in"
    assert [isinstance(plan_of(count, 0), Plan) for count in (24, 30)] == [False, False], "in tokens nothing is gained"


def test_where_a_trigger_by_messages_fired_the_request_still_stays_below_every_trigger_in_tokens() -> None:
    # R35
    bounds = resolve_limits(Settings(trigger=[("messages", 6), ("tokens", 900)], keep=("messages", 4)), 100_000)
    views = [person() if i % 2 == 0 else model() for i in range(6)]

    def plan_of(overhead: int) -> Plan | str:
        now = situation_of(views, [5] * 6, overhead, bounds, lambda _: 5, fewest_gone=2)
        made = make_plan(now)
        assert isinstance(made, str) or after(now, made) <= bounds.tokens_below_trigger
        return made

    assert isinstance(plan_of(500), Plan)
    assert isinstance(plan_of(690), Plan)
    assert plan_of(760) == "no safe cut would free enough to be worth it"


def test_the_newest_message_of_a_person_stays_if_it_is_a_message_of_its_own() -> None:
    beside = View("user", "person", "And the notes.", answers=(Answer("c", "written"),))
    assert find_newest_person_message([person(), model(), person(), model()]) == {2}
    assert find_newest_person_message([person(), model(), beside, model()]) == frozenset()
    assert find_newest_person_message([model()]) == frozenset()


def test_overhead_above_the_trigger_is_said_not_looped_on() -> None:
    plan = make_plan(situation([10] * 4, overhead=800))
    assert plan == "no safe cut would free enough to be worth it"


def test_overhead_above_the_budget_wont_fit_and_names_its_numbers() -> None:
    with pytest.raises(WontFit) as raised:
        make_plan(situation([10] * 4, overhead=900))
    assert raised.value.overhead == 900
    assert raised.value.floor > raised.value.budget == 900


def test_the_newest_message_of_a_person_gives_way_last() -> None:
    now = situation([300, 900], newest=frozenset({0}))
    plan = make_plan(now)
    assert isinstance(plan, Plan)
    assert set(plan.caps) == {1}
    assert after(now, plan) <= now.bounds.limit


@given(
    st.lists(st.integers(1, 600), min_size=1, max_size=40),
    st.integers(0, 900),
    st.booleans(),
    st.integers(0, 3),
    st.booleans(),
)
def test_every_plan_ends_within_the_budget_or_says_why_not(
    sizes: list[int], overhead: int, spoke: bool, fewest_gone: int, force: bool
) -> None:
    newest = frozenset({(len(sizes) - 1) // 2 * 2} if spoke else ())
    now = situation(sizes, overhead=overhead, newest=newest, fewest_gone=fewest_gone)
    try:
        plan = make_plan(now, force=force)
    except WontFit as error:
        floor = error.floor
    else:
        floor = 0
    if floor:
        assert floor > now.bounds.limit
        return
    if isinstance(plan, str):
        assert now.request_tokens <= now.bounds.limit
        return
    assert after(now, plan) <= now.bounds.limit
    if newest & set(plan.gone):  # only where it can't stay, however much all else is cut down
        stays = {*newest, len(sizes) - 1}
        rest = [i for i in range(len(sizes)) if i not in stays]
        least = now.frame.header + MIN_SUMMARY_TOKENS + now.count_separator_tokens(rest, rest[0]) if rest else 0
        assert overhead + least + sum(min(sizes[i], 60) for i in stays) > now.bounds.limit
    fewer = fewest_gone and len(plan.gone) >= fewest_gone and after(now, plan) <= now.bounds.target
    assert fewer or after(now, plan) < now.request_tokens


@given(st.lists(st.integers(0, 500), max_size=20), st.integers(0, 3_000))
def test_the_level_is_the_highest_that_fits(sizes: list[int], total: int) -> None:
    height = find_common_cap(sizes, total)
    assert sum(min(size, height) for size in sizes) <= max(total, 0)
    if height < max(sizes, default=0):
        assert sum(min(size, height + 1) for size in sizes) > total


@given(st.text(max_size=3_000), st.integers(40, 400))
def test_head_and_tail_keeps_both_ends_and_its_size(text: str, tokens: int) -> None:
    short = cut_middle(text, tokens, lambda piece: len(piece) // 3 + 1, "[{tokens} left out]")
    assert len(short) // 3 + 1 <= tokens
    if short != text:
        assert "left out]" in short
        assert short[0] == text[0] or short[0] == "\n"


def test_asked_for_again_nothing_goes_that_is_within_keep() -> None:
    # R42
    talk = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i} " + "word " * 60} for i in range(60)]
    with Compactor(window=32_768, archive="memory:") as compactor:
        first = compactor.compact(talk, thread="t")
        assert first is not None
        assert compactor.compact(first.messages, thread="t") is None


def test_an_input_that_is_capped_holds_nothing_of_what_stays() -> None:
    # R23
    asked: list[str] = []
    talk = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"turn{i}x " + "word " * 60} for i in range(60)]

    def write(prompt: str) -> str:
        asked.append(prompt)
        return "They went through many words, one after another, and settled each of them as it came up."

    shown = []
    for most in (None, 2_000):
        asked.clear()
        with Compactor(write, window=32_768, archive="memory:", settings=Settings(max_input=most)) as compactor:
            compactor.compact(talk, thread="t")
        shown.append(any("turn59x" in prompt for prompt in asked))
    assert shown == [True, False]
