"""The new list: what stays, in order and the same objects, with the summary turn in the place of what went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from unabridged.archive.protocol import Scope
from unabridged.authorship import TurnCounts, count_turn_endings
from unabridged.engine.hooks import raise_as_hook_raised
from unabridged.engine.state import Setup, State, WorkingList
from unabridged.errors import IllegalConversation
from unabridged.events import Kind
from unabridged.formats.base import Format, Message
from unabridged.history.difference import count_changed_prefix
from unabridged.history.lookup import choose_thread, compute_keys, find_free_id
from unabridged.languages import get_labels
from unabridged.legality.reasoning import strip_thinking_from
from unabridged.marks import format_summary_turn
from unabridged.messages import View
from unabridged.summary.brief import SummaryBody

Form = Literal["user", "pair", "alternate"]


class RecordIdentity(NamedTuple):
    """By what a record is found: its thread, its key and id, and how many messages of the base the key covers."""

    scope: Scope
    key: str
    id: str
    reach: int


_UNIDENTIFIED = RecordIdentity(Scope("", ""), "", "", 0)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A compaction of the list: what goes and what is exchanged, which record it becomes, and the list it makes."""

    kind: Kind
    gone: tuple[int, ...] = ()
    """Indices of what the summary stands for."""
    place: int = 0
    """The index at which the summary turn is put in."""
    edited: Mapping[int, Message] = field(default_factory=dict)
    """What stays and was cleared or shortened, by its index."""
    written: SummaryBody | None = None
    identity: RecordIdentity = _UNIDENTIFIED
    """Set by `assign_identity`."""
    result: WorkingList = field(default_factory=WorkingList)
    """Set by `complete_rewrite`."""
    turn_counts: TurnCounts = field(default_factory=dict)
    """How the assistant's turns ended, as far as they went; set by `complete_rewrite`."""
    settles: str | None = None
    """The early record whose swap this one settles."""

    @property
    def first(self) -> int:
        """Return where the list first changes; past its end when it does not."""
        if self.written is not None and self.written.native is not None:
            return 0
        return min([*self.gone[:1], *self.edited, *([self.place] if self.gone else []), 1 << 60])

    @property
    def summariser(self) -> str:
        """Return the model that wrote the summary, or `model-free`."""
        return self.written.summariser if self.written else "model-free"


def assign_identity(setup: Setup, state: State, draft: Rewrite) -> Rewrite:
    """Return the rewrite with the identity of its record, which covers all that is changed as far as is known by now.

    Where thinking is bound to what stood before it, everything behind the first change that thinks is changed too.
    Raise `TranscriptError` for a thread whose transcript can't be kept.
    """
    reach, working, base = max([*draft.gone[-1:], *draft.edited, -1]) + 1, state.working, state.restored.base
    if setup.find_thinking_rule(state.format) == "bound":
        thinking = (i + 1 for i in range(draft.first, len(working.views)) if working.views[i].reasoning)
        reach = max([reach, *thinking])
    if working.messages is not base.messages:
        reach = len(base.messages)
    key = _compute_key(setup, state, reach)
    scope = state.scope if state.is_named else choose_thread(setup.archive, state.scope, state.restored.applied, key)
    if setup.transcripts is not None:
        setup.transcripts.check(scope)
    record_id = find_free_id(setup.archive, scope, key, by_model=draft.summariser != "model-free")
    return replace(draft, identity=RecordIdentity(scope, key, record_id, reach))


def complete_rewrite(setup: Setup, state: State, draft: Rewrite) -> Rewrite:
    """Return the identified rewrite with its list; raise `IllegalConversation` where a provider would refuse it."""
    working, format_ = state.working, state.format
    summary = _render_summary_turn(setup, state, draft, draft.written) if draft.written else None
    new = rewrite_list(working, format_, draft, summary, setup.settings.form)
    read = [format_.read(message) for message in new]
    new = strip_thinking_from(new, read, format_, draft.first, setup.find_thinking_rule(format_))
    hooks = setup.host.hooks
    new = hooks.run_finalize(working.messages, new)
    counts = count_turn_endings(working.views, draft.gone, state.restored.turn_counts)
    with raise_as_hook_raised("finalize", hooks.finalize):
        result = state.measure_list(setup, new, setup.read(new, format_, counts=counts))
        if findings := setup.check(result.views, state):
            raise IllegalConversation(f"compacting would make it illegal: {findings[0].message}")
    # What keeps the roles in order may stand behind system messages that follow, and a host's last touch anywhere.
    identity = draft.identity
    reach = max(identity.reach, count_changed_prefix(state.restored.base.messages, new))
    if reach > identity.reach:
        identity = identity._replace(key=_compute_key(setup, state, reach), reach=reach)
    return replace(draft, identity=identity, result=result, turn_counts=counts)


