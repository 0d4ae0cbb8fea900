"""Send malformed requests, in their heads and in their bodies, over raw sockets to a running gateway."""

from __future__ import annotations

import json
import random
import re
import socket
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from provider_app import ProviderApp, ReceivedRequest
from real_clients.grown import Check
from real_clients.through_gateway import gateway_before
from serving import serve_in_thread
from unabridged_testing.loopback import LoopbackReply

REQUESTS = 10_000
_IN_HEADS = 10
"""One in so many is malformed in its request line or headers, the others in their bodies."""
_WINDOW = 4_000
_SILENCE = 0.1
"""Seconds without a byte after which no more of a request is to come."""
_GROWTH = 60_000_000
"""Bytes of memory by which the gateway may grow: it remembers bodies that came before."""
_LONG = "a detail that matters " * 120
_TALK = [
    {"role": "user", "content": _LONG},
    {"role": "assistant", "content": _LONG},
    {"role": "user", "content": _LONG * 3},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Go on."},
]
_CONTENTS = [
    {"role": {"assistant": "model"}.get(said["role"], "user"), "parts": [{"text": said["content"]}]} for said in _TALK
]
_BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "gpt-5", "messages": _TALK},
    "/v1/responses": {"model": "gpt-5", "input": _TALK},
    "/v1/messages": {"model": "claude-opus-5-5", "max_tokens": 9, "messages": _TALK},
    "/v1beta/models/gemini-3-pro:generateContent": {"contents": _CONTENTS},
}
_ODD: Sequence[Any] = (None, True, -1, 10**30, 0.5, "", "\ud800", [], {}, [[]], {"type": "image"}, [None], _LONG)
_PIECES = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b";", b"\xff", b"%00", b"%2e%2e", b"/../", b"\\..\\", b"//", b"#",
    b"?", b"@", b"host: evil.example\r\n", b"content-length: 5\r\n", b"content-length: 99999999999999999999\r\n",
    b"transfer-encoding: chunked\r\n", b"transfer-encoding: gzip, chunked\r\n", b"x-a: " + b"v" * 70_000 + b"\r\n",
    b"x-b: v\r\n" * 300, b"x-unabridged-thread: " + b"t" * 3_000 + b"\r\n", b"x-unabridged-thread: \xff\r\n",
    b"connection: upgrade\r\nupgrade: websocket\r\n", b"expect: 100-continue\r\n", b"HTTP/1.1", b"HTTP/9.9", b"PRI * ",
    b"content-encoding: br\r\n", b" folded: 1\r\n", b"x c: 1\r\n", b"\x80: 1\r\n", b": 1\r\n",
)  # fmt: skip
_NUMBER = re.compile(r"\?n=(\d{1,6})$")
_ADDED = {"host", "content-length", "transfer-encoding", "accept-encoding"}
"""Headers that the gateway sends by itself."""


def malformed(number: int, seed: int = 1) -> Iterator[bytes]:
    """Yield so many requests, the same ones for the same seed."""
    draw = random.Random(seed)  # noqa: S311 - it has to be the same each time
    for place in range(number):
        path = draw.choice(list(_BODIES))
        if place % _IN_HEADS:
            yield _request(f"{path}?n={place}", _spoilt_body(draw, _BODIES[path]), draw)
        else:
            small = json.dumps({**_BODIES[path], "x": place}).encode() if draw.random() < 0.5 else b"{}"
            yield _spoilt_head(draw, _request(f"{path}?n={place}", small, draw))


def _request(path: str, body: bytes, draw: random.Random) -> bytes:
    framed, about = body, f"content-length: {len(body)}"
    if draw.random() < 0.2:
        framed, about = (
            b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n",
            "transfer-encoding: chunked",
        )
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{about}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + framed


def _spoilt_body(draw: random.Random, body: Any) -> bytes:
    """Put something odd somewhere, take something out, or change bytes."""
    for _ in range(draw.randint(1, 3)):
        body = _spoilt(draw, body)
    data = json.dumps(body).encode()
    if draw.random() < 0.3:
        at = draw.randint(0, len(data))
        data = data[:at] + draw.randbytes(draw.randint(0, 8)) + data[at + draw.randint(0, 8) :]
    return data


def _spoilt(draw: random.Random, value: Any) -> Any:
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not keys or draw.random() < 0.2:
        return draw.choice(_ODD)
    key, how = draw.choice(keys), draw.random()
    if isinstance(value, dict):
        if how < 0.2:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _spoilt(draw, value[key])}
    if how < 0.2:
        return value[:key] + value[key + 1 :]
    return [*value[:key], _spoilt(draw, value[key]), *value[key + (how < 0.8) :]]


