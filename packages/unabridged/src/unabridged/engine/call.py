"""One call of a `Compactor`, read from top to bottom: look the conversation up, measure what is new, decide, act."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from unabridged.archive.address import is_on_server
from unabridged.archive.protocol import Part, Scope
from unabridged.asking import learned_limits
from unabridged.asking.drivers import arun_generator, run_generator, run_in_thread, take_lock
from unabridged.asking.exchange import Exchange
from unabridged.engine import pipeline
from unabridged.engine.background import BackgroundWork
from unabridged.engine.calibrations import StoredCalibration
from unabridged.engine.conversations import ConversationCache, ConversationCaches
from unabridged.engine.explain import explain_messages
from unabridged.engine.native import restore_for_other_provider
from unabridged.engine.reapply import reapply_records
from unabridged.engine.rewrite import Rewrite
from unabridged.engine.state import CompactionRequest, Setup, State, WorkingList
from unabridged.engine.store import to_part
from unabridged.engine.trigger import MADE_EARLY, Decision, RequestSize, TriggerInput, decide
from unabridged.errors import ArchiveError, FunctionFailed, IllegalConversation, SummaryFailed, WontFit
from unabridged.events import Fitted, Receipt, Unchanged, wants_every_call
from unabridged.formats import Format, Message, detect_message_format
from unabridged.history.difference import compute_prefix_digests
from unabridged.history.replay import UNNAMED_THREAD_PREFIX
from unabridged.legality import find_unanswered_round
from unabridged.legality.reasoning import strip_all_thinking
from unabridged.results import Compaction, Outlook, Plan
from unabridged.settings import Limits
from unabridged.tokens.calibrate import parse_usage
from unabridged.tokens.meter import Meter
from unabridged.tokens.models import find_family

log = logging.getLogger("unabridged")

T = TypeVar("T")
BACKGROUND_LEASE_KEY = "a summary made early"
UNNAMED_KEY_MESSAGES = 4
"""Messages by which a conversation without a name is distinguished from others, where that only saves work."""
RESERVE_STEPS = 64
"""The room for an answer is a whole number of such parts of the window: few limits serve all requests."""


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """One call under way: its conversation, what the caller passed in, and what that takes as the meter counts."""

    setup: Setup
    cache: ConversationCache
    request: CompactionRequest
    estimate: int
    """What the request takes with the list to go on from."""
    original_estimate: int
    """The same with the original."""

    @property
    def is_resumed(self) -> bool:
        """Return whether the list to go on from is what became of the original when it was passed in before."""
        return self.request.start is not self.request.original

    @property
    def shared_scope(self) -> Scope:
        """Return a scope that is the same in every process: an unnamed conversation is known by its first messages."""
        request = self.request
        if request.scope.thread:
            return request.scope
        meanings = (request.format.read(message).meaning_digest for message in request.original[:UNNAMED_KEY_MESSAGES])
        return request.scope._replace(thread=f"{UNNAMED_THREAD_PREFIX}{compute_prefix_digests(meanings, '')[-1][:16]}")

    @property
    def tokens_before(self) -> int:
        """Return what the request takes with the original, in the provider's tokens."""
        return self.setup.tokens(self.original_estimate)

    @property
    def is_original_below_trigger(self) -> bool:
        """Return whether the original is below the trigger."""
        return self.setup.trigger_reason(self.original_estimate, self.request.original) is None

    @property
    def is_bound(self) -> bool:
        """Return whether the provider may refuse thinking whose preceding messages were changed."""
        return self.setup.find_thinking_rule(self.request.format) == "bound"

    @property
    def fits(self) -> bool:
        """Return whether the request is within the budget as it is."""
        return self.setup.fits(self.estimate)

    def build_unchanged_result(self, why: str = "") -> Compaction:
        """Return the result of a call that does nothing new: the same list, or what was made of it before."""
        request, resent = self.request, self.cache.resent if self.is_resumed else None
        scope = resent.scope if resent is not None else request.scope
        return self.build_result(request.start, scope, request.start_receipt, self.estimate, why)

    def build_result(
        self, messages: list[Message], scope: Scope, receipt: Receipt | None, estimate: int, why: str
    ) -> Compaction:
        """Return the result of a call that gives back this list; `why` says why it changed nothing."""
        request, before, after = self.request, self.setup.tokens(self.original_estimate), self.setup.tokens(estimate)
        is_changed, fixed = messages is not request.original, (request.system, request.tools)
        return Compaction(
            messages, is_changed, before, after, scope.thread, receipt, why, estimate, fixed, namespace=scope.namespace
        )

    def new_state(self) -> State:
        """Return the state in which a compaction of the list begins."""
        request, measured = self.request, self.cache.measured
        views = self.setup.read(request.start, request.format, measured.read(request.format, self.setup.meter))
        is_pending = request.is_by_hand or find_unanswered_round(views, items=request.format.items) is not None
        working = WorkingList(request.start, views, list(measured.sizes))
        is_named = bool(request.scope.thread)
        return State(request, working, request.scope, is_named, is_pending, receipt=request.start_receipt)


