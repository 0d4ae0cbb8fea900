"""What a conversation file holds, and what of it is needed to write it back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from unabridged.errors import UnabridgedError
from unabridged.formats import Format, Message, format_named
from unabridged.messages import Origin

Kind = Literal["json", "jsonl", "jsonl-conversations", "claude-code", "codex", "pi"]
"""How the file is laid out: one document, a message a line, a conversation a line, or a client's session."""

KINDS: tuple[Kind, ...] = get_args(Kind)

Entry = dict[str, Any]
"""What one line of a client's session says."""


class SessionFileError(UnabridgedError):
    """The file can't be read as a conversation, or not be written; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What the provider reported for the request that was answered by the message at `index`."""

    index: int
    usage: Mapping[str, Any]


class Stamp(NamedTuple):
    """How the file looked when it was read, to notice that it changed before it is written anew."""

    size: int
    modified: int


@dataclass(slots=True)
class Session:
    """A client's conversation, put together from its lines one after the other."""

    messages: list[Message] = field(default_factory=list)
    entries: list[list[Entry]] = field(default_factory=list)
    """The lines that each message was read from, where it has lines of its own."""
    origins: dict[int, Origin] = field(default_factory=dict)
    usage: dict[int, Any] = field(default_factory=dict)
    """What the provider reported, by the index of the message that answered."""
    system: Any = None
    model: str | None = None
    facts: Entry = field(default_factory=dict)
    """What the client writes on every line, or what the next line has to name."""

    def add(self, entry: Entry, message: Message, origin: Origin | None = None) -> int:
        """A message that begins with this line; its index."""
        self.messages.append(message)
        self.entries.append([entry])
        if origin is not None:
            self.origins[len(self.messages) - 1] = origin
        return len(self.messages) - 1

    def extend(self, index: int, entry: Entry, blocks: Sequence[Any]) -> None:
        """More blocks of a message, from one more line."""
        self.messages[index]["content"] = [*self.messages[index]["content"], *blocks]
        self.entries[index].append(entry)

    def ends_in_results(self) -> bool:
        """Whether the newest message holds nothing but results of tools."""
        return bool(self.messages) and is_results(self.messages[-1])


class Line(NamedTuple):
    """One line: its number from 0, where it starts, its bytes with the line break, and what it says."""

    number: int
    start: int
    raw: bytes
    value: Any
    """The JSON value; None for a blank line and for one that is not JSON."""
    problem: str = ""
    """Why it is not JSON."""


@dataclass(slots=True)
class Lines:
    """A file of lines: what of it is whole, and what was found there."""

    stamp: Stamp
    whole: int = 0
    """Where the last line ends that is not cut off: what is behind it is not written again."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Where each message of a plain file starts and stops."""
    warnings: list[str] = field(default_factory=list)
    session: Session = field(default_factory=Session)
    kept: list[Line] | None = None
    """Every line of a client's session, where that was asked for."""


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
    """A conversation as its client would send it now."""

    path: Path
    kind: Kind
    format: str
    """Name of the wire format of `messages`: `openai-chat`, `openai-responses`, `anthropic`."""
    messages: list[Message]
    system: Any = None
    tools: list[Any] | None = None
    model: str | None = None
    usage: tuple[Reported, ...] = ()
    origins: Mapping[int, Origin] = field(default_factory=dict)
    """Whose words a message is, by its index, where the file says so."""
    warnings: tuple[str, ...] = ()
    source: Lines | Document | None = None

    def origin_of(self) -> Callable[[Message], Origin | None]:
        """A function that says whose words a message is, where the file does: what `Compactor(origin=...)` takes."""
        named = {id(self.messages[index]): origin for index, origin in self.origins.items()}
        return lambda message: named.get(id(message))


def is_results(message: Message) -> bool:
    """Whether an Anthropic message holds nothing but results of tools."""
    content = message["content"]
    if message["role"] != "user" or not isinstance(content, list) or not content:
        return False
    return all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)


