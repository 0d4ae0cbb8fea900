"""The provider that the gateway is tried against does what real ones do, and keeps what it was sent."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import openai
import pytest
import zstandard

import sdk_loops
from patience import PATIENCE
from provider_app import ProviderApp
from provider_faults import (
    answer_garbage,
    delay_answer,
    drop_midstream,
    fail_with_status,
    pause_until,
)
from rows import rows
from sdk_loops import Chat, Contents, Messages, Responses, client_of, working
from serving import serve_in_thread
from unabridged_testing.loopback import LoopbackReply

APIS = [(Chat(), "OpenAI"), (Responses(), "OpenAI"), (Messages(), "Anthropic"), (Contents(), "genai")]
CHAT = "/v1/chat/completions"


def greet(_: Sequence[Any]) -> LoopbackReply:
    return LoopbackReply("Hello, I am here to help.")


@contextmanager
def asking(provider: ProviderApp) -> Iterator[httpx.Client]:
    with serve_in_thread(provider) as url, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        yield client


def body(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(texts)]
    return {"model": "m", "messages": messages, **more}


@rows(("api", "client"), APIS, ids=["chat", "responses", "messages", "contents"])
@rows("piece", [0, 7], ids=["events", "anywhere"])
def test_sdks_read_its_answers_whole_and_in_pieces_and_its_cache_holds_all_but_what_is_new(
    api: Any, client: str, piece: int
) -> None:
    provider = ProviderApp(working(4, thinks=True), window=100_000, compresses=bool(piece), piece=piece)
    with serve_in_thread(provider) as url, client_of(client, url) as sdk:
        sdk_loops.run(api, sdk, streaming=bool(piece))
    assert provider.refused == provider.malformed == provider.abandoned == []
    assert [request.cached_bytes > 0 for request in provider.asked] == [False, True, True, True, True]
    before = provider.asked[0]
    for request in provider.asked[1:]:
        assert request.cached_bytes == before.cached_bytes + before.fresh_bytes
        before = request


def test_every_request_is_kept_with_its_own_bytes_and_headers() -> None:
    provider = ProviderApp(greet, window=1_000)
    spaced = b'{"messages" : [ {"content":"hi",  "role":"user"}] }'
    with asking(provider) as client:
        for how, data in (
            ("identity", spaced),
            ("gzip", gzip.compress(spaced)),
            ("zstd", zstandard.ZstdCompressor().compress(spaced)),
        ):
            answer = client.post(f"{CHAT}?x=1", content=data, headers={"content-encoding": how, "x-mine": "yes"})
            assert answer.json()["choices"][0]["message"]["content"].startswith("Hello")
            assert answer.headers["content-encoding"] == "gzip", "as httpx accepts it"
            assert (provider.raw[-1].body, provider.raw[-1].content) == (data, spaced)
            assert provider.raw[-1].headers["x-mine"] == "yes"
            assert provider.raw[-1].path == f"{CHAT}?x=1"


def test_usage_tells_what_came_from_the_cache_as_each_provider_does() -> None:
    provider = ProviderApp(greet, window=10_000)
    marked = [{"type": "text", "text": "word " * 400, "cache_control": {"type": "ephemeral"}}]
    with asking(provider) as client:
        for _ in range(2):
            chat = client.post(CHAT, json=body("word " * 400)).json()["usage"]
            claude = client.post("/v1/messages", json=body(marked)).json()["usage"]  # type: ignore[arg-type]
        streamed = client.post(CHAT, json=body("hi", stream=True, stream_options={"include_usage": True})).text
        silent = client.post(CHAT, json=body("hi", stream=True)).text
    assert chat["prompt_tokens_details"]["cached_tokens"] > 500
    assert claude["cache_read_input_tokens"] > 500 > claude["input_tokens"]
    assert '"prompt_tokens": ' in streamed
    assert '"prompt_tokens": ' not in silent


def test_an_event_leaves_before_the_next_is_made() -> None:
    provider = ProviderApp(greet, window=1_000)
    read = threading.Event()
    provider.faults.append(pause_until(read, after_events=1))
    with asking(provider) as client, client.stream("POST", CHAT, json=body("hi", stream=True)) as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines).removeprefix("data: "))["choices"][0]["delta"]["role"] == "assistant"
        read.set()
        assert list(lines)[-2] == "data: [DONE]"


def test_faults_come_one_for_each_request_in_the_providers_own_shape() -> None:
    provider = ProviderApp(greet, window=1_000)
    provider.faults += [
        fail_with_status(429, retry_after="7"),
        fail_with_status(500),
        answer_garbage(),
        delay_answer(0.01),
    ]
    asked = Messages().asked([{"role": "user", "content": "hi"}])
    with (
        serve_in_thread(provider) as url,
        client_of("Anthropic", url) as claude,
        client_of("OpenAI", f"{url}/v1") as gpt,
    ):
        with pytest.raises(anthropic.RateLimitError) as limited:
            claude.messages.create(**asked)
        assert limited.value.response.headers["retry-after"] == "7"
        with pytest.raises(anthropic.InternalServerError):
            claude.messages.create(**asked)
        with pytest.raises((anthropic.APIError, ValueError)):
            claude.messages.create(**asked)
        assert claude.messages.create(**asked).content[0].text.startswith("Hello")
        provider.faults += [drop_midstream(2), drop_midstream()]
        with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
            list(gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True))
        with pytest.raises(openai.APIConnectionError):
            gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert len(provider.raw) == 6


def test_who_goes_away_is_noticed() -> None:
    provider = ProviderApp(greet, window=1_000)
    provider.faults.append(delay_answer(60))
    with asking(provider) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(CHAT, json=body("hi"), timeout=httpx.Timeout(20, read=0.05))
        for _ in range(400):
            if provider.abandoned:
                break
            time.sleep(0.01)
    assert provider.abandoned == [CHAT]
    assert provider.requests == []


def test_models_counts_websockets_and_bodies_that_are_no_request_get_their_answers() -> None:
    provider = ProviderApp(greet, window=1_000)
    with asking(provider) as client:
        assert client.get("/v1/models").json()["data"][0]["object"] == "model"
        assert client.get("/v1/models", headers={"anthropic-version": "x"}).json()["has_more"] is False
        assert client.get("/v1beta/models").json()["models"][0]["inputTokenLimit"] == 1_000
        counted = client.post("/v1/messages/count_tokens", json=body("word " * 100)).json()
        assert counted["input_tokens"] > 100
        assert client.post("/v1beta/models/m:countTokens", json={"contents": [{"parts": []}]}).json()["totalTokens"] > 0
        upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        assert client.get("/v1/responses", headers=upgrade).status_code == 426
        for path in (CHAT, "/v1/responses", "/v1/messages", "/v1beta/models/m:generateContent"):
            for data in (b"", b"[1]", b'{"messages": 3}', b"{", b"\xff"):
                assert client.post(path, content=data).status_code == 400
        assert client.post("/v1/embeddings", json={}).status_code == 404
        long = client.post("/v1/messages", json=body("word " * 1_000)).json()
        assert "prompt is too long" in long["error"]["message"]
    assert provider.asked[-1].cached_bytes == 0


def compacted(client: anthropic.Anthropic, *texts: str, **more: Any) -> Any:
    asked = {**body(*texts), "max_tokens": 100, "extra_body": {"compaction": {"type": "summarize"}}, **more}
    return client.beta.messages.create(betas=["compact-2026-09-04"], **asked)


def test_a_block_of_its_own_compaction_is_taken_first_once_unchanged_and_with_its_header_only() -> None:
    provider = ProviderApp(greet, window=100_000)
    with serve_in_thread(provider) as url, client_of("Anthropic", url) as client:
        first, second = (compacted(client, "One.", "Two.", "Three.").content[0].to_dict() for _ in range(2))
        said: Any = {"role": "assistant", "content": [first]}
        asked: Any = {"role": "user", "content": "And now?"}
        headers = {"anthropic-beta": "compact-2026-09-04"}

        def send(*messages: Any, **options: Any) -> None:
            client.messages.create(model="m", max_tokens=10, messages=messages, extra_headers=headers, **options)

        send(said, asked)
        send({"role": "user", "content": [first, {"type": "text", "text": "And now?"}]})
        with pytest.raises(anthropic.BadRequestError, match="beta header"):
            client.messages.create(model="m", max_tokens=10, messages=[said, asked])
        for code, messages in {
            "compaction_block_misplaced": [asked, said, asked],
            "compaction_block_ambiguous": [{"role": "assistant", "content": [first, second]}, asked],
            "compaction_content_mismatch": [{"role": "assistant", "content": [{**first, "content": "No."}]}, asked],
            "compaction_signature_invalid": [{"role": "assistant", "content": [{**first, "signature": "x"}]}, asked],
        }.items():
            with pytest.raises(anthropic.BadRequestError) as refused:
                send(*messages)
            assert refused.value.error_code == code


FORBIDDEN: dict[str, Any] = {
    "stop_sequences": ["."],
    "context_management": {"edits": []},
    "tool_choice": {"type": "any"},
    "output_config": {"format": {"type": "json_schema", "schema": {}}},
    "stream": True,
}


@rows("name", FORBIDDEN)
def test_a_request_to_compact_is_refused_with_what_only_shapes_an_answer(name: str) -> None:
    with serve_in_thread(ProviderApp(greet, window=100_000)) as url, client_of("Anthropic", url) as client:
        with pytest.raises(anthropic.BadRequestError, match=name):
            compacted(client, "One.", "Two.", "Three.", **{name: FORBIDDEN[name]})
        call = {"type": "tool_use", "id": "t", "name": "work", "input": {}}
        unfinished = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": [call]}]
        with pytest.raises(anthropic.BadRequestError) as refused:
            compacted(client, messages=unfinished)
        assert refused.value.error_code == "compaction_incomplete_turn"


def test_a_compacted_response_has_peoples_messages_and_an_item_that_is_taken_unchanged_only() -> None:
    with serve_in_thread(ProviderApp(greet, window=100_000)) as url, client_of("OpenAI", url) as client:
        messages: Any = body("One.", "Two.", "Three.")["messages"]
        done = client.responses.compact(model="gpt-5", input=messages)
        assert [item.type for item in done.output] == ["message", "message", "compaction"]
        item: Any = done.output[-1].to_dict()
        client.responses.create(model="gpt-5", input=[item, {"role": "user", "content": "And now?"}])
        with pytest.raises(openai.BadRequestError, match="could not be verified"):
            client.responses.create(model="gpt-5", input=[{**item, "encrypted_content": "no"}])
        with pytest.raises(openai.BadRequestError, match="tools"):
            client.responses.compact(model="gpt-5", input=messages, extra_body={"tools": []})
