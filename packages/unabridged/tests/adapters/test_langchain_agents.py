"""Real agents driven by scripted chat models: streams and events, other middleware, failures, factories."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import StateBackend
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    TodoListMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from langchain_support import (
    SAID,
    SECRET,
    START,
    ScriptedChat,
    agent_model,
    call,
    characters,
    create_agent,
    ours,
    summaries,
    summariser,
    thread,
    work,
    working,
)
from rows import rows
from unabridged import Settings, SettingsError, WontFit
from unabridged.adapters.langchain import create_deep_agent, replay
from unabridged.adapters.langchain.factories import place_in_stack


@pytest.mark.parametrize("mode", ["messages", "updates", "values", "custom"])
def test_nothing_of_the_summariser_is_in_the_stream(mode: Any) -> None:  # R31
    writer = summariser()
    agent = create_agent(agent_model(24, 4_000), [work], middleware=[ours(writer)], checkpointer=InMemorySaver())
    chunks = list(agent.stream(dict(START), thread(), stream_mode=mode))
    assert writer.log.calls > 0
    if mode in {"messages", "custom"}:
        assert SECRET not in str(chunks)
    else:  # the state itself has the summary, by its own mark
        assert "lc_source" in str(chunks)


def test_events_of_the_graph_name_the_source_of_internal_calls() -> None:
    async def events() -> list[Any]:
        agent = create_agent(agent_model(20, 4_000), [work], middleware=[ours(summariser())])
        return [event async for event in agent.astream_events(dict(START), thread(), version="v2")]

    found = [event for event in asyncio.run(events()) if event["event"] == "on_chat_model_end" and SECRET in str(event)]
    inner = [event for event in found if event["metadata"].get("lc_source") == "summarization"]
    assert inner


def test_compactions_are_told_to_the_custom_stream_when_asked_for() -> None:  # R31
    own = ours(stream_events=True)
    agent = create_agent(agent_model(20, 4_000), [work], middleware=[own], checkpointer=InMemorySaver())
    told = list(agent.stream(dict(START), thread(), stream_mode="custom"))
    assert {event["event"] for event in told} >= {"compacting", "compacted"}
    assert all("fact3x1" not in str(event) for event in told)


class Listening(BaseCallbackHandler):
    """Notes the custom events of a run."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        self.heard.append((name, data))


def test_compactions_are_told_to_callbacks_when_asked_for() -> None:  # R31
    agent = create_agent(agent_model(20, 4_000), [work], middleware=[ours(stream_events=True)])
    agent.invoke(dict(START), {**thread(), "callbacks": [listening := Listening()]})
    told = dict(listening.heard)
    assert (
        told["unabridged.compacted"]["receipt"]["tokens_after"]
        < told["unabridged.compacted"]["receipt"]["tokens_before"]
    )
    agent = create_agent(agent_model(20, 4_000), [work], middleware=[ours()])
    agent.invoke(dict(START), {**thread(), "callbacks": [silent := Listening()]})
    assert silent.heard == []


def test_what_the_provider_reports_pulls_the_trigger_earlier() -> None:  # R6, R11
    def longest(times: float) -> int:
        def script(i: int, messages: list[BaseMessage]) -> Any:
            used = int(sum(map(characters, messages)) * times)
            said = call("work", i, f"Step {i}.", number=i) if i < 36 else AIMessage("All done.")
            usage = {"input_tokens": used, "output_tokens": 9, "total_tokens": used + 9}
            return said.model_copy(update={"usage_metadata": usage if times else None})

        model = agent_model(0, 8_000, script)
        create_agent(model, [work], middleware=[ours()], checkpointer=InMemorySaver()).invoke(dict(START), thread())
        return max(model.log.sizes)

    assert longest(1.2) < longest(0) * 0.8


def test_defaults_follow_the_models_profile() -> None:  # R45
    own = ours()
    known, unknown = own.compactors.get("a", 100_000), own.compactors.get("b", None)
    assert (known.limits.trigger, known.limits.keep_tokens) == (({"tokens": 85_000},), 10_000)
    assert (unknown.limits.trigger, unknown.limits.keep_messages) == (({"tokens": 170_000},), 6)


