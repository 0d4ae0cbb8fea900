"""One call of a `Compactor`, from the list that is given to what is given back: measure, decide, have it compacted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from unabridged.archive.protocol import Archive, Scope
from unabridged.asking.drivers import adrive_in_threads, drive, in_thread, take_lock
from unabridged.compaction.trigger import Now, decide, starts_in_background, worth_a_look
from unabridged.errors import FunctionFailed, SummaryFailed, WontFit
from unabridged.events import Event, Failed, Unchanged
from unabridged.formats import Format, Message, detect
from unabridged.measure.calibrate import usage_of
from unabridged.measure.meter import Meter
from unabridged.measure.models import family_of
from unabridged.outcome import Compaction, Outlook
from unabridged.runtime.background import Background
from unabridged.runtime.learned import Learned
from unabridged.runtime.threads import Thread, Threads
from unabridged.settings import Limits, Settings

if TYPE_CHECKING:  # what only a compaction needs is loaded at the first one: importing the package stays cheap
    from unabridged.asking.asker import Asker
    from unabridged.asking.refused import Refusals
    from unabridged.compaction.setup import Setup
    from unabridged.compaction.state import State

log = logging.getLogger("unabridged")

T = TypeVar("T")
LEASE = "a summary made early"


class Given(NamedTuple):
    """What a call hands over."""

    scope: Scope
    messages: list[Message]
    format: Format
    system: Any
    tools: Any


class Calls:
    """What the calls of one compactor share: its threads, its work in the background, and a `Setup` for each format."""

    def __init__(
        self,
        settings: Settings,
        limits: Limits,
        archive: Archive,
        *,
        agent: str | None,
        format_: Format | None,
        asker: Asker | None,
        meter: Callable[..., Meter],
        learned: Learned,
        clears_after: float | None,
        emit: Callable[[Event], None],
        setup: Callable[..., Setup],
    ) -> None:
        self.settings, self.limits, self.archive = settings, limits, archive
        self.agent, self.format, self.asker, self.learned = agent, format_, asker, learned
        self.threads, self.background = Threads(), Background()
        self.clock: Callable[[], float] = time.monotonic
        self._meter, self._emit, self._new_setup = meter, emit, setup
        self._clears_after = clears_after
        self._setups: dict[str, Setup] = {}
        self._refusals: Refusals | None = None

    # -- drivers ------------------------------------------------------------------------------------------------------

    def drive(self, steps: Generator[Any, Any, T]) -> T:
        """Run the steps to their end, asking the model where they want to."""
        if self.asker is None:
            return drive(steps, _nobody)
        from unabridged.asking.exchange import Exchange  # noqa: PLC0415 - only callers with a model pay for it

        return drive(steps, Exchange(self.asker).ask)

    async def adrive(self, steps: Generator[Any, Any, T]) -> T:
        """`drive` without blocking the event loop: the work is done in a worker thread."""
        if self.asker is None:
            return await in_thread(drive, steps, _nobody)
        from unabridged.asking.exchange import Exchange  # noqa: PLC0415 - only callers with a model pay for it

        exchange = Exchange(self.asker)
        try:
            return await adrive_in_threads(steps, exchange.aask)
        except BaseException:  # a task that was cancelled, above all: nobody waits for the model any more
            exchange.cancel()
            raise

    # -- a call -------------------------------------------------------------------------------------------------------

    def run(
        self,
        messages: list[Message],
        scope: Scope,
        system: Any,
        tools: Any,
        *,
        force: bool = False,
        why: str = "",
        within: Limits | None = None,
    ) -> Generator[Any, Any, Compaction]:
        """What is to be sent: below the trigger the list itself, else what a compaction made of it.

        `why`: it was asked for, or refused; `force`: it is done whatever the size; `within`: other limits, this once.
        """
        if self.settings.off or not messages:
            return Compaction(messages, False, 0, 0, scope.thread, namespace=scope.namespace)
        thread = self.threads.get(scope) if scope.thread else self.threads.unnamed(scope.namespace, messages)
        yield from take_lock(thread.lock)
        unchanged: Callable[..., Compaction] | None = None
        estimate = 0
        try:
            format_ = self.format or thread.format_of(messages)
            setup = self.setup_for(format_) if within is None else replace(self.setup_for(format_), limits=within)
            begun = thread.working(messages, format_) if why or self.limits.trigger else messages
            given = Given(scope, messages, format_, system, tools)
            overhead = thread.overhead(setup.meter, system, tools)
            estimate = overhead + thread.follow(begun, format_, setup.meter)
            before = setup.tokens(estimate if begun is messages else overhead + thread.given_tokens())
            sizes = (before, setup.tokens(estimate), estimate)
            unchanged = partial(_unchanged, thread, given, begun, sizes)
            idle, thread.called = self.clock() - thread.called, self.clock()
            reason = why or setup.trigger_reason(estimate, len(begun))
            early = (
                reason is None and self.asker is not None and self._begin_early(thread, setup, given, begun, estimate)
            )
            fits, running = setup.fits(estimate), False
            if reason is not None and not force:
                running = self._wait_for_background(thread.place or scope, fits=fits)

            def may_clear() -> bool:
                return not early and self._may_clear(setup, thread, scope, estimate, idle)

            decision = decide(
                Now(
                    self.limits, reason, bool(why), force, fits, estimate, thread.failed_at, thread.failed_why, running,
                    thread.resent, may_clear,
                )
            )  # fmt: skip
            if decision.do in {"nothing", "wait"}:
                return unchanged(decision.why)
            if reason is not None:
                thread.reread(begun, format_, setup.meter)
            start = partial(self._state, thread, given, begun, idle=idle, pending=force)
            return (yield from self._compact(setup, thread, start, reason, before, force=force))
        except FunctionFailed as error:  # while it fits, the run goes on without a compaction
            self._emit(Failed((thread.place or scope).thread, error.function, error))
            if unchanged is None or not setup.fits(estimate):
                raise
            log.warning("not compacted: %s failed; the Failed event has its error", error.function)
            thread.failed_why, thread.failed_at = str(error), estimate
            return unchanged(str(error))
        finally:
            thread.lock.release()

    def _compact(
        self,
        setup: Setup,
        thread: Thread,
        start: Callable[[], State],
        reason: str | None,
        before: int,
        *,
        force: bool,
    ) -> Generator[Any, Any, Compaction]:
        """Compact for this reason; without one, clear what pays for itself."""
        from unabridged.compaction import pipeline  # noqa: PLC0415 - see the imports above

        state, why = start(), ""
        if reason is not None:
            why = yield from pipeline.compact(setup, state, reason, force=force)
        elif pipeline.may_clear(setup, state):
            thread.reread(state.begun, state.format, setup.meter)
            state = start()
            pipeline.clear_below_trigger(setup, state, f"clearing pays for itself at {before:,} tokens")
        if why and thread.failed_why != why:
            self._emit(Unchanged(state.scope.thread, why, before, namespace=state.scope.namespace))
        thread.finish(state, why)
        return Compaction(
            state.messages, state.messages is not state.given, before, setup.tokens(state.estimate), state.scope.thread,
            state.receipt, why, state.estimate, (state.system, state.tools), namespace=state.scope.namespace,
        )  # fmt: skip

    def _may_clear(self, setup: Setup, thread: Thread, scope: Scope, estimate: int, idle: float) -> bool:
        """Whether a look below the trigger is due and can find anything."""
        thread.looked_at = min(thread.looked_at, estimate)
        if not worth_a_look(estimate, thread.looked_at, idle, self._clears_after):
            return False
        thread.looked_at = estimate
        from unabridged.compaction.pipeline import may_find_something  # noqa: PLC0415 - see the imports above

        return may_find_something(setup, scope, thread.sizes)

    def _wait_for_background(self, place: Scope, *, fits: bool) -> bool:
        """Whether a summary is being made in the background; where the request does not fit, it is waited for."""
        running = self.background.running(place)
        if running and not fits:
            self.background.wait(place, self.settings.deadline)
        return running

    def _begin_early(self, thread: Thread, setup: Setup, given: Given, begun: list[Message], estimate: int) -> bool:
        """Near the trigger, have the summary made in the background, by one process at a time; whether it will be."""
        near = starts_in_background(self.limits, setup.tokens(estimate), self.settings.background)
        if self.asker is None or not self.limits.trigger or not near or self.asker.rest_left:
            return False
        given, place = given._replace(messages=list(begun)), thread.place or given.scope

        def work() -> str:
            from unabridged.compaction.pipeline import compact_early  # noqa: PLC0415 - see the imports above

            if not self.archive.lease(place, LEASE, self.settings.deadline):
                return "made elsewhere"
            try:
                state = self._state(Thread(), given, given.messages)
                return str(self.drive(compact_early(self.setup_for(given.format), state)))
            finally:
                self.archive.release(place, LEASE)

        return self.background.begin(place, thread, estimate, work)

    def plan(self, messages: list[Message], scope: Scope, system: Any, tools: Any) -> Outlook:
        """What `run` would do. Nothing is done, stored or remembered."""
        from unabridged.compaction.pipeline import situation  # noqa: PLC0415 - see the imports above
        from unabridged.compaction.plan import make_plan  # noqa: PLC0415 - likewise

        format_ = self.format or detect(messages)
        setup = self.setup_for(format_)
        state = self._state(Thread(), Given(scope, messages, format_, system, tools), messages)
        tokens, budget = setup.tokens(state.estimate), self.limits.budget
        trigger = setup.trigger_reason(state.estimate, len(messages))
        if trigger is None or self.settings.off:
            return Outlook(tokens, budget, None)
        try:
            plan = make_plan(situation(setup, state))
        except WontFit as error:
            return Outlook(tokens, budget, trigger, why=str(error))
        if isinstance(plan, str):
            return Outlook(tokens, budget, trigger, why=plan)
        return Outlook(tokens, budget, trigger, plan)

    # -- what a provider teaches --------------------------------------------------------------------------------------

    def observe(self, fitted: Compaction, usage: Any) -> None:
        """Learn from what the provider reported for this request."""
        report = usage_of(usage)
        if report is not None and fitted.estimate > 0:
            self.learned.observe(fitted.estimate, report)
            if self._refusals is not None:
                self._adopt(self._refusals.limits(self.learned.calibration.factor))

    def refused(self, fitted: Compaction, error: object, scope: Scope) -> Generator[Any, Any, Compaction]:
        """Lower the limits to what the provider takes, and compact for them."""
        from unabridged.asking.refused import Refusals, in_words, limits_to_try, overflow_in  # noqa: PLC0415 - seldom needed

        overflow, calibration = overflow_in(error), self.learned.calibration
        setup = self.setup_for(self.format or detect(fitted.messages))
        calibration.refused(fitted.estimate, overflow.requested or 0)
        sent, cause = setup.tokens(fitted.estimate), error if isinstance(error, BaseException) else None
        if self.settings.off and cause is not None:
            raise cause
        self._refusals = self._refusals or Refusals(self.settings, self.limits)
        limits = self._refusals.add(overflow, fitted.estimate, calibration.factor)
        self._adopt(limits)
        if limits is None or fitted.refused:
            overhead, now = setup.tokens(setup.meter.overhead(*fitted.fixed)), self.limits
            raise WontFit(overhead=overhead, floor=sent, budget=now.budget, window=now.window) from cause
        log.warning(in_words(overflow, sent, limits))
        run = partial(
            self.run, fitted.messages, scope, *fitted.fixed, why=f"the provider refused {sent:,} tokens as too long",
            force=not limits.trigger,
        )  # fmt: skip
        *tighter, last = limits_to_try(overflow, sent, self.settings, limits)
        for within in tighter:
            try:
                return replace((yield from run(within=within)), refused=True)
            except WontFit:  # what can't go takes more than that
                continue
        return replace((yield from run(within=last)), refused=True)

    def _adopt(self, limits: Limits | None) -> None:
        """From now on, these are the limits."""
        if limits is not None and limits != self.limits:
            self.limits = limits
            self._setups = {name: replace(setup, limits=limits) for name, setup in self._setups.items()}

    # -- what a compaction begins with --------------------------------------------------------------------------------

    def setup_for(self, format_: Format) -> Setup:
        """What compactions in this format share; it tells the tokenizer family where no agent is named."""
        setup = self._setups.get(format_.name)
        if setup is None:
            from unabridged.summarise.writing import writers_for  # noqa: PLC0415 - see the imports above

            setup = self._setups[format_.name] = self._new_setup(
                limits=self.limits,
                meter=self._meter(family=family_of(self.agent, format_.family)),
                writers=writers_for(self.asker, self.agent),
            )
        return setup

    def _state(
        self, thread: Thread, given: Given, begun: list[Message], *, idle: float = 0.0, pending: bool = False
    ) -> State:
        """A compaction that begins with this list, as it was read last: what was given, or what became of that."""
        from unabridged.compaction.state import State  # noqa: PLC0415 - see the imports above

        format_ = given.format
        setup = self.setup_for(format_)
        thread.follow(begun, format_, setup.meter)
        views = setup.read(begun, format_, thread.read(format_, setup.meter))
        receipt = thread.sent.receipt if thread.sent is not None and given.messages is not begun else None
        return State(
            scope=given.scope,
            format=format_,
            system=given.system,
            tools=given.tools,
            overhead=thread.overhead(setup.meter, given.system, given.tools),
            given=given.messages,
            begun=begun,
            messages=begun,
            views=views,
            sizes=list(thread.sizes),
            named=bool(given.scope.thread),
            idle=idle,
            pending=pending,
            begun_receipt=receipt,
            receipt=receipt,
        )


def _unchanged(
    thread: Thread, given: Given, begun: list[Message], sizes: tuple[int, int, int], why: str = ""
) -> Compaction:
    """What is given back when nothing new is done: the very list, or what became of it when it was given before."""
    sent = thread.sent if begun is not given.messages else None
    before, after, estimate = sizes
    where = sent.scope if sent is not None else given.scope
    return Compaction(
        begun, begun is not given.messages, before, after, where.thread, sent.receipt if sent is not None else None,
        why, estimate, (given.system, given.tools), namespace=where.namespace,
    )  # fmt: skip


def _nobody(ask: Any) -> Any:
    raise SummaryFailed(f"asked {ask!r}, and there is no model")
