"""The agent's own model as the summariser: by hand, whose model it is, and how it is asked."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import ModelSettings, RunConfig, Runner, SQLiteSession, function_tool
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage
from strands import Agent as StrandsAgent

from doors.google_adk import AskingLlm
from doors.openai_agents import OneModel, asking
from doors.strands import AskingModel
from own_model_case import OTHER, TURNS, WRITTEN, Brain, note, said
from unabridged import Compactor, Settings
from unabridged.adapters.google_adk import CompactionPlugin
from unabridged.adapters.google_adk.summariser import to_summariser as adk_summariser
from unabridged.adapters.openai_agents import (
    CompactingModel,
    CompactingProvider,
    CompactingSession,
    input_filter,
    thread,
)
from unabridged.adapters.openai_agents.summariser import to_summariser as openai_summariser
from unabridged.adapters.pydantic_ai import Compaction, PydanticAI
from unabridged.adapters.strands import CompactingConversationManager
from unabridged.adapters.strands.summariser import to_summariser as strands_summariser
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.events import Compacted, Event, Receipt

# -- what is asked by hand --------------------------------------------------------------------------------------------


def written_by(receipt: Receipt | None) -> str:
    assert receipt is not None
    return receipt.summariser


# R49
def test_openai_agents_compact_by_hand_has_no_model_before_the_first_request(caplog: pytest.LogCaptureFixture) -> None:
    brain = Brain()

    async def main() -> None:
        provider = CompactingProvider(OneModel(asking(brain)), archive="memory:", window=6_000)
        session = CompactingSession(SQLiteSession("t"), provider)
        await session.add_items(
            [{"role": role, "content": said(i)} for i in range(12) for role in ("user", "assistant")]
        )
        first = await session.compact()
        assert first is not None
        assert written_by(first.receipt) == "model-free"
        assert [one for one in first.receipt.notes if one.startswith("model-free: the agent's own model is not known")]  # type: ignore[union-attr]
        assert not brain.asks
        await session.add_items(
            [{"role": role, "content": said(i)} for i in range(6) for role in ("user", "assistant")]
        )
        again = await session.compact()
        assert again is not None
        assert written_by(again.receipt) == "model-free"
        warnings = [one for one in caplog.records if "without a model" in one.message]
        assert [one.levelno for one in warnings] == [logging.WARNING]  # once
        assert "model=None" in warnings[0].message

        agent = OpenAIAgent("desk", tools=[function_tool(note)])
        config = RunConfig(model_provider=provider, tracing_disabled=True)
        for i in range(3):
            await Runner.run(agent, said(i), session=session, run_config=config)
        brain.asks.clear()
        last = await session.compact()
        assert last is not None
        assert brain.asks
        assert WRITTEN in str(last.messages)
        assert written_by(last.receipt) != "model-free"

    asyncio.run(main())


def test_openai_agents_compact_by_hand_asks_a_fallback_where_no_model_is_known() -> None:
    async def main() -> None:
        provider = CompactingProvider(archive="memory:", window=6_000, fallback=lambda _: OTHER)
        session = CompactingSession(SQLiteSession("t"), provider)
        await session.add_items(
            [{"role": role, "content": said(i)} for i in range(12) for role in ("user", "assistant")]
        )
        done = await session.compact()
        assert done is not None
        assert OTHER in str(done.messages)
        assert not any("model-free" in one for one in done.receipt.notes)  # type: ignore[union-attr]

    asyncio.run(main())


# R49
def test_strands_compact_by_hand_knows_the_agents_model_before_the_first_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    brain = Brain()
    manager = CompactingConversationManager(archive="memory:", window=100_000, settings=Settings(keep=("messages", 2)))
    messages: Any = [{"role": role, "content": [{"text": said(i)}]} for i in range(8) for role in ("user", "assistant")]
    agent = StrandsAgent(AskingModel(brain), messages=messages, conversation_manager=manager, callback_handler=None)
    manager.reduce_context(agent)
    assert len(brain.asks) == 1
    assert WRITTEN in str(agent.messages[0])

    other = Brain(written=OTHER)  # the model that the agent has now
    agent.model = AskingModel(other)
    agent.messages += messages

    async def by_hand() -> None:
        manager.reduce_context(agent)  # blocks the event loop, and ends all the same

    asyncio.run(by_hand())
    assert len(brain.asks) == 1
    assert len(other.asks) == 1
    assert OTHER in str(agent.messages[0])
    assert "without a model" not in caplog.text


def _talk() -> list[ModelMessage]:
    """Sixteen messages of a run."""
    return [
        message
        for i in range(8)
        for message in (ModelRequest([UserPromptPart(said(i))]), ModelResponse([TextPart(said(i))]))
    ]


def pydantic_writer(asked: list[tuple[str, AgentInfo]], text: str = WRITTEN) -> FunctionModel:
    def write(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append((str(messages[-1].parts[-1].content), info))  # type: ignore[union-attr]
        return ModelResponse([TextPart(text)])

    return FunctionModel(write, model_name="writer")


# R49
def test_pydantic_ai_compact_by_hand_asks_the_runs_model_with_its_focus(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[tuple[str, AgentInfo]] = []
    capability = Compaction(archive=MemoryArchive(), window=100_000, settings=Settings(keep=("messages", 2)))
    context = RunContext[None](deps=None, model=pydantic_writer(asked), usage=RunUsage(), conversation_id="t")
    made = asyncio.run(capability.compact(_talk(), context))
    assert WRITTEN in PydanticAI().read(made[0]).text
    asyncio.run(capability.with_focus("the pumps in cellar 4").compact(_talk()[2:], context))
    assert ["cellar 4" in text for text, _ in asked] == [False, True]
    assert "without a model" not in caplog.text

    unknown: Any = RunContext[None](deps=None, model=None, usage=RunUsage(), conversation_id="t2")  # type: ignore[arg-type]
    asyncio.run(capability.compact(_talk(), unknown))
    assert len(asked) == 2
    assert caplog.text.count("without a model: the agent's own model is not known") == 1


# R49
def test_the_openai_filter_asks_a_model_that_the_agent_has_as_an_object_and_nobody_by_a_name(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def receipts_of(agent_model: Any, brain: Brain, **config: Any) -> list[Receipt]:
        events: list[Event] = []
        fitting = input_filter(archive="memory:", window=3_000, on_event=events.append, settings=Settings(clear=None))
        agent = OpenAIAgent("desk", tools=[function_tool(note)], model=agent_model)
        options: Any = {"call_model_input_filter": fitting, "tracing_disabled": True, **config}

        async def main() -> None:
            items: list[Any] = []
            for i in range(TURNS):
                done = await Runner.run(
                    agent, [*items, {"role": "user", "content": said(i)}], run_config=RunConfig(**options)
                )
                items = done.to_input_list()

        with thread("t"):
            asyncio.run(main())
        assert len(brain.talks) == TURNS
        return [event.receipt for event in events if isinstance(event, Compacted)]

    brain = Brain()
    assert "model-free" not in {one.summariser for one in receipts_of(asking(brain), brain)}
    assert WRITTEN in brain.talks[-1].text

    tools_given: list[bool] = []
    plain = CompactingModel.get_response

    async def noting(self: Any, *given: Any, **more: Any) -> Any:
        tools_given.append(bool(more["tools"]))
        return await plain(self, *given, **more)

    monkeypatch.setattr(CompactingModel, "get_response", noting)
    brain = Brain()
    wrapped = CompactingProvider(archive="memory:", window=100_000).wrap(asking(brain))
    assert "model-free" not in {one.summariser for one in receipts_of(wrapped, brain)}
    assert tools_given == [True] * TURNS  # no summary goes by way of what compacts

    brain = Brain()
    assert not caplog.text.count("without a model")
    assert {one.summariser for one in receipts_of("named", brain, model_provider=OneModel(asking(brain)))} == {
        "model-free"
    }
    assert not brain.asks
    assert caplog.text.count("a summary was made without a model") == 1


# -- whose model, and how it is asked ---------------------------------------------------------------------------------


def test_each_request_asks_its_own_model_though_two_have_one_name() -> None:
    capability = Compaction(archive=MemoryArchive(), window=100_000, settings=Settings(keep=("messages", 2)))
    for tenant in ("ada", "bob"):
        asked: list[tuple[str, AgentInfo]] = []
        context = RunContext[None](
            deps=None,
            model=pydantic_writer(asked, f"{WRITTEN} So says {tenant}."),
            usage=RunUsage(),
            conversation_id=tenant,
        )
        made = asyncio.run(capability.compact(_talk(), context))
        assert len(asked) == 1
        assert f"So says {tenant}." in PydanticAI().read(made[0]).text


def test_pydantic_ai_shares_headers_and_storage_with_the_summary_and_no_other_setting() -> None:
    asked: list[tuple[str, AgentInfo]] = []
    given: Any = {
        "extra_headers": {"x-team": "pumps"},
        "openai_store": False,
        "temperature": 2.0,
        "tool_choice": "none",
    }
    context = RunContext[None](
        deps=None, model=pydantic_writer(asked), usage=RunUsage(), conversation_id="t", model_settings=given
    )
    asyncio.run(Compaction(archive=MemoryArchive(), window=6_000).compact(_talk(), context))
    settings: Any = asked[0][1].model_settings
    assert (settings["extra_headers"], settings["openai_store"]) == ({"x-team": "pumps"}, False)
    assert not {"temperature", "tool_choice"} & set(settings)
    assert settings["max_tokens"] > 0
    assert not asked[0][1].function_tools


def test_openai_agents_shares_headers_and_storage_with_the_summary_and_no_other_setting() -> None:
    brain = Brain()
    model = asking(brain)
    settings = ModelSettings(extra_headers={"x-team": "pumps"}, store=False, temperature=2.0, tool_choice="auto")
    agent = OpenAIAgent("desk", tools=[function_tool(note)], model_settings=settings)

    async def main() -> None:
        provider = CompactingProvider(OneModel(model), archive="memory:", window=3_000)
        session = CompactingSession(SQLiteSession("t"), provider)
        for i in range(TURNS):
            config = RunConfig(model_provider=provider, tracing_disabled=True)
            await Runner.run(agent, said(i), session=session, run_config=config)

    asyncio.run(main())
    asks = [call for call in model.calls if not call.tools]
    assert asks
    for call in asks:
        used = call.model_settings
        assert (used.extra_headers, used.store) == ({"x-team": "pumps"}, False)
        assert (used.temperature, used.tool_choice, used.extra_args) == (None, None, None)
        assert used.max_tokens
        assert not call.handoffs
        assert call.tracing.is_disabled()


def test_google_adk_shares_headers_safety_and_labels_with_the_summary_and_no_other_setting() -> None:
    requests: list[Any] = []

    class Noting(AskingLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            if llm_request.config.tools:
                assert llm_request.config.http_options.headers == {"x-team": "pumps"}
            else:
                requests.append(llm_request)
                assert llm_request.config.http_options.headers == {"x-team": "pumps"}
                llm_request.config.http_options.headers = {"changed": "here"}  # as ADK's own model does
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    brain = Brain()
    safety = [types.SafetySetting(category="HARM_CATEGORY_HARASSMENT", threshold="BLOCK_NONE")]  # type: ignore[arg-type]
    config = types.GenerateContentConfig(
        http_options=types.HttpOptions(headers={"x-team": "pumps"}), safety_settings=safety, temperature=2.0
    )
    model = Noting(model="asking", brain=brain, ids=itertools.count())
    agent = LlmAgent(name="desk", model=model, tools=[note], generate_content_config=config)
    app = App(name="desk", root_agent=agent, plugins=[CompactionPlugin(archive=MemoryArchive(), window=3_000)])

    async def main() -> None:
        runner = InMemoryRunner(app=app)
        runner.auto_create_session = True
        for i in range(TURNS):
            message = types.Content(role="user", parts=[types.Part(text=said(i))])
            async for event in runner.run_async(user_id="ada", session_id="t", new_message=message):
                assert WRITTEN not in str(event.content)

    asyncio.run(main())
    assert requests
    for one in requests:
        assert one.model == "asking"
        assert one.config.safety_settings == safety
        assert one.config.temperature is None
        assert one.config.max_output_tokens
        assert not one.tools_dict


@pytest.mark.parametrize(
    "writer",
    [
        lambda brain: strands_summariser(AskingModel(brain)),
        lambda brain: adk_summariser(AskingLlm(model="asking", brain=brain, ids=itertools.count())),
        lambda brain: openai_summariser(asking(brain)),
    ],
    ids=["strands", "google_adk", "openai_agents"],
)
def test_a_model_of_a_framework_that_is_given_sees_what_goes_also_where_a_suffix_is_asked_for(writer: Any) -> None:
    brain = Brain()
    settings = Settings(suffix=True, keep=("messages", 2))
    compactor = Compactor(writer(brain), window=100_000, archive="memory:", settings=settings)
    messages = [{"role": role, "content": said(i)} for i in range(12) for role in ("user", "assistant")]
    done = compactor.compact(messages)
    assert done is not None
    assert WRITTEN in str(done.messages)
    assert "item3x7" in brain.asks[0].text
