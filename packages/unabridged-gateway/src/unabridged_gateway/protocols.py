"""The protocols of the providers: the paths that hold a conversation, their bodies, errors and streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from unabridged.adapters.kit import (
    CHAT_ENDPOINT,
    MESSAGES_ENDPOINT,
    RESPONSES_ENDPOINT,
    Agent,
    Body,
    Endpoint,
    Stream,
    find_largest_length,
    has_recall,
)
from unabridged.asking.overflow import is_overflow
from unabridged.formats import FORMATS, GeminiContents

_EVENTS_BEFORE_ANSWER = frozenset({"response.created", "response.queued", "response.in_progress"})


class ChatStream(Stream):
    """Chunks of Chat Completions."""

    def begins_answer(self, item: Any) -> bool:
        """Return whether the chunk holds any of the answer."""
        return bool(item.get("choices")) or "error" in item

    def usage(self, item: Any) -> Any:
        """Return the report of the last chunk."""
        return item.get("usage")


class ResponsesStream(Stream):
    """Events of Responses: one that was begun may still fail."""

    def begins_answer(self, item: Any) -> bool:
        """Return whether the model has begun to answer."""
        return item.get("type") not in _EVENTS_BEFORE_ANSWER

    def usage(self, item: Any) -> Any:
        """Return the report of a complete response."""
        return _read_nested(item, "response", "usage")


class MessagesStream(Stream):
    """Events of Messages."""

    def begins_answer(self, item: Any) -> bool:
        """Return whether the model has begun to answer."""
        return item.get("type") not in {"message_start", "ping"}

    def usage(self, item: Any) -> Any:
        """Return the report of the first event on the request."""
        return _read_nested(item, "message", "usage")


class ContentsStream(Stream):
    """Pieces of Gemini's answers."""

    def begins_answer(self, item: Any) -> bool:
        """Return whether the piece holds any of the answer."""
        return bool(item.get("candidates")) or "error" in item

    def usage(self, item: Any) -> Any:
        """Return the report of the newest piece."""
        return item.get("usageMetadata")


@dataclass(frozen=True, slots=True)
class GeminiEndpoint(Endpoint):
    """`contents`, beside a system instruction, tools and a configuration of the answer."""

    def read_system_prompt(self, body: Body) -> Any:
        """Return the texts of the system instruction."""
        instruction = body.get("systemInstruction") or body.get("system_instruction")
        parts = _read_nested(instruction, "parts")
        parts = parts if isinstance(parts, list) else [parts]
        texts = [part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
        return "\n".join(texts) or None

    def max_tokens(self, body: Body) -> int | None:
        """Return the longest answer that the configuration asks for."""
        config = body.get("generationConfig") or body.get("generation_config")
        return find_largest_length(_read_nested(config, name) for name in ("maxOutputTokens", "max_output_tokens"))

    def agent(self, body: Body, tools: Any) -> Agent:  # noqa: ARG002 - the interface's
        """Return whether the model can follow a reference; its name is in the path."""
        return Agent(recall=has_recall(tools))

    def find_keeping_field(self, body: Body) -> str | None:
        """Return the field of contents that the provider has cached."""
        return next((name for name in ("cachedContent", "cached_content") if body.get(name)), None)


@dataclass(frozen=True, slots=True)
class Protocol:
    """One kind of request with a conversation in it."""

    name: str
    family: str
    endpoint: Endpoint
    events: Stream
    error: Callable[[int, str], dict[str, Any]]
    """An error of ours in the provider's own shape."""
    answers: bool = True
    """Whether a model answers; else its tokens are only counted."""

    def agent(self, path: str, body: Body, tools: Any) -> Agent:
        """Return the model that is asked."""
        agent = self.endpoint.agent(body, tools)
        return agent if agent.name else agent._replace(name=parse_model_from_path(path))

    def report(self, answer: Any) -> Any:
        """Return what a plain answer reports of the request's tokens; None for nothing."""
        last = answer[-1] if isinstance(answer, list) and answer else answer  # a list is Gemini's, without events
        return last if isinstance(last, Mapping) else None


def _build_openai_error(status: int, words: str) -> dict[str, Any]:
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
        status, "invalid_request_error" if status < 500 else "server_error"
    )
    return {"error": {"message": words, "type": kind, "param": None, "code": None}}


