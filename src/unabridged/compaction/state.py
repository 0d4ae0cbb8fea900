"""One compaction under way, as values: what the list is now, what it was, and what was made of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from unabridged.archive.protocol import Record, RecordData, Scope
from unabridged.compaction.cut import counted, safe_indices, whole_rounds
from unabridged.compaction.hooks import HookRaised
from unabridged.errors import ArchiveError, SummaryFailed
from unabridged.events import Failed, Kind, Receipt
from unabridged.formats import Format, Message
from unabridged.history.lookup import turns_of
from unabridged.history.standing import Records, Standing
from unabridged.intent import Facts, kind_of_turn, learn
from unabridged.ledger.entries import Ledger, from_json, to_json
from unabridged.ledger.gather import open_indices
from unabridged.ledger.sayings import is_talk
from unabridged.marks import is_cleared
from unabridged.messages import View
from unabridged.summarise.brief import Written

log = logging.getLogger("unabridged")


ROUNDS_OF_REMARKS = 0.4
"""Of the room for open requests, what may be taken up when a whole round stays for a remark that was made in it."""


@dataclass(slots=True)
class Job:
    """One compaction under way: the list as it is now, and what is known of each message in it."""

    scope: Scope
    format: Format
    system: Any
    tools: Any
    overhead: int
    given: list[Message]
    messages: list[Message]
    views: list[View]
    """With the origin of each turn found out."""
    sizes: list[int]
    begun: list[Message] = field(default_factory=list)
    """The list that it began with: what was given, or what became of that when it was given before."""
    record: Record | None = None
    """The newest record that was applied or made."""
    known_receipt: Receipt | None = None
    """Of what was recorded already in the list that it began with."""
    named: bool = True
    """Whether the caller named the thread; else a record names it."""
    idle: float = 0.0
    """Seconds since the last call for this thread: a provider's cache may have expired."""
    pending: bool = False
    """Whether calls at the end may still wait for their answers: no model is about to be asked."""
    broken: bool = False
    """Whether what was recorded makes a list of it today that would be refused."""
    mended: bool = False
    known: frozenset[str] = frozenset()
    """The meanings of what earlier compactions put in."""
    learned: Facts = field(default_factory=dict)
    """How the host answers, as far as messages showed that are no longer in the list."""
    records: Records | None = None
    """Those of its namespace, as far as they were read."""
    standing: Standing | None = None
    receipt: Receipt | None = None
    notes: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    """What failed, and so was done without."""
    cost: dict[str, float] = field(default_factory=dict)
    """What the summariser took so far, for whatever came of it."""
    state: str | None = None
    """What the host told of its state for this compaction; None until it was asked."""

    @property
    def estimate(self) -> int:
        """What the whole request takes, as the meter counts."""
        return self.overhead + sum(self.sizes)

    def stands_for(self) -> dict[int, int]:
        """For each message that was put in for one message of the original conversation: which one it was."""
        if self.record is None:
            return {}
        turns = turns_of(Standing(self.record, self.record.start), len(self.messages))
        return {j: turn for j, turn in enumerate(turns) if 0 <= turn < len(self.given)}

    def spend(self, cost: Mapping[str, float]) -> None:
        """Add what a summary took, good or not."""
        self.cost = {key: self.cost.get(key, 0) + cost.get(key, 0) for key in {**self.cost, **cost}}


def failure(job: Job, error: ArchiveError | HookRaised | SummaryFailed) -> Failed:
    """The event that says what failed. It is logged too; a summariser's failure is, once in a row, by who asks it."""
    if isinstance(error, SummaryFailed):
        return Failed(job.scope.thread, "summary", error, error.cost, namespace=job.scope.namespace)
    stage, cause = ("hook", error.error) if isinstance(error, HookRaised) else ("archive", error)
    log.warning("a compaction was given up, the %s failed: %s", stage, type(cause).__name__)
    return Failed(job.scope.thread, stage, cause, namespace=job.scope.namespace)


class Base(NamedTuple):
    """The list a record is made against: as it was before anything was mended or cut."""

    messages: list[Message]
    views: list[View]
    turns: list[int]


@dataclass(frozen=True, slots=True)
class Edits:
    """What a compaction does to the list: messages that go, the summary in their place, messages exchanged."""

    kind: Kind
    gone: tuple[int, ...] = ()
    place: int = 0
    edited: Mapping[int, Message] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """Where the list first changes; past its end when it does not."""
        return min([*self.gone[:1], *self.edited, *([self.place] if self.gone else []), 1 << 60])


