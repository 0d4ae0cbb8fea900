"""One call of a `Compactor`, from the list that is given to what is given back: measure, decide, have it compacted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from unabridged.archive.address import is_on_server
from unabridged.archive.protocol import Part, Scope
from unabridged.asking.drivers import adrive, drive, in_thread, take_lock
from unabridged.asking.refused import Refusals, in_words, limits_leaving, limits_to_try, overflow_in
from unabridged.compaction import pipeline
from unabridged.compaction.plan import Plan
from unabridged.compaction.restore import restore
from unabridged.compaction.rewrite import Rewrite
from unabridged.compaction.state import Setup, State
from unabridged.compaction.store import part_of
from unabridged.compaction.trigger import Load, Now, decide, starts_in_background, worth_a_look
from unabridged.errors import ArchiveError, FunctionFailed, IllegalConversation, SummaryFailed, WontFit
from unabridged.events import Failed, Unchanged
from unabridged.formats import Format, Message, detect
from unabridged.history.difference import chain
from unabridged.history.replay import UNNAMED
from unabridged.legal import find_waiting
from unabridged.measure.calibrate import usage_of
from unabridged.measure.meter import Meter
from unabridged.measure.models import family_of
from unabridged.outcome import Compaction, Outlook
from unabridged.runtime.background import Background
from unabridged.runtime.learned import Learned
from unabridged.runtime.threads import Thread, Threads
from unabridged.settings import Limits

if TYPE_CHECKING:
    from unabridged.asking.exchange import Exchange

log = logging.getLogger("unabridged")

T = TypeVar("T")
LEASE = "a summary made early"
_BEGINNING = 4
"""Messages by which a conversation without a name is told from others, where that only saves work."""
_STEPS = 64
"""The room for an answer is a whole number of such parts of the window: few limits serve all requests."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call under way: what was given, the list to go on from, and what both take."""

    setup: Setup
    thread: Thread
    scope: Scope
    format: Format
    given: list[Message]
    begun: list[Message]
    """What was given, or what became of that when it was given before."""
    system: Any
    tools: Any
    overhead: int
    estimate: int
    """What the request takes with the list to go on from, as the meter counts."""
    given_estimate: int
    """The same with the list that was given."""
    idle: float

    @property
    def place(self) -> Scope:
        """What work for the conversation goes by."""
        return self.thread.place or self.scope

    @property
    def shared_place(self) -> Scope:
        """The same in every process: a conversation without a name goes by how it begins."""
        if self.scope.thread:
            return self.scope
        begins = chain((self.format.read(message).meaning for message in self.given[:_BEGINNING]), "")[-1]
        return self.scope._replace(thread=f"{UNNAMED}{begins[:16]}")

    @property
    def before(self) -> int:
        """What the request takes with the list that was given, in the provider's tokens."""
        return self.setup.tokens(self.given_estimate)

    @property
    def load(self) -> Load:
        """What the trigger is held against."""
        return Load(self.estimate, len(self.begun))

    @property
    def below_as_given(self) -> bool:
        """Whether the list that was given is below the trigger."""
        return self.setup.trigger_reason(Load(self.given_estimate, len(self.given))) is None

    @property
    def bound(self) -> bool:
        """Whether the provider may refuse what its model thought where it stands behind other messages."""
        return self.setup.thinking(self.format) == "bound"

    @property
    def fits(self) -> bool:
        """Whether the request is within the budget as it is."""
        return self.setup.fits(self.estimate)

    def unchanged(self, why: str = "") -> Compaction:
        """Nothing new is done: the very list is given back, or what became of it when it was given before."""
        sent = self.thread.sent if self.begun is not self.given else None
        where = sent.scope if sent is not None else self.scope
        return Compaction(
            self.begun, self.begun is not self.given, self.before, self.setup.tokens(self.estimate), where.thread,
            sent.receipt if sent is not None else None, why, self.estimate, (self.system, self.tools),
            namespace=where.namespace,
        )  # fmt: skip

    def state(self, *, by_hand: bool = False, asked: bool = False) -> State:
        """A compaction that begins with the list to go on from, as it was read last."""
        views = self.setup.read(self.begun, self.format, self.thread.read(self.format, self.setup.meter))
        sent = self.thread.sent if self.begun is not self.given else None
        receipt = sent.receipt if sent is not None else None
        return State(
            scope=self.scope,
            format=self.format,
            system=self.system,
            tools=self.tools,
            overhead=self.overhead,
            given=self.given,
            begun=self.begun,
            messages=self.begun,
            views=views,
            sizes=list(self.thread.sizes),
            named=bool(self.scope.thread),
            idle=self.idle,
            by_hand=by_hand,
            pending=by_hand or find_waiting(views, items=self.format.items) is not None,
            asked=asked,
            begun_receipt=receipt,
            receipt=receipt,
        )


