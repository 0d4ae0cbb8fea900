"""What the writer of a summary turn is told, how a model is asked for its prose, and what was written. Values only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unabridged.errors import SummaryFailed
from unabridged.history.rederive import Prose, Whole
from unabridged.ledger.entries import Ledger
from unabridged.messages import View

RESERVE = 4_096
"""Tokens left free for what the summariser writes, where the settings don't say."""
SPARE = 8
"""Prose may be longer by one part in so many before it is shortened, where nothing else needs the room."""
Price = Callable[[int, int], float | None]
"""What so many tokens of input and output cost together, in dollars; None where nobody knows."""


def no_price(_input: int, _output: int) -> float | None:
    """Return None: nobody knows what the tokens cost."""
    return None


@dataclass(frozen=True)
class Brief:
    """What is to be summarised, and within which limits. Sizes in tokens, as `count` counts them."""

    views: Sequence[View]
    """What goes, without earlier summary turns."""
    budget: int
    """What may be written besides people's words; where a model is asked, its prose."""
    count: Callable[[str], int]
    turns: Sequence[int] = ()
    """The number of each message in the original conversation; from 0 on when left out."""
    prior: str = ""
    """The prose of the earlier summary."""
    prior_ledger: Ledger | None = None
    rounds: int = 0
    """How often the earlier ledger was carried on since it was derived from the originals."""
    earlier: Sequence[Prose] = ()
    """The prose of the earlier rounds, oldest first."""
    whole: Whole | None = None
    """The original conversation that the summary stands for, when the ledger is to be derived anew."""
    stays: Sequence[tuple[int, View]] = ()
    """The messages right behind what goes, with their numbers."""
    beside: Sequence[View] = ()
    """What stays in the context: a summary may rest on that too."""
    kept: Collection[int] = ()
    """Turns whose own message stays beside the summary."""
    gone: Sequence[Any] = ()
    """What goes, as the caller's own objects, or as a hook of the host made them."""
    source: Sequence[View] | None = None
    """What goes, where `views` are what a hook of the host made of it; None where they are the same."""
    span: tuple[int, int] | None = None
    """Which turns go, half open, where `source` is set."""
    people: int = 0
    """The most tokens for people's own words."""
    total: int = 1 << 60
    """The most tokens of the whole body."""
    replaced: int = 0
    """What a model's prose must be smaller than."""
    spare: int = 0
    """What a model's prose may take beyond its budget before it is shortened: nothing else needs it."""
    state: str = ""
    """The host's state, ready to be shown."""
    also: str = ""
    """What else a summariser may know of: system prompt, tools, pins."""
    without: Collection[str] = ()
    """The sections (`summary_turn.LAYOUT`) that are not wanted."""
    ledger: Ledger | None = None
    """What is carried word for word; there when a model is asked."""

    def numbered(self) -> list[tuple[int, View]]:
        """The messages that go, each with its number in the original conversation; not those of the tail."""
        staying = {turn for turn, _ in self.stays}
        numbered = zip(self.turns or range(len(self.views)), self.views, strict=True)
        return [(turn, view) for turn, view in numbered if turn not in staying]

    def is_blank(self) -> bool:
        """Return whether a hook of the host left nothing to show."""
        return self.source is not None and not any(view.whole_text() or view.media for view in self.views)


@dataclass(frozen=True, slots=True)
class Live:
    """The live prompt, for asking in its continuation: the very objects the agent's next request would send."""

    messages: Sequence[Any]
    tokens: int
    """What the whole of it takes."""
    system: Any = None
    tools: Any = None
    kept: int = 0
    """How many of the newest messages stay after the compaction."""
    tail: int = 0
    """What those take."""

    def older(self) -> Live:
        """The prompt up to what stays: a beginning of it, which a provider's cache serves as well."""
        if not 0 < self.kept < len(self.messages):
            return self
        return replace(self, messages=self.messages[: -self.kept], tokens=self.tokens - self.tail, kept=0, tail=0)


@dataclass(frozen=True, slots=True)
class Summariser:
    """The model that is asked, and how."""

    window: int
    """Its own, in tokens."""
    name: str = ""
    instruction: str | None = None
    """A prompt in the place of the built-in one; sent as it is, with the conversation and nothing else."""
    max_input: int | None = None
    """Show at most so much, the newest; by default everything is shown."""
    live: Live | None = None
    """The live prompt, when it is asked as a suffix of that; None when it is asked apart."""
    language: str = ""
    """The language to write in, by its code; by default the conversation's."""
    reserve: int | None = None
    """Tokens left free for its reply, and the most it may write; None: `RESERVE`, or what its prose may take."""
    price: Price = no_price
    learn: Callable[[int | None, int], object] = lambda _place, _window: None
    """Is told the tokens that the model at a place turned out to take."""


def with_dollars(cost: dict[str, float], price: Price) -> dict[str, float]:
    """Return the cost with dollars in it, where prices and tokens are known."""
    dollars = price(int(cost["input"]), int(cost["output"])) if "input" in cost else None
    return cost if dollars is None else {**cost, "dollars": dollars}


@dataclass(frozen=True, slots=True)
class Written:
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
    """As in `Brief`, for the next time."""
    failed: tuple[SummaryFailed, ...] = ()
    """The errors of models in whose place another one wrote, with what each took for nothing."""