def is_content(value: Any) -> bool:
    """Whether this is laid out as the content of a message: a text, or blocks that say what they are; or nothing."""
    if value is None or isinstance(value, str):
        return True
    return isinstance(value, list) and all(map(_is_block, value))


def _is_block(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return isinstance(value.get("text", ""), str | None) and is_content(value.get("content"))


# -- which of the messages that were read stand in a new list --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """A message of the new list, and the index of the one it was: None for a new one."""

    message: Message
    index: int | None
    same: bool
    """Whether nothing about it changed."""


def match(loaded: Loaded, new: Sequence[Message]) -> list[Match]:
    """Find each message of the new list among those that were read.

    First by identity, which is what the engine promises for a message that stays. What is left was edited (a cleared
    result, dropped reasoning) or copied: its call ids, else its text, say which one it was.
    """
    left = {id(message): index for index, message in enumerate(loaded.messages)}
    found = [left.pop(id(message), None) for message in new]
    if None in found:
        _find_edited(loaded, new, found, sorted(left.values()))
    return [
        Match(message, index, index is not None and bool(loaded.messages[index] == message))
        for message, index in zip(new, found, strict=True)
    ]


def _find_edited(loaded: Loaded, new: Sequence[Message], found: list[int | None], left: Sequence[int]) -> None:
    format_ = format_named(loaded.format)
    alike: dict[Hashable, list[int]] = {}
    for index in reversed(left):
        alike.setdefault(_likeness(format_, loaded.messages[index]), []).append(index)
    for place, message in enumerate(new):
        if found[place] is None and (candidates := alike.get(_likeness(format_, message))):
            found[place] = candidates.pop()


def _likeness(format_: Format, message: Message) -> Hashable:
    """What an edit leaves alone: who speaks, and the ids of calls and answers; for plain text the text itself."""
    view = format_.read(message)
    ids = tuple(call.id for call in view.calls), tuple(answer.call_id for answer in view.answers)
    return (view.role, ids) if any(ids) else (view.role, view.text or id(message))


class Compaction(NamedTuple):
    """A compaction as it stands in a client's session."""

    lines: AbstractSet[int]
    """The lines that it put in, by their number."""
    instead: Mapping[str, str]
    """For the name of each of these lines, the one that lines behind them have to give instead."""
    links: str
    """The names of the fields that give one: a regular expression."""


class Client(NamedTuple):
    """How the sessions of one client are known, read, and written: by lines behind those that are there."""

    format: str
    owns_line: Callable[[Entry], bool]
    """Whether a line can only be this client's."""
    read: Callable[[Iterable[Entry]], Session]
    """The conversation that the client would send now."""
    append: Callable[[Session, Sequence[Match], int], Iterable[Entry]]
    """The lines that make it send the messages of these matches instead; the number is what all took before."""
    newest_compaction: Callable[[Sequence[Entry]], Compaction | None]
    """The compaction, whoever made it, that what is sent begins with, if the file still has what it replaced."""
    is_sound: Callable[[Entry], bool]
    """Whether a line is laid out as the client does, as far as it is looked at."""

    def entry_of(self, value: Entry) -> Entry:
        """What a line says; nothing for one that no client would write."""
        return value if isinstance(value.get("type"), str) and self.is_sound(value) else {}

    def load(self, path: Path, kind: Kind, lines: Lines, entries: Iterable[Entry]) -> Loaded:
        """The conversation in the entries of a file."""
        lines.session = session = self.read(entries)
        return Loaded(
            path=path,
            kind=kind,
            format=self.format,
            messages=session.messages,
            system=session.system,
            model=session.model,
            usage=tuple(Reported(index, usage) for index, usage in sorted(session.usage.items())),
            origins=session.origins,
            warnings=tuple(lines.warnings),
            source=lines,
        )
