"""What a compaction works with: what it shares with all of its `Compactor` (`Setup`), and its own record (`State`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unabridged.archive.pins import pins_of
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.archive.transcripts import Transcripts
from unabridged.authorship import NO_TURNS, TurnCounts, with_origins
from unabridged.compaction.cut import counted
from unabridged.compaction.hooks import Hooks, Provider
from unabridged.compaction.trigger import Load, trigger_reason
from unabridged.events import Event, Receipt
from unabridged.formats import Format, Message
from unabridged.formats.base import ThinkingRule
from unabridged.history.lookup import turns_of
from unabridged.history.replay import Records, Standing
from unabridged.languages import labels
from unabridged.legal import Finding, check_views
from unabridged.legal.reasoning import reasoning_rule
from unabridged.measure.calibrate import Calibration
from unabridged.measure.meter import Meter
from unabridged.messages import Origin, View
from unabridged.settings import Limits, Prices, Settings
from unabridged.summarise.summary_body import Writers, render_pins

TRANSCRIPT_SHARE = 0.1
"""Of the trigger, what the line that names the transcript may take: a request must not fail to fit for its sake."""


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
    origin: Callable[[Message], Origin | None] | None
    emit: Callable[[Event], None]
    hooks: Hooks
    writers: Writers
    prices: Prices | None
    redact: Callable[[str], str]
    host_state: Provider | None = None
    transcripts: Transcripts | None = None

    def tokens(self, estimate: int) -> int:
        """An estimate in the provider's own tokens, as far as its reports have taught us."""
        return round(estimate * self.calibration.factor)

    def fits(self, estimate: int) -> bool:
        """Whether a request of this size is within the budget, as far as we can tell."""
        return self.tokens(estimate) <= self.limits.budget

    def may_fit(self, floor: int) -> bool:
        """Return whether a request that counts so many tokens may fit all the same: nothing but our estimate says no.

        Once reports have settled what our counts mean, or a provider has refused a request, it does not.
        """
        low = self.calibration.lowest(1 / self.meter.high)
        counted_alone = floor / self.calibration.factor / (1 + self.meter.error)
        return low is not None and self.limits == self.named_limits and counted_alone * low <= self.limits.budget

    @property
    def limit(self) -> int:
        """What a request must stay within: the budget in the meter's tokens, less what the meter may be off by."""
        return int(self.limits.budget / self.calibration.factor / (1 + self.meter.error))

    @property
    def target(self) -> int:
        """What a request should stay below: the trigger, in the meter's tokens."""
        return min(int(self.limits.target / self.calibration.factor), self.limit)

    def trigger_reason(self, load: Load) -> str | None:
        """Why a request of this size, in the meter's tokens, is to be compacted; None below the trigger."""
        scaled = Load(self.tokens(load.tokens), *load[1:])
        return trigger_reason(self.limits, scaled, over=load.tokens > self.limit)

    def size(self, format_: Format, message: Message) -> int:
        """What the message takes, as the meter counts."""
        return self.meter.message(format_.read(message), message)

    def read(
        self,
        messages: Sequence[Message],
        format_: Format,
        known: Sequence[View] | None = None,
        counts: TurnCounts = NO_TURNS,
    ) -> list[View]:
        """The views of a list with every turn's origin: as the caller says, else by rule."""
        views = list(known) if known is not None else [format_.read(message) for message in messages]
        return with_origins(views, counts, [self.origin(message) for message in messages] if self.origin else ())

    def thinking(self, format_: Format) -> ThinkingRule:
        """What the agent demands of thinking in its history."""
        return reasoning_rule(self.agent, format_)

    def check(self, views: Sequence[View], format_: Format, *, pending: bool) -> list[Finding]:
        """What the provider would refuse of these views."""
        return check_views(views, model=self.agent, format=format_, pending=pending)

    def front(self, language: str, scope: Scope, pins: Sequence[str] = ()) -> str:
        """Return what stands before the summary itself: how to read what went, where the agent can, and the pins."""
        file = self._transcript_line(language, scope)
        tools = labels(language)["recall"] if self.settings.recall else ""
        return "\n\n".join(part for part in (file, tools, render_pins([*self.settings.pins, *pins])) if part)

    def _transcript_line(self, language: str, scope: Scope) -> str:
        """Return which file has what went; "" without one, and where a small window has no room for its path."""
        if self.transcripts is None:
            return ""
        line = labels(language)["transcript"].format(path=self.transcripts.name(scope))
        return line if self.meter.text(line) <= self.named_limits.target * TRANSCRIPT_SHARE else ""

    def seed(self, scope: Scope, format_: Format) -> str:
        """What besides the messages shapes the result: another window or keep must not pick up this record."""
        bounds, settings = self.named_limits, self.settings
        shape = [*scope, format_.name, self.agent or "", bounds.window, bounds.budget]
        shape += [str(bounds.keep_tokens), str(bounds.keep_messages), bounds.with_model]
        shape += [f"aim {bounds.aim}"] * (bounds.aim is not None)
        shape += [list(settings.pins)] * bool(settings.pins)
        shape += [f"without {sorted(settings.without)}"] * bool(settings.without)
        shape += ["recall"] * settings.recall
        shape += [self.transcripts.seed] if self.transcripts is not None else []
        return json.dumps(shape)


