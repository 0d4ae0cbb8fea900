"""The new list: what stays, in order and the same objects, with the summary turn in the place of what went."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from unabridged.archive.protocol import Scope
from unabridged.authorship import TurnCounts, count_turns
from unabridged.compaction.hooks import blame
from unabridged.compaction.state import Setup, State, measure_list, pins_for
from unabridged.errors import IllegalConversation
from unabridged.events import Kind
from unabridged.formats.base import Format, Message
from unabridged.history.difference import changed_until
from unabridged.history.lookup import free_id, keys_of, thread_for
from unabridged.languages import labels
from unabridged.legal.reasoning import strip_from
from unabridged.marks import summary_text
from unabridged.messages import View
from unabridged.summarise.brief import Written

_NOWHERE = Scope("", "")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A compaction of the list: what goes and what is exchanged, which record it becomes, and the list it makes."""

    kind: Kind
    gone: tuple[int, ...] = ()
    """Indices of what the summary stands for."""
    place: int = 0
    edited: Mapping[int, Message] = field(default_factory=dict)
    """What stays and was cleared or shortened, by its index."""
    written: Written | None = None

    # -- identify
    scope: Scope = _NOWHERE
    key: str = ""
    record_id: str = ""
    reach: int = 0
    """How many messages of the base the key covers."""

    # -- build
    messages: list[Message] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    turn_counts: TurnCounts = field(default_factory=dict)
    """How the assistant's turns ended, as far as they went."""
    settles: str | None = None
    """The early record whose swap this one settles."""

    @property
    def first(self) -> int:
        """Where the list first changes; past its end when it does not."""
        return min([*self.gone[:1], *self.edited, *([self.place] if self.gone else []), 1 << 60])


def identify(setup: Setup, state: State, draft: Rewrite) -> Rewrite:
    """The rewrite with the key and the id of its record, which cover all that is changed as far as is known by now.

    A thread whose transcript can't be kept is a `TranscriptError`.
    Where thinking is bound to what stood before it, everything behind the first change that thinks is changed too.
    """
    reach = max([*draft.gone[-1:], *draft.edited, -1]) + 1
    if setup.thinking(state.format) == "bound":
        reach = max([reach, *(i + 1 for i in range(draft.first, len(state.views)) if state.views[i].reasoning)])
    if state.messages is not state.base:
        reach = len(state.base)
    key = _key(setup, state, reach)
    scope = state.scope if state.named else thread_for(setup.archive, state.scope, state.standing, key)
    if setup.transcripts is not None:
        setup.transcripts.check(scope)
    by_model = draft.written is not None and draft.written.summariser != "model-free"
    name = free_id(setup.archive, scope, key, by_model=by_model)
    return replace(draft, scope=scope, key=key, record_id=name, reach=reach)


def build(setup: Setup, state: State, draft: Rewrite) -> Rewrite:
    """The identified rewrite with its list, proved to be legal."""
    language = draft.written.ledger.language if draft.written else ""
    new = rewrite_list(
        state.messages,
        state.views,
        format_=state.format,
        gone=draft.gone,
        place=draft.place,
        summary=_summary_text(setup, state, draft, draft.written) if draft.written else None,
        edited=draft.edited,
        form=setup.settings.form,
        language=language,
    )
    read = [state.format.read(message) for message in new]
    new = strip_from(new, read, state.format, draft.first, setup.thinking(state.format))
    new = setup.hooks.run_finalize(state.messages, new)
    counts = count_turns(state.views, draft.gone, state.turn_counts)
    with blame("finalize", setup.hooks.finalize):
        views = setup.read(new, state.format, counts=counts)
        sizes = measure_list(setup, state, new, views)
        if findings := setup.check(views, state.format, pending=state.pending):
            raise IllegalConversation(f"compacting would make it illegal: {findings[0].message}")
    # What keeps the roles in order may stand behind system messages that follow, and a host's last touch anywhere.
    reach = max(draft.reach, changed_until(state.base, new))
    key = draft.key if reach == draft.reach else _key(setup, state, reach)
    return replace(draft, key=key, reach=reach, messages=new, views=views, sizes=sizes, turn_counts=counts)


def _key(setup: Setup, state: State, reach: int) -> str:
    return keys_of(state.base_views[: reach + 1], setup.seed(state.lookup_scope, state.format))[reach]


def _summary_text(setup: Setup, state: State, draft: Rewrite, written: Written) -> str:
    turns = state.turns()
    went = [turns[i] for i in draft.gone]
    first = written.ledger.first if min(went) < 0 else min(went)  # an earlier summary stands for what is older
    end = max(went) + 1 or written.ledger.end  # 0: an earlier summary is all that goes
    language = written.ledger.language
    front = setup.front(language, draft.scope, pins_for(setup, state))
    body = f"{front}\n\n{setup.redact(written.text)}"
    return summary_text(draft.record_id, body, first, end, language)


def rewrite_list(
    messages: Sequence[Message],
    views: Sequence[View],
    *,
    format_: Format,
    gone: Collection[int],
    place: int,
    summary: str | None,
    edited: Mapping[int, Message],
    form: Literal["user", "pair", "alternate"] = "user",
    language: str = "",
) -> list[Message]:
    """The list with `gone` left out, the summary turn at `place`, `edited` messages exchanged, and roles alternating.

    Where the gap brings two turns of one side together, an acknowledgment (or a bridge) keeps them apart, but only if
    the provider or the caller wants turns to alternate.
    """
    built = _Built(format_, labels(language), alternates=format_.alternates or form != "user")
    lost = set(gone)
    for i, message in enumerate(messages):
        if summary is not None and i == place:
            built.gap = True
            if form == "pair":
                built.add(format_.text("user", labels(language)["question"]), "user")
            side: Literal["user", "assistant"] = "assistant" if form == "pair" else "user"
            built.add(format_.text(side, summary), side)
            built.gap = True
        if i in lost:
            built.gap = True
        else:
            built.add(edited.get(i, message), _side(views[i]))
    return built.messages


class _Built:
    """The list so far, whose side spoke last, and whether something is missing since."""

    def __init__(self, format_: Format, words: Mapping[str, str], *, alternates: bool) -> None:
        self.messages: list[Message] = []
        self.gap = False
        self._format, self._words, self._alternates = format_, words, alternates
        self._side: str | None = None
        self._after_system = False

    def add(self, message: Message, side: str | None) -> None:
        """Append the message; at a gap, whatever keeps the roles in order first."""
        if self.gap and side is None and self._format.lone_system:
            if self._after_system:
                self._say("assistant")
            if self._side == "assistant":
                self._say("user")
        elif self.gap and side is not None and side == self._side and self._must_part():
            self._say("assistant" if side == "user" else "user")
        self.messages.append(message)
        self._after_system = side is None and self._side is not None
        if side is not None:
            self._side, self.gap = side, False

    def _must_part(self) -> bool:
        """Return whether two turns of one side may not meet here: behind a lone system message they never may."""
        return self._alternates or (self._format.lone_system and self._after_system)

    def _say(self, side: Literal["user", "assistant"]) -> None:
        said = self._words["acknowledgment" if side == "assistant" else "bridge"]
        self.messages.append(self._format.text(side, said))
        self._side = side


def _side(view: View) -> str | None:
    if view.role == "system":
        return None
    return "assistant" if view.role == "assistant" else "user"
