"""The contents of a conversation file, and what is needed to write them back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from unabridged.errors import UnabridgedError
from unabridged.formats import Format, Message, get_format
from unabridged.messages import Origin

Kind = Literal["json", "jsonl", "jsonl-conversations", "claude-code", "codex", "pi"]
"""How the file is laid out: one document, a message a line, a conversation a line, or a client's session."""

KINDS: tuple[Kind, ...] = get_args(Kind)

Entry = dict[str, Any]
"""The JSON object in one line of a client's session."""


class SessionFileError(UnabridgedError):
    """A file that can't be read as a conversation, or not be written; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """The usage that the provider reported for the request that was answered by the message at `index`."""

    index: int
    usage: Mapping[str, Any]


class FileStamp(NamedTuple):
    """Size and time of a file when it was read, to notice that it changed before it is written again."""

    size: int
    modified: int


@dataclass(slots=True)
class ClientSession:
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
    """Facts that the client writes on every line, or that the next line has to name."""

    def add(self, entry: Entry, message: Message, origin: Origin | None = None) -> int:
        """Add a message that begins with this line; return its index."""
        self.messages.append(message)
        self.entries.append([entry])
        if origin is not None:
            self.origins[len(self.messages) - 1] = origin
        return len(self.messages) - 1

    def extend(self, index: int, entry: Entry, blocks: Sequence[Any]) -> None:
        """Add blocks to a message, from one more line."""
        self.messages[index]["content"] = [*self.messages[index]["content"], *blocks]
        self.entries[index].append(entry)

    def ends_in_results(self) -> bool:
        """Return whether the newest message has nothing but results of tools."""
        return bool(self.messages) and has_only_results(self.messages[-1])


class FileLine(NamedTuple):
    """One line: its number from 0, where it starts, its bytes with the line break, and its JSON value."""

    number: int
    start: int
    raw: bytes
    value: Any
    """The JSON value; None for a blank line and for one that is not JSON."""
    problem: str = ""
    """Why it is not JSON."""


@dataclass(slots=True)
class LineFile:
    """A file of lines: how much of it is complete, and what was read from it."""

    stamp: FileStamp
    complete_size: int = 0
    """Where the last line ends that is not cut off: what follows is not written again."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Where each message of a plain file starts and stops."""
    warnings: list[str] = field(default_factory=list)
    session: ClientSession = field(default_factory=ClientSession)
    lines: list[FileLine] | None = None
    """Every line of a client's session, where `load` was asked to keep them."""


@dataclass(slots=True)
class Document:
    """A conversation inside one JSON text: where that text is, and the name of its list of messages."""

    stamp: FileStamp
    start: int
    """Byte offset of the text: 0, or that of the chosen line."""
    stop: int
    key: str | None
    """Name of the list in the object; None for a bare list."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A conversation as its client would send it now."""

    path: Path
    kind: Kind
    format: str
    """Name of the wire format of `messages`: `openai-chat`, `openai-responses`, `anthropic`."""
    messages: list[Message]
    system: Any = None
    tools: list[Any] | None = None
    model: str | None = None
    usage: tuple[ReportedUsage, ...] = ()
    origins: Mapping[int, Origin] = field(default_factory=dict)
    """Whose words a message is, by its index, where the file says so."""
    warnings: tuple[str, ...] = ()
    source: LineFile | Document | None = None

    def origin_of(self) -> Callable[[Message], Origin | None]:
        """Return a function for `Compactor(origin=...)`: whose words a message is, where the file says so."""
        named = {id(self.messages[index]): origin for index, origin in self.origins.items()}
        return lambda message: named.get(id(message))


def has_only_results(message: Message) -> bool:
    """Return whether an Anthropic message has nothing but results of tools."""
    content = message["content"]
    if message["role"] != "user" or not isinstance(content, list) or not content:
        return False
    return all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)


def is_valid_content(value: Any) -> bool:
    """Return whether this is laid out as the content of a message: a text, blocks with a type, or nothing."""
    if value is None or isinstance(value, str):
        return True
    return isinstance(value, list) and all(map(_is_valid_block, value))


def _is_valid_block(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return isinstance(value.get("text", ""), str | None) and is_valid_content(value.get("content"))


# -- which of the messages that were read stand in a new list --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MessageMatch:
    """A message of the new list, and the index of the one it was: None for a new one."""

    message: Message
    index: int | None
    is_unchanged: bool
    """Whether nothing about it changed."""


def match_messages(loaded: LoadedFile, new: Sequence[Message]) -> list[MessageMatch]:
    """Find each message of the new list among those that were read.

    Unchanged messages are the same objects. Others were edited (a cleared result, dropped reasoning) or copied: they
    are found by the ids of their calls, else by their text.
    """
    unmatched = {id(message): index for index, message in enumerate(loaded.messages)}
    indices = [unmatched.pop(id(message), None) for message in new]
    if None in indices:
        format_, alike = get_format(loaded.format), dict[Hashable, list[int]]()
        for index in sorted(unmatched.values(), reverse=True):
            alike.setdefault(_build_unedited_key(format_, loaded.messages[index]), []).append(index)
        for place, message in enumerate(new):
            if indices[place] is None and (candidates := alike.get(_build_unedited_key(format_, message))):
                indices[place] = candidates.pop()
    same = (index is not None and bool(loaded.messages[index] == new[at]) for at, index in enumerate(indices))
    return list(map(MessageMatch, new, indices, same))


def _build_unedited_key(format_: Format, message: Message) -> Hashable:
    """Return what no edit changes: the role, and the ids of calls and answers; for plain text the text itself."""
    view = format_.read(message)
    ids = tuple(call.id for call in view.calls), tuple(answer.call_id for answer in view.answers)
    return (view.role, ids) if any(ids) else (view.role, view.text or id(message))


class SessionCompaction(NamedTuple):
    """A compaction as a client's session records it."""

    lines: AbstractSet[int]
    """The numbers of the lines that it added."""
    replacements: Mapping[str, str]
    """For the id of each of these lines, the one that lines after them have to link to instead."""
    link_fields: str
    """The names of the fields that link to an id: a regular expression."""


class SessionFormat(NamedTuple):
    """How the sessions of one client are recognised, read, and written: by lines after those in the file."""

    format: str
    is_own_line: Callable[[Entry], bool]
    """Returns whether a line can only be this client's."""
    read: Callable[[Iterable[Entry]], ClientSession]
    """Returns the conversation that the client would send now."""
    append: Callable[[ClientSession, Sequence[MessageMatch], int], Iterable[Entry]]
    """Returns the lines that make it send the messages of these matches instead; the number is the tokens before."""
    newest_compaction: Callable[[Sequence[Entry]], SessionCompaction | None]
    """Returns the compaction that the conversation begins with, if the file still has what it replaced."""
    is_valid_line: Callable[[Entry], bool]
    """Returns whether a line is laid out as the client does, in the fields that are read."""

    def read_entry(self, value: Entry) -> Entry:
        """Return the line; an empty object for one that no client would write."""
        return value if isinstance(value.get("type"), str) and self.is_valid_line(value) else {}

    def load(self, path: Path, kind: Kind, lines: LineFile, entries: Iterable[Entry]) -> LoadedFile:
        """Return the conversation in the entries of a file."""
        lines.session = session = self.read(entries)
        usage = tuple(ReportedUsage(index, usage) for index, usage in sorted(session.usage.items()))
        system, model, origins, notes = session.system, session.model, session.origins, tuple(lines.warnings)
        return LoadedFile(path, kind, self.format, session.messages, system, None, model, usage, origins, notes, lines)
