"""Conversations as texts and back, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unabridged.archive import codec
from unabridged.errors import ArchiveError, IllegalConversation
from unabridged.formats.base import require_list


def dump(messages: Sequence[Any]) -> str:
    """Return the conversation as JSON, a message a line; `load` returns it exactly, objects of the SDKs included."""
    lines = []
    for index, message in enumerate(require_list(messages)):
        try:
            lines.append(codec.encode(message).decode())
        except ArchiveError as error:
            raise IllegalConversation(f"message {index} can't be dumped: {error}") from error
    return "[" + ",\n ".join(lines) + "]"


def load(text: str) -> list[Any]:
    """Return the conversation that `dump` wrote; raise `IllegalConversation` for any other text.

    The text may come from anyone: only classes of the SDKs, those that this process dumped itself and those of modules
    named with `unabridged.archive.codec.allow` are made again, none of their code is run, and all else is plain data.
    """
    if not isinstance(text, str):
        raise IllegalConversation(f"load takes the text that dump wrote; got {type(text).__name__}")
    try:
        messages = codec.decode(text.encode())
    except (ArchiveError, UnicodeEncodeError) as error:
        reason = error.__cause__ or error
        raise IllegalConversation(f"{len(text):,} characters are no conversation that dump wrote: {reason}") from error
    if not isinstance(messages, list):
        raise IllegalConversation(f"dump writes a list of messages; this text holds a {type(messages).__name__}")
    return messages
