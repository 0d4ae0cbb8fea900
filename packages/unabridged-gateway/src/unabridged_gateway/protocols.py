"""The protocols of the providers: the paths that hold a conversation, their bodies, errors and streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from unabridged.adapters import kit
from unabridged.asking.overflow import is_overflow
from unabridged.formats import FORMATS, GeminiContents


class EventStream(kit.Stream):
    """The events of one protocol's streams, as JSON: which of them begin an answer, and which field reports its usage.

    Before the answer an event may still say that the request is too long.
    """

    def __init__(self, begins_answer: Callable[[Any], bool], *usage_path: str) -> None:
        self._begins_answer, self._usage_path = begins_answer, usage_path

    def begins_answer(self, item: Any) -> bool:
        """Return whether the model has begun to answer."""
        return self._begins_answer(item)

    def usage(self, item: Any) -> Any:
        """Return what the event reports of the request's tokens, or None."""
        return _read_nested(item, *self._usage_path)


@dataclass(frozen=True, slots=True)
class GeminiEndpoint(kit.Endpoint):
    """`contents`, beside a system instruction, tools and a configuration of the answer."""

    def read_system_prompt(self, body: kit.Body) -> Any:
        """Return the texts of the system instruction."""
        instruction = body.get("systemInstruction") or body.get("system_instruction")
        parts = _read_nested(instruction, "parts")
        parts = parts if isinstance(parts, list) else [parts]
        texts = [part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
        return "\n".join(texts) or None

    def max_tokens(self, body: kit.Body) -> int | None:
        """Return the longest answer that the configuration asks for."""
        config = body.get("generationConfig") or body.get("generation_config")
        return kit.find_largest_length(_read_nested(config, name) for name in ("maxOutputTokens", "max_output_tokens"))

    def agent(self, body: kit.Body, tools: Any) -> kit.Agent:  # noqa: ARG002 - the interface's
        """Return whether the model can follow a reference; its name is in the path."""
        return kit.Agent(recall=kit.has_recall(tools))

    def find_keeping_field(self, body: kit.Body) -> str | None:
        """Return the field of contents that the provider has cached."""
        return next((name for name in ("cachedContent", "cached_content") if body.get(name)), None)


@dataclass(frozen=True, slots=True)
class Protocol:
    """One kind of request with a conversation in it."""

    name: str
    family: str
    endpoint: kit.Endpoint
    events: EventStream
    answers: bool = True
    """Whether a model answers; else its tokens are only counted."""

    def agent(self, path: str, body: kit.Body, tools: Any) -> kit.Agent:
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

_CHAT_STREAM = EventStream(lambda chunk: bool(chunk.get("choices")) or "error" in chunk, "usage")
_RESPONSES_STREAM = EventStream(
    lambda event: event.get("type") not in kit.ResponseEventStream.STARTING, "response", "usage"
)
MESSAGES_STREAM = EventStream(lambda event: event.get("type") not in {"message_start", "ping"}, "message", "usage")
_CONTENTS_STREAM = EventStream(lambda piece: bool(piece.get("candidates")) or "error" in piece, "usageMetadata")
_CONTENTS_ENDPOINT = GeminiEndpoint(
    FORMATS[GeminiContents.name], messages="contents", model_fields=("tools", "generationConfig")
)
_CONTENTS = Protocol("contents", "gemini", _CONTENTS_ENDPOINT, _CONTENTS_STREAM)

PROTOCOLS = {
    "/chat/completions": Protocol("chat", "openai", kit.CHAT_ENDPOINT, _CHAT_STREAM),
    "/responses": Protocol("responses", "openai", kit.RESPONSES_ENDPOINT, _RESPONSES_STREAM),
    "/messages": Protocol("messages", "anthropic", kit.MESSAGES_ENDPOINT, MESSAGES_STREAM),
    "/messages/count_tokens": Protocol(
        "count_tokens", "anthropic", kit.MESSAGES_ENDPOINT, MESSAGES_STREAM, answers=False
    ),
    ":generateContent": _CONTENTS,
    ":streamGenerateContent": _CONTENTS,
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
