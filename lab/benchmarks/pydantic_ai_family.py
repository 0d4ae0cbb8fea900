"""Pydantic AI's messages from and to dicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai import messages as m
from pydantic_ai.usage import RequestUsage

from benchmarks.harness import Message, Originals


class Wire:
    """A converter that remembers parts, so that an unchanged one comes back as the same dict."""

    def __init__(self) -> None:
        self._originals = Originals()
        self._tools: dict[str, str] = {}

    def take(self, history: list[m.ModelMessage], new: Sequence[Message], usage: RequestUsage) -> None:
        """Add what is new; the results of one round share a request, as in an agent's run."""
        for message in new:
            if message["role"] == "assistant":
                history.append(self._originals.add(m.ModelResponse(self._parts(message), usage=usage), message))
                continue
            part = self._originals.add(self._part(message), message)
            last = history[-1] if history else None
            joins = isinstance(last, m.ModelRequest) and isinstance(last.parts[-1], m.ToolReturnPart)
            if joins and isinstance(last, m.ModelRequest) and message["role"] == "tool":
                last.parts = [*last.parts, part]
            else:
                history.append(m.ModelRequest([part]))

    def give(self, history: Sequence[m.ModelMessage]) -> list[Message]:
        """Return the request: a dict for each part of the user's side and for each answer of the model."""
        return [message for own in history for message in self._messages(own)]

    def _parts(self, message: Message) -> list[Any]:
        parts: list[Any] = [m.TextPart(text)] if (text := _text(message)) else []
        for call in message.get("tool_calls") or ():
            self._tools[call["id"]] = call["function"]["name"]
            parts.append(m.ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"]))
        return parts

    def _part(self, message: Message) -> Any:
        if message["role"] in {"system", "developer"}:
            return m.SystemPromptPart(_text(message))
        if message["role"] == "user":
            return m.UserPromptPart(_text(message))
        call = message["tool_call_id"]
        return m.ToolReturnPart(self._tools.get(call, "tool"), _text(message), call)

    def _messages(self, own: m.ModelMessage) -> Iterator[Message]:
        if isinstance(own, m.ModelResponse):
            yield self._originals.get(own) or _answer(own)
            return
        for part in own.parts:
            yield self._originals.get(part) or _made(part)


def _made(part: Any) -> Message:
    if isinstance(part, m.ToolReturnPart):
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()}
    content = part.content if isinstance(part.content, str) else " ".join(str(item) for item in part.content)
    return {"role": "system" if isinstance(part, m.SystemPromptPart) else "user", "content": content}


def _answer(own: m.ModelResponse) -> Message:
    texts = [part.content for part in own.parts if isinstance(part, m.TextPart)]
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in own.parts
        if isinstance(part, m.ToolCallPart)
    ]
    made: Message = {"role": "assistant", "content": "\n".join(texts) or None}
    return {**made, "tool_calls": calls} if calls else made


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or json.dumps(part) for part in content or ())