def test_the_agents_own_model_is_asked_in_the_continuation_of_its_prompt() -> None:
    model = ScriptedChat(script=working(30), model_name="gpt-5-mini", profile={"max_input_tokens": 6_000})
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
    script = lambda i, _: call("work", i, "Code 4711.", number=i) if i < 20 else "The code is safe."  # noqa: E731
    model = agent_model(20, 4_000, script)
    writer = summariser()
    agent = create_agent(model, [work], middleware=[Redacting(), ours(writer)], checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage("My code is 4711. Work.")]}, thread())
    assert writer.log.calls > 0
    assert "4711" not in model.log.text + writer.log.text
    state = agent.get_state(thread()).values["messages"]
    assert state[-1].content == "The code is safe. (signed)"
    assert summaries(state) == 1


def test_an_overflow_that_nobody_foresaw_is_recovered_from() -> None:
    model = ScriptedChat(script=working(32), window=4_000, profile={"max_input_tokens": 60_000})
    own = ours()
    agent = create_agent(model, [work], middleware=[own], checkpointer=InMemorySaver())
    state = agent.invoke(dict(START), thread())
    assert state["messages"][-1].content == "All done."
    assert model.log.overflows == 1  # the window is learned


class Wordless(ScriptedChat):
    """Says that a request is too long, and nothing else."""

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        try:
            return super()._next(messages)
        except ContextOverflowError:
            raise ContextOverflowError("Your input exceeds the context window of this model.") from None


@rows("kind", [ScriptedChat, Wordless], ids=["with numbers", "without numbers"])
@rows("state", ["replaced", "kept"])
@rows("later", [False, True], ids=["sync", "async"])
def test_what_a_refusal_teaches_is_what_the_engine_learns_from_it(kind: Any, state: Any, later: bool) -> None:
    model = kind(script=working(32), window=4_000, profile={"max_input_tokens": 60_000})
    own = ours(state=state)
    agent = create_agent(model, [work], middleware=[own], checkpointer=InMemorySaver())
    if later:
        asyncio.run(agent.ainvoke(dict(START), thread()))
    else:
        agent.invoke(dict(START), thread())
    after = agent.get_state(thread()).values["messages"]
    assert after[-1].content == "All done."
    assert model.log.overflows == 1
    (compactor,) = own.compactors._compactors.values()  # noqa: SLF001 - one for this model: what was learned is in its limits
    assert compactor.limits.budget < 10_000
    assert max(model.log.sizes) <= 4_000
    assert len([m for m in replay(agent, "t") if m.type == "tool"]) == 32
    if state == "kept":
        assert summaries(after) == 0


@rows("refused", [False, True], ids=["known before", "said by the provider"])
@rows("later", [False, True], ids=["sync", "async"])
@rows("deep", [False, True], ids=["LangChain", "Deep Agents"])
def test_what_can_not_fit_is_langchains_error_too(deep: bool, later: bool, refused: bool) -> None:
    """A host that catches `ContextOverflowError`, as LangChain's own code does, is not left out."""
    window = 200_000 if refused else 8_000
    model = ScriptedChat(script=lambda _i, _m: "ok", window=8_000, profile={"max_input_tokens": window})
    own = ours(model, trigger=("tokens", 6_000), keep=("messages", 4), window=window)
    prompt, said = "Rule word. " * 6_000, {"messages": [HumanMessage("Please go on.")]}
    options: dict[str, Any] = {"summarization": own} if deep else {"middleware": [own]}
    agent = (create_deep_agent if deep else create_agent)(model, [], system_prompt=prompt, **options)
    with pytest.raises(ContextOverflowError) as raised:
        asyncio.run(agent.ainvoke(said)) if later else agent.invoke(said)
    assert refused == (model.log.overflows > 0)
    assert isinstance(raised.value, WontFit)
    assert raised.value.floor > raised.value.budget
    assert raised.value.window == window or refused
    assert "can't be made smaller" in str(raised.value)


def test_a_request_that_can_not_be_made_shorter_ends_with_numbers_and_the_models_own_error() -> None:
    model = ScriptedChat(script=working(3), window=200, profile={"max_input_tokens": 60_000})
    agent = create_agent(model, [work], middleware=[ours()], system_prompt="Be exact. " * 100)
    with pytest.raises(WontFit, match="of a 200-token window") as raised:
        agent.invoke(dict(START), thread())
    assert isinstance(raised.value.__cause__, ContextOverflowError)
    assert model.log.overflows == 1


