"""An adapter that is given no model asks the agent's own for its summaries; `model=None` asks nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent as FrameworkAgent
from agent_framework import AgentSession
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from agents import Agent as OpenAIAgent
from agents import OpenAIProvider, RunConfig, Runner, SQLiteSession, function_tool
from google.adk.agents import LlmAgent
from google.adk.agents import RunConfig as AdkRunConfig
from google.adk.agents.run_config import StreamingMode  # type: ignore[attr-defined]
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types
from llama_index.core.agent.workflow import AgentStream
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.llms.google_genai import GoogleGenAI
from openai import AsyncOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider as PydanticOpenAIProvider
from strands import Agent as StrandsAgent
from strands import tool
from strands.models.openai import OpenAIModel as StrandsOpenAIModel

from doors import door_named
from own_model_case import OTHER, TALK, TURNS, WRITTEN, Brain, note, said
from patience import PATIENCE
from rows import rows
from unabridged import Settings
from unabridged.adapters.agent_framework import CompactionMiddleware
from unabridged.adapters.google_adk import CompactionPlugin
from unabridged.adapters.llama_index import AgentCompaction, CompactingFunctionAgent
from unabridged.adapters.openai_agents import CompactingProvider, CompactingSession
from unabridged.adapters.pydantic_ai import Compaction
from unabridged.adapters.strands import CompactingConversationManager
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.events import Event, Failed
from unabridged_testing.adapter_contract import ModelReply, Seen, TooLong
from unabridged_testing.loopback import Loopback, LoopbackReply

ADAPTERS = ("agent_framework", "google_adk", "llama_index", "openai_agents", "pydantic_ai", "strands")
ON_THE_WIRE = 14
EVERY_MODEL_CALL_IS_A_TURN = Settings(clear=None, cool_down=0, retries=0)


@contextmanager
def talking(
    name: str, folder: Path, *, brain: Any = None, streaming: bool = False, **keywords: Any
) -> Iterator[tuple[Any, Any]]:
    """An agent of the framework with the adapter, in a window that a few turns fill."""
    brain = brain or Brain()
    given = {"window": 3_000, "archive": f"sqlite:///{folder / 'archive.db'}", "settings": EVERY_MODEL_CALL_IS_A_TURN}
    session = door_named(name).open(
        brain, thread="t", tools={"note": note}, streaming=streaming, **{**given, **keywords}
    )
    try:
        yield brain, session
    finally:
        session.close()


def talk(session: Any, turns: int = TURNS) -> list[str]:
    """Say something in so many turns; the pieces that the framework streamed meanwhile."""
    pieces: list[str] = []
    for i in range(turns):
        assert session.say(said(i)) == TALK
        pieces += session.pieces
    return pieces


def receipts(folder: Path) -> list[dict[str, Any]]:
    """The receipts of the thread's summaries, as the archive has them."""
    archive = open_archive(f"sqlite:///{folder / 'archive.db'}")
    try:
        found = [record for name in archive.namespaces() for record in archive.records(Scope(name, "t"))]
        return [record.data["receipt"] for record in found if record.kind == "summary"]
    finally:
        archive.close()


# -- every adapter ----------------------------------------------------------------------------------------------------


# R49
@rows("streaming", [False, True])
@rows("name", ADAPTERS)
def test_without_a_model_the_agents_own_writes_the_summaries(name: str, streaming: bool, tmp_path: Path) -> None:
    events: list[Event] = []
    with talking(name, tmp_path, streaming=streaming, on_event=events.append) as (brain, session):
        pieces = talk(session)
        assert brain.asks
        assert WRITTEN in brain.talks[-1].text
        assert "".join(pieces) == TALK * TURNS * streaming  # and nothing of a summary
        assert len(brain.talks) == TURNS  # what writes the summaries answers no turn, and no turn is asked twice
        assert not any(seen.tools or seen.schemas or seen.faults for seen in brain.asks)
        assert WRITTEN not in str(session.replay())
    made = receipts(tmp_path)
    assert made
    assert all(receipt["summariser"] != "model-free" for receipt in made)
    assert sum(receipt["cost"]["calls"] for receipt in made) == len(brain.asks)
    assert sum(receipt["cost"]["input"] for receipt in made) == sum(seen.tokens for seen in brain.asks)
    assert not any(isinstance(event, Failed) for event in events)


