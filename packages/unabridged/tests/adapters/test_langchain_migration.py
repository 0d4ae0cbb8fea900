"""Typical uses of LangChain's and Deep Agents' own middleware go on with only the import changed."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware.summarization import SummarizationMiddleware as DeepAgentsOwn
from langchain.agents.middleware import SummarizationMiddleware as LangChainsOwn
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langchain_support import ScriptedChat, create_agent, long_chat, rounds, work, working
from unabridged.adapters.langchain import SummarizationMiddleware as Ours

BOTH = pytest.mark.parametrize("middleware", [LangChainsOwn, Ours], ids=["theirs", "ours"])
RUN: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 200}
PROFILE: Any = {"max_input_tokens": 200_000, "max_output_tokens": 64_000, "tool_calling": True}
SAID = "Goals: work through all of it. Done so far: the first reports were read and noted down."


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default archive is the user's; a test's user has a folder of their own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def summariser(said: str = SAID, **fields: Any) -> ScriptedChat:
    return ScriptedChat(script=lambda _i, _m: said, **{"profile": PROFILE, **fields})


def run(middleware: Any, steps: int = 12, **fields: Any) -> tuple[dict[str, Any], ScriptedChat]:
    """An agent that works for some steps; its last state, and its model."""
    model = ScriptedChat(script=working(steps), **{"profile": PROFILE, **fields})
    agent = create_agent(model, [work], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage("Work through all of it.")]}, RUN)
    return agent.get_state(RUN).values, model


def summaries(messages: list[BaseMessage]) -> list[BaseMessage]:
    marked = [m for m in messages if m.additional_kwargs.get("lc_source") == "summarization"]
    return [m for m in marked if isinstance(m, HumanMessage)]


def done(state: dict[str, Any], most: int) -> None:
    """The agent came to its end, and its state is one summary and a tail."""
    assert state["messages"][-1].content == "All done."
    assert len(summaries(state["messages"])) == 1
    assert len(state["messages"]) <= most


@BOTH
def test_a_token_trigger_and_a_number_of_messages(middleware: Any) -> None:
    state, _ = run(middleware(model=summariser(), trigger=("tokens", 1_500), keep=("messages", 4)))
    done(state, 20)


@BOTH
def test_several_conditions_of_which_any_is_enough(middleware: Any) -> None:
    trigger = [("tokens", 1_000_000), ("messages", 10)]
    state, _ = run(middleware(summariser(), trigger=trigger, keep=("messages", 4)))
    done(state, 14)


@BOTH
def test_a_mapping_of_which_all_must_hold(middleware: Any) -> None:
    state, _ = run(middleware(summariser(), trigger={"tokens": 100, "messages": 10}, keep=("messages", 4)))
    done(state, 14)


@BOTH
def test_fractions_of_the_models_profile(middleware: Any) -> None:  # R2
    small: Any = {"max_input_tokens": 4_000}
    own = middleware(summariser(profile=small), trigger=("fraction", 0.5), keep=("fraction", 0.1))
    state, _ = run(own, profile=small)
    done(state, 30)


@BOTH
@pytest.mark.parametrize("keep", [("messages", 20), ("messages", 4), ("tokens", 1_000)], ids=str)
def test_an_absolute_trigger_far_below_a_real_models_window(middleware: Any, keep: Any) -> None:  # R1
    model = summariser(model_name="claude-sonnet-4-5")
    state, _ = run(middleware(model, trigger=("tokens", 4_000), keep=keep), steps=30, model_name="claude-sonnet-4-5")
    done(state, 50)
    assert model.log.calls <= 8


@BOTH
def test_a_fraction_without_a_profile_is_refused_at_once(middleware: Any) -> None:
    with pytest.raises(ValueError, match="profile"):
        middleware(summariser(profile=None), trigger=("fraction", 0.5))


@BOTH
def test_the_former_names_of_the_arguments(middleware: Any) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = middleware(summariser(), max_tokens_before_summary=1_500, messages_to_keep=4)
    assert {warning.category for warning in said} == {DeprecationWarning}
    assert all(warning.filename == __file__ for warning in said)
    state, _ = run(made)
    done(state, 20)


@BOTH
def test_a_token_counter_of_ones_own(middleware: Any) -> None:  # R9
    def by_words(messages: Any) -> int:
        return sum(len(str(message.content).split()) for message in messages)

    own = middleware(summariser(), trigger=("tokens", 1_500), keep=("messages", 4), token_counter=by_words)
    state, _ = run(own, steps=30)
    done(state, 50)


@BOTH
def test_a_prompt_of_ones_own(middleware: Any) -> None:  # R21
    model = summariser()
    prompt = "Only list file names. <messages>{messages}</messages>"
    state, _ = run(middleware(model, trigger=("tokens", 1_500), keep=("messages", 4), summary_prompt=prompt))
    done(state, 20)
    assert "Only list file names." in model.log.text


@BOTH
def test_a_function_that_summarises(middleware: Any) -> None:
    asked: list[Any] = []

    def shorten(messages: Any) -> str:
        asked.append(messages)
        return SAID

    state, _ = run(middleware(summariser(), trigger=("tokens", 1_500), keep=("messages", 4), summarizer=shorten))
    done(state, 20)
    assert asked
    assert SAID in summaries(state["messages"])[0].content


@BOTH
def test_another_chat_model_that_summarises(middleware: Any) -> None:  # R20
    idle, busy = summariser(), summariser()
    run(middleware(idle, trigger=("tokens", 1_500), keep=("messages", 4), summarizer=busy))
    assert (idle.log.calls, busy.log.calls > 0) == (0, True)


@BOTH
def test_a_hand_written_graph_that_calls_before_model(middleware: Any) -> None:
    own = middleware(summariser(), trigger=("messages", 10), keep=("messages", 4))
    graph: Any = StateGraph(MessagesState)
    graph.add_node("shorten", lambda state: own.before_model(state, None) or {})
    graph.add_edge(START, "shorten").add_edge("shorten", END)
    state = graph.compile(checkpointer=InMemorySaver()).invoke({"messages": long_chat(20)}, RUN)
    assert len(summaries(state["messages"])) == 1
    assert state["messages"][-1].id == "last"
    assert len(state["messages"]) < 10


@BOTH
def test_a_bare_state_gets_the_same_kind_of_update(middleware: Any) -> None:
    own = middleware(summariser(), trigger=("messages", 10), keep=("messages", 4))
    messages: list[AnyMessage] = [m.model_copy(update={"id": None}) for m in long_chat(20)]
    update = own.before_model({"messages": messages}, None)
    first, *rest = update["messages"]
    assert isinstance(first, RemoveMessage)
    assert first.id == REMOVE_ALL_MESSAGES
    assert all(message.id for message in rest[1:])  # LangChain leaves the first one's to the reducer
    assert rest[0].additional_kwargs == {"lc_source": "summarization"}
    assert rest[-1] is messages[-1]
    assert own.before_model({"messages": long_chat(2)}, None) is None


@BOTH
def test_an_async_agent(middleware: Any) -> None:
    asyncio.run(async_agent(middleware))


async def async_agent(middleware: Any) -> None:
    model = ScriptedChat(script=working(12), profile=PROFILE)
    own = middleware(summariser(), trigger=("tokens", 1_500), keep=("messages", 4))
    agent = create_agent(model, [work], middleware=[own], checkpointer=InMemorySaver())
    state = await agent.ainvoke({"messages": [HumanMessage("Work through all of it.")]}, RUN)
    done(state, 20)
    bare = await own.abefore_model({"messages": rounds(30)}, None)
    assert isinstance(bare["messages"][0], RemoveMessage)


@BOTH
def test_the_attributes_that_others_read(middleware: Any) -> None:
    model = summariser()
    own = middleware(model, trigger=("tokens", 1_500), keep=("messages", 4), trim_tokens_to_summarize=3_000)
    assert (own.model, own.trigger, own.keep) == (model, ("tokens", 1_500), ("messages", 4))
    assert (own.trim_tokens_to_summarize, own.summarizer, own.name) == (3_000, None, "SummarizationMiddleware")


@pytest.mark.parametrize("middleware", [DeepAgentsOwn, Ours], ids=["theirs", "ours"])
def test_deep_agents_replaces_its_own_in_place(middleware: Any) -> None:
    model = ScriptedChat(script=working(14, size=200), profile={"max_input_tokens": 40_000})
    own = middleware(summariser(), backend=StateBackend(), trigger=("messages", 12), keep=("messages", 4))
    agent: Any = create_deep_agent(model, [work], middleware=[own], checkpointer=InMemorySaver())
    state = agent.invoke({"messages": [HumanMessage("Work through all of it.")]}, RUN)
    assert state["messages"][-1].content == "All done."
    assert max(len(request) for request in model.log.requests) <= 14


def names(agent: Any) -> list[str]:
    return [name for name in agent.nodes if name.endswith("_model")]


def test_a_subclass_that_overrides_before_model_gets_its_node() -> None:
    heard: list[bool] = []

    class Logged(Ours):
        def before_model(self, state: Any, runtime: Any) -> Any:
            update = super().before_model(state, runtime)
            heard.append(update is not None)
            return update

    own = Logged(None, trigger=("tokens", 1_500), keep=("messages", 4))
    agent = create_agent(ScriptedChat(script=working(1)), [work], middleware=[own])
    assert names(agent) == ["Logged.before_model", "Logged.after_model"]
    talk = [HumanMessage(f"Report {i}: " + "all is well. " * 40) for i in range(20)]
    state = agent.invoke({"messages": talk}, RUN)
    assert heard[0]
    assert len(state["messages"]) < 20
    assert summaries(state["messages"])


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="triger"):
        Ours(summariser(), triger=("tokens", 1))
