"""OpenAI Agents' door: an agent with a session, our provider, the real runner, and the SDK's scripted model."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import openai
from agents import Agent, RunConfig, Runner, RunState, SQLiteSession, Usage, function_tool
from agents.models.interface import Model, ModelProvider
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

from unabridged.adapters.openai_agents import CompactingProvider, CompactingSession, recall_tools
from unabridged.adapters.openai_agents.runs import FORMAT, build_schemas
from unabridged_testing.adapter_contract import Brain, Content, Image, Seen, TooLong

MOST = 400
"""Requests that a scripted model answers, and turns that a run may take."""
Opening = Callable[[], CompactingProvider]
ids = itertools.count()


class OneModel(ModelProvider):
    """Gives the same model for every name."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def get_model(self, model_name: str | None) -> Model:  # noqa: ARG002 - the interface's
        return self.model


def asking(brain: Brain, *, in_pieces: bool = False) -> ScriptedModel:
    """The SDK's scripted model, each of whose steps asks the brain; it streams each part of a text as one piece."""

    def answer(call: ModelCall) -> ModelStep:
        tools = build_schemas(call.tools, call.handoffs)
        system = call.system_instructions or ""
        try:
            said = brain(Seen.of(call.input, "openai-responses", system=system, tools=tools))
        except TooLong as error:
            return ModelStep.raise_error(refusal(error))
        output = [function_call(name, args, call_id=f"call_{next(ids)}") for name, args in said.calls]
        if said.text:
            message: Any = assistant_message(said.text, item_id=f"msg_{next(ids)}")
            texts = [said.text[:3], said.text[3:]] if in_pieces else [said.text]
            message.content = [message.content[0].model_copy(update={"text": text}) for text in texts]
            output.append(message)
        used = said.used or 0
        return ModelStep(output, Usage(requests=1, input_tokens=used, output_tokens=1, total_tokens=used + 1))

    return ScriptedModel([ModelStep.respond(answer)] * MOST)


def refusal(error: TooLong) -> openai.BadRequestError:
    """What the OpenAI client raises for a request that is too long."""
    told = f"This model's maximum context length is {error.limit} tokens. However, your messages resulted in "
    told += f"{error.requested} tokens. Please reduce the length of the messages."
    body = {"message": told, "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}
    httpx: Any = import_module(
        "httpx2" if find_spec("httpx2") else "httpx"
    )  # which one openai uses depends on its version
    response = httpx.Response(400, request=httpx.Request("POST", "https://api.openai.com/v1/responses"))
    return openai.BadRequestError(f"Error code: 400 - {{'error': {body}}}", response=response, body=body)


class AgentsSession:
    """A session of an agent; each turn is a run of its own."""

    def __init__(self, agent: Agent[Any], opening: Opening, thread: str, *, streaming: bool) -> None:
        self._agent, self._opening, self._streaming = agent, opening, streaming
        self._inner = SQLiteSession(thread)
        self._open(opening())
        self._state: RunState[Any] | None = None
        self.waiting: tuple[str, ...] = ()
        self.pieces: list[str] = []

    def _open(self, provider: CompactingProvider) -> None:
        self.provider = provider
        self.session = CompactingSession(self._inner, provider)

    def say(self, content: Content) -> str:
        return asyncio.run(self._run(_items(content)))

    def approve(self) -> str:
        assert self._state is not None
        for item in self._state.get_interruptions():
            self._state.approve(item)
        return asyncio.run(self._run(self._state))

    async def _run(self, given: Any) -> str:
        config = RunConfig(model_provider=self.provider, tracing_disabled=True)
        options: Any = {"session": self.session, "run_config": config, "max_turns": MOST}
        result: Any
        if self._streaming:
            result = Runner.run_streamed(self._agent, given, **options)
            raw = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
            self.pieces = [event.delta for event in raw if event.type == "response.output_text.delta"]
        else:
            result = await Runner.run(self._agent, given, **options)
        self.waiting = tuple(str(item.name) for item in result.interruptions)
        self._state = result.to_state() if self.waiting else None
        return "" if self.waiting else str(result.final_output)

    def stored(self) -> list[Any]:
        return asyncio.run(self.session.get_items())

    def replay(self) -> list[Any]:
        return asyncio.run(self.session.replay())

    def undo(self) -> None:
        asyncio.run(self.session.undo())

    def restart(self) -> None:
        asyncio.run(self.provider.aclose())
        self._open(self._opening())

    def beside(self, thread: str) -> AgentsSession:
        return AgentsSession(self._agent, lambda: self.provider, thread, streaming=self._streaming)

    def close(self) -> None:
        asyncio.run(self.provider.aclose())


class AgentsDoor:
    """`Runner` with `CompactingProvider` and `CompactingSession`; the inner session outlives a restart."""

    name = "openai-agents"
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
    ) -> AgentsSession:
        model = asking(brain, in_pieces=streaming)
        functions: list[Any] = [
            function_tool(tool, name_override=name, needs_approval=name in approve) for name, tool in tools.items()
        ]
        agent = Agent("worker", instructions=system or None, tools=functions)

        def opening() -> CompactingProvider:
            provider = CompactingProvider(OneModel(model), **keywords)
            agent.tools = [*functions, *(recall_tools(provider) if recall else [])]
            return provider

        return AgentsSession(agent, opening, thread, streaming=streaming)


DOOR = AgentsDoor()


def _items(content: Content) -> Any:
    if isinstance(content, str):
        return content
    parts = [
        {"type": "input_image", "image_url": f"data:{part.mime};base64,{part.data}", "detail": "auto"}
        if isinstance(part, Image)
        else {"type": "input_text", "text": part}
        for part in content
    ]
    return [{"role": "user", "content": parts}]
