"""LiteLLM's door: a loop over `acompletion` with our callback, against a provider on loopback that asks the brain."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import litellm

from doors.sdk import LoopSession, Provider, ResponsesLoop
from unabridged.adapters.litellm import CompactionCallback
from unabridged.adapters.sdk import History
from unabridged.formats import FORMATS
from unabridged_testing.adapter_contract import Brain, Image
from unabridged_testing.loopback_wires import LoopbackChat


class ChatWire(LoopbackChat):
    """Chat Completions, whose system prompt is read apart."""

    def messages(self, body: dict[str, Any]) -> list[Any]:
        return [message for message in super().messages(body) if message["role"] != "system"]


class ChatLoop(ResponsesLoop):
    """How a caller writes a loop over LiteLLM."""

    wire = ChatWire
    read = "openai-chat"
    model = "asking"  # of no family, as the format

    def seen(self, body: dict[str, Any]) -> dict[str, Any]:
        systems = [message["content"] for message in body["messages"] if message["role"] == "system"]
        return {"system": "\n".join(systems), "tools": body.get("tools") or (), "model": body["model"]}

    def text(self, text: str) -> Any:
        return {"type": "text", "text": text}

    def image(self, picture: Image) -> Any:
        return {"type": "image_url", "image_url": {"url": f"data:{picture.mime};base64,{picture.data}"}}

    def tool(self, name: str, function: Callable[..., str]) -> Any:
        described = {key: value for key, value in super().tool(name, function).items() if key != "type"}
        return {"type": "function", "function": described}

    def results(self, answers: list[tuple[str, str]]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in answers]


EVENTS = asyncio.new_event_loop()
"""LiteLLM keeps clients and a queue from call to call: all of them are made in one event loop, as in a program."""
threading.Thread(target=EVENTS.run_forever, daemon=True).start()


class LiteLLMSession(LoopSession):
    """A loop over `acompletion`."""

    client: CompactionCallback

    @property
    def history(self) -> History:
        return self.client.history

    def _ask(self) -> tuple[list[Any], str]:
        about = self._about
        tools = [self._loop.tool(name, function) for name, function in about["tools"].items()]
        if about["recall"]:
            tools += self.history.recall().schemas(self._loop.read)
        first = [{"role": "system", "content": about["system"]}] if about["system"] else []
        asked = {"model": f"openai/{self._loop.model}", "messages": [*first, *self.messages], "tools": tools}
        message = self._complete({**asked, "api_base": about["provider"].url, "api_key": "none", "max_retries": 0})
        self._asked = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]
        self.sent = len(self.messages)
        return [self._kept(message)], message.content or ""

    def _kept(self, message: Any) -> Any:
        """What goes into the list: LiteLLM shows its callbacks a dict in place of each `Message`."""
        return message.model_dump()

    def _complete(self, asked: dict[str, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(self._acomplete(asked), EVENTS).result()

    async def _acomplete(self, asked: dict[str, Any]) -> Any:
        if not self._about["streaming"]:
            return (await litellm.acompletion(**asked)).choices[0].message
        return self._join([chunk async for chunk in await litellm.acompletion(**asked, stream=True)])

    def _join(self, chunks: list[Any]) -> Any:
        self.pieces = [text for chunk in chunks if (text := chunk.choices[0].delta.content)]
        return litellm.stream_chunk_builder(chunks).choices[0].message


class LiteLLMDoor:
    """A program that registered our callback; the caller's list outlives a restart."""

    name = "litellm"
    loop = ChatLoop()
    format = FORMATS[ChatLoop.read]
    session: type[LiteLLMSession] = LiteLLMSession

    def open(
        self,
        brain: Brain,
        *,
        thread: str,
        tools: Mapping[str, Callable[..., str]],
        approve: Collection[str] = (),
        system: str = "",
        streaming: bool = False,
        recall: bool = False,
        **keywords: Any,
    ) -> LiteLLMSession:
        provider = Provider(brain, self.loop).__enter__()
        about = {"tools": tools, "approve": approve, "system": system, "streaming": streaming, "recall": recall}

        def opening() -> CompactionCallback:
            compaction = CompactionCallback(**keywords)
            litellm.callbacks.append(compaction)
            return compaction

        return self.session(opening, self.loop, {**about, "provider": provider}, thread)


DOOR = LiteLLMDoor()