# R49
@rows("streaming", [False, True])
@rows("name", ADAPTERS)
def test_none_as_the_model_asks_nobody_and_says_nothing_of_it(
    name: str, streaming: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with talking(name, tmp_path, streaming=streaming, model=None) as (brain, session):
        talk(session)
        assert not brain.asks
        assert len(brain.talks) == TURNS
    made = receipts(tmp_path)
    assert {receipt["summariser"] for receipt in made} == {"model-free"}
    assert not any("model-free" in one for receipt in made for one in receipt["notes"])
    assert "without a model" not in caplog.text


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_function_as_the_model_is_asked_in_the_place_of_the_agents(name: str, tmp_path: Path) -> None:
    with talking(name, tmp_path, model=lambda _: OTHER) as (brain, session):
        talk(session)
        assert not brain.asks
        assert OTHER in brain.talks[-1].text


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_the_agents_model_fails_to_write_a_fallback_writes_or_nobody(name: str, tmp_path: Path) -> None:
    for folder in ("alone", "fallback"):
        (tmp_path / folder).mkdir()
    with talking(name, tmp_path / "alone", brain=Brain(fails=True)) as (brain, session):
        talk(session)
        assert brain.asks
    assert any("model-free: " in one for receipt in receipts(tmp_path / "alone") for one in receipt["notes"])
    with talking(name, tmp_path / "fallback", brain=Brain(fails=True), fallback=lambda _: OTHER) as (brain, session):
        talk(session)
        assert brain.asks
        assert OTHER in brain.talks[-1].text


@pytest.mark.parametrize("name", ADAPTERS)
def test_where_a_request_was_refused_the_agents_model_writes_what_is_sent_instead(name: str, tmp_path: Path) -> None:
    refused: list[bool] = []

    class Small(Brain):
        """A model that takes 2,500 tokens, which nobody knows."""

        def __call__(self, seen: Seen) -> ModelReply:
            if seen.tokens > 2_500:
                refused.append(bool(seen.tools))
                raise TooLong(2_500, seen.tokens)
            return super().__call__(seen)

    with talking(name, tmp_path, brain=Small(), window=20_000) as (brain, session):
        talk(session)
        assert WRITTEN in brain.talks[-1].text
    assert refused == [True]  # the window that is learned by it holds for summaries too


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_summary_that_is_begun_early_is_written_by_the_agents_model_too(name: str, tmp_path: Path) -> None:
    settings = Settings(clear=None, background=0.4)
    with talking(name, tmp_path, settings=settings) as (brain, session):
        talk(session, 3)
        made: list[dict[str, Any]] = []
        for i in range(3, TURNS):  # whether a turn begins one depends on whether the turn before has come to an end
            session.say(said(i))
            for worker in threading.enumerate():
                if worker.name == "unabridged-early":
                    worker.join(PATIENCE)
            made = receipts(tmp_path)
            if made:
                break
        assert [receipt["reason"] for receipt in made] == ["made early, in the background"]
        assert made[0]["summariser"] != "model-free"
        assert brain.asks
        talk(session)
        assert WRITTEN in brain.talks[-1].text


@pytest.mark.parametrize("name", ADAPTERS)
def test_after_a_restart_the_summary_is_the_same_and_nobody_is_asked_again(name: str, tmp_path: Path) -> None:
    with talking(name, tmp_path) as (brain, session):
        talk(session)
        asks = len(brain.asks)
        session.restart()
        session.say("And now?")
        assert len(brain.asks) == asks
        assert WRITTEN in brain.talks[-1].text


# -- over HTTP, with the frameworks' own clients ----------------------------------------------------------------------


def wire_script(messages: Any) -> LoopbackReply:
    return LoopbackReply(WRITTEN if "You write the record of a long conversation" in str(messages[-1]) else TALK)


async def with_agent_framework(url: str, *, streaming: bool, kind: Any) -> list[str]:
    async with AsyncOpenAI(base_url=url, api_key="none") as api:
        compaction = CompactionMiddleware(archive=MemoryArchive(), window=3_000)
        agent = FrameworkAgent(
            kind("gpt-5-mini", async_client=api),
            tools=[note],
            middleware=[compaction],
            default_options={"store": False},
        )
        session, pieces = AgentSession(session_id="t"), []
        for i in range(ON_THE_WIRE):
            if streaming:
                run = agent.run(said(i), session=session, stream=True)
                parts = [part async for update in run for part in update.contents]
                pieces += [part.text or "" for part in parts if part.merge_mode != "replace"]  # which repeats the text
            else:
                pieces.append((await agent.run(said(i), session=session)).text)
        return pieces


async def with_openai_agents(url: str, *, streaming: bool, responses: bool) -> list[str]:
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        provider = CompactingProvider(
            OpenAIProvider(openai_client=client, use_responses=responses), archive="memory:", window=3_000
        )
        session = CompactingSession(SQLiteSession("t"), provider)
        agent = OpenAIAgent("desk", tools=[function_tool(note)], model="gpt-5-mini")
        config = RunConfig(model_provider=provider, tracing_disabled=True)
        pieces: list[str] = []
        for i in range(ON_THE_WIRE):
            if streaming:
                result: Any = Runner.run_streamed(agent, said(i), session=session, run_config=config)
                raw = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
                pieces += [event.delta for event in raw if event.type == "response.output_text.delta"]
            else:
                result = await Runner.run(agent, said(i), session=session, run_config=config)
                pieces.append(result.final_output)
        return pieces


async def with_pydantic_ai(url: str, *, streaming: bool) -> list[str]:
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        model = OpenAIChatModel("gpt-5-mini", provider=PydanticOpenAIProvider(openai_client=client))
        capability = Compaction(archive=MemoryArchive(), window=3_000)
        agent = PydanticAgent(model, tools=[note], capabilities=[capability])
        pieces: list[str] = []
        history: list[ModelMessage] = []
        for i in range(ON_THE_WIRE):
            if streaming:
                async with agent.run_stream(said(i), message_history=history) as run:
                    pieces += [piece async for piece in run.stream_text(delta=True, debounce_by=None)]
                    history = run.all_messages()
            else:
                result = await agent.run(said(i), message_history=history)
                pieces, history = [*pieces, result.output], result.all_messages()
        return pieces


async def with_llama_index(url: str, *, streaming: bool) -> list[str]:
    options: Any = {"max_tokens": 500, "context_window": 3_000, "http_options": types.HttpOptions(base_url=url)}
    llm = GoogleGenAI("gemini-3-flash-preview", "none", **options)
    compaction = AgentCompaction(archive=MemoryArchive())
    agent = CompactingFunctionAgent(tools=[note], llm=llm, streaming=streaming, compaction=compaction)
    memory = ChatMemoryBuffer.from_defaults(token_limit=10**9, chat_store_key="t")
    pieces: list[str] = []
    for i in range(ON_THE_WIRE):
        handler = agent.run(said(i), memory=memory)
        if streaming:
            pieces += [event.delta async for event in handler.stream_events() if isinstance(event, AgentStream)]
        output = await handler
        pieces += [] if streaming else [str(output.response.content)]
    await llm._client.aio.aclose()  # noqa: SLF001 - it has no way to close it
    return pieces


async def with_google_adk(url: str, *, streaming: bool) -> list[str]:
    model = Gemini(model="gemini-3-flash-preview", base_url=url, client_kwargs={"api_key": "none"})
    agent = LlmAgent(name="desk", model=model, tools=[note])
    app = App(name="desk", root_agent=agent, plugins=[CompactionPlugin(archive=MemoryArchive(), window=3_000)])
    runner = InMemoryRunner(app=app)
    runner.auto_create_session = True
    config = AdkRunConfig(streaming_mode=StreamingMode.SSE if streaming else StreamingMode.NONE)
    pieces: list[str] = []
    for i in range(ON_THE_WIRE):
        message = types.Content(role="user", parts=[types.Part(text=said(i))])
        async for event in runner.run_async(user_id="ada", session_id="t", new_message=message, run_config=config):
            texts = [part.text or "" for part in (event.content.parts or ())] if event.content else []
            pieces += texts if bool(event.partial) == streaming else []
    await model.api_client.aio.aclose()
    return pieces


async def with_strands(url: str, *, streaming: bool) -> list[str]:
    model = StrandsOpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id="gpt-5-mini")
    manager = CompactingConversationManager(archive="memory:", window=3_000)
    agent = StrandsAgent(model, tools=[tool(note)], conversation_manager=manager, callback_handler=None)
    pieces: list[str] = []
    for i in range(ON_THE_WIRE):
        if streaming:
            pieces += [event["data"] async for event in agent.stream_async(said(i)) if "data" in event]
        else:
            pieces.append(str(await agent.invoke_async(said(i))).strip())
    return pieces


