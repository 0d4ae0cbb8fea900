"""What `Compactor` returns: a conversation as it should be sent, or what a compaction would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from unabridged.events import Receipt
from unabridged.formats import Message


@dataclass(frozen=True, slots=True)
class Compaction:
    """The conversation as `fit` or `compact` returns it. Below the trigger, `messages` is the very list of the call."""

    messages: list[Message]
    """What to send."""
    changed: bool
    """Whether it is another list than the one of the call."""
    tokens_before: int
    """Tokens of the whole request as it came: messages, system prompt and tools."""
    tokens_after: int
    """Tokens of the whole request as it should be sent."""
    thread: str
    """The name of the conversation; empty until one that nobody named is compacted."""
    receipt: Receipt | None = None
    """The receipt of the newest compaction that was made, or found again for a history that is resent; None where
    nothing changed."""
    why: str = ""
    """Why nothing changed although the trigger was pulled."""
    estimate: int = field(default=0, repr=False)
    """Tokens as counted, before calibration: `observe` compares them with the provider's report."""
    fixed: tuple[Any, Any] = field(default=(None, None), repr=False)
    """The system prompt and the tools it was measured with."""
    refused: bool = False
    """Whether `overflowed` returned it, since the provider refused it once, when it was longer."""
    namespace: str | None = None
    """Whose conversation it is: `search`, `read` and `forget` take it with `thread`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which messages a compaction replaces by a summary turn, and which it shortens; the others stay as they are."""

    gone: tuple[int, ...] = ()
    """The messages that go."""
    place: int = 0
    """The index of the summary turn."""
    summary: int = 0
    """Tokens that the summary turn may take."""
    caps: Mapping[int, int] = field(default_factory=dict)
    """The messages that are shortened, each with the tokens that it may take."""
    kept: tuple[int, ...] = ()
    """The newest message of a person, where it stays in front of the tail."""
    tail: int = 0
    """Where the tail begins."""
    replaced: int = 0
    """The tokens that a summary's prose must stay below: of what goes, or any where a trigger by messages fired."""
    note: str = ""
    """How much less stays than `keep` asks for, in words."""


Fate = Literal["stays", "goes", "quoted", "shortened", "cleared", "mended"]
"""What becomes of a message: `quoted` goes, and its words stand in the summary turn; `mended` is changed or left out to
make the list legal."""


@dataclass(frozen=True, slots=True)
class PlannedMessage:
    """What `fit` would do with one message of the list, and why."""

    index: int
    """Its place in the list."""
    fate: Fate
    """What would become of it."""
    why: str
    """The reason, with numbers where there are any."""
    tokens: int | None
    """What it takes now; None where an earlier compaction replaced it."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What `fit` would do: the size, what pulls the trigger (None: nothing does), and the plan or why there is none."""

    tokens: int
    """The size of the request now."""
    budget: int
    """What it may take: the window less the reserve."""
    trigger: str | None
    """What pulls the trigger, with numbers; None: nothing does."""
    plan: Plan | None = None
    """Which messages would go."""
    clears: tuple[int, ...] = ()
    """The messages whose bulk would become stubs, where that is enough."""
    why: str = ""
    """Why there is no plan."""
    messages: tuple[PlannedMessage, ...] = field(default=(), repr=False)
    """For each message whether it stays, goes or is quoted, and why. Which words the summary turn has room to quote is
    exact without a model; beside a model's prose there may be room for more or fewer. Hooks are not called."""
