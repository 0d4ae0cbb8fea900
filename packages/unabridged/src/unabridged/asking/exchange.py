"""The asks of one compaction, carried out: what happens when is one generator, and two drivers serve it.

`Exchange._exchange` yields how long to wait, and the call to wait for if there is one. A wait ends with the call, with
its time, or with a cancel, whichever is first; an answer that comes later is ignored.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from unabridged.asking.ask import Ask, AskFailed, Reply
from unabridged.asking.asker import Asker
from unabridged.asking.drivers import arun_generator, run_generator, wrap_in_exception
from unabridged.asking.failures import classify_failure, describe_error_kind, is_lasting, quote_error, read_retry_after
from unabridged.asking.model_calls import CallableModel, PendingCall, fits_window, start_call
from unabridged.asking.overflow import Overflow, is_overflow

FIRST_MODEL_SHARE = 0.6
"""Of the time left, what one call may take while there is another model to turn to."""
MAX_ABANDONED_CALLS = 4
"""Blocking calls that never returned, after which no more are made."""

_WaitStep = tuple[float, Callable[..., PendingCall] | None]
"""The seconds to wait, and what starts the call to wait for; without one it is a pause."""
_AskSteps = Generator[_WaitStep, Reply | None, Reply]


class Exchange:
    """The asks of one compaction: one deadline, which starts with the first, and one turn to the other model."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self._ends_at: float | None = None
        self._failed_models: set[int] = set()
        self._cancelled: Future[None] = Future()
        self._cancelled.set_running_or_notify_cancel()  # one who stops waiting for it must not cancel it
        asker.register_exchange(self)

    def ask(self, ask: Ask) -> Reply:
        """Return the reply; raise `AskFailed` within the deadline."""
        return run_generator(self._ask_models(ask), self._wait_for_step)

    async def aask(self, ask: Ask) -> Reply:
        """`ask` without blocking the event loop."""
        return await arun_generator(self._ask_models(ask), self._await_step)

    def cancel(self) -> None:
        """End the ask that is under way, and every later one, as cancelled."""
        with suppress(InvalidStateError):
            self._cancelled.set_result(None)

    # -- what happens when --------------------------------------------------------------------------------------------

    def _ask_models(self, ask: Ask) -> _AskSteps:
        if self._ends_at is None:
            self._ends_at = time.monotonic() + self.asker.deadline
        failed: list[AskFailed] = []
        order = self._order_models(ask)
        for number, place in enumerate(order):
            try:
                reply = yield from self._try_model(place, ask, is_last=number == len(order) - 1)
            except AskFailed as error:
                error.others = _select_errors_of_asked_models(failed)
                if error.why == "cancelled" or error.overflow is not None:
                    raise
                self._failed_models.add(place)
                self.asker.open_circuits(place)
                failed.append(error)
                continue
            self.asker.log_next_failure_again(place)
            reply = replace(reply, place=place, failed=_select_errors_of_asked_models(failed))
            if not failed:
                return reply
            instead = f"{reply.model} was asked instead"
            self.asker.warn_of_failure(order[number - 1], failed[-1], instead)
            return replace(reply, notes=(*reply.notes, f"{failed[-1].reason}; {instead}"))
        if small := self._list_remaining_models():  # not asked yet: it takes less than this ask was made for
            model = self.asker.models[small[0]]
            message = f"{model.name} takes {model.window:,} tokens, fewer than this ask needs"
            too_long = AskFailed("too-long", message, Overflow(model.window))
            too_long.others = _select_errors_of_asked_models(failed)
            raise too_long from (failed[-1] if failed else None)
        if failed:
            raise (_select_errors_of_asked_models(failed) or failed)[-1]
        raise AskFailed("cool-down", self.asker.describe_cool_down(self.asker.seconds_until_ready))

    def _order_models(self, ask: Ask) -> list[int]:
        """Return the ready models that take so much; the other one first where a reply was rejected.

        Only the first may have a compaction of its own.
        """
        able = [place for place in self._list_remaining_models() if fits_window(self.asker.models[place], ask)]
        if ask.native:
            return [place for place in able if place == 0]
        return able[::-1] if ask.again and not ask.messages else able

    def _list_remaining_models(self) -> list[int]:
        return [place for place in self.asker.list_ready_models() if place not in self._failed_models]

    def _try_model(self, place: int, ask: Ask, *, is_last: bool) -> _AskSteps:
        """Ask one model until it answers, its error is a lasting one, or retries or time are used up."""
        model, number = self.asker.models[place], 0
        while True:
            seconds = self._seconds_left() * (1.0 if is_last else FIRST_MODEL_SHARE)
            self._check_may_call(model, seconds)
            try:
                reply = yield seconds, partial(start_call, model, replace(ask, deadline=seconds))
            except AskFailed:
                raise  # cancelled
            except Exception as error:
                overflow = is_overflow(error)
                pause = self._find_pause(error, number)
                is_final = is_lasting(error) or number >= self.asker.retries or pause >= self._seconds_left()
                if overflow is not None or is_final:
                    why = classify_failure(error) if overflow is None else "too-long"
                    tries = f", {number + 1} tries" if number else ""
                    reason = f"{model.name} failed: {describe_error_kind(error)}{tries}"
                    message = f"{model.name} failed: {quote_error(error)}"
                    raise AskFailed(why, message, overflow, reason=reason, place=place) from error
            else:
                if reply is None:  # a model that hung once would hang again
                    raise AskFailed("timeout", f"{model.name} did not answer within {seconds:.1f} s", place=place)
                return reply
            yield pause, None
            number += 1

    def _check_may_call(self, model: CallableModel, seconds: float) -> None:
        if self._cancelled.done():
            raise AskFailed("cancelled", "the summary was cancelled")
        if seconds <= 0:
            late = f"the deadline of {self.asker.deadline:g} s passed before {model.name} was asked"
            raise AskFailed("timeout", late)
        if (count := self.asker.count_abandoned()) >= MAX_ABANDONED_CALLS:
            raise AskFailed("unavailable", f"{count} earlier calls of the summariser never returned: no more are made")

    def _find_pause(self, error: BaseException, number: int) -> float:
        requested = read_retry_after(error)
        jitter = 0.5 + random.random()  # noqa: S311 - only spreads the retries of many processes
        return requested if requested is not None else float(self.asker.back_off * 2**number * jitter)

    def _seconds_left(self) -> float:
        return (self._ends_at or 0.0) - time.monotonic()

    # -- carrying it out: the reply, None when its time is over --------------------------------------------------------

    def _wait_for_step(self, step: _WaitStep) -> Reply | None:
        seconds, start = step
        work: Any = start(here=False) if start else None
        try:
            wait([self._cancelled, *([work] if work else [])], max(0.0, seconds), FIRST_COMPLETED)
            return self._read_result(work)
        finally:
            self._abandon_if_running(work)

    async def _await_step(self, step: _WaitStep) -> Reply | None:
        seconds, start = step
        work = start(here=True) if start else None
        waiters = [asyncio.wrap_future(one) for one in (self._cancelled, work) if one is not None]
        try:
            await asyncio.wait(waiters, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
            return self._read_result(waiters[1] if work is not None else None)
        finally:
            for waiter in waiters:
                waiter.cancel()
            self._abandon_if_running(work)

    def _read_result(self, work: Any) -> Reply | None:
        if self._cancelled.done():
            raise AskFailed("cancelled", "the summary was cancelled")
        if work is None or not work.done():
            return None
        if work.cancelled():
            raise RuntimeError("the model's call was cancelled from outside")
        if (error := work.exception()) is not None:
            raise wrap_in_exception(error, "the summariser")
        reply: Reply = work.result()
        return reply

    def _abandon_if_running(self, work: PendingCall | None) -> None:
        if work is not None and not work.done():
            self.asker.abandon_call(work)


def _select_errors_of_asked_models(failed: Sequence[AskFailed]) -> tuple[AskFailed, ...]:
    """Return the errors of models that were asked, without those for which no time was left."""
    return tuple(error for error in failed if error.place is not None)
