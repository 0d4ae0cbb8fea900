"""LlamaIndex: what its memories, workflows and clients ask, besides the contract that every adapter keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.genai.types import HttpOptions
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow
from llama_index.core.agent.workflow.agent_context import SimpleAgentContext
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.llms.google_genai import GoogleGenAI

from own_model_case import TALK, WRITTEN, note, said
from rows import rows
from unabridged.adapters import kit
from unabridged.adapters.llama_index import AgentCompaction, CompactingFunctionAgent
from unabridged.adapters.llama_index.agent import _ask_llm
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.asking.ask import Ask
from unabridged.asking.replies import read_reply
from unabridged.marks import find_record_ids
from unabridged_testing.loopback import Loopback, LoopbackReply

TURNS = 14
UNCUT = 10**9


def talking(messages: Sequence[Any]) -> LoopbackReply:
    return LoopbackReply(WRITTEN if "You write the record of a long conversation" in str(messages[-1]) else TALK)


def shared(**keywords: Any) -> AgentCompaction:
    return AgentCompaction(**{"window": 3_000, "archive": MemoryArchive(), "model": None, **keywords})


def memory_of(key: str = "t", limit: int = UNCUT) -> ChatMemoryBuffer:
    return ChatMemoryBuffer.from_defaults(token_limit=limit, chat_store_key=key)


@asynccontextmanager
async def client(
    script: Any = talking, window: int = 6_000, known_window: int = 10**6
) -> AsyncIterator[tuple[GoogleGenAI, Loopback]]:
    """The framework's client of Google's, and the provider on loopback behind it."""
    with Loopback(script, window=window) as provider:
        options = HttpOptions(base_url=provider.url)
        llm = GoogleGenAI(
            "gemini-2.5-flash", "none", max_tokens=500, context_window=known_window, max_retries=1, http_options=options
        )
        yield llm, provider
        await llm._client.aio.aclose()  # noqa: SLF001 - it has no way to close it


async def talk(agent: Any, turns: int = TURNS, **more: Any) -> None:
    for i in range(turns):
        handler = agent.run(said(i), **more)
        pieces = [event.delta async for event in handler.stream_events() if isinstance(event, AgentStream)]
        assert str((await handler).response.content) == TALK
        assert "".join(pieces) == TALK * agent.streaming


@rows("streaming", [False, True])
def test_requests_fit_and_the_memory_keeps_every_message_as_it_was(streaming: bool) -> None:
    async def run() -> None:
        compaction, memory = shared(), memory_of()
        async with client() as (llm, provider):
            agent = CompactingFunctionAgent(
                tools=[note], llm=llm, system_prompt="Be brief.", streaming=streaming, compaction=compaction
            )
            await talk(agent, memory=memory)
            assert len(provider.requests) == TURNS
            assert not provider.too_long
            assert find_record_ids(str(provider.requests[-1]["contents"]))
        kept = memory.get_all()
        assert len(kept) == 2 * TURNS
        assert [message.content for message in kept[::2]] == [said(i) for i in range(TURNS)]
        assert {len(message.blocks) for message in kept} == {1}  # though the client joins turns by changing the first

    asyncio.run(run())


def test_a_run_without_a_memory_gets_one_that_cuts_nothing_off() -> None:
    history = [
        ChatMessage(text, role=role) for i in range(TURNS) for role, text in (("user", said(i)), ("assistant", TALK))
    ]

    async def run() -> None:
        async with client(known_window=1_000) as (llm, provider):  # of which the framework's own memory fills 0.75
            agent = CompactingFunctionAgent(tools=[note], llm=llm, streaming=False, compaction=shared())
            await agent.run("And now?", chat_history=history)
            (request,) = provider.requests
            assert find_record_ids(str(request["contents"]))
            await agent.run("And now?", history, memory_of(limit=1_000))
            assert not find_record_ids(str(provider.requests[-1]["contents"]))

    asyncio.run(run())


def test_what_the_memory_holds_is_enough_to_take_a_compaction_back() -> None:
    async def run() -> None:
        archive, memory = MemoryArchive(), memory_of()
        compaction = shared(archive=archive)
        async with client() as (llm, _):
            agent = CompactingFunctionAgent(
                tools=[note], llm=llm, system_prompt="Be brief.", streaming=False, compaction=compaction
            )
            await talk(agent, memory=memory)
        records = len(archive.records(Scope("default", "t")))
        earlier = await compaction.aundo(memory.get_all(), "t")
        assert len(archive.records(Scope("default", "t"))) == records - 1
        assert await compaction.areplay(earlier, "t") == memory.get_all()
        assert compaction.undo(memory.get_all(), "another") == memory.get_all()

    asyncio.run(run())


def test_a_conversation_has_the_name_of_its_memory_or_of_the_context() -> None:
    compaction = shared()
    assert compaction.thread_of(memory_of("a key")) == "a key"
    assert compaction.thread_of(Memory.from_defaults(session_id="a session")) == "a session"
    assert compaction.thread_of(ChatMemoryBuffer.from_defaults()) is None  # its key is that of every other one
    assert compaction.thread_of(None) is None
    with kit.thread("mine"):
        assert compaction.thread_of(memory_of("a key")) == "mine"

    async def run() -> set[str]:
        archive = MemoryArchive()
        async with client() as (llm, _):
            agent = CompactingFunctionAgent(tools=[note], llm=llm, streaming=False, compaction=shared(archive=archive))
            with kit.thread("mine"):
                await talk(agent, memory=memory_of("a key"))
        return set(archive.threads("default"))

    assert asyncio.run(run()) == {"mine"}


def test_agents_of_one_workflow_share_a_compaction() -> None:
    def working(messages: Sequence[Any]) -> LoopbackReply:
        last = str(messages[-1])
        if "Turn 9" in last:
            return LoopbackReply("", [("handoff", {"to_agent": "writer", "reason": "it is time"})])
        return LoopbackReply("The writer is here." if "handoff" in last or "writer is now" in last else TALK)

    async def run() -> None:
        archive, memory = MemoryArchive(), memory_of()
        async with client(working) as (llm, provider):
            named: dict[str, Any] = {"llm": llm, "streaming": False, "compaction": shared(archive=archive)}
            reader = CompactingFunctionAgent("reader", "Reads.", tools=[note], can_handoff_to=["writer"], **named)
            writer = CompactingFunctionAgent("writer", "Writes.", system_prompt="You write.", **named)
            flow = AgentWorkflow(agents=[reader, writer], root_agent="reader")
            for i in range(10):
                answer: Any = await flow.run(said(i), memory=memory)
            assert str(answer.response.content) == "The writer is here."
            assert not provider.too_long
            assert "You write." in str(provider.requests[-1]["systemInstruction"])
        assert archive.records(Scope("default", "t"))

    asyncio.run(run())


def test_a_step_that_fails_leaves_what_was_said_since_as_it_was() -> None:
    async def run() -> None:
        context, before = SimpleAgentContext(), [ChatMessage("And?")]
        await context.store.set("scratchpad", before)
        async with client(window=10) as (llm, provider):
            agent = CompactingFunctionAgent(tools=[note], llm=llm, streaming=False, compaction=shared())
            with pytest.raises(Exception, match=r"tokens|window"):
                await agent.take_step(context, [ChatMessage("Hello")], await agent.get_tools(), memory_of())
            assert len(provider.too_long) <= 2
        assert await context.store.get("scratchpad") == before

    asyncio.run(run())


def test_a_summary_shows_of_the_workflows_state_what_the_host_wants() -> None:
    async def run() -> str:
        compaction = shared(host_state=lambda state: f"The plan is at step {state['step']}.")
        async with client() as (llm, provider):
            agent = CompactingFunctionAgent(
                tools=[note], llm=llm, streaming=False, compaction=compaction, initial_state={"step": 7}
            )
            await talk(agent, memory=memory_of())
            return str(provider.requests[-1])

    assert "The plan is at step 7." in asyncio.run(run())


def test_another_model_of_the_frameworks_writes_the_summaries() -> None:
    async def run() -> None:
        async with client() as (llm, provider), client() as (writer, other):
            agent = CompactingFunctionAgent(tools=[note], llm=llm, streaming=False, compaction=shared(model=writer))
            await talk(agent, memory=memory_of())
            assert len(provider.requests) == TURNS
            assert WRITTEN in str(provider.requests[-1])
            assert other.requests
            reply = read_reply(await _ask_llm(writer, Ask(system="Be exact.", instruction="Say something.")), "writer")
            assert (reply.text, reply.stop, reply.model) == (TALK, "end", "gemini-2.5-flash")
            assert reply.usage is not None
            assert reply.usage.input > 0

    asyncio.run(run())


def test_a_wrong_argument_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="token_limit"):
        AgentCompaction(token_limit=40)
    with pytest.raises(ValueError, match="compaction"):
        CompactingFunctionAgent(llm=MockLLM())
