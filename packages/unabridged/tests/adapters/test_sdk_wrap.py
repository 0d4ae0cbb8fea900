"""What `unabridged.wrap` gives back: the same type, the given client untouched, every way to send a conversation."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest

import sdk_loops
import unabridged
from sdk_loops import OPTIONS, Chat, Messages, client_of, working
from unabridged import ArchiveError, Settings, SettingsError, WontFit
from unabridged.adapters.sdk import history_of
from unabridged.formats.rules import CONTINUE_TEXT
from unabridged_testing.loopback import Loopback, LoopbackReply

WINDOW = 6_000
FILLER = "The readings of this hour were steady, and nobody came to look at them. " * 12
KEYWORDS: dict[str, Any] = {"archive": "memory:", "window": WINDOW}
CLIENTS = {name: Messages() if "Anthropic" in name else Chat() for name in OPTIONS}
"""The loop over each."""
OPEN: list[Any] = []


@pytest.fixture
def provider() -> Iterator[Loopback]:
    with Loopback(lambda _: LoopbackReply("Noted."), window=WINDOW) as served:
        yield served


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def make(name: str, provider: Loopback, *, asynchronous: bool = False) -> Any:
    client = client_of(name, provider.url, asynchronous=asynchronous)
    if not asynchronous:
        OPEN.append(client)
    return client


def long(turns: int = 40) -> list[Any]:
    """A conversation that is too long for the window."""
    said = [{"role": ("user", "assistant")[i % 2], "content": f"Turn {i}. {FILLER}"} for i in range(turns)]
    return [*said, {"role": "user", "content": "What was said first?"}]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_comes_back_as_its_own_type_and_the_given_one_is_untouched(
    name: str, asynchronous: bool, provider: Loopback
) -> None:
    given, api = make(name, provider, asynchronous=asynchronous), CLIENTS[name]
    before = {key: id(value) for key, value in vars(given).items()}
    wrapped = unabridged.wrap(given, thread="t", **KEYWORDS)
    assert type(wrapped) is type(given)
    assert {key: id(value) for key, value in vars(given).items()} == before
    assert vars(wrapped)["_client"] is vars(given)["_client"], "one HTTP client for both"

    asked = {**api.asked(long()), "tools": []}

    async def ask() -> None:
        async with wrapped as client:
            await api.plain(client, asked)

    if asynchronous:
        asyncio.run(ask())
    else:
        api.plain(wrapped, asked)
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
            api.plain(given, asked)
    assert len(provider.requests) == 1
    assert len(provider.too_long) == (0 if asynchronous else 1)


class Answer(pydantic.BaseModel):
    first: str


def chat_parse(client: openai.OpenAI, messages: list[Any]) -> str:
    done = client.chat.completions.parse(model="gpt-5", messages=messages, response_format=Answer)
    return str(done.choices[0].message.parsed)


def chat_chunks(client: openai.OpenAI, messages: list[Any]) -> str:
    with client.chat.completions.create(model="gpt-5", messages=messages, stream=True) as chunks:
        assert isinstance(chunks, openai.Stream)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def chat_raw(client: openai.OpenAI, messages: list[Any]) -> str:
    raw = client.chat.completions.with_raw_response.create(model="gpt-5", messages=messages)
    assert raw.headers["content-type"] == "application/json"
    return str(raw.parse().choices[0].message.content)


def chat_streamed_raw(client: openai.OpenAI, messages: list[Any]) -> str:
    with client.chat.completions.with_streaming_response.create(model="gpt-5", messages=messages) as raw:
        return str(raw.parse().choices[0].message.content)


def chat_options(client: openai.OpenAI, messages: list[Any]) -> str:
    other = client.with_options(timeout=9).copy(max_retries=1)
    assert history_of(other) is history_of(client)
    return str(other.chat.completions.create(model="gpt-5", messages=messages).choices[0].message.content)


def chat_once(client: openai.OpenAI, messages: list[Any]) -> str:
    read_once: Any = (message for message in messages)
    return str(client.chat.completions.create(model="gpt-5", messages=read_once).choices[0].message.content)


def chat_beta(client: openai.OpenAI, messages: list[Any]) -> str:
    return str(client.beta.chat.completions.create(model="gpt-5", messages=messages).choices[0].message.content)


def responses_parse(client: openai.OpenAI, messages: list[Any]) -> str:
    return str(client.responses.parse(model="gpt-5", input=messages, text_format=Answer).output_parsed)


def responses_events(client: openai.OpenAI, messages: list[Any]) -> str:
    events = client.responses.create(model="gpt-5", input=messages, stream=True)
    return next(event.response.output_text for event in events if event.type == "response.completed")


def responses_beta(client: openai.OpenAI, messages: list[Any]) -> str:
    made: Any = client.beta.responses.create(model="gpt-5", input=messages)
    return str(made.output[0].content[0].text)


WAYS = [
    chat_parse, chat_chunks, chat_raw, chat_streamed_raw, chat_options, chat_once, chat_beta, responses_parse,
    responses_events, responses_beta,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_send_a_conversation_is_fitted(way: Callable[[Any, Any], str], provider: Loopback) -> None:
    provider.script = lambda _: LoopbackReply('{"first": "Turn 0."}')
    client = unabridged.wrap(make("OpenAI", provider), thread="t", **KEYWORDS)
    assert "Turn 0." in way(client, long())
    assert provider.too_long == []
    assert len(provider.requests) == 1
    assert client.unabridged.last().changed


def test_messages_parse_stream_raw_and_a_tool_runner_are_fitted(provider: Loopback) -> None:
    provider.script = lambda _: LoopbackReply('{"first": "Turn 0."}')
    client = unabridged.wrap(make("Anthropic", provider), thread="t", **KEYWORDS)
    asked: Any = {"model": "claude-opus-5-5", "max_tokens": 500, "messages": long()}
    assert client.messages.parse(**asked, output_format=Answer).parsed_output.first == "Turn 0."
    assert client.messages.with_raw_response.create(**asked).parse().content[0].text
    with client.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream).endswith("}")
    assert client.beta.messages.tool_runner(**asked, tools=[], thread=False).until_done().content[0].text
    assert provider.too_long == []
    assert len(provider.requests) == 4


def test_below_the_trigger_the_request_is_the_one_that_was_made(provider: Loopback) -> None:
    client = unabridged.wrap(make("OpenAI", provider), **KEYWORDS)
    client.responses.create(model="gpt-5", input="Hello")
    given = [{"role": "user", "content": "Hello"}]
    client.chat.completions.create(model="gpt-5", messages=given)
    assert provider.requests == [{"model": "gpt-5", "input": "Hello"}, {"model": "gpt-5", "messages": given}]
    assert client.unabridged.last().messages is given


def test_the_thread_is_that_of_the_context_else_of_the_client_else_none(provider: Loopback) -> None:
    client = unabridged.wrap(make("OpenAI", provider), thread="mine", **KEYWORDS)
    ask = client.chat.completions.create
    ask(model="gpt-5", messages=long())
    with unabridged.thread("other"):
        ask(model="gpt-5", messages=long())
        assert client.unabridged.search("Turn 3")
    assert history_of(client).compactor().threads() == ["mine", "other"]
    nameless = unabridged.wrap(make("OpenAI", provider), **KEYWORDS)
    nameless.chat.completions.create(model="gpt-5", messages=long())
    assert history_of(nameless).replay() == long()
    with pytest.raises(SettingsError, match="name the conversation"):
        history_of(nameless).search("Turn 3")
    with pytest.raises(SettingsError, match="thread must be"):
        unabridged.wrap(client, thread="")


def test_conversations_at_the_same_time_keep_apart(provider: Loopback) -> None:
    given = make("OpenAI", provider, asynchronous=True)
    client = unabridged.wrap(given, **KEYWORDS)

    async def talk(name: str) -> None:
        with unabridged.thread(name):
            messages = [{**message, "content": f"{name}: {message['content']}"} for message in long()]
            await client.chat.completions.create(model="gpt-5", messages=messages)

    async def both() -> None:
        await asyncio.gather(talk("one"), talk("two"))
        await given.close()

    asyncio.run(both())
    for name, other in (("one", "two"), ("two", "one")):
        with unabridged.thread(name):
            said = json.dumps(client.unabridged.replay())
            assert f"{name}: Turn 0" in said
            assert f"{other}: " not in said


def test_a_thread_that_the_provider_keeps_is_left_alone(provider: Loopback) -> None:
    provider.window = 10**9
    client = unabridged.wrap(make("Anthropic", provider), thread="t", **KEYWORDS)
    client.beta.messages.thread(model="claude-opus-5-5", max_tokens=9, messages=long()).send()
    assert len(provider.requests[0]["messages"]) == 41


@pytest.mark.parametrize("kept", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_a_conversation_that_the_provider_keeps_is_left_alone_and_that_is_said_once(
    kept: dict[str, Any], provider: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "unabridged")
    provider.window = 10**9
    client = unabridged.wrap(make("OpenAI", provider), **KEYWORDS)
    for _ in range(2):
        client.responses.create(model="gpt-5", input=long(), **kept)
    assert [len(request["input"]) for request in provider.requests] == [41, 41]
    assert caplog.text.count("the provider keeps that conversation") == 1


def test_replay_gives_back_the_very_conversation_with_the_objects_of_the_sdk() -> None:
    with Loopback(working(40), window=WINDOW) as provider:
        client = unabridged.wrap(make("OpenAI", provider), thread="t", **KEYWORDS)
        conversation = sdk_loops.run(Chat(), client)
    assert len(client.unabridged.last().messages) < 40
    assert client.unabridged.replay() == conversation[:-1]
    assert type(client.unabridged.replay()[2]) is type(conversation[2])
    hit = client.unabridged.search("Number 3")[0]
    assert "Number 3" in str(client.unabridged.read(hit.ref))
    before = client.unabridged.undo()
    assert len(before) > len(client.unabridged.last().messages)


def test_the_model_that_a_request_names_gives_the_window(provider: Loopback) -> None:
    provider.window = 10**9
    client = unabridged.wrap(make("OpenAI", provider), thread="t", archive="memory:")
    for model in ("gpt-4", "gpt-5"):
        client.chat.completions.create(model=model, messages=long(60))
    assert len(provider.requests[0]["messages"]) < 61, "8,192 tokens"
    assert len(provider.requests[1]["messages"]) == 61


def test_system_prompt_tools_and_schemas_count(provider: Loopback) -> None:
    provider.window = 10**9
    client = unabridged.wrap(make("OpenAI", provider), thread="t", **KEYWORDS)
    tool: Any = {"type": "function", "name": "work", "description": FILLER, "parameters": {}}

    def tokens(**more: Any) -> int:
        client.responses.create(model="gpt-5", input="Hello", **more)
        return int(client.unabridged.last().tokens_before)

    bare = tokens()
    assert tokens(instructions=FILLER) > bare + 150
    assert tokens(tools=[tool]) > bare + 150
    assert tokens(text={"format": {"type": "json_schema", "name": "a", "schema": {"title": FILLER}}}) > bare + 150

    def chat_tokens(**more: Any) -> int:
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Hello"}], **more)
        return int(client.unabridged.last().tokens_before)

    bare = chat_tokens()
    assert chat_tokens(functions=[{"name": "work", "description": FILLER}]) > bare + 150
    shaped = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"title": FILLER}}}
    assert chat_tokens(response_format=shaped) > bare + 150


def test_an_agent_that_can_recall_is_told_what_it_can_read(provider: Loopback) -> None:
    client = unabridged.wrap(make("OpenAI", provider), thread="t", **KEYWORDS)
    without: list[Any] = []
    for tools in (without, client.unabridged.recall().schemas("openai-chat")):
        client.chat.completions.create(model="gpt-5", messages=long(), tools=tools)
    assert ["read_history" in json.dumps(sent["messages"]) for sent in provider.requests] == [False, True]


def messages_plain(client: Any, asked: dict[str, Any]) -> None:
    client.messages.create(**asked)


def messages_stream(client: Any, asked: dict[str, Any]) -> None:
    with client.messages.stream(**asked) as stream:
        stream.until_done()


def messages_raw(client: Any, asked: dict[str, Any]) -> None:
    client.messages.with_raw_response.create(**asked)


@pytest.mark.parametrize("ask", [messages_plain, messages_stream, messages_raw])
def test_what_the_provider_counts_is_learned(ask: Callable[[Any, Any], None], provider: Loopback) -> None:
    provider.window = 10**9
    client = unabridged.wrap(make("Anthropic", provider), thread="t", archive="memory:")
    asked = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "0 " * 4000}]}
    counted = []
    for _ in range(4):
        ask(client, asked)
        counted.append(client.unabridged.last().tokens_before)
    assert counted[-1] < counted[0]


def test_a_request_that_nothing_can_shorten_ends_in_the_providers_own_error(provider: Loopback) -> None:
    provider.window = 100
    keywords: dict[str, Any] = {"archive": "memory:", "window": 100_000}
    system = f"Read this. {FILLER}"
    client = unabridged.wrap(make("OpenAI", provider), **keywords)
    with pytest.raises(openai.BadRequestError, match="maximum context length is 100 tokens") as told:
        client.chat.completions.create(
            model="gpt-5", messages=[{"role": "system", "content": system}, {"role": "user", "content": "Hello"}]
        )
    assert "unabridged" in str(getattr(told.value, "__notes__", ""))
    claude = unabridged.wrap(make("Anthropic", provider), **keywords)
    asked: Any = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        claude.messages.create(**asked, system=system)
    events = [
        event.type for event in client.responses.create(model="gpt-5", input="Hi", instructions=system, stream=True)
    ]
    assert events == ["response.created", "response.failed"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_refusal_in_an_open_stream_that_nothing_can_mend_is_the_providers_own_error(
    asynchronous: bool, provider: Loopback
) -> None:
    provider.window = 10
    client = unabridged.wrap(make("AnthropicBedrock", provider, asynchronous=asynchronous), archive="memory:")
    asked: Any = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": FILLER[:120]}]}

    async def ask() -> None:
        async with client, await client.messages.create(**asked, stream=True) as events:
            [event async for event in events]

    with pytest.raises(anthropic.APIStatusError, match="too long for requested model") as told:
        asyncio.run(ask()) if asynchronous else list(client.messages.create(**asked, stream=True))
    assert "unabridged" in str(getattr(told.value, "__notes__", ""))


def test_a_request_that_can_not_fit_is_told_before_it_is_sent(provider: Loopback) -> None:
    client = unabridged.wrap(make("OpenAI", provider), **KEYWORDS)
    with pytest.raises(WontFit):
        client.responses.create(model="gpt-5", input="Hello", instructions=FILLER * 60)
    assert provider.requests == []


def test_other_errors_and_other_requests_pass_through(provider: Loopback) -> None:
    client = unabridged.wrap(make("OpenAI", provider), **KEYWORDS)
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="m", input="Hello")
    unpaired: Any = [{"role": "user", "content": "Hello"}, {"role": "tool", "tool_call_id": "x", "content": "?"}]
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="gpt-5", messages=unpaired)
    assert len(provider.refused) == 1


def test_off_means_that_nothing_is_changed_and_an_overflow_is_the_callers(provider: Loopback) -> None:
    client = unabridged.wrap(make("OpenAI", provider), **KEYWORDS, settings=Settings(off=True))
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="gpt-5", messages=long())
    assert len(provider.too_long) == 1
    assert provider.requests == []


@pytest.mark.parametrize(
    ("model", "begun", "sent"),
    [
        ("claude-opus-4-5", "It was", ["It was"]),
        ("claude-opus-4-5", "It was ", ["It was"]),
        ("claude-opus-5-5", "It was ", ["It was", CONTINUE_TEXT]),
    ],
    ids=["taken", "with-a-space", "by-no-model-of-today"],
)
def test_an_answer_that_the_caller_began_is_sent_as_the_model_takes_it(
    model: str, begun: str, sent: list[str], provider: Loopback
) -> None:
    client = unabridged.wrap(make("Anthropic", provider), thread="t", **KEYWORDS)
    messages = [*long(), {"role": "assistant", "content": begun}]
    client.messages.create(model=model, max_tokens=9, messages=messages)
    assert provider.refused == []
    assert client.unabridged.last().changed
    assert [message["content"] for message in provider.requests[0]["messages"]][-len(sent) :] == sent
    assert client.unabridged.replay() == messages


def test_the_callers_list_is_never_changed(provider: Loopback) -> None:
    client = unabridged.wrap(make("Anthropic", provider), thread="t", **KEYWORDS)
    messages = long()
    before = copy.deepcopy(messages)
    client.messages.create(model="claude-opus-5-5", max_tokens=9, messages=messages)
    assert messages == before
    assert len(provider.requests[0]["messages"]) < len(messages)


def test_a_stream_that_is_left_early_is_closed_and_learned_from(provider: Loopback) -> None:
    client = unabridged.wrap(make("Anthropic", provider), thread="t", **KEYWORDS)
    asked: Any = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": long()}
    with client.messages.create(**asked, stream=True) as events:
        next(iter(events))
    assert events.response.is_closed
    for _ in range(3):
        client.messages.create(**asked)
    assert provider.too_long == []


def test_a_stream_that_goes_on_with_a_second_response_lets_go_of_that_one(provider: Loopback) -> None:
    client = unabridged.wrap(make("OpenAI", provider), thread="t", archive="memory:", window=100_000)
    with client.responses.create(model="gpt-5", input=long(), stream=True) as events:
        refused = events.response
        next(iter(events))
        assert events.response is not refused
    assert refused.is_closed
    assert events.response.is_closed
    assert len(client.unabridged.last().messages) == len(provider.requests[0]["input"]) < 41
    assert client.unabridged.replay() == long()
    assert len(provider.too_long) == len(provider.requests) == 1


def test_a_wrapped_client_can_be_wrapped_anew_and_closes_what_it_opened(provider: Loopback) -> None:
    first = unabridged.wrap(make("OpenAI", provider), thread="one", **KEYWORDS)
    with unabridged.wrap(first, thread="two", **KEYWORDS) as second:
        second.chat.completions.create(model="gpt-5", messages=long())
        assert history_of(first).last() is None
        assert history_of(second).last() is not None
    assert second.is_closed()
    with pytest.raises(ArchiveError, match="closed"):
        history_of(second).search("Turn 3")


def test_what_is_no_client_is_refused_with_what_would_do() -> None:
    with pytest.raises(TypeError, match="OpenAI, Anthropic or Google"):
        unabridged.wrap("OpenAI")
    with pytest.raises(TypeError, match="not wrapped"):
        history_of(openai.OpenAI(api_key="k"))
    with pytest.raises(TypeError, match="unexpected argument 'windows'"):
        unabridged.wrap(openai.OpenAI(api_key="k"), windows=3, archive="memory:")
