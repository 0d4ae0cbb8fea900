"""The contract of a wire format and of a provider's rules.

A `Format` reads, makes and edits messages in one shape, and takes them apart for mending. Its `Provider` says what is
refused of a conversation, and mends it. Each provider has one file that holds both; `legality` only asks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from unabridged.errors import IllegalConversation
from unabridged.formats.fields import Unreadable, get
from unabridged.messages import Answer, Call, View

Message = Any
"""One of the caller's own messages: a dict, or a response object of an SDK. Never converted, only read."""

LEGACY_CALL_PREFIX = "function:"
"""How the ids begin that Chat's old function calls are read with; they are paired by name, and nobody checks them."""

Family = Literal["openai", "gpt-4", "claude", "claude-3", "other", "unknown"]
"""Models that cut text alike: `openai` is GPT-4o and later, `gpt-4` what came before, `claude` Claude 4.7 and later,
`claude-3` Claude 3 to 4.6, `other` every other known model (the highest of three open tokenizers), `unknown` the
highest of them all."""

ThinkingRule = Literal["bound", "signed", "glued", "free"]
"""What a model demands of the thinking in its history; `unabridged.legality.reasoning` explains the four."""


class Slot(NamedTuple):
    """Which piece of a message an edit is looking at; `id` is the call's, for `answer` and `call`.

    An `attached` text is edited where it stands: its block stays the block that it is.
    """

    kind: Literal["text", "answer", "call", "media", "attached"]
    id: str = ""


Edit = Callable[[Slot, str], str]
"""Gets a piece's text (for media: its source) and returns what should stand there; the same text means no change."""


# -- what a provider refuses -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a provider refuses: the rule's stable name, the message it is about, what is wrong and the remedy."""

    rule: str
    index: int
    message: str


@dataclass(frozen=True)
class Outgoing:
    """A conversation that is to be sent to `provider`; where `messages` is None only its views are known."""

    views: Sequence[View]
    messages: Sequence[Message] | None
    format: Format
    provider: Provider
    model: str | None = None
    pending: bool = False
    """The last round is still running: its missing answers, or the user's next turn, are yet to come."""
    strict: bool = False
    """User and assistant must take turns, besides what the provider demands."""

    @property
    def is_own_format(self) -> bool:
        """Return whether the provider reads these very messages; else a client translates them first."""
        return self.format.name == self.provider.name

    def list_sent_messages(self, *, last: bool = False) -> Iterable[tuple[int, Message]]:
        """Return the messages as sent (if asked, only the last), with indices; none if a client translates them."""
        if not self.is_own_format or not self.messages:
            return ()
        return [(len(self.messages) - 1, self.messages[-1])] if last else enumerate(self.messages)

    def is_last(self, index: int) -> bool:
        """Return whether nothing follows the message."""
        return index == len(self.views) - 1

    def with_messages(self, messages: Sequence[Message]) -> Outgoing:
        """Return the same conversation with these messages; those that were read before are not read again."""
        if messages is self.messages:
            return self
        known = {id(message): view for message, view in zip(self.messages or (), self.views, strict=False)}
        views = [known.get(id(one)) or read_message_at(i, one, self.format) for i, one in enumerate(messages)]
        return replace(self, messages=messages, views=views)

    def without_messages(self, is_wrong: Callable[[int, View], bool]) -> Outgoing:
        """Return the conversation without the messages that are wrong."""
        kept = [m for i, m in enumerate(self.messages or ()) if not is_wrong(i, self.views[i])]
        return self.with_messages(kept) if len(kept) < len(self.views) else self


LegalityRule = Callable[[Outgoing], Iterator[Finding]]


class Provider:
    """The rules of one provider besides those on pairing, and their mending. By itself it refuses nothing more."""

    name: str
    rules: tuple[LegalityRule, ...] = ()
    unique_ids = False
    """No id of a call may come again later in the conversation."""
    pairs_anywhere = False
    """An answer may stand anywhere behind its call."""
    system_apart = False
    """System messages are not part of the conversation."""

    def thinking_rule(self, model: str) -> ThinkingRule | None:  # noqa: ARG002 - for those that make models
        """Return the rule for the thinking of this model; None for a model that is another provider's."""
        return None

    def remove_refused(self, outgoing: Outgoing) -> Outgoing:
        """Return the conversation without what is refused wherever it stands."""
        return outgoing

    def arrange(self, outgoing: Outgoing) -> Outgoing:
        """Return it with what must stand at its beginning, between messages and at its end; calls are paired by now."""
        return outgoing


