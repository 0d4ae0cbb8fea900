"""Wire formats and providers: one place each.

A format reads a message into a `View`, and makes or edits messages in its own shape; its provider says what is refused
and mends it. To add one, write its file (`base` has the contract) and list it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module

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
_FRAMEWORKS = {
    "agent_framework": "unabridged.adapters.agent_framework.format:StoredMessages",
    "langchain_core": "unabridged.adapters.langchain.format:LangChain",
    "llama_index": "unabridged.adapters.llama_index.format:LlamaIndexMessages",
    "pydantic_ai": "unabridged.adapters.pydantic_ai.format:PydanticAI",
}
"""The formats of frameworks with messages of their own, by the package of these: loaded when one is read."""
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
        package = _find_framework(type(message).__mro__)
        if isinstance(message, Mapping) and isinstance(message.get("contents"), list):
            package = "agent_framework"  # which keeps its messages as dicts
        if package and (framework := _load_framework_format(package)):
            return framework
        for format_ in FORMATS.values():
            if format_.claims(message):
                return format_
    return DEFAULT


@cache
def _find_framework(classes: tuple[type, ...]) -> str | None:
    """Return the package of the framework that one of these classes is from: a message's own, or a base of it."""
    packages = (one.__module__.partition(".")[0] for one in classes)
    return next((package for package in packages if package in _FRAMEWORKS), None)


@cache
def _load_framework_format(package: str) -> Format | None:
    """Return the format; None where the framework is not installed, as with messages that came back as dicts."""
    module, _, name = _FRAMEWORKS[package].partition(":")
    try:
        format_: Format = getattr(import_module(module), name)()
    except ImportError:
        return None
    return format_


__all__ = [
    "DEFAULT", "FORMATS", "PROVIDERS", "Anthropic", "BedrockConverse", "Edit", "Format", "GeminiContents", "Message",
    "OpenAIChat", "OpenAIResponses", "Provider", "Slot", "detect_message_format", "get_format",
]  # fmt: skip
