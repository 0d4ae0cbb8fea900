"""A question for a model, its reply, and the two ways it can fail. Values only: nothing here talks to a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Literal

from unabridged.asking.overflow import Overflow
from unabridged.errors import SummaryFailed
from unabridged.tokens.calibrate import Usage

Stop = Literal["end", "length", "tool", "refusal", "other"]
"""Why a model stopped: it was done, ran out of tokens, called a tool, refused or was filtered, or something else."""

FailureKind = Literal["timeout", "cancelled", "cool-down", "too-long", "refused", "unavailable"]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a summariser is asked.

    Standalone: `messages` is empty and everything is in `instruction`. Suffix: `system`, `tools` and `messages` are the
    live prompt's own objects, to be sent exactly as they are, and `instruction` goes last, as a user's turn. The lists
    are copies made for this call, what is in them is the caller's own: append to them, but change no message.
    """

    system: Any = None
    messages: Sequence[Any] = ()
    tools: Any = None
    instruction: str = ""
    max_tokens: int = 4_096
    deadline: float | None = None
    """Seconds this call may take; after that nobody waits for the answer."""
    again: int = 0
    """How many replies to the same question were rejected before."""
    window: int | None = None
    """The window, in tokens, of the summariser that it was made for; None where it is unknown."""
    gone: Sequence[Any] = ()
    """The messages that go, the caller's own objects, for a summariser that reads those in place of a prompt."""
    budget: int = 0
    """The tokens the summary may take, for a summariser that can't read it in the instruction."""
    native: bool = False
    """Whether the provider's own compaction of `messages` is wanted, and no prose: see `Reply.native`."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. `stop` is None where it is unknown why it stopped.

    Each field may be given as an SDK has it (`replies.read_reply`): no text, content blocks, its own usage object.
    """

    text: str
    stop: Stop | None = None
    usage: Usage | None = None
    calls: int = 0
    """Tool calls in the reply."""
    reasoning: str = ""
    model: str = ""
    """The name of the model that answered."""
    notes: tuple[str, ...] = ()
    """Which model failed before, and why."""
    place: int = 0
    """Index of the model that answered: 0 is the first, 1 the fallback."""
    failed: tuple[SummaryFailed, ...] = ()
    """The errors of those that failed before."""
    native: Any = None
    """The message that holds the provider's own compaction; an `AskFailed` where it could not be had."""


class AskFailed(SummaryFailed):
    """No model answered: `why` names the kind of failure; `overflow` is set when the ask was too long for it."""

    def __init__(
        self,
        why: FailureKind,
        message: str,
        overflow: Overflow | None = None,
        *,
        reason: str = "",
        place: int | None = None,
    ) -> None:
        self.why = why
        self.overflow = overflow
        self.resting = why == "cool-down"
        super().__init__(message, reason=reason, place=place)


class Rejected(SummaryFailed):
    """The model answered, and no reply was good enough; `problems` names what was wrong with the last one."""

    def __init__(
        self,
        message: str,
        *,
        problems: tuple[str, ...],
        calls: int,
        usage: Usage | None,
        models: Iterable[str] = (),
        place: int | None = None,
    ) -> None:
        self.problems, self.calls, self.usage = problems, calls, usage
        who = ", ".join(models) or "the model"
        reason = f"no reply of {who} was usable in {calls} call{'s' * (calls != 1)} ({', '.join(problems)})"
        super().__init__(message, reason=reason, place=place)


def build_call_cost(calls: int, usage: Usage | None) -> dict[str, float]:
    """Return the number of these answered calls and what they used, as a receipt has it."""
    return {"calls": calls, **(asdict(usage) if usage is not None else {})}


def add_usage(first: Usage | None, second: Usage | None) -> Usage | None:
    """Return the sum of two calls' usage; None where neither reported any."""
    if first is None or second is None:
        return first or second
    return Usage(*map(sum, zip(astuple(first), astuple(second), strict=True)))
