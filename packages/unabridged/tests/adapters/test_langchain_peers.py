"""The peers' public behaviours, each run on both sides; and what is ours alone where only the import was changed."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from pathlib import Path
from typing import Any

import deepagents.middleware.summarization as deep_agents
import langchain.agents.middleware.summarization as langchains
import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

import unabridged.adapters.langchain as own
from langchain_support import (
    SAID,
    START,
    ScriptedChat,
    agent_model,
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
from unabridged import Settings, SettingsError
from unabridged.settings import Clear


class InMemory(own.SummarizationMiddleware):
    """Ours, with an archive that the next one in a test does not know."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"archive": "memory:", **options})


SIDES: dict[str, Any] = {"theirs": langchains.SummarizationMiddleware, "ours": InMemory}
BOTH = pytest.mark.parametrize("side", SIDES)
PROFILE: Any = {"max_input_tokens": 60_000}


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def chat(said: Any = SAID, **fields: Any) -> ScriptedChat:
    return ScriptedChat(script=lambda _i, _m: said, **{"profile": PROFILE, **fields})


def after(middleware: Any, messages: list[Any]) -> list[Any]:
    """The messages after one check of a bare state; those given when nothing was to be done."""
    update = middleware.before_model({"messages": messages}, None)
    return messages if update is None else update["messages"][1:]


# -- every name is there ----------------------------------------------------------------------------------------------


def test_every_public_name_of_both_peers_is_there() -> None:
    wanted = {"SummarizationMiddleware", "ContextSize", "TriggerClause", "DEFAULT_SUMMARY_PROMPT"}
    wanted |= {"SummarizationToolMiddleware", "create_summarization_middleware", "create_summarization_tool_middleware"}
    wanted |= {"compute_summarization_defaults", "SummarizationDefaults", "SummarizationState"}
    assert wanted <= set(own.__all__)
    assert all(hasattr(langchains, name) or hasattr(deep_agents, name) for name in wanted)
    for profile in (None, PROFILE, {"tool_calling": True}):
        model = chat(profile=profile)
        assert own.compute_summarization_defaults(model) == deep_agents.compute_summarization_defaults(model)
    assert own.DEFAULT_SUMMARY_PROMPT == langchains.DEFAULT_SUMMARY_PROMPT


# -- when -------------------------------------------------------------------------------------------------------------

TRIGGERS: list[tuple[Any, int, bool]] = [
    (None, 40, False),
    ([], 40, False),
    (("messages", 30), 40, True),
    (("messages", 300), 40, False),
    (("tokens", 1_500), 40, True),
    (("fraction", 0.02), 40, True),
    ({"tokens": 1_000, "messages": 300}, 40, False),
    ({"tokens": 1_000, "messages": 30}, 40, True),
    ({"tokens": 1_000, "fraction": 0.02}, 40, True),
    ({"tokens": 100, "fraction": 0.9}, 40, False),
    ([("tokens", 900_000), {"messages": 30, "tokens": 1_000}], 40, True),
    (("messages", 1), 40, True),
    (("tokens", 1), 40, True),
]


@BOTH
@pytest.mark.parametrize(("trigger", "turns", "pulled"), TRIGGERS, ids=lambda value: str(value)[:40])
def test_the_same_triggers_are_pulled(side: str, trigger: Any, turns: int, pulled: bool) -> None:
    middleware = SIDES[side](chat(), trigger=trigger, **({} if trigger else {"keep": ("messages", 20)}))
    messages = long_chat(turns)
    assert (len(after(middleware, messages)) < len(messages)) is pulled


@BOTH
@pytest.mark.parametrize("trigger", [None, []], ids=str)
def test_without_a_trigger_nothing_is_ever_changed(side: str, trigger: Any) -> None:
    model = ScriptedChat(script=working(30), profile={"max_input_tokens": 4_000}, model_name="gpt-4.1")
    middleware = SIDES[side](chat(), trigger=trigger)
    agent = create_agent(model, [work], middleware=[middleware], checkpointer=InMemorySaver())
    state = agent.invoke(dict(START), thread())["messages"]
    assert len(state) == 62
    assert "cleared" not in model.log.text