@pytest.mark.parametrize("backend", [None, StateBackend()], ids=["plain", "beside a backend"])
def test_a_large_tail_and_a_refusal_without_numbers_take_one_more_try(backend: Any) -> None:
    def script(i: int, _: list[BaseMessage]) -> Any:
        return call("work", i, number=i, size=2_500) if i < 4 else "All done."

    model = Wordless(script=script, window=12_500, profile={"max_input_tokens": 60_000})
    agent = create_agent(model, [work], middleware=[ours(backend=backend)], checkpointer=InMemorySaver())
    agent.invoke(dict(START), thread())
    assert model.log.overflows == 1
    assert len([m for m in replay(agent, "t") if m.type == "tool"]) == 4


def test_another_error_of_the_model_is_passed_on() -> None:
    model = agent_model(1, 4_000, lambda _i, _m: ZeroDivisionError("mine"))
    agent = create_agent(model, [work], middleware=[ours()])
    with pytest.raises(ZeroDivisionError, match="mine"):
        agent.invoke(dict(START), thread())


@pytest.mark.parametrize("broken", ["down", "half"])
def test_the_run_goes_on_with_a_summariser_that_fails(broken: str) -> None:  # R33, R34
    said = lambda i: ConnectionError("down") if broken == "down" or i % 2 == 0 else SAID  # noqa: E731
    settings = Settings(retries=0, cool_down=0.0)
    model = agent_model(30, 5_000)
    own = ours(writer := summariser(said), settings=settings)
    agent = create_agent(model, [work], middleware=[own], checkpointer=InMemorySaver())
    state = agent.invoke(dict(START), thread())
    assert state["messages"][-1].content == "All done."
    assert (model.log.calls, model.log.overflows) == (31, 0)
    assert writer.log.calls > 1


class Verdict(BaseModel):
    """The end of the work."""

    good: bool


def test_structured_output_comes_through() -> None:
    script = lambda i, _: call("work", i, number=i) if i < 20 else call("Verdict", "v", good=True)  # noqa: E731
    agent = create_agent(
        agent_model(20, 4_000, script),
        [work],
        middleware=[ours()],
        response_format=ToolStrategy(Verdict),
        checkpointer=InMemorySaver(),
    )
    state = agent.invoke(dict(START), thread())
    assert state["structured_response"] == Verdict(good=True)
    assert summaries(state["messages"]) == 1


def test_a_conversation_with_images_and_a_pdf_compacts_and_the_bytes_come_back() -> None:  # R12, R29
    pdf = base64.b64encode(b"%PDF-1.7\n" + b"/Type /Page\n" * 2 + b"x" * 90_000).decode()
    file = {"type": "file", "base64": pdf, "mime_type": "application/pdf", "filename": "contract.pdf"}
    photo = {"type": "image", "base64": "iVBORw0KGgo" + "A" * 80_000, "mime_type": "image/png"}
    said = [HumanMessage([{"type": "text", "text": f"Look at {i}."}, block]) for i, block in enumerate((file, photo))]
    model = ScriptedChat(script=working(66), profile={"max_input_tokens": 24_000})
    agent = create_agent(model, [work], middleware=[ours(summariser())], checkpointer=InMemorySaver())
    for message in said:
        agent.invoke({"messages": [message]}, thread())
    state = agent.get_state(thread()).values["messages"]
    assert summaries(state) == 1
    assert model.log.calls > 60  # the base64 alone would be five times the window
    shown: list[Any] = [block for m in replay(agent, "t") if isinstance(m.content, list) for block in m.content]
    assert [block for block in shown if block["type"] != "text"] == [file, photo]


def test_the_place_in_the_stack() -> None:  # R43
    todo, own = TodoListMiddleware(), ours()
    asking = HumanInTheLoopMiddleware(interrupt_on={"work": True})
    assert place_in_stack(own, [todo, asking]) == [todo, own, asking]
    assert place_in_stack(own, [todo]) == [todo, own]
    other = ours()
    assert place_in_stack(own, [other, todo]) == [other, todo]


# -- deep agents -------------------------------------------------------------------------------------------------------


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