# -- formats ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RepairUnit:
    """What a repair moves as one: a message, one of its results, or what stands between results."""

    raw: Any
    role: str
    calls: tuple[Call, ...] = ()
    answer: Answer | None = None
    source: int = -1
    """Where the message stood that it comes from; -1 when it was made here."""
    part: bool = False
    """`raw` is a list of blocks, not a message."""


class Format(Protocol):
    """One wire format. Reading never fails on what the provider accepts; making yields plain dicts.

    What can't be read is `Unreadable`: an id, a text or a list of parts is never guessed from something else.
    """

    name: str
    """`openai-chat`, `openai-responses`, `anthropic`; an adapter's own format has another."""
    provider: Provider
    """Whose rules its messages are checked by."""
    answers_by: str = "tool_call_id"
    """The field in which a result names the call that it answers."""
    items: bool = False
    """Whether one turn of the model may be several messages."""
    lone_system: bool = False
    """Whether a system message in the middle must stand between a user's turn and the assistant's."""
    alternates: bool = False
    """Whether two turns of one side may not follow each other: its provider refuses them, or a host joins them."""
    thinking: ThinkingRule = "free"
    """The rule for the thinking of a model that is not named; `glued` holds for every model."""
    family: Family = "unknown"
    """How a model that is not named cuts text into tokens."""
    roles: frozenset[str | None] = frozenset()
    """The roles that a message may have, None for one without; empty where a framework sees to that."""

    def read(self, message: Message) -> View:
        """Return the view of the message."""

    def claims(self, message: Message) -> bool:
        """Return whether only this format writes messages like this one."""

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """Return a new message with just this text."""
        return {"role": role, "content": text}

    def answer(self, call: Call, message: Message, text: str) -> Message | None:
        """Return a new message that answers this call of `message` with `text`, as an error where that can be said.

        None when only a real result would do.
        """

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed.

        A media piece for which other text is returned becomes a text piece.
        """

    def without_reasoning(self, message: Message) -> Message | None:
        """Return a copy without its thinking; the same object when it has none; None when nothing would be left."""

    def takes_role(self, message: Message) -> bool:
        """Return whether the message has a role that the provider knows, or needs none."""
        return get(message, "role") in self.roles

    def missing(self, message: Message) -> Iterator[str]:  # noqa: ARG002 - for those whose messages are plain data
        """Yield the fields, by their places, that the provider requires in such a message and that are not there."""
        return iter(())

    def tool_schema(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return a tool as a request offers it to the model; `parameters` is the JSON schema of its arguments."""
        return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

    def split(self, index: int, message: Message, view: View) -> list[RepairUnit]:
        """Return the units of a message that mending may move apart."""
        calls = tuple(call for call in view.calls if not call.id.startswith(LEGACY_CALL_PREFIX))
        answer = next((answer for answer in view.answers if not answer.call_id.startswith(LEGACY_CALL_PREFIX)), None)
        return [RepairUnit(message, view.role, calls, answer, index)]

    def join(self, units: Sequence[RepairUnit], messages: Sequence[Message]) -> list[Message]:  # noqa: ARG002 - for parts
        """Return the messages made of these units; one that comes through whole is the object it was in `messages`."""
        return [unit.raw for unit in units]

    def with_call_ids(self, raw: Any, ids: Sequence[str | None]) -> Any:
        """Return a unit with these ids for its calls, those with None left out; None when nothing remains."""

    def with_answered_id(self, raw: Any, id_: str) -> Any:
        """Return a unit that is a result, now to this call."""


def read_message_at(index: int, message: Message, format_: Format) -> View:
    """Return the view of the message at this index; raise `IllegalConversation` where it can't be read."""
    try:
        return format_.read(message)
    except Exception as error:
        found = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
        raise IllegalConversation(
            f"message {index} can't be read as {format_.name}: {found}. Correct it or leave it out; nothing was changed"
        ) from error


def read_all_messages(messages: Sequence[Message], format_: Format, first: int = 0) -> list[View]:
    """Return the view of each message; `first` is the index of the first one."""
    try:
        return list(map(format_.read, messages))
    except Exception:  # noqa: BLE001 - read one by one, to say which it is
        return [read_message_at(i, message, format_) for i, message in enumerate(messages, first)]


def require_list(messages: Any) -> Sequence[Message]:
    """Return the messages, which must be in a list."""
    if isinstance(messages, list):  # by far the most frequent, and quicker to tell
        return messages
    if isinstance(messages, Sequence) and not isinstance(messages, str | bytes | bytearray | memoryview):
        return messages
    raise IllegalConversation(f"a conversation is a list of messages; got {type(messages).__name__}: put it into one")