@BOTH
@pytest.mark.parametrize("name", ["gpt-4.1", "claude-sonnet-4-5"])
def test_below_the_trigger_results_stay_whole(side: str, name: str) -> None:
    model = ScriptedChat(script=working(30, size=240), profile={"max_input_tokens": 200_000}, model_name=name)
    middleware = SIDES[side](chat(), trigger=("tokens", 150_000))
    agent = create_agent(model, [work], middleware=[middleware], checkpointer=InMemorySaver())
    state = agent.invoke(dict(START), thread())["messages"]
    assert all(str(m.content).startswith("report ") for m in state if m.type == "tool")


def test_below_the_trigger_results_are_cleared_only_where_settings_say_so() -> None:
    # R8
    def cleared(middleware: Any, factory: Any = create_agent, **more: Any) -> bool:
        model = ScriptedChat(script=working(30, size=240), profile={"max_input_tokens": 200_000}, model_name="gpt-4.1")
        factory(model, [work], middleware=middleware, **more).invoke(dict(START), thread())
        return "[Tool result cleared: " in model.log.text

    plain = InMemory()
    assert not cleared([plain, own.SummarizationToolMiddleware(plain)])
    assert not cleared([InMemory(settings=Settings())])
    assert not cleared([], own.create_agent, summarization=InMemory())
    assert cleared([InMemory(settings=Settings(clear=Clear(payback=True)))])


@BOTH
def test_usage_reported_in_a_state_just_loaded_is_used(side: str) -> None:
    messages = long_chat(20)
    metadata = {"model_provider": "scripted", "model_name": "scripted"}
    usage: Any = {"input_tokens": 14_500, "output_tokens": 1_000, "total_tokens": 15_500}
    messages[-2] = AIMessage(messages[-2].content, id="a", usage_metadata=usage, response_metadata=metadata)
    model = chat(profile={"max_input_tokens": 100_000})
    middleware = SIDES[side](model, trigger=("tokens", 13_000), keep=("messages", 4))
    assert len(after(middleware, messages)) < 41
    messages[-2] = AIMessage(messages[-2].content, id="a")
    assert len(after(SIDES[side](model, trigger=("tokens", 13_000), keep=("messages", 4)), messages)) == 41


# -- keep -------------------------------------------------------------------------------------------------------------

CLOSE: list[dict[str, Any]] = [
    {"trigger": ("messages", 1)},
    {"trigger": ("messages", 1), "keep": ("messages", 1)},
    {"trigger": ("messages", 10), "keep": ("messages", 20)},
    {"trigger": ("tokens", 1_500), "keep": ("tokens", 1_500)},
    {"trigger": ("fraction", 0.04), "keep": ("fraction", 0.5)},
    {"trigger": ("fraction", 0.00001), "keep": ("fraction", 0.00001)},
    {"trigger": ("tokens", 1_500), "keep": ("fraction", 0.9)},
    {"trigger": [("messages", 10), ("tokens", 1_500)], "keep": ("messages", 10)},
]


LOWERED = re.compile("Kept instead|are kept")


