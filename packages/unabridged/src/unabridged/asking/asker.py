"""Who is asked: a model, another one when that fails, and how long each is left alone after a failure.

A model that never returns costs one idle daemon thread and nobody's time: its call is left behind at the deadline, or
at once when cancelled, and its late answer is ignored.

Retries are written out (in `exchange`) rather than taken from a library: they stop at a deadline shared by all asks of
a compaction, wake up at once when cancelled, and serve threads and event loops from one decision.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Any

from unabridged.asking.failures import remedy
from unabridged.asking.model_calls import Work, close, speaker_of
from unabridged.errors import SettingsError, SummaryFailed
from unabridged.settings import Settings

log = logging.getLogger("unabridged")

SMALLEST_WINDOW = 64
"""Tokens below which no model is."""


class Asker:
    """Asks a model, and another one when that fails. One serves any number of threads at once.

    `model` and `fallback` are callables (`str -> str` or `Ask -> Reply`, sync or async) or `"provider:name"` strings.
    `windows` are the most tokens each of the two takes, where the model table does not know them by their names.
    `deadline` is in seconds, for all asks of one compaction; a model that failed is left alone for `cool_down` seconds.
    """

    def __init__(
        self,
        model: Any,
        *,
        fallback: Any = None,
        windows: tuple[int | None, int | None] = (None, None),
        deadline: float = 120.0,
        retries: int = 2,
        back_off: float = 0.5,
        cool_down: float = 60.0,
    ) -> None:
        if model is None:
            raise SettingsError("a fallback or a window of the summariser needs a model; without one, leave them out")
        if deadline < 0.001:
            raise SettingsError(f"deadline must be a number of at least 0.001; got {deadline!r}")
        sizes = [_window("model", model, windows[0]), _window("fallback", fallback, windows[1])]
        given = zip((model, fallback), sizes, strict=True)
        self.speakers = tuple(speaker_of(one, size) for one, size in given if one is not None)
        self.deadline, self.retries, self.back_off, self.cool_down = deadline, retries, back_off, cool_down
        self._lock = threading.Lock()
        self._resting: dict[int, float] = {}
        self._learned: dict[int, int] = {}
        """By their places, what models take that refused an ask as too long."""
        self._stuck: list[Work] = []
        self._warned: frozenset[int | None] = frozenset()
        self._last = ""
        self._told_missing = False
        self._under_way: weakref.WeakSet[Any] = weakref.WeakSet()
        """Exchanges that `cancel` reaches."""

    @property
    def name(self) -> str:
        """The model that is asked first."""
        return self.speakers[0].name

    @property
    def window(self) -> int | None:
        """The most tokens that the model takes which would be asked now; None where nobody knows."""
        place = next(iter(self.ready()), 0)
        known = (self.speakers[place].window, self._learned.get(place))
        return min((size for size in known if size is not None), default=None)

    def learn(self, place: int | None, window: int) -> None:
        """Remember that the model at this place takes no more: the next summary is asked for in asks that fit."""
        place = place or 0
        if self.speakers[place].late is None:  # else another request may bring another model
            self._learned[place] = max(SMALLEST_WINDOW, window)

    def takes_live(self, format_name: str) -> bool:
        """Whether it can be asked as a suffix of a live prompt in this wire format.

        A plain `str -> str` can't; a provider's model can in its own format; a callable of an `Ask` says it can.
        """
        first = self.speakers[0]
        return first.takes_ask and getattr(first.call, "live_format", format_name) == format_name

    @property
    def missing(self) -> str:
        """Why there is no model to ask now, because only a request can tell it; "" where there is one."""
        return "" if self._known() else self.speakers[0].missing()

    def _known(self) -> list[int]:
        """Return the places of the models that are known now."""
        return [place for place, speaker in enumerate(self.speakers) if not speaker.missing()]

    @property
    def rest_left(self) -> float:
        """Seconds until a model may be asked again; 0 when one may be asked now."""
        now, known = time.monotonic(), self._known()
        with self._lock:
            return max(0.0, min((self._resting.get(place, now) for place in known), default=now) - now)

    def rest(self, place: int | None = None) -> None:
        """Leave the model at this place alone for the cool-down; every model that is known when none is named."""
        until, known = time.monotonic() + self.cool_down, self._known()
        with self._lock:
            for one in known if place is None else (place,):
                self._resting[one] = until

    def resting(self, seconds: float) -> str:
        """That it failed and is left alone, in words."""
        why = f" ({self._last})" if self._last else ""
        return f"{self.name} failed a moment ago{why} and is left alone for another {seconds:.0f} s"

    def warn(self, who: int | None, failed: SummaryFailed, then: str) -> None:
        """Log a failure once in a row: of the model at a place, or of them all (None). `well` ends the row."""
        self._last = failed.reason
        with self._lock:
            said, self._warned = who in self._warned, self._warned | {who}
        if not said:
            log.warning(
                "the summariser failed: %s. %s; said once until it is well. %s", failed.reason, then, remedy(failed)
            )

    def warn_missing(self) -> None:
        """Log, once, that there was no model to ask."""
        with self._lock:
            said, self._told_missing = self._told_missing, True
        if not said and (late := self.speakers[0].late) is not None:
            log.warning("a summary was made without a model: %s. %s", self.missing, late.remedy)

    def well(self, who: int | None = None) -> None:
        """The model at this place has answered; without one: a summary was made."""
        with self._lock:
            self._warned = self._warned - {who}

    def ready(self) -> list[int]:
        """The places of the models that are known and not resting."""
        now, known = time.monotonic(), self._known()
        with self._lock:
            return [place for place in known if self._resting.get(place, now) <= now]

    def cancel(self) -> None:
        """End every exchange that is under way, in any thread; each fails at once as cancelled."""
        with self._lock:
            exchanges = list(self._under_way)
        for exchange in exchanges:
            exchange.cancel()

    def close(self) -> None:
        """End what is under way, and let go of the connections that were opened for a provider string."""
        self.cancel()
        for speaker in self.speakers:
            close(speaker)

    def enter(self, exchange: Any) -> None:
        """Let `cancel` reach this exchange."""
        with self._lock:
            self._under_way.add(exchange)

    def leave_behind(self, work: Work) -> None:
        """Remember a call that nobody waits for any more."""
        work.cancel()
        with self._lock:
            self._stuck = [one for one in (*self._stuck, work) if not one.done()]

    def stuck(self) -> int:
        """How many calls are left that never returned."""
        with self._lock:
            self._stuck = [one for one in self._stuck if not one.done()]
            return len(self._stuck)


def asker_for(model: Any, fallback: Any, windows: tuple[int | None, int | None], settings: Settings) -> Asker:
    """The asker that a compactor with these settings asks."""
    wait = {"deadline": settings.deadline, "cool_down": settings.cool_down}
    return Asker(model, fallback=fallback, windows=windows, retries=settings.retries, **wait)


def _window(name: str, model: object, size: object) -> int | None:
    if size is None:
        return None
    if model is None:
        raise SettingsError(f"{name}_window is the window of the {name}, and there is no {name}: leave it out")
    if isinstance(size, bool) or not isinstance(size, int) or size < SMALLEST_WINDOW:
        raise SettingsError(
            f"{name}_window must be a whole number of at least {SMALLEST_WINDOW:,} tokens; got {size!r}"
        )
    return size
