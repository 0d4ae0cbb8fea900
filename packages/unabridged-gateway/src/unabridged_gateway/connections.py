"""Limit the head of a request in bytes and in time, before anything is known of its client.

uvicorn has no such setting for httptools, which keeps a header in memory until its end has come.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from unabridged_gateway.config import ListeningConfig


class Connection(HttpToolsProtocol):
    """One connection. A head above a limit is answered with 431 or 408, and the connection is closed."""

    limits: ListeningConfig

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = self.limits.max_head
        """Bytes that may still come before a head, a piece of a body or a request is complete."""
        self._is_idle, self._waits = True, False
        """Whether no byte of a next request has come; whether one has, and its head is not complete."""
        self._follows = False
        """Whether the request came in one piece with the end of another, so that its bytes were not counted alone."""
        self._late: asyncio.TimerHandle | None = None
        self._refusal: tuple[int, str] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._late = self.loop.call_later(self.limits.head_timeout, self._close_if_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, never more of it at once than there is room for."""
        if self._is_idle:
            self._is_idle, self._waits = False, True
        while data and not self.transport.is_closing():
            piece, data = data[: self._room], data[self._room :]
            self._room -= len(piece)
            super().data_received(piece)
            if self._room <= 0:
                self._refuse(431, f"the request line and headers have more than {self.limits.max_head:,} bytes")
            elif self.headers and len(self.headers) > self.limits.max_headers:
                self._refuse(431, f"the request has more than {self.limits.max_headers} headers")
        if self._late is not None:
            if not self._waits:
                self._stop_timer()
        elif self._waits:
            self._late = self.loop.call_later(self.limits.head_timeout, self._close_if_late)

    def on_message_begin(self) -> None:
        """Begin to wait for the end of the head."""
        super().on_message_begin()
        self._follows = self._is_idle
        self._is_idle, self._waits = False, True

    def on_headers_complete(self) -> None:
        """Serve the request, unless its head is too large."""
        most, size = self.limits.max_headers, self.limits.max_head
        if len(self.headers) > most or (self._follows and self._count_head_bytes() > size):
            self._refusal = 431, f"the request has more than {most} headers or {size:,} bytes of them"
            raise ValueError("too large")
        if b"#" in self.url:
            self._refusal = 400, "the request line has a fragment, which is not sent to servers"
            raise ValueError("a fragment")
        super().on_headers_complete()
        self.headers = []  # those of the request are in its scope; what follows are trailers, and no headers
        self._waits, self._room = False, self.limits.max_head

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._room = self.limits.max_head
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_message_complete()
        self.headers, self._room, self._is_idle = [], self.limits.max_head, True

    def send_400_response(self, msg: str) -> None:
        """Refuse what can't be parsed, or was too large."""
        self._refuse(*(self._refusal or (400, msg)))

    def _refuse(self, status: int, words: str) -> None:
        """Answer with this status, unless an earlier request of the connection is being answered; then close it."""
        if self.transport.is_closing():
            return
        if not self._is_answering:
            text = f"{words}\n".encode()
            line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            about = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\nconnection: close\r\n"
            self.transport.write(f"{line}{about}\r\n".encode() + text)
        self.transport.close()

    @property
    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _count_head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _close_if_late(self) -> None:
        """Close a connection whose request does not come; while an earlier one is answered, nothing is waited for."""
        self._late = None
        if self._is_answering:
            self._late = self.loop.call_later(self.limits.head_timeout, self._close_if_late)
        elif self._is_idle:
            self.transport.close()  # nothing was asked, so there is nothing to answer
        else:
            self._refuse(408, f"the request line and headers were not sent within {self.limits.head_timeout:g} seconds")

    def _stop_timer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def build_connection_class(limits: ListeningConfig) -> type[Connection]:
    """Return a `Connection` subclass with these limits."""
    return type("Connection", (Connection,), {"limits": limits})
