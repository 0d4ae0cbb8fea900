"""In Deep Agents: the state stays whole, history is in the backend, long arguments are clipped, its own tool works."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deepagents
import deepagents.middleware.summarization as theirs
import pytest
from deepagents.backends import CompositeBackend, FilesystemBackend, StateBackend
from deepagents.backends.protocol import EditResult, WriteResult
from deepagents.profiles.provider import provider_profiles
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_support import (
    SAID,
    START,
    ScriptedChat,
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
from unabridged import Settings, SettingsError
from unabridged.adapters.langchain import (
    SummarizationMiddleware,
    SummarizationToolMiddleware,
    compact,
    create_deep_agent,
    create_summarization_middleware,
    create_summarization_tool_middleware,
    factories,
    replay,
)
from unabridged.adapters.langchain.deep_agents import CLIPPING_KEYS
from unabridged.adapters.langchain.history_file import HistoryFileWriter

SIZE: dict[str, Any] = {"trigger": ("messages", 16), "keep": ("messages", 4)}
STEPS = 18


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
    assert max(len(request) for request in model.log.requests) <= 19
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
    names = ["t", "T", "a/b", "a_b", "../../etc/passwd", "..", "a.", "a..b", "é", "x" * 300, "x" * 301, "a b", ""]
    paths = [HistoryFileWriter(StateBackend()).path(name) for name in names]
    assert len(set(paths)) == len(names)
    assert all(path.startswith("/conversation_history/") and path.count("/") == 2 for path in paths)
    assert not any(".." in path for path in paths)
    rooted = CompositeBackend(default=StateBackend(), routes={}, artifacts_root="/agent")
    assert HistoryFileWriter(rooted).path("t") == "/agent/conversation_history/t.md"


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


# -- the history file: what it holds, and when it is named -------------------------------------------------------------


def blocks_of(data: str) -> dict[str, tuple[Any, bytes]]:
    """A content block of each shape that holds something itself, by the ending of its file, and its bytes."""
    raw = {ending: f"{data} {ending}".encode() for ending in ("png", "pdf", "wav", "svg", "jpg", "gif")}
    coded = {ending: base64.b64encode(body).decode() for ending, body in raw.items()}
    png = f"data:image/png;base64,{base64.b64encode(raw['gif']).decode()}"
    shapes: dict[str, Any] = {
        "png": {"type": "image", "base64": coded["png"], "mime_type": "image/png"},
        "pdf": {"type": "file", "base64": coded["pdf"], "mime_type": "application/pdf"},
        "wav": {"type": "audio", "base64": coded["wav"], "mime_type": "audio/wav"},
        "svg": {"type": "image", "url": f"data:image/svg+xml,{data}%20svg"},
        "jpg": {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": coded["jpg"]}},
        "gif": {"type": "image_url", "image_url": {"url": png}},
    }
    return {ending: (block, raw[ending]) for ending, block in shapes.items()}


def with_media(blocks: Sequence[Any]) -> list[Any]:
    said = long_chat(20)
    said[2] = HumanMessage([{"type": "text", "text": "Here is the plan"}, *blocks], id="h1")
    return said


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
def test_images_and_files_that_went_are_files_beside_the_history_which_names_them(tmp_path: Path, later: bool) -> None:
    held = blocks_of("data")
    agent = deep(chat(lambda _i, _m: "All done."), ours(backend=disk(tmp_path), **SIZE))
    given = {"messages": with_media([block for block, _ in held.values()])}
    asyncio.run(agent.ainvoke(given, thread())) if later else agent.invoke(given, thread())
    text = (tmp_path / "conversation_history" / "t.md").read_text(encoding="utf-8")
    stored = {path.read_bytes(): path for path in (tmp_path / "conversation_history" / "media").iterdir()}
    assert set(stored) == {raw for _, raw in held.values()}
    for path in stored.values():
        assert text.count(f"/conversation_history/media/{path.name}") == 1
    assert {path.suffix for path in stored.values()} >= {".png", ".pdf", ".svg", ".jpg"}
    assert agent.get_state(thread()).values["messages"][2].content[1:] == [block for block, _ in held.values()]


def test_an_image_that_can_not_be_stored_is_told_of_in_the_history(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class NoUploads(FilesystemBackend):
        def upload_files(self, *_: Any, **__: Any) -> Any:
            raise OSError("no space left")

    agent = deep(chat(lambda _i, _m: "All done."), ours(backend=NoUploads(tmp_path, virtual_mode=True), **SIZE))
    with caplog.at_level(logging.WARNING, "unabridged"):
        agent.invoke({"messages": with_media([blocks_of("data")["png"][0]])}, thread())
    text = (tmp_path / "conversation_history" / "t.md").read_text(encoding="utf-8")
    assert "Here is the plan [image/png: not stored]" in text
    assert any("image/png was not stored" in record.message for record in caplog.records)


def told_of_a_file(messages: list[BaseMessage]) -> bool:
    return any("conversation_history" in str(m.content) for m in messages if m.type == "human")


class Full(FilesystemBackend):
    """A disk that takes so many writes, and says of each after that what is wrong."""

    room = 0

    def write(self, *arguments: Any, **options: Any) -> Any:
        return super().write(*arguments, **options) if self._take() else WriteResult(error="disk full")

    def edit(self, *arguments: Any, **options: Any) -> Any:
        return super().edit(*arguments, **options) if self._take() else EditResult(error="disk full")

    def _take(self) -> bool:
        self.room -= 1
        return self.room >= 0


@pytest.mark.parametrize(
    ("room", "later", "state"),
    [
        (0, False, "replaced"),
        (0, True, "kept"),
        (1, False, "kept"),
        (1, True, "replaced"),
        (1_000, False, "kept"),
        (1_000, True, "replaced"),
    ],
)
def test_a_history_file_is_named_only_while_what_went_last_is_in_it(
    tmp_path: Path, room: int, later: bool, state: Any
) -> None:
    backend = Full(tmp_path, virtual_mode=True)
    backend.room = room
    model = chat()
    agent = deep(model, ours(backend=backend, state=state, **SIZE))
    run(agent, later=later)
    with_summary = [request for request in model.log.requests if summaries(request)]
    named = [told_of_a_file(request) for request in with_summary]
    assert (named[0], named[-1]) == (room > 0, room > 1)
    assert named == sorted(named, reverse=True)
    assert len([m for m in replay(agent, "t") if m.type == "tool"]) == STEPS


def test_what_is_compacted_by_hand_or_on_a_bare_state_names_no_file(tmp_path: Path) -> None:
    own = ours(backend=disk(tmp_path), trigger=("messages", 24), keep=("messages", 6))
    update = own.before_model({"messages": long_chat(20)}, None)
    assert summaries(update["messages"]) == 1
    assert not told_of_a_file(update["messages"])
    model = chat(lambda _i, _m: "All done.")
    agent = deep(model, ours(backend=disk(tmp_path), trigger=("messages", 48), keep=("messages", 6)))
    agent.invoke({"messages": long_chat(20)}, thread())
    done = compact(agent, "t")
    assert done is not None
    assert not told_of_a_file(done.messages)
    assert not (tmp_path / "conversation_history").exists()


@pytest.mark.parametrize("name", ["..", "../../x", "a..b.."])
def test_every_thread_id_has_a_file_that_a_disk_takes(tmp_path: Path, name: str) -> None:
    model = chat()
    run(deep(model, ours(backend=disk(tmp_path), **SIZE)), name=name)
    (path,) = (tmp_path / "conversation_history").glob("*.md")
    assert f"/conversation_history/{path.name}" in "\n".join(str(m.content) for m in model.log.requests[-1])


# -- the model of the summaries ---------------------------------------------------------------------------------------


@pytest.fixture
def _profile(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(provider_profiles, "_PROVIDER_PROFILES", dict(provider_profiles._PROVIDER_PROFILES))  # noqa: SLF001
    fields = {"base_url": "http://127.0.0.1:9", "google_api_key": "from-profile", "temperature": 0.25}
    deepagents.register_provider_profile("google_genai", deepagents.ProviderProfile(init_kwargs=fields))


@pytest.mark.usefixtures("_profile")
def test_a_name_stands_for_the_model_that_deep_agents_makes_of_it(tmp_path: Path) -> None:
    name = "google_genai:gemini-2.5-flash"
    made: list[Any] = []

    class Seen(SummarizationMiddleware):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self.model)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factories, "SummarizationMiddleware", Seen)
        deepagents.create_deep_agent(name)  # theirs asks for no key
        create_deep_agent(name)
        create_summarization_tool_middleware(name, disk(tmp_path), archive="memory:")
    assert len(made) == 2
    for model in made:
        assert (model.base_url, model.temperature) == ("http://127.0.0.1:9", 0.25)
        assert model.google_api_key.get_secret_value() == "from-profile"


@pytest.mark.filterwarnings("ignore:Passing `model=None`")
def test_without_a_model_deep_agents_chooses_it_and_it_writes_the_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    done = iter(range(STEPS + 1))

    def script(_: int, messages: list[BaseMessage]) -> Any:  # it writes the summaries too
        return SAID if messages[0].type == "human" else working(STEPS)(next(done), messages)

    model = chat(script)
    monkeypatch.setattr(deepagents.graph, "_build_default_model", lambda: model)
    tuned = Settings(**SIZE, clear=None)
    agent = create_deep_agent(tools=[work], summarization=tuned, checkpointer=InMemorySaver())
    run(agent)
    assert SAID in "\n".join(str(m.content) for m in model.log.requests[-1])


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


@pytest.mark.parametrize("side", ["theirs", "ours"])
@pytest.mark.parametrize("keep", [("tokens", 250), ("tokens", 700), ("fraction", 0.01)], ids=str)
def test_the_newest_arguments_that_stay_are_counted_with_the_callers_counter(side: str, keep: Any) -> None:
    settings: Any = {"trigger": ("messages", 5), "keep": keep, "max_length": 100}
    options: dict[str, Any] = {
        "backend": StateBackend(),
        "trigger": ("messages", 100),
        "truncate_args_settings": settings,
        "token_counter": lambda messages, **_: 100 * len(list(messages)),
    }
    model = chat(lambda _i, _m: "All done.")
    own: Any = ours(chat(), **options) if side == "ours" else theirs.SummarizationMiddleware(chat(), **options)
    said: list[Any] = [HumanMessage("Begin.", id="h")]
    for i in range(6):
        written = call("write_file", i, file_path=f"/{i}", content=LONG).model_copy(update={"id": f"a{i}"})
        said += [written, ToolMessage("ok", tool_call_id=f"call-{i}", id=f"t{i}")]
    create_agent(model, [work], middleware=[own]).invoke({"messages": [*said, HumanMessage("Go on.", id="z")]})
    (sent,) = model.log.requests
    clipped = [len(m.tool_calls[0]["args"]["content"]) < len(LONG) for m in sent if isinstance(m, AIMessage)]
    stay = {250: 0, 700: 3, 0.01: 2}[keep[1]]  # of 2, 7 and 6 messages, the first is the person's
    assert clipped == [True] * (6 - stay) + [False] * stay


@pytest.mark.parametrize(
    "wrong",
    [{"max_lenght": 5}, {"trigger": ("messages", 5), "keeps": 3}, "yes", {"max_length": -1}, {"trigger": 5}],
    ids=str,
)
def test_settings_of_arguments_that_nobody_knows_are_refused_with_those_that_are(wrong: Any) -> None:
    with pytest.raises(SettingsError) as refused:
        ours(truncate_args_settings=wrong)
    if isinstance(wrong, str) or set(wrong) - set(CLIPPING_KEYS):
        assert all(name in str(refused.value) for name in CLIPPING_KEYS)


# -- its own tool -----------------------------------------------------------------------------------------------------


def compacting(at: int, steps: int) -> Any:
    return lambda i, m: call("compact_conversation", f"c{i}") if i == at else working(steps)(i, m)


def told(messages: list[BaseMessage]) -> str:
    return next(str(m.content) for m in messages if m.type == "tool" and "ompact" in str(m.content))


@pytest.mark.parametrize(
    ("state", "engine", "later"),
    [
        ("replaced", "ours", False),
        ("kept", "ours", True),
        ("kept", "its own", False),
        ("replaced", "its own", True),
    ],
)
def test_what_deep_agents_own_tool_reports_reaches_the_request(state: Any, engine: str, later: bool) -> None:
    model = chat(compacting(12, STEPS))
    writer = ScriptedChat(
        script=lambda _i, _m: "Goals: work. Done: reports were read.", profile={"max_input_tokens": 60_000}
    )
    own = ours(writer, trigger=("messages", 48), keep=("messages", 6), state=state)
    with_theirs = theirs.SummarizationMiddleware(
        writer, backend=StateBackend(), trigger=("messages", 48), keep=("messages", 6)
    )
    tool = theirs.SummarizationToolMiddleware(own if engine == "ours" else with_theirs)  # type: ignore[arg-type]
    agent = deep(model, own, tool)
    messages = run(agent, later=later)
    assert len(model.log.requests[12]) > 24
    assert len(model.log.requests[13]) < 16
    assert len(model.log.requests[-1]) < 24
    assert agent.get_state(thread()).values.get("_summarization_event") is None
    assert len([m for m in replay(agent, "t") if m.type == "tool"]) == STEPS
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
    model = chat(compacting(12, STEPS))
    tool = create_summarization_tool_middleware(chat(lambda _i, _m: "Goals: work."), StateBackend(), archive="memory:")
    run(deep(model, tool))
    assert len(model.log.requests[12]) > 24
    assert max(len(request) for request in model.log.requests[13:]) < 24


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
