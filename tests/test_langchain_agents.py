"""Real agents driven by scripted chat models through hundreds of steps over small windows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    TodoListMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from pydantic import BaseModel

from langchain_support import (
    SAID,
    SECRET,
    START,
    ScriptedChat,
    agent_model,
    bare,
    call,
    create_agent,
    ours,
    summaries,
    summariser,
    thread,
    work,
    working,
)
from unabridged import Settings, SettingsError
from unabridged.adapters.langchain import (
    compact,
    create_deep_agent,
    replay,
    undo,
)
from unabridged.adapters.langchain.factories import placed


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteSaver]:
    connection = sqlite3.connect(tmp_path / "checkpoints.db", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


@pytest.fixture(scope="module")
def uncompacted() -> list[Any]:
    """The same 300 steps in a window that never fills."""
    agent = create_agent(ScriptedChat(script=working(300)), [work])
    return bare(agent.invoke(dict(START), thread())["messages"])


def test_three_hundred_steps_through_invoke_with_sqlite(  # R8, R46
    sqlite: SqliteSaver, uncompacted: list[Any]
) -> None:
    model = agent_model(300, 12_000)
    own = ours(summariser())
    agent = create_agent(model, [work], middleware=[own], checkpointer=sqlite, system_prompt="Be exact.")
    agent.invoke(dict(START), thread())
    assert model.log.calls == 301
    assert model.log.overflows == 0
    state = agent.get_state(thread()).values["messages"]
    assert summaries(state) == 1
    assert len(state) < 150
    assert bare(replay(agent, "t")) == uncompacted
    originals = replay(agent, "t")
    before = undo(agent, "t")
    assert before is not None
    assert bare(agent.get_state(thread()).values["messages"]) == bare(before)
    assert replay(agent, "t") == originals
    own.close()


def test_three_hundred_steps_through_astream_with_the_state_kept_whole(uncompacted: list[Any]) -> None:
    async def run() -> tuple[Any, list[Any]]:
        model = agent_model(300, 12_000)
        agent = create_agent(model, [work], middleware=[ours(summariser(), state="kept")], checkpointer=InMemorySaver())
        seen = [chunk async for chunk in agent.astream(dict(START), thread(), stream_mode="messages")]
        assert model.log.overflows == 0
        assert max(len(request) for request in model.log.requests) < 150
        return agent, seen

    agent, seen = asyncio.run(run())
    assert bare(agent.get_state(thread()).values["messages"]) == uncompacted
    assert not any(SECRET in str(chunk.content) for chunk, _ in seen)


@pytest.mark.parametrize("mode", ["messages", "updates", "values", "custom"])
def test_nothing_of_the_summariser_is_in_the_stream(mode: Any) -> None:  # R31
    writer = summariser()
    agent = create_agent(agent_model(60, 5_000), [work], middleware=[ours(writer)], checkpointer=InMemorySaver())
    chunks = list(agent.stream(dict(START), thread(), stream_mode=mode))
    assert writer.log.calls > 0
    if mode in {"messages", "custom"}:
        assert SECRET not in str(chunks)
    else:  # the state itself has the summary, by its own mark
        assert "lc_source" in str(chunks)


def test_events_of_the_graph_name_the_source_of_internal_calls() -> None:
    async def events() -> list[Any]:
        agent = create_agent(agent_model(40, 4_000), [work], middleware=[ours(summariser())])
        return [event async for event in agent.astream_events(dict(START), thread(), version="v2")]

    found = [event for event in asyncio.run(events()) if event["event"] == "on_chat_model_end" and SECRET in str(event)]
    inner = [event for event in found if event["metadata"].get("lc_source") == "summarization"]
    assert inner


def test_compactions_are_told_to_the_custom_stream_when_asked_for() -> None:  # R31
    own = ours(stream_events=True)
    agent = create_agent(agent_model(40, 4_000), [work], middleware=[own], checkpointer=InMemorySaver())
    told = list(agent.stream(dict(START), thread(), stream_mode="custom"))
    assert {event["event"] for event in told} >= {"compacting", "compacted"}
    assert all("fact3x1" not in str(event) for event in told)


def test_defaults_follow_the_models_profile() -> None:  # R45
    own = ours()
    known, unknown = own.compactors.get("a", 100_000), own.compactors.get("b", None)
    assert (known.limits.trigger, known.limits.keep_tokens) == (({"tokens": 85_000},), 10_000)
    assert (unknown.limits.trigger, unknown.limits.keep_messages) == (({"tokens": 170_000},), 6)


def test_the_agents_own_model_is_asked_in_the_continuation_of_its_prompt() -> None:
    model = ScriptedChat(script=working(60), model_name="gpt-5-mini", profile={"max_input_tokens": 6_000})
    writer = ScriptedChat(script=lambda _i, _m: SAID, model_name="gpt-5-mini", checked=False)
    own = ours(writer, settings=Settings(clear=None))
    agent = create_agent(model, [work], middleware=[own], system_prompt="Be exact.", checkpointer=InMemorySaver())
    agent.invoke(dict(START), thread())
    live, ask = model.log.requests[0], writer.log.requests[0]
    assert ask[0].content == live[0].content == "Be exact."
    before = max((r for r in model.log.requests if r[1:] == ask[1 : len(r)]), key=len)
    assert len(before) > 10
    assert ask[-1].type == "human"


class Redacting(AgentMiddleware[Any, Any, Any]):
    """Stands outside: takes a secret out of every request, and signs every answer."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        clean = [m.model_copy(update={"content": str(m.content).replace("4711", "****")}) for m in request.messages]
        response = handler(request.override(messages=clean))
        response.result[-1].content = f"{response.result[-1].content} (signed)"
        return response