class Identity(NamedTuple):
    """Which record a compaction becomes: its thread, its key, its id, and how many messages the key covers."""

    scope: Scope
    key: str
    record_id: str
    reach: int


@dataclass(frozen=True, slots=True)
class Made:
    """A new list, proved to be legal, and what the record remembers of it."""

    scope: Scope
    record_id: str
    key: str
    reach: int
    kind: Kind
    messages: list[Message]
    views: list[View]
    sizes: list[int]
    gone: tuple[int, ...] = ()
    """Indices, in the base, of what the summary stands for."""
    edited: tuple[int, ...] = ()
    """Indices, in the base, of what stays and was cleared, shortened or mended."""
    learned: Facts = field(default_factory=dict)
    """How the host answers, as far as the messages showed that went."""
    written: Written | None = None
    settles: str | None = None
    """The early record whose swap this one settles."""


def learned_by(job: Job, edits: Edits) -> Facts:
    """What is known of the host's habits when this is done."""
    cleared = {i for i, message in edits.edited.items() if is_cleared(job.format.read(message))}
    return learn(job.views, {*edits.gone, *cleared}, job.learned)


def data_of(made: Made, receipt: Receipt, prior: Record | None, *, early: bool) -> RecordData:
    """What the record remembers besides the messages."""
    data: RecordData = {"receipt": asdict(receipt), "depth": depth_of(prior) + 1, "early": early}
    if made.learned:
        data["habits"] = dict(made.learned)
    if made.settles is not None:
        data["settles"] = made.settles
    if made.written is not None:
        told = made.written
        data |= {"ledger": to_json(told.ledger), "prose": told.prose, "rounds": told.rounds}
    return data


def waiting(views: Sequence[View], sizes: Sequence[int], room: int, joint: int = 0) -> frozenset[int]:
    """The open requests that stay as their own messages: the newest, then all that say something, while there is room.

    The ledger carries the others verbatim. One said in the same message as a tool's answer keeps its round, if that has
    room: its words alone take less, so of the room only a part is for rounds. `joint` is what keeps each apart from the
    one before it, in tokens.
    """
    found: set[int] = set()
    taken = 0
    opened, safe = open_indices(views)[::-1], safe_indices(views)
    between = sorted(opened[1:-1], key=lambda i: len(whole_rounds(safe, [i])))  # those with no round take little
    for i in (*opened[:1], *opened[1:][-1:], *between):  # what began it counts more than what came between
        if found and kind_of_turn(views[i]) in {"resume", "ack"}:
            continue
        round_ = whole_rounds(safe, [i])
        alone = round_ == {i}
        size = sum(sizes[at] for at in round_ - found) + joint
        most = room if alone or not found else int(room * ROUNDS_OF_REMARKS)
        if taken + size <= most or (not found and alone):  # a message of its own can be shortened
            found |= round_
            taken += size
    return frozenset(found)


def closing_answer(views: Sequence[View], shown: Sequence[int]) -> list[int]:
    """Where the tail holds what closed the last request among `shown`: an answer, or a "never mind" of the person's."""
    asked = max((i for i in shown if views[i].is_request), default=None)
    if asked is None or asked in open_indices(views):
        return []
    speakers = [i for i in range(asked + 1, len(views)) if views[i].role != "system"]
    for i, following in zip(speakers, [*speakers[1:], None], strict=True):
        if views[i].is_request and kind_of_turn(views[i]) == "withdraw":
            return [] if i in shown else [i]
        ends = following is None or views[following].is_request
        if views[i].origin == "model" and not views[i].calls and views[i].text and ends:
            return [] if i in shown else [i]
    return []


def followed(views: Sequence[View], shown: Sequence[int]) -> tuple[bool, bool]:
    """Whether a person speaks next behind the messages at `shown`, or nobody; and whether tools work there before.

    What the tail holds tells what the last request among them has come to.
    """
    for view in views[max(shown, default=-1) + 1 :]:
        if view.is_request:
            return True, False
        if view.calls or view.origin == "tool":
            return False, True
        if view.origin == "model":
            return False, False
    return True, False


class Earlier(NamedTuple):
    """The earlier summary that goes: its ledger, its prose, and how often that ledger was carried on."""

    ledger: Ledger | None = None
    prose: str = ""
    rounds: int = 0
    record: Record | None = None

    @property
    def depth(self) -> int:
        """How many records lie behind, this one included."""
        return depth_of(self.record)


