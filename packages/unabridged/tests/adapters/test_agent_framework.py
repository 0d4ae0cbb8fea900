"""Agent Framework: what its own middleware, sessions and clients ask, besides the contract that every adapter keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from agent_framework import Agent, AgentSession, ChatContext, ChatMiddleware, Content, Message
from agent_framework.exceptions import ChatClientException
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

from own_model_case import TALK, WRITTEN, note, said
from patience import PATIENCE
from rows import rows
from unabridged import WontFit
from unabridged.adapters import kit
from unabridged.adapters.agent_framework import CompactionMiddleware
from unabridged.adapters.agent_framework.summariser import read_usage
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.marks import find_record_ids
from unabridged.tokens.calibrate import Usage
from unabridged_testing.loopback import Loopback, LoopbackReply

TURNS = 14


def talking(messages: Sequence[Any]) -> LoopbackReply:
    return LoopbackReply(WRITTEN if "You write the record of a long conversation" in str(messages[-1]) else TALK)


def middleware(**keywords: Any) -> CompactionMiddleware:
    return CompactionMiddleware(**{"window": 3_000, "archive": MemoryArchive(), "model": None, **keywords})


@asynccontextmanager
async def chat_client(
    window: int = 6_000, kind: Any = OpenAIChatCompletionClient, **keywords: Any
) -> AsyncIterator[tuple[Any, Loopback]]:
    """The framework's client of a provider on loopback."""
    with Loopback(talking, window=window) as provider:
        async with openai.AsyncOpenAI(base_url=provider.url, api_key="none", max_retries=0) as api:
            yield kind(model="gpt-5-mini", async_client=api, **keywords), provider


class Seen(ChatMiddleware):
    """Notes the messages of each request, as they pass."""

    def __init__(self) -> None:
        self.requests: list[list[Message]] = []

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        self.requests.append(list(context.messages))
        await call_next()


async def talk(agent: Any, session: AgentSession | None, turns: int = TURNS, *, streaming: bool = False) -> None:
    for i in range(turns):
        if streaming:
            stream = agent.run(said(i), session=session, stream=True)
            assert "".join([update.text async for update in stream]) == TALK
            assert (await stream.get_final_response()).text == TALK
        else:
            assert (await agent.run(said(i), session=session)).text == TALK


@rows("streaming", [False, True])
def test_messages_that_stay_are_the_very_objects_and_the_session_keeps_all(streaming: bool) -> None:
    async def run() -> None:
        before, after, session = Seen(), Seen(), AgentSession(session_id="t")
        compaction = middleware()
        async with chat_client() as (client, provider):
            agent = Agent(client, "Be brief.", tools=[note], middleware=[before, compaction, after])
            await talk(agent, session, streaming=streaming)
            assert len(provider.requests) == TURNS
            assert not provider.too_long
        pairs = list(zip(before.requests, after.requests, strict=True))
        assert any(len(sent) < len(whole) for whole, sent in pairs)
        for whole, sent in pairs:
            theirs = set(map(id, whole))
            assert all(find_record_ids(message.text) for message in sent if id(message) not in theirs)
        kept = session.state["in_memory"]["messages"]
        assert len(kept) == 2 * TURNS
        assert not any(find_record_ids(message.text) for message in kept)
        whole = await compaction.areplay([*after.requests[-1], kept[-1]], session)
        assert [message.to_dict() for message in whole] == [message.to_dict() for message in kept]

    asyncio.run(run())


def test_what_the_session_holds_is_enough_to_take_a_compaction_back() -> None:
    async def run() -> None:
        archive, session = MemoryArchive(), AgentSession(session_id="t")
        compaction = middleware(archive=archive)
        async with chat_client() as (client, _):
            await talk(Agent(client, tools=[note], middleware=[compaction]), session)
        scope = Scope("default", "t")
        records = len(archive.records(scope))
        earlier = await compaction.aundo(session.state["in_memory"]["messages"], session)
        assert len(archive.records(scope)) == records - 1
        assert all(isinstance(message, Message) for message in earlier)
        again = await compaction.aundo(session.state["in_memory"]["messages"], "another")
        assert len(again) == 2 * TURNS
        assert len(archive.records(scope)) == records - 1

    asyncio.run(run())


@rows("of_client", [False, True])
def test_a_clients_own_middleware_fits_no_request_for_a_summary(of_client: bool) -> None:
    async def run() -> None:
        compaction, seen = middleware(model=kit.AGENT_MODEL), Seen()
        given: dict[str, Any] = {"middleware": [compaction, seen]}
        async with chat_client(**given if of_client else {}) as (client, provider):
            agent = Agent(client, tools=[note], **({} if of_client else given))
            await talk(agent, AgentSession(session_id="t"))
            asks = [body for body in provider.requests if not body.get("tools")]
            assert asks
            assert WRITTEN in str(provider.requests[-1])
            assert len(provider.requests) == TURNS + len(asks)
            assert len(seen.requests) == TURNS + of_client * len(asks)

    asyncio.run(run())