def test_a_redaction_outside_survives_and_so_does_the_answer() -> None:
    script = lambda i, _: call("work", i, "Code 4711.", number=i) if i < 40 else "The code is safe."  # noqa: E731
    model = agent_model(40, 4_000, script)
    writer = summariser()
    agent = create_agent(model, [work], middleware=[Redacting(), ours(writer)], checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage("My code is 4711. Work.")]}, thread())
    assert writer.log.calls > 0
    assert "4711" not in model.log.text + writer.log.text
    state = agent.get_state(thread()).values["messages"]
    assert state[-1].content == "The code is safe. (signed)"
    assert summaries(state) == 1


def test_an_overflow_that_nobody_foresaw_is_recovered_from() -> None:
    model = ScriptedChat(script=working(60), window=4_000, profile={"max_input_tokens": 60_000})
    own = ours()
    agent = create_agent(model, [work], middleware=[own], checkpointer=InMemorySaver())
    state = agent.invoke(dict(START), thread())
    assert state["messages"][-1].content == "All done."
    assert model.log.overflows == 1  # the window is learned


def test_another_error_of_the_model_is_passed_on() -> None:
    model = agent_model(1, 4_000, lambda _i, _m: ZeroDivisionError("mine"))
    agent = create_agent(model, [work], middleware=[ours()])
    with pytest.raises(ZeroDivisionError, match="mine"):
        agent.invoke(dict(START), thread())


@pytest.mark.parametrize("broken", ["down", "half"])
def test_the_run_goes_on_with_a_summariser_that_fails(broken: str) -> None:  # R33, R34
    said = lambda i: ConnectionError("down") if broken == "down" or i % 2 == 0 else SAID  # noqa: E731
    settings = Settings(retries=0, cool_down=0.0)
    model = agent_model(80, 5_000)
    own = ours(writer := summariser(said), settings=settings)
    agent = create_agent(model, [work], middleware=[own], checkpointer=InMemorySaver())
    state = agent.invoke(dict(START), thread())
    assert state["messages"][-1].content == "All done."
    assert (model.log.calls, model.log.overflows) == (81, 0)
    assert writer.log.calls > 1


class Verdict(BaseModel):
    """The end of the work."""

    good: bool


def test_structured_output_comes_through() -> None:
    script = lambda i, _: call("work", i, number=i) if i < 40 else call("Verdict", "v", good=True)  # noqa: E731
    agent = create_agent(
        agent_model(40, 4_000, script),
        [work],
        middleware=[ours()],
        response_format=ToolStrategy(Verdict),
        checkpointer=InMemorySaver(),
    )
    state = agent.invoke(dict(START), thread())
    assert state["structured_response"] == Verdict(good=True)
    assert summaries(state["messages"]) == 1


