"""Pydantic AI's door: an `Agent` with our capability and a `FunctionModel` that asks, its history kept as JSON."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import Any

from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage

from unabridged.adapters.pydantic_ai import Compaction, PydanticAI
from unabridged_testing.adapter_contract import Brain, Content, Image, ModelReply, Seen, TooLong

_WIRE = OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(api_key="none"))
"""Only translates: what its provider would read is what the brain is shown."""

Opening = Callable[[], tuple[Agent[None, Any], Compaction]]


class Asking(FunctionModel):
    """The framework's own test model, which asks the brain and reports what the brain counted."""

    def __init__(self, brain: Brain, ids: Iterator[int]) -> None:
        super().__init__(self._answer, stream_function=self._pieces, model_name="asking")
        self._brain, self._ids, self._used = brain, ids, 0

    @asynccontextmanager
    async def request_stream(self, *given: Any, **more: Any) -> AsyncIterator[StreamedResponse]:
        async with super().request_stream(*given, **more) as streamed:
            streamed._usage = RequestUsage(input_tokens=self._used)  # noqa: SLF001 - the class counts none of the input
            yield streamed

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = await self._ask(messages, info)
        parts: list[Any] = [TextPart(said.text)] if said.text else []
        parts += [ToolCallPart(name, dict(given), f"call_{next(self._ids)}") for name, given in said.calls]
        return ModelResponse(parts, usage=RequestUsage(input_tokens=said.used or 0, output_tokens=1))

    async def _pieces(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        said = await self._ask(messages, info)
        self._used = said.used or 0
        for text in [said.text[:3], said.text[3:]] if said.text else []:
            yield text
        whole = [ToolCallPart(name, dict(given), f"call_{next(self._ids)}") for name, given in said.calls]
        for place, call in enumerate(whole):
            yield {place: DeltaToolCall(call.tool_name, call.args_as_json_str(), tool_call_id=call.tool_call_id)}

    async def _ask(self, messages: list[ModelMessage], info: AgentInfo) -> ModelReply:
        parameters = info.model_request_parameters
        wire = await _WIRE._map_messages(_WIRE.prepare_messages(messages, parameters), parameters)  # noqa: SLF001
        # Those that stand first are the agent's; behind them, from 2.68 on, the framework explains its own frames.
        standing = takewhile(lambda message: message["role"] == "system", wire)
        system = "\n".join(str(message["content"]) for message in standing)
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
            for tool in (*info.function_tools, *info.output_tools)
        ]
        rest = [message for message in wire if message["role"] != "system"]
        try:
            return self._brain(Seen.of(rest, "openai-chat", system=system, tools=tools))
        except TooLong as error:
            raise ModelContextWindowExceededError(self.model_name, str(error)) from None


class PydanticSession:
    """A conversation whose history an application keeps as JSON between its runs."""

    def __init__(self, opening: Opening, thread: str, *, streaming: bool) -> None:
        self._opening, self._thread, self._streaming = opening, thread, streaming
        self.agent, self.compaction = opening()
        self._kept: bytes = b"[]"
        self._asked: DeferredToolRequests | None = None
        self.pieces: list[str] = []

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(call.tool_name for call in self._asked.approvals) if self._asked else ()

    def say(self, content: Content) -> str:
        return asyncio.run(self._run(_items(content)))

    def approve(self) -> str:
        approvals = {call.tool_call_id: True for call in (self._asked.approvals if self._asked else [])}
        return asyncio.run(self._run(None, deferred_tool_results=DeferredToolResults(approvals=dict(approvals))))

    async def _run(self, prompt: Any, **more: Any) -> str:
        more |= {"message_history": self.stored(), "conversation_id": self._thread}
        self.pieces, self._asked = [], None
        if self._streaming:
            async with self.agent.run_stream(prompt, **more) as streamed:
                self.pieces = [piece async for piece in streamed.stream_text(delta=True, debounce_by=None)]
                output, messages = await streamed.get_output(), streamed.all_messages()
        else:
            result = await self.agent.run(prompt, **more)
            output, messages = result.output, result.all_messages()
        self._keep(messages)
        self._asked = output if isinstance(output, DeferredToolRequests) else None
        return "" if self._asked else str(output)

    def _keep(self, messages: list[ModelMessage]) -> None:
        self._kept = ModelMessagesTypeAdapter.dump_json(messages)

    def stored(self) -> list[Any]:
        return list(ModelMessagesTypeAdapter.validate_json(self._kept))

    def replay(self) -> list[Any]:
        return list(self.compaction.replay(self.stored()))

    def undo(self) -> None:
        self._keep(self.compaction.undo(self.stored()))

    def restart(self) -> None:
        self.compaction.close()
        self.agent, self.compaction = self._opening()

    def beside(self, thread: str) -> PydanticSession:
        return PydanticSession(lambda: (self.agent, self.compaction), thread, streaming=self._streaming)

    def close(self) -> None:
        self.compaction.close()


class PydanticDoor:
    """`Agent(capabilities=[Compaction(...)])`."""

    name = "pydantic_ai"
    format = PydanticAI()

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
    ) -> PydanticSession:
        ids = itertools.count()
        functions = [Tool(tool, name=name, requires_approval=name in approve) for name, tool in tools.items()]

        def opening() -> tuple[Agent[None, Any], Compaction]:
            compaction = Compaction(recall=recall, **keywords)
            agent: Agent[None, Any] = Agent(
                Asking(brain, ids),
                output_type=[str, DeferredToolRequests] if approve else str,
                instructions=system or None,
                tools=functions,
                capabilities=[compaction],
            )
            return agent, compaction

        return PydanticSession(opening, thread, streaming=streaming)


DOOR = PydanticDoor()


def _items(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [
        BinaryContent(base64.b64decode(part.data), media_type=part.mime) if isinstance(part, Image) else part
        for part in content
    ]
