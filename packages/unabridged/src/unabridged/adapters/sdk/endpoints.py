"""Which requests of an SDK's client hold a conversation, and how their answers stream."""

from __future__ import annotations

from typing import Any

from unabridged.adapters.kit import CHAT, MESSAGES, RESPONSES, Endpoint, Stream

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


STREAMS: dict[str, Stream] = {
    CHAT.format.name: Chunks(),
    RESPONSES.format.name: ResponseEvents(),
    MESSAGES.format.name: MessageEvents(),
}
"""By the name of the format."""

ENDPOINTS = {"/chat/completions": CHAT, "/responses": RESPONSES, "/v1/messages": MESSAGES}
"""By the path that the SDK posts to, before a platform's client makes its own of it."""

RESOURCES = {"chat.completions": CHAT, "responses": RESPONSES}
"""Resources that turn messages into JSON before they post, which takes the longer the more there are: they are fitted
before that."""


def endpoint_of(path: str) -> Endpoint | None:
    """The kind of request that is posted to this path; None for one without a conversation."""
    return ENDPOINTS.get(path.partition("?")[0])