def depth_of(record: Record | None) -> int:
    """How many compactions lie behind a list that carries this record; 0 without one."""
    return record.data.get("depth", 0) if record else 0


def earlier_summary(job: Job, gone: Sequence[int]) -> Earlier:
    """What is remembered of the summary turn that goes, if one does."""
    if not any(job.views[i].origin == "summary" for i in gone):
        return Earlier()
    record = job.standing.record if job.standing else None
    while record is not None and "ledger" not in record.data:
        record = job.records.named(record.prior) if record.prior and job.records is not None else None
    if record is None:
        return Earlier()
    data = record.data
    return Earlier(from_json(data["ledger"]), data.get("prose", ""), data.get("rounds", 0), record)


def mere_talk(job: Job) -> bool:
    """Whether nothing is done in the whole conversation, what was summarised included, and much is said."""
    if any(view.calls or view.origin in {"tool", "unknown"} for view in job.views):
        return False
    earlier = earlier_summary(job, range(len(job.views))).ledger or Ledger()
    return is_talk(earlier.actions, len(earlier.requests) + sum(view.is_request for view in job.views))


def sizes_of(
    job: Job, messages: Sequence[Message], views: Sequence[View], size: Callable[[View, Message], int]
) -> list[int]:
    """What each message takes; those of the job's that still say the same are not measured again."""
    known = {id(m): (view, tokens) for m, view, tokens in zip(job.messages, job.views, job.sizes, strict=True)}
    found = []
    for message, view in zip(messages, views, strict=True):
        was = known.get(id(message))
        same = was is not None and was[0].said_by(view.origin) == view
        found.append(was[1] if was is not None and same else size(view, message))
    return counted(views, found)


def turns_in(job: Job, base: Base) -> list[int]:
    """The place in the original conversation of each of the job's messages; one that was mended counts as the last."""
    if job.messages is base.messages:
        return base.turns
    known = {id(message): turn for message, turn in zip(base.messages, base.turns, strict=True)}
    turns: list[int] = []
    for message in job.messages:
        turns.append(known.get(id(message), turns[-1] if turns else 0))
    return turns


def receipt_for(job: Job, made: Made, base: Base, reason: str, tokens: Callable[[int], int]) -> Receipt:
    """What is written down of a compaction; where the originals are is filled in by the one who stores them."""
    gone, edited = _turns(made.gone, base), _turns(made.edited, base)
    written = made.written
    return Receipt(
        id=made.record_id,
        thread=made.scope.thread,
        namespace=made.scope.namespace,
        kind=made.kind,
        reason=reason,
        created=time.time(),
        turns=gone or edited,
        edited=edited if gone else (),
        messages_before=len(job.given),
        messages_after=len(made.messages),
        tokens_before=tokens(job.estimate),
        tokens_after=tokens(job.overhead + sum(made.sizes)),
        archive="",
        summariser=written.summariser if written else "model-free",
        cost=dict(job.cost),
        notes=(*job.without, *job.notes, *unclear(job, made), *(written.notes if written else ())),
        mended=written.mended if written else (),
    )


def _turns(indices: Sequence[int], base: Base) -> tuple[tuple[int, int], ...]:
    """The turns of the original conversation at these indices; what was put in has none."""
    return ranges([base.turns[i] for i in indices if i < len(base.turns) and base.turns[i] >= 0])


def unclear(job: Job, made: Made) -> tuple[str, ...]:
    """What is to be said of turns that went and may be a tool's as well as a person's."""
    number = made.learned.get("unclear", 0) - job.learned.get("unclear", 0)
    told = f"{number} user turns may be a tool's or a person's, so nothing in them is a rule, a request or an approval"
    return (f"{told}: say whose they are with Compactor(origin=...)",) if number > 0 else ()


def receipt_of(record: Record) -> Receipt:
    """The receipt as it was stored."""
    data = dict(record.data["receipt"])
    data["turns"] = tuple((first, last) for first, last in data["turns"])
    data["edited"] = tuple((first, last) for first, last in data.get("edited", ()))
    data["notes"] = tuple(data["notes"])
    data["mended"] = tuple(data.get("mended", ()))  # records of earlier versions have none
    return Receipt(**data)


def ranges(turns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Whole numbers as half-open ranges."""
    runs = groupby(enumerate(sorted(turns)), key=lambda pair: pair[1] - pair[0])
    found = [[turn for _, turn in run] for _, run in runs]
    return tuple((run[0], run[-1] + 1) for run in found)
