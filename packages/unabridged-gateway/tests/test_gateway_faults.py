"""When the provider, the archive or the client fails: every request gets an answer, or the provider's own error."""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import anthropic
import httpx
import openai
import pytest
from google.genai import errors

from gateway_case import FAMILIES, WINDOW, Case, gateway, worker
from patience import PATIENCE
from provider_app import ProviderApp, ReceivedRequest
from provider_faults import (
    answer_garbage,
    build_provider_error,
    delay_answer,
    drop_midstream,
    fail_with_status,
    pause_until,
)
from rows import rows
from sdk_loops import TASK, Chat, Contents, Messages, Responses, client_of, work
from unabridged import Compactor
from unabridged_gateway.calls import GatewayCall
from unabridged_gateway.conversation import ConversationRequest
from unabridged_testing.loopback_wires import ServedAnswer

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "contents": "/v1beta/models/m:generateContent",
}
APIS = [(Chat(), "OpenAI"), (Responses(), "OpenAI"), (Messages(), "Anthropic"), (Contents(), "genai")]
LENGTHS = {"unread": 1, "read": 8, "compacted": 30}
"""Rounds of tools in a conversation: its length tells that it fits, it is counted and fits, it is compacted."""


def body(name: str, rounds: int, **more: Any) -> dict[str, Any]:
    """A request of the wire with this name, at the end of so many rounds."""
    turns = [(TASK if number == 1 else f"Go on with {number}.", work(number)) for number in range(1, rounds + 1)]
    said = [*(text for turn in turns for text in turn), "And the next?"]
    if name == "contents":
        roles = ("user", "model")
        return {"contents": [{"role": roles[i % 2], "parts": [{"text": text}]} for i, text in enumerate(said)], **more}
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(said)]
    asked = {"model": "m", "input" if name == "responses" else "messages": messages, **more}
    return {**asked, "max_tokens": 99} if name == "messages" else asked


@contextmanager
def asking(provider: ProviderApp, folder: Path, **given: Any) -> Iterator[tuple[httpx.Client, Case]]:
    with gateway(provider, folder, **given) as case, httpx.Client(base_url=case.url, timeout=PATIENCE) as client:
        yield client, case


def address_of(case: Case) -> tuple[str, int]:
    host, _, port = case.url.removeprefix("http://").partition(":")
    return host, int(port)


def wait_for(happened: Callable[[], Any]) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen in 20 seconds")


@rows("name", PATHS)
@rows("length", LENGTHS)
def test_the_providers_errors_and_its_garbage_reach_the_client_as_they_are(
    name: str, length: str, tmp_path: Path
) -> None:
    provider = ProviderApp(worker(0), window=WINDOW)
    asked = body(name, LENGTHS[length])
    with asking(provider, tmp_path, summariser="none") as (client, _):
        provider.faults += [
            fail_with_status(429, retry_after="7"),
            fail_with_status(500),
            fail_with_status(529),
            answer_garbage(),
        ]
        limited = client.post(PATHS[name], json=asked)
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
        assert "The provider says 429." in limited.text
        assert [client.post(PATHS[name], json=asked).status_code for _ in range(2)] == [500, 529]
        assert client.post(PATHS[name], json=asked).content == answer_garbage().body
        assert client.post(PATHS[name], json=asked).status_code == 200, "and then it is well again"
    assert (provider.refused, provider.too_long) == ([], [])


@pytest.mark.parametrize("length", LENGTHS)
def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(length: str, tmp_path: Path) -> None:
    provider = ProviderApp(worker(0), window=WINDOW)
    asked = body("messages", LENGTHS[length])
    with asking(provider, tmp_path, summariser="none") as (client, _):
        provider.faults += [drop_midstream(2), drop_midstream(0), drop_midstream()]
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(PATHS["messages"], json={**asked, "stream": True})
        for more in ({"stream": True}, {}):
            try:
                answer = client.post(PATHS["messages"], json={**asked, **more})
            except httpx.RemoteProtocolError:
                continue
            assert answer.status_code == 502
            assert answer.json()["error"]["type"] == "api_error"
        whole = client.post(PATHS["messages"], json={**asked, "stream": True})
        assert "message_stop" in whole.text


@pytest.mark.parametrize(("api", "client"), APIS, ids=list(PATHS))
def test_a_provider_that_does_not_answer_is_the_sdks_own_error(api: Any, client: str, tmp_path: Path) -> None:
    provider = ProviderApp(worker(3), window=WINDOW)
    provider.faults += [delay_answer(0.01), delay_answer(60), drop_midstream(0)]
    said = (openai.InternalServerError, anthropic.InternalServerError, errors.ServerError)
    broken = (openai.APIConnectionError, anthropic.APIConnectionError, httpx.RemoteProtocolError)
    with gateway(provider, tmp_path, timeout=1.5) as case, client_of(client, case.base_url(client)) as sdk:
        assert api.plain(sdk, api.asked(api.first()))
        with pytest.raises(said):
            api.plain(sdk, api.asked(api.first()))
        with pytest.raises((*said, *broken)):
            api.plain(sdk, api.asked(api.first()))
        assert api.plain(sdk, api.asked(api.first()))


