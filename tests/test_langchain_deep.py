"""In Deep Agents: the state stays whole, history is in the backend, long arguments are clipped, its own tool works."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import deepagents
import deepagents.middleware.summarization as theirs
import pytest
from deepagents.backends import CompositeBackend, FilesystemBackend, StateBackend
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_support import (
    SAID,
    START,
    ScriptedChat,
    call,
    create_agent,
    ours,
    summaries,
    summariser,
    thread,
    work,
    working,
)
from unabridged import Settings, SettingsError
from unabridged.adapters.langchain import (
    SummarizationMiddleware,
    SummarizationToolMiddleware,
    create_deep_agent,
    create_summarization_middleware,
    create_summarization_tool_middleware,
    replay,
)
from unabridged.adapters.langchain.deep import KEYS, Offload

SIZE: dict[str, Any] = {"trigger": ("messages", 24), "keep": ("messages", 6)}
STEPS = 30


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def disk(folder: Path) -> Any:
    return FilesystemBackend(root_dir=folder, virtual_mode=True)


def chat(script: Any = None, **fields: Any) -> ScriptedChat:
    return ScriptedChat(script=script or working(STEPS), profile={"max_input_tokens": 60_000}, **fields)


def run(agent: Any, *, later: bool = False, name: str = "t") -> list[BaseMessage]:
    config = thread(name)
    done = asyncio.run(agent.ainvoke(dict(START), config)) if later else agent.invoke(dict(START), config)
    assert done["messages"][-1].content == "All done."
    messages: list[BaseMessage] = agent.get_state(config).values["messages"]
    return messages


def deep(model: Any, *middleware: Any, **options: Any) -> Any:
    return deepagents.create_deep_agent(model, [work], middleware=middleware, checkpointer=InMemorySaver(), **options)


# -- state and history ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
def test_beside_a_backend_the_state_stays_whole_and_what_went_is_in_its_file(tmp_path: Path, later: bool) -> None:
    model = chat()
    agent = deep(model, ours(backend=disk(tmp_path), **SIZE))
    state = run(agent, later=later)
    assert len(state) == 2 * STEPS + 2
    assert summaries(state) == 0
    assert max(len(request) for request in model.log.requests) <= 27
    text = (tmp_path / "conversation_history" / "t.md").read_text(encoding="utf-8")
    shown = "\n".join(str(m.content) for m in model.log.requests[-1])
    whole = {str(m.content) for m in model.log.requests[-1] if m.type == "tool"}
    for message in state[1:-1]:
        if message.type == "tool":  # either the model still sees it, or the file has it, once
            assert text.count(str(message.content)) == (str(message.content) not in whole)
    assert text.count("## Summarized at ") >= 2
    assert "/conversation_history/t.md" in shown
    assert "[unabridged summary" not in text


def test_beside_a_backend_its_file_is_named_and_none_of_the_machine(tmp_path: Path) -> None:
    """An agent in a sandbox reads the backend's files, and no others; one that the settings ask for is named too."""
    asked = Settings(**SIZE, transcript=str(tmp_path / "logs" / "{thread}.md"))
    backend = disk(tmp_path / "backend")
    for options, named in ((dict(SIZE), False), ({"settings": asked}, True)):
        model = chat()
        run(deep(model, ours(backend=backend, archive=f"dir://{tmp_path}/folder", **options)), name=f"t-{named}")
        shown = "\n".join(str(m.content) for m in model.log.requests[-1])
        assert f"/conversation_history/t-{named}.md" in shown
        assert "transcript.md" not in shown
        assert (str(tmp_path / "logs" / "t-_54rue.md") in shown) is named


def test_our_factory_of_deep_agents_has_their_defaults_and_the_history_tools() -> None:
    bound: list[set[str]] = []

    class Bound(ScriptedChat):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            bound.append({tool["name"] if isinstance(tool, dict) else tool.name for tool in tools})
            return super().bind_tools(tools, **options)

    done = iter(range(STEPS + 1))

    def script(_: int, messages: list[BaseMessage]) -> Any:  # it writes the summaries too
        return SAID if messages[0].type == "human" else working(STEPS)(next(done), messages)

    model = Bound(script=script, profile={"max_input_tokens": 60_000})
    tuned = Settings(**SIZE, clear=None)
    agent = create_deep_agent(model, [work], summarization=tuned, checkpointer=InMemorySaver())
    state = run(agent)
    assert len(state) == 2 * STEPS + 2
    assert {"search_history", "read_history", "read_file", "work"} <= bound[-1]
    assert "compact_conversation" not in bound[-1]
    values = agent.get_state(thread()).values
    assert list(values["files"]) == ["/conversation_history/t.md"]
    assert "read_history" in str(model.log.requests[-1][1].content)