def test_another_client_writes_the_summaries_and_the_agents_is_not_asked() -> None:
    async def run() -> None:
        async with chat_client() as (client, provider), chat_client() as (writer, other):
            agent = Agent(client, tools=[note], middleware=[middleware(model=writer)])
            await talk(agent, AgentSession(session_id="t"))
            assert len(provider.requests) == TURNS
            assert WRITTEN in str(provider.requests[-1])
            assert other.requests
            assert all(body["max_completion_tokens"] for body in other.requests)

    asyncio.run(run())


def test_a_conversation_that_the_provider_keeps_is_left_alone_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(store: bool) -> list[Any]:
        options: Any = None if store else {"store": False}
        async with chat_client(window=60_000, kind=OpenAIChatClient) as (client, provider):
            agent: Any = Agent(client, default_options=options, middleware=[middleware()])
            await talk(agent, AgentSession(session_id="t"))
            return provider.requests

    kept = asyncio.run(run(store=True))
    assert all(body["previous_response_id"] for body in kept[1:])
    assert caplog.text.count("not compacted: ") == 1
    assert "'store': False" in caplog.text
    caplog.clear()
    whole = asyncio.run(run(store=False))
    assert len(whole) == TURNS
    assert "unabridged summary" in str(whole[-1]["input"])
    assert "not compacted: " not in caplog.text


def test_without_a_session_the_conversation_has_the_name_of_the_context_or_none() -> None:
    async def run(archive: MemoryArchive) -> None:
        messages = [
            Message(role, [text]) for i in range(TURNS) for role, text in (("user", said(i)), ("assistant", TALK))
        ]
        async with chat_client() as (client, provider):
            agent: Any = Agent(client, middleware=[middleware(archive=archive)])
            await agent.run([*messages, Message("user", ["And now?"])])
            assert "unabridged summary" in str(provider.requests[-1])

    named, nameless = MemoryArchive(), MemoryArchive()
    with kit.thread("mine"):
        asyncio.run(run(named))
    assert set(named.threads("default")) == {"mine"}
    asyncio.run(run(nameless))
    assert len(nameless.threads("default")) == 1


@rows("streaming", [False, True])
def test_a_second_refusal_is_the_callers_and_says_what_would_fit(streaming: bool) -> None:
    async def run() -> None:
        async with chat_client(window=100) as (client, provider):
            agent: Any = Agent(client, middleware=[middleware(window=100_000)])
            with pytest.raises((WontFit, ChatClientException)):
                await talk(agent, AgentSession(session_id="t"), streaming=streaming)
            assert len(provider.too_long) <= 2

    asyncio.run(run())


def test_a_stream_that_is_left_early_ends_the_response() -> None:
    async def run() -> None:
        async with chat_client() as (client, provider):
            agent: Any = Agent(client, middleware=[middleware()])
            async with agent.run(said(0), session=AgentSession(session_id="t"), stream=True) as stream:
                async for update in stream:
                    if update.text:
                        break
            assert update.text
            assert len(provider.requests) == 1

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_summary_shows_of_the_sessions_state_what_the_host_wants() -> None:
    async def run() -> str:
        session = AgentSession(session_id="t")
        session.state |= {"step": 7, "secret": "hunter2"}
        compaction = middleware(host_state=lambda state: f"The plan is at step {state['step']}.")
        async with chat_client() as (client, provider):
            await talk(Agent(client, tools=[note], middleware=[compaction]), session)
            return str(provider.requests[-1])

    last = asyncio.run(run())
    assert "The plan is at step 7." in last
    assert "hunter2" not in last


@rows(
    ("details", "used"),
    [
        ({"input_token_count": 100, "output_token_count": 5, "total_token_count": 105}, Usage(100, 0, 0, 5)),
        (  # OpenAI's: cached tokens are in the input
            {"input_token_count": 100, "output_token_count": 5, "total_token_count": 105,
             "cache_read_input_token_count": 80},
            Usage(100, 80, 0, 5),
        ),
        (  # Anthropic's: beside it, and no total
            {"input_token_count": 10, "output_token_count": 5, "cache_read_input_token_count": 80,
             "cache_creation_input_token_count": 10},
            Usage(100, 80, 10, 5),
        ),
        (  # Bedrock's: beside it, and in the total
            {"input_token_count": 10, "output_token_count": 5, "total_token_count": 95,
             "cache_read_input_token_count": 80},
            Usage(90, 80, 0, 5),
        ),
        (  # Gemini's: what the model thought is in the total
            {"input_token_count": 100, "output_token_count": 5, "total_token_count": 125,
             "cache_read_input_token_count": 80},
            Usage(100, 80, 0, 5),
        ),
        ({"output_token_count": 5}, None),
        (None, None),
    ],
)  # fmt: skip
def test_cached_tokens_are_counted_once(details: Any, used: Usage | None) -> None:
    assert read_usage(Content("usage", usage_details=details)) == used


def test_a_wrong_argument_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="max_messages"):
        CompactionMiddleware(max_messages=40)
    with pytest.raises(ValueError, match="archive"):
        CompactionMiddleware(archive="nothing://here")
