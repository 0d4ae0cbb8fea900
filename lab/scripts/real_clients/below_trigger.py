"""A client through the gateway below the trigger: every request leaves byte for byte, at the cost of a direct one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from provider_app import ProviderApp, ReceivedRequest
from real_clients.clients import Driver, Place
from real_clients.grown import Check
from real_clients.loopback import Loopback, kind_of
from real_clients.through_gateway import gateway_before
from serving import Message, Receive, Send, serve_in_thread
from unabridged_testing.loopback import LoopbackReply
from unabridged_testing.loopback_wires import ServedAnswer

WINDOW = 200_000
ANSWER = 32_000
"""Tokens of the longest answer that Claude Code asks for: its default of 128,000 would leave 72,000 for a request."""
CALLS = 20
READ = 'seq -f "station $1 level %g cm, no visit needed" 1 340\n'
"""About 14 kB a call."""
REQUEST = f"Read all {CALLS} tide stations with read.sh, one by one."
DONE = "All stations are read."
CACHE_READ, CACHE_WRITE = 0.1, 1.25
"""Prices of a token that the provider's cache holds, and of one that it writes, in prices of a token."""
_ONE_HOP = {"host", "content-length", "connection", "transfer-encoding", "keep-alive"}


class Model(ProviderApp):
    """The provider: it has the client read one station after the other."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(self._say, window=WINDOW)
        self._driver = driver
        self._is_turn = False
        self.turns = 0

    def answer(self, path: str, body: dict[str, Any]) -> ServedAnswer:
        """Answer this body."""
        self._is_turn = kind_of(path, body) == "turn"
        return super().answer(path, body)

    def _say(self, _messages: Sequence[Any]) -> LoopbackReply:
        if not self._is_turn:
            return LoopbackReply("Tide stations")
        self.turns += 1
        if self.turns > CALLS:
            return LoopbackReply(DONE)
        command = {self._driver.argument: f"sh read.sh {self.turns - 1}"}
        return LoopbackReply(f"Reading station {self.turns - 1}.", [(self._driver.shell, command)])

    def cost(self) -> float:
        """Return the price of everything that was asked, in bytes of a prompt without a cache."""
        return sum(CACHE_READ * asked.cached_bytes + CACHE_WRITE * asked.fresh_bytes for asked in self.asked)


@dataclass
class Tap:
    """An application that records each request and passes it on."""

    target: str
    requests: list[ReceivedRequest] = field(default_factory=list)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request, or the beginning and end of the server."""
        if scope["type"] != "http":
            while (message := await receive())["type"].startswith("lifespan"):
                await send({"type": f"{message['type']}.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.requests.append(ReceivedRequest(scope["method"], path, headers, body))
        await self._pass_on(self.requests[-1], send)

    async def _pass_on(self, request: ReceivedRequest, send: Send) -> None:
        kept = {name: value for name, value in request.headers.items() if name not in _ONE_HOP}
        async with (
            httpx.AsyncClient(timeout=120) as client,
            client.stream(request.method, self.target + request.path, headers=kept, content=request.body) as answer,
        ):
            back = [(name, value) for name, value in answer.headers.raw if name.decode().lower() not in _ONE_HOP]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": back})
            async for piece in answer.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def stay_below(driver: Driver, new_place: Callable[[], Place]) -> Iterator[Check]:
    """Run the client direct and through a gateway; what held."""
    direct, through = Model(driver), Model(driver)
    place = new_place()
    with serve_in_thread(direct) as upstream:
        ended = _run(driver, place, upstream)
    yield Check("it does its task without a gateway", ended and direct.turns == CALLS + 1, f"{direct.turns} turns")
    place = new_place()
    with (
        serve_in_thread(through) as upstream,
        gateway_before(upstream, WINDOW, place.home / "gateway") as gateway,
        serve_in_thread(tap := Tap(gateway.url)) as address,
    ):
        ended = _run(driver, place, address)
        made = gateway.compactions()
        lines = gateway.lines()
    yield Check("it does its task through the gateway", ended and through.turns == CALLS + 1, f"{through.turns} turns")
    came = [(request.method, request.path, request.body) for request in tap.requests]
    went = [(request.method, request.path, request.body) for request in through.raw]
    largest = max((line.get("tokens_before", 0) for line in lines), default=0)
    size = max((len(body) for _, _, body in went), default=0)
    yield Check(f"{len(went)} requests, the largest of {size:,} bytes and {largest:,} tokens", holds=True)
    different = sum(a != b for a, b in zip(came, went, strict=False)) + abs(len(came) - len(went))
    yield Check("every request leaves byte for byte", not different, f"{different} of {len(came)} differ")
    yield Check("no compaction was made", not sum(made.values()), str(made))
    ratio = through.cost() / direct.cost()
    words = f"the cost by cache prices is that of the direct run ({through.cost():,.0f} to {direct.cost():,.0f} bytes)"
    yield Check(words, abs(ratio - 1) < 0.005, f"{ratio:.4f} times")


def _run(driver: Driver, place: Place, url: str) -> bool:
    """Run the client against this address; whether it ended well."""
    place.write("project/read.sh", READ)
    driver.prepare(place, Loopback("", url=url))
    place.environment.update(CLAUDE_CODE_AUTO_COMPACT_WINDOW=str(WINDOW), CLAUDE_CODE_MAX_OUTPUT_TOKENS=str(ANSWER))
    done = place.run(*driver.ask(place, REQUEST, None), seconds=600)
    return done.returncode == 0 and DONE in done.stdout
