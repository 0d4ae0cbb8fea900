"""`Compaction` in real agents of Pydantic AI, with its own test models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent, AgentRunResult, RunContext
from pydantic_ai import messages as kinds
from pydantic_ai.capabilities import AbstractCapability, Capability, Instrumentation
from pydantic_ai.exceptions import ModelContextWindowExceededError, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage, RunUsage, UsageLimits

from unabridged import Settings, WontFit
from unabridged.adapters.kit import thread
from unabridged.adapters.pydantic_ai import Compaction, PydanticAI
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.asking.ask import Ask, Reply
from unabridged.errors import SettingsError
from unabridged.marks import is_generated_turn
from unabridged.tokens.calibrate import Usage
from unabridged.tokens.meter import Meter

FORMAT = PydanticAI()
WINDOW = 4_000
RULE = "Never touch pump 7."
TASK = f"{RULE} Read all the reports."


@dataclass
class Scripted:
    """A model that works through so many reports; it keeps what it was sent."""

    steps: int = 25
    refuse: Sequence[int] = ()
    """The numbers of the requests that it refuses as too long."""
    sent: list[list[ModelMessage]] = field(default_factory=list)
    infos: list[AgentInfo] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """What each request took, all of it."""

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.sent.append(list(messages))
        self.infos.append(info)
        if len(self.sent) - 1 in self.refuse:
            raise ModelContextWindowExceededError("scripted", "prompt is too long: 5000 tokens > 3000 maximum")
        done = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart) and part.tool_name == "report"]
        number = int(str(done[-1].content).split()[1]) + 1 if done else 0
        parts: list[Any] = [ToolCallPart("report", {"number": number})] if number < self.steps else [TextPart("Done.")]
        beside = Meter().overhead([*prompts(messages), info.instructions or ""], None)
        self.tokens.append(tokens_of(messages) + beside)
        return ModelResponse(parts, usage=RequestUsage(input_tokens=self.tokens[-1]))

    def agent(self, *capabilities: Any, **more: Any) -> Agent[Any, str]:
        return Agent(FunctionModel(self, model_name="scripted"), tools=[report], capabilities=capabilities, **more)


def report(number: int) -> str:
    """Read one report."""
    return f"report {number} " + " ".join(f"fact{number}x{j}" for j in range(60))


def run(agent: Agent[Any, str], prompt: str = TASK, **more: Any) -> AgentRunResult[str]:
    return asyncio.run(agent.run(prompt, **more))


def tokens_of(messages: Sequence[ModelMessage]) -> int:
    meter = Meter()
    return sum(meter.message(FORMAT.read(message)) for message in messages) + 100


def summaries(messages: Sequence[ModelMessage]) -> int:
    return sum(is_generated_turn(FORMAT.read(message)) and isinstance(message, ModelRequest) for message in messages)


def prompts(messages: Sequence[ModelMessage]) -> list[str]:
    return [part.content for m in messages for part in m.parts if isinstance(part, SystemPromptPart)]


def compaction(**keywords: Any) -> Compaction:
    return Compaction(**{"window": WINDOW, "archive": MemoryArchive(), "model": None, **keywords})


# -- the run's history ------------------------------------------------------------------------------------------------


def test_the_runs_history_follows_and_is_what_the_next_run_is_given() -> None:
    model, own = Scripted(), compaction()
    agent = model.agent(own)
    first = run(agent)
    history = first.all_messages()
    assert summaries(history) == 1
    assert tokens_of(history) < WINDOW
    stored = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    before = len(model.sent)
    again = run(agent, "And the next?", message_history=stored)
    assert all(one == other for one, other in zip(model.sent[before], stored, strict=False))
    assert again.conversation_id == first.conversation_id
    whole = own.replay(again.all_messages())
    assert [part.content for part in whole[0].parts if isinstance(part, UserPromptPart)] == [TASK]
    assert len(whole) == 2 * (2 * 25 + 2)


def test_below_the_trigger_the_very_messages_go_through() -> None:
    seen: list[Any] = []

    class Looking(AbstractCapability[Any]):
        async def before_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
            seen.append((list(ctx.messages), list(request_context.messages)))
            return request_context

    run(Scripted(steps=3).agent(compaction(), Looking()))
    assert all(a is b for history, request in seen for a, b in zip(history, request, strict=True))


def test_a_system_prompt_outlives_the_message_it_stood_in() -> None:
    model, own = Scripted(40), compaction()
    result = run(model.agent(own, system_prompt="You are a careful reader."))
    assert all(prompts(sent) == ["You are a careful reader."] for sent in model.sent)
    assert summaries(result.all_messages()) == 1
    whole = own.replay(result.all_messages())
    assert prompts(whole) == ["You are a careful reader."]
    assert isinstance(whole[0].parts[0], SystemPromptPart)


def test_long_prompts_and_instructions_count() -> None:
    """The window holds all of it."""
    text = " ".join(f"word{i}" for i in range(300))
    for more in ({"system_prompt": text}, {"instructions": text}):
        model = Scripted(40)
        result = run(model.agent(compaction(), **more))
        assert summaries(result.all_messages()) == 1
        assert max(model.tokens) < WINDOW, more
        assert max(model.tokens) > 2_500, more


def test_pins_reach_a_provider_as_the_users_words_and_the_past_as_history() -> None:
    model, own = Scripted(30), compaction(settings=Settings(pins=(RULE,)))
    run(model.agent(own), "Now read all the others.")
    claude = AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="none"))
    parameters = ModelRequestParameters()
    messages = claude.prepare_messages(model.sent[-1], parameters)
    mapping: Any = claude._map_message  # noqa: SLF001 - what goes over the wire
    _, wire = asyncio.run(mapping(messages, parameters, ModelSettings()))
    blocks = [block["text"] for block in wire[0]["content"] if block["type"] == "text"]
    told = [text for text in blocks if "conversation_summary>" in text]
    assert told
    assert any(RULE in text for text in blocks if text not in told)
    assert not any(RULE in text for text in told)
    assert "called report" in "".join(told)


def test_a_message_that_only_the_request_has_stays_out_of_the_history() -> None:
    note = ModelRequest([UserPromptPart("It is noon.")])

    class Reminding(AbstractCapability[Any]):
        async def before_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:  # noqa: ARG002
            return replace(request_context, messages=[note, *request_context.messages])

    model = Scripted(25)
    result = run(model.agent(Reminding(), compaction()))
    said = [str(part.content) for m in result.all_messages() for part in m.parts if isinstance(part, UserPromptPart)]
    assert "It is noon." not in said
    assert summaries(result.all_messages()) == 1
    assert "It is noon." in str(model.sent[0])


def test_loaded_capabilities_stay_loaded() -> None:
    extra = Capability(id="weather", description="Weather.", tools=[_weather], defer_loading=True)
    model = Scripted(30)

    def loading(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("load_capability", {"id": "weather"})])
        return model(messages, info)

    agent = Agent(FunctionModel(loading), tools=[report], capabilities=[compaction(), extra])
    result = run(agent)
    assert summaries(result.all_messages()) == 1
    responses = [message for message in result.all_messages() if isinstance(message, ModelResponse)]
    if hasattr(kinds, "CapabilityLoadDeltaPart"):  # before 2.64 only the model's call says what is loaded: it stays
        assert not any("load_capability" in str(message) for message in responses)
    assert all("_weather" in {tool.name for tool in info.function_tools} for info in model.infos)


def _weather(city: str) -> str:
    """The weather there."""
    return f"rain in {city}"


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_what_was_put_in_since_is_part_of_the_second_attempt_too() -> None:
    class Steering(AbstractCapability[Any]):
        async def before_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
            if ctx.run_step == 9:
                ctx.enqueue("Read faster, please.")
            return request_context

    model, own = Scripted(12, refuse=[8]), compaction(window=8_000)
    result = run(model.agent(own, Steering()))
    assert "Read faster, please." in str(model.sent[8])
    assert "Read faster, please." in str(model.sent[9])
    assert tokens_of(model.sent[9]) < tokens_of(model.sent[8])
    assert str(result.all_messages()).count("Read faster, please.") == 1
    assert len(own.replay(result.all_messages())) == 2 * 12 + 3


def test_where_no_second_attempt_can_be_asked_for_the_model_is_asked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unabridged.adapters.pydantic_ai.compaction._RETRY_ERROR", None)  # as before 2.66
    model, own = Scripted(12, refuse=[8]), compaction(window=8_000)
    result = run(model.agent(own))
    assert result.output == "Done."
    assert tokens_of(model.sent[9]) < tokens_of(model.sent[8])
    assert len(own.replay(result.all_messages())) == 2 * 12 + 2
    assert result.usage.requests == 13


def test_a_second_refusal_is_the_callers_and_other_errors_pass() -> None:
    model = Scripted(12, refuse=[8, 9])
    with pytest.raises(WontFit):
        run(model.agent(compaction(window=8_000)))

    def broken(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:  # noqa: ARG001
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError):
        run(Agent(FunctionModel(broken), capabilities=[compaction()]))


def test_switched_off_a_refusal_is_the_callers() -> None:
    model = Scripted(12, refuse=[8])
    with pytest.raises(ModelContextWindowExceededError):
        run(model.agent(compaction(settings=Settings(off=True))))


# -- whose conversation, and what is told -----------------------------------------------------------------------------


def test_a_conversation_is_named_by_its_id_by_the_deps_or_by_the_context() -> None:
    archive = MemoryArchive()
    run(Scripted().agent(compaction(archive=archive)), conversation_id="by-id")
    named: Callable[[RunContext[Any]], str] = lambda ctx: ctx.deps["session"]  # noqa: E731
    run(Scripted().agent(compaction(archive=archive, thread=named)), deps={"session": "by-deps"})
    own = compaction(archive=archive)
    context = RunContext[None](deps=None, model=TestModel(), usage=_usage())
    with thread("by-context"):
        asyncio.run(own.compact(_talk(), context))
    assert archive.threads("default") == ["by-context", "by-deps", "by-id"]


def _usage() -> Any:
    from pydantic_ai.usage import RunUsage

    return RunUsage()


def _talk() -> list[ModelMessage]:
    def turn(i: int) -> list[ModelMessage]:
        words = " ".join(f"item{i}x{j}" for j in range(80))
        return [ModelRequest([UserPromptPart(f"About {words}")]), ModelResponse([TextPart(f"Noted {i}.")])]

    return [*(message for i in range(12) for message in turn(i)), ModelRequest([UserPromptPart("And now?")])]


def test_two_agents_share_one_capability() -> None:
    own = compaction()
    one, other = Scripted(25), Scripted(25)

    async def both() -> Any:
        return await asyncio.gather(one.agent(own).run(f"One. {TASK}"), other.agent(own).run(f"Other. {TASK}"))

    first, second = asyncio.run(both())
    for mine, theirs, result in ((one, "Other.", first), (other, "One.", second)):
        assert not any(theirs in str(sent) for sent in mine.sent)
        assert summaries(result.all_messages()) == 1
        assert len(own.replay(result.all_messages())) == 2 * 25 + 2


def test_what_happened_stands_in_the_frameworks_own_spans() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracing = Instrumentation(InstrumentationSettings(tracer_provider=provider))
    run(Scripted().agent(tracing, compaction()))
    events = [event for span in spans.get_finished_spans() for event in span.events]
    told = next(event for event in events if event.name == "unabridged.compacted")
    assert told.attributes is not None
    assert told.attributes["kind"] in {"summary", "clearing"}
    assert not any("fact0x0" in str(event.attributes) for event in events)


def test_a_replayed_history_can_be_run_and_traced() -> None:
    """What the archive gives back is as whole as what the framework makes."""
    own, model = compaction(), Scripted()
    history = run(model.agent(own)).all_messages()
    whole = own.replay(ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history)))
    tracing = Instrumentation(InstrumentationSettings(tracer_provider=TracerProvider()))
    agent = Scripted().agent(tracing, compaction(settings=Settings(off=True)))
    assert run(agent, "Again.", message_history=whole).output == "Done."


def test_steps_of_iter_and_streamed_runs_are_fitted_too() -> None:
    model = Scripted()

    async def steps() -> Any:
        async with model.agent(compaction()).iter(TASK) as run:
            async for _ in run:
                pass
        return run.result

    assert summaries(asyncio.run(steps()).all_messages()) == 1


# -- models, focus, keywords ------------------------------------------------------------------------------------------


def test_a_model_of_the_frameworks_writes_the_summaries_and_is_told_the_focus() -> None:
    asked: list[str] = []

    def write(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:  # noqa: ARG001
        asked.append(str(messages[-1].parts[-1].content))  # type: ignore[union-attr]
        return ModelResponse([TextPart("The reports were read one by one; none of them names a broken pump so far.")])

    own = compaction(model=FunctionModel(write))
    context = RunContext[None](deps=None, model=TestModel(), usage=_usage(), conversation_id="t")
    made = asyncio.run(own.compact(_talk(), context))
    assert "none of them names a broken pump" in FORMAT.read(made[0]).text
    asyncio.run(own.with_focus("the pumps in cellar 4").compact(_talk()[2:], context))
    assert "cellar 4" in asked[-1]
    assert "cellar 4" not in asked[0]
    free = compaction()
    assert free.with_focus("anything") is free


def test_the_models_own_window_counts_unless_another_is_given(caplog: pytest.LogCaptureFixture) -> None:
    model = Scripted(30)
    small: Any = FunctionModel(model, profile={"context_window": WINDOW})
    run(Agent(small, tools=[report], capabilities=[Compaction(model=None, archive=MemoryArchive())]))
    assert max(model.tokens) < WINDOW
    assert "window" not in caplog.text


def test_wrong_keywords_are_told_at_once() -> None:
    with pytest.raises(TypeError, match="windw"):
        Compaction(windw=5, archive="memory:")
    with pytest.raises(SettingsError):
        Compaction(window=-1, archive="memory:")


# -- what the summariser uses -----------------------------------------------------------------------------------------


@dataclass
class Summarised:
    """An agent whose summaries are written by its own model, by another one, or by a function: 3,050 tokens each."""

    kind: str
    model: Scripted = field(default_factory=Scripted)
    before: list[tuple[int, int]] = field(default_factory=list)
    """For each summary, how many requests of the agent's came before it, and their tokens."""

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if info.function_tools:
            return self.model(messages, info)
        return ModelResponse([TextPart(self.summary())], usage=RequestUsage(input_tokens=3_000, output_tokens=50))

    def summary(self) -> str:
        self.before.append((len(self.model.sent), sum(self.model.tokens)))
        return f"The reports are read one by one; part {len(self.before)} was steady. Next: go on with the reports."

    def reply(self, ask: Ask) -> Reply:  # noqa: ARG002 - it says the same to all
        return Reply(self.summary(), "end", Usage(3_000, output=50))

    def agent(self) -> Agent[Any, str]:
        own = FunctionModel(self, model_name="scripted")
        summarisers: dict[str, dict[str, Any]] = {"own": {}, "model": {"model": own}, "function": {"model": self.reply}}
        given = summarisers[self.kind]
        # The ids of a run differ in length: at this window they don't decide when a model is asked first.
        capability = Compaction(window=3_900, archive=MemoryArchive(), **given)
        return Agent(own, tools=[report], capabilities=[capability])


