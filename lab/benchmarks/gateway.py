"""Load on the gateway beside a bare pass-through with the same libraries, and LiteLLM: CPU, p50, p99, memory."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import psutil

from benchmarks.environments import python_of

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


PLAIN = (
    Case("20 kB, unparsed", 20_000, "200k", "bare", 2_000),
    Case("400 kB, parsed, below the trigger", 400_000, "1m", "bare-parsed", 300),
    Case("800 kB, with a recorded prefix", 800_000, "100k", "bare-parsed", 200, grows=12),
)
CASES = [each for case in PLAIN for each in (case, case._replace(name=f"{case.name}, streamed", streamed=True))]
CLIENTS = (1, 16, 64)
KEY = "sk-of-this-benchmark"
LITELLM = "litellm[proxy]"
FEWER = 20
"""LiteLLM is asked so many times less often: its requests take as much longer."""


class Server:
    """A server process, with its CPU time and memory."""

    def __init__(self, command: Sequence[str], port: int, **variables: str) -> None:
        self._child = subprocess.Popen(
            command, cwd=Path(__file__).parents[1], env=os.environ | variables, stdout=subprocess.DEVNULL
        )
        self._process = psutil.Process(self._child.pid)
        self.url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(port)
        except RuntimeError:
            self.close()
            raise

    @property
    def cpu(self) -> float:
        """Return the seconds of CPU so far."""
        used = self._process.cpu_times()
        return float(used.user + used.system)

    @property
    def megabytes(self) -> float:
        """Return the memory in use now."""
        return float(self._process.memory_info().rss) / 1e6

    def close(self) -> None:
        """End the process."""
        self._child.terminate()
        self._child.wait()


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """Return a row for each kind of request and number of clients; LiteLLM is left out of a quick run."""
    rows = []
    with serving("upstream") as upstream:
        for case in CASES:
            with ExitStack() as stack:
                servers = {
                    "bare": stack.enter_context(serving(case.beside, upstream.url)),
                    "gateway": stack.enter_context(serving("gateway", upstream.url, case.window)),
                }
                if not quick:
                    servers["litellm"] = stack.enter_context(_litellm(upstream.url))
                bodies = bodies_of(case)
                for server in servers.values():
                    _load(server, bodies, 4, 2 * len(bodies))  # whatever the first ones cost
                rows += [_row(case, bodies, clients, servers, 20 if quick else 1) for clients in CLIENTS]
                print(json.dumps(rows[-len(CLIENTS) :]), file=sys.stderr)
        if not quick:
            rows.append(_memory(upstream))
    return rows


def _row(
    case: Case, bodies: Sequence[bytes], clients: int, servers: Mapping[str, Server], fewer: int
) -> dict[str, Any]:
    best: dict[str, Took] = {}
    for _ in range(ROUNDS):
        for name, server in servers.items():
            requests = case.requests // (fewer * FEWER if name == "litellm" else fewer)
            found = _load(server, bodies, clients, max(clients, requests))
            best[name] = min(found, best.get(name, found))
    ours, bare = best["gateway"], best["bare"]
    columns = ("", "gateway"), ("bare ", "bare"), ("LiteLLM ", "litellm")
    shown = {
        f"{label}{what}": round(getattr(best[name], field), digits)
        for what, field, digits in (("CPU ms", "cpu", 3), ("p50 ms", "median", 1), ("p99 ms", "slow", 1))
        for label, name in columns
        if name in best
    }
    return {"request": case.name, "clients": clients, "ratio": round(ours.cpu / bare.cpu, 2), **shown}


def _memory(upstream: Server) -> dict[str, Any]:
    """Measure memory over 60,000 requests of ten growing conversations."""
    case = PLAIN[0]
    with serving("gateway", upstream.url, "8k") as gateway:
        bodies = [body for number in range(10) for body in bodies_of(case._replace(grows=20), str(number))]
        found = []
        for requests in (2_000, 8_000, 10_000, 20_000, 20_000):
            _load(gateway, bodies, 16, requests)
            found.append(round(gateway.megabytes))
        return {"request": "MB after 2,000, 10,000, 20,000, 40,000 and 60,000 requests", "MB": found}


class Took(NamedTuple):
    """The cost of requests in ms: CPU of the server for each, and the median and 99th percentile of their duration."""

    cpu: float
    median: float
    slow: float


def _load(server: Server, bodies: Sequence[bytes], clients: int, requests: int) -> Took:
    before = server.cpu
    took = sorted(asyncio.run(_ask(server.url, bodies, clients, requests)))
    cpu = (server.cpu - before) / requests
    return Took(cpu * 1e3, took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3)


async def _ask(url: str, bodies: Sequence[bytes], clients: int, requests: int) -> list[float]:
    took: list[float] = []
    left = iter(range(requests))
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}

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
    """Return request bodies of this size; for a growing conversation, one for each length."""
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
        more = {"stream": True} if case.streamed else {}
        bodies.append(json.dumps({"model": "gpt-5", "messages": messages, **more}).encode())
    return bodies


@contextmanager
def serving(role: str, *arguments: str) -> Iterator[Server]:
    """Run a server of `gateway_servers` until the block ends."""
    port = _free_port()
    server = Server([sys.executable, "-m", "benchmarks.gateway_servers", role, str(port), *arguments], port)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def _litellm(upstream: str) -> Iterator[Server]:
    """Run LiteLLM's proxy with this upstream, as documented, in its own environment until the block ends."""
    python, port = python_of("litellm", [LITELLM]), _free_port()
    model = {"model": "openai/gpt-5", "api_base": f"{upstream}/v1", "api_key": "none"}
    settings = {
        "model_list": [{"model_name": "gpt-5", "litellm_params": model}],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"telemetry": False},
    }
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"  # JSON is YAML
        config.write_text(json.dumps(settings))
        command = [str(Path(python).with_name("litellm")), "--config", str(config), "--port", str(port)]
        server = Server(
            [*command, "--host", "127.0.0.1"], port, LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_LOG="ERROR"
        )
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
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("a server did not start within 120 s")
