"""The provider said "too long" although the request was thought to fit: what that teaches. Numbers only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unabridged.asking.overflow import Overflow, is_overflow
from unabridged.errors import SettingsError
from unabridged.settings import Limits, Settings, limits

TOLD, UNTOLD = 0.95, 0.80
"""Of what was refused, the most that is sent later: where the provider told its numbers, and where it did not."""
LEAST = 64
"""The smallest budget that a request can be made for."""
HALVES = (0.5, 0.65)
"""Of what was refused by who told nothing of use, the most that is sent in its place: a second refusal is the last, so
it must fit. The half; where what can't go takes more, two thirds."""


def overflow_in(error: object) -> Overflow:
    """What it says about the request being too long; one that says something else is raised as it is."""
    overflow = is_overflow(error)
    if overflow is not None:
        return overflow
    if isinstance(error, BaseException):
        raise error
    raise TypeError(f"not an answer that says the request is too long, and no exception to raise again: {error!r:.200}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that its provider refused: what we counted, and what that was in the provider's tokens then."""

    overflow: Overflow
    estimate: int
    sent: int

    def sent_now(self, factor: float) -> int:
        """What was refused, in the provider's tokens as far as we know them now.

        A count it told stays what it is. Where it told none, all we know is our own count: that is what stays, and
        what it is in the provider's tokens follows the calibration.
        """
        return self.sent if self.overflow.requested is not None else round(self.estimate * factor)


class Refusals:
    """What a provider refused so far, and the limits that follow from all of it."""

    def __init__(self, settings: Settings, named: Limits) -> None:
        self._settings, self._named = settings, named
        self._known: dict[tuple[int | None, bool, int | None], Refusal] = {}

    def add(self, overflow: Overflow, estimate: int, factor: float) -> Limits | None:
        """Learn from one more, of `estimate` tokens as we count them; None when it takes next to nothing."""
        key = (overflow.limit, overflow.requested is not None, overflow.output)
        before = self._known.get(key)
        refusal = Refusal(overflow, estimate, round(estimate * factor))
        if before is None or refusal.sent_now(factor) < before.sent_now(factor):  # of its kind, the smallest tells most
            self._known[key] = refusal
        found = self.limits(factor)
        if found is None:
            self._known = {**self._known, key: before} if before else {k: v for k, v in self._known.items() if k != key}
        return found

    def limits(self, factor: float) -> Limits | None:
        """The limits for all of it, in the provider's tokens; None where it leaves next to nothing."""
        found: Limits | None = self._named
        for refusal in self._known.values():
            if found is not None:
                found = lower_limits(refusal.overflow, refusal.sent_now(factor), self._settings, found)
        return found


def limits_to_try(overflow: Overflow, sent: int, settings: Settings, learned: Limits) -> list[Limits]:
    """The limits for the one request that takes the refused one's place, tightest first; the learned ones last.

    Where the provider told how far it was off, those are all. Where it did not, half of what was sent should do.
    """
    if overflow.requested is not None or (overflow.limit is not None and overflow.limit < sent):
        return [learned]
    halves = [lower_limits(overflow, sent, settings, learned, share) for share in HALVES]
    return [*(limits for limits in halves if limits is not None), learned]


def in_words(overflow: Overflow, sent: int, now: Limits) -> str:
    """What was refused, and what is done about it from now on."""
    limit = f", its limit is {overflow.limit:,}" if overflow.limit is not None else ""
    return (
        f"the provider refused {sent:,} tokens as too long{limit}: "
        f"from now on requests stay within {now.budget:,}, and {now.reserve:,} are left for the answer"
    )


def lower_limits(
    overflow: Overflow, sent: int, settings: Settings, now: Limits, share: float | None = None
) -> Limits | None:
    """The limits for a provider that refused `sent` tokens; None when it takes next to nothing.

    All in its own tokens: what it counted has calibrated `sent` before, and is never taken into the limits as well.
    Its limit is taken where it told one, and the answer it was asked for is reserved. In any case the budget ends up
    clearly below what was refused: at this `share` of it.
    """
    window = min(now.window, overflow.limit or now.window)
    reserve = max(now.reserve * window // now.window, overflow.output or 0)
    told = overflow.limit is not None and overflow.requested is not None
    window = min(window, int(sent * (share or (TOLD if told else UNTOLD))) + reserve)
    return limits_leaving(settings, window, max(1, reserve))


def limits_leaving(settings: Settings, window: int, reserve: int) -> Limits | None:
    """The limits of the settings with this reserve; None when that leaves next to nothing."""
    settings, plain = replace(settings, reserve=reserve), Settings()
    for tried in (settings, replace(settings, trigger=plain.trigger, keep=plain.keep, target=None)):
        try:
            found = limits(tried, window)
        except SettingsError:  # made for a larger window: there, the defaults do
            continue
        return found if found.budget >= LEAST else None
    return None
