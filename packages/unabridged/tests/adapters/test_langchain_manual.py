"""Compact, undo and replay by hand; and the tools by which an agent does it itself."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_support import (
    SECRET,
    START,
    agent_model,
    bare,
    call,
    create_agent,
    long_chat,
    ours,
    summaries,
    summariser,
    thread,
    work,
    working,
)
from unabridged import Compactor, Settings, SettingsError
from unabridged.adapters.langchain import (
    LangChain,
    SummarizationToolMiddleware,
    acompact,
    aread,
    areplay,
    asearch,
    aundo,
    compact,
    read,
    replay,
    search,
    undo,
)
from unabridged.archive.protocol import Scope
from unabridged.recall.tools import tools as recall_tools


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteSaver]:
    connection = sqlite3.connect(tmp_path / "checkpoints.db", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_compact_undo_and_replay_by_hand(sqlite: SqliteSaver) -> None:  # R42
    agent = create_agent(agent_model(0, 50_000), [], middleware=[ours()], checkpointer=sqlite)
    agent.invoke({"messages": long_chat(30)}, thread())
    before = agent.get_state(thread()).values["messages"]
    done = compact(agent, "t")
    assert done is not None
    assert done.tokens_after < done.tokens_before
    assert done.receipt is not None
    assert done.receipt.archive == "memory:"
    state = agent.get_state(thread())
    assert len(state.values["messages"]) == len(done.messages) < 20
    assert (state.next, state.interrupts) == ((), ())
    assert replay(agent, "t") == before
    agent.invoke({"messages": [HumanMessage("Go on.")]}, thread())
    after = agent.get_state(thread()).values["messages"]
    assert undo(agent, "t") == [*before, *after[-2:]]
    assert agent.get_state(thread()).values["messages"] == [*before, *after[-2:]]
    assert undo(agent, "t") is None


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
def test_what_left_a_thread_is_searched_and_read_by_the_agent_that_compacts_it(later: bool) -> None:
    agent = create_agent(agent_model(0, 50_000), [], middleware=[ours()], checkpointer=InMemorySaver())
    said = [HumanMessage("The invoice is INV-2291."), *long_chat(30)]
    agent.invoke({"messages": said}, thread())
    assert not search(agent, "t", "INV-2291")
    assert compact(agent, "t") is not None
    for name in ("t", thread()):
        hits = asyncio.run(asearch(agent, name, "INV-2291")) if later else search(agent, name, "INV-2291", limit=3)
        message = asyncio.run(aread(agent, name, hits[0].ref)) if later else read(agent, name, hits[0].ref)
        assert message.text == "The invoice is INV-2291."
    assert not search(agent, "another", "INV-2291")
    with pytest.raises(SettingsError, match="pass using="):
        search(create_agent(agent_model(0, 50_000), []), "t", "INV-2291")


def test_nothing_stored_means_nothing_done() -> None:  # R42
    agent = create_agent(agent_model(0, 50_000), [], middleware=[ours()], checkpointer=InMemorySaver())
    assert compact(agent, "nobody") is None
    assert undo(agent, "nobody") is None
    assert replay(agent, "nobody") == []


# R54
@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("checkpointer", [None, False])
def test_without_a_checkpointer_nothing_is_compacted_and_a_warning_says_why(
    checkpointer: Any, later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    agent = create_agent(agent_model(0, 50_000), [], middleware=[ours()], checkpointer=checkpointer)
    agent.invoke({"messages": long_chat(30)}, thread())
    assert (asyncio.run(acompact(agent, "t")) if later else compact(agent, "t")) is None
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "'t'" in warning
    assert "checkpointer=" in warning
    with pytest.raises(SettingsError, match="has no checkpointer"):
        replay(agent, "t")
    bare_graph = create_agent(agent_model(0, 50_000), [], checkpointer=checkpointer)
    assert compact(bare_graph, {"configurable": {"thread_id": "t"}}) is None


def test_a_checkpointer_that_comes_with_the_config_is_one() -> None:
    saver = InMemorySaver()
    with_saver = create_agent(agent_model(0, 50_000), [], middleware=[ours()], checkpointer=saver)
    with_saver.invoke({"messages": long_chat(30)}, thread())
    lent = {"configurable": {"thread_id": "t", "__pregel_checkpointer": saver}}
    without = create_agent(agent_model(0, 50_000), [], middleware=[ours()])
    assert compact(without, lent) is not None
    assert summaries(with_saver.get_state(thread()).values["messages"]) == 1


def test_by_hand_where_the_state_is_kept_whole() -> None:
    model = agent_model(0, 50_000)
    agent = create_agent(model, [], middleware=[ours(state="kept")], checkpointer=InMemorySaver())
    agent.invoke({"messages": long_chat(30)}, thread())
    before = agent.get_state(thread()).values["messages"]
    assert compact(agent, "t") is not None
    agent.invoke({"messages": [HumanMessage("Go on.")]}, thread())
    assert len(model.log.requests[-1]) < 22
    assert agent.get_state(thread()).values["messages"][: len(before)] == before
    assert undo(agent, "t") is not None
    agent.invoke({"messages": [HumanMessage("And on.")]}, thread())
    assert len(model.log.requests[-1]) == len(before) + 3


def test_a_branch_from_before_the_compaction_is_whole(sqlite: SqliteSaver) -> None:
    agent = create_agent(agent_model(0, 50_000), [], middleware=[ours()], checkpointer=sqlite)
    agent.invoke({"messages": long_chat(30)}, thread())
    past = agent.get_state(thread()).config
    before = agent.get_state(past).values["messages"]
    compact(agent, "t")
    branch = agent.invoke({"messages": [HumanMessage("Another way.")]}, past)
    assert branch["messages"][: len(before)] == before
    assert replay(agent, "t") == branch["messages"]


def test_the_async_forms() -> None:
    async def run() -> None:
        agent = create_agent(agent_model(0, 50_000), [], middleware=[ours(summariser())], checkpointer=InMemorySaver())
        await agent.ainvoke({"messages": long_chat(30)}, thread())
        before = (await agent.aget_state(thread())).values["messages"]
        done = await acompact(agent, "t")
        assert done is not None
        assert SECRET in str(done.messages[0].content)
        assert await areplay(agent, "t") == before
        assert await aundo(agent, "t") == before

    asyncio.run(run())


def test_a_graph_without_our_middleware_is_told_who_compacts() -> None:
    agent = create_agent(agent_model(0, 50_000), [], checkpointer=InMemorySaver())
    agent.invoke({"messages": long_chat(30)}, thread())
    with pytest.raises(SettingsError, match="using="):
        compact(agent, "t")
    own = Compactor(window=50_000, archive="memory:", format=LangChain())
    assert compact(agent, "t", using=own) is not None
    assert len(replay(agent, "t", using=own)) == 62


# -- tools -------------------------------------------------------------------------------------------------------------


def test_an_agent_compacts_and_looks_things_up_itself() -> None:  # R47
    def script(i: int, _: list[BaseMessage]) -> Any:
        if i < 25:
            return call("work", i, number=i)
        steps: list[Any] = [
            call("compact_conversation", "c"),
            call("search_history", "s", query="fact3x7"),
            call("read_history", "r", ref="8"),
            "Found.",
        ]
        return steps[i - 25]

    model = agent_model(0, 50_000, script)
    own = ours()
    tools = SummarizationToolMiddleware(own, system_prompt="Look things up.")
    agent = create_agent(model, [work], middleware=[own, tools], checkpointer=InMemorySaver())
    agent.invoke(dict(START), thread())
    messages = agent.get_state(thread()).values["messages"]
    told = {m.name: str(m.content) for m in messages if isinstance(m, ToolMessage)}
    assert told["compact_conversation"].startswith("Compacted: ")
    assert "fact3x7" in told["search_history"]
    assert "fact3x7" in told["read_history"]
    assert len(model.log.requests[26]) < 20  # the very next request is short
    assert "Look things up." in str(model.log.requests[0][0].content)
    assert summaries(messages) == 1


def test_a_thread_sees_nothing_of_another() -> None:
    def script(i: int, _: list[BaseMessage]) -> Any:
        return call("search_history", f"s{i}", query="fact3x7") if i == 26 else working(25)(i, [])

    own = ours(trigger=("messages", 20), keep=("messages", 4), window=20_000)
    agent = create_agent(
        agent_model(0, 50_000, script),
        [work],
        middleware=[own, SummarizationToolMiddleware(own)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(dict(START), thread("mine"))
    agent.invoke(dict(START), thread("yours"))
    messages = agent.get_state(thread("yours")).values["messages"]
    told = next(m for m in messages if isinstance(m, ToolMessage))
    assert "fact3x7 " not in str(told.content)


@pytest.mark.parametrize("recall", [True, False], ids=["with the tools", "without"])
def test_references_are_given_only_to_an_agent_that_can_follow_them(recall: bool) -> None:  # R39
    own = ours()
    tools = SummarizationToolMiddleware(own, compact=False, recall=recall)
    model = agent_model(80, 6_000)
    agent = create_agent(model, [work], middleware=[own, tools], checkpointer=InMemorySaver())
    agent.invoke(dict(START), thread())
    sent = [str(m.content) for request in model.log.requests for m in request]
    stubs = [text for text in sent if text.startswith("[Tool result cleared: ")]
    assert stubs
    assert all(("full text: [" in text) == recall for text in stubs)
    summary = next(text for text in sent if text.startswith("[unabridged summary"))
    assert ("read_history" in summary) == recall
    if not recall:
        with pytest.raises(SettingsError, match="recall"):
            Settings(recall="yes")  # type: ignore[arg-type]
        return
    number = int(stubs[0].rpartition("full text: [")[2].partition("]")[0])
    scope = Scope(own.compactors.namespace, "t")
    told = recall_tools(own.compactors.archive, scope, format=LangChain()).call("read_history", {"ref": str(number)})
    assert "report" in told
    assert bare(replay(agent, "t"))[number][0] == "tool"
