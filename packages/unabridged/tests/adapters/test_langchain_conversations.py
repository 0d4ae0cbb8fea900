"""Two conversations under one thread id: recall tells them apart, and `forget` removes one for good."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_support import ScriptedChat, call, long_chat, ours, thread, work
from unabridged import Compactor, SettingsError
from unabridged.adapters.kit import limit_to_removed_messages
from unabridged.adapters.langchain import LangChain, aforget, create_agent, create_deep_agent, forget
from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Scope
from unabridged.recall.tools import tools as recall_tools

SECRET = "xylophonist"  # noqa: S105 - a word to look for
SIZE: dict[str, Any] = {"trigger": ("tokens", 2_000), "keep": ("messages", 4)}


@pytest.fixture(params=["memory:", "sqlite", "dir"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    places = {"sqlite": f"sqlite:///{tmp_path}/a.db", "dir": f"dir://{tmp_path}/a"}
    return open_archive(places.get(request.param, request.param))


def conversation(word: str) -> list[Any]:
    """A long talk whose first answer has the word."""
    said = long_chat(20)
    said[1] = AIMessage(f"Answer 0: the word is {word}, and " + "there is more to it. " * 20, id=f"{word}-a0")
    return [
        m.model_copy(update={"id": f"{word}-{m.id}", "content": m.content.replace("detail", word[:3])}) for m in said
    ]


def looking(*queries: Any) -> Any:
    def script(i: int, _: list[BaseMessage]) -> Any:
        return queries[i] if i < len(queries) else "Done."

    return script


def agent_of(script: Any, own: Any, saver: Any = None, make: Any = create_agent, **options: Any) -> Any:
    model = ScriptedChat(script=script, profile={"max_input_tokens": 8_000})
    return make(model, [work], summarization=own, checkpointer=saver, **options)


def tool_texts(messages: list[BaseMessage]) -> list[str]:
    return [str(m.content) for m in messages if isinstance(m, ToolMessage)]


SEARCHES = (
    call("search_history", "s", query=SECRET),
    call("search_history", "o", query="marimbaphone"),
    call("read_history", "r", ref="1"),
)


@pytest.mark.parametrize(("state", "later"), [("replaced", False), ("kept", True)])
def test_a_conversation_that_begins_anew_finds_only_its_own_text(archive: Archive, state: Any, later: bool) -> None:
    saver = InMemorySaver()
    first = agent_of(looking(*SEARCHES[:1]), ours(archive=archive, state=state, **SIZE), saver)
    told = tool_texts(first.invoke({"messages": conversation(SECRET)}, thread())["messages"])
    assert f"the word is {SECRET}" in told[0]
    saver.delete_thread("t")
    for there in (saver, InMemorySaver()):  # the same program, and another one with a checkpointer of its own
        agent = agent_of(looking(*SEARCHES), ours(archive=archive, state=state, **SIZE), there)
        given = {"messages": conversation("marimbaphone")}
        done = asyncio.run(agent.ainvoke(given, thread())) if later else agent.invoke(given, thread())
        other, own, read = tool_texts(done["messages"])
        assert "Nothing that left the context" in other
        assert f"the word is {SECRET}" not in other + own + read
        assert "the word is marimbaphone" in own
        assert "the word is marimbaphone" in read, "turn 1 has one version, that of this conversation"


def test_all_that_left_in_many_compactions_is_found(archive: Archive) -> None:
    """The record of each compaction leads to those before it."""
    wanted, told = (0, 10, 20), []

    def script(i: int, messages: list[BaseMessage]) -> Any:
        if i < 30:
            return call("work", i, f"Step {i}.", number=i, size=80)
        told.append(str(messages[-1].content))
        return call("search_history", f"s{i}", query=f"fact{wanted[i - 30]}x7") if i < 33 else "Done."

    agent = agent_of(script, ours(archive=archive, **SIZE), InMemorySaver())
    agent.invoke({"messages": [HumanMessage("Work through all of it.")]}, thread())
    assert len(list(archive.newest(Scope("default", "t")))) >= 3
    for number, text in zip(wanted, told[1:], strict=True):
        assert f"Best matches for “fact{number}x7”" in text
        assert f"report {number}: " in text


def test_what_the_model_was_sent_is_found_where_the_state_could_not_follow() -> None:
    class Another(AgentMiddleware[Any, Any, Any]):
        """Puts a call and its result into each request that the state does not have."""

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            beside = [call("work", "beside", number=1), ToolMessage("fine", tool_call_id="call-beside", id="beside")]
            first, *rest = request.messages
            return handler(request.override(messages=[first, *beside, *rest]))

    own = ours(**SIZE)
    agent = agent_of(looking(*SEARCHES[:1]), own, InMemorySaver(), middleware=[Another()])
    done = agent.invoke({"messages": conversation(SECRET)}, thread())
    assert len(done["messages"]) > 41, "the state did not follow"
    assert f"the word is {SECRET}" in tool_texts(done["messages"])[0]


def test_many_better_matches_of_another_conversation_hide_nothing(archive: Archive) -> None:
    one = Compactor(window=8_000, archive=archive, format=LangChain())
    for i in range(6):
        noise = [HumanMessage("pump pump pump", id=f"n{i}-{j}") for j in range(100)]
        one.compact([*noise, *conversation(f"noise{i}")], thread="t")
    mine = one.compact(conversation("marimbaphone"), thread="t")
    assert mine is not None
    scope = Scope("default", "t")
    assert len(archive.search(scope, "pump", 1_000)) > 200
    left = limit_to_removed_messages(archive, scope, mine.messages, LangChain())
    assert recall_tools(left, scope, format=LangChain()).call("search_history", {"query": "pump"}).count("ref") == 0
    found = recall_tools(left, scope, format=LangChain()).call("search_history", {"query": "word pump"})
    assert "the word is marimbaphone" in found
    assert "noise" not in found


def test_an_archive_that_can_not_be_read_is_the_tools_answer(tmp_path: Path) -> None:
    archive = open_archive(f"sqlite:///{tmp_path}/a.db")
    left = limit_to_removed_messages(archive, Scope("default", "t"), conversation(SECRET), LangChain())
    archive.close()
    for name, given in (("search_history", {"query": "word"}), ("read_history", {"ref": "1"})):
        answer = recall_tools(left, Scope("default", "t"), format=LangChain()).answer(name, given)
        assert answer.error
        assert "closed" in answer.text


# -- forget -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "later"), [(create_agent, False), (create_deep_agent, True)], ids=["LangChain", "Deep Agents, async"]
)
def test_forget_removes_a_thread_with_those_of_its_sub_agents(archive: Archive, make: Any, later: bool) -> None:
    saver = InMemorySaver()
    own = ours(archive=archive, **SIZE)
    agent = agent_of(looking(), own, saver, make)
    for name in ("t", "t2"):
        agent.invoke({"messages": conversation(SECRET)}, thread(name))
    compactor = Compactor(window=8_000, archive=archive, format=LangChain())
    assert compactor.compact(conversation(SECRET), thread="t/first") is not None
    saver.delete_thread("t")
    gone = asyncio.run(aforget(agent, "t")) if later else forget(agent, thread())
    assert gone == ["t", "t/first"]
    assert list(archive.threads("default")) == ["t2"]
    assert not archive.search(Scope("default", "t"), SECRET)
    assert archive.search(Scope("default", "t2"), SECRET)
    assert forget(agent, "t") == []
    again = agent.invoke({"messages": conversation("marimbaphone")}, thread())
    assert again["messages"][-1].content == "Done."
    assert archive.verify() == []


def test_forget_takes_a_compactor_and_says_what_it_needs() -> None:
    model = ScriptedChat(script=looking(), profile={"max_input_tokens": 8_000})
    plain = create_agent(model, [], checkpointer=InMemorySaver())
    with pytest.raises(SettingsError, match="using="):
        forget(plain, "t")
    own = Compactor(window=8_000, archive="memory:", format=LangChain())
    with pytest.raises(SettingsError, match="thread_id"):
        forget(plain, {"configurable": {}}, using=own)
    own.compact(conversation(SECRET), thread="t")
    assert forget(plain, "t", using=own) == ["t"]
