"""Google ADK beyond the contract: tenants, agents in one session, streams, what is measured, and what is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent, ParallelAgent, RunConfig
from google.adk.agents.run_config import StreamingMode  # type: ignore[attr-defined]
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner, Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from google.genai.errors import ClientError, ServerError
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import create_model

from google_adk_case import Scripted, calls, says
from unabridged import WontFit
from unabridged.adapters.google_adk import CompactionPlugin
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.events import Compacted, Event
from unabridged_testing.loopback import Loopback, LoopbackReply

Answering = Callable[[LlmRequest], Any]
REPORT = " ".join(f"line{j} of the report" for j in range(60))
LONG = " ".join(f"rule{i}" for i in range(3_000))
SSE = RunConfig(streaming_mode=StreamingMode.SSE)


def reading(steps: int) -> Answering:
    """Reads so many reports and is done."""

    def answer(asked: LlmRequest) -> Any:
        last = (asked.contents[-1].parts or [])[0]
        told = (last.function_response.response or {}) if last.function_response else {"result": "-1"}
        done = told["result"].split(":")[0]
        return calls(int(done) + 1) if int(done) + 1 < steps else "Done."

    return answer


def read(number: int) -> str:
    """Read one report."""
    return f"{number}: {REPORT}"


def agent(answering: Answering, name: str = "reader", **more: Any) -> LlmAgent:
    model = Scripted(model="scripted", answering=answering, asked=[])
    return LlmAgent(name=name, model=model, **{"tools": [read], **more})


def runner(root: Any, plugin: CompactionPlugin) -> InMemoryRunner:
    made = InMemoryRunner(app=App(name="desk", root_agent=root, plugins=[plugin]))
    made.auto_create_session = True
    return made


async def say(through: Runner, text: str, *, user: str = "ada", session: str = "s1", **more: Any) -> list[Any]:
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [e async for e in through.run_async(user_id=user, session_id=session, new_message=message, **more)]


def too_long(limit: int = 1_200, requested: int = 5_000) -> ClientError:
    said = f"The input token count ({requested}) exceeds the maximum number of tokens allowed ({limit})."
    return ClientError(400, {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}})


def test_sessions_of_one_name_of_two_users_are_two_conversations() -> None:
    archive = MemoryArchive()

    async def talk() -> None:
        through = runner(agent(reading(12)), CompactionPlugin(model=None, archive=archive, window=3_000))
        for user in ("ada", "bob/../ada"):
            await say(through, f"I am {user}.", user=user)

    asyncio.run(talk())
    for namespace, other in (("desk/ada", "bob"), ("desk/bob%2F..%2Fada", "I am ada")):
        assert archive.records(Scope(namespace, "s1"))
        assert other not in "".join(part.text for part in archive.parts(Scope(namespace, "s1")))


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated")
def test_agents_at_once_in_one_session_have_a_thread_each() -> None:
    archive = MemoryArchive()
    both = ParallelAgent(name="both", sub_agents=[agent(reading(12), "left"), agent(reading(14), "right")])
    events = asyncio.run(say(runner(both, CompactionPlugin(model=None, archive=archive, window=3_000)), "Read all."))
    assert {e.author for e in events if e.is_final_response()} == {"left", "right"}
    assert set(archive.threads("desk/ada")) == {"s1/left/both.left", "s1/right/both.right"}
    assert all(archive.records(Scope("desk/ada", thread)) for thread in archive.threads("desk/ada"))


def test_one_agent_that_does_two_tasks_at_once_has_a_thread_for_each() -> None:
    archive = MemoryArchive()

    def delegate(asked: LlmRequest) -> Any:
        last = (asked.contents[-1].parts or [])[0]
        tasks = [types.FunctionCall(name="task", args={"request": f"Task {i}."}) for i in range(2)]
        parts = [types.Part(function_call=task) for task in tasks]
        return "Done." if last.function_response else LlmResponse(content=types.Content(role="model", parts=parts))

    root = agent(delegate, "root", sub_agents=[agent(reading(12), "task", mode="single_turn")])
    asyncio.run(say(runner(root, CompactionPlugin(model=None, archive=archive, window=3_000)), "Do both."))
    threads = archive.threads("desk/ada")
    assert len(threads) == 2
    assert all(thread.startswith("s1/task/task@") for thread in threads)
    assert all(archive.records(Scope("desk/ada", thread)) for thread in threads)


def test_calls_without_ids_and_a_session_read_from_disk_find_their_compactions_again(tmp_path: Path) -> None:
    """Every request begins with the very bytes of the one before, but where a compaction was made."""
    archive, asked = MemoryArchive(), []

    async def day(text: str) -> None:
        root = agent(reading(10))
        app = App(name="desk", root_agent=root, plugins=[CompactionPlugin(model=None, archive=archive, window=3_000)])
        service = SqliteSessionService(str(tmp_path / "sessions.db"))
        await say(Runner(app=app, session_service=service, auto_create_session=True), text)
        asked.extend(root.model.asked)  # type: ignore[union-attr]

    for i in range(3):
        asyncio.run(day(f"Day {i}. Read all."))
    broken = sum(after[: len(before)] != before for before, after in itertools.pairwise(asked))
    made = len(archive.records(Scope("desk/ada", "s1")))
    assert made > 2
    assert broken <= made
    assert all(
        part["function_call"]["id"] is None for turn in asked[-1] for part in turn["parts"] if part["function_call"]
    )


def test_the_session_keeps_every_event_and_what_was_sent_comes_back() -> None:
    async def talk() -> None:
        root = agent(reading(12))
        plugin = CompactionPlugin(model=None, archive=MemoryArchive(), window=3_000)
        through = runner(root, plugin)
        await say(through, "Read all.")
        session = await through.session_service.get_session(app_name="desk", user_id="ada", session_id="s1")
        assert session is not None
        whole = [event.content for event in session.events if event.content]
        assert len(whole) == 1 + 2 * 12 + 1
        sent = [types.Content.model_validate(turn) for turn in root.model.asked[-1]]  # type: ignore[union-attr]
        assert len(sent) < len(whole)
        back = await plugin.replay(sent, session)
        assert [[part.text for part in turn.parts or ()] for turn in back[:1]] == [["Read all."]]
        assert len(back) == len(whole) - 1

    asyncio.run(talk())


def test_below_the_trigger_the_very_list_goes_through() -> None:
    lists: list[bool] = []

    class Noted(CompactionPlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
            given, turns = llm_request.contents, list(llm_request.contents)
            await super().before_model_callback(callback_context=callback_context, llm_request=llm_request)
            same = all(one is other for one, other in zip(llm_request.contents, turns, strict=True))
            lists.append(llm_request.contents is given and same)

    plugin = Noted(model=None, archive=MemoryArchive(), window=100_000)
    asyncio.run(say(runner(agent(reading(5)), plugin), "Hello."))
    assert lists == [True] * 6


def test_a_stream_that_was_refused_is_answered_in_one_piece_and_one_that_had_begun_is_not_asked_again() -> None:
    answers = iter([too_long(), "Done."])
    root = agent(lambda _: next(answers))
    plugin = CompactionPlugin(model=None, archive=MemoryArchive(), window=8_000)

    async def talk() -> list[Any]:
        through = runner(root, plugin)
        service = through.session_service
        session = await service.create_session(app_name="desk", user_id="ada", session_id="s1")
        for i in range(8):
            for role, author in (("user", "user"), ("model", "reader")):
                content = types.Content(role=role, parts=[types.Part(text=f"{i} {REPORT}")])
                await service.append_event(session, make_event(author, content))
        return await say(through, "And now?", run_config=SSE)

    events = asyncio.run(talk())
    assert [part.text for event in events for part in event.content.parts] == ["Done."]
    first, second = root.model.asked  # type: ignore[union-attr]
    assert len(second) < len(first)

    begun = agent(lambda _: [says("Well, ", partial=True), too_long()])
    with pytest.raises(ClientError, match="exceeds the maximum"):
        asyncio.run(say(runner(begun, CompactionPlugin(model=None, archive=MemoryArchive())), "Hello.", run_config=SSE))
    assert len(begun.model.asked) == 1  # type: ignore[union-attr]


def make_event(author: str, content: types.Content) -> Any:
    from google.adk.events.event import Event as AdkEvent

    return AdkEvent(author=author, content=content, invocation_id="earlier")


@pytest.mark.parametrize("error", [ServerError(503, {"error": {"message": "busy"}}), ValueError("no")])
def test_any_other_error_is_the_callers_and_nothing_is_sent_twice(error: Exception) -> None:
    root = agent(lambda _: error)
    with pytest.raises(type(error)):
        asyncio.run(say(runner(root, CompactionPlugin(model=None, archive=MemoryArchive())), "Hello."))
    assert len(root.model.asked) == 1  # type: ignore[union-attr]


def test_the_second_refusal_is_the_callers_with_a_note_and_counts_as_a_call() -> None:
    root = agent(lambda _: too_long(3_000, 9_000))
    text = " ".join(f"word{i}" for i in range(3_000))
    plugin = CompactionPlugin(model=None, archive=MemoryArchive(), window=100_000)
    with pytest.raises(ClientError, match="exceeds") as caught:
        asyncio.run(say(runner(root, plugin), text))
    assert len(root.model.asked) <= 2  # type: ignore[union-attr]
    assert len(root.model.asked) == 1 or "once more, shorter" in str(caught.value.__notes__)  # type: ignore[union-attr]


def look(number: int) -> str:
    return str(number)


look.__doc__ = LONG


@pytest.mark.parametrize(
    "more",
    [
        {"static_instruction": LONG},
        {"tools": [look]},
        {"tools": [], "output_schema": create_model("Found", __doc__=LONG)},
    ],
    ids=["instruction", "tools", "output schema"],
)
def test_what_is_sent_beside_the_contents_is_measured(more: Any) -> None:
    """What nothing can be taken from is more than the window: that is told, with numbers, before anything is sent."""
    root = agent(reading(3), **more)
    with pytest.raises(RuntimeError, match="tokens") as caught:
        asyncio.run(say(runner(root, CompactionPlugin(model=None, archive=MemoryArchive(), window=3_000)), "Hello."))
    assert isinstance(caught.value.__cause__, WontFit)
    assert root.model.asked == []  # type: ignore[union-attr]


def test_the_sessions_state_is_told_in_the_summary_and_compactions_are_spans_of_the_agents() -> None:
    spans = InMemorySpanExporter()
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))  # type: ignore[attr-defined]
    told: list[Event] = []
    root = agent(reading(25))
    plugin = CompactionPlugin(
        archive=MemoryArchive(),
        window=3_000,
        on_event=told.append,
        host_state=lambda state: f"Ticket {state['ticket']}",
    )
    asyncio.run(say(runner(root, plugin), "Read all.", state_delta={"ticket": "T-77"}))
    shown = "".join(part["text"] or "" for turn in root.model.asked[-1] for part in turn["parts"])  # type: ignore[union-attr]
    assert "Ticket T-77" in shown
    assert any(isinstance(event, Compacted) for event in told)
    finished = spans.get_finished_spans()
    ours = [span for span in finished if span.instrumentation_scope and span.instrumentation_scope.name == "unabridged"]
    parents = {span.context.span_id: span.name for span in finished if span.context}
    assert ours
    assert {parents.get(span.parent.span_id) if span.parent else None for span in ours} == {"invoke_agent reader"}


def test_a_model_of_adks_writes_the_summaries() -> None:
    wrote = "Goals: read every report. Facts: nothing was found in the reports so far; reading goes on as asked."
    writer = Scripted(model="writer", answering=lambda _: wrote, asked=[])
    root = agent(reading(25))
    asyncio.run(say(runner(root, CompactionPlugin(model=writer, archive=MemoryArchive(), window=3_000)), "Read all."))
    assert writer.asked
    assert wrote.split(". ")[1] in str(root.model.asked[-1])  # type: ignore[union-attr]


def test_what_a_provider_keeps_itself_is_left_alone() -> None:
    plugin = CompactionPlugin(model=None, archive=MemoryArchive(), window=100)
    turns = [types.Content(role="user", parts=[types.Part(text=REPORT)])]
    request = LlmRequest(contents=turns, previous_interaction_id="i-1")
    asyncio.run(plugin.before_model_callback(callback_context=None, llm_request=request))  # type: ignore[arg-type]
    assert request.contents[0] is turns[0]


def test_an_unknown_keyword_is_refused_when_the_plugin_is_made() -> None:
    with pytest.raises(TypeError, match="windwo"):
        CompactionPlugin(windwo=3_000)


@pytest.mark.parametrize("streaming", [StreamingMode.NONE, StreamingMode.SSE])
def test_adks_own_gemini_reads_far_more_than_its_window_and_is_never_refused_for_form(streaming: Any) -> None:
    """Over HTTP, to a server with Gemini's rules: responses in one turn behind their calls, and every step signed."""

    def script(messages: Any) -> LoopbackReply:
        told = messages[-1]["parts"][-1].get("functionResponse", {"response": {"result": "-1"}})["response"]["result"]
        first = int(told.split(":")[0]) + 1
        calls = [("read", {"number": number}) for number in (first, first + 1)]
        return LoopbackReply(calls=calls, thought="Hm.") if first < 40 else LoopbackReply("Done.")

    with Loopback(script, window=4_000) as provider:
        model = Gemini(model="gemini-3-flash-preview", base_url=provider.url, client_kwargs={"api_key": "none"})
        root = LlmAgent(name="reader", model=model, tools=[read])
        plugin = CompactionPlugin(model=None, archive=MemoryArchive(), window=8_000)

        async def talk() -> list[Any]:
            told = await say(runner(root, plugin), "Read all.", run_config=RunConfig(streaming_mode=streaming))
            await model.api_client.aio.aclose()
            return told

        events = asyncio.run(talk())
    assert provider.refused == []
    assert len(provider.too_long) == 1
    assert len(provider.requests) == 21
    assert "".join(part.text or "" for part in events[-1].content.parts) == "Done."