SUMMARISERS = pytest.mark.parametrize("kind", ["own", "model", "function"])


@SUMMARISERS
def test_what_the_summariser_uses_is_used_by_the_run(kind: str) -> None:
    told = Summarised(kind)
    used = run(told.agent()).usage
    assert told.before
    assert used.requests == len(told.model.sent) + len(told.before)
    assert used.input_tokens == sum(told.model.tokens) + 3_000 * len(told.before)
    assert used.output_tokens >= 50 * len(told.before)


@SUMMARISERS
def test_the_runs_limits_hold_for_the_summariser_too(kind: str) -> None:
    free = Summarised(kind)
    run(free.agent())
    requests, tokens = free.before[0]
    asked = free.before.count(free.before[0])
    most: list[dict[str, Any]] = [
        {"request_limit": requests + asked},
        {"input_tokens_limit": tokens + 3_000 * asked - 1_500},
    ]
    for limits in most:
        told = Summarised(kind)
        with pytest.raises(UsageLimitExceeded, match=next(iter(limits))):
            run(told.agent(), usage_limits=UsageLimits(**limits))
        assert len(told.before) == asked
        assert len(told.model.sent) == requests, "the request behind the summary was sent over the limit"


def test_a_summary_made_by_hand_is_used_by_the_run_it_is_made_in() -> None:
    told = Summarised("model")
    capability: Any = Compaction(window=WINDOW, archive=MemoryArchive(), model=FunctionModel(told))
    context = RunContext[None](deps=None, model=FunctionModel(told), usage=RunUsage(), conversation_id="t")
    asyncio.run(capability.compact(_talk(), context))
    asked = len(told.before)
    assert asked > 0
    assert context.usage == RunUsage(requests=asked, input_tokens=3_000 * asked, output_tokens=50 * asked)
