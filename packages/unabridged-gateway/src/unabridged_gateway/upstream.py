"""Send requests to the provider, and take its answers back as they are."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from unabridged_gateway.headers import UNADDED_HEADERS
from unabridged_gateway.json_body import READ_ERRORS

if TYPE_CHECKING:
    from unabridged_gateway.config import UpstreamConfig

_MAX_ERROR_BYTES = 1 << 20
"""Of an error that is read; one that is longer is passed on unread."""

Headers = list[tuple[str, str]]
UNREACHABLE_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
"""Raised where the provider can't be reached, or stops in the middle."""
_MAX_ADDRESSES = 3
"""Of a provider's host that are tried for one request."""


class UpstreamAnswer:
    """An answer of the provider's that has begun."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.is_stream = response.content_type == "text/event-stream"
        """Whether it comes as events."""
        self.headers = response.raw_headers
        self._read: bytes | None = None

    @property
    def is_json(self) -> bool:
        """Return whether it comes as one JSON value."""
        return self._response.content_type == "application/json"

    @property
    def is_complete(self) -> bool:
        """Return whether the last piece was read; false for events, of which some are held back at times."""
        return not self.is_stream and self._response.content.at_eof()

    def pieces(self) -> AsyncIterator[bytes]:
        """Return the bytes of the answer, as they come."""
        return self._response.content.iter_any() if self._read is None else self._read_pieces(self._read)

    async def _read_pieces(self, first: bytes) -> AsyncIterator[bytes]:
        yield first
        async for piece in self._response.content.iter_any():
            yield piece

    async def error(self) -> Any:
        """Return an error as JSON or as a text; None for one too long to be read. It can still be passed on."""
        read, size = [], 0
        async for piece in self._response.content.iter_any():
            read.append(piece)
            size += len(piece)
            if size > _MAX_ERROR_BYTES:
                break
        self._read = b"".join(read)
        return parse_answer(self._read) if size <= _MAX_ERROR_BYTES else None

    def close(self) -> None:
        """Break the exchange off, unless it is at its end: then its connection serves another one."""
        if not self._response.closed:
            self._response.close()


class _FirstAddressesResolver(AbstractResolver):
    """A resolver of the first addresses of a host, of both kinds where it has both."""

    def __init__(self) -> None:
        self._all = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of this host."""
        found = await self._all.resolve(host, port, family)
        kinds = [[one for one in found if one["family"] == kind] for kind in {one["family"]: 0 for one in found}]
        turns = [one for turn in zip_longest(*kinds) for one in turn if one is not None]
        return turns[:_MAX_ADDRESSES]

    async def close(self) -> None:
        """Close the resolver."""
        await self._all.close()


class Upstream:
    """The connections to the providers; made in the event loop that uses them.

    A request is sent once. Before any byte of it is, a connection may be refused or fail at TLS: then it is tried at
    another address of the host, at most twice. Whether a request arrived on a connection that broke off, nobody knows.
    """

    def __init__(self, config: UpstreamConfig) -> None:
        self._watched = aiohttp.ClientTimeout(total=None, sock_connect=config.connect_timeout)
        self._timed = aiohttp.ClientTimeout(total=None, sock_connect=config.connect_timeout, sock_read=config.timeout)
        self._bases = {family: base.rstrip("/") for family, base in config.urls.items()}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=_FirstAddressesResolver()),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._session._retry_connection = False  # noqa: SLF001 - else it sends GET, PUT and DELETE once more

    def serves(self, family: str) -> bool:
        """Return whether there is a provider of this protocol."""
        return family in self._bases

    async def open(
        self, family: str, method: str, target: str, headers: Headers, data: Any, *, watched: bool = False
    ) -> UpstreamAnswer:
        """Return the answer to this request, as far as its head; `target` is the path and query of the client.

        `watched` says that the caller breaks it off where nothing comes: a second timer for every piece costs more.
        """
        options = {
            "headers": headers,
            "data": data,
            "allow_redirects": False,
            "timeout": self._watched if watched else self._timed,
        }
        if missing := UNADDED_HEADERS.difference([name for name, _ in headers]):
            options["skip_auto_headers"] = missing  # costs, and most clients send them all
        url = URL(self._bases[family] + target, encoded=True)
        return UpstreamAnswer(await self._session.request(method, url, **options))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


def parse_answer(data: bytes) -> Any:
    """Return the JSON of an answer, else its text; None for nothing."""
    try:
        return msgspec.json.decode(data) if data else None
    except READ_ERRORS:
        return data.decode("utf-8", "replace")
