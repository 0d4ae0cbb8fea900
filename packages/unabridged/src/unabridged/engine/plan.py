"""Decide what a compaction will do before anything is done: numbers in, a plan out. No I/O, no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from unabridged.engine.cut import (
    Cut,
    TailLimits,
    count_dropped_by_provider,
    count_separators,
    find_staying_indices,
    plan_cut,
)
from unabridged.engine.trigger import NO_GOAL, MessageGoal, is_worth_it
from unabridged.errors import WontFit
from unabridged.marks import is_trusted_summary
from unabridged.messages import View
from unabridged.results import Plan
from unabridged.settings import Limits
from unabridged.text_tools import find_common_cap

MIN_SUMMARY_TOKENS = 80
"""Tokens below which a summary says nothing."""
MAX_SHARE_AFTERWARDS = 2 / 3
"""The share of the trigger that a request may take after a compaction for all of `keep` to stay: the rest is for what
comes next, or every other round would be summarised again. The summary gives way to it, down to a half of its room."""


class Bounds(NamedTuple):
    """What a request may take, in the meter's tokens."""

    target: int
    """What the request should stay below: the trigger."""
    limit: int
    """What it must stay within: the budget, less what the meter may be off by."""
    aim: int | None = None
    """What it should take after a compaction, where the settings say so: the tail fills it."""
    scale: float = 1.0
    """The provider's tokens in one of the meter's, with what the meter may be off by."""


class FrameSizes(NamedTuple):
    """What a summary turn takes besides its body, in tokens."""

    header: int
    """Header, end line and acknowledgment."""
    separator: int
    """An acknowledgment: it keeps two messages of one side apart, where what stood between them went."""
    beside_system: int = 0
    """What is put beside a system message that stays where its neighbours went, where the provider wants it so."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a plan depends on; sizes in tokens as the meter counts them."""

    views: Sequence[View]
    sizes: Sequence[int]
    overhead: int
    """System prompt and tool schemas."""
    bounds: Bounds
    limits: Limits
    frame: FrameSizes
    least: Callable[[int], int]
    """How small a message can be made: some head, some tail and the note of each of its pieces."""
    lacks_pin: bool = False
    """Whether the earlier summary lacks a text that is pinned since."""
    pinned: frozenset[int] = frozenset()
    newest: frozenset[int] = frozenset()
    """The newest message of a person, if it is a message of its own: it stays wherever it stands."""
    people: int = 0
    """What people's words may take in the summary turn."""
    goal: MessageGoal = NO_GOAL

    @property
    def summary(self) -> int:
        """Return the most that a summary turn may say, people's words included, in tokens."""
        return self.limits.summary + self.people

    @property
    def clearing_goal(self) -> int:
        """Return the size, in tokens, below which clearing must bring the request to be enough by itself."""
        target, aim = self.bounds.target, self.bounds.aim
        return target if aim is None else min(target, aim)

    @property
    def request_tokens(self) -> int:
        """Return the size of the whole request as it is."""
        return self.overhead + sum(self.sizes)

    def sum_sizes(self, indices: Iterable[int]) -> int:
        """Return what these messages take together."""
        return sum(self.sizes[i] for i in indices)

    def count_separator_tokens(self, gone: Sequence[int], place: int, *, systems: bool = True) -> int:
        """Return the tokens of the messages that keep the roles in order when these go.

        The one acknowledgment that every summary has is not counted. With `systems`, what may be put beside system
        messages between them is counted too.
        """
        turns = self.frame.separator * max(0, count_separators(self.views, gone, place) - 1)
        if not (gone and systems and self.frame.beside_system):
            return turns
        return turns + self.frame.beside_system * sum(self.views[i].role == "system" for i in range(place, gone[-1]))

    def build_wont_fit_error(self, floor: int) -> WontFit:
        """Return the error that says so, in the provider's tokens with the possible error of the meter in them."""
        overhead = self.overhead + self.sum_sizes(self.find_fixed_indices())
        return WontFit(
            overhead=math.ceil(overhead * self.bounds.scale),
            floor=max(self.limits.budget + 1, math.ceil(floor * self.bounds.scale)),
            budget=self.limits.budget,
            window=self.limits.window,
        )

    def find_fixed_indices(self) -> set[int]:
        """Return the messages that can't go and can't be shortened."""
        return find_staying_indices(self.views, self.pinned)


