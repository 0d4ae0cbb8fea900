"""When to compact, to clear below the trigger, or to begin in the background: the one place that decides it.

A request below the trigger leaves as it came. The exceptions are options with a trigger of their own: `background`,
and `Clear(payback=True)`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from unabridged.settings import Limits

GROWTH = 1.05
"""After a try that came to nothing, the conversation grows by this much before the next, while it fits."""
LOOK_AGAIN = 1_000
"""Tokens that are new since the last look whether clearing pays, before the next look."""
WORTH_IT = 0.05
"""The share of the window, or of a lower trigger, that must be freed, unless the request is over the budget."""
WORTH_IT_ABOVE = 0.5
"""The same where the trigger can't be met whatever goes: it would only be pulled again at once."""
MAKING = "a summary is being made in the background, and the request still fits"


class Decision(NamedTuple):
    """What to do with a conversation now, and why: the reason to compact, or to wait."""

    do: Literal["nothing", "wait", "compact", "clear", "begin"]
    why: str = ""


NOTHING = Decision("nothing")


class Load(NamedTuple):
    """What a trigger is held against: a field for each of the measures that settings know, as it is now."""

    tokens: int
    messages: int


class Now(NamedTuple):
    """What the decision depends on."""

    limits: Limits
    reason: str | None
    """Why it is to be compacted: it was asked for, or what `trigger_reason` says."""
    asked: bool
    """Whether somebody asks for it, or a provider refused it: a trigger is not needed then."""
    forced: bool
    """Whether it is done however the last try ended."""
    fits: bool
    estimate: int
    failed_at: int
    """The size at which the last try came to nothing; 0 when it did not."""
    failed_why: str
    in_background: bool
    """Whether a summary is being made."""
    early: bool = False
    """Whether the request is near enough to the trigger to have its summary made in the background."""
    payback: bool = False
    """Whether it is time to look if clearing pays (`worth_a_look`)."""


def decide(now: Now) -> Decision:
    """Return whether to compact, to wait, to begin in the background, to look for what clearing pays, or nothing."""
    if not (now.asked or now.limits.trigger):
        return NOTHING
    if now.reason is None:
        return Decision("begin") if now.early else Decision("clear") if now.payback else NOTHING
    if now.fits and not now.forced:
        if not has_grown(now.estimate, now.failed_at):
            return Decision("wait", now.failed_why)
        if now.in_background:
            return Decision("wait", MAKING)
    return Decision("compact", now.reason)


def trigger_reason(limits: Limits, load: Load, *, over: bool = False) -> str | None:
    """What pulls the trigger, in words with numbers; None below it, and always when there is none.

    `over`: the meter can't vouch for the request being within the budget.
    """
    for condition in limits.trigger:
        if all(getattr(load, measure) >= bound for measure, bound in condition.items()):
            return " and ".join(
                f"{getattr(load, measure):,} {measure}, the trigger is {n:,}" for measure, n in condition.items()
            )
    if over and limits.trigger:
        return f"{load.tokens:,} tokens, too close to the budget of {limits.budget:,}"
    return None


def has_grown(estimate: int, since: int) -> bool:
    """Whether a conversation is so much larger than at the last try that another is worth it."""
    return estimate >= since * GROWTH


def starts_in_background(limits: Limits, tokens: int, share: float | None) -> bool:
    """Whether a request of so many tokens is near enough to the trigger to have its summary made before it is due."""
    return share is not None and tokens >= share * limits.target


def worth_a_look(estimate: int, looked_at: int, idle: float, lifetime: float | None) -> bool:
    """Whether clearing may pay now: so much is new since the last look, or a provider's cache has expired.

    Looking costs a pass over the list. Without a `lifetime` nobody knows what it would pay.
    """
    return lifetime is not None and (estimate - looked_at >= LOOK_AGAIN or idle >= lifetime)


def messages_to_go(limits: Limits, messages: int, put_in: int) -> int:
    """Return how many messages must go where a trigger that counts messages fired; 0 where none did.

    So many that the list has fewer, though `put_in` are put in, and a third of the trigger: else nearly every call
    would compact where little less than the trigger is kept.
    """
    fired = _fired(limits, messages)
    return max(put_in + 1, fired // 3) if fired else 0


def most_messages(limits: Limits, messages: int) -> int | None:
    """Return how many messages the tail may have where a trigger that counts messages fired: two thirds of it."""
    fired = _fired(limits, messages)
    return max(1, fired * 2 // 3) if fired else None


def _fired(limits: Limits, messages: int) -> int:
    """Return the lowest trigger in messages that so many messages pull; 0 for none."""
    counts = (condition["messages"] for condition in limits.trigger if "messages" in condition)
    return min((count for count in counts if count <= messages), default=0)


def least_freed(limits: Limits, *, below_trigger: bool) -> int:
    """Return the tokens that a compaction must free to be worth it."""
    share = WORTH_IT if below_trigger else WORTH_IT_ABOVE
    return int(share * min(limits.window, limits.target))
