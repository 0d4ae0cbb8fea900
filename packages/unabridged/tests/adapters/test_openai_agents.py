"""OpenAI Agents through its real runner: what is sent, whose conversation it is, and what its tracing is told."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
)
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from agents.tracing import TracingProcessor, get_trace_provider, set_trace_processors
from openai import AsyncOpenAI
from pydantic import BaseModel

from openai_agents_case import FACTS, QUIET, WINDOW, provider_for, run, scripted, threads, work, working
from unabridged import Settings
from unabridged.adapters.openai_agents import (
    CompactingProvider,
    CompactingSession,
    input_filter,
    recall_tools,
    thread,
)
from unabridged.adapters.openai_agents.runs import FORMAT
from unabridged.legality import check
from unabridged_testing.loopback import Loopback, LoopbackReply

TASK = "Work through all of the numbers. Never skip a prime number."


# -- what is sent ------------------------------------------------------------------------------------------------------


async def plain(agent: Agent[Any], config: RunConfig) -> str:
    return str((await Runner.run(agent, TASK, run_config=config, max_turns=100)).final_output)


async def streamed(agent: Agent[Any], config: RunConfig) -> str:
    result = Runner.run_streamed(agent, TASK, run_config=config, max_turns=100)
    pieces = [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(pieces) == result.final_output
    return str(result.final_output)


@pytest.mark.parametrize("way", [plain, streamed])
@pytest.mark.parametrize("responses", [True, False], ids=["responses", "chat"])
def test_long_runs_of_the_sdks_own_models_end_without_a_refusal_but_the_one_that_teaches(
    way: Callable[..., Awaitable[str]], responses: bool
) -> None:
    steps = iter(range(1, 100))

    def script(_: Any) -> LoopbackReply:
        number = next(steps)
        thought = f"Number {number} comes next." if responses else ""
        return (
            LoopbackReply("", [("work", {"number": number})], thought) if number <= 16 else LoopbackReply("All done.")
        )

    async def main(url: str) -> str:
        client = AsyncOpenAI(base_url=url, api_key="none")
        inner = OpenAIProvider(openai_client=client, use_responses=responses)
        provider = CompactingProvider(inner, model=None, archive="memory:", window=2 * WINDOW)
        agent = Agent("worker", instructions="You are patient.", tools=[work], model="gpt-5-mini")
        answer = await way(agent, RunConfig(model_provider=provider, tracing_disabled=True))
        await client.close()
        return answer

    with Loopback(script, window=WINDOW) as loopback:
        assert asyncio.run(main(loopback.url)) == "All done."
    assert loopback.refused == []
    assert len(loopback.too_long) == 1
    assert len(loopback.requests) == 17


def test_reasoning_stays_with_what_it_led_to() -> None:
    model = scripted(working(20, thinks=True))
    provider = provider_for(model)
    assert run(Agent("worker", tools=[work]), TASK, provider).final_output == "All done."
    assert threads(provider)
    for call in model.calls:
        assert check(call.input, format=FORMAT) == []
        kinds = [item.get("type") for item in call.input]
        assert all(kinds[i + 1] == "function_call" for i, kind in enumerate(kinds) if kind == "reasoning")
    assert kinds.count("reasoning") > 0


def test_below_the_trigger_the_very_list_goes_through_and_a_text_stays_a_text() -> None:
    seen: list[Any] = []

    class Looking(ScriptedModel):
        async def get_response(self, system: Any, input: Any, *rest: Any, **named: Any) -> Any:  # type: ignore[override]  # noqa: A002
            seen.append(input)
            return await super().get_response(system, input, *rest, **named)

    model = provider_for(Looking([[assistant_message("Hello.")]] * 2)).get_model(None)
    items = [{"role": "user", "content": "Hi."}]
    state = {"previous_response_id": None, "conversation_id": None, "prompt": None}
    for given in (items, "Hi."):
        asyncio.run(model.get_response(None, given, ModelSettings(), [], None, [], None, **state))  # type: ignore[arg-type]
    assert seen[0] is items
    assert seen[1] == "Hi."


def test_handoffs_and_the_shape_of_the_answer_count_like_tools() -> None:
    sizes = []
    for words in (1, 500):
        other = Agent("other", handoff_description="pumps " * words)
        fields: Any = {"__doc__": "pumps " * words, "__annotations__": {"found": str}}
        shape = type("Report", (BaseModel,), {**fields, "__module__": __name__})
        for agent in (
            Agent("a", handoffs=[other]),
            Agent("a", output_type=shape),
            Agent("a", instructions="pumps " * words),
        ):
            provider = provider_for(ScriptedModel([[assistant_message('{"found": "yes"}')]]), window=100_000)
            with thread("t"):
                run(agent, TASK, provider)
            asked = provider.runs.find_last_request("t")
            sizes.append(
                provider.runs.compactor_for(asked.agent).plan([], system=asked.system, tools=asked.tools).tokens
            )
    assert [large - small > 400 for small, large in zip(sizes[:3], sizes[3:], strict=True)] == [True] * 3


def test_a_conversation_that_the_provider_keeps_is_left_alone_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = scripted(working(20))
    provider = provider_for(model, window=1_000)
    with caplog.at_level(logging.WARNING, logger="unabridged"):
        for kept in ({"conversation_id": "conv_1"}, {"previous_response_id": "resp_1"}):
            assert run(Agent("worker", tools=[work]), TASK, provider, **kept).final_output == "All done."
    assert sum("conversation_id" in record.message for record in caplog.records) == 1
    assert threads(provider) == []


@pytest.mark.parametrize("nested", [False, True])
def test_a_run_that_is_handed_off_goes_on_with_what_fits(nested: bool) -> None:
    made = iter(range(1_000))

    def answer(call: ModelCall) -> ModelStep:
        i = next(made)
        names = [tool.tool_name for tool in call.handoffs]
        if i == 10 and names:
            return ModelStep([function_call(names[0], {}, call_id=f"call_{i}", item_id=f"fc_{i}")])
        if i == 22:
            return ModelStep([assistant_message("All done.", item_id=f"msg_{i}")])
        return ModelStep([function_call("work", {"number": i}, call_id=f"call_{i}", item_id=f"fc_{i}")])

    model = scripted(answer)
    second = Agent("second", instructions="You are the second.", tools=[work])
    first = Agent("first", instructions="You are the first.", tools=[work], handoffs=[second])
    config = {**QUIET, "nest_handoff_history": nested}
    done = run(first, TASK, provider_for(model), config, session=SQLiteSession("s"))
    assert done.final_output == "All done."
    assert done.last_agent is second
    assert all(check(call.input, format=FORMAT) == [] for call in model.calls)
    assert all(TASK in json.dumps(call.input) for call in model.calls)


def test_a_run_that_waits_for_approval_goes_on_in_another_process() -> None:
    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    steps = working(20)

    def answer(call: ModelCall) -> ModelStep:
        if "call_pay" not in json.dumps(call.input) and len(model.calls) > 20:
            return ModelStep([function_call("pay", {"amount": 5}, call_id="call_pay", item_id="fc_pay")])
        return steps(call)

    model = scripted(answer)
    archive = provider_for(model).runs.archive
    agent, inner = Agent("worker", tools=[work, pay]), SQLiteSession("s")

    def restarted() -> tuple[CompactingProvider, CompactingSession]:
        provider = provider_for(model, archive=archive)
        return provider, CompactingSession(inner, provider)

    provider, session = restarted()
    stopped = run(agent, TASK, provider, session=session)
    assert [item.name for item in stopped.interruptions] == ["pay"]
    kept = stopped.to_state().to_json()
    provider, session = restarted()
    state: Any = asyncio.run(RunState.from_json(agent, kept))
    state.approve(state.get_interruptions()[0])
    assert run(agent, state, provider, session=session).final_output == "All done."
    assert threads(provider) == ["s"]
    stored = asyncio.run(inner.get_items())
    assert json.dumps(stored).count("paid 5") == 1
    assert all(check(call.input, format=FORMAT) == [] for call in model.calls)


# -- whose conversation it is ------------------------------------------------------------------------------------------


def test_a_conversation_is_named_by_its_session_the_context_or_the_group_and_by_nothing_left_over() -> None:
    provider = provider_for(scripted(working(16)))
    agent = Agent("worker", tools=[work])

    async def main() -> None:
        quiet: Any = {"model_provider": provider, **QUIET}
        named = CompactingSession(SQLiteSession("by its session"), provider)
        await Runner.run(agent, TASK, session=named, run_config=RunConfig(**quiet), max_turns=50)
        assert threads(provider) == ["by its session"]
        before = len(provider.runs.archive.parts(provider.runs.scope("by its session")))  # type: ignore[arg-type]
        await Runner.run(agent, "Another's.", run_config=RunConfig(**quiet), max_turns=50)
        after = len(provider.runs.archive.parts(provider.runs.scope("by its session")))  # type: ignore[arg-type]
        assert before == after, "a run without a session belongs to the one before it"
        with thread("by the context"):
            await Runner.run(agent, "A third.", run_config=RunConfig(**quiet), max_turns=50)
        traced = RunConfig(model_provider=provider, group_id="by the group")
        await Runner.run(agent, "A fourth.", run_config=traced, max_turns=50)
        await Runner.run(
            agent, "A fifth.", session=SQLiteSession("not ours"), run_config=RunConfig(**quiet), max_turns=50
        )

    set_trace_processors([])
    asyncio.run(main())
    kinds = {name for name in threads(provider) if not name.startswith(("from-", "session-"))}
    assert kinds == {"by its session", "by the context", "by the group"}
    assert sum(name.startswith("session-") for name in threads(provider)) == 1


def test_recall_reads_the_callers_own_conversation_though_ids_of_calls_come_again() -> None:
    @function_tool
    def look(context: RunContextWrapper[str], number: int) -> str:
        """Look at something."""
        return f"{number}: the secret word is {context.context}. {FACTS * 80}"

    def asking(call: ModelCall) -> ModelStep:
        results = [item["output"] for item in call.input if item.get("type") == "function_call_output"]
        if "call_search" in json.dumps(call.input):
            return ModelStep([assistant_message(results[-1])])
        number = int(results[-1].partition(":")[0]) + 1 if results else 1
        if number > 14:
            return ModelStep([function_call("search_history", {"query": "secret"}, call_id="call_search")])
        return ModelStep([function_call("look", {"number": number}, call_id=f"call_{number}")])

    provider = provider_for(scripted(asking))
    agent: Agent[str] = Agent("worker", tools=[look, *recall_tools(provider)])

    async def one(word: str) -> str:
        session = CompactingSession(SQLiteSession(f"about {word}"), provider)
        config = RunConfig(model_provider=provider, tracing_disabled=True)
        done = await Runner.run(agent, TASK, context=word, session=session, run_config=config, max_turns=60)
        return str(done.final_output)

    async def both() -> list[str]:
        return list(await asyncio.gather(one("willow"), one("granite")))

    first, second = asyncio.run(both())
    assert "willow" in first
    assert "granite" not in first
    assert "granite" in second
    assert "willow" not in second


def test_only_a_model_that_takes_the_runners_cache_key_is_given_it() -> None:
    class Taking(ScriptedModel):
        def _supports_default_prompt_cache_key(self) -> bool:
            return True

    keys = []
    for kind in (Taking, ScriptedModel):
        model = kind([[assistant_message("Hello.")]])
        run(Agent("worker"), "Hi.", provider_for(model), session=SQLiteSession("s"))
        keys.append((model.calls[0].model_settings.extra_args or {}).get("prompt_cache_key"))
    assert keys[0]
    assert keys[1] is None


def test_a_model_that_an_agent_has_as_an_object_is_wrapped_by_the_provider() -> None:
    model = scripted(working(20))
    provider = provider_for(model)
    agent = Agent("worker", tools=[work], model=provider.wrap(model))
    assert asyncio.run(Runner.run(agent, TASK, run_config=RunConfig(tracing_disabled=True), max_turns=50)).final_output
    assert threads(provider)


# -- the light way, and what is told -----------------------------------------------------------------------------------


def test_the_input_filter_fits_what_any_model_is_sent() -> None:
    model = scripted(working(20))
    told: list[Any] = []
    fitting = input_filter(model=None, window=WINDOW, archive="memory:", on_event=told.append)
    config = RunConfig(call_model_input_filter=fitting, tracing_disabled=True)
    with thread("t"):
        done = asyncio.run(
            Runner.run(Agent("worker", tools=[work], model=model), TASK, run_config=config, max_turns=50)
        )
    assert done.final_output == "All done."
    assert {event.thread for event in told} == {"t"}
    assert max(len(json.dumps(call.input)) for call in model.calls) < 5 * WINDOW
    assert all(check(call.input, format=FORMAT) == [] for call in model.calls)


class Spans(TracingProcessor):
    """Keeps the custom spans."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_span_end(self, span: Any) -> None:
        if span.span_data.type == "custom" and span.span_data.name.startswith("unabridged."):
            self.told.append((span.span_data.name, span.span_data.data, span.parent_id))

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


