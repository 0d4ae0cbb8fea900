"""Which model is asked, which one when that fails, and how long each is left alone after a failure.

A model that never returns costs one idle daemon thread and delays nobody: its call is abandoned at the deadline, or at
once when cancelled, and its late answer is ignored.

Retries are written out (in `exchange`) rather than taken from a library: they stop at a deadline shared by all asks of
a compaction, wake up at once when cancelled, and serve threads and event loops from one decision.
"""

from __future__ import annotations

import logging
import time
import weakref
from threading import Lock
from typing import Any

from unabridged.asking.failures import find_remedy
from unabridged.asking.model_calls import PendingCall, close_model, wrap_model
from unabridged.errors import SettingsError, SummaryFailed

log = logging.getLogger("unabridged")

SMALLEST_WINDOW_TOKENS = 64
"""No model has a smaller window."""


class Asker:
    """Asks a model, and another one when that fails. One serves any number of threads at once.

    `model` and `fallback` are callables (`str -> str` or `Ask -> Reply`, sync or async) or `"provider:name"` strings.
    `windows` are the most tokens each of the two takes, where the model table does not know them by their names.
    `deadline` is in seconds, for all asks of one compaction; a model that failed is left alone for `cool_down` seconds.
    Models are numbered: 0 is `model`, 1 is `fallback`.
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
        windows = _check_window("model", model, windows[0]), _check_window("fallback", fallback, windows[1])
        pairs = zip((model, fallback), windows, strict=True)
        self.models = tuple(wrap_model(one, window) for one, window in pairs if one is not None)
        self.deadline, self.retries, self.back_off, self.cool_down = deadline, retries, back_off, cool_down
        self._cool_downs_end = [0.0] * len(self.models)
        """By index, when the cool-down of a model that failed is over."""
        self._learned_windows: dict[int, int] = {}
        """By index, what models take that refused an ask as too long."""
        self._lock = Lock()
        self._abandoned: list[PendingCall] = []
        self._warned: frozenset[int | None] = frozenset()
        self._last_failure = ""
        self._warned_missing = False
        self._exchanges: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def name(self) -> str:
        """Return the name of the model that is asked first."""
        return self.models[0].name

    @property
    def window(self) -> int | None:
        """Return the most tokens that the model takes which would be asked now; None where that is unknown."""
        place = next(iter(self.list_ready_models()), 0)
        windows = (self.models[place].window, self._learned_windows.get(place))
        return min((size for size in windows if size is not None), default=None)

    def learn_window(self, place: int | None, window: int) -> None:
        """Remember that the model with this index takes no more tokens than `window`: later asks are made to fit."""
        place = place or 0
        if self.models[place].late_bound is None:  # else another request may bring another model
            self._learned_windows[place] = max(SMALLEST_WINDOW_TOKENS, window)

    def can_continue_live(self, format_name: str) -> bool:
        """Return whether it can be asked as a suffix of a live prompt in this wire format.

        A plain `str -> str` can't; a provider's model can in its own format; a callable of an `Ask` says it can.
        """
        first = self.models[0]
        return first.takes_ask and getattr(first.call, "live_format", format_name) == format_name

    @property
    def native_provider(self) -> str:
        """Return the provider that compacts for the first model, and whose blocks it takes; "" where none does."""
        return str(getattr(self.models[0].call, "native_provider", ""))

    @property
    def missing_model_reason(self) -> str:
        """Return why there is no model to ask now, because only a request can name it; "" where there is one."""
        return "" if self._list_available_models() else self.models[0].explain_missing_model()

    def _list_available_models(self) -> list[int]:
        return [place for place, model in enumerate(self.models) if not model.explain_missing_model()]

    @property
    def seconds_until_ready(self) -> float:
        """Return the seconds until a model may be asked again; 0 when one may be asked now."""
        return min(map(self._count_cool_down_seconds, self._list_available_models()), default=0.0)

    def _count_cool_down_seconds(self, place: int) -> float:
        """Return the seconds until the model with this index may be asked again; 0 when it may be asked now."""
        return max(0.0, self._cool_downs_end[place] - time.monotonic())

    def open_circuits(self, place: int | None = None) -> None:
        """Stop asking the model with this index for the cool-down; without an index, every model that is available."""
        for one in self._list_available_models() if place is None else (place,):
            self._cool_downs_end[one] = time.monotonic() + self.cool_down

    def describe_cool_down(self, seconds: float) -> str:
        """Return in words that the model failed and is not asked for so many seconds."""
        why = f" ({self._last_failure})" if self._last_failure else ""
        return f"{self.name} failed a moment ago{why} and is left alone for another {seconds:.0f} s"

    def warn_of_failure(self, place: int | None, failed: SummaryFailed, consequence: str) -> None:
        """Log a failure of one model, or of all (None), unless it is logged already and no success came since."""
        self._last_failure = failed.reason
        with self._lock:
            logged, self._warned = place in self._warned, self._warned | {place}
        if not logged:
            text = "the summariser failed: %s. %s; logged once until it works again. %s"
            log.warning(text, failed.reason, consequence, find_remedy(failed))

    def warn_of_missing_model(self) -> None:
        """Log, once, that there was no model to ask."""
        with self._lock:
            logged, self._warned_missing = self._warned_missing, True
        if not logged and (late := self.models[0].late_bound) is not None:
            log.warning("a summary was made without a model: %s. %s", self.missing_model_reason, late.remedy)

    def log_next_failure_again(self, place: int | None = None) -> None:
        """Log the next failure again: this model has answered, or (None) a summary was made."""
        with self._lock:
            self._warned -= {place}

    def list_ready_models(self) -> list[int]:
        """Return the indices of the models that are available and not left alone."""
        return [place for place in self._list_available_models() if not self._count_cool_down_seconds(place)]

    def cancel(self) -> None:
        """End every exchange that is under way, in any thread; each fails at once as cancelled."""
        with self._lock:
            exchanges = list(self._exchanges)
        for exchange in exchanges:
            exchange.cancel()

    def close(self) -> None:
        """End what is under way, and close the connections that were opened for a provider string."""
        self.cancel()
        for model in self.models:
            close_model(model)

    def register_exchange(self, exchange: Any) -> None:
        """Remember this exchange, so that `cancel` reaches it."""
        with self._lock:
            self._exchanges.add(exchange)

    def abandon_call(self, work: PendingCall) -> None:
        """Cancel a call that nobody waits for any more, and count it until it returns."""
        work.cancel()
        work.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # else asyncio reports its error
        with self._lock:
            self._abandoned.append(work)

    def count_abandoned(self) -> int:
        """Return how many calls were abandoned and have not returned yet."""
        with self._lock:
            self._abandoned = [work for work in self._abandoned if not work.done()]
            return len(self._abandoned)


def _check_window(name: str, model: object, size: object) -> int | None:
    if size is None:
        return None
    if model is None:
        raise SettingsError(f"{name}_window is the window of the {name}, and there is no {name}: leave it out")
    if isinstance(size, bool) or not isinstance(size, int) or size < SMALLEST_WINDOW_TOKENS:
        least = f"{SMALLEST_WINDOW_TOKENS:,}"
        raise SettingsError(f"{name}_window must be a whole number of at least {least} tokens; got {size!r}")
    return size
