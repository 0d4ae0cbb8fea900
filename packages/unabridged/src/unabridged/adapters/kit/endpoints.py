"""What the fields in the body of a request to a provider hold, for adapters that see requests as they are sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from unabridged.adapters.kit.engine import Agent
from unabridged.formats import FORMATS, Anthropic, Format, OpenAIChat, OpenAIResponses
from unabridged.recall.tools import CONVERSATION_PARAMETER, READ_TOOL

Body = Mapping[str, Any]
"""The fields of a request."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One kind of request, by the names of the fields in its body."""

    format: Format
    messages: str = "messages"
    system: str = ""
    model_fields: tuple[str, ...] = ("tools",)
    """What the model reads besides messages and system prompt."""
    max_tokens_fields: tuple[str, ...] = ("max_tokens",)
    """What says how long the answer may be."""
    keeping_fields: tuple[str, ...] = ()
    """With any of these, the provider keeps the conversation, and the request has only what is new."""

    def read_messages(self, body: Body) -> list[Any]:
        """Return the messages of the request."""
        messages = body.get(self.messages)
        return [self.format.text("user", messages)] if isinstance(messages, str) else to_list(messages) or []

    def with_messages(self, body: Body, messages: list[Any]) -> Body:
        """Return the request with these messages."""
        return {**body, self.messages: messages}

    def read_system_prompt(self, body: Body) -> Any:
        """Return the system prompt; None where it has none, or one among its messages."""
        return to_list(body.get(self.system)) or None

    def read_schemas(self, body: Body) -> Any:
        """Return all else that the model reads; None for nothing."""
        parts = [part for name in self.model_fields if (part := to_schema(to_list(body.get(name))))]
        if len(parts) == 1 and isinstance(parts[0], list):
            return parts[0]
        return [item for part in parts for item in (part if isinstance(part, list) else [part])] or None

    def max_tokens(self, body: Body) -> int | None:
        """Return the longest answer that the request asks for; None where it does not say."""
        return find_largest_length(body.get(name) for name in self.max_tokens_fields)

    def agent(self, body: Body, tools: Any) -> Agent:
        """Return the model that the request names, and whether it can follow a reference."""
        name = body.get("model")
        return Agent(name if isinstance(name, str) else None, recall=has_recall(tools))

    def find_keeping_field(self, body: Body) -> str | None:
        """Return the field by which the provider keeps the conversation; None where it does not."""
        return next((name for name in self.keeping_fields if body.get(name)), None)

    def with_lists(self, body: Body) -> Body:
        """Return the request with lists in place of what can be read only once."""
        names = [name for name in (self.messages, self.system, *self.model_fields) if name in body]
        return {**body, **{name: to_list(body[name]) for name in names}}


def find_largest_length(values: Iterable[Any]) -> int | None:
    """Return the largest of those that are a length; None where none is."""
    return max((value for value in values if type(value) is int and value > 0), default=None)


def to_list(value: Any) -> Any:
    """Return an iterable as a list; texts, objects and lists as they are."""
    if isinstance(value, list | str | bytes | Mapping) or not isinstance(value, Iterable):
        return value
    return list(value)


@cache
def _build_schema(kind: Any) -> Any:
    return kind.model_json_schema()


def to_schema(value: Any) -> Any:
    """Return the JSON schema of a class that describes a structured answer; any other value as it is."""
    return _build_schema(value) if isinstance(value, type) and hasattr(value, "model_json_schema") else value


_PARAMETERS_FIELDS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")


def has_recall(tools: Any) -> bool:
    """Return whether the tools can follow a reference: ours, or those of a gateway's MCP server behind a prefix."""
    declared = (each for tool in tools or () if isinstance(tool, Mapping) for each in _list_declarations(tool))
    return any(_can_follow_references(each) for each in declared)


def _list_declarations(tool: Body) -> list[Body]:
    """Return what says a tool's name and parameters: Gemini has several in one."""
    function = tool.get("function")
    several = tool.get("functionDeclarations") or tool.get("function_declarations") or ()
    return [function if isinstance(function, Mapping) else tool, *(one for one in several if isinstance(one, Mapping))]


def _can_follow_references(declared: Body) -> bool:
    name = declared.get("name")
    if name == READ_TOOL:
        return True
    parameters = next(filter(None, map(declared.get, _PARAMETERS_FIELDS)), None)
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    is_prefixed = isinstance(name, str) and name.endswith(f"__{READ_TOOL}")
    return is_prefixed and isinstance(properties, Mapping) and CONVERSATION_PARAMETER in properties


CHAT_ENDPOINT = Endpoint(
    FORMATS[OpenAIChat.name],
    model_fields=("tools", "functions", "response_format"),
    max_tokens_fields=("max_completion_tokens", "max_tokens"),
)
RESPONSES_ENDPOINT = Endpoint(
    FORMATS[OpenAIResponses.name],
    messages="input",
    system="instructions",
    model_fields=("tools", "text", "text_format"),
    max_tokens_fields=("max_output_tokens",),
    keeping_fields=("previous_response_id", "conversation"),
)
MESSAGES_ENDPOINT = Endpoint(
    FORMATS[Anthropic.name], system="system", model_fields=("tools", "output_config"), keeping_fields=("thread",)
)
