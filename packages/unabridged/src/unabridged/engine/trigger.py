"""When to compact, to clear below the trigger, or to begin in the background: the one place that decides it.

A request below the trigger leaves as it came. The exceptions are options with a trigger of their own: `background`,
and `Clear(payback=True)`. What a compaction must achieve for the trigger not to fire again at once is here too.

For another measure: a name and a range in `settings`, a field of `RequestSize` that its `of` takes from the
messages, and its part of `find_message_goal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from unabridged.settings import Limits

RETRY_GROWTH = 1.05
"""After a try that came to nothing, the conversation grows by this much before the next, while it fits."""
LOOK_AGAIN_TOKENS = 1_000
"""Tokens that are new since the last look whether clearing pays, before the next look."""
MIN_FREED_SHARE = 0.05
"""The share of the window, or of a lower trigger, that must be freed, unless the request is over the budget."""
MIN_FREED_SHARE_ABOVE_LIMIT = 0.5
"""The same where the trigger can't be met whatever goes: it would only be pulled again at once."""
MIN_CLEARED_SHARE = 0.20
"""A clearing that frees less of the conversation than this is not worth a record, whatever it pays."""
WAITING_REASON = "a summary is being made in the background, and the request still fits"
MADE_EARLY = 1 << 62
"""As the size at which a summary was begun in the background: it is made, and the list has not changed since."""


class RequestSize(NamedTuple):
    """The size of a request: a field for each of the measures that a trigger knows."""

    tokens: int
    messages: int

    @classmethod
    def of(cls, tokens: int, messages: Sequence[Any]) -> RequestSize:
        """Return the size of a request of so many tokens with these messages. Every other measure is taken here."""
        return cls(tokens, len(messages))


@dataclass(slots=True)
class Attempts:
    """What came of earlier tries with a conversation; sizes in the meter's tokens."""

    failed_at: int = 0
    """The size at which the last compaction came to nothing; 0 when it did not."""
    failed_why: str = ""
    """Why nothing was changed then: reported once, not at every call."""
    looked_at: int = 0
    """The size at which it was last looked whether clearing pays."""
    begun_at: int = 0
    """The size at which a summary was last begun in the background, or `MADE_EARLY`."""


class Decision(NamedTuple):
    """What to do with a conversation now, and why: the reason to compact, or to wait."""

    action: Literal["nothing", "wait", "compact", "clear", "begin"]
    why: str = ""


DO_NOTHING = Decision("nothing")


@dataclass(frozen=True, slots=True)
class TriggerInput:
    """What the decision depends on."""

    limits: Limits
    size: RequestSize
    """In the provider's tokens."""
    estimate: int
    """The same in the meter's tokens."""
    is_over: bool
    """Whether the meter can't vouch for the request being within the budget."""
    attempts: Attempts
    asked_why: str = ""
    """Why somebody asks for it, or that a provider refused it: a trigger is not needed then."""
    is_forced: bool = False
    """Whether it is done however the last try ended."""
    is_in_background: bool = False
    """Whether a summary is being made."""
    background_share: float | None = None
    """The share of the trigger from which on a summary may be begun in the background; None for never."""
    idle_seconds: float = 0.0
    cache_seconds: float | None = None
    """How long the provider's cache lives; None where nothing is cleared because it pays."""


def decide(now: TriggerInput) -> Decision:
    """Return whether to compact, wait, begin a summary early, clear, or do nothing."""
    if not (now.asked_why or now.limits.trigger):
        return DO_NOTHING
    reason = now.asked_why or find_trigger_reason(now.limits, now.size, is_over=now.is_over)
    if reason is None:
        share = now.background_share
        if share is not None and now.size.tokens >= share * now.limits.tokens_below_trigger:
            # While a summary is there or under way, nothing is cleared: it would not be found again.
            may_begin = not now.is_in_background and has_grown(now.estimate, now.attempts.begun_at)
            return Decision("begin") if may_begin else DO_NOTHING
        return Decision("clear") if _may_clearing_pay(now) else DO_NOTHING
    if now.size.tokens <= now.limits.budget and not now.is_forced:  # it fits
        if not has_grown(now.estimate, now.attempts.failed_at):
            return Decision("wait", now.attempts.failed_why)
        if now.is_in_background:
            return Decision("wait", WAITING_REASON)
    return Decision("compact", reason)


def find_trigger_reason(limits: Limits, size: RequestSize, *, is_over: bool = False) -> str | None:
    """Return what pulls the trigger, in words with numbers; None below it, and always when there is none.

    `is_over`: the meter can't vouch for the request being within the budget.
    """
    for condition in limits.trigger:
        if all(getattr(size, measure) >= bound for measure, bound in condition.items()):
            sizes = ((getattr(size, measure), measure, bound) for measure, bound in condition.items())
            return " and ".join(f"{number:,} {measure}, the trigger is {bound:,}" for number, measure, bound in sizes)
    if is_over and limits.trigger:
        return f"{size.tokens:,} tokens, too close to the budget of {limits.budget:,}"
    return None


def has_grown(estimate: int, since: int) -> bool:
    """Return whether a conversation is so much larger than at the last try that another is worth it."""
    return estimate >= since * RETRY_GROWTH


def _may_clearing_pay(now: TriggerInput) -> bool:
    """Return whether clearing may pay now: so much is new since the last look, or a provider's cache has expired.

    Looking costs a pass over the list. Where no cache is known nobody knows what it would pay.
    """
    if now.cache_seconds is None:
        return False
    return now.estimate - now.attempts.looked_at >= LOOK_AGAIN_TOKENS or now.idle_seconds >= now.cache_seconds


def may_clear_enough(sizes: Sequence[int], least: int) -> bool:
    """Return whether clearing could free enough, if all messages of at least so many tokens could go."""
    return sum(size for size in sizes if size >= least) >= MIN_CLEARED_SHARE * sum(sizes)


class MessageGoal(NamedTuple):
    """What a trigger that counts messages, and fired, wants of a compaction; nothing where none did."""

    fewest_gone: int = 0
    """How many messages must go."""
    most_in_tail: int | None = None
    """How many messages the tail may have."""


NO_GOAL = MessageGoal()


def find_message_goal(limits: Limits, messages: int, inserted: int) -> MessageGoal:
    """Return what must go of so many messages for the trigger not to fire again at once, though some are put in.

    A third of the trigger goes, and two thirds stay at most: else nearly every call would compact where little less
    than the trigger is kept.
    """
    counts = (condition["messages"] for condition in limits.trigger if "messages" in condition)
    fired = min((count for count in counts if count <= messages), default=0)
    return MessageGoal(max(inserted + 1, fired // 3), max(1, fired * 2 // 3)) if fired else NO_GOAL


def is_worth_it(
    limits: Limits, goal: MessageGoal, *, gone: int, freed: int, meets_trigger: bool, is_over: bool, is_forced: bool
) -> bool:
    """Return whether a cut is worth it by which so many messages go and so many tokens are freed.

    `meets_trigger`: the request is then below the trigger, else only within the budget; `is_over`: it is over the
    budget now.
    """
    if goal.fewest_gone and meets_trigger and not is_forced:
        return gone >= goal.fewest_gone
    if is_forced or is_over:
        return freed >= 1
    share = MIN_FREED_SHARE if meets_trigger else MIN_FREED_SHARE_ABOVE_LIMIT
    return freed >= int(share * min(limits.window, limits.tokens_below_trigger))
