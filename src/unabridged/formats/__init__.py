"""Wire formats: one file each. A format reads a message into a `View`, and makes or edits messages in its own shape."""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.errors import SettingsError
from unabridged.formats.anthropic import Anthropic
from unabridged.formats.base import Edit, Format, Message, Slot
from unabridged.formats.openai_chat import OpenAIChat
from unabridged.formats.openai_responses import OpenAIResponses
from unabridged.formats.reading import in_a_list, read_at, read_each

FORMATS: dict[str, Format] = {format_.name: format_ for format_ in (OpenAIChat(), OpenAIResponses(), Anthropic())}


def format_named(name: str | Format) -> Format:
    """The format with this name; an object that is one already passes through."""
    if not isinstance(name, str):
        return name
    if name not in FORMATS:
        raise SettingsError(f"unknown format {name!r}: choose one of {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


def detect(messages: Sequence[Message]) -> Format:
    """The format only whose messages these can be; Chat Completions where all would do (plain text turns)."""
    for message in in_a_list(messages):
        for format_ in FORMATS.values():
            if format_.claims(message):
                return format_
    return FORMATS["openai-chat"]


__all__ = [
    "FORMATS",
    "Edit",
    "Format",
    "Message",
    "Slot",
    "detect",
    "format_named",
    "in_a_list",
    "read_at",
    "read_each",
]
