"""The public surface: `Compactor` watches conversations, compacts them before they overflow, and gives back originals.

What a compaction does, step by step, is in `flow`; how records are found and taken back is in `history`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from unabridged.access import Access
from unabridged.archive.opening import announce, archive_of
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.arguments import check_arguments
from unabridged.asking.drivers import adrive_in_threads, drive, in_thread, taken
from unabridged.compaction.hooks import Hooks, checked_origin, checked_pin, checked_redact, refuse_unusable
from unabridged.errors import FunctionFailed, SettingsError, SummaryFailed, WontFit
from unabridged.events import Event, Failed, Unchanged, Undone
from unabridged.formats import Format, Message, detect, format_named
from unabridged.history.namespace import DEFAULT
from unabridged.measure.calibrate import usage_of
from unabridged.measure.meter import Meter
from unabridged.measure.models import family_of, model_info, window_for
from unabridged.messages import Origin
from unabridged.outcome import Compaction, Outlook
from unabridged.runtime.background import Early
from unabridged.runtime.learned import Learned
from unabridged.runtime.threads import Thread, Threads
from unabridged.settings import Limits, Settings, limits

if TYPE_CHECKING:  # what only a compaction needs is loaded at the first one: importing the package stays cheap
    from unabridged.asking.asker import Asker
    from unabridged.asking.refused import Refusals
    from unabridged.compaction.pipeline import Flow
    from unabridged.compaction.state import Job

__all__ = ["Compaction", "Compactor", "Outlook"]

log = logging.getLogger("unabridged")

T = TypeVar("T")
Unknown = Literal["raise", "keep"]
"""What `replay` and `undo` do about a summary turn that the archive does not know."""
EARLY = "a summary made early"
ASKED = "asked for"
MAKING = "a summary is being made in the background, and the request still fits"
FAILED_GROWTH = 1.05
"""After a compaction that came to nothing, the conversation grows by this much before the next try, while it fits."""


class Compactor(Access):
    """Keeps conversations inside the window and every original in the archive. One serves any number of threads.

    `model` writes the summaries: a callable (`str -> str` or `Ask -> Reply`, sync or async), a `"provider:name"`
    string, or None for model-free; `fallback` is asked when it fails. `model_window` and `fallback_window` are what
    these two take, in tokens, where their names do not tell (else what the agent does). `agent` names the model that
    reads the conversation: it gives the window, the tokenizer family, the prices and the rule for thinking blocks.
    `redact` is run over what a summary turn says and what search sees (`unabridged.archive.secrets.mask` finds keys and
    tokens). `state` is asked at each compaction, with the thread's name, for the host's own state: a text, or an
    awaitable.
    `namespace` says whose conversations these are; every method takes another one for its call, so that one compactor
    serves any number of tenants. No read or search crosses a namespace.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        model_window: int | None = None,
        fallback: Any = None,
        fallback_window: int | None = None,
        agent: str | None = None,
        window: int | None = None,
        archive: str | Archive | None = None,
        settings: Settings | None = None,
        namespace: str | None = None,
        format: str | Format | None = None,  # noqa: A002 - the word every part uses for it
        counter: Callable[[list[Message], Any], int] | None = None,
        exact: bool = False,
        origin: Callable[[Message], Origin | None] | None = None,
        on_event: Callable[[Event], object] | None = None,
        hooks: Hooks | None = None,
        redact: Callable[[str], str] | None = None,
        state: Callable[[str], Any] | None = None,
    ) -> None:
        check_arguments(locals())
        info = model_info(agent)
        self.settings = settings or Settings()
        self.limits: Limits = limits(self.settings, window_for(agent, window))
        self._format = format_named(format) if format is not None else None
        self._namespace = namespace if namespace is not None else DEFAULT
        self._on_event = on_event
        self._owned = archive is None or isinstance(archive, str)
        self._archive = archive_of(archive, probe=not self.settings.off)
        self._agent = agent
        self._clock: Callable[[], float] = time.monotonic
        self._threads = Threads()
        self._early = Early()
        self._flows: dict[str, Flow] = {}
        self._asker: Asker | None = None
        self._refusals: Refusals | None = None
        if any(given is not None for given in (model, model_window, fallback, fallback_window)):
            from unabridged.asking.asker import asker_for  # noqa: PLC0415 - only callers with a model pay for it

            self._asker = asker_for(model, fallback, (model_window, fallback_window), self.settings)
        from unabridged.compaction.clear import prices_for  # noqa: PLC0415 - see the imports above

        prices = prices_for(self.settings.clear, info)
        self._clears_after = prices.lifetime if prices is not None else None
        refuse_unusable("counter", counter)
        refuse_unusable("on_event", on_event)
        self._new_meter = partial(Meter, model=agent, counter=counter, exact=exact)
        meter = self._new_meter(family=family_of(agent))  # a tokenizer that is not installed is said now
        self._learned = Learned(self._archive, self._namespace, meter.key if agent else None)
        self._calibration = self._learned.calibration
        self._shared: dict[str, Any] = {
            "settings": checked_pin(self.settings),
            "limits": self.limits,
            "named": self.limits,
            "agent": agent,
            "calibration": self._calibration,
            "archive": self._archive,
            "where": announce(self._archive, self._namespace),
            "origin": checked_origin(origin),
            "emit": self._emit,
            "hooks": hooks or Hooks(),
            "prices": prices,
            "redact": checked_redact(redact),
            "state": state,
        }

    def fit(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        system: Any = None,
        tools: Any = None,
    ) -> Compaction:
        """The conversation as it should be sent now: the very same list, or a shorter one that is legal and fits."""
        return self._drive(self._run(messages, (thread, namespace), system, tools))

    async def afit(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        system: Any = None,
        tools: Any = None,
    ) -> Compaction:
        """`fit` without blocking the event loop."""
        return await self._adrive(self._run(messages, (thread, namespace), system, tools))

    def compact(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        system: Any = None,
        tools: Any = None,
    ) -> Compaction | None:
        """Compact now, whatever the size; None when nothing is gained."""
        done = self._drive(self._run(messages, (thread, namespace), system, tools, force=True, why=ASKED))
        return done if done.changed else None

    async def acompact(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        system: Any = None,
        tools: Any = None,
    ) -> Compaction | None:
        """`compact` without blocking the event loop."""
        done = await self._adrive(self._run(messages, (thread, namespace), system, tools, force=True, why=ASKED))
        return done if done.changed else None

    def overflowed(self, fitted: Compaction, error: object) -> Compaction:
        """The provider said "too long" all the same: its limit is learned, and this is to be sent instead, once.

        What says something else is raised as it is; a second refusal is `WontFit`, with the provider's as its cause.
        """
        return self._drive(self._refused(fitted, error))

    async def aoverflowed(self, fitted: Compaction, error: object) -> Compaction:
        """`overflowed` without blocking the event loop."""
        return await self._adrive(self._refused(fitted, error))

    def cancel(self) -> None:
        """Stop waiting for the summariser, in every thread, at once; late answers are ignored."""
        if self._asker is not None:
            self._asker.cancel()

    def plan(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        system: Any = None,
        tools: Any = None,
    ) -> Outlook:
        """What `fit` would do with it. Nothing is done, stored or remembered."""
        format_ = self._format or detect(messages)
        from unabridged.compaction.plan import make_plan  # noqa: PLC0415 - see the imports above

        flow = self._flow(format_)
        job = self._job(Thread(), self._kept(thread, namespace), messages, format_, (system, tools))
        tokens, budget = flow.tokens(job.estimate), self.limits.budget
        trigger = flow.pulled(job.estimate, len(messages))
        if trigger is None or self.settings.off:
            return Outlook(tokens, budget, None)
        try:
            plan = make_plan(flow.situation(job))
        except WontFit as error:
            return Outlook(tokens, budget, trigger, why=str(error))
        if isinstance(plan, str):
            return Outlook(tokens, budget, trigger, why=plan)
        return Outlook(tokens, budget, trigger, plan)

    def observe(self, fitted: Compaction, usage: Any) -> None:
        """Learn from what the provider reported for this request: the SDK's usage object, or the whole response."""
        report = usage_of(usage)
        if report is not None and fitted.estimate > 0:
            self._learned.observe(fitted.estimate, report)
            if self._refusals is not None:
                self._adopt(self._refusals.limits(self._calibration.factor))

    def replay(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        unknown: Unknown = "raise",
    ) -> list[Message]:
        """The original conversation, exactly: every compaction that stands in the list is taken back.

        A summary turn that the archive does not know is an `ArchiveError`; with `unknown="keep"` it stays as it is.
        """
        return self._take_back(messages, thread, namespace, every=True, unknown=unknown)[0]

    async def areplay(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        unknown: Unknown = "raise",
    ) -> list[Message]:
        """`replay` without blocking the event loop."""
        return await in_thread(self.replay, messages, thread=thread, namespace=namespace, unknown=unknown)

    def undo(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        unknown: Unknown = "raise",
    ) -> list[Message]:
        """The list as it was before its newest compaction, and what came since; the same list if there is none.

        A summary turn that the archive does not know is an `ArchiveError`; with `unknown="keep"` it stays as it is.
        """
        before, records = self._take_back(messages, thread, namespace, every=False, unknown=unknown)
        for record in records:
            self._archive.retire(record.scope, record.id)
            self._threads.drop(record.scope)
            self._emit(Undone(record.scope.thread, record.id, namespace=record.scope.namespace))
        return before

    async def aundo(
        self,
        messages: list[Message],
        *,
        thread: str | None = None,
        namespace: str | None = None,
        unknown: Unknown = "raise",
    ) -> list[Message]:
        """`undo` without blocking the event loop."""
        return await in_thread(self.undo, messages, thread=thread, namespace=namespace, unknown=unknown)

    def close(self) -> None:
        """Let go of the summariser, and of the archive if this compactor opened it; what was learned is kept."""
        self._learned.keep()
        if self._asker is not None:
            self._asker.close()
        if self._owned:
            self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(
        self,
        messages: list[Message],
        name: tuple[str | None, str | None],
        system: Any,
        tools: Any,
        *,
        force: bool = False,
        why: str = "",
        within: Limits | None = None,
    ) -> Generator[Any, Any, Compaction]:
        """Measure what is new; below the trigger that is all, unless it is compacted for another reason."""
        if self.settings.off or not messages:
            return Compaction(messages, False, 0, 0, name[0] or "", namespace=name[1])
        scope = Scope(self._space(name[1]), name[0] or "")
        thread = self._threads.get(scope) if scope.thread else self._threads.unnamed(scope.namespace, messages)
        yield from taken(thread.lock)
        same: Callable[..., Compaction] | None = None
        try:
            format_ = self._format or thread.format_of(messages)
            flow = self._flow(format_) if within is None else replace(self._flow(format_), limits=within)
            never = not (why or self.limits.trigger)
            begun = messages if never else thread.working(messages, format_)
            overhead = self._overhead(thread, flow.meter, system, tools)
            estimate = overhead + thread.follow(begun, format_, flow.meter)
            before = flow.tokens(estimate if begun is messages else overhead + thread.given_tokens())
            same = self._as_it_is(thread, scope, messages, begun, before, flow.tokens(estimate), estimate)
            reason = why or flow.pulled(estimate, len(begun))
            idle, thread.called = self._clock() - thread.called, self._clock()
            begin = not never and reason is None
            early = begin and self._begin_early(thread, scope, flow, begun, (format_, system, tools), estimate=estimate)
            look = not early and thread.worth_a_look(estimate, idle, self._clears_after)
            look = look and flow.may_find(scope, thread.sizes)
            if never or (reason is None and not (look or thread.resent)):
                return same(fixed=(system, tools))
            if not force and (later := self._later(thread.place or scope, thread, flow, estimate, reason)):
                return same(why=later, fixed=(system, tools))
            if reason is not None:
                thread.reread(begun, format_, flow.meter)
            start = partial(self._job, thread, scope, begun, format_, (system, tools), given=messages)
            job = start()
            job.pending, job.idle = force, idle
            if reason is not None:
                return self._finish(thread, flow, job, before, (yield from flow.steps(job, reason, force=force)))
            if flow.may_clear(job):
                thread.reread(begun, format_, flow.meter)
                job = replace(start(), idle=idle)
                flow.clearing(job, f"clearing pays for itself at {before:,} tokens")
            return self._finish(thread, flow, job, before, "")
        except FunctionFailed as error:  # while it fits, the run goes on without a compaction
            self._emit(Failed((thread.place or scope).thread, error.function, error))
            if same is None or not flow.fits(estimate):
                raise
            log.warning("not compacted: %s failed; the Failed event has its error", error.function)
            thread.said, thread.failed_at = str(error), estimate
            return same(why=str(error), fixed=(system, tools))
        finally:
            thread.lock.release()

    def _as_it_is(
        self, thread: Thread, scope: Scope, given: list[Message], begun: list[Message], *sizes: int
    ) -> Callable[..., Compaction]:
        """What is given back when nothing new is done: the very list, or what became of it when it was given before."""
        sent = thread.sent if begun is not given else None
        before, after, estimate = sizes
        where = sent.scope if sent is not None else scope
        return partial(
            Compaction, begun, begun is not given, before, after, where.thread,
            receipt=sent.receipt if sent is not None else None, estimate=estimate, namespace=where.namespace,
        )  # fmt: skip

    def _refused(self, fitted: Compaction, error: object) -> Generator[Any, Any, Compaction]:
        """Lower the limits to what the provider takes, and compact for them."""
        from unabridged.asking.refused import Refusals, in_words, overflow_in, tried  # noqa: PLC0415 - seldom needed

        overflow = overflow_in(error)
        flow = self._flow(self._format or detect(fitted.messages))
        self._calibration.refused(fitted.estimate, overflow.requested or 0)
        sent, cause = flow.tokens(fitted.estimate), error if isinstance(error, BaseException) else None
        if self.settings.off and cause is not None:
            raise cause
        self._refusals = self._refusals or Refusals(self.settings, self.limits)
        limits = self._refusals.add(overflow, fitted.estimate, self._calibration.factor)
        self._adopt(limits)
        if limits is None or fitted.refused:
            overhead, now = flow.tokens(flow.meter.overhead(*fitted.fixed)), self.limits
            raise WontFit(overhead=overhead, floor=sent, budget=now.budget, window=now.window) from cause
        log.warning(in_words(overflow, sent, limits))
        how: dict[str, Any] = {"why": f"the provider refused {sent:,} tokens as too long", "force": not limits.trigger}
        run = partial(self._run, fitted.messages, (fitted.thread or None, fitted.namespace), *fitted.fixed, **how)
        *tighter, last = tried(overflow, sent, self.settings, limits)
        for within in tighter:
            try:
                return replace((yield from run(within=within)), refused=True)
            except WontFit:  # what can't go takes more than that
                continue
        return replace((yield from run(within=last)), refused=True)

    def _adopt(self, limits: Limits | None) -> None:
        """From now on, these are the limits."""
        if limits is not None and limits != self.limits:
            self.limits = self._shared["limits"] = limits
            self._flows = {name: replace(flow, limits=limits) for name, flow in self._flows.items()}

    def _begin_early(
        self,
        thread: Thread,
        scope: Scope,
        flow: Flow,
        messages: list[Message],
        extras: tuple[Format, Any, Any],
        *,
        estimate: int,
    ) -> bool:
        """Near the trigger, have the summary made in the background, by one process at a time; whether it will be."""
        asker, share = self._asker, self.settings.background
        if asker is None or share is None or asker.rest_left or flow.tokens(estimate) < share * self.limits.target:
            return False
        given, place = list(messages), thread.place or scope

        def work() -> str:
            if not self._archive.lease(place, EARLY, self.settings.deadline):
                return "made elsewhere"
            try:
                return str(self._drive(flow.early(self._job(Thread(), scope, given, extras[0], extras[1:]))))
            finally:
                self._archive.release(place, EARLY)

        return self._early.begin(place, thread, estimate, work)

    def _later(self, scope: Scope, thread: Thread, flow: Flow, estimate: int, reason: str | None) -> str:
        """Why nothing is tried just now: it came to nothing a moment ago, or is being made; "" when it is tried."""
        if reason is not None and thread.failed_at * FAILED_GROWTH > estimate and flow.fits(estimate):
            return thread.said
        return MAKING if self._still_made(scope, flow, estimate, reason) else ""

    def _still_made(self, scope: Scope, flow: Flow, estimate: int, reason: str | None) -> bool:
        """Whether the summary is being made in the background and the turn need not wait; at the budget it waits."""
        if reason is None or not self._early.running(scope):
            return False
        if flow.fits(estimate):
            return True
        self._early.wait(scope, self.settings.deadline)
        return False

    def _finish(self, thread: Thread, flow: Flow, job: Job, before: int, why: str) -> Compaction:
        """Remember where it ended, and say so."""
        if why and thread.said != why:
            self._emit(Unchanged(job.scope.thread, why, before, namespace=job.scope.namespace))
        changed = job.messages is not job.given
        thread.resent = thread.resent and changed
        thread.said, thread.failed_at = why, job.estimate if why else 0
        if changed:
            thread.keep(job) if not job.pending else thread.let_go()
            thread.adopt(job.messages, job.format, job.views, job.sizes)
            thread.cleared = job.receipt is not None and job.receipt.kind == "clearing"
        after, fixed = flow.tokens(job.estimate), (job.system, job.tools)
        return Compaction(
            job.messages, changed, before, after, job.scope.thread, job.receipt, why, job.estimate, fixed,
            namespace=job.scope.namespace,
        )  # fmt: skip

    def _flow(self, format_: Format) -> Flow:
        """The flow for this format, which tells the tokenizer family where no agent is named."""
        flow = self._flows.get(format_.name)
        if flow is None:
            from unabridged.compaction.pipeline import Flow  # noqa: PLC0415 - see the imports above
            from unabridged.summarise.writing import writers_for  # noqa: PLC0415 - likewise

            meter = self._new_meter(family=family_of(self._agent, format_.family))
            flow = Flow(**self._shared, meter=meter, writers=writers_for(self._asker, self._agent))
            self._flows[format_.name] = flow
        return flow

    def _job(
        self,
        thread: Thread,
        scope: Scope,
        messages: list[Message],
        format_: Format,
        extras: tuple[Any, Any],
        *,
        given: list[Message] | None = None,
    ) -> Job:
        """A compaction of this list, as it was read last; `given` is what the caller gave, where that is another."""
        flow = self._flow(format_)
        thread.follow(messages, format_, flow.meter)
        views = flow.read(messages, format_, thread.read(format_, flow.meter))
        overhead = self._overhead(thread, flow.meter, *extras)
        from unabridged.compaction.state import Job  # noqa: PLC0415 - see the imports above

        sent = thread.sent if given is not None and given is not messages else None
        receipt = sent.receipt if sent is not None else None
        return Job(
            scope, format_, *extras, overhead, messages if given is None else given, messages, views,
            list(thread.sizes), messages, receipt=receipt, known_receipt=receipt, named=bool(scope.thread),
        )  # fmt: skip

    def _overhead(self, thread: Thread, meter: Meter, system: Any, tools: Any) -> int:
        known_system, known_tools, tokens = thread.fixed
        if (system is known_system or system == known_system) and (tools is known_tools or tools == known_tools):
            return tokens
        thread.fixed = (system, tools, meter.overhead(system, tools))
        return thread.fixed[2]

    def _take_back(
        self, messages: list[Message], name: str | None, namespace: str | None, *, every: bool, unknown: Unknown
    ) -> tuple[list[Message], list[Record]]:
        from unabridged.history import standing  # noqa: PLC0415 - see the imports above

        if unknown not in {"raise", "keep"}:
            raise SettingsError(f'unknown must be "raise" or "keep"; got {unknown!r}')
        return standing.taken_back(
            self._archive,
            self._kept(name, namespace),
            messages,
            self._format or detect(messages),
            every=every,
            detected=self._format is None,
            strict=unknown == "raise",
        )

    def _drive(self, steps: Generator[Any, Any, T]) -> T:
        """Run the flow to its end, asking the model where it wants to."""
        if self._asker is None:
            return drive(steps, _nobody)
        from unabridged.asking.exchange import Exchange  # noqa: PLC0415 - only callers with a model pay for it

        return drive(steps, Exchange(self._asker).ask)

    async def _adrive(self, steps: Generator[Any, Any, Compaction]) -> Compaction:
        """`_drive` without blocking the event loop: the flow's own work is done in a worker thread."""
        if self._asker is None:
            return await in_thread(drive, steps, _nobody)
        from unabridged.asking.exchange import Exchange  # noqa: PLC0415 - only callers with a model pay for it

        exchange = Exchange(self._asker)
        try:
            return await adrive_in_threads(steps, exchange.aask)
        except BaseException:  # a task that was cancelled, above all: nobody waits for the model any more
            exchange.cancel()
            raise

    def _emit(self, event: Event) -> None:
        """Tell the host; a host that raises is logged, never obeyed."""
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            log.exception("on_event raised for %s", type(event).__name__)


def _nobody(ask: Any) -> Any:
    raise SummaryFailed(f"asked {ask!r}, and there is no model")
