"""Which requests of an SDK's client hold a conversation, and how their answers stream."""

from __future__ import annotations

from typing import Any

from unabridged.adapters import kit


class PieceStream(kit.Stream):
    """Pieces of a response, by the names of their fields with some of the answer and with what the request used."""

    def __init__(self, answer: str, usage: str) -> None:
        self._answer, self._usage = answer, usage

    def begins_answer(self, item: Any) -> bool:
        """Return whether the piece holds any of the answer."""
        return bool(getattr(item, self._answer, None))

    def usage(self, item: Any) -> Any:
        """Return what the piece reports, where it does."""
        return getattr(item, self._usage, None)


class MessageEventStream(kit.Stream):
    """Events of the Messages API."""

    def begins_answer(self, item: Any) -> bool:
        """Return whether the model has begun to answer."""
        return getattr(item, "type", None) != "message_start"

    def usage(self, item: Any) -> Any:
        """Return what the first event reports of the request."""
        return getattr(getattr(item, "message", None), "usage", None)


STREAMS: dict[str, kit.Stream] = {
    kit.CHAT_ENDPOINT.format.name: PieceStream("choices", "usage"),
    kit.RESPONSES_ENDPOINT.format.name: kit.ResponseEventStream(),
    kit.MESSAGES_ENDPOINT.format.name: MessageEventStream(),
}
"""By the name of the format."""

_OPENAI_ENDPOINTS = {"/chat/completions": kit.CHAT_ENDPOINT, "/responses": kit.RESPONSES_ENDPOINT}
ENDPOINTS = {**_OPENAI_ENDPOINTS, "/v1/messages": kit.MESSAGES_ENDPOINT}
"""By the path that the SDK posts to, before a platform's client makes its own of it."""

RESOURCES = {"chat.completions": kit.CHAT_ENDPOINT, "responses": kit.RESPONSES_ENDPOINT}
"""Resources that turn messages into JSON before they post, which takes the longer the more there are: they are fitted
before that."""


def find_endpoint(path: str) -> kit.Endpoint | None:
    """Return the kind of request that is posted to this path; None for one without a conversation."""
    return ENDPOINTS.get(path.partition("?")[0])
