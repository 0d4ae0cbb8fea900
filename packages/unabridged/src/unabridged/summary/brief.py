"""What a summary turn is made from, how a model is asked for its prose, and what was written. Values only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from unabridged.errors import SummaryFailed
from unabridged.messages import View
from unabridged.summary.ledger import Ledger
from unabridged.summary.originals import EarlierProse, OriginalMessages
from unabridged.text_tools import Count

DEFAULT_RESERVE_TOKENS = 4_096
"""Tokens left free for what the summariser writes, where the settings don't say."""
SPARE_DIVISOR = 8
"""Prose may be longer by one part in so many before it is shortened, where nothing else needs the room."""


class SummaryLimits(NamedTuple):
    """The tokens that the parts of a summary turn's body may take, as `count` counts them."""

    budget: int
    """For everything but people's words; where a model is asked, for its prose."""
    people: int = 0
    """For people's own words."""
    total: int = 1 << 60
    """For the whole body."""
    replaced: int = 0
    """What a model's prose must be smaller than."""
    spare: int = 0
    """What a model's prose may take beyond its budget before it is shortened: nothing else needs it."""


class CarriedSummary(NamedTuple):
    """What is remembered of the summary turn that goes."""

    prose: str = ""
    ledger: Ledger | None = None
    rounds: int = 0
    """How often the ledger was carried on since it was derived from the originals."""
    proses: Sequence[EarlierProse] = ()
    """The prose of all earlier rounds, oldest first."""


class Surroundings(NamedTuple):
    """What stays in the request beside the summary turn."""

    following: Sequence[tuple[int, View]] = ()
    """The messages right behind what goes, with their numbers."""
    views: Sequence[View] = ()
    """All messages that stay: a summary may rest on them too."""
    kept: Collection[int] = ()
    """The numbers of messages that stay although they stand in the middle of what goes."""
    other_text: str = ""
    """System prompt, tools and pins, which a summariser may know of."""


class SourceBeforeHook(NamedTuple):
    """What went before a host's hook condensed it, and which turns that was, half open."""

    views: Sequence[View]
    span: tuple[int, int] | None = None


@dataclass(frozen=True)
class Brief:
    """What is to be summarised, and within which limits."""

    views: Sequence[View]
    """What goes, without earlier summary turns; where there is a hook of the host, as that made it."""
    limits: SummaryLimits
    count: Count
    turns: Sequence[int] = ()
    """The number of each message in the original conversation; from 0 on when left out."""
    earlier: CarriedSummary = field(default_factory=CarriedSummary)
    originals: OriginalMessages | None = None
    """The original conversation that the summary stands for, when the ledger is to be derived anew."""
    beside: Surroundings = field(default_factory=Surroundings)
    objects: Sequence[Any] = ()
    """What goes, as the caller's own objects, or as a hook of the host made them."""
    hook_input: SourceBeforeHook | None = None
    state: str = ""
    """The host's state, ready to be shown."""
    without: Collection[str] = ()
    """The sections (`layout.LAYOUT`) that are left out."""
    ledger: Ledger | None = None
    """What is carried word for word; set when a model is asked."""

    def list_numbered_messages(self) -> list[tuple[int, View]]:
        """Return the messages that go, each with its number in the original conversation; not those of the tail."""
        staying = {turn for turn, _ in self.beside.following}
        numbered = zip(self.turns or range(len(self.views)), self.views, strict=True)
        return [(turn, view) for turn, view in numbered if turn not in staying]

    def has_nothing_to_show(self) -> bool:
        """Return whether a hook of the host left nothing to show."""
        return self.hook_input is not None and not any(view.whole_text() or view.media for view in self.views)

    def choose_ledger_source(self) -> OriginalMessages:
        """Return what the ledger is gathered from: all of the originals where they were read, else what goes."""
        return self.originals or OriginalMessages(list(self.views), list(self.turns))


@dataclass(frozen=True, slots=True)
class LivePrompt:
    """The live prompt, for asking in its continuation: the very objects that the agent's next request would send."""

    messages: Sequence[Any]
    tokens: int
    system: Any = None
    tools: Any = None
    kept: int = 0
    """How many of the newest messages stay after the compaction."""
    kept_tokens: int = 0

    def drop_kept_messages(self) -> LivePrompt:
        """Return the prompt without the newest messages, which stay: a beginning that a cache can serve."""
        if not 0 < self.kept < len(self.messages):
            return self
        tokens = self.tokens - self.kept_tokens
        return replace(self, messages=self.messages[: -self.kept], tokens=tokens, kept=0, kept_tokens=0)


@dataclass(frozen=True, slots=True)
class Summariser:
    """The model that is asked, and how."""

    window: int
    name: str = ""
    instruction: str | None = None
    """A prompt in the place of the built-in one; sent as it is, with the conversation and nothing else."""
    max_input: int | None = None
    """Show at most so many tokens, the newest; by default everything is shown."""
    live: LivePrompt | None = None
    """The live prompt, when it is asked as a suffix of that; None when it is asked apart."""
    reserve: int | None = None
    """Tokens left free for its reply, and the most it may write; None: the default, or what its prose may take."""
    learn_window: Callable[[int | None, int], object] = lambda _place, _window: None
    """Called with the index of a model and the tokens that it turned out to take."""


@dataclass(frozen=True, slots=True)
class SummaryBody:
    """The body of a summary turn, what is remembered of it, and what it cost."""

    text: str
    ledger: Ledger
    prose: str = ""
    summariser: str = "model-free"
    cost: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    """What of the model's prose did not hold."""
    dropped: int = 0
    """How many messages of people found no place."""
    rounds: int = 0
    """As in `CarriedSummary`, for the next time."""
    failed: tuple[SummaryFailed, ...] = ()
    """The errors of models in whose place another one wrote, with what each took for nothing."""
    native: Any = None
    """The message with the provider's own compaction, which stands first in the list."""
