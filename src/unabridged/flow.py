"""The flow of one compaction, top to bottom: read, measure, plan, summarise, verify, archive, rewrite.

`Flow.steps` is a generator that yields what it needs from outside (an ask for a model), so that one short driver makes
it sync and another makes it async. What is decided is decided elsewhere, by pure functions on views.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple, cast

from unabridged import history
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.calibrate import Calibration
from unabridged.errors import ArchiveError, IllegalConversation
from unabridged.events import Compacted, Compacting, Event, Failed, Kind, Receipt
from unabridged.extract import extract
from unabridged.formats import Format, Message
from unabridged.history import Change, Standing
from unabridged.ledger import Ledger, from_json, to_json
from unabridged.legal import check_views, repair
from unabridged.measure import Meter
from unabridged.messages import Origin, View
from unabridged.origin import with_origins
from unabridged.plan import Plan, Situation, make_plan
from unabridged.reasoning import reasoning_rule, strip_from
from unabridged.requests import kind_of, open_indices
from unabridged.rewrite import ACKNOWLEDGMENT, is_ours, rewrite, shortening_note, summary_text
from unabridged.settings import Limits, Settings
from unabridged.shorten import shorten

log = logging.getLogger("unabridged")

Steps = Generator[Any, Any, str]
"""Ends with why nothing changed, in words; with an empty string when something did."""


@dataclass(slots=True)
class Job:
    """One compaction under way: the list as it is now, and what is known of each message in it."""

    scope: Scope
    format: Format
    overhead: int
    given: list[Message]
    messages: list[Message]
    views: list[View]
    """With the origin of each turn found out."""
    sizes: list[int]
    pending: bool = False
    """Whether calls at the end may still wait for their answers: no model is about to be asked."""
    mended: bool = False
    standing: Standing | None = None
    receipt: Receipt | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def estimate(self) -> int:
        """What the whole request takes, as the meter counts."""
        return self.overhead + sum(self.sizes)


class Base(NamedTuple):
    """The list a record is made against: as it was before anything was mended or cut."""

    messages: list[Message]
    views: list[View]
    turns: list[int]


@dataclass(frozen=True, slots=True)
class Made:
    """A new list, verified, and what the record remembers of it."""

    record_id: str
    key: str
    reach: int
    kind: Kind
    messages: list[Message]
    views: list[View]
    sizes: list[int]
    covers: tuple[int, ...]
    """Indices, in the base, of what the summary stands for and of what was edited."""
    ledger: Ledger | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """What every compaction of one `Compactor` shares."""

    settings: Settings
    limits: Limits
    agent: str | None
    meter: Meter
    calibration: Calibration
    archive: Archive
    where: str
    origin: Callable[[Message], Origin | None] | None
    emit: Callable[[Event], None]

    def tokens(self, estimate: int) -> int:
        """An estimate in the provider's own tokens, as far as its reports have taught us."""
        return round(estimate * self.calibration.factor)

    def pulled(self, estimate: int, messages: int) -> str | None:
        """Why this must be compacted; None below the trigger, and always when the trigger is None."""
        tokens = self.tokens(estimate)
        reason = self.limits.pulled(tokens, messages)
        if reason is None and self.limits.trigger and estimate > self.hard:
            reason = f"{tokens:,} tokens, too close to the budget of {self.limits.budget:,}"
        return reason

    @property
    def hard(self) -> int:
        """The budget in the meter's tokens, less what the meter may be off by."""
        return int(self.limits.budget / self.calibration.factor / (1 + self.meter.error))

    def steps(self, job: Job, reason: str, *, force: bool = False) -> Steps:
        """Compact the job's list: as recorded if that is enough, else anew. A failing archive evicts nothing."""
        try:
            return (yield from self._steps(job, reason, force=force))
        except ArchiveError as error:
            self.emit(Failed(job.scope.thread, "archive", error))
            tokens = self.tokens(job.overhead + sum(self._size(job.format, message) for message in job.given))
            if tokens > self.limits.budget:
                raise
            log.warning("not compacted, %s tokens still fit: %s", tokens, error)
            job.messages, job.receipt = job.given, None
            return str(error)

    def _steps(self, job: Job, reason: str, *, force: bool) -> Steps:
        self._as_recorded(job)
        if not force and self.pulled(job.estimate, len(job.messages)) is None:
            return ""
        base = Base(job.messages, job.views, history.turns_of(job.standing, len(job.messages)))
        before = self.tokens(job.estimate)
        self._mend(job)
        announced = False
        slack = 0
        while True:
            now = self.situation(job, slack)
            plan = make_plan(now, force=force)
            if isinstance(plan, str):
                if job.messages is base.messages:
                    return plan
                plan = Plan()
            if not announced:
                self.emit(Compacting(job.scope.thread, reason, before, job.given))
                announced = True
            made = yield from self._make(job, plan, base)
            over = job.overhead + sum(made.sizes) - self.hard
            if over <= 0:
                break
            slack += over + 8  # counting in pieces is a little off: aim lower, a few times at most
            if slack > self.hard // 4:
                raise now.wont_fit(self.hard + over)
        if sum(made.sizes) >= sum(job.sizes) and not job.mended:
            self._replace(job, base.messages)
            return "the summary was not smaller than what it would have replaced"
        self._record(job, made, base, reason, before)
        return ""

    def situation(self, job: Job, slack: int = 0) -> Situation:
        """The job in the terms of a plan; limits are scaled to the meter's tokens, less `slack`."""
        factor = self.calibration.factor
        pin = self.settings.pin
        pinned = {
            i for i, m in enumerate(job.messages) if pin is not None and job.views[i].origin != "summary" and pin(m)
        }
        return Situation(
            views=job.views,
            sizes=job.sizes,
            overhead=job.overhead,
            soft=min(int(self.limits.target / factor), self.hard) - slack,
            hard=self.hard - slack,
            limits=self.limits,
            frame=self._size(job.format, job.format.text("user", summary_text("0" * 12, "", 9_999, 99_999)))
            + self._size(job.format, job.format.text("assistant", ACKNOWLEDGMENT)),
            piece=self.meter.text(shortening_note("0" * 12)) + 30,
            pinned=frozenset(pinned),
            open_requests=_waiting(job, int(self.limits.budget / factor) // 2),
        )

    def read(self, messages: Sequence[Message], format_: Format, known: Sequence[View] | None = None) -> list[View]:
        """The views of a list with every turn's origin: as the caller says, else by rule."""
        views = list(known) if known is not None else [format_.read(message) for message in messages]
        if self.origin is None:
            return with_origins(views)
        said = [self.origin(message) for message in messages]
        ruled = with_origins(views)
        return [replace(v, origin=o) if o is not None else r for v, r, o in zip(views, ruled, said, strict=True)]

    # -- before the plan ----------------------------------------------------------------------------------------------

    def _as_recorded(self, job: Job) -> None:
        """Apply every recorded compaction of the list's beginning, then find the newest one that stands in it."""
        applied: set[str] = set()
        while True:
            keys = history.keys_of(job.views, self._seed(job))
            record = history.find_recorded(self.archive, job.scope, keys)
            if record is None or record.id in applied:
                break
            applied.add(record.id)
            self._replace(job, history.apply(self.archive, record, job.messages))
            job.receipt = receipt_of(record)
        job.standing = history.newest_standing(self.archive, job.scope, job.views)
        if job.standing is not None:
            record, at = job.standing
            for j, put_in in enumerate(record.after):
                if put_in is not None and is_ours(job.views[at + j]):
                    job.views[at + j] = replace(job.views[at + j], origin="summary")

    def _mend(self, job: Job) -> None:
        """Make it legal with as little change as possible."""
        mended = repair(job.messages, job.format.name, model=self.agent, format=job.format, pending=job.pending)
        if mended.findings:
            job.mended = True
            job.notes += [f"repaired: {finding.message}" for finding in mended.findings]
            self._replace(job, mended.messages)

    def _replace(self, job: Job, messages: list[Message]) -> None:
        """Put another list into the job; messages that were there before are not read or measured again."""
        known = {id(m): (v, s) for m, v, s in zip(job.messages, job.views, job.sizes, strict=True)}
        fresh = [m for m in messages if id(m) not in known]
        read = {id(m): job.format.read(m) for m in fresh}
        job.sizes = [known[id(m)][1] if id(m) in known else self.meter.message(read[id(m)], m) for m in messages]
        views = [known[id(m)][0] if id(m) in known else read[id(m)] for m in messages]
        job.messages, job.views = messages, self.read(messages, job.format, views)

    def _size(self, format_: Format, message: Message) -> int:
        return self.meter.message(format_.read(message), message)

    def _seed(self, job: Job) -> str:
        """What besides the messages shapes the result: another window or keep must not pick up this record."""
        shape = [*job.scope, job.format.name, self.agent or "", self.limits.window, self.limits.budget]
        shape += [str(self.limits.keep_tokens), str(self.limits.keep_messages), self.limits.summary]
        return json.dumps(shape)

    # -- after it -----------------------------------------------------------------------------------------------------

    def _make(self, job: Job, plan: Plan, base: Base) -> Generator[Any, Any, Made]:
        """The new list, proved to be legal; whether it fits and is smaller is for the one who asked for it to see."""
        rule = reasoning_rule(self.agent, job.format)
        first = min([*plan.gone[:1], *plan.caps, len(job.messages)])
        first = min(first, plan.place) if plan.gone else first
        reach = plan.reach
        if rule == "bound":
            reach = max([reach, *(i + 1 for i in range(first, len(job.views)) if job.views[i].reasoning)])
        if job.messages is not base.messages:
            reach = len(base.messages)
        key = history.keys_of(base.views[: reach + 1], self._seed(job))[reach]
        record_id = history.free_id(self.archive, job.scope, key)

        note = shortening_note(record_id)
        edited = {
            i: shorten(
                job.messages[i], job.views[i], job.sizes[i], cap, format_=job.format, count=self.meter.text, note=note
            )
            for i, cap in plan.caps.items()
        }
        text, ledger = (yield from self._summarise(job, plan, record_id, base)) if plan.gone else (None, None)
        new = rewrite(
            job.messages, job.views, format_=job.format, gone=plan.gone, place=plan.place, summary=text, edited=edited
        )
        views = [job.format.read(message) for message in new]
        new = strip_from(new, views, job.format, first, rule)
        views = self.read(new, job.format)
        sizes = [self.meter.message(view, message) for view, message in zip(views, new, strict=True)]
        if findings := check_views(views, job.format.name, self.agent, format=job.format, pending=job.pending):
            raise IllegalConversation(f"compacting would make it illegal: {findings[0].message}")
        kind: Kind = "summary" if plan.gone else "shortening" if plan.caps else "repair"
        covers = tuple(sorted({*plan.gone, *plan.caps}))
        return Made(record_id, key, reach, kind, new, views, sizes, covers, ledger)

    def _summarise(self, job: Job, plan: Plan, record_id: str, base: Base) -> Generator[Any, Any, tuple[str, Ledger]]:
        """The text of the summary turn, within the plan's tokens, and the ledger it carries."""
        yield from ()
        told = [i for i in sorted({*plan.gone, *plan.kept_requests}) if job.views[i].origin != "summary"]
        turns = _turns(job, base)
        made = extract(
            [job.views[i] for i in told],
            prior=self._prior(job, plan),
            turns=[turns[i] for i in told],
            answered=not plan.kept_requests,
            kept={turns[i] for i in plan.kept_requests},
            budget=plan.summary,
            count=self.meter.text,
        )
        job.notes += [f"left out of the summary: {what}" for what in made.left_out]
        return summary_text(record_id, made.text, made.ledger.first, made.ledger.end), made.ledger

    def _prior(self, job: Job, plan: Plan) -> Ledger | None:
        """The ledger of the summary turn that goes, if one does."""
        if not any(job.views[i].origin == "summary" for i in plan.gone):
            return None
        record = job.standing.record if job.standing else None
        while record is not None and "ledger" not in record.data:
            record = self.archive.record(job.scope, record.prior) if record.prior else None
        return from_json(cast("dict[str, Any]", record.data["ledger"])) if record else None

    def _record(self, job: Job, made: Made, base: Base, reason: str, before: int) -> None:
        """Archive first, then let the job hold the new list."""
        covered = [base.turns[i] for i in made.covers if i < len(base.turns) and base.turns[i] >= 0]
        prior = job.standing.record if job.standing else None
        after = self.tokens(job.overhead + sum(made.sizes))
        receipt = Receipt(
            id=made.record_id,
            thread=job.scope.thread,
            kind=made.kind,
            reason=reason,
            created=time.time(),
            turns=_ranges(covered),
            messages_before=len(job.given),
            messages_after=len(made.messages),
            tokens_before=before,
            tokens_after=after,
            archive=self.where,
            summariser="model-free",
            notes=tuple(job.notes),
        )
        data: dict[str, object] = {"receipt": asdict(receipt), "depth": _depth(prior) + 1}
        if made.ledger is not None:
            data["ledger"] = to_json(made.ledger)
        change = Change(
            scope=job.scope,
            record_id=made.record_id,
            key=made.key,
            length=made.reach,
            kind=made.kind,
            old=base.messages,
            old_views=base.views,
            old_turns=base.turns,
            new=made.messages,
            format=job.format,
            prior=prior.id if prior else None,
            model=None,
            data=data,
        )
        record, messages = history.write(self.archive, change)
        job.messages, job.views, job.sizes = made.messages, made.views, made.sizes
        if record.id != made.record_id:  # another replica was first
            self._replace(job, messages)
        job.receipt = receipt_of(record)
        self.emit(Compacted(job.scope.thread, job.receipt, job.given, job.messages))


def _waiting(job: Job, room: int) -> frozenset[int]:
    """The open requests that stay as their own messages: the newest, then all that say something, while there is room.

    The ledger carries the others verbatim.
    """
    found: set[int] = set()
    for i in sorted(open_indices(job.views), reverse=True):
        room -= job.sizes[i]
        if not found or (room >= 0 and kind_of(job.views[i].text) not in {"resume", "ack"}):
            found.add(i)
    return frozenset(found)


def _turns(job: Job, base: Base) -> list[int]:
    """The place in the original conversation of each of the job's messages; one that was mended counts as the last."""
    if job.messages is base.messages:
        return base.turns
    known = {id(message): turn for message, turn in zip(base.messages, base.turns, strict=True)}
    turns: list[int] = []
    for message in job.messages:
        turns.append(known.get(id(message), turns[-1] if turns else 0))
    return turns


def receipt_of(record: Record) -> Receipt:
    """The receipt as it was stored."""
    data = dict(cast("dict[str, Any]", record.data["receipt"]))
    data["turns"] = tuple((first, last) for first, last in data["turns"])
    data["notes"] = tuple(data["notes"])
    return Receipt(**data)


def _depth(record: Record | None) -> int:
    return cast("int", record.data.get("depth", 0)) if record else 0


def _ranges(turns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Whole numbers as half-open ranges."""
    runs = groupby(enumerate(sorted(turns)), key=lambda pair: pair[1] - pair[0])
    found = [[turn for _, turn in run] for _, run in runs]
    return tuple((run[0], run[-1] + 1) for run in found)
