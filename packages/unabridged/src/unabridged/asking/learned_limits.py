"""What a refusal teaches, where a request was thought to fit and its provider said "too long". Numbers only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unabridged.asking.overflow import Overflow, is_overflow
from unabridged.errors import SettingsError
from unabridged.settings import Limits, Settings, resolve_limits

COUNTED_SHARE, UNCOUNTED_SHARE = 0.95, 0.80
"""Of what was refused, the most that is sent later: where the provider gave its numbers, and where it did not."""
SMALLEST_BUDGET_TOKENS = 64
"""No request can be made for less."""
LIMIT_SHARES = (0.5, 0.65)
"""Of what was refused without numbers, the most that is sent in its place: a second refusal is the last, so it must
fit. Half; where what can't go takes more, two thirds."""


def require_overflow(error: object) -> Overflow:
    """Return the overflow that a provider's error reports; raise the error when it reports something else."""
    overflow = is_overflow(error)
    if overflow is not None:
        return overflow
    if isinstance(error, BaseException):
        raise error
    raise TypeError(f"not an answer that says the request is too long, and no exception to raise again: {error!r:.200}")


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that its provider refused: our estimate, and what that was in the provider's tokens then."""

    overflow: Overflow
    estimate: int
    sent_tokens: int

    def estimate_sent_tokens(self, factor: float) -> int:
        """Return how large the refused request was, in the provider's tokens by today's calibration.

        The provider's own count stays what it is. Without one only our estimate is known: it is converted anew.
        """
        return self.sent_tokens if self.overflow.requested is not None else round(self.estimate * factor)


class LearnedLimits:
    """What a provider refused so far, and the limits that follow from all of it."""

    def __init__(self, settings: Settings, named: Limits) -> None:
        self._settings, self._named = settings, named
        self._refused: dict[tuple[int | None, bool, int | None], RefusedRequest] = {}

    def add(self, overflow: Overflow, estimate: int, factor: float) -> Limits | None:
        """Learn from one more, of `estimate` tokens by our count; return None when it leaves next to nothing."""
        key = (overflow.limit, overflow.requested is not None, overflow.output)
        before, known = self._refused, self._refused.get(key)
        refused = RefusedRequest(overflow, estimate, round(estimate * factor))
        # Of its kind, the smallest says most.
        if known is None or refused.estimate_sent_tokens(factor) < known.estimate_sent_tokens(factor):
            self._refused = {**before, key: refused}
        limits = self.limits(factor)
        if limits is None:
            self._refused = before
        return limits

    def limits(self, factor: float) -> Limits | None:
        """Return the limits for all of it, in the provider's tokens; None where it leaves next to nothing."""
        limits: Limits | None = self._named
        for one in self._refused.values():
            if limits is not None:
                limits = find_lower_limits(one.overflow, one.estimate_sent_tokens(factor), self._settings, limits)
        return limits


def list_limits_to_try(overflow: Overflow, sent: int, settings: Settings, learned: Limits) -> list[Limits]:
    """Return the limits for the one request that takes the refused one's place, tightest first; the learned ones last.

    Where the provider said how far it was off, those are all. Where it did not, half of what was sent should do.
    """
    if overflow.requested is not None or (overflow.limit is not None and overflow.limit < sent):
        return [learned]
    halves = [find_lower_limits(overflow, sent, settings, learned, share) for share in LIMIT_SHARES]
    return [*(limits for limits in halves if limits is not None), learned]


def describe_refusal(overflow: Overflow, sent: int, now: Limits) -> str:
    """Return in words what was refused, and what is done about it from now on."""
    limit = f", its limit is {overflow.limit:,}" if overflow.limit is not None else ""
    return (
        f"the provider refused {sent:,} tokens as too long{limit}: "
        f"from now on requests stay within {now.budget:,}, and {now.reserve:,} are left for the answer"
    )


def find_lower_limits(
    overflow: Overflow, sent: int, settings: Settings, now: Limits, share: float | None = None
) -> Limits | None:
    """Return the limits for a provider that refused `sent_tokens` tokens; None when they leave next to nothing.

    All in its own tokens: what it counted has calibrated `sent_tokens` before, and is never part of the limits as well.
    Its limit is taken where it named one, and the answer it was asked for is reserved. In any case the budget ends up
    clearly below what was refused: at this `share` of it.
    """
    window = min(now.window, overflow.limit or now.window)
    reserve = max(now.reserve * window // now.window, overflow.output or 0)
    is_counted = overflow.limit is not None and overflow.requested is not None
    window = min(window, int(sent * (share or (COUNTED_SHARE if is_counted else UNCOUNTED_SHARE))) + reserve)
    return find_limits_with_reserve(settings, window, max(1, reserve))


def find_limits_with_reserve(settings: Settings, window: int, reserve: int) -> Limits | None:
    """Return the limits of the settings with this reserve; None when they leave next to nothing."""
    settings, defaults = replace(settings, reserve=reserve), Settings()
    for tried in (settings, replace(settings, trigger=defaults.trigger, keep=defaults.keep, target=None)):
        try:
            limits = resolve_limits(tried, window)
        except SettingsError:  # made for a larger window: in this one, the defaults serve
            continue
        return limits if limits.budget >= SMALLEST_BUDGET_TOKENS else None
    return None