def test_the_factories_of_deep_agents_by_their_names(tmp_path: Path) -> None:
    made = create_summarization_middleware(chat(), disk(tmp_path), archive="memory:")
    assert isinstance(made, SummarizationMiddleware)
    assert (made.state_mode, made.trigger, made.keep) == ("kept", ("fraction", 0.85), ("fraction", 0.10))
    with pytest.raises(TypeError, match="BaseChatModel"):
        create_summarization_middleware("openai:gpt-5.5", disk(tmp_path))
    tool = create_summarization_tool_middleware(chat(), disk(tmp_path), system_prompt="Compact.", archive="memory:")
    assert (isinstance(tool, SummarizationToolMiddleware), tool.system_prompt) == (True, "Compact.")


def test_no_two_threads_share_a_file_and_none_leaves_the_folder() -> None:
    names = ["t", "T", "a/b", "a_b", "../../etc/passwd", "..", "é", "x" * 300, "x" * 301, "a b", ""]
    paths = [Offload(StateBackend()).path(name) for name in names]
    assert len(set(paths)) == len(names)
    assert all(path.startswith("/conversation_history/") and path.count("/") == 2 for path in paths)
    rooted = CompositeBackend(default=StateBackend(), routes={}, artifacts_root="/agent")
    assert Offload(rooted).path("t") == "/agent/conversation_history/t.md"


class Broken(FilesystemBackend):
    """A disk that is full."""

    def write(self, *_: Any, **__: Any) -> Any:
        raise OSError("no space left")


def test_a_backend_that_fails_costs_a_warning_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = deep(chat(), ours(backend=Broken(root_dir=tmp_path, virtual_mode=True), **SIZE))
    with caplog.at_level(logging.WARNING, "unabridged"):
        state = run(agent)
    assert any("no space left" in record.message for record in caplog.records)
    assert replay(agent, "t") == state


def test_plain_langchain_replaces_the_state_and_kept_is_there_for_the_asking() -> None:
    for options, whole in (({}, False), ({"state": "kept"}, True), ({"backend": None}, False)):
        agent = create_agent(chat(), [work], middleware=[ours(**SIZE, **options)], checkpointer=InMemorySaver())
        state = run(agent)
        assert (len(state) == 2 * STEPS + 2) is whole


# -- arguments --------------------------------------------------------------------------------------------------------

LONG = "all of the file " * 40


def writing(steps: int) -> Any:
    def script(i: int, messages: list[BaseMessage]) -> Any:
        if i == 0:
            return call("write_file", "w", file_path="/n.txt", content=LONG)
        if i == 1:
            return call("work", "x", number=1, size=60, note=LONG)
        return working(steps)(i, messages)

    return script


@pytest.mark.parametrize("side", ["theirs", "ours"])
def test_long_arguments_are_clipped_in_requests_only(side: str) -> None:
    settings: Any = {"trigger": ("messages", 12), "keep": ("messages", 6), "max_length": 100, "truncation_text": " […]"}
    options: dict[str, Any] = {
        "backend": StateBackend(),
        "trigger": ("tokens", 50_000),
        "truncate_args_settings": settings,
    }
    model = chat(writing(12))
    own: Any = (
        ours(summariser(), **options) if side == "ours" else theirs.SummarizationMiddleware(summariser(), **options)
    )
    agent = deep(model, own)
    state = run(agent)

    def written(messages: list[BaseMessage]) -> list[Any]:
        calls = [one for m in messages if isinstance(m, AIMessage) for one in m.tool_calls]
        return [one["args"].get("content", one["args"].get("note")) for one in calls if len(one["args"]) > 1][:2]

    assert written(model.log.requests[2]) == [LONG, LONG]
    assert written(model.log.requests[-1])[0] == LONG[:20] + " […]"
    assert written(state)[0] == LONG