WIRES: dict[str, Callable[..., Coroutine[Any, Any, list[str]]]] = {
    "agent_framework-responses": partial(with_agent_framework, kind=OpenAIChatClient),
    "agent_framework-chat": partial(with_agent_framework, kind=OpenAIChatCompletionClient),
    "google_adk": with_google_adk,
    "llama_index": with_llama_index,
    "openai_agents-responses": partial(with_openai_agents, responses=True),
    "openai_agents-chat": partial(with_openai_agents, responses=False),
    "pydantic_ai": with_pydantic_ai,
    "strands": with_strands,
}


# R49
@rows("streaming", [False, True])
@rows("name", WIRES)
def test_over_http_a_summary_is_one_request_without_tools_and_nothing_of_it_is_streamed(
    name: str, streaming: bool
) -> None:
    with Loopback(wire_script, window=6_000) as provider:
        pieces = asyncio.run(WIRES[name](provider.url, streaming=streaming))
    asks = [body for body in provider.requests if "You write the record of a long conversation" in str(body)]
    talks = [body for body in provider.requests if body not in asks]
    assert asks
    assert not any(body.get("tools") or body.get("tool_choice") for body in asks)
    assert all(body.get("tools") for body in talks)
    assert len(talks) == ON_THE_WIRE
    assert WRITTEN in str(talks[-1])
    assert "".join(pieces) == TALK * ON_THE_WIRE
    assert not provider.refused
    assert not provider.too_long
