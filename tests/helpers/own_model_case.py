"""The model behind an agent that also writes its summaries, and what is said to it."""

from __future__ import annotations

from unabridged_testing.adapter_contract import ModelReply, Seen

TALK = "Noted." + " It is written down in the book of the pump house." * 12
WRITTEN = "Ada and the assistant went through the items of the pump house, and Marten keeps the book."
OTHER = "A function of the host wrote that the pump house was discussed, item by item, with Ada."
TURNS = 9


def note(text: str) -> str:
    """Write something down."""
    return f"noted: {text}"


class Brain:
    """The model behind an agent: it talks, and writes a summary where it is asked for one, which is without tools."""

    def __init__(self, *, fails: bool = False, written: str = WRITTEN) -> None:
        self.fails, self.written = fails, written
        self.talks: list[Seen] = []
        self.asks: list[Seen] = []

    def __call__(self, seen: Seen) -> ModelReply:
        if seen.tools:
            self.talks.append(seen)
            return ModelReply(TALK, used=seen.tokens)
        self.asks.append(seen)
        if self.fails:
            raise ConnectionError("no summary today")
        return ModelReply(self.written, used=seen.tokens)


def said(number: int) -> str:
    return f"Turn {number} is about " + " ".join(f"item{number}x{j}" for j in range(40))
