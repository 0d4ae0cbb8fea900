"""The view every part shares: what a message says, whatever its wire format.

A format reads each of the caller's messages into one `View`. Every decision (where to cut, what is legal, what is
still open) is made on views; the caller's own objects are never converted and back.

Nothing changes a view or its parts, which is why they can be hashed. They are not declared frozen: a frozen dataclass
takes several times as long to make, and one is made for each message.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
"""Where the message stands in the protocol. `developer` reads as `system`."""

Origin = Literal["person", "model", "tool", "host", "summary"]
"""Whose words it is. A `user` turn may be a person's, a tool's observation, the host's, or a summary."""

MediaKind = Literal["image", "audio", "video", "document"]


@dataclass(slots=True, unsafe_hash=True)
class Call:
    """One tool call of the model; `arguments` is the JSON text (or, for custom tools, the free text) it wrote."""

    id: str
    name: str
    arguments: str
    alias: str = field(default="", compare=False)
    """What an answer without an id calls it, where a provider pairs by name and order; its id, too, if it has none."""

    @property
    def has_id(self) -> bool:
        """Return whether its id is its own, and not where it stands."""
        return self.id != self.alias

    @property
    def ids(self) -> tuple[str, ...]:
        """Return all that an answer may know it by, its own id first."""
        return (self.id, self.alias) if self.alias and self.has_id else (self.id,)


@dataclass(slots=True, unsafe_hash=True)
class Answer:
    """What a tool answered to the call with `call_id`."""

    call_id: str
    text: str
    error: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Media:
    """An image, sound or document; `source` is its base64 text, its URL or its provider-side file id."""

    kind: MediaKind
    mime: str = ""
    source: str = ""
    detail: str = ""
    name: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Reasoning:
    """A block of the model's own thinking; `signature` is what the provider checks (a signature, encrypted content)."""

    text: str
    signature: str = ""


@dataclass(slots=True, unsafe_hash=True)
class View:
    """What one message says. `text` is in the voice of `origin`; calls are the model's, answers the tools'.

    Whatever else is readable in it is `attached`: search results, documents, what a provider's own tools gave. It is
    counted, searched and shown, and nobody says it.
    """

    role: Role
    origin: Origin
    text: str = ""
    calls: tuple[Call, ...] = ()
    answers: tuple[Answer, ...] = ()
    media: tuple[Media, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    attached: tuple[str, ...] = ()
    """Text that is in the message and is not in the voice of `origin`, block by block."""
    inserted: tuple[str, ...] = ()
    """Blocks of its text that another system put there, a summary or a text of the host's: known when `origin` is."""
    speaker: str = ""
    """The name that the message gives its speaker, where several people speak."""
    sealed: int = 0
    """Characters of encrypted content that only the provider reads, thinking left out."""
    unread_digest: str = ""
    """A digest of the blocks that are no plain text, media, call or answer: all that is in them but ids and marks."""
    opaque: bool = False
    """A provider's own item (server-side compaction, item reference): kept exactly where and as it is."""
    resets: bool = False
    """A provider's own compaction, whose server drops all that stands before it in the list."""
    glued: bool = False
    """Must stay directly in front of what follows it (a Responses reasoning item)."""
    block_starts: tuple[int, ...] = field(default=(), repr=False, compare=False)
    """Where each block of its text begins but the first, if it has more than one."""
    _meaning: str = field(default="", init=False, repr=False, compare=False)
    """Worked out once: every look-up of a record needs it of every message."""

    @property
    def meaning_digest(self) -> str:
        """Return a digest of what it says: without ids, times, usage, cache marks, thinking, and who says it.

        The text of system messages is left out: a prompt with a clock in it must not hide a record.
        """
        if not self._meaning:
            self._meaning = self._digest() if self.role != "system" else "system"
        return self._meaning

    def _digest(self) -> str:
        said: tuple[Any, ...] = (
            self.role,
            self.text,
            [(call.name, call.arguments) for call in self.calls],
            [(answer.text, answer.error) for answer in self.answers],
            [(media.kind, media.source) for media in self.media],
            self.opaque,
        )
        if self.unread_digest:
            said += (self.unread_digest,)
        return hashlib.sha256(repr(said).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def is_silent(self) -> bool:
        """Return whether the message has no content at all."""
        said = self.text or self.calls or self.answers or self.attached or self.unread_digest
        return not (said or self.media or self.reasoning or self.opaque)

    def with_origin(self, origin: Origin) -> View:
        """Return the same words as somebody else's; itself where they are that one's already."""
        if origin == self.origin:
            return self
        view = replace(self, origin=origin)
        view._meaning = self.meaning_digest  # noqa: SLF001 - a view of the same message
        return view

    def with_inserted(self, own: str, others: tuple[str, ...]) -> View:
        """Return the same message, of which only `own` is in the voice of its origin; it still means what it meant."""
        view = replace(self, text=own, inserted=others, block_starts=())
        view._meaning = self.meaning_digest  # noqa: SLF001 - a view of the same message
        return view

    def whole_text(self) -> str:
        """Return everything readable in the message, its calls and answers included: what search sees."""
        parts = [self.text, *(f"{call.name} {call.arguments}" for call in self.calls)]
        parts += [answer.text for answer in self.answers]
        parts += (*self.inserted, *self.attached)
        parts += [media.name for media in self.media if media.name]
        return "\n".join(part for part in parts if part)
