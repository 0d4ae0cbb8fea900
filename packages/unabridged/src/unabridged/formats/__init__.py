"""Wire formats and providers: one place each.

A format reads a message into a `View`, and makes or edits messages in its own shape; its provider says what is refused
and mends it. To add one, write its file (`base` has the contract) and list it here.
"""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.errors import SettingsError
from unabridged.formats.anthropic import Anthropic
from unabridged.formats.base import Edit, Format, Message, Provider, Slot, require_list
from unabridged.formats.bedrock import BedrockConverse
from unabridged.formats.gemini import GeminiContents
from unabridged.formats.openai_chat import OpenAIChat
from unabridged.formats.openai_responses import OpenAIResponses

DEFAULT = OpenAIChat()
"""Everybody's: what plain text turns are taken for."""
_EVERY: tuple[Format, ...] = (DEFAULT, OpenAIResponses(), Anthropic(), GeminiContents(), BedrockConverse())
FORMATS: dict[str, Format] = {format_.name: format_ for format_ in _EVERY}
PROVIDERS: dict[str, Provider] = {format_.provider.name: format_.provider for format_ in FORMATS.values()}


def get_format(name: str | Format) -> Format:
    """Return the format with this name; an object that is one already passes through."""
    if not isinstance(name, str):
        return name
    if name not in FORMATS:
        raise SettingsError(f"unknown format {name!r}: choose one of {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


def detect_message_format(messages: Sequence[Message]) -> Format:
    """Return the format only whose messages these can be; Chat Completions where all would do (plain text turns)."""
    for message in require_list(messages):
        for format_ in FORMATS.values():
            if format_.claims(message):
                return format_
    return DEFAULT


__all__ = [
    "DEFAULT", "FORMATS", "PROVIDERS", "Anthropic", "BedrockConverse", "Edit", "Format", "GeminiContents", "Message",
    "OpenAIChat", "OpenAIResponses", "Provider", "Slot", "detect_message_format", "get_format",
]  # fmt: skip