def test_an_interrupt_stays_pending_across_a_compaction(sqlite: SqliteSaver) -> None:
    asking = HumanInTheLoopMiddleware(interrupt_on={"work": {"allowed_decisions": ["approve"]}})
    model = agent_model(30, 4_000)
    agent = create_agent(model, [work], middleware=[ours(), asking], checkpointer=sqlite)
    agent.invoke(dict(START), thread())
    for _ in range(30):
        assert agent.get_state(thread()).interrupts
        with pytest.raises(SettingsError, match="Resume it first"):
            compact(agent, "t")
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
    state = agent.get_state(thread())
    assert not state.next
    assert state.values["messages"][-1].content == "All done."
    assert (summaries(state.values["messages"]), model.log.overflows) == (1, 0)


def test_the_place_in_the_stack() -> None:  # R43
    todo, own = TodoListMiddleware(), ours()
    asking = HumanInTheLoopMiddleware(interrupt_on={"work": True})
    assert placed(own, [todo, asking]) == [todo, own, asking]
    assert placed(own, [todo]) == [todo, own]
    other = ours()
    assert placed(own, [other, todo]) == [other, todo]


# -- deep agents -------------------------------------------------------------------------------------------------------


def deep_script() -> Callable[[int, list[BaseMessage]], Any]:
    """To-dos, files, work, and two sub-agents at once, until 300 requests were made."""

    def script(i: int, messages: list[BaseMessage]) -> Any:
        if any(m.type == "human" and str(m.content).startswith("SUBTASK") for m in messages):
            return "Sub-task finished." if i % 17 == 0 else call("work", f"s{i}", number=i, size=80)
        if i >= 300:
            return "All done."
        if i % 40 == 10:
            calls = [
                {
                    "id": f"task-{i}-{n}",
                    "name": "task",
                    "args": {"description": f"SUBTASK {i} {n}", "subagent_type": kind},
                }
                for n, kind in enumerate(("general-purpose", "reader"))
            ]
            return AIMessage("", tool_calls=calls)
        if i % 11 == 0:
            return call("write_todos", i, todos=[{"content": f"item {i}", "status": "pending"}])
        if i % 7 == 0:
            return call("write_file", i, file_path=f"/notes/{i}.txt", content=f"note {i} " * 40)
        return call("work", i, number=i, size=80)

    return script


def test_three_hundred_steps_of_a_deep_agent(sqlite: SqliteSaver) -> None:  # R43, R44
    model = agent_model(0, 14_000, deep_script())
    told: list[Any] = []
    own = ours(on_event=told.append)
    agent = create_deep_agent(
        model,
        [work],
        summarization=own,
        middleware=[TodoListMiddleware()],
        subagents=[{"name": "reader", "description": "Reads.", "system_prompt": "You read."}],
        checkpointer=sqlite,
    )
    agent.invoke(dict(START), thread())
    assert model.log.calls > 300
    assert model.log.overflows == 0
    state = agent.get_state(thread()).values
    assert state["messages"][-1].content == "All done."
    assert summaries(state["messages"]) == 1
    assert state["todos"]
    threads = {event.thread for event in told}
    assert "t" in threads
    assert len(threads) > 3  # sub-agents have conversations of their own
    originals = replay(agent, "t")
    assert originals[0].content == START["messages"][0].content
    assert len(originals) > 3 * len(state["messages"])
    own.close()


def test_a_deep_agent_without_summarization_has_none() -> None:  # R44
    model = ScriptedChat(script=working(80), profile={"max_input_tokens": 12_000})
    agent = create_deep_agent(model, [work], summarization=None)
    state = agent.invoke(dict(START), thread())
    assert len(state["messages"]) == 162
    assert max(model.log.sizes) > 12_000


def test_settings_tune_it_and_plain_ones_adapt_to_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # R44
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    def script(i: int, messages: list[BaseMessage]) -> Any:
        return SAID if messages[0].type == "human" and i else working(24)(i, messages)

    model = ScriptedChat(script=script, profile={"max_input_tokens": 24_000})
    tuned = create_deep_agent(model, [work], summarization=Settings(trigger=("messages", 12), keep=("messages", 4)))
    tuned.invoke(dict(START), thread())
    assert max(len(request) for request in model.log.requests) < 30
    assert any(SECRET in str(request[1].content) for request in model.log.requests if len(request) > 1)
    with pytest.raises(SettingsError, match="summarization must be"):
        create_deep_agent(model, [work], summarization=True)
