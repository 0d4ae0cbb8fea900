"""The parts of generated conversations, and what the writers of all wire formats share."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, ClassVar, Literal

Ending = Literal["asked", "working", "answered"]
Kind = Literal["chat", "agent", "marathon", "protocol"]
EXTRAS = ("reasoning", "media", "system", "sdk", "twins", "opaque", "odd", "giant", "interrupted")
"""What a conversation may hold besides words and tool rounds; see `Shape.extras`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """All that decides a generated conversation. Equal shapes give equal conversations; its repr is a reproduction.

    `kind`: `chat` has no tools, `agent` has tool rounds, `marathon` is one request with many rounds, `protocol` has
    actions and observations as plain text. `extras` are names from `EXTRAS`. `bulk` is the usual length, in
    characters, of what a tool answers.
    """

    format: str
    seed: int = 0
    kind: Kind = "agent"
    turns: int = 3
    rounds: int = 2
    width: int = 2
    bulk: int = 200
    ending: Ending = "working"
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call with its result."""

    name: str
    arguments: str
    result: str
    error: bool = False


MessageKind = Literal[
    "system", "person", "mixed", "preamble", "call", "result", "answer", "action", "observation", "reasoning", "sealed"
]
"""The kind of a message, known from how it was made. `mixed`: tool results and a person's words in one message."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""The smallest picture, base64."""


class Wire:
    """Writes what happens as one provider's messages, with the kind of each and the words of people."""

    format: ClassVar[str]
    sdk: ClassVar[str] = ""
    """The module that has the SDK's objects, if it is installed; "" for an SDK of plain dicts."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.rng = Random(shape.seed + 1)  # noqa: S311 - repeatable on purpose, no secret
        self.messages: list[Any] = []
        self.what: list[MessageKind] = []
        self.said: list[str] = []
        self.ids = 0

    @classmethod
    def refusals(cls, messages: Sequence[Any]) -> list[str]:
        """Return why the provider would refuse the list, each reason with the index it is about."""
        raise NotImplementedError

    def write_system_message(self, text: str) -> None:
        """Write what the host says."""

    def write_person_message(self, text: str, *, media: bool = False, joins: bool = False) -> None:
        """Write what a person says, with or without media; `joins`: in one message with the results before it."""

    def write_observation(self, text: str) -> None:
        """Write a text protocol's observation: a `user` turn that no person wrote."""
        self.add({"role": "user", "content": text}, "observation")

    def write_model_text(self, text: str, thought: str, what: Literal["answer", "action"]) -> None:
        """Write an answer that ends the turn, or, in a text protocol, an action."""

    def write_tool_round(self, uses: Sequence[ToolCall], order: Sequence[int], text: str, thought: str) -> None:
        """Write calls of tools, all at once, and their answers in this order."""

    def write_sealed_item(self) -> None:
        """Write a provider's own item that nobody else can read, where there is such a thing."""

    def end(self) -> None:
        """Finish the conversation."""

    def repeat_person_message(self) -> None:
        """Write the very object of the last person's message once more."""
        index = max(index for index, what in enumerate(self.what) if what == "person")
        self.add(self.messages[index], "person", self.said[index])

    def add(self, message: Any, what: MessageKind, said: str = "") -> None:
        """Add a message."""
        self.messages.append(message)
        self.what.append(what)
        self.said.append(said)

    def new_id(self, prefix: str) -> str:
        """Return an id that no other message of this conversation has."""
        self.ids += 1
        return f"{prefix}_{self.shape.seed % 997}_{self.ids}"

    def draw_bool(self, share: float) -> bool:
        """Return true with about this probability."""
        return self.rng.random() < share

    def draw_bool_if_odd(self, share: float) -> bool:
        """Return true with about this probability, but only in shapes with the extra `odd`."""
        return "odd" in self.shape.extras and self.rng.random() < share

    def should_be_sdk_object(self, *texts: str) -> bool:
        """Return whether the next message should be an SDK object: asked for, installed, and its text whole Unicode."""
        if "sdk" not in self.shape.extras or self.rng.random() < 0.3:
            return False
        return _is_installed(self.sdk) and all(map(_is_valid_unicode, texts))

    def to_sdk_object(self, name: str, value: dict[str, Any]) -> Any:
        """Return the value as an object of this class of the SDK's."""
        return getattr(importlib.import_module(self.sdk), name).model_validate_json(json.dumps(value))


@cache
def _is_installed(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _is_valid_unicode(text: str) -> bool:
    """Return whether the text has no half of a surrogate pair, which no SDK object can hold."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def sign_text(text: str) -> str:
    """Return a signature of what a block or a part says, and of nothing else; it is hexadecimal, and so base64, too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def get_field(thing: Any, name: str) -> Any:
    """Return a field of a dict or of an SDK object; None where there is none."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def group_turns(messages: Sequence[Any], joined: str) -> list[tuple[int, list[Any]]]:
    """Return the turns with their first indices: messages of the role `joined` in a row are one, others alone."""
    found: list[tuple[int, list[Any]]] = []
    for index, message in enumerate(messages):
        if found and get_field(message, "role") == joined == get_field(found[-1][1][0], "role"):
            found[-1][1].append(message)
        else:
            found.append((index, [message]))
    return found
