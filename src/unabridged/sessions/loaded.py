"""What a conversation file holds, and which of its lines each message was read from."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unabridged.errors import UnabridgedError
from unabridged.formats import Message
from unabridged.messages import Origin

Kind = Literal["json", "jsonl", "jsonl-conversations", "claude-code", "codex", "pi"]
"""How the file is laid out: one document, a message a line, a conversation a line, or a client's session."""

KINDS: tuple[Kind, ...] = ("json", "jsonl", "jsonl-conversations", "claude-code", "codex", "pi")


class SessionFileError(UnabridgedError):
    """The file can't be read as a conversation, or not be written; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What the provider reported for the request that was answered by the message at `index`."""

    index: int
    usage: Mapping[str, Any]


FREE = -1
"""Owner of a line that belongs to no message: it always stays."""
PAST = -2
"""Owner of a line from before an earlier compaction: it stays until the next one."""
BROKEN = -3
"""Owner of a line that was cut off: it goes with the first change, or a client would append to it."""


class Stamp(NamedTuple):
    """How the file looked when it was read, to notice that it changed before it is written anew."""

    size: int
    modified: int


@dataclass(slots=True)
class Lines:
    """Where each line of a file starts, whose it is, and how the lines are linked. Never their text."""

    stamp: Stamp
    starts: array[int] = field(default_factory=lambda: array("Q"))
    """Byte offset of every line; the end of the file comes last."""
    owners: array[int] = field(default_factory=lambda: array("q"))
    """Index of the message that a line belongs to, or FREE, PAST, BROKEN."""
    ids: list[str | None] = field(default_factory=list)
    """The line's name in the client's chain; None where it has none."""
    parents: list[str | None] = field(default_factory=list)
    path: frozenset[int] = frozenset()
    """Lines on the chain from the newest message back: what a client walks when it resumes."""
    roots: frozenset[int] = frozenset()
    """Lines that begin a chain and must not be linked to what stands before them."""
    seams: frozenset[int] = frozenset()
    """Messages whose line is not linked to that of the message before them."""
    summaries: frozenset[int] = frozenset()
    """Messages that are the summary of a past compaction and whose line says so."""
    virtual: int = 0
    """How many messages, counted from the beginning, have no line of their own: a past compaction holds them."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Fields that a client writes on every line (session id, folder, version), for lines that we write."""

    def __len__(self) -> int:
        return max(0, len(self.starts) - 1)


@dataclass(slots=True)
class Document:
    """A conversation inside one JSON text: where that text lies, and the name of its list of messages."""

    stamp: Stamp
    start: int
    """Byte offset of the text: 0, or that of the chosen line."""
    stop: int
    key: str | None
    """Name of the list in the object; None for a bare list."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A conversation as its client would send it now, and where each message came from."""

    path: Path
    kind: Kind
    format: str
    """Name of the wire format of `messages`: `openai-chat`, `openai-responses`, `anthropic`."""
    messages: list[Message]
    system: Any = None
    tools: list[Any] | None = None
    model: str | None = None
    usage: tuple[Reported, ...] = ()
    lines: tuple[tuple[int, ...], ...] = ()
    """For each message the numbers, from 0, of the lines it was read from; empty for one document."""
    origins: Mapping[int, Origin] = field(default_factory=dict)
    """Whose words a message is, by its index, where the file says so."""
    warnings: tuple[str, ...] = ()
    source: Lines | Document | None = None

    def origin_of(self) -> Callable[[Message], Origin | None]:
        """A function that says whose words a message is, where the file does: what `Compactor(origin=...)` takes."""
        named = {id(self.messages[index]): origin for index, origin in self.origins.items()}
        return lambda message: named.get(id(message))


@dataclass(slots=True)
class Assembly:
    """Messages that are put together from lines, one after the other, each with the numbers of its lines."""

    messages: list[Message] = field(default_factory=list)
    numbers: list[list[int]] = field(default_factory=list)
    origins: dict[int, Origin] = field(default_factory=dict)
    usage: dict[int, Any] = field(default_factory=dict)
    model: str | None = None

    def add(self, number: int, message: Message, *, host: bool = False) -> int:
        """A message that begins with this line; its index."""
        self.messages.append(message)
        self.numbers.append([number])
        if host:
            self.origins[len(self.messages) - 1] = "host"
        return len(self.messages) - 1

    def extend(self, index: int, number: int, blocks: Sequence[Any]) -> None:
        """More blocks of a message, from one more line."""
        self.messages[index]["content"] = [*self.messages[index]["content"], *blocks]
        self.numbers[index].append(number)

    def ends_in_results(self) -> bool:
        """Whether the newest message holds nothing but results of tools."""
        return bool(self.messages) and is_results(self.messages[-1])

    def own_lines(self, lines: Lines) -> None:
        """Say of each line of a message whose it is."""
        for index, where in enumerate(self.numbers):
            for number in where:
                lines.owners[number] = index

    def loaded(self, path: Path, kind: Kind, lines: Lines, warnings: Sequence[str]) -> Loaded:
        """The conversation, in Anthropic's format."""
        return Loaded(
            path=path,
            kind=kind,
            format="anthropic",
            messages=self.messages,
            model=self.model,
            usage=tuple(Reported(index, usage) for index, usage in sorted(self.usage.items())),
            lines=tuple(map(tuple, self.numbers)),
            origins=self.origins,
            warnings=tuple(warnings),
            source=lines,
        )


def is_results(message: Message) -> bool:
    """Whether an Anthropic message holds nothing but results of tools."""
    content = message["content"]
    if message["role"] != "user" or not isinstance(content, list) or not content:
        return False
    return all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)
