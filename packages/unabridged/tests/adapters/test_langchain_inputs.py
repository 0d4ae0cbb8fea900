"""Messages come in as objects, dicts, pairs and strings: whatever they are, nothing is lost and nothing stands twice.

`add_messages` gives each an id; Deep Agents' channel leaves strings and pairs without one, and reads them anew.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend, StateBackend
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_support import ScriptedChat, agent_model, bare, call, fresh_database, ours, summaries, thread, work
from langchain_support import create_agent as langchains_create_agent
from rows import rows
from unabridged.adapters.langchain import (
    SummarizationMiddleware,
    SummarizationToolMiddleware,
    acompact,
    areplay,
    aundo,
    compact,
    create_agent,
    create_deep_agent,
    replay,
    undo,
)
from unabridged.adapters.langchain.message_names import MessageNames, name_by_text

FORMS: dict[str, Callable[[str], Any]] = {
    "messages": lambda text: [HumanMessage(text)],
    "message": HumanMessage,
    "dicts": lambda text: [{"role": "user", "content": text}],
    "dict": lambda text: {"role": "user", "content": text},
    "typed dicts": lambda text: [{"type": "human", "content": text}],
    "pairs": lambda text: [("user", text)],
    "pair": lambda text: ("user", text),
    "strings": lambda text: [text],
    "string": lambda text: text,
}
TURNS = 8
GO_ON, COMPACT_NOW = "Go on.", "Compact now."
ROLE = "user"
"""What a single pair becomes in Deep Agents beside its text: its stored form is read as two strings."""


def question(number: int) -> str:
    return f"Question {number}: " + " ".join(f"word{number}x{j}" for j in range(50)) if number % 3 else GO_ON


def answers(_: int, messages: list[BaseMessage]) -> Any:
    """Each answer is another one; asked to compact, the agent does it once."""
    if messages[-1].content == COMPACT_NOW:
        return call("compact_conversation", len(messages))
    return f"Answer {len(messages)} to {str(messages[-1].content)[:20]!r}: " + " ".join(f"a{i}" for i in range(40))


def make(kind: str, saver: Any, **options: Any) -> tuple[Any, ScriptedChat, SummarizationMiddleware]:
    model = agent_model(0, 50_000, answers)
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "agent": (create_agent, {}),
        "agent, state kept": (create_agent, {"state": "kept"}),
        "deep": (create_deep_agent, {"backend": StateBackend()}),
        "deep, state replaced": (create_deep_agent, {"backend": StateBackend(), "state": "replaced"}),
    }
    factory, more = kinds[kind]
    own = ours(**{"keep": ("messages", 4), **more, **options})
    tools = SummarizationToolMiddleware(own)
    return factory(model, [work], summarization=own, middleware=[tools], checkpointer=saver), model, own


def texts(messages: list[BaseMessage]) -> list[str]:
    return [str(m.content) for m in messages if m.content and m.content != ROLE and not isinstance(m, ToolMessage)]


def check_request(model: ScriptedChat, whole: list[BaseMessage], *, compacted: bool) -> None:
    """The newest request has one summary, if any, and no message more often than the conversation has it."""
    request = [message for message in model.log.requests[-1] if message.type != "system"]
    assert summaries(request) == compacted
    kept = [message for message in request if not summaries([message])]
    assert Counter(texts(kept)) <= Counter(texts(whole))
    assert texts(kept) == texts(whole)[-len(texts(kept)) :]
    assert (len(kept) < len(whole) / 2) == compacted


def by_hand(agent: Any, _: Callable[[str], Any]) -> list[str]:
    assert compact(agent, "t") is not None
    return []


def by_the_agent(agent: Any, form: Callable[[str], Any]) -> list[str]:
    done = agent.invoke({"messages": form(COMPACT_NOW)}, thread())["messages"]
    assert str(next(m for m in done if isinstance(m, ToolMessage)).content).startswith("Compacted: ")
    return [COMPACT_NOW, texts(done)[-1]]


# -- every form, every operation --------------------------------------------------------------------------------------


@rows("way", [by_hand, by_the_agent])
@rows("kind", ["agent", "agent, state kept", "deep", "deep, state replaced"])
@rows("form", FORMS.values(), ids=list(FORMS))
def test_compact_replay_undo_and_the_next_request_are_exact(
    form: Callable[[str], Any], kind: str, way: Callable[..., list[str]]
) -> None:
    # R40, R42, R47
    agent, model, own = make(kind, InMemorySaver())
    said = []
    for number in range(TURNS):
        done = agent.invoke({"messages": form(question(number))}, thread())
        said += [question(number), str(done["messages"][-1].content)]
    before = agent.get_state(thread()).values["messages"]
    assert texts(before) == said
    said += way(agent, form)
    whole = replay(agent, "t")
    assert texts(whole) == said
    if own.state_mode == "kept":
        assert whole == agent.get_state(thread()).values["messages"]
    done = agent.invoke({"messages": form(GO_ON)}, thread())
    said += [GO_ON, str(done["messages"][-1].content)]
    check_request(model, replay(agent, "t")[:-1], compacted=True)
    assert texts(replay(agent, "t")) == said
    undone = undo(agent, "t")
    assert undone is not None
    assert texts(undone) == said
    assert texts(agent.get_state(thread()).values["messages"]) == said
    assert undo(agent, "t") is None
    agent.invoke({"messages": form("And now?")}, thread())
    check_request(model, replay(agent, "t")[:-1], compacted=False)


@rows("kind", ["agent", "agent, state kept", "deep", "deep, state replaced"])
@rows("form", FORMS.values(), ids=list(FORMS))
def test_what_is_compacted_by_itself_is_replayed_and_taken_back(form: Callable[[str], Any], kind: str) -> None:
    # R40, R46
    agent, model, own = make(kind, InMemorySaver(), trigger=("messages", 12))
    said = []
    for number in range(TURNS + 4):
        done = agent.invoke({"messages": form(question(number))}, thread())
        said += [question(number), str(done["messages"][-1].content)]
        assert len(model.log.requests[-1]) <= 13
        assert texts(replay(agent, "t")) == said
    check_request(model, replay(agent, "t")[:-1], compacted=True)
    if own.state_mode == "kept":
        assert replay(agent, "t") == agent.get_state(thread()).values["messages"]
    steps: list[list[BaseMessage]] = []
    while (undone := undo(agent, "t")) is not None:
        steps.append(undone)
        assert texts(replay(agent, "t")) == said
    assert len(steps) >= 2
    assert [len(step) for step in steps] == sorted(len(step) for step in steps)
    assert texts(steps[-1]) == said


def test_several_compactions_by_hand_with_new_strings_between_them() -> None:
    agent, model, _ = make("deep", InMemorySaver())
    for number in range(3 * TURNS):
        agent.invoke({"messages": question(number)}, thread())
        if number % TURNS == TURNS - 1:
            assert compact(agent, "t") is not None
            assert replay(agent, "t") == agent.get_state(thread()).values["messages"]
    agent.invoke({"messages": GO_ON}, thread())
    whole = agent.get_state(thread()).values["messages"]
    assert len(whole) == 2 * 3 * TURNS + 2
    check_request(model, whole[:-1], compacted=True)
    for _ in range(3):
        assert undo(agent, "t") is not None
        assert replay(agent, "t") == whole
    assert undo(agent, "t") is None


# -- every checkpointer -----------------------------------------------------------------------------------------------


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Any]:
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
        yield SqliteSaver(connection)
        connection.close()
    else:
        with PostgresSaver.from_conn_string(fresh_database()) as saver:
            saver.setup()
            yield saver


@rows("kind", ["agent", "deep"])
@rows("store", ["memory", "sqlite", "postgres"])
def test_every_checkpointer_in_a_process_that_never_saw_the_thread(store: str, kind: str, tmp_path: Path) -> None:
    archive = f"sqlite:///{tmp_path}/archive.db"
    with opened(store, tmp_path) as saver:
        first, _, own = make(kind, saver, archive=archive)
        for number in range(3 * TURNS):  # more updates than there are between two snapshots of the channel
            first.invoke({"messages": [("user", question(number))]}, thread())
        before = first.get_state(thread()).values["messages"]
        assert compact(first, "t") is not None
        own.close()
        second, model, own = make(kind, saver, archive=archive)
        assert texts(replay(second, "t")) == texts(before)
        second.invoke({"messages": [("user", GO_ON)]}, thread())
        check_request(model, replay(second, "t")[:-1], compacted=True)
        assert texts(undo(second, "t") or []) == [*texts(before), *texts(replay(second, "t"))[-2:]]
        own.close()


@rows("kind", ["agent", "deep"])
@rows("store", ["memory", "sqlite", "postgres"])
def test_every_checkpointer_in_an_event_loop(store: str, kind: str, tmp_path: Path) -> None:
    async def run(saver: Any) -> None:
        agent, model, _ = make(kind, saver)
        for number in range(TURNS):
            await agent.ainvoke({"messages": question(number)}, thread())
        before = (await agent.aget_state(thread())).values["messages"]
        assert await acompact(agent, "t") is not None
        assert texts(await areplay(agent, "t")) == texts(before)
        await agent.ainvoke({"messages": GO_ON}, thread())
        check_request(model, (await areplay(agent, "t"))[:-1], compacted=True)
        undone = await aundo(agent, "t")
        assert texts(undone or [])[: len(texts(before))] == texts(before)

    async def opening() -> None:
        if store == "memory":
            await run(InMemorySaver())
        elif store == "sqlite":
            async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
                await run(saver)
        else:
            async with AsyncPostgresSaver.from_conn_string(fresh_database()) as saver:
                await saver.setup()
                await run(saver)

    asyncio.run(opening())


# -- what else goes by ids --------------------------------------------------------------------------------------------


def test_messages_that_get_their_ids_later_are_the_same(tmp_path: Path) -> None:
    """Deep Agents rewrites the state when a call has no result, and LangGraph then gives every message an id."""
    agent, model, _ = make("deep", InMemorySaver(), archive=f"sqlite:///{tmp_path}/a.db")
    for number in range(TURNS):
        agent.invoke({"messages": ["Please.", question(number)]}, thread())
    assert compact(agent, "t") is not None
    agent.update_state(thread(), {"messages": [call("work", "lost", number=1)]}, as_node="model")
    agent.update_state(thread(), None, as_node="__end__")
    agent.invoke({"messages": GO_ON}, thread())
    state = agent.get_state(thread()).values["messages"]
    assert all(message.id for message in state)
    check_request(model, state[:-1], compacted=True)
    assert bare(replay(agent, "t")) == bare(state)
    assert undo(agent, "t") is not None
    agent.invoke({"messages": GO_ON}, thread())
    check_request(model, agent.get_state(thread()).values["messages"][:-1], compacted=False)


def test_the_history_file_has_every_message_that_went(tmp_path: Path) -> None:
    backend = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
    agent, model, _ = make("deep", InMemorySaver(), backend=backend, trigger=("messages", 12))
    for number in range(2 * TURNS):
        agent.invoke({"messages": question(number)}, thread())
    written = (tmp_path / "conversation_history" / "t.md").read_text(encoding="utf-8")
    shown = texts(model.log.requests[-1])
    for number in range(2 * TURNS):
        if question(number) != GO_ON:  # either the model still sees it, or the file has it, once
            assert written.count(question(number)) == (question(number) not in shown)


class Redacting(AgentMiddleware[Any, Any, Any]):
    """Changes what the model is shown of messages, and nothing in the state."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        changed = [m.model_copy(update={"content": str(m.content).replace("word", "w***")}) for m in request.messages]
        return handler(request.override(messages=changed))