def test_what_no_provider_could_be_asked_is_refused_here(tmp_path: Path) -> None:
    provider = ProviderApp(worker(0), window=WINDOW)
    upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    with asking(provider, tmp_path) as (client, case):
        assert client.get("/v1/responses", headers=upgrade).status_code == 426, "so that Codex falls back at once"
        for line in (b"OPTIONS * HTTP/1.1", b"CONNECT evil.example:443 HTTP/1.1", b"GET @evil.example/ HTTP/1.1"):
            with socket.create_connection(address_of(case), timeout=PATIENCE) as connection:
                connection.sendall(line + b"\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
                assert connection.recv(1_000).startswith(b"HTTP/1.1 400 ")
    assert provider.raw == []


class Closing(BaseHTTPRequestHandler):
    """Answers once, says that the connection stays, and closes it when the next request has come."""

    protocol_version = "HTTP/1.1"
    answered = False
    came: ClassVar[list[str]] = []

    def serve(self) -> None:
        self.came.append(self.command)
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.close_connection = self.answered
        if not self.answered:
            self.answered = True
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    do_GET = do_POST = do_PUT = do_DELETE = serve  # noqa: N815 - as the library calls them

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Iterator[int]:
    """The port of a server, until the block ends."""
    server = ThreadingHTTPServer((host, 0), handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@rows("method", ["POST", "GET", "PUT", "DELETE"])
@rows("rounds", [1, 8])
def test_a_request_that_may_have_arrived_is_not_sent_again(method: str, rounds: int, tmp_path: Path) -> None:
    Closing.came.clear()
    with listening(Closing) as port:
        given = {"upstreams": dict.fromkeys(FAMILIES, f"http://127.0.0.1:{port}"), "summariser": "none"}
        with asking(ProviderApp(worker(0), window=WINDOW), tmp_path, **given) as (client, _):
            asked = [client.request(method, PATHS["chat"], json=body("chat", rounds)).status_code for _ in range(3)]
    assert (asked, Closing.came) == ([200, 502, 200], [method] * 3)


class Talking(BaseHTTPRequestHandler):
    """Answers every request."""

    came: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.came.append(self.client_address[0])
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def give_addresses(monkeypatch: pytest.MonkeyPatch, *last: int) -> None:
    """Let every name stand for these addresses of this machine, each by its last number."""

    async def several(_: object, host: str, port: int = 0, family: int = socket.AF_INET) -> list[dict[str, Any]]:
        about = {"hostname": host, "port": port, "family": family, "proto": 0, "flags": socket.AI_NUMERICHOST}
        return [{**about, "host": f"127.0.0.{place}"} for place in last]

    monkeypatch.setattr(aiohttp.DefaultResolver, "resolve", several)


@pytest.mark.parametrize(("dead", "status"), [(0, 200), (1, 200), (2, 200), (3, 502), (6, 502)])
def test_a_connection_that_is_refused_is_tried_at_two_other_addresses_of_the_host(
    dead: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_addresses(monkeypatch, *range(2, 2 + dead), 1)
    Talking.came.clear()
    with listening(Talking) as port:
        upstreams = dict.fromkeys(FAMILIES, f"http://provider.test:{port}")
        with asking(ProviderApp(worker(0), window=WINDOW), tmp_path, upstreams=upstreams) as (client, _):
            assert client.post(PATHS["chat"], json=body("chat", 1)).status_code == status
    assert len(Talking.came) == (status == 200)


@pytest.mark.parametrize(("addresses", "tried"), [(1, 1), (2, 2), (3, 3), (6, 3)])
def test_a_failure_at_tls_is_tried_again_at_two_other_addresses_of_the_host(
    addresses: int, tried: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    came: list[tuple[str, bytes]] = []

    class Plain(BaseHTTPRequestHandler):
        def handle(self) -> None:
            came.append((self.connection.getsockname()[0], self.connection.recv(5)[:1]))
            self.connection.sendall(b"this is no TLS, and says so\r\n\r\n")

    give_addresses(monkeypatch, *range(1, 1 + addresses))
    with listening(Plain, "0.0.0.0") as port:  # noqa: S104 - all addresses of this machine
        upstreams = dict.fromkeys(FAMILIES, f"https://provider.test:{port}")
        with asking(ProviderApp(worker(0), window=WINDOW), tmp_path, upstreams=upstreams) as (client, _):
            assert client.post(PATHS["chat"], json=body("chat", 1)).status_code == 502
    assert came == [(f"127.0.0.{place}", b"\x16") for place in range(1, 1 + tried)], "greetings, and no more"


def test_a_host_without_an_address_is_the_gateways_own_error(tmp_path: Path) -> None:
    upstreams = dict.fromkeys(FAMILIES, "http://no-such-host.invalid")
    with asking(ProviderApp(worker(0), window=WINDOW), tmp_path, upstreams=upstreams) as (client, _):
        assert client.post(PATHS["chat"], json=body("chat", 1)).status_code == 502


class Unsummarising(ProviderApp):
    """A provider that has no room for summaries."""

    def serve(self, request: ReceivedRequest) -> ServedAnswer:
        """The answer, or an error where a summary is asked for."""
        if TASK.encode() in request.content and b"And the next?" not in request.content[-400:]:
            return ServedAnswer(429, build_provider_error(request.path, 429))
        return super().serve(request)


@pytest.mark.parametrize("name", PATHS)
def test_a_summariser_that_fails_costs_no_request(name: str, tmp_path: Path) -> None:
    provider = Unsummarising(worker(0), window=WINDOW)
    with asking(provider, tmp_path) as (client, case):
        answer = client.post(PATHS[name], json=body(name, 30))
        assert answer.status_code == 200, answer.text
        assert len(provider.raw) > 1, "it was asked"
        assert [record.model for record in case.records()] == [None]
    assert (provider.refused, provider.too_long) == ([], [])


def remove(archive: Path) -> None:
    for path in archive.parent.glob(f"{archive.name}*"):
        path.unlink()
    archive.parent.rmdir()


def spoil(archive: Path) -> None:
    for path in archive.parent.glob(f"{archive.name}*"):
        path.write_bytes(b"this is no database " * 400)


@pytest.mark.parametrize("harm", [remove, spoil])
def test_with_the_archive_gone_every_request_is_still_answered(harm: Callable[[Path], None], tmp_path: Path) -> None:
    provider = ProviderApp(worker(0), window=WINDOW)
    folder = tmp_path / "archive"
    folder.mkdir()
    with asking(provider, folder, summariser="none") as (client, case):
        assert client.post(PATHS["chat"], json=body("chat", 30)).status_code == 200
        harm(case.archive)
        for name, path in PATHS.items():
            for rounds in (1, 8, 31):
                answer = client.post(path, json=body(name, rounds))
                assert answer.status_code == 200, answer.text
                assert str(folder) not in str(answer.headers), "where the archive is is nobody's business"
                unrecorded = "without a record" in answer.headers.get("x-unabridged-note", "")
                assert not (unrecorded and "x-unabridged-record" in answer.headers)
        assert (provider.refused, provider.too_long) == ([], [])
        for rounds in (1, 8):
            assert "[DONE]" in client.post(PATHS["chat"], json=body("chat", rounds, stream=True)).text


@rows("streaming", [False, True], ids=["plain", "streaming"])
@rows("length", LENGTHS)
def test_a_client_that_goes_away_ends_the_call_upstream(length: str, streaming: bool, tmp_path: Path) -> None:
    provider = ProviderApp(worker(0), window=WINDOW)
    provider.faults.append(pause_until(threading.Event()) if streaming else delay_answer(60))
    asked = json.dumps({**body("chat", LENGTHS[length]), "stream": streaming}).encode()
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(asked)}\r\n\r\n".encode()
    with asking(provider, tmp_path, summariser="none") as (client, case):
        with socket.create_connection(address_of(case), timeout=PATIENCE) as connection:
            connection.sendall(head + asked)
            wait_for(lambda: provider.raw)
        wait_for(lambda: provider.abandoned)
        assert client.post(PATHS["chat"], content=asked).status_code == 200
    assert provider.abandoned == [PATHS["chat"]]


@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_request_is_out_of_memory_when_it_is_over(length: str, streaming: bool, tmp_path: Path) -> None:
    provider = ProviderApp(worker(0), window=WINDOW)
    provider.faults.append(
        delay_answer(0.2)
    )  # so long that the gateway begins to watch whether the client is still there
    with asking(provider, tmp_path, summariser="none") as (client, _):
        gc.collect()
        gc.disable()
        try:
            asked = client.post(PATHS["chat"], json=body("chat", LENGTHS[length], stream=streaming))
            assert asked.status_code == 200
            wait_for(
                lambda: not [each for each in gc.get_objects() if type(each) in {GatewayCall, ConversationRequest}]
            )
        finally:
            gc.enable()


def test_an_archive_that_was_removed_gets_all_of_a_conversation_again(tmp_path: Path) -> None:
    provider = ProviderApp(worker(0), window=WINDOW)
    with asking(provider, tmp_path, summariser="none") as (client, case):
        for rounds in (30, 31, 60):
            if rounds == 60:
                for path in tmp_path.glob("archive.db*"):
                    path.unlink()
            answer = client.post(PATHS["chat"], json=body("chat", rounds))
            assert answer.status_code == 200
        sent = json.loads(provider.raw[-1].body)["messages"]
        with Compactor(window=WINDOW, archive=f"sqlite:///{case.archive}", format="openai-chat") as compactor:
            whole = compactor.replay(sent, thread=answer.headers["x-unabridged-thread"])
    assert whole == body("chat", 60)["messages"], "the client sent it, so it is recorded from its beginning"