@pytest.mark.parametrize(
    "wrong",
    [{"max_lenght": 5}, {"trigger": ("messages", 5), "keeps": 3}, "yes", {"max_length": -1}, {"trigger": 5}],
    ids=str,
)
def test_settings_of_arguments_that_nobody_knows_are_refused_with_those_that_are(wrong: Any) -> None:
    with pytest.raises(SettingsError) as refused:
        ours(truncate_args_settings=wrong)
    if isinstance(wrong, str) or set(wrong) - set(KEYS):
        assert all(name in str(refused.value) for name in KEYS)


# -- its own tool -----------------------------------------------------------------------------------------------------


def compacting(at: int, steps: int) -> Any:
    return lambda i, m: call("compact_conversation", f"c{i}") if i == at else working(steps)(i, m)


def told(messages: list[BaseMessage]) -> str:
    return next(str(m.content) for m in messages if m.type == "tool" and "ompact" in str(m.content))


@pytest.mark.parametrize("state", ["replaced", "kept"])
@pytest.mark.parametrize("engine", ["ours", "its own"])
@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
def test_what_deep_agents_own_tool_reports_reaches_the_request(state: Any, engine: str, later: bool) -> None:
    model = chat(compacting(20, 30))
    writer = ScriptedChat(
        script=lambda _i, _m: "Goals: work. Done: reports were read.", profile={"max_input_tokens": 60_000}
    )
    own = ours(writer, trigger=("messages", 80), keep=("messages", 6), state=state)
    with_theirs = theirs.SummarizationMiddleware(
        writer, backend=StateBackend(), trigger=("messages", 80), keep=("messages", 6)
    )
    tool = theirs.SummarizationToolMiddleware(own if engine == "ours" else with_theirs)  # type: ignore[arg-type]
    agent = deep(model, own, tool)
    messages = run(agent, later=later)
    assert len(model.log.requests[20]) > 40
    assert len(model.log.requests[21]) < 16
    assert len(model.log.requests[-1]) < 40
    assert agent.get_state(thread()).values.get("_summarization_event") is None
    assert len([m for m in replay(agent, "t") if m.type == "tool"]) == 30
    if state == "kept":
        assert "onversation compacted" in told(messages)


def test_deep_agents_own_tool_says_what_it_needs() -> None:
    tool: Any = theirs.SummarizationToolMiddleware(ours(trigger=("messages", 4)))  # type: ignore[arg-type]
    agent = create_agent(chat(compacting(4, 6)), [work], middleware=[tool])
    with pytest.raises(SettingsError, match="needs a middleware with a model"):
        run(agent)
    with pytest.raises(SettingsError, match="SummarizationMiddleware"):
        SummarizationToolMiddleware(theirs.SummarizationMiddleware(chat(), backend=StateBackend()))  # type: ignore[arg-type]


def test_our_tool_works_beside_deep_agents_own_middleware() -> None:
    model = chat(compacting(20, 30))
    tool = create_summarization_tool_middleware(chat(lambda _i, _m: "Goals: work."), StateBackend(), archive="memory:")
    run(deep(model, tool))
    assert len(model.log.requests[20]) > 40
    assert max(len(request) for request in model.log.requests[21:]) < 40


def test_a_thread_that_deep_agents_own_middleware_compacted_goes_on_with_ours() -> None:
    saver = InMemorySaver()
    own_writer = ScriptedChat(script=lambda _i, _m: "Goals: work.", profile={"max_input_tokens": 60_000})
    before = theirs.SummarizationMiddleware(own_writer, backend=StateBackend(), **SIZE)
    agent: Any = deepagents.create_deep_agent(chat(), [work], middleware=[before], checkpointer=saver)
    agent.invoke(dict(START), thread())
    model = chat()
    agent = deepagents.create_deep_agent(
        model, [work], middleware=[ours(backend=StateBackend(), trigger=("tokens", 50_000))], checkpointer=saver
    )
    agent.invoke({"messages": [HumanMessage("Once more, please.")]}, thread())
    assert len(model.log.requests[0]) < 40
    values = agent.get_state(thread()).values
    assert values.get("_summarization_event") is None
    assert len([m for m in values["messages"] if m.type == "tool"]) == 2 * STEPS
