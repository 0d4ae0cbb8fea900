"""The door of loops over the Google Gen AI SDK."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from google import genai
from google.genai import types

from doors.sdk import ResponsesLoop, SdkDoor, parameters
from unabridged.formats import FORMATS
from unabridged_testing.adapter_contract import Content, Image
from unabridged_testing.loopback_wires import LoopbackGemini


class ContentsLoop(ResponsesLoop):
    """How a caller writes a loop over Contents; a call has no id, so its name stands for it."""

    wire = LoopbackGemini
    read = "gemini"
    model = "gemini-2.5-flash"

    def client(self, url: str) -> Any:
        return genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url))

    def seen(self, body: dict[str, Any]) -> dict[str, Any]:
        system = (body.get("systemInstruction") or {}).get("parts") or [{"text": ""}]
        declared = [one for tool in body.get("tools") or () for one in tool["functionDeclarations"]]
        return {"system": system[0]["text"], "tools": declared, "model": self.model}

    def user(self, content: Content) -> Any:
        parts = (content,) if isinstance(content, str) else content
        return types.Content(
            role="user", parts=[self.image(p) if isinstance(p, Image) else self.text(p) for p in parts]
        )

    def text(self, text: str) -> Any:
        return types.Part(text=text)

    def image(self, picture: Image) -> Any:
        return types.Part.from_bytes(data=base64.b64decode(picture.data), mime_type=picture.mime)

    def tool(self, name: str, function: Callable[..., str]) -> Any:
        return {"name": name, "description": inspect.getdoc(function), "parameters_json_schema": parameters(function)}

    @contextmanager
    def ask(self, client: Any, messages: list[Any], system: str, tools: list[Any]) -> Iterator[Any]:
        config = {"tools": [{"function_declarations": tools}], "automatic_function_calling": {"disable": True}}
        config |= {"system_instruction": system} if system else {}
        asked = client.models.generate_content_stream(model=self.model, contents=messages, config=config)
        yield [part for piece in asked for part in piece.candidates[0].content.parts]

    def pieces(self, stream: Any) -> list[str]:
        return [part.text for part in stream if part.text]

    def final(self, stream: Any) -> tuple[list[Any], list[tuple[str, str, Any]], str]:
        said = types.Content(role="model", parts=[part for part in stream if part.function_call or part.text])
        calls = [part.function_call for part in stream if part.function_call]
        return [said], [(call.name, call.name, call.args) for call in calls], "".join(self.pieces(stream))

    def results(self, answers: list[tuple[str, str]]) -> list[Any]:
        given = [types.Part.from_function_response(name=name, response={"result": text}) for name, text in answers]
        return [types.Content(role="user", parts=given)]


class ContentsDoor(SdkDoor):
    """A loop over a wrapped client of Google's."""

    name = "sdk-gemini"
    loop = ContentsLoop()
    format = FORMATS[ContentsLoop.read]


DOOR = ContentsDoor()
