"""Without a `model`, the agent's own writes the summaries: the one that a request goes to. With None, nobody does."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import deepagents
import deepagents.middleware.summarization as theirs
import pytest
from deepagents.backends import StateBackend
from langchain.agents.middleware import AgentMiddleware, wrap_model_call
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from langchain_support import (
    SAID,
    SECRET,
    START,
    ScriptedChat,
    call,
    create_agent,
    long_chat,
    rounds,
    summaries,
    summariser,
    thread,
    work,
    working,
)
from unabridged import Settings
from unabridged.adapters.langchain import (
    SummarizationMiddleware,
    SummarizationToolMiddleware,
    acompact,
    compact,
)
from unabridged.adapters.langchain.arguments import ChosenSettings
from unabridged.archive.protocol import Scope
from unabridged.events import Compacted, Event, Failed

SIZE: dict[str, Any] = {"trigger": ("messages", 14), "keep": ("messages", 4), "archive": "memory:"}
STEPS = 18
NOT_KNOWN = "the agent's own model is not known here"


class Calls:
    """What the copies of a model were asked for: summaries, and turns of the conversation."""

    def __init__(self) -> None:
        self.asks: list[list[BaseMessage]] = []
        self.turns = 0


class Working(ScriptedChat):
    """An agent's model, whose tools are bound; asked without them it writes a summary."""

    calls: Calls = Field(default_factory=Calls)
    said: Any = SAID

    def _next(self, messages: list[BaseMessage]) -> Any:
        if not self.schemas:
            self.calls.asks.append(messages)
            if isinstance(self.said, Exception):
                raise self.said
            return AIMessage(self.said, response_metadata={"finish_reason": "stop"})
        self.calls.turns += 1
        return super()._next(messages)


class Starts(BaseCallbackHandler):
    """Notes the marks of every call of a model in a run."""

    def __init__(self) -> None:
        self.marks: list[tuple[bool, Any]] = []

    def on_chat_model_start(self, *_: Any, tags: Any = None, metadata: Any = None, **__: Any) -> None:
        self.marks.append(("nostream" in (tags or ()), (metadata or {}).get("lc_source")))


def model(steps: int = STEPS, **fields: Any) -> Working:
    return Working(script=working(steps), profile={"max_input_tokens": 60_000}, **fields)


def answering(**fields: Any) -> Working:
    return Working(script=lambda i, _: f"Answer {i}.", profile={"max_input_tokens": 60_000}, **fields)


def receipts(events: list[Event]) -> list[Any]:
    return [event.receipt for event in events if isinstance(event, Compacted) and event.receipt.kind == "summary"]


def agent_with(own: SummarizationMiddleware, chat: Any, *others: Any) -> Any:
    return create_agent(chat, [work], middleware=[*others, own], checkpointer=InMemorySaver())


# -- who writes -------------------------------------------------------------------------------------------------------


# R49
@pytest.mark.parametrize("state", ["replaced", "kept"])
@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
def test_without_a_model_the_agents_own_writes_the_summaries(later: bool, state: Any) -> None:
    events: list[Event] = []
    chat = model()
    agent = agent_with(SummarizationMiddleware(state=state, on_event=events.append, **SIZE), chat)
    done = asyncio.run(agent.ainvoke(dict(START), thread())) if later else agent.invoke(dict(START), thread())
    assert done["messages"][-1].content == "All done."
    assert chat.calls.turns == STEPS + 1
    assert len(chat.calls.asks) == len(receipts(events)) >= 2
    assert SECRET in str(chat.log.requests[-1][0].content)
    assert {receipt.summariser for receipt in receipts(events)} == {"scripted"}
    assert not any(NOT_KNOWN in note for receipt in receipts(events) for note in receipt.notes)


# R49
@pytest.mark.parametrize("how", ["model", "summarizer", "options"])
def test_a_model_that_is_named_writes_and_none_asks_nobody(how: str) -> None:
    other = summariser()
    given: dict[str, Any] = {"options": {"model": lambda _: SAID}} if how == "options" else {how: other}
    agent = agent_with(SummarizationMiddleware(**given, **SIZE), chat := model())
    agent.invoke(dict(START), thread())
    assert chat.calls.asks == []
    assert SECRET in str(chat.log.requests[-1][0].content)
    assert bool(other.log.calls) == (how != "options")
    events: list[Event] = []
    own = SummarizationMiddleware(None, on_event=events.append, **SIZE)
    agent_with(own, chat := model()).invoke(dict(START), thread())
    assert chat.calls.asks == []
    assert {receipt.summariser for receipt in receipts(events)} == {"model-free"}
    assert not any("model" in note for receipt in receipts(events) for note in receipt.notes)


