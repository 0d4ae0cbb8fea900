"""Chat messages as events of ADK's and back, and the fake as one of its models."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from benchmarks.framework_family import Numbered, arguments, said
from benchmarks.harness import Message

AGENT = "agent"
_STOPS = {"length": types.FinishReason.MAX_TOKENS, "refusal": types.FinishReason.SAFETY}


class FakeLlm(BaseLlm):
    """An ADK model that answers with the fake's replies."""

    fake: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield one reply; ADK reports a reply without content by its reason alone."""
        del stream
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        reply = self.fake("\n".join(part.text or "" for part in parts))
        calls = [types.Part(function_call=types.FunctionCall(name="bash", args={})) for _ in range(reply.calls)]
        content = types.Content(role="model", parts=calls or [types.Part(text=reply.text)])
        yield LlmResponse(content=content, finish_reason=_STOPS.get(reply.stop, types.FinishReason.STOP))


class Wire:
    """A converter between messages and events; each part carries the number of its message."""

    def __init__(self) -> None:
        self._numbered, self._tools, self._count = Numbered(), dict[str, str](), 0
        self.system: list[Message] = []

    def take(self, message: Message, usage: int | None) -> Event | None:
        """Return a message as an event, one second after the last; None for a system prompt, which no session holds."""
        self._count += 1
        if message["role"] == "system" and self._count == 1 + len(self.system):
            self.system.append(message)
            return None
        number, pieces = self._numbered.split(message)
        parts = [self._part(piece, number) for piece in pieces]
        mine = message["role"] == "assistant"
        told = types.GenerateContentResponseUsageMetadata(prompt_token_count=usage) if mine and usage else None
        content = types.Content(role="model" if mine else "user", parts=parts)
        author = "user" if message["role"] not in {"assistant", "tool"} else AGENT
        return Event(author=author, content=content, timestamp=float(self._count), usage_metadata=told)

    def give(self, contents: Iterable[types.Content]) -> list[Message]:
        """Return the request as messages."""
        pieces = [_piece(content, part) for content in contents for part in content.parts or ()]
        return [*self.system, *self._numbered.join(pieces)]

    def _part(self, piece: Message, number: int) -> types.Part:
        named: dict[str, Any] = {"part_metadata": {"number": number}}
        if piece.get("tool_calls"):
            [call] = piece["tool_calls"]
            name = self._tools[call["id"]] = call["function"]["name"]
            return types.Part(function_call=types.FunctionCall(id=call["id"], name=name, args=arguments(call)), **named)
        if piece["role"] == "tool":
            name, result = self._tools.get(piece["tool_call_id"], "tool"), {"result": said(piece)}
            response = types.FunctionResponse(id=piece["tool_call_id"], name=name, response=result)
            return types.Part(function_response=response, **named)
        return types.Part(text=said(piece), **named)


def _piece(content: types.Content, part: types.Part) -> tuple[int | None, Message]:
    number = (part.part_metadata or {}).get("number")
    if call := part.function_call:
        function = {"name": call.name, "arguments": json.dumps(call.args)}
        made = {"id": call.id, "type": "function", "function": function}
        return number, {"role": "assistant", "content": "", "tool_calls": [made]}
    if answer := part.function_response:
        return number, {"role": "tool", "tool_call_id": answer.id, "content": str((answer.response or {})["result"])}
    return number, {"role": "assistant" if content.role == "model" else "user", "content": part.text or ""}
