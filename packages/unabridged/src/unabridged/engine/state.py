"""What a compaction works with: its compactor's `Setup`, the caller's `CompactionRequest`, and its own `State`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unabridged.archive.pins import list_pins
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.archive.transcripts import Transcripts
from unabridged.authorship import TurnCounts, assign_origins
from unabridged.engine.cut import zero_sizes_dropped_by_provider
from unabridged.engine.hooks import Hooks, StateProvider
from unabridged.engine.trigger import RequestSize, find_trigger_reason
from unabridged.errors import SummaryFailed
from unabridged.events import Event, Failed, Listener, Receipt
from unabridged.formats import Format, Message
from unabridged.formats.base import ThinkingRule
from unabridged.history.lookup import find_original_turns
from unabridged.history.replay import AppliedRecord, RecordCache
from unabridged.languages import get_labels
from unabridged.legality import Finding, check_views
from unabridged.legality.reasoning import find_reasoning_rule
from unabridged.messages import Origin, View
from unabridged.settings import Limits, Prices, Settings
from unabridged.summary.summary_body import SummaryWriter, render_pins
from unabridged.tokens.calibrate import Calibration
from unabridged.tokens.meter import Meter

log = logging.getLogger("unabridged")

MAX_TRANSCRIPT_SHARE = 0.1
"""The share of the trigger that the line naming the transcript may take: it must not keep a request from fitting."""


@dataclass(frozen=True, slots=True)
class HostFunctions:
    """The functions that the host passed to its compactor, checked."""

    on_event: Listener | None
    hooks: Hooks
    origin: Callable[[Message], Origin | None] | None
    redact: Callable[[str], str]
    state: StateProvider | None = None

    def emit(self, event: Event) -> None:
        """Call `on_event`; log what it raises and go on."""
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except Exception:
            log.exception("on_event raised for %s", type(event).__name__)

    def emit_failure(self, scope: Scope, stage: str, error: BaseException, *, goes_on: bool = False) -> None:
        """Emit that this stage failed; `goes_on`: the compaction goes on without it."""
        cost = error.cost if stage == "summary" and isinstance(error, SummaryFailed) else {}
        self.emit(Failed(scope.thread, stage, error, cost, goes_on, namespace=scope.namespace))


@dataclass(frozen=True, slots=True)
class Setup:
    """The dependencies of the pipeline, for one format."""

    settings: Settings
    limits: Limits
    named_limits: Limits
    """The limits as the settings have them, whatever a provider has taught since: records are found by these."""
    agent: str | None
    meter: Meter
    calibration: Calibration
    archive: Archive
    archive_name: str
    host: HostFunctions
    summary_writer: SummaryWriter
    prices: Prices | None
    transcripts: Transcripts | None = None

    def tokens(self, estimate: int) -> int:
        """Return an estimate in the provider's own tokens, as far as its reports have taught us."""
        return round(estimate * self.calibration.factor)

    def fits(self, estimate: int) -> bool:
        """Return whether a request of this size is within the budget, as far as we can tell."""
        return self.tokens(estimate) <= self.limits.budget

    def may_fit(self, floor: int) -> bool:
        """Return whether a request that counts so many tokens may fit all the same: nothing but our estimate says no.

        Once reports have settled what our counts mean, or a provider has refused a request, it does not.
        """
        low = self.calibration.find_lowest_ratio(1 / self.meter.high)
        counted_alone = floor / self.calibration.factor / (1 + self.meter.error)
        return low is not None and self.limits == self.named_limits and counted_alone * low <= self.limits.budget

    @property
    def limit(self) -> int:
        """Return what a request must stay within: the budget in the meter's tokens, less the meter's possible error."""
        return int(self.limits.budget / self.calibration.factor / (1 + self.meter.error))

    @property
    def target(self) -> int:
        """Return what a request should stay below: the trigger, in the meter's tokens."""
        return min(int(self.limits.tokens_below_trigger / self.calibration.factor), self.limit)

    def trigger_reason(self, estimate: int, messages: Sequence[Message]) -> str | None:
        """Return why a request with these messages, of this estimate, is to be compacted; None below the trigger."""
        size = RequestSize.of(self.tokens(estimate), messages)
        return find_trigger_reason(self.limits, size, is_over=estimate > self.limit)

    def measure(self, format_: Format, message: Message) -> tuple[View, int]:
        """Return the view of a message, and what it takes as the meter counts."""
        view = format_.read(message)
        return view, self.meter.message(view, message)

    def read(
        self, messages: Sequence[Message], format_: Format, known: Sequence[View] = (), counts: TurnCounts | None = None
    ) -> list[View]:
        """Return the views of a list with every turn's origin: as the host says, else by rule."""
        views = list(known) or [format_.read(message) for message in messages]
        origin = self.host.origin
        return assign_origins(views, counts or {}, [origin(message) for message in messages] if origin else ())

    def find_thinking_rule(self, format_: Format) -> ThinkingRule:
        """Return what the agent demands of thinking in its history."""
        return find_reasoning_rule(self.agent, format_)

    def check(self, views: Sequence[View], state: State) -> list[Finding]:
        """Return what the provider would refuse of these views."""
        return check_views(views, model=self.agent, format=state.format, pending=state.is_pending)

    def build_preface(self, language: str, scope: Scope, pins: Sequence[str]) -> str:
        """Return what stands before the summary itself: how to read what went, where the agent can, and the pins."""
        labels, line = get_labels(language), ""
        if self.transcripts is not None:
            line = labels["transcript"].format(path=self.transcripts.name(scope))
            if self.meter.text(line) > self.named_limits.tokens_below_trigger * MAX_TRANSCRIPT_SHARE:
                line = ""  # a small window has no room for its path
        parts = (line, labels["recall"] if self.settings.recall else "", render_pins(pins))
        return "\n\n".join(filter(None, parts))

    def key_seed(self, scope: Scope, format_: Format) -> str:
        """Return what besides the messages shapes a result: records made with other settings must not be found."""
        bounds, settings = self.named_limits, self.settings
        shape = [*scope, format_.name, self.agent or "", bounds.window, bounds.budget]
        shape += [str(bounds.keep_tokens), str(bounds.keep_messages), bounds.model_summary]
        shape += [f"aim {bounds.target_tokens}"] * (bounds.target_tokens is not None)
        shape += [list(settings.pins)] * bool(settings.pins)
        shape += [f"without {sorted(settings.without)}"] * bool(settings.without)
        shape += ["recall"] * settings.recall
        shape += [f"native {provider}"] if (provider := self.summary_writer.native_provider) else []
        shape += [self.transcripts.key_seed] if self.transcripts is not None else []
        return json.dumps(shape)


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """What the caller passed to one call, and the list that work on it begins with."""

    scope: Scope
    format: Format
    original: list[Message]
    """What the caller passed in."""
    start: list[Message]
    """The original, or what became of it when it was passed in before."""
    start_receipt: Receipt | None
    """Of what was compacted already in `start`."""
    system: Any
    tools: Any
    overhead: int
    """What system prompt and tools take, as the meter counts."""
    idle_seconds: float
    """Since the last call for this conversation: a provider's cache may have expired."""
    is_by_hand: bool = False
    """Whether somebody compacts it whatever its size, and no model is about to be asked."""
    is_asked: bool = False
    """Whether somebody asks for it, or a provider refused the request: no trigger is needed."""


