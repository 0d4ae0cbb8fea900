"""Which requests of an SDK's client hold a conversation, where in their bodies what stands, and how they stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from unabridged.adapters.kit import READ, Agent, Stream
from unabridged.formats import FORMATS, Anthropic, Format, OpenAIChat, OpenAIResponses

Body = Mapping[str, Any]
"""What a request says, as the SDK hands it to its HTTP client."""

_STARTING = frozenset({"response.created", "response.queued", "response.in_progress"})


class Chunks(Stream):
    """Chat Completions: a refusal is the SDK's own error."""

    def says(self, item: Any) -> bool:
        """Whether the chunk holds any of the answer."""
        return bool(getattr(item, "choices", None))

    def usage(self, item: Any) -> Any:
        """What the last chunk reports, where the caller asked for it."""
        return getattr(item, "usage", None)


class ResponseEvents(Stream):
    """Responses: one that was begun may still fail."""

    def says(self, item: Any) -> bool:
        """Whether the model has begun to answer."""
        return getattr(item, "type", None) not in _STARTING

    def usage(self, item: Any) -> Any:
        """What the response reports when it is complete."""
        return getattr(getattr(item, "response", None), "usage", None)


class MessageEvents(Stream):
    """Messages: a refusal is the SDK's own error."""

    def says(self, item: Any) -> bool:
        """Whether the model has begun to answer."""
        return getattr(item, "type", None) != "message_start"

    def refuses(self, item: Any) -> bool:  # noqa: ARG002 - the SDK raises
        """Never an item."""
        return False

    def usage(self, item: Any) -> Any:
        """What the first event reports of the request."""
        return getattr(getattr(item, "message", None), "usage", None)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One kind of request, by the names of the fields in its body."""

    format: Format
    kind: Stream
    messages: str = "messages"
    system: str = ""
    read: tuple[str, ...] = ("tools",)
    """What the model reads besides messages and system prompt."""
    kept: tuple[str, ...] = ()
    """With any of these, the provider keeps the conversation, and the request has only what is new."""

    def conversation(self, body: Body) -> list[Any]:
        """The messages of the request."""
        given = body.get(self.messages)
        return [self.format.text("user", given)] if isinstance(given, str) else listed(given) or []

    def with_messages(self, body: Body, messages: list[Any]) -> Body:
        """The request with these messages."""
        return {**body, self.messages: messages}

    def prompt(self, body: Body) -> Any:
        """The system prompt; None where it has none, or one among its messages."""
        return listed(body.get(self.system)) or None

    def schemas(self, body: Body) -> Any:
        """All else that the model reads; None for nothing."""
        found = [schema_of(listed(body.get(name))) for name in self.read]
        given = [part for part in found if part]
        if len(given) == 1 and isinstance(given[0], list):
            return given[0]
        return [item for part in given for item in (part if isinstance(part, list) else [part])] or None

    def agent(self, body: Body, tools: Any) -> Agent:
        """The model that the request names, and whether it can follow a reference."""
        name = body.get("model")
        return Agent(name if isinstance(name, str) else None, recall=has_recall(tools))

    def kept_by(self, body: Body) -> str | None:
        """The field by which the provider keeps the conversation; None where it does not."""
        return next((name for name in self.kept if body.get(name)), None)

    def whole(self, body: Body) -> Body:
        """The request with lists in place of what can be read only once."""
        names = [name for name in (self.messages, self.system, *self.read) if name in body]
        return {**body, **{name: listed(body[name]) for name in names}}


def listed(value: Any) -> Any:
    """An iterable as a list; texts, objects and what is a list already as they are."""
    if isinstance(value, list | str | bytes | Mapping) or not isinstance(value, Iterable):
        return value
    return list(value)


@cache
def _schema_of(kind: Any) -> Any:
    return kind.model_json_schema()


def schema_of(value: Any) -> Any:
    """What the model is shown of a class that its answer should be of; anything else as it is."""
    return _schema_of(value) if isinstance(value, type) and hasattr(value, "model_json_schema") else value


def has_recall(tools: Any) -> bool:
    """Whether the tools can follow a reference."""
    return any(READ in _names_of(tool) for tool in tools or () if isinstance(tool, Mapping))


def _names_of(tool: Body) -> list[Any]:
    function = tool.get("function")
    declared = [one.get("name") for one in tool.get("function_declarations") or () if isinstance(one, Mapping)]
    return [function.get("name") if isinstance(function, Mapping) else tool.get("name"), *declared]


def _format(kind: type[Any]) -> Format:
    return FORMATS[kind.name]


CHAT = Endpoint(_format(OpenAIChat), Chunks(), read=("tools", "functions", "response_format"))
RESPONSES = Endpoint(
    _format(OpenAIResponses),
    ResponseEvents(),
    messages="input",
    system="instructions",
    read=("tools", "text", "text_format"),
    kept=("previous_response_id", "conversation"),
)
MESSAGES = Endpoint(
    _format(Anthropic), MessageEvents(), system="system", read=("tools", "output_config"), kept=("thread",)
)

ENDPOINTS = {"/chat/completions": CHAT, "/responses": RESPONSES, "/v1/messages": MESSAGES}
"""By the path that the SDK posts to, before a platform's client makes its own of it."""

RESOURCES = {"chat.completions": CHAT, "responses": RESPONSES}
"""Resources that turn messages into JSON before they post, which takes the longer the more there are: they are fitted
before that."""


def endpoint_of(path: str) -> Endpoint | None:
    """The kind of request that is posted to this path; None for one without a conversation."""
    return ENDPOINTS.get(path.partition("?")[0])
