"""Summaries by the client's own model: asked for with the client's own credentials, where its requests go anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from unabridged.adapters.kit import current_values
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.overflow import is_overflow
from unabridged.asking.replies import reply_of, stop_of
from unabridged.errors import SummaryFailed
from unabridged.measure.calibrate import usage_of
from unabridged_gateway.protocols import Protocol
from unabridged_gateway.upstream import Headers, Upstream, parsed

if TYPE_CHECKING:
    from unabridged_gateway.config import Config


@dataclass(frozen=True, slots=True)
class Client:
    """Whose conversation is compacted: where its requests go, for which model, with which headers. Never stored."""

    protocol: Protocol
    target: str
    """The path and query of a plain answer."""
    model: str
    headers: Headers

    def __repr__(self) -> str:
        return f"Client({self.protocol.name}, {self.model})"


class ClientsModel:
    """A summariser for `Compactor`: it asks the model that the client's request names."""

    name = "the client's model"
    at_home = True
    """Its connections live on one event loop, wherever a summary is asked for."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._upstream: Upstream | None = None

    async def __call__(self, ask: Ask) -> Reply:
        """The model's reply."""
        client = current_values()
        if not isinstance(client, Client):
            raise SummaryFailed("nobody's request is under way, so there is no model to ask")
        if self._upstream is None:
            self._upstream = Upstream(self._config)
        data = msgspec.json.encode(_BODIES[client.protocol.name](client.model, ask))
        answer = await self._upstream.open(client.protocol.family, "POST", client.target, client.headers, data)
        try:
            said = parsed(b"".join([piece async for piece in answer.pieces()]))
        finally:
            answer.close()
        if answer.status >= 400:
            raise Refused(answer.status, said)
        return _reply_of_gemini(said, client.model) if client.protocol.family == "gemini" else reply_of(said)

    async def aclose(self) -> None:
        """Close its connections."""
        if self._upstream is not None:
            await self._upstream.close()
            self._upstream = None


class Refused(Exception):  # noqa: N818 - what a provider says, not an error of ours
    """The provider answered with an error; no word of it that could hold a key is in the message."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"the provider answered with {status}")
        self.status_code, self.body = status, body if is_overflow(body) else None


def _chat(model: str, ask: Ask) -> dict[str, Any]:
    """Without a limit on the answer, whose name differs between servers: the instruction has one."""
    return {"model": model, "messages": [{"role": "user", "content": ask.instruction}]}


def _responses(model: str, ask: Ask) -> dict[str, Any]:
    said = {"role": "user", "content": [{"type": "input_text", "text": ask.instruction}]}
    return {"model": model, "input": [said], "store": False}


def _messages(model: str, ask: Ask) -> dict[str, Any]:
    return {**_chat(model, ask), "max_tokens": ask.max_tokens}


def _contents(_: str, ask: Ask) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": ask.instruction}]}]}


_BODIES: dict[str, Callable[[str, Ask], dict[str, Any]]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "count_tokens": _messages,
    "contents": _contents,
}


def _reply_of_gemini(said: Any, model: str) -> Reply:
    candidate = said["candidates"][0]
    parts = candidate.get("content", {}).get("parts", [])
    return Reply(
        "".join(part.get("text", "") for part in parts if not part.get("thought")),
        stop_of(candidate.get("finishReason")),
        usage_of(said),
        calls=sum("functionCall" in part for part in parts),
        model=model,
    )