def find_newest_person_message(views: Sequence[View]) -> frozenset[int]:
    """Return the index of the newest message of a person; none where it stands beside a tool's result.

    Words beside a result are quoted in the summary, for they can't stay without their round.
    """
    newest = next((i for i in range(len(views) - 1, -1, -1) if views[i].origin == "person"), None)
    return frozenset() if newest is None or views[newest].answers else frozenset({newest})


def make_plan(now: Situation, *, force: bool = False) -> Plan | str:
    """Return what to do; or, in words, why nothing is done.

    `force` compacts whatever the size, if anything at all is gained. Raise `WontFit` when nothing can bring the
    request within the budget.
    """
    over = now.request_tokens > now.bounds.limit
    for bound in now.bounds[:2]:
        cut = _find_cut_within(now, bound, force=force)
        if cut is None:
            continue
        plan = _build_summary_plan(now, cut, bound)
        frame = now.frame.header + now.count_separator_tokens(plan.gone, plan.place)
        freed = now.sum_sizes(cut.gone) - plan.summary - frame
        meets = bound == now.bounds.target
        gone = len(cut.gone)
        if now.request_tokens - freed <= bound and is_worth_it(
            now.limits, now.goal, gone=gone, freed=freed, meets_trigger=meets, is_over=over, is_forced=force
        ):
            return plan
    return _plan_smallest_result(now) if over else "no safe cut would free enough to be worth it"


