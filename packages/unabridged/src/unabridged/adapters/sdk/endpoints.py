"""Which requests of an SDK's client hold a conversation, and how their answers stream."""

from __future__ import annotations

from typing import Any

from unabridged.adapters.kit import (
    CHAT_ENDPOINT,
    MESSAGES_ENDPOINT,
    RESPONSES_ENDPOINT,
    Endpoint,
    ResponseEventStream,
    Stream,
)


class ChatChunkStream(Stream):
    """Chunks of Chat Completions."""

    def begins_answer(self, item: Any) -> bool:
        """Return whether the chunk holds any of the answer."""
        return bool(getattr(item, "choices", None))

    def usage(self, item: Any) -> Any:
        """Return what the last chunk reports, where the caller asked for it."""
        return getattr(item, "usage", None)


class MessageEventStream(Stream):
    """Events of the Messages API."""

    def begins_answer(self, item: Any) -> bool:
        """Return whether the model has begun to answer."""
        return getattr(item, "type", None) != "message_start"

    def usage(self, item: Any) -> Any:
        """Return what the first event reports of the request."""
        return getattr(getattr(item, "message", None), "usage", None)


STREAMS: dict[str, Stream] = {
    CHAT_ENDPOINT.format.name: ChatChunkStream(),
    RESPONSES_ENDPOINT.format.name: ResponseEventStream(),
    MESSAGES_ENDPOINT.format.name: MessageEventStream(),
}
"""By the name of the format."""

ENDPOINTS = {"/chat/completions": CHAT_ENDPOINT, "/responses": RESPONSES_ENDPOINT, "/v1/messages": MESSAGES_ENDPOINT}
"""By the path that the SDK posts to, before a platform's client makes its own of it."""

RESOURCES = {"chat.completions": CHAT_ENDPOINT, "responses": RESPONSES_ENDPOINT}
"""Resources that turn messages into JSON before they post, which takes the longer the more there are: they are fitted
before that."""


def find_endpoint(path: str) -> Endpoint | None:
    """Return the kind of request that is posted to this path; None for one without a conversation."""
    return ENDPOINTS.get(path.partition("?")[0])
