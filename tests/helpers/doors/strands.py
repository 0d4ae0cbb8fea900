"""Strands' door: an `Agent` with a file session, our conversation manager, and a model that asks."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from tempfile import mkdtemp
from typing import Any

from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

from unabridged.adapters.strands import CompactingConversationManager
from unabridged.adapters.strands.manager import FORMAT
from unabridged_testing.adapter_contract import Brain, Content, Image, ModelReply, Seen, TooLong


class AskingModel(Model):
    """A model that asks the brain."""

    def __init__(self, brain: Brain, window: int | None = None) -> None:
        self._brain, self._ids = brain, itertools.count()
        self.config: dict[str, Any] = {"context_window_limit": window}

    def update_config(self, **config: Any) -> None:
        self.config.update(config)

    def get_config(self) -> dict[str, Any]:
        return self.config

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: str | None = None, **_: Any
    ) -> AsyncIterator[Any]:
        wire = [{"role": message["role"], "content": message["content"]} for message in messages]
        try:
            said = self._brain(Seen.of(wire, FORMAT, system=system_prompt or "", tools=tool_specs or ()))
        except TooLong as error:
            raise ContextWindowOverflowException(str(error)) from None
        for event in self._events(said):
            yield event

    def _events(self, said: ModelReply) -> list[Any]:
        events: list[Any] = [{"messageStart": {"role": "assistant"}}]
        if said.text:
            events += [{"contentBlockStart": {"start": {}}}]
            pieces = [said.text[:3], said.text[3:]]
            events += [{"contentBlockDelta": {"delta": {"text": piece}}} for piece in pieces if piece]
            events += [{"contentBlockStop": {}}]
        for name, arguments in said.calls:
            use = {"name": name, "toolUseId": f"tooluse_{next(self._ids)}"}
            called = {"toolUse": {"input": json.dumps(dict(arguments))}}
            events += [
                {"contentBlockStart": {"start": {"toolUse": use}}},
                {"contentBlockDelta": {"delta": called}},
                {"contentBlockStop": {}},
            ]
        used = said.used or 0
        usage = {"inputTokens": used, "outputTokens": 1, "totalTokens": used + 1}
        stop = "tool_use" if said.calls else "end_turn"
        return [*events, {"messageStop": {"stopReason": stop}}, {"metadata": {"usage": usage, "metrics": {}}}]


Opening = Callable[[str], tuple[Agent, CompactingConversationManager]]


class StrandsSession:
    """A session of an agent."""

    def __init__(self, opening: Opening, folder: str, thread: str, *, streaming: bool) -> None:
        self._opening, self._folder, self._thread, self._streaming = opening, folder, thread, streaming
        self.agent, self.manager = opening(thread)
        self.waiting: tuple[str, ...] = ()
        self.pieces: list[str] = []
        self._interrupts: Any = ()

    def say(self, content: Content) -> str:
        return self._run(_blocks(content))

    def approve(self) -> str:
        return self._run([{"interruptResponse": {"interruptId": i.id, "response": "yes"}} for i in self._interrupts])

    def _run(self, given: Any) -> str:
        self.pieces = []
        result = asyncio.run(self._stream(given)) if self._streaming else self.agent(given)
        self._interrupts = result.interrupts or ()
        self.waiting = tuple(interrupt.name for interrupt in self._interrupts)
        texts = [block["text"] for block in result.message["content"] if "text" in block]
        return "" if self.waiting else "".join(texts)

    async def _stream(self, given: Any) -> Any:
        result = None
        async for event in self.agent.stream_async(given):
            if "data" in event:
                self.pieces.append(event["data"])
            result = event.get("result", result)
        return result

    def stored(self) -> list[Any]:
        return list(self.agent.messages)

    def replay(self) -> list[Any]:
        return list(self.manager.replay(self.agent))

    def undo(self) -> None:
        self.manager.undo(self.agent)

    def restart(self) -> None:
        self.manager.close()
        self.agent, self.manager = self._opening(self._thread)

    def beside(self, thread: str) -> StrandsSession:
        return StrandsSession(self._opening, self._folder, thread, streaming=self._streaming)

    def close(self) -> None:
        self.manager.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class StrandsDoor:
    """`Agent` with `CompactingConversationManager` and a `FileSessionManager`, which outlives a restart."""

    name = "strands"
    format = FORMAT

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
    ) -> StrandsSession:
        folder = mkdtemp()
        functions: list[Any] = [tool(name=name)(function) for name, function in tools.items()]

        def ask_first(event: BeforeToolCallEvent) -> None:
            name = event.tool_use["name"]
            if name in approve and event.interrupt(name, reason="is it right?") != "yes":
                event.cancel_tool = "denied"

        def opening(name: str) -> tuple[Agent, CompactingConversationManager]:
            manager = CompactingConversationManager(recall=recall, **keywords)
            agent = Agent(
                AskingModel(brain),
                tools=functions,
                system_prompt=system or None,
                conversation_manager=manager,
                session_manager=FileSessionManager(name, storage_dir=folder),
                callback_handler=None,
                hooks=[ask_first],
            )
            return agent, manager

        return StrandsSession(opening, folder, thread, streaming=streaming)


DOOR = StrandsDoor()


def _blocks(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"image": {"format": "png", "source": {"bytes": b64decode(part.data)}}}
        if isinstance(part, Image)
        else {"text": part}
        for part in content
    ]
