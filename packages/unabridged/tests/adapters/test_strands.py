"""Strands: what its own protocol asks of a conversation manager, besides the contract that every adapter keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.agent.conversation_manager.compression.pin_message import pin_message
from strands.session.file_session_manager import FileSessionManager
from strands.session.snapshot_session_manager import SnapshotSessionManager
from strands.storage import LocalFileStorage
from strands.types.exceptions import ContextWindowOverflowException

from doors.strands import AskingModel
from strands_case import report
from unabridged import Settings
from unabridged.adapters import kit
from unabridged.adapters.strands import CompactingConversationManager
from unabridged.adapters.strands.manager import FORMAT
from unabridged.adapters.strands.summariser import read_usage
from unabridged.legality import check
from unabridged.tokens.calibrate import Usage
from unabridged_testing.adapter_contract import ModelReply, Seen, TooLong

TALK = "Noted." + " It is written down in the book of the pump house." * 12


def talking(_: Seen) -> ModelReply:
    return ModelReply(TALK)


def manager(**keywords: Any) -> CompactingConversationManager:
    return CompactingConversationManager(**{"window": 3_000, "archive": "memory:", "model": None, **keywords})


def agent_with(compacting: Any, brain: Callable[[Seen], ModelReply] = talking, **more: Any) -> Agent:
    return Agent(AskingModel(brain), conversation_manager=compacting, callback_handler=None, **more)


def talk(agent: Agent, turns: int, first: int = 0) -> Any:
    for i in range(first, first + turns):
        agent(f"Turn {i} is about " + " ".join(f"item{i}x{j}" for j in range(40)))


def long_talk(turns: int) -> list[Any]:
    return [{"role": role, "content": [{"text": TALK}]} for role in ("user", "assistant") * turns]


def summaries(messages: Any) -> int:
    return sum(FORMAT.read(message).text.startswith("[unabridged summary") for message in messages)


def reporting(seen: Seen) -> ModelReply:
    done = [answer for view in seen.views[-1:] for answer in view.answers]
    return ModelReply(TALK) if done else ModelReply(calls=(("report", {"number": 1}), ("report", {"number": 2})))


def sessions(kind: str, folder: Path) -> Any:
    if kind == "files":
        return FileSessionManager("s1", storage_dir=str(folder))
    return SnapshotSessionManager("s1", storage=LocalFileStorage(str(folder)))


@pytest.mark.parametrize("kind", ["files", "snapshots"])
def test_a_restored_session_has_the_very_list_that_was_left(kind: str, tmp_path: Path) -> None:
    archive = f"sqlite:///{tmp_path / 'archive.db'}"

    def opened() -> Agent:
        more = {"tools": [report], "session_manager": sessions(kind, tmp_path / "s")}
        return agent_with(manager(archive=archive), reporting, **more)

    left: list[Any] = []
    for start in range(0, 12, 3):  # each time another process, with summaries, stubs and shortened results in the list
        agent = opened()
        assert agent.messages == left
        talk(agent, 3, start)
        left = list(agent.messages)
    assert summaries(left) == 1
    last = opened()
    whole = last.conversation_manager.replay(last)  # type: ignore[attr-defined]
    said = [FORMAT.read(message).text for message in whole]
    assert [text.split(" is")[0] for text in said if "Turn" in text] == [f"Turn {i}" for i in range(12)]


def test_undo_reaches_the_session(tmp_path: Path) -> None:
    archive = f"sqlite:///{tmp_path / 'archive.db'}"
    compacting = manager(archive=archive, settings=Settings(clear=None))
    agent = agent_with(compacting, session_manager=sessions("files", tmp_path / "s"))
    turns = next(i + 1 for i in range(20) if talk(agent, 1, i) or summaries(agent.messages))
    asyncio.run(compacting.aundo(agent))
    assert (len(agent.messages), summaries(agent.messages)) == (2 * turns, 0)
    again = agent_with(manager(archive=archive), session_manager=sessions("files", tmp_path / "s"))
    assert again.messages == agent.messages


@pytest.mark.parametrize("theirs", [SlidingWindowConversationManager(2), SummarizingConversationManager(0.5, 1)])
def test_a_session_of_strands_own_managers_goes_on(theirs: Any, tmp_path: Path) -> None:
    before = agent_with(theirs, session_manager=sessions("files", tmp_path))
    talk(before, 3)
    theirs.reduce_context(before)
    before("And now?")
    after = agent_with(manager(), session_manager=sessions("files", tmp_path))
    assert after.messages == before.messages
    assert len(after.messages) < 8
    with pytest.raises(ValueError, match="Invalid conversation manager state"):
        manager().restore_from_session({"__name__": "SomebodyElses", "removed_message_count": 0})


def test_the_list_stays_the_list_and_what_stays_in_it_the_same_messages() -> None:
    agent = agent_with(manager())
    mine = agent.messages
    talk(agent, 3)
    before = list(mine)
    copies = [dict(message) for message in mine]
    assert before == copies
    assert not summaries(before)  # below the trigger nothing is touched
    talk(agent, 8, 3)
    assert agent.messages is mine
    assert summaries(mine) == 1
    assert all(message["tracking_id"] for message in mine)
    assert check(mine, format=FORMAT) == []


def test_a_second_refusal_is_strands_own_error_and_says_what_would_fit() -> None:
    asked: list[Seen] = []

    def refusing(seen: Seen) -> ModelReply:
        asked.append(seen)
        raise TooLong(seen.tokens - 1, seen.tokens)

    agent = agent_with(manager(window=100_000), refusing)
    agent.messages += long_talk(12)
    with pytest.raises(ContextWindowOverflowException, match="tokens"):
        agent("And now?")
    assert len(asked) == 2
    assert asked[1].tokens < asked[0].tokens


def test_a_summary_after_an_overflow_is_written_in_the_agents_own_event_loop() -> None:
    loops: list[Any] = []

    async def writing(_: Any) -> str:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return "The pump house was discussed at length, and every turn was noted in its book."

    def refusing_once(seen: Seen) -> ModelReply:
        if not loops:
            raise TooLong(seen.tokens // 2, seen.tokens)
        return talking(seen)

    async def overflow() -> None:
        agent = agent_with(manager(window=100_000, model=writing), refusing_once)
        agent.messages += long_talk(12)
        await agent.invoke_async("And now?")
        assert summaries(agent.messages) == 1
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(overflow())


def test_what_can_not_fit_is_said_before_the_model_is_asked() -> None:
    asked: list[Seen] = []
    agent = agent_with(manager(), asked.append, system_prompt="rule " * 4_000)  # type: ignore[arg-type]
    with pytest.raises(ContextWindowOverflowException, match="system"):
        agent("Hello")
    assert not asked


def test_by_hand_it_compacts_when_it_is_time_and_when_it_is_told_to() -> None:
    compacting = manager(window=100_000, settings=Settings(keep=("messages", 2)))
    agent = agent_with(compacting)
    talk(agent, 6)
    whole = list(agent.messages)
    compacting.apply_management(agent)
    assert agent.messages == whole
    compacting.reduce_context(agent)
    assert summaries(agent.messages) == 1
    assert agent.messages[-1] is whole[-1]
    assert compacting.replay(agent) == whole
    assert compacting.removed_message_count == 12 - 2
    small = manager(window=3_000)
    other = agent_with(small, messages=list(whole) * 2)
    small.apply_management(other)
    assert summaries(other.messages) == 1
    assert other.messages[-1]["role"] == "assistant"  # and nothing is added behind it


def test_whatever_a_model_raised_it_is_about_the_window() -> None:
    compacting = manager()
    agent = agent_with(
        compacting, messages=[{"role": r, "content": [{"text": TALK}]} for r in ("user", "assistant") * 8]
    )
    compacting.reduce_context(agent, e=RuntimeError("the service said no"))
    assert len(agent.messages) < 16


def test_a_model_of_strands_writes_the_summaries() -> None:
    asked: list[Seen] = []

    def writing(seen: Seen) -> ModelReply:
        asked.append(seen)
        return ModelReply("The pump house was discussed at length, and every turn was noted in its book.")

    agent = agent_with(manager(model=AskingModel(writing)))
    talk(agent, 11)
    assert asked
    assert "discussed at length" in str(agent.messages[0])


@pytest.mark.parametrize("own", [True, False])
def test_what_the_summariser_uses_is_in_the_agents_metrics(own: bool) -> None:
    asked: list[int] = []

    def brain(seen: Seen) -> ModelReply:
        summary = not seen.views[-1].text.startswith("Turn ")
        asked.append(3_333 if summary else seen.tokens)
        return ModelReply(
            "The pump house was discussed, and every turn was noted." if summary else TALK, used=asked[-1]
        )

    agent = agent_with(manager(model=kit.AGENT_MODEL if own else AskingModel(brain)), brain)
    talk(agent, 11)
    assert 3_333 in asked
    assert agent.event_loop_metrics.accumulated_usage["inputTokens"] == sum(asked)


def test_cached_tokens_are_counted_once() -> None:
    cached = {"cacheReadInputTokens": 80, "cacheWriteInputTokens": 10}
    beside = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 105, **cached}
    inside = {"inputTokens": 100, "outputTokens": 5, "totalTokens": 105, **cached}
    assert read_usage(beside) == read_usage(inside) == Usage(100, 80, 10, 5)
    assert read_usage({"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}) is None


def test_a_summary_tells_of_the_agents_state_what_the_host_wants() -> None:
    compacting = manager(host_state=lambda agent: f"The plan is at step {agent.state.get('step')}.")
    agent = agent_with(compacting, state={"step": 7, "secret": "hunter2"})
    talk(agent, 11)
    assert "The plan is at step 7." in str(agent.messages)
    assert "hunter2" not in str(agent.messages)


def test_what_strands_has_pinned_stays() -> None:
    agent = agent_with(manager())
    talk(agent, 2)
    pinned = agent.messages[2]
    pin_message(agent.messages, 2)
    talk(agent, 10, 2)
    assert summaries(agent.messages) == 1
    assert any(message is pinned for message in agent.messages)


def test_a_compaction_is_a_span_in_the_agents_own_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer", lambda *_, **__: provider.get_tracer("test"))
    events: list[Any] = []
    agent = agent_with(manager(on_event=events.append))
    agent.tracer.tracer = provider.get_tracer("test")
    monkeypatch.setattr("strands.event_loop.event_loop.get_tracer", lambda: agent.tracer)
    talk(agent, 11)
    spans = {span.context.span_id: span for span in kept.get_finished_spans()}
    ours = [span for span in spans.values() if "compact" in span.name]
    assert ours
    assert events
    assert all(span.parent is not None and "cycle" in spans[span.parent.span_id].name for span in ours)


def test_a_conversation_is_kept_under_the_name_of_its_session(tmp_path: Path) -> None:
    with_session = manager()
    stored = {"session_manager": sessions("files", tmp_path)}
    assert with_session.thread_of(agent_with(with_session, **stored)) == "s1"
    critic = agent_with(with_session, session_manager=sessions("files", tmp_path), agent_id="critic")
    assert with_session.thread_of(critic) == "s1/critic"
    alone = manager()
    nameless = agent_with(alone)
    assert alone.thread_of(nameless) is None
    with kit.thread("t1"):
        assert alone.thread_of(nameless) == "t1"
    assert manager(thread="t2").thread_of(nameless) == "t2"


def test_it_is_made_and_used_in_an_event_loop(tmp_path: Path) -> None:
    async def run() -> int:
        agent = agent_with(manager(archive=f"sqlite:///{tmp_path / 'archive.db'}", thread="t"))
        for i in range(11):
            await agent.invoke_async(f"Turn {i} is about " + "something else " * 40)
        whole = await agent.conversation_manager.areplay(agent)  # type: ignore[attr-defined]
        assert summaries(agent.messages) == 1
        return len(whole)

    assert asyncio.run(run()) == 22


def test_a_wrong_argument_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="window_size"):
        CompactingConversationManager(window_size=40)
    with pytest.raises(ValueError, match="thread must be"):
        CompactingConversationManager(thread=True)
