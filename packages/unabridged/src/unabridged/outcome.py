"""What `Compactor` gives back: a conversation as it should be sent, or what would be made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unabridged.events import Receipt
from unabridged.formats import Message

if TYPE_CHECKING:
    from unabridged.compaction.plan import Plan


@dataclass(frozen=True, slots=True)
class Compaction:
    """What `fit` or `compact` made of a conversation. Below the trigger, `messages` is the very list that was given."""

    messages: list[Message]
    """What to send."""
    changed: bool
    """Whether it is another list than the one that was given."""
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
    """When the trigger was pulled and nothing changed: why not."""
    estimate: int = field(default=0, repr=False)
    """Tokens as counted, before calibration: what `observe` compares with the provider's report."""
    fixed: tuple[Any, Any] = field(default=(None, None), repr=False)
    """The system prompt and the tools it was measured with."""
    refused: bool = False
    """Whether the provider refused it once, when it was longer: what `overflowed` gave back."""
    namespace: str | None = None
    """Whose conversation it is; with `thread`, what `search`, `read` and `forget` take."""


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
