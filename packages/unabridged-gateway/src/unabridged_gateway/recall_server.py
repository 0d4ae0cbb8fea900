"""Search and read for the gateway's clients, over MCP at `/mcp`: of the tenant that the token names, and no other.

A call names its conversation by the id in the first line of a summary, or by its thread. The gateway itself adds no
tool to a request: a client that wants these is configured with the address and its token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from unabridged.archive.protocol import Archive, Scope
from unabridged.errors import NotInstalled, UnabridgedError
from unabridged.recall.results import RECALL_MARK
from unabridged.recall.tools import CONVERSATION_PARAMETER, ToolAnswer, Tools
from unabridged.text_tools import quote
from unabridged_cli import mcp_server
from unabridged_gateway.config import TenantConfig
from unabridged_gateway.refusals import RequestRefused
from unabridged_gateway.tenants import find_tenant

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from unabridged_gateway.calls import GatewayCall

_PARAMETER: Final = {
    "type": "string",
    "description": "Which conversation: the id in the first line of its summary, for example 518014285c95.",
}
_tenant: Final = ContextVar("tenant", default="")
"""Whose call is being answered."""


class ConversationTools:
    """Search and read in the conversations of the tenant that asks."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def schemas(self, dialect: str) -> list[dict[str, Any]]:
        """Return the tools, each with the conversation as a parameter."""
        schemas = Tools(self._archive, Scope("", "")).schemas(dialect)
        for schema in schemas:
            schema["inputSchema"]["properties"][CONVERSATION_PARAMETER] = _PARAMETER
            schema["inputSchema"]["required"].append(CONVERSATION_PARAMETER)
        return schemas

    def answer(self, name: str, arguments: Mapping[str, Any] | str | None) -> ToolAnswer:
        """Return what the tool answers. Never raises."""
        rest = dict(arguments) if isinstance(arguments, Mapping) else {}
        conversation = rest.pop(CONVERSATION_PARAMETER, None)
        try:
            scope = self._find_scope(conversation)
        except UnabridgedError as error:
            return ToolAnswer(f"{RECALL_MARK} {error}", error=True)
        if scope is None:
            text = (
                f"there is no conversation {quote(str(conversation), 60)}: pass the id in the first line of a summary."
            )
            return ToolAnswer(f"{RECALL_MARK} {text}", error=True)
        return Tools(self._archive, scope).answer(name, rest)

    def _find_scope(self, conversation: object) -> Scope | None:
        if not isinstance(conversation, str) or not conversation:
            return None
        tenant = _tenant.get()
        if (located := self._archive.locate(tenant, conversation)) is not None:
            return located
        scope = Scope(tenant, conversation)
        return scope if next(iter(self._archive.holdings(tenant, [conversation])), None) is not None else None


class RecallServer:
    """The tools as an MCP server, begun with the first request to it."""

    def __init__(self, archive: Archive, config: TenantConfig) -> None:
        self._archive, self._config = archive, config
        self._manager: StreamableHTTPSessionManager | None = None
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._lock = asyncio.Lock()

    async def serve(self, call: GatewayCall) -> None:
        """Answer one request of an MCP client."""
        if call.header(b"origin") is not None:
            raise RequestRefused(403, "a web page may not ask for conversations here")
        tenant = find_tenant(self._config, call.raw_headers, call.peer)
        call.tenant = tenant
        manager = await self._start()
        _tenant.set(tenant)
        await call.forward_to_app(manager.handle_request)

    async def close(self) -> None:
        """End the server."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def _start(self) -> StreamableHTTPSessionManager:
        async with self._lock:
            if self._manager is None:
                try:
                    server = mcp_server.build_server(ConversationTools(self._archive))
                except NotInstalled as error:
                    raise RequestRefused(501, str(error)) from error
                from mcp.server.streamable_http_manager import (  # noqa: PLC0415 - the extra `mcp` brings it
                    StreamableHTTPSessionManager,
                )

                manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
                started = asyncio.Event()
                self._running = asyncio.create_task(self._run(manager, started))
                await started.wait()
                self._manager = manager
            return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager, started: asyncio.Event) -> None:
        async with manager.run():
            started.set()
            await self._stop.wait()
