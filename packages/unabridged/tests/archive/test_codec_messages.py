"""What the SDKs' clients hand out, compacted and replayed: parsed and streamed results, and every kind of message."""

from __future__ import annotations

from typing import Any

import anthropic
import anthropic.types as claude_types
import openai
import pydantic
import pytest
from anthropic.types import beta as claude_beta
from langchain_core.messages import AnyMessage, HumanMessage
from openai.types import chat as chat_types
from openai.types import responses as response_types

import upstream
from sdk_objects import build, members_of, state
from unabridged import Compactor
from unabridged.adapters.langchain.format import FORMAT
from unabridged.archive.codec import classes, decode, encode

ANSWER = '{"city":"Rome","population":2800000}'
FILLER = "The harbour master wrote down every ship, its cargo, its draught and the hour it came in. " * 12


class City(pydantic.BaseModel):
    city: str
    population: int


class get_city(pydantic.BaseModel):  # noqa: N801 - a tool, by the name a model calls it
    city: str


def check_replayed(value: Any, name: str | Any = None, user: Any = None) -> None:
    """The message among others that go: the list that replay gives is the list that went in."""
    user = user or (lambda text: {"role": "user", "content": text})
    messages = [user("Look the cities up."), *([value] if not isinstance(value, list) else value)]
    messages += [user(f"{i}: {FILLER}") for i in range(12)]
    with Compactor(window=2_400, archive="memory:", format=name) as compactor:
        fitted = compactor.fit(messages, thread="t")
        assert fitted.changed, value
        back = compactor.replay(fitted.messages, thread="t")
        assert state(back) == state(messages), value


def chunk(**delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop", "logprobs": None}
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


CALL = {"id": "call-1", "type": "function", "function": {"name": "get_city", "arguments": '{"city":"Rome"}'}}
CALLED = [chunk(role="assistant", tool_calls=[{"index": 0, **CALL}]), chunk()]
SAID = [chunk(role="assistant", content=ANSWER[:9]), chunk(content=ANSWER[9:]), chunk()]
ITEM = {"type": "function_call", "id": "fc-1", "call_id": "call-1", "name": "get_city", "arguments": '{"city":"Rome"}'}
MESSAGE = upstream.responses(ANSWER)[1]["output"][0]


def streamed_response() -> list[dict[str, Any]]:
    whole = upstream.responses(ANSWER, "completed", ITEM)[1]
    begun = {**whole, "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at, "item": item}
        events += [{"type": "response.output_item.added", **place}, {"type": "response.output_item.done", **place}]
    events.append({"type": "response.completed", "response": whole})
    return [{**event, "sequence_number": at} for at, event in enumerate(events)]


def streamed_claude() -> list[dict[str, Any]]:
    begun = {**upstream.claude("")[1], "content": [], "stop_reason": None}
    text: dict[str, Any] = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    tool = {"type": "tool_use", "id": "call-1", "name": "get_city", "input": {}}
    return [
        {"type": "message_start", "message": begun},
        text,
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": tool},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"city":"Rome"}'},
        },
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30}},
        {"type": "message_stop"},
    ]


def openai_objects(served: upstream.Upstream) -> dict[str, Any]:
    """The assistant messages that OpenAI's client gives for each way of asking."""
    client: Any = openai.OpenAI(api_key="k", base_url=f"{served.url}/v1", max_retries=0)
    said: Any = {"model": "m", "messages": [{"role": "user", "content": "Rome?"}]}
    asked: Any = {"model": "m", "input": "Rome?"}
    tools: Any = [openai.pydantic_function_tool(get_city)]
    found: dict[str, Any] = {}

    def answered(answer: Any) -> None:
        served.answers[:] = [answer]

    answered(upstream.chat(ANSWER))
    found["created"] = client.chat.completions.create(**said).choices[0].message
    found["parsed"] = client.chat.completions.parse(**said, response_format=City).choices[0].message
    answered(upstream.chat(None, "tool_calls", tool_calls=[CALL]))
    found["parsed call"] = client.chat.completions.parse(**said, tools=tools).choices[0].message
    answered((200, SAID))
    for name, options in (("streamed", {}), ("streamed and parsed", {"response_format": City})):
        with client.chat.completions.stream(**said, **options) as stream:
            found[name] = stream.get_final_completion().choices[0].message
    answered((200, CALLED))
    with client.chat.completions.stream(**said, tools=tools) as stream:
        found["streamed call"] = stream.get_final_completion().choices[0].message
    answered(upstream.responses(ANSWER, "completed", ITEM))
    found["response"] = client.responses.create(**asked).output
    found["parsed response"] = client.responses.parse(**asked, text_format=City).output
    answered((200, streamed_response()))
    with client.responses.stream(**asked, text_format=City) as events:
        found["streamed response"] = events.get_final_response().output
    return found


