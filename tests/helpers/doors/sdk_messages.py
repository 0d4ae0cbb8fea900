"""The door of loops over Anthropic's SDK."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anthropic

from doors.sdk import ResponsesLoop, SdkDoor, parameters
from unabridged.formats import FORMATS
from unabridged_testing.adapter_contract import Image
from unabridged_testing.loopback_messages import LoopbackMessages


class MessagesLoop(ResponsesLoop):
    """How a caller writes a loop over Messages."""

    wire = LoopbackMessages
    read = "anthropic"
    model = "claude-opus-5-5"

    def client(self, url: str) -> Any:
        return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def text(self, text: str) -> Any:
        return {"type": "text", "text": text}

    def image(self, picture: Image) -> Any:
        return {"type": "image", "source": {"type": "base64", "media_type": picture.mime, "data": picture.data}}

    def tool(self, name: str, function: Callable[..., str]) -> Any:
        return {"name": name, "description": inspect.getdoc(function), "input_schema": parameters(function)}

    def ask(self, client: Any, messages: list[Any], system: str, tools: list[Any]) -> Any:
        asked: dict[str, Any] = {"model": self.model, "max_tokens": 500, "messages": messages}
        return client.messages.stream(**asked, **({"system": system} if system else {}), tools=tools)

    def pieces(self, stream: Any) -> list[str]:
        return [text for text in stream.text_stream if text]

    def final(self, stream: Any) -> tuple[list[Any], list[tuple[str, str, Any]], str]:
        content = stream.get_final_message().content
        calls = [(block.id, block.name, block.input) for block in content if block.type == "tool_use"]
        said = "".join(block.text for block in content if block.type == "text")
        return [{"role": "assistant", "content": content}], calls, said

    def results(self, answers: list[tuple[str, str]]) -> list[Any]:
        blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in answers]
        return [{"role": "user", "content": blocks}]


class MessagesDoor(SdkDoor):
    """A loop over a wrapped client of Anthropic's."""

    name = "sdk-messages"
    loop = MessagesLoop()
    format = FORMATS[MessagesLoop.read]


DOOR = MessagesDoor()