@pytest.fixture
def spans() -> Iterator[Spans]:
    before = get_trace_provider()._multi_processor._processors  # type: ignore[attr-defined]  # noqa: SLF001
    set_trace_processors([spans := Spans()])
    yield spans
    set_trace_processors(list(before))


def test_compactions_are_custom_spans_of_the_run_without_a_word_of_it(spans: Spans) -> None:
    provider = provider_for(scripted(working(20)))
    run(Agent("worker", tools=[work]), TASK, provider, {"workflow_name": "numbers"})
    names = [name for name, _, _ in spans.told]
    assert "unabridged.compacted" in names
    assert all(parent for _, _, parent in spans.told)
    assert "readings" not in json.dumps([data for _, data, _ in spans.told])
    told = len(spans.told)
    run(Agent("worker", tools=[work]), "Once more.", provider_for(scripted(working(20))))
    assert len(spans.told) == told, "tracing is disabled, and there are spans"


def test_switched_off_nothing_is_measured_archived_or_changed() -> None:
    model = scripted(working(20))
    provider = provider_for(model, settings=Settings(off=True))
    session = CompactingSession(SQLiteSession("s"), provider)
    run(Agent("worker", tools=[work]), TASK, provider, session=session)
    assert len(model.calls[-1].input) == 41
    assert threads(provider) == []
    assert len(asyncio.run(session.get_items())) == 42