@dataclass(frozen=True, slots=True)
class WorkingList:
    """A list of messages with the view of each, and what each takes as the meter counts."""

    messages: list[Message] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Return what all messages take together."""
        return sum(self.sizes)


@dataclass(slots=True)
class RestoredHistory:
    """What the archive knows of the list: which compactions are in it, and what the next one is made against."""

    base: WorkingList = field(default_factory=WorkingList)
    """The list as it was before anything was mended or cut."""
    turns: list[int] = field(default_factory=list)
    """The place of each message of the base in the original conversation; -1 for one that a compaction put in."""
    applied: AppliedRecord | None = None
    """The newest compaction whose result is in the list."""
    records: RecordCache | None = None
    inserted: frozenset[str] = frozenset()
    """The meanings of what earlier compactions put in."""
    turn_counts: TurnCounts = field(default_factory=dict)
    """How the assistant's turns ended that are no longer in the list."""
    is_broken: bool = False
    """Whether the recorded result would be refused today."""

    def set_base(self, working: WorkingList, applied: AppliedRecord | None) -> None:
        """Set the list that the next record is made against, in which that record is the newest."""
        self.base, self.applied = working, applied
        self.turns = find_original_turns(applied, len(working.messages))


@dataclass(slots=True)
class CompactionReport:
    """What one compaction says about itself in its receipt and its events."""

    notes: list[str] = field(default_factory=list)
    done_without: list[str] = field(default_factory=list)
    """What failed, so that the compaction goes without it."""
    cost: dict[str, float] = field(default_factory=dict)
    """What the summariser took so far, for whatever came of it."""
    failed_models: set[int | None] = field(default_factory=set)
    """The places of the summariser's models whose failure was reported."""

    native: Literal["", "made", "failed"] = ""
    """What became of the provider's own compaction: it is asked for once in each."""

    def add_cost(self, cost: Mapping[str, float]) -> None:
        """Add what a summary took, good or not."""
        self.cost = {key: self.cost.get(key, 0) + cost.get(key, 0) for key in {**self.cost, **cost}}


