"""LangChain's door: an agent of `create_agent` with a checkpointer, our middleware, and a chat model that asks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from unabridged.adapters.langchain import LangChain, SummarizationMiddleware, replay, undo
from unabridged.adapters.langchain.tools import SummarizationToolMiddleware
from unabridged_testing.adapter_contract import Brain, Content, Image, ModelReply, Seen, TooLong

_MIDDLEWARE = ("window", "archive", "namespace", "settings", "on_event")
"""Keywords of `Compactor` that the middleware takes by their names; the others go through its `options`."""


Opening = Callable[[], tuple[Any, SummarizationMiddleware]]


class AskingChat(BaseChatModel):
    """A chat model that asks the brain."""

    brain: Any
    ids: Any
    schemas: tuple[Any, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "asking"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.model_copy(update={"schemas": tuple(convert_to_openai_tool(tool) for tool in tools)})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._message(self._ask(messages)))])

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        said = self._ask(messages)
        for text in [said.text[:3], said.text[3:]] if said.text else []:
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
        whole = self._message(said)
        chunk = AIMessageChunk(content="", tool_calls=whole.tool_calls, usage_metadata=whole.usage_metadata)
        yield ChatGenerationChunk(message=chunk)

    def _ask(self, messages: list[BaseMessage]) -> ModelReply:
        system = "".join(str(m.text) for m in messages if m.type == "system")
        wire = convert_to_openai_messages([m for m in messages if m.type != "system"])
        try:
            return self.brain(Seen.of(list(wire), "openai-chat", system=system, tools=self.schemas))  # type: ignore[no-any-return]
        except TooLong as error:
            raise ContextOverflowError(str(error)) from None

    def _message(self, said: ModelReply) -> AIMessage:
        calls = [{"id": f"call_{next(self.ids)}", "name": name, "args": dict(args)} for name, args in said.calls]
        used = said.used or 0
        return AIMessage(
            said.text,
            tool_calls=calls,
            usage_metadata={"input_tokens": used, "output_tokens": 1, "total_tokens": used + 1},
        )


class LangChainSession:
    """A thread of a compiled agent."""

    def __init__(self, opening: Opening, thread: str, *, streaming: bool) -> None:
        self._opening, self._thread, self._streaming = opening, thread, streaming
        self._config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": 5_000}
        self.agent, self.middleware = opening()
        self.waiting: tuple[str, ...] = ()
        self.pieces: list[str] = []

    def say(self, content: Content) -> str:
        return self._run({"messages": [HumanMessage(_blocks(content))]})

    def approve(self) -> str:
        decisions = [{"type": "approve"} for _ in self.waiting]
        return self._run(Command(resume={"decisions": decisions}))

    def _run(self, given: Any) -> str:
        self.pieces = []
        if self._streaming:
            for chunk, _ in self.agent.stream(given, self._config, stream_mode="messages"):
                self._hear(chunk)
        else:
            self.agent.invoke(given, self._config)
        return self._outcome()

    def _hear(self, chunk: Any) -> None:
        if isinstance(chunk, AIMessageChunk) and chunk.text:
            self.pieces.append(str(chunk.text))

    def _outcome(self) -> str:
        state = self.agent.get_state(self._config)
        asked = [request for found in state.interrupts for request in found.value["action_requests"]]
        self.waiting = tuple(request["name"] for request in asked)
        return "" if self.waiting else str(state.values["messages"][-1].text)

    def stored(self) -> list[Any]:
        return list(self.agent.get_state(self._config).values["messages"])

    def replay(self) -> list[Any]:
        return list(replay(self.agent, self._thread))

    def undo(self) -> None:
        undo(self.agent, self._thread)

    def restart(self) -> None:
        self.middleware.close()
        self.agent, self.middleware = self._opening()

    def beside(self, thread: str) -> Self:
        return type(self)(lambda: (self.agent, self.middleware), thread, streaming=self._streaming)

    def close(self) -> None:
        self.middleware.close()


class LangChainDoor:
    """`create_agent` with `SummarizationMiddleware`; the checkpointer outlives a restart."""

    name = "langchain"
    format = LangChain()
    session = LangChainSession
    options: Mapping[str, Any] = {}
    """More arguments of the middleware."""

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
    ) -> LangChainSession:
        own = {name: keywords.pop(name) for name in _MIDDLEWARE if name in keywords}
        saver, ids = InMemorySaver(), itertools.count()
        functions = [StructuredTool.from_function(tool, name=name) for name, tool in tools.items()]

        def opening() -> tuple[Any, SummarizationMiddleware]:
            middleware = SummarizationMiddleware(**own, **self.options, options=keywords)
            others: list[Any] = [SummarizationToolMiddleware(middleware, compact=False)] if recall else []
            others += [HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(approve, True))] if approve else []
            model = AskingChat(brain=brain, ids=ids, profile={"max_input_tokens": own["window"]})
            agent = create_agent(
                model,
                functions,
                system_prompt=system or None,
                middleware=[middleware, *others],
                checkpointer=saver,
            )
            return agent, middleware

        return self.session(opening, thread, streaming=streaming)


DOOR = LangChainDoor()


def _blocks(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"type": "image", "base64": part.data, "mime_type": part.mime}
        if isinstance(part, Image)
        else {"type": "text", "text": part}
        for part in content
    ]