# R49
def test_each_request_has_the_model_that_it_goes_to() -> None:
    """Two models of one name, with other credentials say: neither sees a conversation of the other's."""
    chats = {name: model(said=f"{SAID} Written for {name}.") for name in ("ada", "bob")}

    @wrap_model_call
    def choose(request: Any, handler: Any) -> Any:
        return handler(request.override(model=chats[request.runtime.context]))

    own = SummarizationMiddleware(**SIZE)
    agent = agent_with(own, model(), choose)
    for name in chats:
        agent.invoke({"messages": [HumanMessage(f"Work for {name}.")]}, thread(name), context=name)
    for name, other in (("ada", "bob"), ("bob", "ada")):
        text = "\n".join(str(m.content) for ask in chats[name].calls.asks for m in ask)
        assert f"Work for {name}." in text
        assert f"Work for {other}." not in text
        assert f"Written for {name}." in str(agent.get_state(thread(name)).values["messages"][0].content)
    for name, chat in chats.items():
        before = len(chat.calls.asks)
        assert compact(agent, name) is not None  # by hand: the model of this thread
        assert len(chat.calls.asks) == before + 1


def test_a_request_that_was_refused_is_made_shorter_with_it() -> None:
    chat = Working(script=working(40), window=4_000, profile={"max_input_tokens": 60_000})
    own = SummarizationMiddleware(archive="memory:", settings=Settings(clear=None))
    agent = agent_with(own, chat)
    agent.invoke(dict(START), thread())
    assert chat.log.overflows >= 1
    assert chat.calls.asks


def test_summaries_made_early_are_its_own() -> None:
    settings = Settings(trigger=("tokens", 3_000), keep=("messages", 6), background=0.5, clear=None)
    agent = agent_with(SummarizationMiddleware(settings=settings, archive="memory:"), chat := model(24))
    agent.invoke(dict(START), thread())
    assert chat.calls.asks
    assert SECRET in str(agent.get_state(thread()).values["messages"][0].content)


def test_a_model_that_fails_leaves_history_as_it_is() -> None:
    events: list[Event] = []
    chat = model(said=RuntimeError("no summaries here"))
    settings = Settings(trigger=("messages", 14), keep=("messages", 4), retries=0)
    own = SummarizationMiddleware(settings=settings, archive="memory:", on_event=events.append)
    done = agent_with(own, chat).invoke(dict(START), thread())
    assert len(done["messages"]) == 2 * STEPS + 2
    assert any(isinstance(event, Failed) and event.stage == "summary" for event in events)


def test_beside_deep_agents_own_factory_and_its_tool() -> None:
    chat = Working(
        script=lambda i, _: call("compact_conversation", "c") if i == 12 else working(STEPS)(i, []),
        profile={"max_input_tokens": 60_000},
    )
    own = SummarizationMiddleware(backend=StateBackend(), **{**SIZE, "trigger": ("messages", 20)})
    tool: Any = theirs.SummarizationToolMiddleware(own)  # type: ignore[arg-type]
    saver = InMemorySaver()
    agent: Any = deepagents.create_deep_agent(chat, [work], middleware=[own, tool], checkpointer=saver)
    agent.invoke(dict(START), thread())
    assert chat.calls.asks
    assert SECRET in str(chat.log.requests[-1][1].content)


# -- nothing of it in the stream --------------------------------------------------------------------------------------


# R31, R49
@pytest.mark.parametrize("mode", ["messages", "updates", "values", "custom"])
def test_nothing_of_its_summaries_is_in_the_stream(mode: Any) -> None:
    agent = agent_with(SummarizationMiddleware(**SIZE), chat := model())
    config = {**thread(), "callbacks": [starts := Starts()]}
    chunks = list(agent.stream(dict(START), config, stream_mode=mode))
    assert chat.calls.asks
    assert starts.marks.count((True, "summarization")) == len(chat.calls.asks)
    assert starts.marks.count((False, None)) == chat.calls.turns
    if mode in {"messages", "custom"}:
        assert SECRET not in str(chunks)
    else:  # the state itself has the summary, by its own mark
        assert "lc_source" in str(chunks)


# R31, R49
def test_nothing_of_its_summaries_is_in_an_async_stream() -> None:
    async def run() -> tuple[list[Any], Working]:
        agent = agent_with(SummarizationMiddleware(**SIZE), chat := model())
        return [chunk async for chunk in agent.astream(dict(START), thread(), stream_mode="messages")], chat

    chunks, chat = asyncio.run(run())
    assert chat.calls.asks
    assert SECRET not in str(chunks)