class Reminding(AgentMiddleware[Any, Any, Any]):
    """Puts a message in front of the newest one, in the request alone."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        *older, newest = request.messages
        return handler(request.override(messages=[*older, HumanMessage("Remember the rules."), newest]))


@pytest.mark.parametrize("state", ["kept", "replaced"])
def test_the_tools_may_stand_around_the_middleware_that_compacts(state: str) -> None:
    """Both follow what is pending, each in its turn."""
    own = ours(state=state, trigger=("messages", 12), keep=("messages", 4))
    model = agent_model(0, 50_000, answers)
    stack = [SummarizationToolMiddleware(own), own]
    agent = langchains_create_agent(model, [], middleware=stack, checkpointer=InMemorySaver())
    said = []
    for number in range(2 * TURNS):
        text = COMPACT_NOW if number in {7, 8} else question(number)
        done = agent.invoke({"messages": text}, thread())
        said += [text, str(done["messages"][-1].content)]
        assert summaries(model.log.requests[-1]) <= 1
        assert len(model.log.requests[-1]) <= 15
        assert texts(replay(agent, "t")) == said
    while (undone := undo(agent, "t")) is not None:
        assert texts(replay(agent, "t")) == said
        whole = undone
    assert texts(whole) == said


@pytest.mark.parametrize("other", [Redacting, Reminding])
def test_other_middleware_changes_the_request_alone(other: type[AgentMiddleware[Any, Any, Any]]) -> None:
    model = agent_model(0, 50_000, answers)
    own = ours(backend=StateBackend(), trigger=("messages", 12), keep=("messages", 4))
    stack = [other(), own]
    agent = create_deep_agent(model, [], summarization=None, middleware=stack, checkpointer=InMemorySaver())
    said = []
    for number in range(2 * TURNS):
        done = agent.invoke({"messages": [("user", question(number))]}, thread())
        said += [question(number), str(done["messages"][-1].content)]
        assert len(model.log.requests[-1]) <= 14
        assert summaries(model.log.requests[-1]) <= 1
        told = texts(model.log.requests[-1])
        repeated = {text for text, count in Counter(told).items() if count > Counter(said)[text]}
        assert all("w***" in text or text == "Remember the rules." or summaries([AIMessage(text)]) for text in repeated)
    assert texts(agent.get_state(thread()).values["messages"]) == said


def test_a_deep_agent_inside_another_graph_keeps_its_thread() -> None:
    """Its conversation has a name of its own in the archive, which its first message gives, with an id or without."""
    own = ours(backend=StateBackend(), trigger=("messages", 12), keep=("messages", 4))
    model = agent_model(0, 50_000, lambda i, _: call("work", i, number=i) if i < 20 else "All done.")
    inner = create_deep_agent(model, [work], summarization=own)

    def node(_: Any) -> dict[str, Any]:
        return {"messages": inner.invoke({"messages": "Work through all of it."})["messages"][-1:]}

    graph: Any = StateGraph(MessagesState)
    outer = graph.add_node("node", node).add_edge(START, "node").compile(InMemorySaver())
    outer.invoke({"messages": "Begin."}, thread())
    threads = list(own.compactors.archive.threads(own.compactors.namespace))
    assert len(threads) == 1
    assert str(threads[0]).count("t/said-") == 1
    assert all(len(request) <= 14 and summaries(request) <= 1 for request in model.log.requests)


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_message_without_an_id_is_named_by_what_it_says_and_what_it_follows() -> None:
    def conversation() -> list[BaseMessage]:
        turns = [[HumanMessage(GO_ON), AIMessage("Done.", id=f"a{i}")] for i in range(3)]
        return [message for turn in turns for message in turn]

    first, again = conversation(), conversation()
    names, others = MessageNames(first), MessageNames(again)
    assert [names(m) for m in first] == [others(m) for m in again]
    assert len(names.names_of(first)) == 6
    assert names(first[0]) == name_by_text(HumanMessage(GO_ON))
    assert names(first[1]) == "a0"
    moved = MessageNames(first, [first[4], *again[:2]])
    assert moved(first[4]) == names(first[4])
    assert moved(again[0]) != names(first[0])
