"""The gateway between real HTTP clients and a provider on loopback that keeps the providers' rules."""

from __future__ import annotations

import gzip
import json
import logging
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_case import KEY, PATHS, body_of, gateway_before, say
from patience import PATIENCE
from provider_app import ProviderApp
from provider_faults import delay_answer
from rows import rows
from serving import serve_in_thread
from unabridged import Compactor
from unabridged.archive import open_archive
from unabridged_gateway.app import Gateway
from unabridged_gateway.config_file import load_config
from unabridged_testing.loopback import LoopbackReply


@rows("kind", PATHS)
@rows("turns", [1, 30], ids=["unparsed", "parsed"])
def test_below_the_trigger_the_provider_gets_the_very_bytes(kind: str, turns: int) -> None:
    provider = ProviderApp(say, window=20_000)
    odd = json.dumps(body_of(kind, turns), separators=(" ,  ", ":   ")).encode()
    small = gzip.compress(odd)
    with gateway_before(provider, window="20k") as client:
        plain = client.post(PATHS[kind], content=odd, headers={"content-type": "application/json"})
        packed = client.post(PATHS[kind], content=small, headers={"content-encoding": "gzip"})
    assert plain.status_code == packed.status_code == 200, plain.text + packed.text
    assert [request.body for request in provider.raw] == [odd, small]
    assert provider.raw[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("kind", PATHS)
def test_above_the_trigger_it_fits_and_what_stays_has_its_own_bytes(kind: str) -> None:
    provider = ProviderApp(say, window=8_000)
    given = body_of(kind, 100, temperature=0.5) if kind != "contents" else body_of(kind, 100)
    with gateway_before(provider) as client:
        answer = client.post(PATHS[kind], json=given)
        again = client.post(PATHS[kind], json=given)
    assert answer.status_code == 200, answer.text
    told = answer.headers
    assert int(told["x-unabridged-tokens-before"]) > 7_000 > int(told["x-unabridged-tokens-after"])
    assert told["x-unabridged-record"]
    assert told["x-unabridged-thread"] == again.headers["x-unabridged-thread"]
    first, second = (request.body for request in provider.raw)
    assert first == second, "a history that is sent again becomes the same bytes"
    field = {"responses": "input", "contents": "contents"}.get(kind, "messages")
    assert json.loads(first)[field][-1] == given[field][-1]
    assert not provider.refused + provider.too_long


# R50
def test_a_client_elsewhere_is_told_of_no_file_of_the_gateways_machine(tmp_path: Path) -> None:
    """Also where a program on that machine has compacted the same conversation, and its summary turn names one."""
    provider, body, url = ProviderApp(say, window=8_000), body_of("chat", 100), f"dir://{tmp_path}/folder"
    with gateway_before(provider, archive=url) as client:
        thread = client.post(PATHS["chat"], json=body).headers["x-unabridged-thread"]
    with closing(open_archive(url)) as archive:
        (space,) = [space for space in archive.namespaces() if thread in archive.threads(space)]
        with Compactor(agent="gpt-5", window=8_000, archive=archive, namespace=space) as compactor:
            local = compactor.fit(body["messages"], thread=thread).messages
    with gateway_before(provider, archive=url) as client:
        client.post(PATHS["chat"], json=body)
    assert f"{tmp_path}/folder" in json.dumps(local)
    assert len(provider.raw) == 2
    for request in provider.raw:
        assert b"[unabridged summary" in request.body
        assert b"transcript.md" not in request.body
        assert str(tmp_path).encode() not in request.body


@rows("kind", PATHS)
@rows("streamed", [False, True], ids=["plain", "streamed"])
def test_too_long_is_learned_and_sent_again_shorter(kind: str, streamed: bool) -> None:
    provider = ProviderApp(say, window=5_000)
    path = PATHS[kind]
    if streamed and kind == "contents":
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    more = {"stream": True} if streamed and kind != "contents" else {}
    with gateway_before(provider, window="30k") as client:
        answer = client.post(path, json=body_of(kind, 60, **more))
    assert answer.status_code == 200, answer.text
    assert "Noted" in answer.text
    assert int(answer.headers["x-unabridged-tokens-after"]) < 5_000
    assert len(provider.too_long) == 1
    assert not provider.refused


def test_what_can_not_be_made_to_fit_gets_the_providers_own_error() -> None:
    provider = ProviderApp(say, window=100)
    body = body_of("messages", 0, system="rule " * 2_000)
    with gateway_before(provider) as client:
        answer = client.post(PATHS["messages"], json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("prompt is too long")


def test_tokens_are_counted_of_what_would_be_sent() -> None:
    provider = ProviderApp(say, window=8_000)
    body = body_of("messages", 100)
    with gateway_before(provider) as client:
        counted = client.post("/v1/messages/count_tokens", json=body).json()["input_tokens"]
        client.post(PATHS["messages"], json=body)
    assert counted < 8_000
    assert json.loads(provider.raw[0].body)["messages"] == json.loads(provider.raw[1].body)["messages"]


def test_a_conversation_that_the_provider_keeps_is_left_alone_and_that_is_said() -> None:
    provider = ProviderApp(say, window=200_000)
    body = json.dumps(body_of("responses", 100, previous_response_id="resp_1")).encode()
    with gateway_before(provider) as client:
        answer = client.post(PATHS["responses"], content=body)
    assert provider.raw[0].body == body
    assert "previous_response_id" in answer.headers["x-unabridged-note"]


def test_codex_is_answered_with_our_own_compaction_and_sends_it_back() -> None:
    provider = ProviderApp(say, window=8_000)
    long = body_of("responses", 60)
    with gateway_before(provider) as client:
        asked = {**long, "input": [*long["input"], {"type": "compaction_trigger"}]}
        answer = client.post(PATHS["responses"], json=asked).json()
        streamed = client.post(PATHS["responses"], json={**asked, "stream": True}).text
        (item,) = answer["output"]
        last = {"role": "user", "content": "Go on with part 61."}
        later = {**long, "input": [long["input"][0], item, last]}
        assert client.post(PATHS["responses"], json=later).status_code == 200
    assert item["type"] == "compaction"
    assert item["encrypted_content"] in streamed
    (request,) = provider.raw
    sent = json.loads(request.body)["input"]
    assert sent[-1] == last
    assert long["input"][-1] in sent, "the newest message is there as it was said"
    assert not any(one.get("type") == "compaction" for one in sent)


def test_a_websocket_is_refused_before_the_provider_hears_of_it_so_that_the_client_falls_back() -> None:
    provider = ProviderApp(say, window=8_000)
    wanted = {
        "connection": "Upgrade",
        "upgrade": "WebSocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "eA==",
    }
    with gateway_before(provider) as client:
        refused = client.get(PATHS["responses"], headers=wanted)
        assert client.post(PATHS["responses"], json=body_of("responses", 1)).status_code == 200
    assert refused.status_code == 426
    assert "WebSocket" in refused.json()["error"]["message"]
    assert len(provider.raw) == 1


@pytest.mark.parametrize("kind", PATHS)
def test_what_is_no_request_is_passed_on_and_refused_as_the_provider_would(kind: str) -> None:
    provider = ProviderApp(say, window=8_000)
    with gateway_before(provider) as client:
        for body in (b"", b"{", b"[1]", b'{"messages": 7}', b'{"a": "\\ud800"}', b"\xff" * 9_000, b"[" * 50_000):
            answer = client.post(PATHS[kind], content=body)
            assert 400 <= answer.status_code < 500, answer.text
            assert provider.raw[-1].body == body


def test_everything_else_is_passed_through_untouched() -> None:
    provider = ProviderApp(say, window=8_000)
    with gateway_before(provider) as client:
        models = client.get("/v1/models")
        assert models.json()["data"]
        upload = client.post("/v1/files?purpose=x%2Fy", content=b"\x00" * 70_000)
        assert [client.get(path).text for path in ("/healthz", "/readyz")] == ["ok\n", "ready\n"]
    assert upload.status_code == 404
    assert (provider.raw[-1].path, provider.raw[-1].body) == ("/v1/files?purpose=x%2Fy", b"\x00" * 70_000)


@pytest.mark.parametrize("kind", PATHS)
def test_a_provider_that_is_not_there_is_told_in_its_own_shape(kind: str) -> None:
    flags = {"upstream": "http://127.0.0.1:9", "window": "8k", "archive": "memory:", "summariser": "none", "port": 0}
    with serve_in_thread(Gateway(load_config(None, **flags))) as url, httpx.Client(base_url=url) as client:
        answer = client.post(PATHS[kind], json=body_of(kind, 1))
    assert answer.status_code == 502
    assert "upstream" in answer.json()["error"]["message"]


def test_a_client_that_goes_ends_its_request() -> None:
    provider = ProviderApp(say, window=8_000)
    provider.faults.append(delay_answer(30))
    with gateway_before(provider) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(PATHS["chat"], json=body_of("chat", 1), timeout=0.3)
        until = time.monotonic() + PATIENCE
        while not provider.abandoned and time.monotonic() < until:
            time.sleep(0.01)
    assert provider.abandoned == [PATHS["chat"]]


def test_the_clients_model_writes_the_summary_with_the_clients_key_which_is_kept_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked: list[Any] = []

    def script(messages: Any) -> LoopbackReply:
        asked.append(messages)
        if len(messages) > 1:
            return say(messages)
        parts = " ".join(f"Part {n} was looked at on request and found to be fine." for n in range(40))
        return LoopbackReply(f"## Now\nThe parts are looked at one by one. {parts}\n")

    provider = ProviderApp(script, window=8_000)
    archive = tmp_path / "gateway.db"
    with gateway_before(provider, summariser="upstream", archive=f"sqlite:///{archive}") as client:
        answer = client.post(PATHS["messages"], json=body_of("messages", 100))
    assert answer.status_code == 200
    assert len(provider.raw) >= 2, "the summary was asked for where the request goes"
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in provider.raw)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert KEY.encode() not in kept
    assert KEY not in caplog.text
