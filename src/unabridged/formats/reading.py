"""A caller's messages, read as they come: one that can't be read is refused by its index, with what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unabridged.errors import IllegalConversation
from unabridged.formats.base import Format, Message, Unreadable
from unabridged.messages import View


def read_at(index: int, message: Message, format_: Format) -> View:
    """What the message at this index says; `IllegalConversation` when it is nothing a provider could be sent."""
    try:
        return format_.read(message)
    except Exception as error:
        found = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
        raise IllegalConversation(
            f"message {index} can't be read as {format_.name}: {found}. Correct it or leave it out; nothing was changed"
        ) from error


def read_each(messages: Sequence[Message], format_: Format) -> Iterator[View]:
    """What each message says, as far as somebody asks."""
    return (read_at(index, message, format_) for index, message in enumerate(in_a_list(messages)))


def in_a_list(messages: Any) -> Sequence[Message]:
    """The messages, which must be in a list."""
    if isinstance(messages, list):  # by far the most frequent, and quicker to tell
        return messages
    if isinstance(messages, Sequence) and not isinstance(messages, str | bytes | bytearray | memoryview):
        return messages
    raise IllegalConversation(f"a conversation is a list of messages; got {type(messages).__name__}: put it into one")
