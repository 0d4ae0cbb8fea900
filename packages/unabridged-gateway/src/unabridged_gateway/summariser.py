"""Have the client's own model write summaries, with the client's own credentials, where its requests go anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from unabridged.adapters.kit import Body, current_host_values
from unabridged.adapters.kit.native import add_compaction_beta, compact_natively
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.overflow import is_overflow
from unabridged.asking.replies import read_stop_reason, reply_of
from unabridged.errors import SummaryFailed
from unabridged.tokens.calibrate import parse_usage
from unabridged_gateway.protocols import Protocol
from unabridged_gateway.refusals import ProviderRefusal, read_error_code
from unabridged_gateway.upstream import Headers, Upstream, parse_answer

if TYPE_CHECKING:
    from unabridged_gateway.config import UpstreamConfig


@dataclass(frozen=True, slots=True)
class ClientRoute:
    """Where the requests of a client go, for which model, with which headers and fields. Never stored."""

    protocol: Protocol
    target: str
    """The path and query of a plain answer."""
    model: str
    headers: Headers
    body: Body

    def __repr__(self) -> str:
        return f"ClientRoute({self.protocol.name}, {self.model})"


class ClientModel:
    """A summariser for `Compactor`: it asks the model that the client's request names; `native`, first its provider."""

    name = "the client's model"
    on_own_loop = True
    """Its connections live on one event loop, wherever a summary is asked for."""

    def __init__(self, config: UpstreamConfig, kind: str) -> None:
        self._config, self._is_native = config, kind == "native"
        self._upstream: Upstream | None = None

    @property
    def native_provider(self) -> str:
        """Return the provider that compacts for the request under way; "" where none does."""
        route = current_host_values()
        if not (self._is_native and isinstance(route, ClientRoute)):
            return ""
        host = urlsplit(self._config.urls.get(route.protocol.family, "")).hostname
        return f"{route.protocol.endpoint.format.name} {host}"

    async def __call__(self, ask: Ask) -> Reply:
        """Return the model's reply; raise `ProviderRefusal` for an error."""
        route = current_host_values()
        if not isinstance(route, ClientRoute):
            raise SummaryFailed("nobody's request is under way, so there is no model to ask")
        if ask.native:
            name, send = route.protocol.endpoint.format.name, partial(self._compact, route)
            return await compact_natively(name, ask, route.body, send, route.model)
        body = _BODY_BUILDERS[route.protocol.name](route.model, ask)
        content = await self._send(route, route.target, route.headers, body)
        return _read_gemini_reply(content, route.model) if route.protocol.family == "gemini" else reply_of(content)

    async def _compact(self, route: ClientRoute, fields: Body) -> Any:
        path, mark, query = route.target.partition("?")
        if route.protocol.name == "responses":
            return await self._send(route, f"{path}/compact{mark}{query}", route.headers, fields)
        return await self._send(route, route.target, add_compaction_beta(route.headers), fields)

    async def _send(self, route: ClientRoute, target: str, headers: Headers, body: Body) -> Any:
        if self._upstream is None:
            self._upstream = Upstream(self._config)
        data = msgspec.json.encode(body)
        answer = await self._upstream.open(route.protocol.family, "POST", target, headers, data)
        try:
            content = parse_answer(b"".join([piece async for piece in answer.pieces()]))
        finally:
            answer.close()
        if answer.status >= 400:
            raise ProviderRefusal(content if is_overflow(content) else None, answer.status, read_error_code(content))
        return content

    async def aclose(self) -> None:
        """Close its connections."""
        if self._upstream is not None:
            await self._upstream.close()
            self._upstream = None


def _build_chat_body(model: str, ask: Ask) -> dict[str, Any]:
    """Return a body without a limit on the answer, whose name differs between servers: the instruction has one."""
    return {"model": model, "messages": [{"role": "user", "content": ask.instruction}]}


def _build_responses_body(model: str, ask: Ask) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "input_text", "text": ask.instruction}]}
    return {"model": model, "input": [message], "store": False}


def _build_messages_body(model: str, ask: Ask) -> dict[str, Any]:
    return {**_build_chat_body(model, ask), "max_tokens": ask.max_tokens}


def _build_contents_body(_: str, ask: Ask) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": ask.instruction}]}]}


_BODY_BUILDERS: dict[str, Callable[[str, Ask], dict[str, Any]]] = {
    "chat": _build_chat_body,
    "responses": _build_responses_body,
    "messages": _build_messages_body,
    "count_tokens": _build_messages_body,
    "contents": _build_contents_body,
}


def _read_gemini_reply(content: Any, model: str) -> Reply:
    candidate = content["candidates"][0]
    parts = candidate.get("content", {}).get("parts", [])
    return Reply(
        "".join(part.get("text", "") for part in parts if not part.get("thought")),
        read_stop_reason(candidate.get("finishReason")),
        parse_usage(content),
        calls=sum("functionCall" in part for part in parts),
        model=model,
    )
