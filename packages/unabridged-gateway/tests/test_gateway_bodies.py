"""Requests and answers on their way: taken apart, put together and watched, and what stays keeps its own bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from unabridged.tokens.calibrate import Usage
from unabridged_gateway.body_scan import BodyScanner
from unabridged_gateway.config_file import load_config
from unabridged_gateway.fitting import Engines
from unabridged_gateway.json_body import JsonBody, JsonCache
from unabridged_gateway.protocols import MESSAGES_STREAM, find_protocol, parse_model_from_path, to_unstreamed_target
from unabridged_gateway.sse import SseReader, SseStream

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
spaces = st.sampled_from([(", ", ": "), (",", ":"), (" ,  ", " : ")])


@given(
    st.dictionaries(st.sampled_from(["model", "tools", "stream", "x"]), values, max_size=4),
    st.lists(values, max_size=6),
    spaces,
)
def test_what_stays_is_sent_as_the_bytes_it_came_as(
    fields: dict[str, Any], messages: list[Any], separators: tuple[str, str]
) -> None:
    written = [json.dumps(message, separators=separators) for message in messages]
    rest = "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in fields.items() if name != "messages")
    body = JsonBody(f'{{"messages":[{" , ".join(written)}]{rest}}}'.encode(), "messages", JsonCache())
    assert body["messages"] == messages
    assert body.with_messages(body["messages"]) == f'{{"messages":[{",".join(written)}]{rest}}}'.encode()
    assert body.with_messages([*body["messages"][1:], {"role": "user"}]).endswith(
        f'{{"role":"user"}}]{rest}}}'.encode()
    )


def test_what_is_resent_is_the_same_object_and_what_is_said_twice_is_two() -> None:
    seen = JsonCache()
    first, again, other = '{"role":"user","content":"hi"}', '{"role":"user","content":"hi"}', '{"n":1}'
    one = JsonBody(f'{{"messages":[{first},{again}]}}'.encode(), "messages", seen)["messages"]
    two = JsonBody(f'{{"messages":[{first},{again},{other}]}}'.encode(), "messages", seen)["messages"]
    assert one[0] is not one[1]
    assert two[0] is one[0]


@given(st.lists(st.lists(st.integers(0, 12) | st.sampled_from([{"a": 1}, {"a": 12}, [], "x"]), max_size=6), max_size=8))
def test_a_list_reads_the_same_whatever_came_before(lists: list[list[Any]]) -> None:
    seen = JsonCache()
    for number, items in enumerate(lists):
        raw = json.dumps(items, separators=((",", ":"), (" , ", ": "))[number % 2])
        body = JsonBody(f'{{"messages":{raw}}}'.encode(), "messages", seen)
        assert body["messages"] == items
        assert json.loads(body.with_messages(body["messages"])) == {"messages": items}


@given(st.lists(st.integers(0, 200), min_size=1, max_size=300))
def test_what_is_remembered_stays_within_its_bound(numbers: list[int]) -> None:
    seen = JsonCache(most=200)
    for number in numbers:
        assert seen.parse_value(str(number).encode()) == number
        assert seen.items(f"[{number},7]".encode()).values == [number, 7]
    assert len(seen) <= 200


events = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["message_start", "ping", "content_block_delta", "message_stop"])}),
    max_size=8,
)


@given(events, st.sampled_from(["\n", "\r\n"]), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_a_stream_reads_the_same_in_whatever_pieces_it_comes(
    said: list[dict[str, str]], end: str, sizes: list[int]
) -> None:
    raw = "".join(f"event: {event['type']}{end}data: {json.dumps(event)}{end}{end}" for event in said).encode()
    reader, found, passed, at, turn = SseReader(lambda _: False), [], b"", 0, 0
    while at < len(raw):
        piece = reader.read(raw[at : at + sizes[turn % len(sizes)]])
        at, turn = at + len(piece.raw), turn + 1
        found += piece.events
        passed += piece.raw
    assert passed == raw
    assert found == said


def test_once_the_model_has_begun_only_usage_is_looked_at() -> None:
    reader = SseReader(MESSAGES_STREAM.begins_answer)
    kind = SseStream(MESSAGES_STREAM)
    start = reader.read(b'data: {"type":"message_start","message":{"usage":{"input_tokens":7}}}\n\n')
    assert not kind.begins_answer(start)
    assert kind.usage(start) == Usage(input=7)
    assert kind.begins_answer(reader.read(b'data: {"type":"content_block_start"}\n\n'))
    assert reader.read(b'data: {"type":"content_block_delta"}\n\n').events == []
    assert reader.read(b'data: {"type":"message_delta","usage":{"output_tokens":3}}\n\n').events
    whole = SseReader(MESSAGES_STREAM.begins_answer).read(
        b'data: {"type":"ping"}\n\n' + 9 * b'data: {"type":"content"}\n\n'
    )
    assert [event["type"] for event in whole.events] == ["ping", "content"]


def test_each_path_has_its_protocol_and_every_other_is_passed_through() -> None:
    known = {
        "/v1/chat/completions": "chat",
        "/openai/deployments/d/chat/completions": "chat",
        "/v1/responses": "responses",
        "/v1/messages": "messages",
        "/v1/messages/count_tokens": "count_tokens",
        "/v1beta/models/gemini-3:generateContent": "contents",
        "/v1beta/models/gemini-3:streamGenerateContent": "contents",
    }
    found = {path: find_protocol("POST", path) for path in known}
    assert {path: protocol.name for path, protocol in found.items() if protocol} == known
    for path in ("/v1/models", "/v1/responses/resp_1", "/v1/messages/batches", "/v1beta/models/g:countTokens", "/"):
        assert find_protocol("POST", path) is None
    assert find_protocol("GET", "/v1/responses") is None
    assert (
        to_unstreamed_target("/v1beta/models/g:streamGenerateContent?alt=sse&key=k")
        == "/v1beta/models/g:generateContent?key=k"
    )


def test_the_length_of_a_body_proves_nothing_where_something_stands_in_it_by_reference() -> None:
    engines = Engines(load_config(None, upstream="https://api.openai.com", window="200k", archive="memory:"))
    names = (
        "image", "image_url", "input_image", "input_file", "inline_data", "inlineData", "item_reference", "document",
        "file", "file_data", "fileData", "video", "prompt", "previous_response_id", "conversation", "cached_content",
        "cachedContent", "compaction", "compaction_trigger",
    )  # fmt: skip
    assert [name for name in names if engines.fits_by_length(json.dumps({name: 1}).encode(), "t")] == []
    plain = {"model": "m", "messages": [{"role": "user", "content": f'"{name}" in a text'} for name in names]}
    assert engines.fits_by_length(json.dumps(plain).encode(), "t")
    engines.close()


pieces = st.sampled_from([
    '{"model": "m1", ', '"model":"m2",', '"max_tokens": 17,', '"max_output_tokens"  :  900, ', '"image"', '"file"',
    '{"role": "user", "content": "', '"image_url', " some words ", '\\"file\\"', '"}, ', "]", "1", '"', " ", "x" * 200,
])  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 12), st.lists(pieces, max_size=8)), max_size=6))
def test_a_scan_finds_the_same_whatever_its_connection_sent_before(edits: list[tuple[int, list[str]]]) -> None:
    scanner, body = BodyScanner(), list[str]()
    for kept, more in edits:
        body = body[:kept] + more
        data = "".join(body).encode()
        assert scanner.scan(data, ("127.0.0.1", 1)) == BodyScanner().scan(data, None)


def test_without_a_window_the_models_own_decides_from_the_second_request_on() -> None:
    engines = Engines(load_config(None, upstream="https://api.openai.com", archive="memory:", trigger="30_000"))

    def ask(path: str, model: str | None, **more: Any) -> bool:
        protocol, messages = find_protocol("POST", path), [{"role": "user", "content": "hi"}]
        assert protocol is not None
        fields = {protocol.endpoint.messages: messages, **more} | ({} if model is None else {"model": model})
        data = json.dumps(fields).encode()
        fits = engines.fits_by_length(data, "t", parse_model_from_path(path))
        if not fits:
            body = JsonBody(data, protocol.endpoint.messages, JsonCache())
            request = asyncio.run(engines.request(protocol, path, body, messages, None, namespace="t", values=None))
            engines.find_overruled_setting(request, model or "")
        return fits

    chat, gemini = "/v1/chat/completions", "/v1beta/models/gemini-2.5-pro:generateContent"
    assert [ask(chat, "gpt-5") for _ in range(2)] == [False, True]
    assert [ask(gemini, None) for _ in range(2)] == [False, True]
    assert not ask(chat, "gpt-5", tools=[{"model": "gpt-4"}])  # which of the two is asked, only a parser can say
    assert not ask(chat, None)
    assert not engines.fits_by_length(b'{"model": "gpt-5"}', "another tenant")
    assert not engines.fits_by_length(b'{"model": "gpt-5", "max_tokens": 900000}', "t")
    assert not engines.fits_by_length(b'{"model": "gpt-5"}' + b" " * 30_000, "t")
    small = "gpt-4"  # its window is below the trigger: every answer says so
    assert [ask(chat, small) for _ in range(2)] == [False, False]
    engines.close()
