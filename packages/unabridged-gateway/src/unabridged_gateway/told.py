"""What is told of a request when it is over: names and numbers, nothing that anybody said, and no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from unabridged.compactor import Compaction
    from unabridged.measure.calibrate import Usage

Way = Literal["passed", "unparsed", "parsed", "rewritten"]
"""How a body went on: as it came while it came, as it came by its length alone, as it came once read, made anew."""


class Told(NamedTuple):
    """What is told of one request with a conversation in it."""

    way: Way = "passed"
    body: bytes = b""
    """As it reads: only its length is told, and the model that it names."""
    model: str = ""
    """"" where nobody had to read it."""
    note: str = ""
    """Why it went on as it came; what follows a colon is for the client alone."""
    fitted: Compaction | None = None
    again: bool = False
    """Whether it was refused as too long, and sent once more."""
    usage: Usage | None = None
    """What the provider reported, where that was read."""


NOTHING = Told()
