"""What the gateway takes of anybody, before it knows a token: raw sockets against a real server."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gateway_case import say
from patience import PATIENCE
from provider_app import ProviderApp
from provider_faults import delay_answer
from serving import serve_in_thread
from unabridged_gateway.app import Gateway
from unabridged_gateway.config_file import load_config
from unabridged_gateway.connections import build_connection_class

TOKEN = "a-gateway-token-of-its-own"  # noqa: S105 - of this test
START = b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n"
CLOSE = b"connection: close\r\n\r\n"


class Door:
    """The address of a gateway, and the provider behind it."""

    def __init__(self, url: str, provider: ProviderApp) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self.address, self.provider = (host, int(port)), provider

    def ask(self, *pieces: bytes) -> bytes:
        """Send these, and return all that comes back until the connection is closed."""
        with socket.create_connection(self.address, timeout=PATIENCE) as connection:
            said = b""
            try:
                for piece in pieces:
                    connection.sendall(piece)
                while piece := connection.recv(65_536):
                    said += piece
            except ConnectionError:  # closed while more was sent
                pass
            return said

    def status(self, *pieces: bytes) -> int:
        """Return the status of the first answer; 0 for a connection that was closed without one."""
        said = self.ask(*pieces)
        return int(said.split(b" ")[1]) if said else 0


@contextmanager
def door(**flags: Any) -> Iterator[Door]:
    """A gateway with its own kind of connections."""
    provider = ProviderApp(say, window=8_000)
    with serve_in_thread(provider) as upstream:
        given = {"upstream": upstream, "window": "8k", "archive": "memory:", "summariser": "none", "port": 0, **flags}
        config = load_config(None, **given)
        with serve_in_thread(Gateway(config), http=build_connection_class(config.listening)) as url:
            yield Door(url, provider)


def headers(number: int, size: int = 20) -> bytes:
    return b"".join(b"x-h-%d: %s\r\n" % (place, b"v" * size) for place in range(number))


@pytest.mark.parametrize("flags", [{}, {"token": [TOKEN]}], ids=["open", "tokens"])
def test_a_head_above_the_limits_is_refused_before_anything_else(flags: dict[str, Any]) -> None:
    with door(**flags) as one:
        taken = 401 if flags else 404
        assert one.status(START, headers(197), CLOSE) in {taken, 200}, "with host and connection 199"
        assert one.status(START, headers(30, 2_000), CLOSE) in {taken, 200}
        for pieces in (
            [START, headers(300), CLOSE],
            [START, headers(100_000), CLOSE],
            [START, headers(40, 2_000), CLOSE],
            [START, b"x-h: ", b"v" * 70_000, b"\r\n", CLOSE],
            [START, b"x-h: ", *[b"v" * 1_000_000] * 20, b"\r\n", CLOSE],
            [b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n", CLOSE],
            [b"\r\n" * 40_000, START, CLOSE],
            [START, b"x-h: " + b"v" * 200_000],
            [START, headers(201)],
        ):
            assert one.status(*pieces) in {431, 0}, pieces[0][:40]
        assert one.provider.raw == [] or not flags


def test_what_follows_a_head_has_the_limit_too() -> None:
    """Trailers, chunk extensions and a second request on the connection; a body does not."""
    post = b"POST /v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n"
    ping = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    big = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [b"p" * 30_000] * 20)
    with door() as one:
        assert one.status(post, CLOSE, big, b"0\r\nx-t: 1\r\n\r\n") == 404, "as the provider says"
        assert one.provider.raw[0].body == b"p" * 600_000
    with door(token=[TOKEN]) as one:
        for ending in (b"0\r\n" + headers(100_000), b"0\r\nx-t: " + b"v" * 900_000, b"5;" + b"e" * 900_000):
            said = one.ask(post + b"\r\n" + big, ending)
            assert said.startswith(b"HTTP/1.1 401 ") or not said
            assert said.count(b"HTTP/1.1 ") == 1 or b"HTTP/1.1 431 " in said
        for second in (headers(300), b"x-h: " + b"v" * 70_000 + b"\r\n"):
            said = one.ask(ping + b"\r\n" + START + second + CLOSE)
            assert b"HTTP/1.1 401 " not in said, "the second is not served"


def test_trailers_are_no_headers() -> None:
    chunks = b"2\r\n{}\r\n0\r\nx-late: 1\r\nauthorization: Bearer late\r\n\r\n"
    with door() as one:
        post = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n"
        assert one.status(post + CLOSE + chunks)
        (sent,) = one.provider.raw
        assert not {"x-late", "authorization"} & set(sent.headers)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 0),
        (b"GET", 408),
        (START, 408),
        (b"\r\n", 408),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\nGE", 408),
    ],
)
def test_a_head_that_does_not_end_is_not_waited_for(sent: bytes, status: int) -> None:
    with door(head_timeout=0.4) as one:
        begun = time.monotonic()
        said = one.ask(sent)
        assert (b"HTTP/1.1 408 " in said) is (status == 408)
        assert 0.3 < time.monotonic() - begun < 15


def test_a_head_that_comes_slowly_is_not_waited_for_however_much_of_it_comes() -> None:
    def drip(connection: socket.socket) -> None:
        for number in range(150):
            connection.sendall(b"GET / HTTP/1.1\r\n" if not number else b"x-%d: 1\r\n" % number)
            time.sleep(0.1)

    with (
        door(head_timeout=0.6) as one,
        socket.create_connection(one.address, timeout=PATIENCE) as connection,
        pytest.raises(ConnectionError),
    ):
        drip(connection)


def test_a_connection_stays_open_between_requests_and_during_a_long_answer() -> None:
    ping = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with door(head_timeout=1.5) as one, socket.create_connection(one.address, timeout=PATIENCE) as connection:
        for _ in range(2):
            connection.sendall(ping)
            assert connection.recv(1_000).startswith(b"HTTP/1.1 200 ")
            time.sleep(1.8)
        one.provider.faults.append(delay_answer(2.5))
        connection.sendall(START + b"\r\n" + b"GET /v1/mo")  # the rest comes when the first is answered
        assert connection.recv(100_000).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"dels HTTP/1.1\r\nhost: 127.0.0.1\r\n" + CLOSE)
        assert b"HTTP/1.1 200 " in b"".join(iter(lambda: connection.recv(65_536), b""))


OWN = ["127.0.0.1", "localhost", "LOCALHOST:80", "a.b.localhost", "127.8.9.1:1", "[::1]", "[::1]:8484", "localhost."]
FOREIGN = [
    "evil.example", "evil.example:8484", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", "::1",
    "", "10.0.0.1", "[::2]", "127.0.0.1@evil.example", "0x7f.1", "2130706433", "[]", "127.1",
]  # fmt: skip


@pytest.mark.parametrize("path", [b"/metrics", b"/healthz", b"/v1/models"])
def test_without_tokens_a_request_under_another_name_is_misdirected(path: bytes) -> None:
    with door() as one:
        for host in OWN:
            assert one.status(b"GET %s HTTP/1.1\r\nhost: %s\r\n" % (path, host.encode()) + CLOSE) != 421, host
        before = len(one.provider.raw)
        for host in FOREIGN:
            assert one.status(b"GET %s HTTP/1.1\r\nhost: %s\r\n" % (path, host.encode()) + CLOSE) == 421, host
        assert one.status(b"GET %s HTTP/1.1\r\n" % path + CLOSE) in {400, 421}, "none"
        two = b"GET %s HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n" % path
        assert one.status(two + CLOSE) in {400, 421}
        assert len(one.provider.raw) == before


def test_with_tokens_any_name_is_taken_unless_some_are_set() -> None:
    with door(token=[TOKEN]) as one:
        for host in (*OWN, *FOREIGN):
            assert one.status(b"GET /healthz HTTP/1.1\r\nhost: %s\r\n" % host.encode() + CLOSE) == 200, host
    with door(token=[TOKEN], hosts=["Gateway.example"]) as one:
        for host, status in [
            ("gateway.example", 200),
            ("GATEWAY.example:80", 200),
            ("127.0.0.1", 200),
            ("x.example", 421),
        ]:
            assert one.status(b"GET /healthz HTTP/1.1\r\nhost: %s\r\n" % host.encode() + CLOSE) == status, host
    with door(hosts=["gateway.example"]) as one:
        assert one.status(b"GET /healthz HTTP/1.1\r\nhost: gateway.example\r\n" + CLOSE) == 200
        assert one.status(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + CLOSE) == 200


DOTTED = [
    "/..", "/.", "/../admin", "/v1/../admin", "/v1/./models", "/%2e%2e/admin", "/%2E./admin", "/v1/..%2f..%2fadmin",
    "/v1%2f..%2fadmin", "/v1\\..\\admin", "/v1%5c..%5cadmin", "/v1/..\\x", "/v1/models/..", "/v1/models/%2e", "//..//x",
]  # fmt: skip
UNDOTTED = [
    "/...", "/.well-known/x", "/v1/..a", "/v1/a..", "/a.b/c..d", "/v1/%2e%2ea", "/%252e%252e/x", "/a%00b", "//a//b",
    "/v1/models?x=/../y", "/a;b=../c", "/%c3%a9", "/%ff", "/a'(b)*!$&,~", "/a[1]|{2}^`", "/a\\b", "/%2F%2f", "/a?",
    "/a??b#", "/v1/models?q=%2e%2e/", "/a+b%20c", "/v1/:x@y", "/a?b=\\&c={}|^`'\"<>",
]  # fmt: skip


def test_a_path_with_a_dot_segment_is_refused_and_every_other_goes_on_byte_for_byte() -> None:
    with door() as one:
        for path in DOTTED:
            assert one.status(b"GET %s HTTP/1.1\r\nhost: 127.0.0.1\r\n" % path.encode() + CLOSE) == 400, path
        assert one.provider.raw == []
        for path in UNDOTTED:
            status = one.status(b"GET %s HTTP/1.1\r\nhost: 127.0.0.1\r\n" % path.encode() + CLOSE)
            if "#" in path:
                assert status == 400, path
                continue
            assert one.provider.raw, (path, status)
            assert one.provider.raw.pop().path == path.removesuffix("?"), path