@dataclass(slots=True)
class State:
    """The working record of one compaction. `pipeline` says in which order its fields are filled in."""

    scope: Scope
    format: Format
    system: Any
    tools: Any
    overhead: int
    given: list[Message]
    begun: list[Message]
    """The list that it began with: what was given, or what became of that when it was given before."""
    messages: list[Message]
    views: list[View]
    """With the origin of each turn found out."""
    sizes: list[int]
    named: bool = True
    """Whether the caller named the thread; else a record names it."""
    idle: float = 0.0
    """Seconds since the last call for this thread: a provider's cache may have expired."""
    by_hand: bool = False
    """Whether somebody compacts it whatever its size, and no model is about to be asked."""
    pending: bool = False
    """Whether more is yet to come before a model is asked: calls at the end wait for their answers."""
    asked: bool = False
    """Whether somebody asks for it, or a provider refused the request: no trigger is needed."""
    begun_receipt: Receipt | None = None
    """Of what was recorded already in the list that it began with."""

    # -- restore: what was compacted before
    record: Record | None = None
    """The newest record that was applied or made."""
    records: Records | None = None
    """Those of its namespace, as far as they were read."""
    standing: Standing | None = None
    known: frozenset[str] = frozenset()
    """The meanings of what earlier compactions put in."""
    turn_counts: TurnCounts = field(default_factory=dict)
    """How the assistant's turns ended that are no longer in the list."""
    broken: bool = False
    """Whether what was recorded makes a list of it today that would be refused."""
    base: list[Message] = field(default_factory=list)
    """The list that the next record is made against: as it was before anything was mended or cut."""
    base_views: list[View] = field(default_factory=list)
    base_turns: list[int] = field(default_factory=list)
    """The place of each message of the base in the original conversation; -1 for one that was put in."""

    # -- mend, write, store: what came of it
    mended: bool = False
    receipt: Receipt | None = None
    notes: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    """What failed, and so was done without."""
    cost: dict[str, float] = field(default_factory=dict)
    """What the summariser took so far, for whatever came of it."""
    failed_models: set[int | None] = field(default_factory=set)
    """The places of the summariser's models whose failure was told."""
    host_state: str | None = None
    """What the host told of its state for this compaction; None until it was asked."""
    pins: tuple[str, ...] | None = None
    """The texts that are pinned to the thread; None until they were read."""

    @property
    def estimate(self) -> int:
        """What the whole request takes, as the meter counts."""
        return self.overhead + sum(self.sizes)

    @property
    def load(self) -> Load:
        """What the trigger is held against."""
        return Load(self.estimate, len(self.messages))

    @property
    def lookup_scope(self) -> Scope:
        """The thread by whose name keys are made: none for a conversation that nobody named."""
        return self.scope if self.named else self.scope._replace(thread="")

    def set_base(self) -> None:
        """Have the next record made against the list as it is now."""
        self.base, self.base_views = self.messages, self.views
        self.base_turns = turns_of(self.standing, len(self.messages))

    def turns(self) -> list[int]:
        """The place in the original conversation of each message; one that was mended has the place that is free."""
        if self.messages is self.base:
            return self.base_turns
        known = {id(message): turn for message, turn in zip(self.base, self.base_turns, strict=True)}
        taken = {known[id(message)] for message in self.messages if id(message) in known}
        turns: list[int] = []
        for message in self.messages:
            last = turns[-1] if turns else -1
            turns.append(known.get(id(message), max(last, 0) if last + 1 in taken else last + 1))
        return turns

    def stands_for(self) -> dict[int, int]:
        """For each message that was put in for one message of the original conversation: which one it was."""
        if self.record is None:
            return {}
        turns = turns_of(Standing(self.record, self.record.start), len(self.messages))
        return {j: turn for j, turn in enumerate(turns) if 0 <= turn < len(self.given)}

    def spend(self, cost: Mapping[str, float]) -> None:
        """Add what a summary took, good or not."""
        self.cost = {key: self.cost.get(key, 0) + cost.get(key, 0) for key in {**self.cost, **cost}}


def pins_for(setup: Setup, state: State) -> tuple[str, ...]:
    """Return the texts that are pinned to the thread, read once for each compaction."""
    if state.pins is None:
        state.pins = pins_of(setup.archive, state.scope) if state.named else ()
    return state.pins


def put_list(setup: Setup, state: State, messages: list[Message]) -> None:
    """Have the state hold another list; messages that were there before are not read or measured again."""
    known = {id(m): (v, s) for m, v, s in zip(state.messages, state.views, state.sizes, strict=True)}
    read = [known.get(id(m)) or measure(setup, state.format, m) for m in messages]
    views = [view for view, _ in read]
    state.sizes = counted(views, [size for _, size in read])
    state.messages, state.views = messages, setup.read(messages, state.format, views, state.turn_counts)


def restart(setup: Setup, state: State) -> None:
    """Go back to the list that it began with."""
    put_list(setup, state, state.begun)
    state.receipt, state.mended, state.notes = state.begun_receipt, False, []


def measure(setup: Setup, format_: Format, message: Message) -> tuple[View, int]:
    """The view of a message, and what it takes."""
    view = format_.read(message)
    return view, setup.meter.message(view, message)


def measure_list(setup: Setup, state: State, messages: Sequence[Message], views: Sequence[View]) -> list[int]:
    """What each message takes; those of the state's that still say the same are not measured again."""
    known = {id(m): (view, tokens) for m, view, tokens in zip(state.messages, state.views, state.sizes, strict=True)}
    found = []
    for message, view in zip(messages, views, strict=True):
        was = known.get(id(message))
        same = was is not None and was[0].said_by(view.origin) == view
        found.append(was[1] if was is not None and same else setup.meter.message(view, message))
    return counted(views, found)
