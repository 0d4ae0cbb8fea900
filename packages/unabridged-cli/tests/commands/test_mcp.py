"""The MCP server, asked by the official SDK's own client over both transports."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE
from planted import Fact, compacted, facts, look_up
from unabridged.archive.opening import open_archive
from unabridged.archive.protocol import Scope
from unabridged.errors import SettingsError
from unabridged.recall.tools import tools
from unabridged_cli.mcp_server import build_http_app, build_server, serve

mcp = pytest.importorskip("mcp")

TOKEN = "a-token-nobody-will-guess"  # noqa: S105 - for a server that lives as long as the test
MINE, OTHER, RIVAL = Scope("app", "t"), Scope("app", "other"), Scope("rival", "t")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive with three threads, each compacted at least three times, each with facts of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('mcp')}/archive.db"
    for scope, seed in ((MINE, "A"), (OTHER, "B"), (RIVAL, "C")):
        assert compacted(url, *scope, facts(seed)) >= 3
    return url


def child(url: str, scope: Scope, **options: Any) -> list[str]:
    """The command line of a server for this thread."""
    arguments = ", ".join([repr(url), *map(repr, scope), *(f"{key}={value!r}" for key, value in options.items())])
    return [sys.executable, "-c", f"from unabridged_cli.mcp_server import serve; serve({arguments})"]


@contextmanager
def listening(url: str, scope: Scope, **options: Any) -> Iterator[str]:
    """The address of a server that runs as a process of its own, on a port it found."""
    process = subprocess.Popen(
        child(url, scope, transport="http", port=0, **options), stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://\S+", said)
        assert found, said + process.stderr.read()
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def places(url: str) -> Iterator[dict[str, Any]]:
    """Where a client finds the server, by transport."""
    command, *args = child(url, MINE)
    with listening(url, MINE) as address:
        yield {"stdio": mcp.StdioServerParameters(command=command, args=args), "http": address}


TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])
MOSTLY_HTTP = pytest.mark.parametrize("transport", [pytest.param("stdio", marks=pytest.mark.long), "http"])
"""What the server says does not depend on the transport, and over stdio each test starts a server of its own."""


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(steps, PATIENCE))


async def said(client: Any, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    return str(content.text), bool(result.is_error)


async def ask_for_all(client: Any, planted: list[Fact]) -> dict[str, str | None]:
    """The scripted agent, its calls going over the wire."""
    loop = asyncio.get_running_loop()

    def call(name: str, arguments: dict[str, Any]) -> str:
        return asyncio.run_coroutine_threadsafe(said(client, name, arguments), loop).result(PATIENCE)[0]

    return {fact.subject: await asyncio.to_thread(look_up, call, fact) for fact in planted}


@TRANSPORTS
def test_the_official_client_lists_both_tools(places: dict[str, Any], transport: str) -> None:
    # R39
    async def steps() -> None:
        async with mcp.Client(places[transport]) as client:
            listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["search_history", "read_history"]
        assert [tool.input_schema["required"] for tool in listed] == [["query"], ["ref"]]
        assert all(tool.annotations.read_only_hint for tool in listed)

    run(steps())


@MOSTLY_HTTP
def test_an_agent_gets_fifty_facts_over_the_wire(places: dict[str, Any], transport: str) -> None:
    # R39
    async def steps() -> None:
        async with mcp.Client(places[transport]) as client:
            assert await ask_for_all(client, facts()) == dict(facts())

    run(steps())


@MOSTLY_HTTP
def test_what_belongs_to_others_is_out_of_reach(url: str, places: dict[str, Any], transport: str) -> None:
    archive = open_archive(url)
    foreign = {
        result
        for scope in (OTHER, RIVAL)
        for result in re.findall(
            r"ref (\S+),", tools(archive, scope).call("search_history", {"query": "command that fixed", "limit": 20})
        )
    }
    assert len(foreign) > 10
    secrets = [fact.value for seed in "BC" for fact in facts(seed)]
    archive.close()

    async def steps() -> None:
        async with mcp.Client(places[transport]) as client:
            for ref in [*foreign, *(f"{i}-{i:010x}" for i in range(10)), "../other/1", "app/other"]:
                text, error = await said(client, "read_history", {"ref": ref})
                assert error
                assert text.startswith("[recall] no such reference in this thread")
            for thread in ("other", "rival"):
                text, error = await said(client, "search_history", {"query": "command", "thread": thread})
                assert error
                assert "there is no argument" in text
            text, _ = await said(client, "search_history", {"query": "command that fixed ticket path", "limit": 20})
            assert not any(secret in text for secret in secrets)

    run(steps())


@MOSTLY_HTTP
def test_wrong_and_hostile_calls_are_answered(places: dict[str, Any], transport: str) -> None:
    async def steps() -> None:
        async with mcp.Client(places[transport]) as client:
            for query in ('"', "' OR 1=1; --", "NEAR(", "x" * 20_000, "\0", "数" * 3_000, "\U000e0041"):
                text, error = await said(client, "search_history", {"query": query})
                assert text.startswith("[recall] ")
                assert not error
            for name, arguments in (("search_history", {}), ("read_history", {"ref": ["1"]}), ("drop", {"query": "x"})):
                text, error = await said(client, name, arguments)
                assert error
                assert text.startswith("[recall] ")
            text, error = await said(client, "read_history", {"ref": "0"})
            assert not error
            assert "Step 0." in text

    run(steps())


@TRANSPORTS
def test_a_client_of_the_older_handshake_is_served_too(places: dict[str, Any], transport: str) -> None:
    async def steps() -> None:
        async with mcp.Client(places[transport], mode="legacy") as client:
            text, error = await said(client, "read_history", {"ref": "[0]"})
        assert not error
        assert "Step 0." in text

    run(steps())


def test_lone_surrogates_cross_the_wire(tmp_path: Path) -> None:
    archive = open_archive(f"sqlite:///{tmp_path}/a.db")
    compacted(archive, *MINE, [Fact(f"odd {i}", f"a\ud800b{i}") for i in range(40)])

    async def steps() -> None:
        async with mcp.Client(build_server(tools(archive, MINE))) as client:
            found, _ = await said(client, "search_history", {"query": "odd"})
            read, _ = await said(client, "read_history", {"ref": "0"})
        assert "odd 0 = a\\ud800b0" in read
        assert "odd" in found

    run(steps())
    archive.close()


def test_with_a_token_only_those_who_have_it_are_answered(url: str) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def steps(address: str) -> None:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as allowed:
            async with mcp.Client(streamable_http_client(address, http_client=allowed)) as client:
                assert len((await client.list_tools()).tools) == 2
            for wrong in ({}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"}):
                async with httpx2.AsyncClient(headers=wrong) as refused:
                    answer = await refused.post(address, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
                assert answer.status_code == 401
                assert answer.content == b""

    with listening(url, MINE, token=TOKEN) as address:
        run(steps(address))


def test_a_web_page_can_not_ask_through_a_name_that_points_here(places: dict[str, Any]) -> None:
    import httpx2

    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    usual = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    for header in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        answer = httpx2.post(places["http"], content=body, headers={**usual, **header})
        assert answer.status_code in {403, 421}


def test_what_would_open_the_record_to_the_network_is_refused() -> None:
    for options in (
        {"transport": "http", "host": "0.0.0.0"},  # noqa: S104 - to see it refused
        {"transport": "http", "host": "example.org"},
        {"transport": "http", "token": "short"},
        {"transport": "carrier pigeon"},
        *({"transport": "http", "port": port} for port in (-1, 65536, 99999)),
    ):
        with pytest.raises(SettingsError):
            serve("memory:", "app", "t", **options)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="token"):
        build_http_app(build_server(tools(open_archive("memory:"), MINE)), host="::")


def test_a_port_that_is_taken_is_said(places: dict[str, Any]) -> None:
    port = int(places["http"].rsplit(":", 1)[1].partition("/")[0])
    with pytest.raises(SettingsError, match="Choose another port"):
        serve("memory:", "app", "t", transport="http", port=port)
