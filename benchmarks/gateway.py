"""Load on the gateway beside a bare pass-through with the same libraries: CPU a request, p50 and p99, memory."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import psutil

ROUNDS = 3
"""Of which the best counts: whatever else the machine does only adds."""


class Case(NamedTuple):
    """One kind of request."""

    name: str
    size: int
    window: str
    beside: str
    requests: int
    streamed: bool = False
    grows: int = 1
    """How many histories of the conversation are sent in turn, each longer than the one before."""


CASES = (
    Case("20 kB, unparsed", 20_000, "200k", "bare", 2_000),
    Case("20 kB, unparsed, streamed", 20_000, "200k", "bare", 1_000, streamed=True),
    Case("400 kB, parsed, below the trigger", 400_000, "1m", "bare-parsed", 300),
    Case("800 kB, with a recorded prefix", 800_000, "100k", "bare-parsed", 200, grows=12),
)
CLIENTS = (1, 16, 64)


class Server:
    """A process that serves, and what it has used."""

    def __init__(self, *arguments: str) -> None:
        self.port = _free_port()
        role, *rest = arguments
        command = [sys.executable, "-m", "benchmarks.gateway_servers", role, str(self.port), *rest]
        self._child = subprocess.Popen(command, cwd=Path(__file__).parents[1])
        self._process = psutil.Process(self._child.pid)
        self.url = f"http://127.0.0.1:{self.port}"
        _wait_for(self.port)

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far."""
        used = self._process.cpu_times()
        return float(used.user + used.system)

    @property
    def megabytes(self) -> float:
        """Memory now."""
        return float(self._process.memory_info().rss) / 1e6

    def close(self) -> None:
        """End the process."""
        self._child.terminate()
        self._child.wait()


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """A row for each kind of request and number of clients."""
    rows = []
    with serving("upstream") as upstream:
        for case in CASES:
            requests = case.requests // (20 if quick else 1)
            with serving(case.beside, upstream.url) as bare, serving("gateway", upstream.url, case.window) as gateway:
                bodies = bodies_of(case)
                for server in (bare, gateway):
                    _load(server, case, bodies, 4, 2 * len(bodies))  # whatever the first ones cost
                rows += [_row(case, bodies, clients, requests, (bare, gateway)) for clients in CLIENTS]
        if not quick:
            rows.append(_memory(upstream))
    return rows


def _row(
    case: Case, bodies: Sequence[bytes], clients: int, requests: int, servers: tuple[Server, Server]
) -> dict[str, Any]:
    bare, gateway = servers
    best: dict[Server, tuple[float, float, float]] = {}
    for _ in range(ROUNDS):
        for server in (bare, gateway):
            found = _load(server, case, bodies, clients, requests)
            best[server] = min(found, best.get(server, found))
    mine, theirs = best[gateway], best[bare]
    return {
        "request": case.name,
        "clients": clients,
        "CPU ms": round(mine[0], 3),
        "bare": round(theirs[0], 3),
        "ratio": round(mine[0] / theirs[0], 2),
        "p50 ms": round(mine[1], 1),
        "bare p50": round(theirs[1], 1),
        "p99 ms": round(mine[2], 1),
        "bare p99": round(theirs[2], 1),
    }


def _memory(upstream: Server) -> dict[str, Any]:
    """Memory after 2,000 requests and after 20,000, of ten conversations that go on."""
    case = CASES[0]
    with serving("gateway", upstream.url, "8k") as gateway:
        bodies = [body for number in range(10) for body in bodies_of(case._replace(grows=20), str(number))]
        _load(gateway, case, bodies, 16, 2_000)
        before = gateway.megabytes
        _load(gateway, case, bodies, 16, 18_000)
        return {"request": "memory after 2,000 and 20,000", "CPU ms": round(before, 1), "bare": gateway.megabytes}


def _load(
    server: Server, case: Case, bodies: Sequence[bytes], clients: int, requests: int
) -> tuple[float, float, float]:
    """CPU a request, and the median and the 99th of how long they took, in ms."""
    before = server.cpu
    took = sorted(asyncio.run(_ask(server.url, bodies, clients, requests, streamed=case.streamed)))
    cpu = (server.cpu - before) / requests
    return cpu * 1e3, took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3


async def _ask(url: str, bodies: Sequence[bytes], clients: int, requests: int, *, streamed: bool) -> list[float]:
    took: list[float] = []
    left = iter(range(requests))
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    if streamed:
        headers["x-stream"] = "1"

    async def ask(client: aiohttp.ClientSession) -> None:
        for number in left:
            start = time.perf_counter()
            body = bodies[number % len(bodies)]
            async with client.post(f"{url}/v1/chat/completions", data=body, headers=headers) as answer:
                await answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"{answer.status}: {await answer.text()}")
            took.append(time.perf_counter() - start)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        await asyncio.gather(*(ask(client) for _ in range(clients)))
    return took


def bodies_of(case: Case, name: str = "") -> list[bytes]:
    """Requests of this size; of a conversation that grows, one for each length."""
    messages: list[dict[str, str]] = []
    size = 0
    while size < case.size or len(messages) % 2 == 0:
        who = "assistant" if len(messages) % 2 else "user"
        text = f"turn {len(messages)} of {name}: " + "some words of a text that goes on " * 12
        messages.append({"role": who, "content": text})
        size += len(text) + 40
    bodies = []
    for number in range(case.grows):
        if number:
            messages += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": f"Go on, {number}."}]
        bodies.append(json.dumps({"model": "gpt-5", "messages": messages}).encode())
    return bodies


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    """A server of this kind, until the block ends."""
    server = Server(*arguments)
    try:
        yield server
    finally:
        server.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("a server did not start within 30 s")
