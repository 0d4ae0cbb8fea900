"""What the fields in the body of a request to a provider hold, for adapters that see requests as they are sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from unabridged.adapters.kit.engine import Agent
from unabridged.adapters.kit.recall import READ_TOOL
from unabridged.formats import FORMATS, Anthropic, Format, OpenAIChat, OpenAIResponses

Body = Mapping[str, Any]
"""The fields of a request."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One kind of request, by the names of the fields in its body."""

    format: Format
    messages: str = "messages"
    system: str = ""
    read: tuple[str, ...] = ("tools",)
    """What the model reads besides messages and system prompt."""
    answer: tuple[str, ...] = ("max_tokens",)
    """What says how long the answer may be."""
    kept: tuple[str, ...] = ()
    """With any of these, the provider keeps the conversation, and the request has only what is new."""

    def conversation(self, body: Body) -> list[Any]:
        """Return the messages of the request."""
        messages = body.get(self.messages)
        return [self.format.text("user", messages)] if isinstance(messages, str) else listed(messages) or []

    def with_messages(self, body: Body, messages: list[Any]) -> Body:
        """Return the request with these messages."""
        return {**body, self.messages: messages}

    def prompt(self, body: Body) -> Any:
        """Return the system prompt; None where it has none, or one among its messages."""
        return listed(body.get(self.system)) or None

    def schemas(self, body: Body) -> Any:
        """Return all else that the model reads; None for nothing."""
        parts = [part for name in self.read if (part := schema_of(listed(body.get(name))))]
        if len(parts) == 1 and isinstance(parts[0], list):
            return parts[0]
        return [item for part in parts for item in (part if isinstance(part, list) else [part])] or None

    def max_tokens(self, body: Body) -> int | None:
        """Return the longest answer that the request asks for; None where it does not say."""
        return longest(body.get(name) for name in self.answer)

    def agent(self, body: Body, tools: Any) -> Agent:
        """Return the model that the request names, and whether it can follow a reference."""
        name = body.get("model")
        return Agent(name if isinstance(name, str) else None, recall=has_recall(tools))

    def kept_by(self, body: Body) -> str | None:
        """Return the field by which the provider keeps the conversation; None where it does not."""
        return next((name for name in self.kept if body.get(name)), None)

    def whole(self, body: Body) -> Body:
        """Return the request with lists in place of what can be read only once."""
        names = [name for name in (self.messages, self.system, *self.read) if name in body]
        return {**body, **{name: listed(body[name]) for name in names}}


def longest(values: Iterable[Any]) -> int | None:
    """Return the largest of those that are a length; None where none is."""
    return max((value for value in values if type(value) is int and value > 0), default=None)


def listed(value: Any) -> Any:
    """Return an iterable as a list; texts, objects and lists as they are."""
    if isinstance(value, list | str | bytes | Mapping) or not isinstance(value, Iterable):
        return value
    return list(value)


@cache
def _schema_of(kind: Any) -> Any:
    return kind.model_json_schema()


def schema_of(value: Any) -> Any:
    """Return what the model is shown of a class that its answer should be of; anything else as it is."""
    return _schema_of(value) if isinstance(value, type) and hasattr(value, "model_json_schema") else value


def has_recall(tools: Any) -> bool:
    """Return whether the tools can follow a reference."""
    return any(READ_TOOL in _names_of(tool) for tool in tools or () if isinstance(tool, Mapping))


def _names_of(tool: Body) -> list[Any]:
    function = tool.get("function")
    declared = [one.get("name") for one in tool.get("function_declarations") or () if isinstance(one, Mapping)]
    return [function.get("name") if isinstance(function, Mapping) else tool.get("name"), *declared]


CHAT_ENDPOINT = Endpoint(
    FORMATS[OpenAIChat.name],
    read=("tools", "functions", "response_format"),
    answer=("max_completion_tokens", "max_tokens"),
)
RESPONSES_ENDPOINT = Endpoint(
    FORMATS[OpenAIResponses.name],
    messages="input",
    system="instructions",
    read=("tools", "text", "text_format"),
    answer=("max_output_tokens",),
    kept=("previous_response_id", "conversation"),
)
MESSAGES_ENDPOINT = Endpoint(
    FORMATS[Anthropic.name], system="system", read=("tools", "output_config"), kept=("thread",)
)
