"""`unabridged.wrap` on clients of the Google Gen AI SDK: contents of every shape, and the functions that it calls."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

import sdk_loops
import unabridged
from sdk_loops import TASK, Contents, working
from unabridged import WontFit
from unabridged.adapters.sdk import history_of
from unabridged_testing.loopback import Loopback, LoopbackReply

WINDOW = 6_000
KEYWORDS: dict[str, Any] = {"archive": "memory:", "window": WINDOW, "thread": "t"}
FILLER = "The readings of this hour were steady, and nobody came to look at them. " * 12
MODEL = "gemini-2.5-flash"


@pytest.fixture
def provider() -> Iterator[Loopback]:
    with Loopback(lambda _: LoopbackReply("Noted."), window=WINDOW) as served:
        yield served


def client_of(provider: Loopback) -> genai.Client:
    return genai.Client(api_key="none", http_options=types.HttpOptions(base_url=provider.url))


def long() -> list[Any]:
    said = [types.Content(role=("user", "model")[i % 2], parts=[types.Part(text=f"{i}. {FILLER}")]) for i in range(40)]
    return [*said, types.Content(role="user", parts=[types.Part(text="What was said first?")])]


def test_the_given_client_is_untouched_and_stays_open_when_the_other_is_forgotten(provider: Loopback) -> None:
    with client_of(provider) as given:
        before = {name: id(value) for name, value in vars(given).items()}
        wrapped = unabridged.wrap(given, **KEYWORDS)
        assert isinstance(wrapped, genai.Client)
        assert type(wrapped).__name__ == "Client"
        assert wrapped.models.generate_content(model=MODEL, contents=long()).text == "Noted."
        assert {name: id(value) for name, value in vars(given).items()} == before
        del wrapped
        gc.collect()
        assert given.models.generate_content(model=MODEL, contents="Hello").text == "Noted."
        with pytest.raises(errors.ClientError):
            given.models.generate_content(model=MODEL, contents=long())


def test_a_client_that_nobody_else_holds_stays_open(provider: Loopback) -> None:
    wrapped = unabridged.wrap(client_of(provider), **KEYWORDS)
    gc.collect()
    said: list[Any] = ["Hello", "and good day"]
    assert wrapped.models.generate_content(model=MODEL, contents=said).text == "Noted."
    wrapped.close()


def test_functions_that_the_sdk_calls_by_itself_are_fitted_round_by_round() -> None:
    def work(number: int) -> str:
        """Work on a number."""
        return sdk_loops.work(number)

    config = types.GenerateContentConfig(
        tools=[work], automatic_function_calling=types.AutomaticFunctionCallingConfig(maximum_remote_calls=60)
    )
    with Loopback(working(40), window=WINDOW) as provider:
        with unabridged.wrap(client_of(provider), **KEYWORDS) as client:
            answer = client.models.generate_content(model=MODEL, contents=TASK, config=config)
        assert answer.text == "All done."
        assert (provider.too_long, provider.refused) == ([], [])
        assert len(provider.requests) == 41, "no function was called twice"
        replayed = history_of(client).last()
        assert replayed is not None


def test_chats_and_streams_are_fitted_in_an_event_loop_too(provider: Loopback) -> None:
    provider.script = lambda _: LoopbackReply(FILLER)

    async def talk() -> None:
        async with unabridged.wrap(client_of(provider).aio, **KEYWORDS) as client:
            chat = client.chats.create(model=MODEL)
            for i in range(20):
                pieces = [piece async for piece in await chat.send_message_stream(f"{i}. {FILLER}")]
                assert len(pieces) == 2

    asyncio.run(talk())
    with unabridged.wrap(client_of(provider), **KEYWORDS) as client:
        chat = client.chats.create(model=MODEL)
        for i in range(20):
            chat.send_message(f"{i}. {FILLER}")
    assert provider.too_long == []
    assert len(provider.requests) == 40


def test_a_stream_that_was_refused_is_remembered_as_it_was_sent_the_second_time(provider: Loopback) -> None:
    contents: Any = [{"role": ("user", "model")[i % 2], "parts": [{"text": f"{i}. {FILLER}"}]} for i in range(41)]
    client = unabridged.wrap(client_of(provider), thread="t", archive="memory:", window=100_000)
    assert list(client.models.generate_content_stream(model=MODEL, contents=contents))
    assert len(provider.too_long) == len(provider.requests) == 1
    sent = history_of(client).last()
    assert sent is not None
    assert len(sent.messages) == len(provider.requests[0]["contents"]) < 41
    assert history_of(client).replay() == contents
    client.close()


def test_replay_gives_back_the_very_contents() -> None:
    with Loopback(working(40, thinks=True), window=WINDOW) as provider:
        client = unabridged.wrap(client_of(provider), **KEYWORDS)
        conversation = sdk_loops.run(Contents(), client)
    history = history_of(client)
    sent = history.last()
    assert sent is not None
    assert len(sent.messages) < len(conversation)
    assert history.replay() == conversation[:-1]
    assert history.search("Number 3")
    client.close()


def test_the_system_instruction_in_any_shape_and_tools_count(provider: Loopback) -> None:
    provider.window = 10**9
    with unabridged.wrap(client_of(provider), **KEYWORDS) as client:

        def tokens(**config: Any) -> int:
            asked: Any = {"model": f"models/{MODEL}", "contents": "Hello", "config": config}
            client.models.generate_content(**asked)
            sent = history_of(client).last()
            assert sent is not None
            return sent.tokens_before

        bare = tokens()
        part = types.Part(text=FILLER)
        for instruction in (FILLER, [FILLER], part, types.Content(parts=[part]), {"parts": [{"text": FILLER}]}):
            assert tokens(system_instruction=instruction) > bare + 150, instruction
        tool = {"function_declarations": [{"name": "work", "description": FILLER}]}
        assert tokens(tools=[tool]) > bare + 150
        assert tokens(tools=[types.Tool.model_validate(tool)]) > bare + 150
        schema = {"type": "object", "description": FILLER}
        assert tokens(response_mime_type="application/json", response_json_schema=schema) > bare + 150


def test_a_request_that_nothing_can_shorten_ends_in_the_providers_own_error(provider: Loopback) -> None:
    provider.window = 100
    asked: Any = {"model": MODEL, "contents": "Hello", "config": {"system_instruction": FILLER}}
    told = "exceeds the maximum number of tokens"
    with unabridged.wrap(client_of(provider), archive="memory:", window=100_000) as client:
        with pytest.raises(errors.ClientError, match=told):
            client.models.generate_content(**asked)
        with pytest.raises(WontFit):  # the limit is known by now
            list(client.models.generate_content_stream(**asked))
    other = unabridged.wrap(client_of(provider), archive="memory:", window=100_000)
    with other as client, pytest.raises(errors.ClientError, match=told):
        list(client.models.generate_content_stream(**asked))


def test_contents_that_the_provider_keeps_are_left_alone(provider: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "unabridged")
    provider.window = 10**9
    with unabridged.wrap(client_of(provider), **KEYWORDS) as client:
        for _ in range(2):
            config = types.GenerateContentConfig(cached_content="cachedContents/1")
            client.models.generate_content(model=MODEL, contents=long(), config=config)
    assert [len(request["contents"]) for request in provider.requests] == [41, 41]
    assert caplog.text.count("cached_content") == 1