class CallRunner:
    """What the calls of one compactor share: its conversations, its background work, and a `Setup` for each format."""

    def __init__(
        self,
        setup: Setup,
        calibration: StoredCalibration,
        format_: Format | None,
        new_meter: Callable[..., Meter],
        *,
        answers_apart: bool = False,
    ) -> None:
        self.settings, self.asker, self.format = setup.settings, setup.summary_writer.asker, format_
        self.calibration, self.caches, self.background = calibration, ConversationCaches(), BackgroundWork()
        self.emit = setup.host.emit
        self.clock: Callable[[], float] = time.monotonic
        self._setup, self._new_meter, self._answers_apart = setup, new_meter, answers_apart
        self._setups: dict[str, Setup] = {}
        self._learned_limits = learned_limits.LearnedLimits(self.settings, setup.limits)

    @property
    def limits(self) -> Limits:
        """Return the settings in tokens, as far as the provider has not taught otherwise."""
        return self._setup.limits

    # -- drivers ------------------------------------------------------------------------------------------------------

    def run_steps(self, steps: Generator[Any, Any, T]) -> T:
        """Run the steps to their end, asking the model for what they yield."""
        exchange = self._new_exchange()
        return run_generator(steps, _refuse_to_ask if exchange is None else exchange.ask)

    async def arun_steps(self, steps: Generator[Any, Any, T]) -> T:
        """`run_generator` without blocking the event loop: the work is done in a worker thread."""
        exchange = self._new_exchange()
        if exchange is None:
            return await run_in_thread(run_generator, steps, _refuse_to_ask)
        try:
            return await arun_generator(steps, exchange.aask, threads=True)
        except BaseException:  # a task that was cancelled, above all: nobody waits for the model any more
            exchange.cancel()
            raise

    def _new_exchange(self) -> Exchange | None:
        return None if self.asker is None else Exchange(self.asker)

    # -- a call -------------------------------------------------------------------------------------------------------

    def run_with_answer_reserve(
        self, answer: int | None, messages: list[Message], scope: Scope, fixed: tuple[Any, Any], **options: Any
    ) -> Generator[Any, Any, Compaction]:
        """Run the call with room for an answer of so many tokens; without it where that does not fit.

        A list with a compaction of another provider's own is first restored from the archive.
        """
        original = messages
        if not self.settings.off:
            messages = restore_for_other_provider(self._setup, scope, messages, self.format)
        run = partial(self.run, messages, scope, fixed, **options)
        done = yield from _run_within_first(run, [self._find_limits_for_answer(answer), None])
        if messages is original:
            return done
        sent = done.messages
        if sent is messages:  # what was thought since is bound to the compacted list
            sent = strip_all_thinking(sent, self.format or detect_message_format(sent))
        return replace(done, messages=sent, changed=True)

    def _find_limits_for_answer(self, answer: int | None) -> Limits | None:
        """Return the limits for a request that asks for so long an answer; None where the usual ones leave as much."""
        limits = self.limits
        if answer is None or self._answers_apart or limits.assumed or answer <= limits.reserve:
            return None
        step = max(1, limits.window // RESERVE_STEPS)
        return learned_limits.find_limits_with_reserve(self.settings, limits.window, -(-answer // step) * step)

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
        """Return what is to be sent: below the trigger the list itself, else what a compaction made of it.

        `fixed`: system prompt and tools; `why`: it was asked for, or refused; `force`: it is done whatever the size;
        `within`: other limits, this once.
        """
        if self.settings.off or not messages:
            return Compaction(messages, False, 0, 0, scope.thread, namespace=scope.namespace)
        cache, call = self.caches.find(scope, messages), None
        yield from take_lock(cache.lock)
        try:
            follows_trigger = not why and bool(self.limits.trigger)
            call = self._measure(
                cache, scope, messages, fixed, within, anew=not (why or follows_trigger), force=force, asked=bool(why)
            )
            if follows_trigger:
                call = self._catch_up_with_archive(call)
            cache.message_count = len(messages)
            return self._report_sizes(call, (yield from self._carry_out(call, self._decide(call, why))))
        except FunctionFailed as error:  # while it fits, the run goes on without a compaction
            self._setup.host.emit_failure(cache.scope, error.function, error)
            if call is None or not call.fits:
                raise
            log.warning("not compacted: %s failed; the Failed event has its error", error.function)
            cache.attempts.failed_why, cache.attempts.failed_at = str(error), call.estimate
            return call.build_unchanged_result(str(error))
        except BaseException as error:
            if not isinstance(error, Exception):  # a signal, whose handler raises wherever it comes
                cache.forget()
            raise
        finally:
            cache.lock.release()

    def _measure(
        self,
        cache: ConversationCache,
        scope: Scope,
        messages: list[Message],
        fixed: tuple[Any, Any],
        within: Limits | None = None,
        *,
        anew: bool = False,
        force: bool = False,
        asked: bool = False,
    ) -> MeasuredCall:
        """Return the call, with what is new in its list measured; `anew`: whatever became of the list before."""
        format_ = self.format or cache.detect_format(messages)
        setup = self.get_setup(format_) if within is None else replace(self.get_setup(format_), limits=within)
        start = messages if anew else cache.find_list_to_continue(messages, format_)
        overhead = cache.count_overhead(setup.meter, *fixed)
        estimate = overhead + cache.measured.update(start, format_, setup.meter)
        original = estimate if start is messages else overhead + cache.count_original_tokens()
        last, cache.called_at = cache.called_at, self.clock()
        idle = 0.0 if last is None else cache.called_at - last
        receipt = cache.resent.receipt if start is not messages and cache.resent is not None else None
        request = CompactionRequest(
            scope, format_, messages, start, receipt, *fixed, overhead, idle, is_by_hand=force, is_asked=asked
        )
        return MeasuredCall(setup, cache, request, estimate, original)

    def _catch_up_with_archive(self, call: MeasuredCall) -> MeasuredCall:
        """Return the call, brought up to date with what the archive holds of its conversation.

        Other processes may have compacted it. The same conversation must become the same bytes wherever it is sent
        from, below the trigger too: a provider may refuse what its model thought where it stands behind others. And
        the archive may have lost what was recorded: then the next compaction begins with the whole original.
        """
        cache, setup, request = call.cache, call.setup, call.request
        fixed = (request.system, request.tools)
        measure = partial(self._measure, cache, request.scope, request.original, fixed, setup.limits)
        resent = cache.resent if call.is_resumed else None
        needs_less = resent is not None and call.is_original_below_trigger and not (resent.is_asked or call.is_bound)
        if needs_less or self._is_record_lost(call):
            cache.resent = None
            call = measure(anew=True)
        if not is_on_server(setup.archive.url):  # who has it alone need not read the list, and hash all of it
            return call
        if not cache.may_have_continued_elsewhere(request.original, request.format, is_bound=call.is_bound):
            return call
        state = call.new_state()
        if not pipeline.restore_used_records(setup, state):
            return call
        is_asked = state.record is not None and state.record.data.get("asked")
        if call.is_original_below_trigger and not (call.is_bound or is_asked):
            return call
        cache.finish(state, "")
        return measure()

    def _is_record_lost(self, call: MeasuredCall) -> bool:
        """Return whether a compaction is due and the archive has lost the record that made the list."""
        receipt = call.request.start_receipt
        if receipt is None or call.setup.trigger_reason(call.estimate, call.request.start) is None:
            return False
        try:
            return call.setup.archive.record(Scope(receipt.namespace, receipt.thread), receipt.id) is None
        except ArchiveError:
            return False  # reported by the next write

    def _decide(self, call: MeasuredCall, why: str) -> Decision:
        """Return what to do; `why` says that it was asked for, or refused."""
        setup, attempts, share, asker = call.setup, call.cache.attempts, self.settings.background, self.asker
        attempts.looked_at = min(attempts.looked_at, call.estimate)
        rests = share is None or asker is None or asker.missing_model_reason or asker.seconds_until_ready
        now = TriggerInput(
            limits=setup.limits,
            size=RequestSize.of(setup.tokens(call.estimate), call.request.start),
            estimate=call.estimate,
            is_over=call.estimate > setup.limit,
            attempts=attempts,
            asked_why=why,
            is_forced=call.request.is_by_hand,
            is_in_background=share is not None and self.background.is_running(call.cache.scope),
            background_share=None if rests else share,
            idle_seconds=call.request.idle_seconds,
            cache_seconds=None if setup.prices is None else setup.prices.lifetime,
        )
        return decide(now)

    def _carry_out(self, call: MeasuredCall, decision: Decision) -> Generator[Any, Any, Compaction]:
        """Carry out the decision."""
        setup, cache, request = call.setup, call.cache, call.request
        if decision.action == "begin":
            self._start_early_summary(call)
        if decision.action not in {"compact", "clear"}:
            return call.build_unchanged_result(decision.why)
        if decision.action == "compact" and not (call.fits or request.is_by_hand):
            self.background.wait(call.cache.scope, self.settings.deadline)
        cache.measured.checked = 0  # changes deep inside older messages are noticed now
        state, why = call.new_state(), ""
        if decision.action == "compact":
            why = yield from pipeline.compact(setup, state, decision.why)
        else:
            cache.attempts.looked_at = call.estimate
            pipeline.clear_below_trigger(setup, state, f"clearing pays for itself at {call.tokens_before:,} tokens")
            if state.working.messages is request.start:
                return call.build_unchanged_result()
        if why and cache.attempts.failed_why != why:
            scope = state.scope
            setup.host.emit(Unchanged(scope.thread, why, call.tokens_before, namespace=scope.namespace))
        cache.finish(state, why)
        return call.build_result(state.working.messages, state.scope, state.receipt, state.estimate, why)

    def _report_sizes(self, call: MeasuredCall, done: Compaction) -> Compaction:
        """Return the result; emit its sizes, where the listener takes them at every call."""
        host, limits = call.setup.host, call.setup.limits
        if wants_every_call(host.on_event):
            sizes = (done.tokens_before, done.tokens_after, len(done.messages), limits.window, limits.budget)
            trigger = min((each["tokens"] for each in limits.trigger if set(each) == {"tokens"}), default=0)
            namespace = call.request.scope.namespace
            host.emit(Fitted(done.thread, *sizes, trigger, call.setup.agent or "", namespace=namespace))
        return done

    def _start_early_summary(self, call: MeasuredCall) -> None:
        """Start the summary in the background, in one process at a time."""
        request, attempts, archive, scope = call.request, call.cache.attempts, call.setup.archive, call.shared_scope
        messages, fixed = list(request.start), (request.system, request.tools)

        def work() -> None:
            with suppress(ArchiveError):  # reported when a request needs the archive
                if not archive.lease(scope, BACKGROUND_LEASE_KEY, self.settings.deadline):
                    return  # it is made elsewhere
                try:
                    own = self._measure(ConversationCache(), request.scope, messages, fixed, call.setup.limits)
                    why = self.run_steps(pipeline.compact_early(own.setup, own.new_state()))
                finally:
                    with suppress(ArchiveError):  # it runs out by itself
                        archive.release(scope, BACKGROUND_LEASE_KEY)
                if not why and attempts.begun_at == call.estimate:  # else the list was changed meanwhile
                    attempts.begun_at = MADE_EARLY

        attempts.begun_at = call.estimate
        self.background.start(call.cache.scope, work)

    # -- what would be done -------------------------------------------------------------------------------------------

    def preview(self, answer: int | None, messages: list[Message], scope: Scope, fixed: tuple[Any, Any]) -> Outlook:
        """Return what `run_with_answer_reserve` would do, without doing, storing or remembering anything."""
        call = self._measure(ConversationCache(), scope, messages, fixed, self._find_limits_for_answer(answer))
        setup = call.setup
        trigger = None if self.settings.off else setup.trigger_reason(call.original_estimate, messages)
        outlook = partial(Outlook, call.tokens_before, setup.limits.budget, trigger)
        state = call.new_state()
        if trigger is None:
            why = "compaction is off" if self.settings.off else "the request is below the trigger"
            return outlook(messages=explain_messages(setup, state, why))
        reapply_records(setup, state, settles=False)
        chosen: Rewrite | Plan | str = "what was recorded of it is applied again"
        if setup.trigger_reason(state.estimate, state.working.messages) is not None or state.restored.is_broken:
            chosen = self._preview_compaction(setup, state)
        outlook = partial(outlook, messages=explain_messages(setup, state, chosen))
        if isinstance(chosen, str):
            return outlook(why=chosen)
        if isinstance(chosen, Rewrite):
            return outlook(clears=tuple(sorted(chosen.edited)), why="clearing is enough")
        return outlook(chosen)

    def _preview_compaction(self, setup: Setup, state: State) -> Rewrite | Plan | str:
        """Return what a compaction would do; in words, why nothing. Only an estimate that is sure refuses a request."""
        current = setup
        while True:
            try:
                return pipeline.choose_compaction(current, state)
            except IllegalConversation as error:
                return str(error)
            except WontFit as error:
                if not setup.may_fit(error.floor):
                    return str(error)
                current = pipeline.raise_budget(current, error.floor)

    def list_live_parts(self, messages: list[Message], scope: Scope) -> list[Part]:
        """Return the messages that are in the list now, each as it is archived; without what compactions put in."""
        if not messages:
            return []
        call = self._measure(ConversationCache(), scope, messages, (None, None))
        state = call.new_state()
        reapply_records(call.setup, state, settles=False)
        rows = zip(state.working.messages, state.working.views, state.restored.turns, strict=True)
        return [to_part(call.setup, message, view, turn) for message, view, turn in rows if turn >= 0]

    # -- what a provider teaches --------------------------------------------------------------------------------------

    def observe(self, fitted: Compaction, usage: Any) -> None:
        """Learn from what the provider reported for this request."""
        report = parse_usage(usage)
        if report is not None and fitted.estimate > 0:
            self.calibration.observe(fitted.estimate, report)
            self._set_limits(self._learned_limits.limits(self.calibration.value.factor))

    def recover_from_refusal(self, fitted: Compaction, error: object, scope: Scope) -> Generator[Any, Any, Compaction]:
        """Lower the limits to what the provider takes, and compact for them."""
        overflow, calibration = learned_limits.require_overflow(error), self.calibration.value
        setup = self.get_setup(self.format or detect_message_format(fitted.messages))
        if not fitted.estimate:  # it was sent as it came, and nobody counted it
            counted = self._measure(ConversationCache(), scope, fitted.messages, fitted.fixed)
            fitted = replace(fitted, estimate=counted.estimate)
        calibration.refused(fitted.estimate, overflow.requested or 0)
        tokens, cause = setup.tokens(fitted.estimate), error if isinstance(error, BaseException) else None
        if self.settings.off and cause is not None:
            raise cause
        limits = None
        if not self.settings.off:
            limits = self._learned_limits.add(overflow, fitted.estimate, calibration.factor)
        self._set_limits(limits)
        if limits is None or fitted.refused:
            overhead, usual = setup.tokens(setup.meter.overhead(*fitted.fixed)), self.limits
            raise WontFit(overhead=overhead, floor=tokens, budget=usual.budget, window=usual.window) from cause
        log.warning(learned_limits.describe_refusal(overflow, tokens, limits))
        why = f"the provider refused {tokens:,} tokens as too long"
        run = partial(self.run, fitted.messages, scope, fitted.fixed, why=why, force=not limits.trigger)
        tries = learned_limits.list_limits_to_try(overflow, tokens, self.settings, limits)
        return replace((yield from _run_within_first(run, tries)), refused=True)

    def _set_limits(self, limits: Limits | None) -> None:
        """Use these limits from now on."""
        if limits is not None and limits != self.limits:
            self._setup = replace(self._setup, limits=limits)
            self._setups = {name: replace(setup, limits=limits) for name, setup in self._setups.items()}

    def get_setup(self, format_: Format) -> Setup:
        """Return what compactions in this format share; it gives the tokenizer family where no agent is named."""
        setup = self._setups.get(format_.name)
        if setup is None:
            meter = self._new_meter(family=find_family(self._setup.agent, format_.family))
            setup = self._setups[format_.name] = replace(self._setup, meter=meter)
        return setup


def _run_within_first(
    run: Callable[..., Generator[Any, Any, Compaction]], tries: Sequence[Limits | None]
) -> Generator[Any, Any, Compaction]:
    """Run a call within the first of these limits that leave room for what can't go, else within the last."""
    for within in filter(None, tries[:-1]):
        with suppress(WontFit):
            return (yield from run(within=within))
    return (yield from run(within=tries[-1]))


def _refuse_to_ask(ask: Any) -> Any:
    raise SummaryFailed(f"asked {ask!r}, and there is no model")