def anthropic_objects(served: upstream.Upstream) -> dict[str, Any]:
    """The messages that Anthropic's client gives for each way of asking."""
    client: Any = anthropic.Anthropic(api_key="k", base_url=served.url, max_retries=0)
    asked: Any = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Rome?"}]}
    found: dict[str, Any] = {}
    for name, service in (("", client.messages), ("beta ", client.beta.messages)):
        api: Any = service
        served.answers[:] = [upstream.claude(ANSWER)]
        found[f"{name}created"] = api.create(**asked)
        found[f"{name}parsed"] = api.parse(**asked, output_format=City)
        served.answers[:] = [(200, streamed_claude())]
        with api.stream(**asked) as stream:
            found[f"{name}streamed"] = stream.get_final_message()
        with api.stream(**asked, output_format=City) as stream:
            found[f"{name}streamed and parsed"] = stream.get_final_message()
    return found


def test_what_the_clients_hand_out_is_replayed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    with upstream.serving() as served:
        chats = openai_objects(served)
        messages = anthropic_objects(served)
    answers = {"role": "tool", "tool_call_id": "call-1", "content": "2.8 million"}
    output = {"type": "function_call_output", "call_id": "call-1", "output": "2.8 million"}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call-1", "content": "2.8 million"}]}
    assert chats["parsed"].parsed == City(city="Rome", population=2_800_000)
    assert chats["streamed"].content == ANSWER
    for name, message in chats.items():
        if "response" in name:
            check_replayed([*message, output], "openai-responses")
        else:
            check_replayed([message, answers] if "call" in name else message, "openai-chat")
    for name, message in messages.items():
        whole = [message, result] if "streamed" in name else message
        check_replayed(whole, "anthropic")
        content = {"role": "assistant", "content": message.content}
        check_replayed([content, result] if "streamed" in name else content, "anthropic")
    for message in (*chats.values(), *messages.values()):
        body = encode(message)
        with monkeypatch.context() as patch:
            patch.setattr(classes, "_classes_by_name", {})
            patch.setattr(
                classes, "ALLOWED_PREFIXES", {*classes.ALLOWED_PREFIXES, __name__}
            )  # the program has `City`; no more is needed
            assert state(decode(body)) == state(message)


def blocks() -> list[Any]:
    unions = (claude_types.ContentBlock, claude_types.ContentBlockParam)
    return [kind for union in unions for kind in members_of(union)]


def beta_blocks() -> list[Any]:
    unions = (claude_beta.BetaContentBlock, claude_beta.BetaContentBlockParam)
    return [kind for union in unions for kind in members_of(union)]


def items() -> list[Any]:
    unions = (
        response_types.ResponseOutputItem,
        response_types.ResponseInputItem,
        response_types.ResponseInputItemParam,
    )
    return [*(kind for union in unions for kind in members_of(union)), response_types.ParsedResponseOutputMessage[City]]


def chats() -> list[Any]:
    return [
        chat_types.ChatCompletionMessage,
        chat_types.ParsedChatCompletionMessage[City],
        *members_of(chat_types.ChatCompletionMessageParam),
    ]


def test_every_kind_of_message_is_replayed_exactly() -> None:
    for kind in chats():
        check_replayed(build(kind), "openai-chat")
    for kind in items():
        check_replayed(build(kind), "openai-responses")
    for kind in [*blocks(), *beta_blocks()]:
        for role in ("assistant", "user"):
            check_replayed({"role": role, "content": [build(kind)]}, "anthropic")
    for kind in members_of(AnyMessage):
        check_replayed(build(kind), FORMAT, HumanMessage)
