"""LlamaIndex's door: our agent in the real workflow, with the framework's client of Google's provider on loopback."""

import base64
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from copy import deepcopy
from typing import Any

from google.genai.types import HttpOptions
from llama_index.core.agent.workflow import AgentStream
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
from llama_index.llms.google_genai import GoogleGenAI

from doors._loop import RunningLoop
from doors.sdk import Provider
from doors.sdk_gemini import ContentsLoop
from unabridged.adapters.llama_index import AgentCompaction, CompactingFunctionAgent, LlamaIndexMessages
from unabridged.formats import FORMATS
from unabridged_testing.adapter_contract import Brain, Content, Image
from unabridged_testing.loopback_wires import LoopbackGemini, LoopbackReply

MOST = 400
"""Requests that a run may make."""


class WaitsForPerson(InputRequiredEvent):
    """A tool's call that waits for a person."""

    name: str


class GeminiMessages(LlamaIndexMessages):
    """Messages for the model behind this door."""

    family = FORMATS[ContentsLoop.read].family


class ContentsWire(LoopbackGemini):
    """Contents whose calls have ids of their own."""

    def build_whole_answer(self, body: dict[str, Any], said: LoopbackReply, tokens: int) -> dict[str, Any]:
        answer = super().build_whole_answer(body, said, tokens)
        for part in answer["candidates"][0]["content"]["parts"]:
            if "functionCall" in part:
                part["functionCall"]["id"] = self.new_id("call")
        return answer


class IdsLoop(ContentsLoop):
    """Google's endpoint as it is now."""

    wire = ContentsWire


class NotingGemini(GoogleGenAI):
    """Notes the messages of the last request, before its client joins those of one side."""

    _noted: list[ChatMessage] = PrivateAttr(default_factory=list)

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)

    def _prepare_chat_with_tools(self, *given: Any, **more: Any) -> Any:
        self._noted = deepcopy(more["chat_history"])
        return super()._prepare_chat_with_tools(*given, **more)

    @property
    def noted(self) -> list[ChatMessage]:
        return [message for message in self._noted if message.role != "system"]


class Served:
    """LlamaIndex's client of a provider on loopback, on an event loop that goes on between the turns."""

    def __init__(self, brain: Brain) -> None:
        self.provider = Provider(brain, IdsLoop()).__enter__()
        self.llm = NotingGemini(
            IdsLoop.model,
            api_key="none",
            max_tokens=500,
            context_window=10**6,
            max_retries=1,
            http_options=HttpOptions(base_url=self.provider.url),
            file_mode="inline",
        )
        self._loop = RunningLoop()
        self.run = self._loop.run

    def close(self) -> None:
        if not self._loop.is_closed:
            self.run(self.llm._client.aio.aclose())  # noqa: SLF001 - it has no way to close it
            self._loop.close()
            self.provider.__exit__(None, None, None)


class MemorySession:
    """Messages that an application keeps as JSON between the runs of its agent."""

    def __init__(self, opening: Callable[[], AgentCompaction], about: Mapping[str, Any]) -> None:
        self._opening, self._about, self._served = opening, about, about["served"]
        self.compaction = opening()
        self._kept: list[str] = []
        self._going: tuple[Any, AsyncIterator[Any]] | None = None
        self.waiting: tuple[str, ...] = ()
        self.pieces: list[str] = []

    def say(self, content: Content) -> str:
        return str(self._served.run(self._start(ChatMessage(_blocks(content)))))

    def approve(self) -> str:
        return str(self._served.run(self._go_on(HumanResponseEvent())))

    async def _start(self, said: ChatMessage) -> str:
        about = self._about
        agent = CompactingFunctionAgent(
            tools=[*about["tools"], *(self.compaction.tools() if about["recall"] else ())],
            llm=self._served.llm,
            system_prompt=about["system"] or None,
            streaming=about["streaming"],
            compaction=self.compaction,
        )
        self._memory = ChatMemoryBuffer.from_defaults(
            self.stored(), token_limit=sys.maxsize, chat_store_key=about["thread"]
        )
        handler = agent.run(user_msg=said, memory=self._memory, max_iterations=MOST)
        self._going, self.pieces = (handler, handler.stream_events()), []
        return await self._go_on()

    async def _go_on(self, answer: HumanResponseEvent | None = None) -> str:
        assert self._going is not None
        (handler, events), self.waiting = self._going, ()
        if answer is not None:
            handler.ctx.send_event(answer)
        async for event in events:
            if isinstance(event, AgentStream) and event.delta:
                self.pieces.append(event.delta)
            if isinstance(event, WaitsForPerson):
                self.waiting = (event.name,)
                return ""
        output, self._going = await handler, None
        self._kept = [message.model_dump_json() for message in self._memory.get_all()]
        return str(output.response.content)

    def stored(self) -> list[ChatMessage]:
        return [ChatMessage.model_validate_json(message) for message in self._kept]

    def replay(self) -> list[Any]:
        """The original of what was sent last, and what came since, which is the answer."""
        return self.compaction.replay([*self._served.llm.noted, self.stored()[-1]], self._about["thread"])

    def undo(self) -> None:
        self.compaction.undo(self.stored(), self._about["thread"])

    def restart(self) -> None:
        self.compaction.close()
        self.compaction = self._opening()

    def beside(self, thread: str) -> "MemorySession":
        return MemorySession(lambda: self.compaction, {**self._about, "thread": thread})

    def close(self) -> None:
        self.compaction.close()
        self._served.close()


class LlamaIndexDoor:
    """`CompactingFunctionAgent(compaction=AgentCompaction(...))`."""

    name = "llama-index"
    format = GeminiMessages()

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
    ) -> MemorySession:
        functions = [FunctionTool.from_defaults(run, name, run.__doc__) for name, run in tools.items()]
        asking = [asking_first(tool) if tool.metadata.name in approve else tool for tool in functions]
        about = {"thread": thread, "tools": asking, "system": system, "streaming": streaming, "recall": recall}
        return MemorySession(lambda: AgentCompaction(**keywords), {**about, "served": Served(brain)})


DOOR = LlamaIndexDoor()


def asking_first(tool: FunctionTool) -> FunctionTool:
    """The tool, which waits for a person before it runs."""
    name = tool.metadata.get_name()

    async def run(ctx: Context, **arguments: Any) -> Any:
        await ctx.wait_for_event(HumanResponseEvent, waiter_event=WaitsForPerson(name=name))
        return tool.fn(**arguments)

    return FunctionTool(metadata=tool.metadata, async_fn=run)


def _blocks(content: Content) -> list[Any]:
    pieces = (content,) if isinstance(content, str) else content
    return [
        ImageBlock(image=base64.b64decode(piece.data), image_mimetype=piece.mime)
        if isinstance(piece, Image)
        else TextBlock(text=piece)
        for piece in pieces
    ]
