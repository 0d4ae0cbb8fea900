"""A question for a model, its reply, and the two ways it can fail. Values only: nothing here talks to anybody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unabridged.asking.overflow import Overflow
from unabridged.errors import SummaryFailed
from unabridged.measure.calibrate import Usage

Stop = Literal["end", "length", "tool", "refusal", "other"]
"""Why a model stopped: it was done, ran out of tokens, called a tool, refused or was filtered, or something else."""

FailedBecause = Literal["timeout", "cancelled", "cool-down", "too-long", "refused", "unavailable"]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a summariser is asked.

    Standalone: `messages` is empty and everything stands in `instruction`. Suffix: `system`, `tools` and `messages` are
    the live prompt's own objects, to be sent exactly as they are, and `instruction` goes last, as a user's turn. The
    lists are copies made for this call, what is in them is the caller's own: append to them, but change no message.
    """

    system: Any = None
    messages: Sequence[Any] = ()
    tools: Any = None
    instruction: str = ""
    max_tokens: int = 4_096
    deadline: float | None = None
    """Seconds this call may take; the one who asks stops waiting then."""
    again: int = 0
    """How many replies to the same question were rejected before."""
    window: int | None = None
    """The summariser's window that it was made for, in tokens; None where nobody said."""
    gone: Sequence[Any] = ()
    """The messages that go, the caller's own objects, for a summariser that reads those in place of a prompt."""
    budget: int = 0
    """The tokens the summary may take, for one that can't read it in the instruction."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. `stop` is None where nobody can tell why it stopped.

    Each field may be given as an SDK has it (`replies.read_reply`): no text, content blocks, its own usage object.
    """

    text: str
    stop: Stop | None = None
    usage: Usage | None = None
    calls: int = 0
    """Tool calls in the reply."""
    reasoning: str = ""
    model: str = ""
    """Who answered."""
    notes: tuple[str, ...] = ()
    """Who failed before, and why."""
    place: int = 0
    """Which of the models answered, as the one who asks numbers them."""
    failed: tuple[SummaryFailed, ...] = ()
    """The errors of those that failed before."""


class AskFailed(SummaryFailed):
    """No model answered: `why` says in a word what happened; `overflow` is set when the ask was too long for it."""

    def __init__(
        self,
        why: FailedBecause,
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
        self.problems = problems
        self.calls = calls
        self.usage = usage
        who = ", ".join(models) or "the model"
        reason = f"no reply of {who} was usable in {calls} call{'s' * (calls != 1)} ({', '.join(problems)})"
        super().__init__(message, reason=reason, place=place)


def cost_of(calls: int, usage: Usage | None) -> dict[str, float]:
    """What so many answered calls took, as a receipt has it."""
    cost: dict[str, float] = {"calls": calls}
    if usage is not None:
        cost |= {name: getattr(usage, name) for name in ("input", "cache_read", "cache_write", "output")}
    return cost


def add_usage(first: Usage | None, second: Usage | None) -> Usage | None:
    """What two calls used together; None only when neither said."""
    if first is None or second is None:
        return first or second
    return Usage(
        first.input + second.input,
        first.cache_read + second.cache_read,
        first.cache_write + second.cache_write,
        first.output + second.output,
    )
