"""What people asked for and what they want always, as values: what `intent` finds, and what a ledger carries of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["open", "waiting", "interrupted", "finished", "withdrawn", "left"]
"""`interrupted`: broken off, and the person has not gone on with it; `left`: so, and the person dropped it,
or much else came after it."""
GOING: frozenset[State] = frozenset({"open", "waiting", "interrupted"})
"""The states of what people still wait for."""
Asks = Literal["", "question", "proposal", "offer"]


@dataclass(frozen=True, slots=True)
class Request:
    """One message of a person, and what became of it."""

    turn: int
    text: str
    """The person's own words; "[…]" for what a host put there, and for one of several things that was dropped since."""
    kind: str = "new"
    """What the words do to the request before: `new`, `more` (goes on with it and says something), `correct`, `resume`,
    `hold`, `withdraw`, `ack`, `steer` (said when refusing a call: it goes on with the work and finishes nothing)."""
    worked: int = 0
    """0: nothing was done on it, 1: tools looked, 2: tools changed something."""
    answer: str = ""
    """The assistant's closing words before the next person spoke, shortened; empty while it was still at work."""
    answer_turn: int = -1
    asks: Asks = ""
    """Whether those words end by asking the person back, by proposing a step, or by offering more."""
    stopped: bool = False
    """Whether the assistant was interrupted, its call refused or its words cut off, and nothing came after that."""
    offer: str = ""
    """What those words offer, until the person has answered: options to choose from, and the last question."""
    state: State = "open"
    doubtful: bool = False
    """Whether it reads like another system's summary, so that nobody can tell if a person said it."""
    beside: str = ""
    """What so reads in the same message, in a block of its own."""
    context: str = ""
    """What the assistant had asked or offered, when these words reply to it: of several options, the one chosen."""

    @property
    def is_silent(self) -> bool:
        """Whether it is doubtful and nothing was done about it: then it answers nothing."""
        return self.doubtful and not (self.worked or self.answer or self.stopped)


@dataclass(frozen=True, slots=True)
class Rule:
    """A sentence in which a person says what holds from then on; a substring of their message."""

    turn: int
    text: str
    strength: int = 2
    """3: never, always, must; 2: a clear wish or limit. Records of older versions have 1: perhaps for the moment."""
    lifted: int = -1
    """The turn in which the person lifted it."""
    doubtful: bool = False
    """Whether it stands in what may be another system's summary: then it is told as that, and rules nothing."""


@dataclass(frozen=True, slots=True)
class Lift:
    """A sentence in which a person takes a rule back; the rule may stand in an older ledger."""

    turn: int
    text: str
    used: bool = False
    """Whether it lifted a rule; one that did not is shown among the rules, as what the person said last."""


@dataclass(frozen=True, slots=True)
class Lead:
    """What the block did before its first person spoke: it belongs to the last request of the block before."""

    worked: int = 0
    answer: str = ""
    answer_turn: int = -1
    asks: Asks = ""
    stopped: bool = False
    offer: str = ""
