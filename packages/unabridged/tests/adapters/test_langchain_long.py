"""Real agents through many steps over small windows, on every checkpointer and through every way to run them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware, TodoListMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from effort import ALL
from langchain_support import (
    SECRET,
    START,
    ScriptedChat,
    agent_model,
    bare,
    call,
    create_agent,
    fresh_database,
    ours,
    summaries,
    summariser,
    thread,
    work,
    working,
)
from unabridged import SettingsError
from unabridged.adapters.langchain import areplay, aundo, compact, create_deep_agent, replay, undo
from unabridged.archive.protocol import Scope

STEPS = 150 if ALL else 40
SIZE = 60


@contextmanager
def saver(kind: str, folder: Path) -> Iterator[Any]:
    """A checkpointer with nothing in it."""
    if kind == "postgres":
        with PostgresSaver.from_conn_string(fresh_database()) as postgres:
            postgres.setup()
            yield postgres
        return
    connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


@asynccontextmanager
async def asaver(kind: str, folder: Path) -> AsyncIterator[Any]:
    """The same for an event loop."""
    if kind == "postgres":
        async with AsyncPostgresSaver.from_conn_string(fresh_database()) as postgres:
            await postgres.setup()
            yield postgres
        return
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as sqlite:
        yield sqlite


def uncompacted(steps: int) -> list[Any]:
    """What is said in so many steps, in a window that never fills."""
    agent = create_agent(ScriptedChat(script=working(steps, size=SIZE)), [work])
    return bare(agent.invoke(dict(START), thread())["messages"])


@pytest.fixture(scope="module")
def originals() -> list[Any]:
    return uncompacted(STEPS)


def built(saved: Any, **options: Any) -> tuple[Any, ScriptedChat, Any]:
    model = agent_model(STEPS, 7_000, working(STEPS, size=SIZE))
    own = ours(summariser(), **options)
    return create_agent(model, [work], middleware=[own], checkpointer=saved, system_prompt="Be exact."), model, own


def well(model: ScriptedChat, state: list[BaseMessage]) -> None:
    """Never an overflow (and nothing illegal: the model refuses it), and a state of one summary and a tail."""
    assert (model.log.calls, model.log.overflows) == (STEPS + 1, 0)
    assert [i for i, m in enumerate(state) if str(m.content).startswith("[unabridged summary")] == [0]
    assert len(state) < 150


@pytest.mark.parametrize(("way", "kind"), [("invoke", "sqlite"), ("stream", "postgres")])
def test_a_long_run(way: str, kind: str, tmp_path: Path, originals: list[Any]) -> None:  # R8, R46
    with saver(kind, tmp_path) as saved:
        agent, model, own = built(saved, archive=f"sqlite:///{tmp_path}/archive.db")
        if way == "invoke":
            agent.invoke(dict(START), thread())
        else:
            seen = list(agent.stream(dict(START), thread(), stream_mode="messages"))
            assert not any(SECRET in str(chunk.content) for chunk, _ in seen)
        well(model, agent.get_state(thread()).values["messages"])
        told = replay(agent, "t")
        assert bare(told) == originals
        before = undo(agent, "t")
        assert before is not None
        assert bare(agent.get_state(thread()).values["messages"]) == bare(before)
        assert replay(agent, "t") == told
        own.close()


@pytest.mark.parametrize(("way", "kind"), [("ainvoke", "postgres"), ("astream", "sqlite")])
def test_a_long_run_on_an_event_loop(way: str, kind: str, tmp_path: Path, originals: list[Any]) -> None:
    async def run() -> None:
        async with asaver(kind, tmp_path) as saved:
            agent, model, own = built(saved)
            if way == "ainvoke":
                await agent.ainvoke(dict(START), thread())
            else:
                seen = [chunk async for chunk in agent.astream(dict(START), thread(), stream_mode="messages")]
                assert not any(SECRET in str(chunk.content) for chunk, _ in seen)
            well(model, (await agent.aget_state(thread())).values["messages"])
            told = await areplay(agent, "t")
            assert bare(told) == originals
            before = await aundo(agent, "t")
            assert before is not None
            assert bare((await agent.aget_state(thread())).values["messages"]) == bare(before)
            assert await areplay(agent, "t") == told
            own.close()

    asyncio.run(run())


def test_a_long_run_with_the_state_kept_whole(originals: list[Any]) -> None:
    async def run() -> Any:
        agent, model, _ = built(InMemorySaver(), state="kept")
        seen = [chunk async for chunk in agent.astream(dict(START), thread(), stream_mode="messages")]
        assert not any(SECRET in str(chunk.content) for chunk, _ in seen)
        assert model.log.overflows == 0
        assert max(len(request) for request in model.log.requests) < 150
        return agent

    assert bare(asyncio.run(run()).get_state(thread()).values["messages"]) == originals


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_interrupt_stays_pending_across_a_compaction(kind: str, tmp_path: Path) -> None:
    asking = HumanInTheLoopMiddleware(interrupt_on={"work": {"allowed_decisions": ["approve"]}})
    model = agent_model(16, 3_000, working(16, size=SIZE))
    compacted = 0
    with saver(kind, tmp_path) as saved:
        agent = create_agent(model, [work], middleware=[ours(), asking], checkpointer=saved)
        agent.invoke(dict(START), thread())
        for _ in range(16):
            stored = agent.get_state(thread())
            assert stored.interrupts
            compacted += summaries(stored.values["messages"])
            with pytest.raises(SettingsError, match="Resume it first"):
                compact(agent, "t")
            agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
        state = agent.get_state(thread())
        assert not state.next
        assert state.values["messages"][-1].content == "All done."
        assert (summaries(state.values["messages"]), model.log.overflows) == (1, 0)
        assert compacted > 5
        assert bare(replay(agent, "t")) == uncompacted(16)


# -- deep agents -------------------------------------------------------------------------------------------------------

READER: Any = {"name": "reader", "description": "Reads.", "system_prompt": "You read."}


def tasks(key: object, *described: str) -> AIMessage:
    """One task for each description, all at once, the second one for the reader."""
    kinds = ("general-purpose", "reader")
    calls = [
        {"id": f"task-{key}-{n}", "name": "task", "args": {"description": said, "subagent_type": kinds[n % 2]}}
        for n, said in enumerate(described)
    ]
    return AIMessage("", tool_calls=calls)


def deep_script(steps: int) -> Callable[[int, list[BaseMessage]], Any]:
    """To-dos, files, work, and two sub-agents at once, until so many requests were made."""

    def script(i: int, messages: list[BaseMessage]) -> Any:
        if any(m.type == "human" and str(m.content).startswith("SUBTASK") for m in messages):
            return "Sub-task finished." if i % 17 == 0 else call("work", f"s{i}", number=i, size=80)
        if i >= steps:
            return "All done."
        if i % 40 == 10:
            return tasks(i, f"SUBTASK {i} 0", f"SUBTASK {i} 1")
        if i % 11 == 0:
            return call("write_todos", i, todos=[{"content": f"item {i}", "status": "pending"}])
        if i % 7 == 0:
            return call("write_file", i, file_path=f"/notes/{i}.txt", content=f"note {i} " * 40)
        return call("work", i, number=i, size=80)

    return script


@pytest.mark.parametrize(("kind", "steps"), [("sqlite", max(STEPS, 60)), ("postgres", 120 if ALL else 60)])
def test_a_deep_agent_with_todos_files_and_sub_agents(kind: str, steps: int, tmp_path: Path) -> None:  # R43, R44
    model = agent_model(0, 14_000, deep_script(steps))
    told: list[Any] = []
    own = ours(on_event=told.append)
    more: Any = {"middleware": [TodoListMiddleware()], "subagents": [READER]}
    with saver(kind, tmp_path) as saved:
        agent = create_deep_agent(model, [work], summarization=own, checkpointer=saved, **more)
        agent.invoke(dict(START), thread())
        assert model.log.calls > steps
        assert model.log.overflows == 0
        state = agent.get_state(thread()).values
        assert state["messages"][-1].content == "All done."
        assert summaries(state["messages"]) == 1
        assert state["todos"]
        assert state["files"]
        assert len({event.thread for event in told} - {"t"}) > 1  # sub-agents have conversations of their own
        originals = replay(agent, "t")
        assert originals[0].content == START["messages"][0].content
        assert len(originals) > 2 * len(state["messages"])
        assert undo(agent, "t")
        assert replay(agent, "t") == originals
        own.close()


def two_at_once(steps: int) -> Callable[[int, list[BaseMessage]], Any]:
    """Hands out two tasks; each sub-agent works for so many steps, and then is done."""

    def script(_: int, messages: list[BaseMessage]) -> Any:
        said = [str(m.content) for m in messages if m.type == "human"]
        own = next((text[8:] for text in said if text.startswith("SUBTASK ")), None)
        if own is None:
            return (
                "Both done." if any(m.type == "tool" for m in messages) else tasks("t", "SUBTASK alpha", "SUBTASK beta")
            )
        done = [c["args"]["number"] for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]
        number = max(done, default=-1) + 1
        return f"Finished {own}." if number == steps else call("work", f"{own}{number}", f"{own} step.", number=number)

    return script


def test_two_sub_agents_in_parallel_each_have_their_own_record() -> None:
    model = agent_model(0, 10_000, two_at_once(40))
    own = ours()
    agent = create_deep_agent(model, [work], summarization=own, subagents=[READER], checkpointer=InMemorySaver())
    state = asyncio.run(agent.ainvoke(dict(START), thread()))
    assert [m.content for m in state["messages"] if m.type == "tool"] == ["Finished alpha.", "Finished beta."]
    assert model.log.overflows == 0
    archive, namespace = own.compactors.archive, own.compactors.namespace
    names = list(archive.threads(namespace))
    assert len(names) == 2
    assert all(name.startswith("t/") for name in names)
    for name in names:
        kept = "\n".join(part.text for part in archive.parts(Scope(namespace, name)))
        assert ("alpha step." in kept) != ("beta step." in kept)