def _compute_key(setup: Setup, state: State, reach: int) -> str:
    views = state.restored.base.views[: reach + 1]
    return compute_keys(views, setup.key_seed(state.lookup_scope, state.format))[reach]


def _render_summary_turn(setup: Setup, state: State, draft: Rewrite, written: SummaryBody) -> str:
    turns, ledger = state.turns(), written.ledger
    went = [turns[i] for i in draft.gone]
    first = ledger.first if min(went) < 0 else min(went)  # an earlier summary stands for what is older
    end = max(went) + 1 or ledger.end  # 0: an earlier summary is all that goes
    preface = setup.build_preface(ledger.language, draft.identity.scope, state.read_pins(setup))
    body = f"{preface}\n\n{setup.host.redact(written.text)}"
    return format_summary_turn(draft.identity.id, body, first, end, ledger.language)


def rewrite_list(
    working: WorkingList, format_: Format, draft: Rewrite, summary: str | None, form: Form = "user"
) -> list[Message]:
    """Return the list without what goes, with the summary turn and the edited messages, and with roles alternating.

    Where the gap brings two turns of one side together, an acknowledgment (or a bridge) keeps them apart, but only if
    the provider or the caller wants turns to alternate. A provider's own compaction stands first behind system
    messages.
    """
    written, views = draft.written, working.views
    words = get_labels(written.ledger.language if written else "")
    builder = _ListBuilder(format_, words, alternates=format_.alternates or form != "user")
    lost, first = set(draft.gone), next((i for i, view in enumerate(views) if view.role != "system"), 0)
    side: Literal["user", "assistant"] = "assistant" if form == "pair" else "user"
    for i, message in enumerate(working.messages):
        if written is not None and written.native is not None and i == first:
            builder.messages.append(written.native)
        if summary is not None and i == draft.place:
            builder.has_gap = True
            if form == "pair":
                builder.add(format_.text("user", words["question"]), "user")
            builder.add(format_.text(side, summary), side)
            builder.has_gap = True
        if i in lost:
            builder.has_gap = True
        else:
            builder.add(draft.edited.get(i, message), _find_side(views[i]))
    return builder.messages


class _ListBuilder:
    """The list so far, whose side spoke last, and whether something is missing since."""

    def __init__(self, format_: Format, words: Mapping[str, str], *, alternates: bool) -> None:
        self.messages: list[Message] = []
        self.has_gap = False
        self._format, self._words, self._alternates = format_, words, alternates
        self._last_side: str | None = None
        self._is_after_system = False

    def add(self, message: Message, side: str | None) -> None:
        """Append the message; at a gap, whatever keeps the roles in order first."""
        may_not_meet = self._format.lone_system and self._is_after_system
        if self.has_gap and side is None and self._format.lone_system:
            if self._is_after_system:
                self._add_filler("assistant")
            if self._last_side == "assistant":
                self._add_filler("user")
        # Two turns of one side may never meet behind a lone system message.
        elif self.has_gap and side is not None and side == self._last_side and (self._alternates or may_not_meet):
            self._add_filler("assistant" if side == "user" else "user")
        self.messages.append(message)
        self._is_after_system = side is None and self._last_side is not None
        if side is not None:
            self._last_side, self.has_gap = side, False

    def _add_filler(self, side: Literal["user", "assistant"]) -> None:
        text = self._words["acknowledgment" if side == "assistant" else "bridge"]
        self.messages.append(self._format.text(side, text))
        self._last_side = side


def _find_side(view: View) -> str | None:
    if view.role == "system":
        return None
    return "assistant" if view.role == "assistant" else "user"