@dataclass(slots=True)
class State:
    """The working record of one compaction. `pipeline` says in which order it is filled in."""

    request: CompactionRequest
    working: WorkingList
    scope: Scope
    is_named: bool
    """Whether the caller named the thread; else a record names it."""
    is_pending: bool
    """Whether more is yet to come before a model is asked: calls at the end wait for their answers."""
    restored: RestoredHistory = field(default_factory=RestoredHistory)
    record: Record | None = None
    """The newest record that was applied or made."""
    receipt: Receipt | None = None
    is_mended: bool = False
    report: CompactionReport = field(default_factory=CompactionReport)
    host_state: str | None = None
    """The host's state for this compaction; None until it was asked."""
    pins: tuple[str, ...] | None = None
    """The texts that are pinned; None until they were read."""

    @property
    def format(self) -> Format:
        """Return the format of the messages."""
        return self.request.format

    @property
    def estimate(self) -> int:
        """Return what the whole request takes, as the meter counts."""
        return self.request.overhead + self.working.tokens

    @property
    def lookup_scope(self) -> Scope:
        """Return the thread by whose name keys are made: none for a conversation that nobody named."""
        return self.scope if self.is_named else self.scope._replace(thread="")

    def turns(self) -> list[int]:
        """Return the place in the original conversation of each message; one that was mended has the free place."""
        base, messages = self.restored.base.messages, self.working.messages
        if messages is base:
            return self.restored.turns
        known = {id(message): turn for message, turn in zip(base, self.restored.turns, strict=True)}
        taken = {known[id(message)] for message in messages if id(message) in known}
        turns: list[int] = []
        for message in messages:
            last = turns[-1] if turns else -1
            turns.append(known.get(id(message), max(last, 0) if last + 1 in taken else last + 1))
        return turns

    def find_replaced_indices(self) -> dict[int, int]:
        """Return, for each message that stands for one of the original conversation, the place of that one."""
        if self.record is None:
            return {}
        turns = find_original_turns(AppliedRecord(self.record, self.record.start), len(self.working.messages))
        return {j: turn for j, turn in enumerate(turns) if 0 <= turn < len(self.request.original)}

    def read_pins(self, setup: Setup) -> tuple[str, ...]:
        """Return the texts that are pinned by the settings and to the thread, read once for each compaction."""
        if self.pins is None:
            self.pins = (*setup.settings.pins, *(list_pins(setup.archive, self.scope) if self.is_named else ()))
        return self.pins

    def replace_list(self, setup: Setup, messages: list[Message]) -> None:
        """Work on another list; messages that were there before are not read or measured again."""
        working = self.measure_list(setup, messages)
        views = setup.read(messages, self.format, working.views, self.restored.turn_counts)
        self.working = WorkingList(messages, views, working.sizes)

    def restart(self, setup: Setup) -> None:
        """Reset to the list that it began with."""
        self.replace_list(setup, self.request.start)
        self.receipt, self.is_mended, self.report.notes = self.request.start_receipt, False, []

    def measure_list(self, setup: Setup, messages: list[Message], views: list[View] | None = None) -> WorkingList:
        """Return a list with its sizes and its views, which are read where they are not given.

        A message of the working list is not read again, nor measured again where it still says the same.
        """
        rows = zip(self.working.messages, self.working.views, self.working.sizes, strict=True)
        known = {id(message): (view, size) for message, view, size in rows}
        if views is None:
            views = [known[id(one)][0] if id(one) in known else self.format.read(one) for one in messages]
        sizes = []
        for message, view in zip(messages, views, strict=True):
            before, size = known.get(id(message), (None, 0))
            is_same = before is not None and before.with_origin(view.origin) == view
            sizes.append(size if is_same else setup.meter.message(view, message))
        return WorkingList(messages, views, zero_sizes_dropped_by_provider(views, sizes))