class Calls:
    """What the calls of one compactor share: its threads, its work in the background, and a `Setup` for each format."""

    def __init__(
        self,
        setup: Setup,
        learned: Learned,
        format_: Format | None,
        new_meter: Callable[..., Meter],
        *,
        answers_apart: bool = False,
    ) -> None:
        self._answers_apart = answers_apart
        self.settings, self.asker, self.format, self.learned = setup.settings, setup.writers.asker, format_, learned
        self.threads, self.background = Threads(), Background()
        self.clock: Callable[[], float] = time.monotonic
        self._setup, self._new_meter = setup, new_meter
        self._setups: dict[str, Setup] = {}
        self._refusals = Refusals(self.settings, setup.limits)

    @property
    def limits(self) -> Limits:
        """The settings in tokens, as far as the provider has not taught otherwise."""
        return self._setup.limits

    # -- drivers ------------------------------------------------------------------------------------------------------

    def drive(self, steps: Generator[Any, Any, T]) -> T:
        """Run the steps to their end, asking the model where they want to."""
        exchange = self._exchange()
        return drive(steps, _nobody if exchange is None else exchange.ask)

    async def adrive(self, steps: Generator[Any, Any, T]) -> T:
        """`drive` without blocking the event loop: the work is done in a worker thread."""
        exchange = self._exchange()
        if exchange is None:
            return await in_thread(drive, steps, _nobody)
        try:
            return await adrive(steps, exchange.aask, threads=True)
        except BaseException:  # a task that was cancelled, above all: nobody waits for the model any more
            exchange.cancel()
            raise

    def _exchange(self) -> Exchange | None:
        if self.asker is None:
            return None
        from unabridged.asking.exchange import Exchange  # noqa: PLC0415 - only callers with a model pay for it

        return Exchange(self.asker)

    # -- a call -------------------------------------------------------------------------------------------------------

    def run_leaving(
        self, answer: int | None, messages: list[Message], scope: Scope, fixed: tuple[Any, Any], **how: Any
    ) -> Generator[Any, Any, Compaction]:
        """`run`, with room for an answer of so many tokens; where that can't be, the provider decides."""
        within = self._limits_leaving(answer)
        if within is not None:
            try:
                return (yield from self.run(messages, scope, fixed, **how, within=within))
            except WontFit:  # what can't go takes more than that
                log.debug("no room for an answer of %s tokens", answer)
        return (yield from self.run(messages, scope, fixed, **how))

    def _limits_leaving(self, answer: int | None) -> Limits | None:
        """The limits for a request that asks for so long an answer; None where those that there are leave as much."""
        now = self.limits
        if answer is None or self._answers_apart or now.assumed or answer <= now.reserve:
            return None
        step = max(1, now.window // _STEPS)
        return limits_leaving(self.settings, now.window, -(-answer // step) * step)

    def run(
        self,
        messages: list[Message],
        scope: Scope,
        fixed: tuple[Any, Any],
        *,
        force: bool = False,
        why: str = "",
        within: Limits | None = None,
    ) -> Generator[Any, Any, Compaction]:
        """What is to be sent: below the trigger the list itself, else what a compaction made of it.

        `fixed`: system prompt and tools; `why`: it was asked for, or refused; `force`: it is done whatever the size;
        `within`: other limits, this once.
        """
        if self.settings.off or not messages:
            return Compaction(messages, False, 0, 0, scope.thread, namespace=scope.namespace)
        thread = self.threads.get(scope) if scope.thread else self.threads.unnamed(scope.namespace, messages)
        yield from take_lock(thread.lock)
        call: Call | None = None
        try:
            call = self._begin(thread, scope, messages, fixed, within, anew=not (why or self.limits.trigger))
            if not why and self.limits.trigger:
                call = self._catch_up(call, within)
            thread.taken = len(messages)
            return (yield from self._carry_out(call, why, force=force))
        except FunctionFailed as error:  # while it fits, the run goes on without a compaction
            place = thread.place or scope
            self._setup.emit(Failed(place.thread, error.function, error, namespace=place.namespace))
            if call is None or not call.fits:
                raise
            log.warning("not compacted: %s failed; the Failed event has its error", error.function)
            thread.failed_why, thread.failed_at = str(error), call.estimate
            return call.unchanged(str(error))
        finally:
            thread.lock.release()

    def _begin(
        self,
        thread: Thread,
        scope: Scope,
        messages: list[Message],
        fixed: tuple[Any, Any],
        within: Limits | None = None,
        *,
        anew: bool = False,
    ) -> Call:
        """The call, with what is new in its list measured; `anew`: whatever became of the list before."""
        format_ = self.format or thread.format_of(messages)
        setup = self.setup_for(format_) if within is None else replace(self.setup_for(format_), limits=within)
        begun = messages if anew else thread.working(messages, format_)
        overhead = thread.overhead(setup.meter, *fixed)
        estimate = overhead + thread.follow(begun, format_, setup.meter)
        given = estimate if begun is messages else overhead + thread.given_tokens()
        last, thread.called = thread.called, self.clock()
        idle = 0.0 if last is None else thread.called - last
        return Call(setup, thread, scope, format_, messages, begun, *fixed, overhead, estimate, given, idle)

    def _catch_up(self, call: Call, within: Limits | None) -> Call:
        """The call, with what became of the conversation in the archive since the last one here.

        Other processes may have compacted it. The same conversation must become the same bytes wherever it is sent
        from, below the trigger too: a provider may refuse what its model thought where it stands behind others. And
        the archive may have lost what was recorded: then the next compaction begins with all that was given.
        """
        setup, thread = call.setup, call.thread
        if self._is_forgotten(call) or self._need_not_shrink(call):
            thread.sent = None
            call = self._begin(thread, call.scope, call.given, (call.system, call.tools), within, anew=True)
        if not is_on_server(setup.archive.url):  # who has it alone need not read the list, and hash all of it
            return call
        if not thread.went_on_elsewhere(call.given, call.format, bound=call.bound):
            return call
        state = call.state()
        if not pipeline.restore_sent(setup, state):
            return call
        if call.below_as_given and not call.bound and not (state.record and state.record.data.get("asked")):
            return call
        thread.finish(state, "")
        return self._begin(thread, call.scope, call.given, (call.system, call.tools), within)

    def _need_not_shrink(self, call: Call) -> bool:
        """Return whether a list that was compacted before is below the trigger now, and nobody asked to compact it."""
        sent = call.thread.sent if call.begun is not call.given else None
        return sent is not None and call.below_as_given and not (sent.asked or call.bound)

    def _is_forgotten(self, call: Call) -> bool:
        """Whether it is to be compacted, and the archive no longer has what the list to go on from was made by."""
        known = call.unchanged().receipt
        if known is None or call.setup.trigger_reason(call.load) is None:
            return False
        try:
            return call.setup.archive.record(Scope(known.namespace, known.thread), known.id) is None
        except ArchiveError:
            return False  # it is told of where something is done about it

    def _carry_out(self, call: Call, why: str, *, force: bool) -> Generator[Any, Any, Compaction]:
        """Decide, and do it."""
        setup, thread = call.setup, call.thread
        reason = why or setup.trigger_reason(call.load)
        running = reason is not None and not force and self._wait_for_background(call)
        decision = decide(
            Now(
                self.limits, reason, bool(why), force, call.fits, call.estimate, thread.failed_at, thread.failed_why,
                running, self._is_near(call), self._may_pay(call),
            )
        )  # fmt: skip
        if decision.do == "begin":
            self._begin_early(call)
        if decision.do not in {"compact", "clear"}:
            return call.unchanged(decision.why)
        thread.reread(call.begun, call.format, setup.meter)
        state, why = call.state(by_hand=force, asked=bool(why)), ""
        if reason is not None:
            why = yield from pipeline.compact(setup, state, reason, force=force)
        else:
            thread.looked_at = call.estimate
            pipeline.clear_below_trigger(setup, state, f"clearing pays for itself at {call.before:,} tokens")
            if state.messages is call.begun:
                return call.unchanged()
        if why and thread.failed_why != why:
            setup.emit(Unchanged(state.scope.thread, why, call.before, namespace=state.scope.namespace))
        thread.finish(state, why)
        return Compaction(
            state.messages, state.messages is not state.given, call.before, setup.tokens(state.estimate),
            state.scope.thread, state.receipt, why, state.estimate, (state.system, state.tools),
            namespace=state.scope.namespace,
        )  # fmt: skip

    def _is_near(self, call: Call) -> bool:
        """Return whether the request is near enough to the trigger to have its summary made in the background."""
        near = starts_in_background(call.setup.limits, call.setup.tokens(call.estimate), self.settings.background)
        asker = self.asker
        return near and asker is not None and not (asker.missing or asker.rest_left)

    def _may_pay(self, call: Call) -> bool:
        """Return whether it is time to look if clearing pays."""
        thread, prices = call.thread, call.setup.prices
        thread.looked_at = min(thread.looked_at, call.estimate)
        lifetime = None if prices is None else prices.lifetime
        return worth_a_look(call.estimate, thread.looked_at, call.idle, lifetime)

    # -- in the background --------------------------------------------------------------------------------------------

    def _wait_for_background(self, call: Call) -> bool:
        """Whether a summary is being made in the background; where the request does not fit, it is waited for."""
        running = self.background.running(call.place)
        if running and not call.fits:
            self.background.wait(call.place, self.settings.deadline)
        return running

    def _begin_early(self, call: Call) -> None:
        """Have the summary made in the background, by one process at a time."""
        messages, archive, place = list(call.begun), self._setup.archive, call.shared_place

        def work() -> str:
            granted = False
            try:
                granted = archive.lease(place, LEASE, self.settings.deadline)
                if not granted:
                    return "made elsewhere"
                own = self._begin(Thread(), call.scope, messages, (call.system, call.tools), call.setup.limits)
                return self.drive(pipeline.compact_early(own.setup, own.state()))
            except ArchiveError as error:  # it is told of where a request needs it
                return str(error)
            finally:
                if granted:
                    with suppress(ArchiveError):  # it runs out by itself
                        archive.release(place, LEASE)

        self.background.begin(call.place, call.thread, call.estimate, work)

    # -- what would be done -------------------------------------------------------------------------------------------

    def plan(self, answer: int | None, messages: list[Message], scope: Scope, fixed: tuple[Any, Any]) -> Outlook:
        """What `run_leaving` would do. Nothing is done, stored or remembered."""
        call = self._begin(Thread(), scope, messages, fixed, self._limits_leaving(answer))
        tokens, budget = call.setup.tokens(call.estimate), call.setup.limits.budget
        trigger = call.setup.trigger_reason(call.load)
        if trigger is None or self.settings.off:
            return Outlook(tokens, budget, None)
        state = call.state()
        restore(call.setup, state, settles=False)
        if call.setup.trigger_reason(state.load) is None and not state.broken:
            return Outlook(tokens, budget, trigger, why="what was recorded of it is applied again")
        chosen = self._choose(call, state)
        if isinstance(chosen, str):
            return Outlook(tokens, budget, trigger, why=chosen)
        if isinstance(chosen, Rewrite):
            return Outlook(tokens, budget, trigger, clears=tuple(sorted(chosen.edited)), why="clearing is enough")
        return Outlook(tokens, budget, trigger, chosen)

    def _choose(self, call: Call, state: State) -> Rewrite | Plan | str:
        """Return what a compaction would do; in words, why nothing. Only an estimate that is sure refuses a request."""
        setup = call.setup
        while True:
            try:
                return pipeline.choose(setup, state)
            except IllegalConversation as error:
                return str(error)
            except WontFit as error:
                if not call.setup.may_fit(error.floor):
                    return str(error)
                setup = pipeline.with_room_for(setup, error.floor)

    def in_context(self, messages: list[Message], scope: Scope) -> list[Part]:
        """Return what stands in the list, with compactions of it that are recorded: each message as it is archived.

        What compactions put in is left out. Nothing is stored or remembered.
        """
        if not messages:
            return []
        call = self._begin(Thread(), scope, messages, (None, None))
        state = call.state()
        restore(call.setup, state, settles=False)
        standing = zip(state.messages, state.views, state.base_turns, strict=True)
        return [part_of(call.setup, message, view, turn) for message, view, turn in standing if turn >= 0]

    # -- what a provider teaches --------------------------------------------------------------------------------------

    def observe(self, fitted: Compaction, usage: Any) -> None:
        """Learn from what the provider reported for this request."""
        report = usage_of(usage)
        if report is not None and fitted.estimate > 0:
            self.learned.observe(fitted.estimate, report)
            self._adopt(self._refusals.limits(self.learned.calibration.factor))

    def refused(self, fitted: Compaction, error: object, scope: Scope) -> Generator[Any, Any, Compaction]:
        """Lower the limits to what the provider takes, and compact for them."""
        overflow, calibration = overflow_in(error), self.learned.calibration
        setup = self.setup_for(self.format or detect(fitted.messages))
        if not fitted.estimate:  # it was sent as it came, and nobody counted it
            fitted = replace(fitted, estimate=self._begin(Thread(), scope, fitted.messages, fitted.fixed).estimate)
        calibration.refused(fitted.estimate, overflow.requested or 0)
        sent, cause = setup.tokens(fitted.estimate), error if isinstance(error, BaseException) else None
        if self.settings.off and cause is not None:
            raise cause
        limits = None if self.settings.off else self._refusals.add(overflow, fitted.estimate, calibration.factor)
        self._adopt(limits)
        if limits is None or fitted.refused:
            overhead, now = setup.tokens(setup.meter.overhead(*fitted.fixed)), self.limits
            raise WontFit(overhead=overhead, floor=sent, budget=now.budget, window=now.window) from cause
        log.warning(in_words(overflow, sent, limits))
        why = f"the provider refused {sent:,} tokens as too long"
        run = partial(self.run, fitted.messages, scope, fitted.fixed, why=why, force=not limits.trigger)
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
            self._setup = replace(self._setup, limits=limits)
            self._setups = {name: replace(setup, limits=limits) for name, setup in self._setups.items()}

    def setup_for(self, format_: Format) -> Setup:
        """What compactions in this format share; it tells the tokenizer family where no agent is named."""
        setup = self._setups.get(format_.name)
        if setup is None:
            meter = self._new_meter(family=family_of(self._setup.agent, format_.family))
            setup = self._setups[format_.name] = replace(self._setup, meter=meter)
        return setup


def _nobody(ask: Any) -> Any:
    raise SummaryFailed(f"asked {ask!r}, and there is no model")