# -- without a request ------------------------------------------------------------------------------------------------


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [text for text in told if "without a model" in text]


# R49
@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
def test_by_hand_before_the_first_request_it_is_model_free_and_says_so(
    later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    own = SummarizationMiddleware(on_event=events.append, archive="memory:")
    agent = agent_with(own, chat := answering())
    agent.update_state(thread(), {"messages": long_chat(30)[:-1]})
    agent.update_state(thread(), None, as_node="__end__")
    done = asyncio.run(acompact(agent, "t")) if later else compact(agent, "t")
    assert done is not None
    assert done.receipt is not None
    assert chat.calls.asks == []
    assert done.receipt.summariser == "model-free"
    assert [note for note in done.receipt.notes if NOT_KNOWN in note] == [f"model-free: {done_note()}"]
    assert receipts(events) == [done.receipt]
    (record,) = own.compactors.archive.records(Scope(own.compactors.namespace, "t"))
    assert NOT_KNOWN in str(record.data)
    (warning,) = warnings_in(caplog)
    assert NOT_KNOWN in warning
    assert "SummarizationMiddleware(model)" in warning
    assert "model=None" in warning
    agent.invoke({"messages": long_chat(20)}, thread())
    again = compact(agent, "t")
    assert again is not None
    assert again.receipt is not None
    assert again.receipt.summariser == "scripted"
    assert not any(NOT_KNOWN in note for note in again.receipt.notes)
    assert len(chat.calls.asks) == 1
    assert len(warnings_in(caplog)) == 1


def done_note() -> str:
    return f"{NOT_KNOWN}, it comes with each request of the agent"


def test_a_thread_without_a_request_has_the_only_model_there_is() -> None:
    agent = agent_with(own := SummarizationMiddleware(archive="memory:"), chat := answering())
    agent.invoke({"messages": long_chat(3)}, thread("first"))
    for name in ("second", "third"):
        agent.update_state(thread(name), {"messages": long_chat(30)[:-1]})
        agent.update_state(thread(name), None, as_node="__end__")
    assert compact(agent, "second") is not None
    assert len(chat.calls.asks) == 1
    other = agent_with(own, answering())
    other.invoke({"messages": long_chat(3)}, thread("fourth"))
    done = compact(agent, "third")  # of two models, nobody knows which
    assert done is not None
    assert done.receipt is not None
    assert done.receipt.summariser == "model-free"
    assert len(chat.calls.asks) == 1


def test_a_fallback_is_asked_where_the_agents_model_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    own = SummarizationMiddleware(archive="memory:", options={"fallback": lambda _: SAID})
    agent = agent_with(own, chat := answering())
    agent.update_state(thread(), {"messages": long_chat(30)[:-1]})
    agent.update_state(thread(), None, as_node="__end__")
    done = compact(agent, "t")
    assert done is not None
    assert SECRET in str(done.messages[0].content)
    assert chat.calls.asks == []
    assert warnings_in(caplog) == []


def test_on_a_bare_state_it_is_model_free_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    own = SummarizationMiddleware(**SIZE, window=60_000)
    update = own.before_model({"messages": rounds(20)}, None)
    assert update is not None
    assert summaries(update["messages"]) == 1
    assert len(warnings_in(caplog)) == 1


def test_the_agents_own_tool_has_the_model_of_its_thread() -> None:
    def script(i: int, _: list[BaseMessage]) -> Any:
        return call("compact_conversation", "c") if i == 12 else working(15)(i, [])

    chat = Working(script=script, profile={"max_input_tokens": 60_000})
    own = SummarizationMiddleware(archive="memory:")
    tools: AgentMiddleware[Any, Any, Any] = SummarizationToolMiddleware(own)
    agent = create_agent(chat, [work], middleware=[own, tools], checkpointer=InMemorySaver())
    agent.invoke(dict(START), thread())
    messages = agent.get_state(thread()).values["messages"]
    told = next(m for m in messages if isinstance(m, ToolMessage) and m.name == "compact_conversation")
    assert str(told.content).startswith("Compacted: ")
    assert len(chat.calls.asks) == 1
    assert SECRET in str(messages[0].content)


KEPT = Settings(keep=("messages", 6))


def test_a_keep_alone_does_not_move_the_trigger_of_a_model_that_nobody_knows() -> None:
    # R45
    chosen = [ChosenSettings(settings, None, None).settings_for(None, recall=False) for settings in (None, KEPT)]
    assert [settings.trigger for settings in chosen] == [("tokens", 170_000)] * 2
    assert ChosenSettings(KEPT, None, None).settings_for(8_000, recall=False).trigger == ("fraction", 0.85)
