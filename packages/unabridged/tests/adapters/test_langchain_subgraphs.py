"""Agents that share `messages` with the graph around them: its state loses nothing, and no summary is made twice."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware as LangChains
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from langchain_support import ScriptedChat, bare, create_agent, long_chat, ours, summaries, thread
from rows import rows
from unabridged.adapters.langchain import replay

TURNS = 16
SIZE: dict[str, Any] = {"trigger": ("tokens", 2_000), "keep": ("messages", 6)}
SENTENCE = "The pump in hall {} was steady and all its readings stayed within the limits that we had set before. "

Node = Callable[[Any], Any]


class Writer(ScriptedChat):
    """Writes another summary each time."""

    def __init__(self) -> None:
        super().__init__(script=lambda i, _: f"Goals: answer about the halls. Question {i} was about hall {i}.")


def answering(own: str) -> Callable[[int, list[BaseMessage]], str]:
    return lambda i, _: f"{own} answer {i}: " + SENTENCE.format(i) * 4


def as_node(agent: Any) -> Any:
    return agent


def as_function(agent: Any) -> Node:
    return lambda state: {"messages": agent.invoke({"messages": state["messages"]})["messages"]}


def as_async_function(agent: Any) -> Node:
    async def node(state: Any) -> Any:
        return {"messages": (await agent.ainvoke({"messages": state["messages"]}))["messages"]}

    return node


def as_handoff(agent: Any) -> Node:
    return lambda state: Command(update={"messages": agent.invoke({"messages": state["messages"]})["messages"]})


def team(middleware: Any, node: Callable[[Any], Any], **options: Any) -> tuple[Any, list[ScriptedChat], Writer]:
    """Two agents that answer one after the other in each turn."""
    writer = Writer()
    models = [
        ScriptedChat(
            script=answering(own),
            profile={"max_input_tokens": 8_000},
            checked=False,
        )
        for own in "ab"
    ]
    graph: Any = StateGraph(MessagesState)
    for name, model in zip("ab", models, strict=True):
        agent = create_agent(model, [], middleware=[middleware(writer, **SIZE, **options)], name=name)
        graph.add_node(name, node(agent))
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", END)
    return graph.compile(InMemorySaver()), models, writer


def talk(graph: Any, *, later: bool = False) -> list[BaseMessage]:
    for turn in range(TURNS):
        said = {"messages": [HumanMessage(f"Question {turn}? " + SENTENCE.format(turn) * 4, id=f"q{turn}")]}
        asyncio.run(graph.ainvoke(said, thread())) if later else graph.invoke(said, thread())
    messages: list[BaseMessage] = graph.get_state(thread()).values["messages"]
    return messages


@functools.cache
def their_summaries() -> int:
    """How many summaries LangChain's own middleware has made of the same talk."""
    graph, _, writer = team(LangChains, as_node)
    talk(graph)
    return writer.log.calls


@rows(
    ("node", "later", "options"),
    [
        (as_node, False, {}),
        (as_node, True, {}),
        (as_node, False, {"state": "replaced"}),
        (as_node, False, {"state": "kept"}),
        (as_function, False, {}),
        (as_async_function, True, {}),
        (as_handoff, False, {}),
    ],
    ids=["node", "async node", "replaced", "kept", "function", "async function", "handoff"],
)
def test_the_outer_state_keeps_every_message_and_no_summary_is_made_twice(node: Any, later: bool, options: Any) -> None:
    graph, models, writer = team(ours, node, **options)
    messages = talk(graph, later=later)
    assert [m.type for m in messages] == ["human", "ai", "ai"] * TURNS
    assert [m.id for m in messages if m.type == "human"] == [f"q{turn}" for turn in range(TURNS)]
    assert all(str(m.content).startswith(f"Question {i}? ") for i, m in enumerate(messages[::3]))
    assert summaries(messages) == 0
    assert 0 < writer.log.calls <= their_summaries()
    for model in models:
        assert summaries(model.log.requests[-1]) == 1
        assert len(model.log.requests[-1]) < 30


def test_a_graph_of_ones_own_inside_another_takes_no_id_of_a_message_that_the_outer_state_has() -> None:
    own = ours(**SIZE)
    inner: Any = StateGraph(MessagesState)
    inner.add_node("shorten", lambda state: own.before_model(state, None) or {})
    inner.add_edge(START, "shorten")
    outer: Any = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile()).add_edge(START, "inner")
    given = long_chat(40)
    state = outer.compile(InMemorySaver()).invoke({"messages": given}, thread())
    assert bare(state["messages"][: len(given)]) == bare(given)
    assert summaries(state["messages"]) == 1


def test_an_agent_that_is_no_part_of_another_graph_still_replaces_its_state() -> None:
    own = ours(**SIZE)
    model = ScriptedChat(script=lambda i, _: f"Answer {i}.", profile={"max_input_tokens": 8_000})
    agent = create_agent(model, [], middleware=[own], checkpointer=InMemorySaver())
    given = long_chat(40)
    state = agent.invoke({"messages": given}, thread())
    assert len(state["messages"]) < len(given)
    assert summaries(state["messages"]) == 1
    assert bare(replay(agent, "t"))[: len(given)] == bare(given)
