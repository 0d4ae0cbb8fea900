"""The flow of one compaction, top to bottom: read, measure, plan, clear, summarise, verify, archive, rewrite.

`Flow.steps` is a generator that yields what it needs from outside (an ask for a model), so that one short driver makes
it sync and another makes it async. What is decided is decided elsewhere, by pure functions on views.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unabridged.archive.protocol import Archive, Part, Record, Scope
from unabridged.compaction import clear
from unabridged.compaction.brief import brief
from unabridged.compaction.cut import counted
from unabridged.compaction.hooks import HookRaised, Hooks, blame
from unabridged.compaction.host_state import Provider
from unabridged.compaction.plan import Plan, Situation, make_plan
from unabridged.compaction.rewrite import rewrite
from unabridged.compaction.shorten import cut_down, shorten
from unabridged.compaction.state import (
    Base,
    Edits,
    Identity,
    Job,
    Made,
    data_of,
    failure,
    learned_by,
    mere_talk,
    receipt_for,
    receipt_of,
    sizes_of,
    turns_in,
    unclear,
    waiting,
)
from unabridged.errors import ArchiveError, IllegalConversation, SummaryFailed
from unabridged.events import Compacted, Compacting, Event, Failed
from unabridged.formats import Format, Message
from unabridged.history import lookup as history
from unabridged.history.difference import changed_until, meaning
from unabridged.history.lookup import Change, Place
from unabridged.history.namespace import has_records, older_namespaces, where_kept
from unabridged.history.standing import UNNAMED, Records, Standing, newest_standing, vouched_for
from unabridged.intent import NOTHING, Facts, facts_in, with_origins
from unabridged.languages import detect, labels
from unabridged.legal import check_views, repair
from unabridged.legal.reasoning import reasoning_rule, strip_from
from unabridged.marks import is_ours, shortening_note, summary_text
from unabridged.measure.calibrate import Calibration
from unabridged.measure.meter import Meter
from unabridged.messages import Origin, View
from unabridged.settings import Limits, Settings
from unabridged.summarise.brief import Live, Written
from unabridged.summarise.writing import Writers, render_pins, write_by_rule

log = logging.getLogger("unabridged")

CLEARED = 0.05
"""Of the budget, what clearing must free to be all that the trigger will need: one turn may go well beyond it."""
Steps = Generator[Any, Any, str]
"""Ends with why nothing changed, in words; with an empty string when something did."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What every compaction of one `Compactor` shares."""

    settings: Settings
    limits: Limits
    named: Limits
    """The limits as the settings have them, whatever a provider has taught since: records are found by these."""
    agent: str | None
    meter: Meter
    calibration: Calibration
    archive: Archive
    where: str
    origin: Callable[[Message], Origin | None] | None
    emit: Callable[[Event], None]
    hooks: Hooks
    writers: Writers
    prices: clear.Prices | None
    redact: Callable[[str], str]
    state: Provider | None = None

    def tokens(self, estimate: int) -> int:
        """An estimate in the provider's own tokens, as far as its reports have taught us."""
        return round(estimate * self.calibration.factor)

    def _front(self, language: str) -> str:
        """What stands before the summary itself: how to read what went, where the agent can, and the host's pins."""
        hint = labels(language)["recall"] if self.settings.recall else ""
        return "\n\n".join(part for part in (hint, render_pins(self.settings.pins)) if part)

    @property
    def hard(self) -> int:
        """The budget in the meter's tokens, less what the meter may be off by."""
        return int(self.limits.budget / self.calibration.factor / (1 + self.meter.error))

    def fits(self, estimate: int) -> bool:
        """Whether a request of this size is within the budget, as far as we can tell."""
        return self.tokens(estimate) <= self.limits.budget

    def pulled(self, estimate: int, messages: int) -> str | None:
        """Why this must be compacted; None below the trigger, and always when the trigger is None."""
        reason = self.limits.pulled(self.tokens(estimate), messages)
        if reason is None and self.limits.trigger and estimate > self.hard:
            reason = f"{self.tokens(estimate):,} tokens, too close to the budget of {self.limits.budget:,}"
        return reason

    def steps(self, job: Job, reason: str, *, force: bool = False) -> Steps:
        """Compact the job's list: as recorded if that is enough, else anew. Whatever fails, nothing is lost.

        While the request fits, a failure leaves it as it was. When it does not, what failed is done without.
        """
        flow: Flow = self
        while True:
            try:
                return (yield from flow._steps(job, reason, force=force))
            except (ArchiveError, HookRaised, SummaryFailed) as error:
                self.emit(failure(job, error))
                self._restore(job)
                if self.fits(job.estimate):
                    return str(error)
                if isinstance(error, ArchiveError):
                    raise
                hook = isinstance(error, HookRaised)
                job.without.append(f"{'without hooks' if hook else 'model-free'}: {error.reason}")
                flow = replace(flow, **({"hooks": Hooks()} if hook else {"writers": Writers()}))

    def early(self, job: Job) -> Steps:
        """Make the record that the trigger will need, before it is pulled; the job's list is nobody's but ours."""
        self._as_recorded(job)
        base = self._base(job)
        self._mend(job)
        if self._cleared(job, base, over=int(self.hard * CLEARED)) is not None:
            return "clearing will do"
        plan = make_plan(self.situation(job))
        if isinstance(plan, str) or not plan.gone or plan.caps:
            return "nothing to be made early"
        try:
            made = yield from self._make(job, plan, base)
            self._record(job, made, base, "made early, in the background", early=True)
        except (ArchiveError, HookRaised, SummaryFailed) as error:
            self.emit(failure(job, error))
            return str(error)
        return ""

    def may_find(self, scope: Scope, sizes: Sequence[int]) -> bool:
        """Whether a look below the trigger can find anything: something bulky to clear, or a record of the thread.

        It reads no message. A conversation that nobody named is looked up above the trigger only: what was compacted
        before and is sent again in full is above it.
        """
        if self.settings.clear is not None and clear.may_be_bulky(sizes, self.settings.clear.minimum):
            return True
        try:
            return bool(scope.thread) and (scope.thread.startswith(UNNAMED) or has_records(self.archive, scope))
        except ArchiveError:
            return True  # it is told of where something is done about it

    def may_clear(self, job: Job) -> bool:
        """Whether there may be something to clear below the trigger: a look that costs little, and changes nothing."""
        try:
            self._as_recorded(job)
        except ArchiveError:
            return True  # it is told of where something is done about it
        return job.messages is not job.given or self._clearable(job, over=0, rough=True) is not None

    def clearing(self, job: Job, reason: str) -> bool:
        """Clear what pays for itself, below the trigger. Whether anything was."""
        try:
            self._as_recorded(job)
            base = self._base(job)
            self._mend(job)
            made = self._cleared(job, base, over=0)
            if made is not None:
                self.emit(
                    Compacting(
                        job.scope.thread, reason, self.tokens(job.estimate), job.given, namespace=job.scope.namespace
                    )
                )
                self._record(job, made, base, reason)
            elif job.mended:  # below the trigger, a conversation that came in illegal is the caller's
                self._replace(job, base.messages)
                job.mended, job.notes = False, []
        except ArchiveError as error:
            self.emit(Failed(job.scope.thread, "archive", error, namespace=job.scope.namespace))
            self._restore(job)
            return False
        return made is not None

    def _steps(self, job: Job, reason: str, *, force: bool) -> Steps:
        self._as_recorded(job)
        if not (force or job.broken) and self.pulled(job.estimate, len(job.messages)) is None:
            return ""
        base = self._base(job)
        self._mend(job)
        now = self.situation(job)
        enough = now.soft if now.aim is None else min(now.soft, now.aim)
        made = None if force else self._cleared(job, base, over=job.estimate - enough + 1)
        if made is not None:
            self.emit(
                Compacting(
                    job.scope.thread, reason, self.tokens(job.estimate), job.given, namespace=job.scope.namespace
                )
            )
        slack = 0
        while made is None:
            plan = make_plan(now, force=force)
            if isinstance(plan, str) and job.messages is base.messages:
                return plan
            if not slack:
                self.emit(
                    Compacting(
                        job.scope.thread, reason, self.tokens(job.estimate), job.given, namespace=job.scope.namespace
                    )
                )
            made = yield from self._make(job, Plan() if isinstance(plan, str) else plan, base)
            over = job.overhead + sum(made.sizes) - self.hard
            if over > 0:  # counting in pieces is a little off: aim lower, a few times at most
                slack += over + 8
                now, made = self.situation(job, slack), None
                if slack > self.hard // 4:
                    with blame("finalize", self.hooks.finalize):
                        raise now.wont_fit(self.hard + over)
        if sum(made.sizes) >= sum(job.sizes) and not job.mended:
            self._restore(job)
            return "the summary was not smaller than what it would have replaced"
        self._record(job, made, base, reason)
        return ""

    def situation(self, job: Job, slack: int = 0) -> Situation:
        """The job in the terms of a plan; limits are scaled to the meter's tokens, less `slack`."""
        factor, pin, text = self.calibration.factor, self.settings.pin, job.format.text
        language = detect(view.text for view in job.views if view.origin == "person")
        joint = self._size(job.format, text("assistant", labels(language)["acknowledgment"]))
        header = text("user", summary_text("0" * 12, self._front(language), 9_999, 99_999, language))
        stay = [i for i, m in enumerate(job.messages) if pin and job.views[i].origin != "summary" and pin(m)]
        piece = self.meter.text(shortening_note("0" * 12)) + 30
        return Situation(
            views=job.views,
            sizes=job.sizes,
            overhead=job.overhead,
            soft=min(int(self.limits.target / factor), self.hard) - slack,
            hard=self.hard - slack,
            limits=self.limits,
            frame=self._size(job.format, header) + joint,
            joint=joint,
            piece=piece,
            pinned=frozenset(stay),
            open_requests=waiting(job.views, job.sizes, self.hard * 3 // 4, joint),
            scale=factor * (1 + self.meter.error),
            least=lambda i: self._least(job, i, piece),
            aim=None if self.limits.aim is None else int(self.limits.aim / factor) - slack,
            talk=mere_talk(job),
        )

    def read(
        self, messages: Sequence[Message], format_: Format, known: Sequence[View] | None = None, facts: Facts = NOTHING
    ) -> list[View]:
        """The views of a list with every turn's origin: as the caller says, else by rule."""
        views = list(known) if known is not None else [format_.read(message) for message in messages]
        return with_origins(views, facts, [self.origin(message) for message in messages] if self.origin else ())

    # -- before the plan ----------------------------------------------------------------------------------------------

    def _as_recorded(self, job: Job) -> None:
        """Apply every recorded compaction of the list's beginning, then find the newest one that stands in it."""
        applied: set[str] = set()
        job.scope = where_kept(self.archive, job.scope)
        places = self._places(job)
        while (record := history.find_recorded(self.archive, places, job.views)) is not None:
            if record.id in applied:
                break
            applied.add(record.id)
            if job.named or record.scope.thread in {place.scope.thread for place in places[1:]}:
                places = [place for place in places if place.scope == record.scope]  # it goes on where it began
                job.named = True
            job.scope, job.learned = record.scope, facts_in(record.data)
            done = history.apply(self.archive, record, job.messages, job.format)
            self._splice(job, record, done)
            job.receipt = receipt_of(record)
            self._settle(job, record, record.start + len(record.after))
        job.broken = bool(applied) and self._is_broken(job)
        job.records = Records(self.archive, job.scope)
        job.standing = newest_standing(self.archive, job.scope, job.views, job.records)
        if job.standing is not None:
            job.scope = job.standing.record.scope
            job.named = job.named or not job.scope.thread.startswith(UNNAMED)
        job.known = frozenset(vouched_for(job.records, job.standing))
        job.learned = facts_in(job.standing.record.data) if job.standing else NOTHING
        job.views = self.read(job.messages, job.format, job.views, job.learned)
        for i, view in enumerate(job.views):
            if is_ours(view) and meaning(view) in job.known:
                job.views[i] = view.said_by("summary")

    def _places(self, job: Job) -> list[Place]:
        """Where records of this conversation may be: its own thread, or those of its namespace that nobody named.

        Then where versions before this one put them. What begins with a record of a thread is looked for in it.
        """
        if job.named:
            scopes = [job.scope]
        else:
            space = job.scope.namespace
            first = next((view for view in job.views if view.role != "system"), None)
            former = f"from-{meaning(first)[:16]}" if first is not None else "unnamed"
            scopes = [Scope(space, ""), *(Scope(older, former) for older in (space, *older_namespaces(space)))]
        return [Place(scope, self._seed(scope, job.format)) for scope in scopes]

    def _splice(self, job: Job, record: Record, done: history.Applied) -> None:
        """Put a record's result into the job; what stands before and behind it is not read or measured again."""
        first, stop = record.start, record.start + len(record.before)
        known = {id(m): (job.views[i], job.sizes[i]) for i, m in enumerate(job.messages[first:stop], first)}
        region = done.messages[first : first + len(record.after)]
        read = [known.get(id(m)) or self._measured(job.format, m) for m in region]
        job.views[first:stop] = [view for view, _ in read]
        job.sizes[first:stop] = [size for _, size in read]
        job.sizes = counted(job.views, job.sizes)
        job.messages, job.record = done.messages, record

    def _measured(self, format_: Format, message: Message) -> tuple[View, int]:
        view = format_.read(message)
        return view, self.meter.message(view, message)

    def _is_broken(self, job: Job) -> bool:
        """Whether a list that records made would be refused: a host may pair calls and results otherwise today."""
        check = partial(check_views, model=self.agent, format=job.format)
        if not (now := check(job.views, pending=job.pending)):
            return False
        given = check(self.read(job.given, job.format), pending=job.pending)
        return bool({finding.rule for finding in now} - {finding.rule for finding in given})

    def _settle(self, job: Job, record: Record, stop: int) -> None:
        """Where thinking is bound to what stood before it, a record made early leaves some behind that is now refused.

        What was said between its making and the swap is rid of its thinking, once: a record of its own remembers from
        where on, so that the same conversation is always rewritten the same way.
        """
        rule = reasoning_rule(self.agent, job.format)
        if not record.data.get("early") or rule != "bound":
            return
        place = Place(job.scope if job.named else job.scope._replace(thread=""), self._seed_of(job))
        settled = history.find_recorded(self.archive, [place], job.views)
        if settled is not None and settled.data.get("settles") == record.id:
            return
        standing = Standing(record, record.start)
        base = Base(job.messages, job.views, history.turns_of(standing, len(job.messages)))
        new = strip_from(job.messages, job.views, job.format, stop, rule)
        views = self.read(new, job.format, facts=job.learned)
        sizes = counted(views, [self.meter.message(view, message) for view, message in zip(views, new, strict=True)])
        key = history.keys_of(job.views, self._seed_of(job))[-1]
        record_id = history.free_id(self.archive, job.scope, key)
        made = Made(
            job.scope,
            record_id,
            key,
            len(base.messages),
            "repair",
            new,
            views,
            sizes,
            (),
            (),
            job.learned,
            None,
            record.id,
        )
        job.standing = standing
        self._record(job, made, base, "thinking that the early summary left unbound")

    def _base(self, job: Job) -> Base:
        return Base(job.messages, job.views, history.turns_of(job.standing, len(job.messages)))

    def _mend(self, job: Job) -> None:
        """Make it legal with as little change as possible."""
        fmt, views = job.format, job.views
        mended = repair(job.messages, model=self.agent, format=fmt, pending=job.pending, views=views)
        if mended.findings:
            job.mended = True
            job.notes += [f"repaired: {finding.message}" for finding in mended.findings]
            self._replace(job, mended.messages)

    def _restore(self, job: Job) -> None:
        """Back to the list that it began with."""
        self._replace(job, job.begun)
        job.receipt, job.mended, job.notes = job.known_receipt, False, []

    def _replace(self, job: Job, messages: list[Message]) -> None:
        """Put another list into the job; messages that were there before are not read or measured again."""
        known = {id(m): (v, s) for m, v, s in zip(job.messages, job.views, job.sizes, strict=True)}
        read = {id(m): job.format.read(m) for m in messages if id(m) not in known}
        job.sizes = [known[id(m)][1] if id(m) in known else self.meter.message(read[id(m)], m) for m in messages]
        views = [known[id(m)][0] if id(m) in known else read[id(m)] for m in messages]
        job.sizes = counted(views, job.sizes)
        job.messages, job.views = messages, self.read(messages, job.format, views, job.learned)

    def _least(self, job: Job, index: int, piece: int) -> int:
        """What the message takes with every piece of it that can be cut down to so many tokens."""
        cut = cut_down(
            job.messages[index],
            piece,
            signed=clear.beside_signed(job.views, index),
            format_=job.format,
            count=self.meter.text,
            note=shortening_note("0" * 12),
        )
        return self._size(job.format, cut)

    def _size(self, format_: Format, message: Message) -> int:
        return self.meter.message(format_.read(message), message)

    def _seed_of(self, job: Job) -> str:
        return self._seed(job.scope if job.named else job.scope._replace(thread=""), job.format)

    def _seed(self, scope: Scope, format_: Format) -> str:
        """What besides the messages shapes the result: another window or keep must not pick up this record."""
        shape = [*scope, format_.name, self.agent or "", self.named.window, self.named.budget]
        shape += [str(self.named.keep_tokens), str(self.named.keep_messages), self.named.summary]
        shape += [f"aim {self.named.aim}"] * (self.named.aim is not None)
        shape += [list(self.settings.pins)] * bool(self.settings.pins)
        shape += [f"without {sorted(self.settings.without)}"] * bool(self.settings.without)
        shape += ["recall"] * self.settings.recall
        return json.dumps(shape)

    # -- making the new list ------------------------------------------------------------------------------------------

    def _clearable(self, job: Job, *, over: int, rough: bool = False) -> clear.Clearing | None:
        pin = self.settings.pin
        protect = None if pin is None else lambda i: pin(job.messages[i])
        terms: dict[str, Any] = {"prices": self.prices, "count": self.meter.text, "protect": protect, "rough": rough}
        return clear.plan_as_set(self.settings.clear, job.views, job.sizes, over=over, idle=job.idle, **terms)

    def _cleared(self, job: Job, base: Base, *, over: int) -> Made | None:
        """The list with stubs for what is clearable."""
        found = self._clearable(job, over=over)
        if found is None:
            return None
        turns, recall = turns_in(job, base), self.settings.recall
        planned = Edits("clearing", edited=dict.fromkeys(i for i, _ in found.slots))
        record_id = self._identity(job, planned, base).record_id
        changes = clear.edits(
            job.views, found, lambda i: f"[{turns[i]}]" if recall else None, lambda i: f"{record_id}/{turns[i]}"
        )
        edited = {i: job.format.edit(job.messages[i], change) for i, change in changes.items()}
        made = self._rewritten(job, Edits("clearing", edited=edited), base)
        total = job.overhead + sum(made.sizes)
        return made if total < job.estimate - over and total <= self.hard else None

    def _make(self, job: Job, plan: Plan, base: Base) -> Generator[Any, Any, Made]:
        """The new list with its summary turn; whether it fits and is smaller is for the one who asked to see."""
        draft = Edits("summary" if plan.gone else "shortening" if plan.caps else "repair", plan.gone, plan.place)
        edited_at = dict.fromkeys(plan.caps)
        note = shortening_note(self._identity(job, replace(draft, edited=edited_at), base).record_id)
        edited = {
            i: shorten(
                job.messages[i],
                job.views[i],
                job.sizes[i],
                cap,
                signed=clear.beside_signed(job.views, i),
                format_=job.format,
                count=self.meter.text,
                note=note,
            )
            for i, cap in plan.caps.items()
        }
        written = (yield from self._write(job, plan, base)) if plan.gone else None
        return self._rewritten(job, replace(draft, edited=edited), base, written)

    def _identity(self, job: Job, edits: Edits, base: Base) -> Identity:
        """The key and the id of the record, and how much of the list they cover: all that is changed.

        Where thinking is bound to what stood before it, everything behind the first change that thinks is changed too.
        What keeps the roles in order may stand behind the system messages that follow.
        """
        reach = max([*edits.gone[-1:], *edits.edited, -1]) + 1
        if reasoning_rule(self.agent, job.format) == "bound":
            reach = max([reach, *(i + 1 for i in range(edits.first, len(job.views)) if job.views[i].reasoning)])
        while reach < len(job.views) and job.views[reach].role == "system":
            reach += 1
        if job.messages is not base.messages:
            reach = len(base.messages)
        key = history.keys_of(base.views[: reach + 1], self._seed_of(job))[reach]
        scope = history.thread_for(self.archive, job.scope, job.standing, key) if not job.named else job.scope
        return Identity(scope, key, history.free_id(self.archive, scope, key), reach)

    def _rewritten(self, job: Job, edits: Edits, base: Base, written: Written | None = None) -> Made:
        """The new list, proved to be legal."""
        scope, key, record_id, reach = self._identity(job, edits, base)
        text = None
        if written is not None:
            turns = turns_in(job, base)
            went = [turns[i] for i in edits.gone]
            first = written.ledger.first if min(went) < 0 else min(went)  # an earlier summary stands for what is older
            end = max(went) + 1 or written.ledger.end  # 0: an earlier summary is all that goes
            language = written.ledger.language
            body = f"{self._front(language)}\n\n{self.redact(written.text)}"
            text = summary_text(record_id, body, first, end, language)
        new = rewrite(
            job.messages,
            job.views,
            format_=job.format,
            gone=edits.gone,
            place=edits.place,
            summary=text,
            edited=edits.edited,
            form=self.settings.form,
            language=written.ledger.language if written else "",
        )
        views = [job.format.read(message) for message in new]
        new = strip_from(new, views, job.format, edits.first, reasoning_rule(self.agent, job.format))
        new = self.hooks.finalized(job.messages, new)
        learned = learned_by(job, edits)
        with blame("finalize", self.hooks.finalize):
            views = self.read(new, job.format, facts=learned)
            sizes = sizes_of(job, new, views, self.meter.message)
            if findings := check_views(views, model=self.agent, format=job.format, pending=job.pending):
                raise IllegalConversation(f"compacting would make it illegal: {findings[0].message}")
        gone, edited = tuple(sorted(edits.gone)), tuple(sorted(edits.edited))
        reach = max(reach, changed_until(base.messages, new))  # a host's own last touch may go further
        key = history.keys_of(base.views[: reach + 1], self._seed_of(job))[reach]
        return Made(scope, record_id, key, reach, edits.kind, new, views, sizes, gone, edited, learned, written)

    def _write(self, job: Job, plan: Plan, base: Base) -> Generator[Any, Any, Written]:
        """What the summary turn says, within the plan's tokens: with a model where there is one, else by rule."""
        told = brief(self, job, plan, base)
        kept = len(job.messages) - plan.tail
        tail = sum(job.sizes[len(job.sizes) - kept :])
        live = Live(job.messages, job.estimate, job.system, job.tools, kept, tail)
        model = self.writers.summariser(self.settings, self.limits, live, job.format.name, self.calibration.factor)
        if model is None:
            return write_by_rule(told)
        try:
            written = yield from self.writers.write(told, model)
        except SummaryFailed as error:
            job.spend(error.cost)
            raise
        job.spend(written.cost)
        return written

    # -- archive first, then let the caller see it --------------------------------------------------------------------

    def _record(self, job: Job, made: Made, base: Base, reason: str, *, early: bool = False) -> None:
        """Archive, and only then let the job hold the new list."""
        prior = job.standing.record if job.standing else None
        receipt = receipt_for(job, made, base, reason, self.tokens)
        if not job.learned.get("unclear"):  # said once for each thread; the receipts say it each time
            for note in unclear(job, made):
                log.warning("thread %r: %s", job.scope.thread, note)
        notes, mended = (tuple(map(self.redact, lines)) for lines in (receipt.notes, receipt.mended))
        receipt = replace(receipt, archive=self.where, notes=notes, mended=mended)
        by_model = made.written is not None and made.written.summariser != "model-free"
        change = Change(
            scope=made.scope,
            record_id=made.record_id,
            key=made.key,
            length=made.reach,
            kind=made.kind,
            old=base.messages,
            old_views=base.views,
            old_turns=base.turns,
            new=made.messages,
            ours=job.known,
            redact=self.redact,
            format=job.format,
            prior=prior.id if prior else None,
            model=receipt.summariser if by_model else None,
            data=data_of(made, receipt, prior, early=early),
            common=self._common(made.scope, prior),
        )
        self.hooks.seen(job.given, made.messages)
        record, messages = history.write(self.archive, change)
        job.messages, job.views, job.sizes, job.learned = made.messages, made.views, made.sizes, made.learned
        job.scope, job.record = made.scope, record
        if record.id != made.record_id:  # another replica was first
            self._replace(job, messages)
        job.receipt = receipt_of(record)
        self.emit(Compacted(job.scope.thread, job.receipt, job.given, job.messages, namespace=job.scope.namespace))

    def _common(self, scope: Scope, prior: Record | None) -> Sequence[Part]:
        """What a thread that branches off another takes along: all that was archived up to where it does."""
        if prior is None or prior.scope == scope:
            return ()
        return self.archive.parts(prior.scope, 0, prior.data["next_turn"])
