"""The asks of one compaction, carried out: what happens when is one generator, and two drivers serve it.

`Exchange._exchange` yields a call to make or a time to wait. Each wait is one future that the model, the clock or a
cancel ends, whoever is first; what comes later is ignored.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from unabridged.asking.ask import Ask, AskFailed, Reply
from unabridged.asking.asker import Asker
from unabridged.asking.drivers import adrive, as_error, drive
from unabridged.asking.failures import beginning_of, is_lasting, kind_in_words, reason_for, retry_after
from unabridged.asking.model_calls import Speaker, Work, start, takes
from unabridged.asking.overflow import Overflow, is_overflow

FIRST_SHARE = 0.6
"""Of the time left, what one call may take while there is another model to turn to."""
MOST_STUCK = 4
"""Blocking calls that never returned, after which no more are made."""


class _Step(NamedTuple):
    """A call to make and how long to wait for it; without a speaker a pause."""

    seconds: float
    ask: Ask
    speaker: Speaker | None = None


_Steps = Generator[_Step, Reply | None, Reply]


class Exchange:
    """The asks of one compaction: one deadline, which starts with the first, and one turn to the other model."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self._until: float | None = None
        self._failed: set[int] = set()
        self._cancelled = False
        self._waiting: Future[Reply | None] | None = None
        asker.enter(self)

    def ask(self, ask: Ask) -> Reply:
        """The reply; `AskFailed` within the deadline."""
        return drive(self._exchange(ask), self._perform)

    async def aask(self, ask: Ask) -> Reply:
        """`ask` without blocking the event loop."""
        return await adrive(self._exchange(ask), self._aperform)

    def cancel(self) -> None:
        """End the ask that is under way, and every later one, as cancelled."""
        self._cancelled = True
        if (waiting := self._waiting) is not None:
            _settle(waiting, error=_cancelled())

    # -- what happens when --------------------------------------------------------------------------------------------

    def _exchange(self, ask: Ask) -> _Steps:
        if self._until is None:
            self._until = time.monotonic() + self.asker.deadline
        failed: list[AskFailed] = []
        order = self._order(ask)
        for number, place in enumerate(order):
            try:
                reply = yield from self._tries(place, ask, last=number == len(order) - 1)
            except AskFailed as error:
                error.others = _asked(failed)
                if error.why == "cancelled" or error.overflow is not None:
                    raise
                self._failed.add(place)
                self.asker.rest(place)
                failed.append(error)
                continue
            self.asker.well(place)
            reply = replace(reply, place=place, failed=_asked(failed))
            if not failed:
                return reply
            self.asker.warn(order[number - 1], failed[-1], f"{reply.model} was asked instead")
            return replace(reply, notes=(*reply.notes, f"{failed[-1].reason}; {reply.model} was asked instead"))
        if small := self._fit():  # not asked yet: it takes less than this ask was made for
            speaker = self.asker.speakers[small[0]]
            told = f"{speaker.name} takes {speaker.window:,} tokens, fewer than this ask needs"
            too_long = AskFailed("too-long", told, Overflow(speaker.window))
            too_long.others = _asked(failed)
            raise too_long from (failed[-1] if failed else None)
        if failed:
            raise (_asked(failed) or failed)[-1]
        raise AskFailed("cool-down", self.asker.resting(self.asker.rest_left))

    def _order(self, ask: Ask) -> list[int]:
        """The fit models that take so much. Where a reply was rejected the other comes first: it may know better."""
        able = [place for place in self._fit() if takes(self.asker.speakers[place], ask)]
        return able[::-1] if ask.again and not ask.messages else able

    def _fit(self) -> list[int]:
        return [place for place in self.asker.ready() if place not in self._failed]

    def _tries(self, place: int, ask: Ask, *, last: bool) -> _Steps:
        """Ask one model until it answers, its error is a lasting one, or retries or time are used up."""
        speaker, number = self.asker.speakers[place], 0
        while True:
            seconds = self._left() * (1.0 if last else FIRST_SHARE)
            self._check(speaker, seconds)
            try:
                reply = yield _Step(seconds, replace(ask, deadline=seconds), speaker)
            except AskFailed:
                raise  # cancelled
            except Exception as error:
                overflow = is_overflow(error)
                pause = self._pause(error, number)
                if overflow is not None or is_lasting(error) or number >= self.asker.retries or pause >= self._left():
                    why = reason_for(error) if overflow is None else "too-long"
                    tries = f", {number + 1} tries" if number else ""
                    reason = f"{speaker.name} failed: {kind_in_words(error)}{tries}"
                    message = f"{speaker.name} failed: {beginning_of(error)}"
                    raise AskFailed(why, message, overflow, reason=reason, place=place) from error
            else:
                if reply is None:  # a model that hung once would hang again
                    raise AskFailed("timeout", f"{speaker.name} did not answer within {seconds:.1f} s", place=place)
                return reply
            yield _Step(pause, ask)
            number += 1

    def _check(self, speaker: Speaker, seconds: float) -> None:
        if self._cancelled:
            raise _cancelled()
        if seconds <= 0:
            raise AskFailed(
                "timeout", f"the deadline of {self.asker.deadline:g} s passed before {speaker.name} was asked"
            )
        if (stuck := self.asker.stuck()) >= MOST_STUCK:
            raise AskFailed("unavailable", f"{stuck} earlier calls of the summariser never returned: no more are made")

    def _pause(self, error: BaseException, number: int) -> float:
        wanted = retry_after(error)
        jitter = 0.5 + random.random()  # noqa: S311 - only spreads the retries of many processes
        return wanted if wanted is not None else float(self.asker.back_off * 2**number * jitter)

    def _left(self) -> float:
        return (self._until or 0.0) - time.monotonic()

    # -- carrying it out: a step's result, None when its time is over --------------------------------------------------

    def _perform(self, step: _Step) -> Reply | None:
        done, work = self._begin(step, here=False)
        try:
            return done.result(timeout=max(0.0, step.seconds))
        except TimeoutError:
            if done.done():  # the model's own
                raise
            return None
        finally:
            self._end(done, work)

    async def _aperform(self, step: _Step) -> Reply | None:
        done, work = self._begin(step, here=True)
        waiter = asyncio.wrap_future(done)
        try:
            await asyncio.wait({waiter}, timeout=max(0.0, step.seconds))
            return waiter.result() if waiter.done() else None
        finally:
            waiter.cancel()
            self._end(done, work)

    def _begin(self, step: _Step, *, here: bool) -> tuple[Future[Reply | None], Work | None]:
        done: Future[Reply | None] = Future()
        self._waiting = done
        if self._cancelled:  # it came between the check and here
            _settle(done, error=_cancelled())
        work = start(step.speaker, step.ask, here=here) if step.speaker else None
        if work is not None:
            work.add_done_callback(lambda ended: _pass_on(ended, done))
        return done, work

    def _end(self, done: Future[Reply | None], work: Work | None) -> None:
        self._waiting = None
        done.cancel()
        if work is not None and not work.done():
            self.asker.leave_behind(work)


def _asked(failed: Sequence[AskFailed]) -> tuple[AskFailed, ...]:
    """Return the errors of models that were asked, without those for which no time was left."""
    return tuple(error for error in failed if error.place is not None)


def _pass_on(ended: Work, done: Future[Reply | None]) -> None:
    """Hand a call's outcome to the one who waits, if anybody still does."""
    if ended.cancelled():
        _settle(done, error=RuntimeError("the model's call was cancelled from outside"))
    elif (error := ended.exception()) is not None:
        _settle(done, error=as_error(error, "the summariser"))
    else:
        _settle(done, reply=ended.result())


def _settle(done: Future[Reply | None], *, reply: Reply | None = None, error: BaseException | None = None) -> None:
    with suppress(InvalidStateError):  # somebody was faster: too late
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(reply)


def _cancelled() -> AskFailed:
    return AskFailed("cancelled", "the summary was cancelled")
