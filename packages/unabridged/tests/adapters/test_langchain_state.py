"""What a graph's state tells in every summary turn, whichever way a compaction comes about."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents.middleware import AgentState, TodoListMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from langchain_support import START, ScriptedChat, agent_model, call, create_agent, ours, thread, work, working
from rows import rows
from unabridged import Settings
from unabridged.adapters.langchain import SummarizationMiddleware, acompact, compact, todos
from unabridged.events import Event, Failed

HEADING = "told by the host, not by the user"
LIST = [
    {"content": "read the files", "status": "completed"},
    {"content": "write the report", "status": "in_progress"},
    {"content": "send it", "status": "pending"},
]
SHOWN = "- [x] read the files\n- [~] write the report\n- [ ] send it"


class Moody(AgentState[Any]):
    """An agent's state with something of the host's in it."""

    mood: str


def moody(state: Any) -> str:
    return f"mood: {state['mood']}, {len(state['messages'])} messages"


async def moody_later(state: Any) -> str:
    await asyncio.sleep(0)
    return moody(state)


def summary_turn(messages: list[Any]) -> str:
    (text,) = [str(m.content) for m in messages if str(m.content).startswith("[unabridged summary")]
    return text


def run(own: SummarizationMiddleware, model: ScriptedChat, *, later: bool = False, **more: Any) -> Any:
    options = {"state_schema": Moody, "checkpointer": InMemorySaver(), **more}
    agent = create_agent(model, [work], middleware=[*options.pop("others", ()), own], **options)
    given = {**START, "mood": "calm"}
    if later:
        asyncio.run(agent.ainvoke(given, thread()))
    else:
        agent.invoke(given, thread())
    return agent


@rows(
    ("tell", "later", "state"),
    [
        (moody, False, "replaced"),
        (moody, True, "kept"),
        (moody_later, False, "kept"),
        (moody_later, True, "replaced"),
    ],
)
def test_every_summary_turn_tells_what_the_graphs_state_is_then(tell: Any, later: bool, state: Any) -> None:
    model = agent_model(24, 4_000)
    run(ours(host_state=tell, state=state), model, later=later)
    text = summary_turn(model.log.requests[-1])
    assert HEADING in text
    assert text.count("mood: calm, ") == 1


def test_to_dos_are_told_without_being_asked_for() -> None:
    script = lambda i, _: call("write_todos", i, todos=LIST) if not i else working(24)(i, _)  # noqa: E731
    model = agent_model(24, 5_000, script)
    run(ours(), model, others=[TodoListMiddleware(system_prompt="")])
    assert SHOWN in summary_turn(model.log.requests[-1])


def test_none_tells_nothing_and_no_to_dos_are_nothing_to_tell() -> None:
    for own in (ours(host_state=None), ours()):
        run(own, model := agent_model(24, 4_000))
        assert HEADING not in summary_turn(model.log.requests[-1])
    assert todos({"todos": []}) == todos({"todos": None}) == todos({"todos": 3}) == todos({}) == ""


def test_a_provider_of_the_engines_own_goes_before_it() -> None:
    run(ours(host_state=moody, options={"state": lambda name: f"thread {name}"}), model := agent_model(24, 4_000))
    text = summary_turn(model.log.requests[-1])
    assert "thread t" in text
    assert "mood" not in text


def test_the_state_is_told_when_the_model_refused_the_request_as_too_long() -> None:
    model = ScriptedChat(script=working(32), window=4_000, profile={"max_input_tokens": 60_000})
    run(ours(host_state=moody), model)
    assert model.log.overflows == 1
    assert all("mood: calm" in summary_turn(request) for request in model.log.requests[-3:])


def test_the_state_is_told_in_a_summary_made_in_the_background() -> None:
    told: list[str] = []

    def tell(state: Any) -> str:
        told.append(moody(state))
        return told[-1]

    own = ours(lambda _: "They worked on.", host_state=tell, settings=Settings(background=0.5, clear=None))
    run(own, agent_model(24, 4_000))
    assert told


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
def test_the_state_is_told_in_compactions_by_hand(later: bool) -> None:
    agent = run(ours(host_state=moody), agent_model(10, 90_000))
    done = asyncio.run(acompact(agent, "t")) if later else compact(agent, "t")
    assert done is not None
    assert "mood: calm, 22 messages" in summary_turn(agent.get_state(thread()).values["messages"])


def test_a_bare_state_is_told_too() -> None:
    agent = run(ours(), agent_model(30, 90_000))
    values = agent.get_state(thread()).values
    own = ours(host_state=moody, trigger=("messages", 20), keep=("messages", 4))
    update = own.before_model(values, None)
    assert "mood: calm, 62 messages" in summary_turn(update["messages"][1:])


def test_a_function_that_raises_is_an_event_and_the_run_goes_on() -> None:
    events: list[Event] = []
    run(ours(host_state=lambda state: state["gone"], on_event=events.append), model := agent_model(24, 4_000))
    assert model.log.calls == 25
    assert {event.stage for event in events if isinstance(event, Failed)} == {"state"}
