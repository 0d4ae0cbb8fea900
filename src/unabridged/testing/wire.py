"""The steps of a generated conversation as one provider's messages; what all formats share."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Literal

from unabridged.formats import Anthropic
from unabridged.testing.script import Shape

What = Literal[
    "system", "person", "mixed", "preamble", "call", "result", "answer", "action", "observation", "reasoning", "sealed"
]
"""What a message is, known from how it was made. `mixed`: tool results and a person's words in one message."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""The smallest picture, base64."""


@dataclass(slots=True)
class Wire:
    """Collects messages together with what each is, and the words of people."""

    shape: Shape
    rng: Random
    messages: list[Any] = field(default_factory=list)
    what: list[What] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    last_person: int = -1
    ids: int = 0
    cache_marks: int = 0

    def add(self, message: Any, what: What, said: str = "") -> None:
        """One more message."""
        if what == "person":
            self.last_person = len(self.messages)
        self.messages.append(message)
        self.what.append(what)
        self.said.append(said)

    def again(self) -> None:
        """The last person's message, the very object, once more."""
        index = self.last_person
        self.add(self.messages[index], "person", self.said[index])

    def new_id(self, prefix: str) -> str:
        """An id no other message of this conversation has."""
        self.ids += 1
        return f"{prefix}_{self.shape.seed % 997}_{self.ids}"

    def often(self, share: float) -> bool:
        """True in about this share of the cases."""
        return self.rng.random() < share

    def odd(self, share: float) -> bool:
        """The same, but only in shapes with oddities."""
        return "odd" in self.shape.extras and self.rng.random() < share

    def as_object(self, *texts: str) -> bool:
        """Whether the next message should be an SDK object: asked for, installed, and its text is whole Unicode."""
        if "sdk" not in self.shape.extras or self.rng.random() < 0.3:
            return False
        return sdk_installed(self.shape.format) and all(is_whole(text) for text in texts)


@cache
def sdk_installed(format_: str) -> bool:
    """Whether the SDK whose objects this format's messages may be is there."""
    try:
        importlib.import_module("anthropic.types" if format_ == Anthropic.name else "openai.types")
    except ImportError:
        return False
    return True


def is_whole(text: str) -> bool:
    """Whether the text has no half of a surrogate pair, which no SDK object can hold."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
