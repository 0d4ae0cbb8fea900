"""The gateway's record for its clients: search and read over MCP, by the real client, each tenant its own."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gateway_case import PATHS, body_of, gateway_before, say
from provider_app import ProviderApp
from rows import rows
from unabridged.archive import open_archive
from unabridged.formats import FORMATS
from unabridged_gateway.recall_server import ConversationTools

mcp = pytest.importorskip("mcp")
httpx2 = pytest.importorskip("httpx2")

TOKENS = {name: f"a-gateway-token-of-{name}" for name in ("alice", "bob")}
OPTIONS: dict[str, Any] = {"token": [f"{name}={token}" for name, token in TOKENS.items()]}
SUMMARY_ID = re.compile(r"unabridged summary ([0-9a-f]{12})")
FIELDS = {"chat": "messages", "messages": "messages", "responses": "input", "contents": "contents"}
WIRES = {"chat": "openai-chat", "messages": "anthropic", "responses": "openai-responses", "contents": "gemini"}
RECALL_LINE = "read_history takes its number"


@pytest.fixture
def provider() -> ProviderApp:
    return ProviderApp(say, window=8_000)


@pytest.fixture
def client(provider: ProviderApp) -> Iterator[httpx.Client]:
    with gateway_before(provider, **OPTIONS) as one:
        yield one


def converse(client: httpx.Client, provider: ProviderApp, tenant: str, secret: str) -> str:
    """Send a conversation that is compacted; return the id in the first line of the summary that the model reads."""
    body = body_of("chat", 100)
    body["messages"][4]["content"] = f"The pump's code is {secret}. " + "detail " * 60
    answer = client.post(PATHS["chat"], json=body, headers={"x-unabridged-token": TOKENS[tenant]})
    assert answer.status_code == 200
    found = SUMMARY_ID.search(provider.raw[-1].body.decode())
    assert found is not None
    return found[1]


@asynccontextmanager
async def tools_of(client: httpx.Client, tenant: str) -> Any:
    """The MCP client of a tenant."""
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers={"x-unabridged-token": TOKENS[tenant]}) as http,
        mcp.Client(streamable_http_client(f"{client.base_url}/mcp", http_client=http)) as opened,
    ):
        yield opened


async def ask(opened: Any, name: str, **arguments: Any) -> tuple[str, bool]:
    result = await opened.call_tool(name, arguments)
    return result.content[0].text, bool(result.is_error)


def test_each_tenant_searches_and_reads_its_own_conversations_alone(
    client: httpx.Client, provider: ProviderApp
) -> None:
    secrets = {name: f"{name}-4711" for name in TOKENS}
    ids = {name: converse(client, provider, name, secret) for name, secret in secrets.items()}

    async def steps(name: str, other: str) -> None:
        async with tools_of(client, name) as opened:
            listed = (await opened.list_tools()).tools
            assert all("conversation" in tool.input_schema["required"] for tool in listed)
            for _ in range(5):
                text, error = await ask(opened, "search_history", query="pump code", conversation=ids[name])
                assert (secrets[name] in text, secrets[other] in text, error) == (True, False, False)
                text, error = await ask(opened, "read_history", ref="4", conversation=ids[name])
                assert (f"The pump's code is {secrets[name]}. " in text, error) == (True, False)
            for wrong in (ids[other], "", "x" * 600, "../bob", "\0"):
                text, error = await ask(opened, "read_history", ref="4", conversation=wrong)
                assert (error, secrets[other] in text) == (True, False), wrong
            text, error = await ask(opened, "search_history", query="pump")
            assert error
            assert "first line" in text

    async def both() -> None:
        await asyncio.gather(steps("alice", "bob"), steps("bob", "alice"))

    asyncio.run(both())


def test_a_conversation_is_found_by_the_name_that_its_client_gave_it(
    client: httpx.Client, provider: ProviderApp
) -> None:
    headers = {"x-unabridged-token": TOKENS["alice"], "x-unabridged-thread": "the pump"}
    client.post(PATHS["chat"], json=body_of("chat", 100), headers=headers)
    assert len(provider.raw) == 1

    async def steps() -> None:
        async with tools_of(client, "alice") as opened:
            text, error = await ask(opened, "search_history", query="Step 3", conversation="the pump")
            assert ("Step 3: look at part 3." in text, error) == (True, False)

    asyncio.run(steps())


def test_who_has_no_token_or_is_a_web_page_is_refused(client: httpx.Client) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    page = {"x-unabridged-token": TOKENS["alice"], "origin": "https://evil.example"}
    for headers, status in (({}, 401), ({"x-unabridged-token": "wrong"}, 401), (page, 403)):
        assert client.post("/mcp", json=body, headers=headers).status_code == status
    assert client.post("/mcp", json=body, headers={"host": "evil.example"}).status_code in {401, 421}


def test_without_the_extra_the_answer_says_what_to_install(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    answer = client.post("/mcp", json={}, headers={"x-unabridged-token": TOKENS["alice"]})
    assert (answer.status_code, "unabridged[mcp]" in answer.text) == (501, True)


@rows("kind", PATHS)
def test_a_summary_says_that_it_can_be_read_in_full_where_the_client_offers_these_tools(kind: str) -> None:
    """In every protocol, with the prefix that a client puts before the names of a server's tools."""
    schemas = ConversationTools(open_archive("memory:")).schemas("mcp")
    provider = ProviderApp(say, window=8_000)
    with gateway_before(provider) as client:
        for prefix, is_said in (("", True), ("mcp__memory__", True), ("mcp__memory__x_", False)):
            declared = [
                FORMATS[WIRES[kind]].tool_schema(prefix + one["name"], one["description"], one["inputSchema"])
                for one in schemas
            ]
            tools = [{"functionDeclarations": declared}] if kind == "contents" else declared
            client.post(PATHS[kind], json={**body_of(kind, 100), "tools": tools})
            sent = json.loads(provider.raw[-1].body)
            assert len(sent[FIELDS[kind]]) < 150, "it was compacted"
            assert (RECALL_LINE in json.dumps(sent[FIELDS[kind]])) is is_said, prefix
