"""The provider said "too long" although the request was thought to fit: what that teaches. Numbers only, no I/O."""

from __future__ import annotations

from dataclasses import replace

from unabridged.asking.overflow import Overflow, is_overflow
from unabridged.errors import SettingsError
from unabridged.settings import Limits, Settings, limits

TOLD, UNTOLD = 0.95, 0.80
"""Of what was refused, the most that is sent next: where the provider told its numbers, and where it did not."""


def overflow_in(error: object) -> Overflow:
    """What it says about the request being too long; one that says something else is raised as it is."""
    overflow = is_overflow(error)
    if overflow is not None:
        return overflow
    if isinstance(error, BaseException):
        raise error
    raise TypeError(f"not an answer that says the request is too long, and no exception to raise again: {error!r:.200}")


def lowered(overflow: Overflow, sent: int, settings: Settings, now: Limits) -> Limits | None:
    """The limits for a provider that refused `sent` tokens; None when it takes next to nothing.

    All in its own tokens: what it counted has calibrated `sent` before, and is never taken into the limits as well.
    Its limit is taken where it told one, and the answer it was asked for is reserved. In any case the budget ends up
    clearly below what was refused.
    """
    window = min(now.window, overflow.limit or now.window)
    reserve = max(now.reserve * window // now.window, overflow.output or 0)
    told = overflow.limit is not None and overflow.requested is not None
    window = min(window, int(sent * (TOLD if told else UNTOLD)) + reserve)
    settings, plain = replace(settings, reserve=max(1, reserve)), Settings()
    for tried in (settings, replace(settings, trigger=plain.trigger, keep=plain.keep)):
        try:
            return limits(tried, window)
        except SettingsError:  # made for a larger window: there, the defaults do
            continue
    return None