def _spoilt_head(draw: random.Random, request: bytes) -> bytes:
    """Put something odd into the request line or the headers, take bytes out, or cut it off."""
    end = request.index(b"\r\n\r\n")
    first = request.index(b"\r\n")
    for _ in range(draw.randint(1, 3)):
        at, how = draw.randint(0, draw.choice((first, end))), draw.random()
        at = request.index(b"\r\n") + 2 if how < 0.3 and b"\r\n" in request else at
        taken = draw.randint(1, 9) if how > 0.8 else 0
        request = request[:at] + draw.choice(_PIECES) + request[at + taken :]
    return request[: draw.randint(0, end)] if draw.random() < 0.1 else request


class Answered(NamedTuple):
    """The outcome of one request."""

    sent: bytes
    status: int
    """Of the first answer; 0 for a connection that was closed, -1 for one that neither answered nor closed."""


def changes(rounds: Sequence[Sequence[Answered]], seen: Sequence[ReceivedRequest]) -> Iterator[str]:
    """Yield what the provider got that no client sent; the number in a path says which request to look at first."""
    sent = [[one.sent for one in answered] for answered in rounds]
    for request in seen:
        path = request.path.encode("latin-1")
        number = int(told[1]) if (told := _NUMBER.search(request.path)) else -1
        likely = [one[number] for one in sent if 0 <= number < len(one)]
        found = [one for one in likely if path in one] or [one for each in sent for one in each if path in one]
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
        own = [(name, value) for name, value in pairs if name.decode("latin-1") not in _ADDED]
        if not any(all(name in one.lower() and value in one for name, value in own) for one in found):
            yield f"{request.path} {request.headers}"


def ask(address: tuple[str, int], request: bytes) -> Answered:
    """Send the request and wait for what becomes of it."""
    said, status = b"", 0
    with socket.create_connection(address, timeout=_SILENCE) as connection:
        try:
            connection.sendall(request)
            while len(said) < 1_000_000 and (piece := _next(connection)):
                said += piece
        except ConnectionError:
            pass
        except TimeoutError:
            status = -1
    if said.startswith(b"HTTP/1.1 "):
        status = int(said[9:12])
    return Answered(request, status)


def _next(connection: socket.socket) -> bytes:
    """Return what comes next; a server that waits for more is told that there is none."""
    try:
        return connection.recv(65_536)
    except TimeoutError:
        connection.settimeout(30)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(65_536)


def attack(address: tuple[str, int], number: int, seed: int = 1) -> list[Answered]:
    """Send so many requests, one after the other."""
    return [ask(address, request) for request in malformed(number, seed)]


def go_malformed(number: int = REQUESTS) -> Iterator[Check]:
    """Send them to a gateway that runs as a process; what held."""
    provider = ProviderApp(lambda _: LoopbackReply("Fine."), window=100_000)
    with (
        tempfile.TemporaryDirectory() as home,
        serve_in_thread(provider) as upstream,
        gateway_before(upstream, _WINDOW, Path(home), "--summariser", "none") as gateway,
    ):
        parts = urlsplit(gateway.url)
        address = (parts.hostname or "", parts.port or 0)
        first = attack(address, number // 10, seed=2)  # whatever the first ones take
        before = _memory(gateway.url)
        answered = attack(address, number)
        after = _memory(gateway.url)
        log = gateway.log.read_text(encoding="utf-8")
    kinds = Counter(one.status for one in answered)
    listed = ", ".join(f"{number:,} {status or 'closed'}" for status, number in sorted(kinds.items()))
    heads = len(answered[::_IN_HEADS])
    yield Check(
        f"{len(answered):,} malformed requests, {heads:,} of them in the head: {listed}", len(answered) == number
    )
    yield Check("each is answered, or its connection closed", -1 not in kinds)
    wrong = [one for one in answered if one.status >= 500]
    yield Check("none is an error of the gateway's", not wrong, f"{wrong[:1]}")
    changed = list(changes([first, answered], provider.raw))
    yield Check("the provider got no path and no header that was not sent", not changed, f"{changed[:3]}")
    yield Check("no exception is in the log", '"error"' not in log and "Exception" not in log, log[-300:])
    yield Check(f"memory {before / 1e6:.0f} and {after / 1e6:.0f} MB", after - before < _GROWTH)


def _memory(url: str) -> float:
    """Return the gateway's memory in bytes, as it tells it itself."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as page:  # noqa: S310 - of our own gateway
        lines = page.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith("process_resident_memory_bytes")).split()[1])


if __name__ == "__main__":
    import sys

    from real_clients.report import say

    sys.exit(min(1, say("malformed requests to the gateway", go_malformed())))