def _find_cut_within(now: Situation, bound: int, *, force: bool) -> Cut | None:
    """Return the cut whose tail leaves room below `bound` for everything that stays, a summary, and what comes next."""
    stays = _measure_staying_tokens(now)
    if now.bounds.aim is not None:
        room = max(0, min(bound, now.bounds.aim) - stays - now.summary)
        tail = TailLimits(room, at_most=True)
    else:
        room = max(0, int(bound * MAX_SHARE_AFTERWARDS) - stays - now.summary // 2)
        limits = now.limits
        tail = TailLimits(limits.keep_tokens, limits.keep_messages, limits.keep_at_most, room, now.goal.most_in_tail)
    quarter = sum(now.sizes) // 4
    anew = force and (now.lacks_pin or not any(map(is_trusted_summary, now.views)))
    if anew and tail.tokens is not None:  # someone asked for it: a short conversation is still worth a summary
        tail = tail._replace(tokens=min(tail.tokens, quarter))
    cut = plan_cut(now.views, now.sizes, tail, pinned=now.pinned, kept=now.newest)
    if cut is None and anew:
        cut = plan_cut(now.views, now.sizes, TailLimits(quarter, at_most=True), pinned=now.pinned, kept=now.newest)
        cut = None if cut is None else replace(cut, asked=cut.tail)
    # An earlier summary is not made shorter by itself while the request fits: the same list would compact again.
    went_before = cut is not None and all(is_trusted_summary(now.views[i]) for i in cut.gone)
    is_idle = went_before and not now.lacks_pin and (force or now.request_tokens <= now.bounds.limit)
    return None if is_idle else cut


def _measure_staying_tokens(now: Situation) -> int:
    """Return what a compacted request takes besides the summary and the tail."""
    kept = now.find_fixed_indices() | now.newest
    rest = [i for i in range(len(now.views)) if i not in kept]
    separators = now.count_separator_tokens(rest, rest[0] if rest else 0)
    return now.overhead + now.frame.header + now.sum_sizes(kept) + separators


def _describe_smaller_tail(now: Situation, cut: Cut) -> str:
    """Return a note that less of the tail stays than the settings ask for; "" where all of it stays."""
    asked = [f"{now.limits.keep_messages:,} messages"] if now.limits.keep_messages is not None else []
    asked += [f"{now.limits.keep_tokens:,} tokens"] if now.limits.keep_tokens is not None else []
    if cut.tail <= cut.asked or not asked:
        return ""
    tail = range(cut.tail, len(now.views))
    return (
        f"keep is {' or '.join(asked)}: {len(tail):,} messages of {now.sum_sizes(tail):,} tokens stay, "
        "more would leave the request above two thirds of the trigger"
    )


def _build_summary_plan(now: Situation, cut: Cut, bound: int | None = None) -> Plan:
    """Return the plan for a cut; within `bound`, the summary is smaller where a tail that was asked for needs it."""
    kept = tuple(sorted(i for i in now.newest if count_dropped_by_provider(now.views) <= i < cut.tail))
    earlier = now.sum_sizes(i for i in cut.gone if is_trusted_summary(now.views[i]))  # folded in, it keeps its room
    new = now.sum_sizes(cut.gone) - earlier
    smaller = earlier + new * 3 // 4 - now.frame.header
    if now.goal.fewest_gone:  # fewer messages will do, as long as the request stays below the triggers in tokens
        smaller = now.bounds.target - (now.request_tokens - now.sum_sizes(cut.gone)) - now.frame.header
    if bound is not None and now.bounds.aim is None:
        rest = int(bound * MAX_SHARE_AFTERWARDS) - (now.request_tokens - now.sum_sizes(cut.gone)) - now.frame.header
        smaller = min(smaller, max(rest, now.summary // 2))
    return Plan(
        gone=cut.gone,
        place=min(cut.gone[0], *kept) if kept else cut.gone[0],
        summary=min(now.summary, max(MIN_SUMMARY_TOKENS, smaller)),
        kept=kept,
        tail=cut.tail,
        replaced=now.bounds.limit if now.goal.fewest_gone else now.sum_sizes(cut.gone),
        note=_describe_smaller_tail(now, cut),
    )


def _plan_smallest_result(now: Situation) -> Plan:
    """Return a plan with the smallest tail and summary, and with messages shortened that are still too large.

    An earlier summary is not made shorter by itself, while there is another way. Where even that is too much, the
    person's newest message does not stay either: the summary has what it can of its words.
    """
    cut = _find_smallest_cut(now)
    ours = frozenset(cut.gone if cut and all(is_trusted_summary(now.views[i]) for i in cut.gone) else ())
    ways = [replace(now, pinned=now.pinned | ours)] * bool(ours) + [now]
    ways += [replace(now, newest=frozenset())] * bool(now.newest)
    for way in ways[:-1]:
        with suppress(WontFit):
            return _plan_with_shortened_messages(way)
    return _plan_with_shortened_messages(ways[-1])


def _find_smallest_cut(now: Situation) -> Cut | None:
    limits = now.limits
    tail = TailLimits(limits.keep_tokens, limits.keep_messages, limits.keep_at_most, room=0)
    return plan_cut(now.views, now.sizes, tail, pinned=now.pinned, kept=now.newest)


def _plan_with_shortened_messages(now: Situation) -> Plan:
    cut = _find_smallest_cut(now)
    plan = _build_summary_plan(now, cut) if cut else Plan()
    fixed = now.find_fixed_indices()
    movable = set(range(len(now.views))) - set(plan.gone) - fixed
    newest, others = movable & now.newest, movable - now.newest
    smallest = MIN_SUMMARY_TOKENS if cut else 0
    taken = now.overhead + now.sum_sizes(fixed) + (now.frame.header if cut else 0)
    room = now.bounds.limit - taken - now.count_separator_tokens(plan.gone, plan.place, systems=False)
    least = {i: min(now.sizes[i], now.least(i)) for i in movable}
    missing = smallest + sum(least.values()) - room
    if missing > 0:
        raise now.build_wont_fit_error(now.bounds.limit + missing)
    # A person's message gives way only when all else at its smallest does not make room for it.
    newest_cap = find_common_cap([now.sizes[i] for i in newest], room - smallest - sum(least[i] for i in others))
    room -= sum(min(now.sizes[i], newest_cap) for i in newest)
    summary = min(plan.summary, max(smallest, min(room // 3, room - sum(least[i] for i in others)))) if cut else 0
    other_cap = find_common_cap([now.sizes[i] for i in others], room - summary, [least[i] for i in others])
    caps = {i: newest_cap for i in newest if now.sizes[i] > newest_cap}
    caps |= {i: max(other_cap, least[i]) for i in others if now.sizes[i] > max(other_cap, least[i])}
    return replace(plan, summary=summary, caps=caps)