def _build_anthropic_error(status: int, words: str) -> dict[str, Any]:
    kinds = {
        401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
        429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error",
    }  # fmt: skip
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": words}}


def _build_gemini_error(status: int, words: str) -> dict[str, Any]:
    names = {
        400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
        413: "INVALID_ARGUMENT", 415: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }  # fmt: skip
    return {"error": {"code": status, "message": words, "status": names.get(status, "INTERNAL")}}


_ERROR_BODIES = {"openai": _build_openai_error, "anthropic": _build_anthropic_error, "gemini": _build_gemini_error}

MESSAGES_STREAM = MessagesStream()
_CONTENTS_ENDPOINT = GeminiEndpoint(
    FORMATS[GeminiContents.name], messages="contents", model_fields=("tools", "generationConfig")
)

PROTOCOLS = {
    "/chat/completions": Protocol("chat", "openai", CHAT_ENDPOINT, ChatStream(), _build_openai_error),
    "/responses": Protocol("responses", "openai", RESPONSES_ENDPOINT, ResponsesStream(), _build_openai_error),
    "/messages": Protocol("messages", "anthropic", MESSAGES_ENDPOINT, MESSAGES_STREAM, _build_anthropic_error),
    "/messages/count_tokens": Protocol(
        "count_tokens", "anthropic", MESSAGES_ENDPOINT, MESSAGES_STREAM, _build_anthropic_error, answers=False
    ),
    ":generateContent": Protocol("contents", "gemini", _CONTENTS_ENDPOINT, ContentsStream(), _build_gemini_error),
    ":streamGenerateContent": Protocol("contents", "gemini", _CONTENTS_ENDPOINT, ContentsStream(), _build_gemini_error),
}
"""By the end of the path, which may begin with whatever a platform puts before it."""

_MODEL_PATTERN = re.compile(r"/models/([^/:]+):")


@lru_cache(1_024)
def find_protocol(method: str, path: str) -> Protocol | None:
    """Return the protocol of a request with a conversation in it; None for any other, which is passed through."""
    if method != "POST":
        return None
    return next((protocol for end, protocol in PROTOCOLS.items() if path.endswith(end)), None)


def detect_protocol_family(path: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return whose protocol a request without a conversation belongs to, by its path and its headers."""
    names = {name for name, _ in headers}
    if "/v1beta" in path or b"x-goog-api-key" in names:
        return "gemini"
    if path.startswith("/v1/messages") or b"anthropic-version" in names:
        return "anthropic"
    return "openai"


def build_client_error(family: str, status: int, words: str) -> dict[str, Any]:
    """Return an error of ours in the shape that clients of this provider read."""
    return _ERROR_BODIES[family](status, words)


@lru_cache(1_024)
def parse_model_from_path(path: str) -> str | None:
    """Return the model that a path names; None where it names none."""
    match = _MODEL_PATTERN.search(path)
    return match[1] if match else None


def to_unstreamed_target(target: str) -> str:
    """Return the path and query at which the same model answers without streaming."""
    path, _, query = target.partition("?")
    path = path.replace(":streamGenerateContent", ":generateContent").removesuffix("/count_tokens")
    kept = [part for part in query.split("&") if part and part != "alt=sse"]
    return path + ("?" + "&".join(kept) if kept else "")


def is_too_long_error(error: Any) -> bool:
    """Return whether the provider says that the request is too long."""
    return is_overflow(error) is not None


def is_thinking_error(error: Any) -> bool:
    """Return whether the provider says that its model's thinking was changed, or follows something else."""
    message = str(_read_nested(error, "error", "message") or "").lower()
    return "thinking" in message and ("signature" in message or "modified" in message)


def _read_nested(item: Any, *names: str) -> Any:
    for name in names:
        item = item.get(name) if isinstance(item, Mapping) else None
    return item