@pytest.mark.parametrize("given", CLOSE, ids=str)
def test_a_keep_at_or_above_the_trigger_is_lowered_and_said_at_construction(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    langchains.SummarizationMiddleware(chat(), **given)  # which takes it
    with caplog.at_level(logging.WARNING, "unabridged"):
        middleware = InMemory(chat(), **given)
    said = [record.message for record in caplog.records if LOWERED.search(record.message)]
    assert said
    assert len(after(middleware, rounds(40))) < 40
    model = ScriptedChat(script=working(12), profile=PROFILE)
    agent = create_agent(model, [work], middleware=[middleware], checkpointer=InMemorySaver())
    assert agent.invoke(dict(START), thread())["messages"][-1].content == "All done."
    assert len([r for r in caplog.records if LOWERED.search(r.message)]) == len(said), "not again at each call"


def test_settings_of_ones_own_that_contradict_themselves_are_refused_at_construction() -> None:
    with pytest.raises(SettingsError, match="keep must be below the trigger"):
        InMemory(chat(), settings=Settings(trigger=("tokens", 100), keep=("tokens", 100)))


@BOTH
def test_a_list_of_triggers_is_copied(side: str) -> None:
    given: list[Any] = [("messages", 300)]
    middleware = SIDES[side](chat(), trigger=given)
    given.append(("messages", 1))
    assert middleware.trigger == [("messages", 300)]
    assert len(after(middleware, long_chat(20))) == 41


# -- who summarises, and what it is shown ------------------------------------------------------------------------------


@BOTH
def test_a_prompt_is_a_template(side: str) -> None:
    model = chat()
    prompt = "Only list names.\n<talk>\n{messages}\n</talk>\nThat was all."
    options: dict[str, Any] = {"trim_tokens_to_summarize": None, "summary_prompt": prompt}
    after(SIDES[side](model, trigger=("messages", 30), **options), long_chat(40))
    text = str(model.log.requests[0][-1].content)
    assert "{messages}" not in text
    assert text.index("<talk>") < text.index("detail3x1") < text.index("</talk>") < text.index("That was all.")


def test_the_peers_default_prompts_spelled_out_are_no_prompt_of_ones_own() -> None:
    for prompt in (langchains.DEFAULT_SUMMARY_PROMPT, deep_agents.DEEPAGENTS_DEFAULT_SUMMARY_PROMPT):
        after(InMemory(model := chat(), trigger=("messages", 30), summary_prompt=prompt), long_chat(40))
        assert "Context Extraction Assistant" not in model.log.text
        assert "detail3x1" in model.log.text


@BOTH
@pytest.mark.parametrize("kind", ["function", "runnable"])
def test_a_function_gets_the_messages_that_go(side: str, kind: str) -> None:
    shown: list[list[BaseMessage]] = []

    def shorten(messages: list[AnyMessage]) -> str:
        shown.append(list(messages))
        return SAID

    given: Any = RunnableLambda(shorten) if kind == "runnable" else shorten
    options: dict[str, Any] = {"trigger": ("messages", 30), "keep": ("messages", 6), "trim_tokens_to_summarize": None}
    messages = long_chat(40)
    left = after(SIDES[side](chat(), summarizer=given, **options), messages)
    (seen,) = shown
    assert all(isinstance(message, BaseMessage) for message in seen)
    assert seen == messages[: len(seen)]
    assert messages[len(seen) :] == left[-(len(messages) - len(seen)) :]
    assert SAID in str(left[0].content)


def test_a_functions_long_text_is_cut_and_a_trim_shows_it_the_newest() -> None:
    shown: list[int] = []

    def long(messages: list[AnyMessage]) -> str:
        shown.append(len(messages))
        return "\n".join(f"They talked about detail{i}x1." for i in range(2_000))

    middleware = InMemory(
        chat(), trigger=("messages", 30), keep=("messages", 6), summarizer=long, trim_tokens_to_summarize=600
    )
    left = after(middleware, long_chat(40))
    assert "detail3x1." in str(left[0].content)
    assert len(left) < 30
    assert len(shown) == 1
    assert 1 <= shown[0] < 10


def test_the_summarisers_profile_is_its_window() -> None:
    for window, most in ((200_000, 2), (12_000, 60)):
        writer = chat(profile={"max_input_tokens": window}, model_name="unheard-of")
        middleware = InMemory(
            ScriptedChat(script=working(1), profile={"max_input_tokens": 8_000}),
            summarizer=writer,
            settings=Settings(trigger=("messages", 30), keep=("messages", 4), clear=None),
        )
        after(middleware, long_chat(120))
        assert (writer.log.calls <= most, writer.log.calls > 2) == (True, window < 100_000)


# -- counting ---------------------------------------------------------------------------------------------------------


@BOTH
def test_a_counter_set_after_construction_is_used(side: str) -> None:
    middleware = SIDES[side](chat(), trigger=("tokens", 20_000), keep=("messages", 4))
    assert callable(middleware.token_counter)
    assert len(after(middleware, long_chat(20))) == 41
    middleware.token_counter = lambda messages, **_: 1_000 * len(list(messages))
    assert len(after(middleware, long_chat(20))) < 41


def test_a_counter_is_called_for_each_new_message_and_for_nothing_else() -> None:
    counted: list[int] = []

    def counter(messages: Any) -> int:
        counted.append(len(messages))
        return sum(len(str(message.content)) // 4 + 4 for message in messages)

    middleware = InMemory(chat(), trigger=("tokens", 150_000), token_counter=counter)
    model = ScriptedChat(script=working(50), profile={"max_input_tokens": 200_000}, model_name="gpt-4.1")
    agent = create_agent(
        model, [work], middleware=[middleware], checkpointer=InMemorySaver(), system_prompt="Be exact."
    )
    agent.invoke(dict(START), thread())
    agent.invoke({"messages": [HumanMessage("And?")]}, thread())
    assert len(counted) <= 102 + 2 + 4  # each message once, and the system prompt


# -- more than one ----------------------------------------------------------------------------------------------------


@BOTH
def test_two_subclasses_in_one_agent(side: str) -> None:
    base = SIDES[side]
    early, late = type("Early", (base,), {}), type("Late", (base,), {})

    model = ScriptedChat(script=working(40), profile=PROFILE)
    both = [early(chat(), trigger=("messages", 20), keep=("messages", 6))]
    both += [late(chat(), trigger=("messages", 16), keep=("messages", 4))]
    agent = create_agent(model, [work], middleware=both, checkpointer=InMemorySaver())
    state = agent.invoke(dict(START), thread())["messages"]
    assert state[-1].content == "All done."
    assert len(state) < 30


@pytest.mark.parametrize("open_requests", [1, 6])
def test_one_acknowledgment_at_most_in_the_state(open_requests: int) -> None:
    messages: list[Any] = []
    for i in range(open_requests):
        messages.append(HumanMessage(f"Also check pump {i} for a leak, please, and tell me.", id=f"q{i}"))
        messages += [m.model_copy(update={"id": f"{m.id}-{i}"}) for m in _renumbered(rounds(8)[1:], i)]
    middleware = InMemory(trigger=("messages", 30), keep=("messages", 4))
    messages += [HumanMessage("Go on with all of them.", id="on"), *_renumbered(rounds(12)[1:], 99)]
    left = after(middleware, messages)
    assert summaries(left) == 1
    ours = [m for m in left if isinstance(m, AIMessage) and m.additional_kwargs.get("lc_source")]
    assert len(ours) <= 1


def _renumbered(messages: list[Any], key: int) -> list[Any]:
    made: list[Any] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            made.append(message.model_copy(update={"tool_call_id": f"{message.tool_call_id}-{key}"}))
        else:
            calls = [{**one, "id": f"{one['id']}-{key}"} for one in message.tool_calls]
            made.append(message.model_copy(update={"tool_calls": calls}))
    return made


# -- the tool ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("writer", "steps", "said"),
    [
        (lambda: summariser(lambda _: ConnectionError("nobody there")), 40, "the summariser failed"),
        (lambda: summariser(""), 40, "the summariser failed"),
        (summariser, 0, "ompact"),
        (summariser, 40, "Compacted: "),
    ],
    ids=["down", "empty", "short", "good"],
)
def test_the_compact_tool_says_what_happened(writer: Any, steps: int, said: str, later: bool) -> None:
    def script(i: int, messages: list[BaseMessage]) -> Any:
        return call("compact_conversation", "c") if i == steps else working(steps)(i, messages)

    middleware = InMemory(writer(), settings=Settings(retries=0, cool_down=0.0, clear=None))
    agent = create_agent(
        agent_model(0, 90_000, script),
        [work],
        middleware=[middleware, own.SummarizationToolMiddleware(middleware)],
        checkpointer=InMemorySaver(),
    )
    state = asyncio.run(agent.ainvoke(dict(START), thread())) if later else agent.invoke(dict(START), thread())
    told = next(str(m.content) for m in state["messages"] if m.type == "tool" and m.name == "compact_conversation")
    assert said in told
    assert "short already" not in told
    assert ("Nothing was changed" in told) is (said == "the summariser failed")


# -- in an event loop -------------------------------------------------------------------------------------------------

WAITS = {"stat", "lstat", "mkdir", "readlink", "open", "listdir", "scandir", "connect", "fsync", "sleep"}


def test_in_an_event_loop_no_file_is_touched_at_construction_or_in_a_run(tmp_path: Path) -> None:
    touched: list[str] = []

    def watch(_frame: Any, event: str, function: Any) -> None:
        if (
            event == "c_call"
            and function.__name__ in WAITS
            and function.__module__ in {"posix", "_io", "_sqlite3", "time"}
        ):
            touched.append(f"{function.__module__}.{function.__name__}")

    async def built_and_run(folder: Path) -> list[BaseMessage]:
        url = f"sqlite:///{folder}/archive.db"
        sys.setprofile(watch)
        try:
            middleware = own.SummarizationMiddleware(
                chat(), trigger=("messages", 20), keep=("messages", 4), archive=url
            )
            agent = create_agent(ScriptedChat(script=working(30)), [work], middleware=[middleware])
            return list((await agent.ainvoke(dict(START), thread()))["messages"])
        finally:
            sys.setprofile(None)

    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    asyncio.run(built_and_run(tmp_path / "first"))  # what is imported now is not imported in the next
    touched.clear()
    assert summaries(asyncio.run(built_and_run(tmp_path / "second"))) == 1
    assert touched == []
