"""The processes of the gateway's load: `python -m benchmarks.gateway_servers ROLE PORT [UPSTREAM [WINDOW]]`.

`upstream` answers at once, with fifty events where it is asked to stream; `bare` passes requests on and does nothing
else, with the libraries that the gateway uses; `bare-parsed` parses each body as well; `gateway` is the gateway.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
import uvicorn

USAGE = {"prompt_tokens": 10, "completion_tokens": 2}
_SAID = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}
_ABOUT = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "gpt-5"}
ANSWER = json.dumps({**_ABOUT, "object": "chat.completion", "choices": [_SAID], "usage": USAGE}).encode()
_PIECE = {"index": 0, "delta": {"content": "a few words"}}
EVENT = f"data: {json.dumps({**_ABOUT, 'object': 'chat.completion.chunk', 'choices': [_PIECE]})}\n\n".encode()
EVENTS = 50
STREAM = re.compile(rb'"stream": ?true')


class App:
    """An ASGI application that lives as long as its server."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request, or the server's beginning and end."""
        if scope["type"] == "http":
            parts, more = [], True
            while more:
                message = await receive()
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
            await self.serve(scope, b"".join(parts), send)
            return
        while (await receive())["type"] == "lifespan.startup":
            await self.begin()
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    async def begin(self) -> None:
        """Prepare what the first request needs; by default, nothing."""

    async def serve(self, scope: Any, body: bytes, send: Any) -> None:
        """Answer the request."""
        raise NotImplementedError


class Upstream(App):
    """A provider that answers at once."""

    async def serve(self, scope: Any, body: bytes, send: Any) -> None:  # noqa: ARG002 - whatever is asked
        """Say the same every time."""
        streamed = STREAM.search(body) is not None
        kind = b"text/event-stream" if streamed else b"application/json"
        length = [] if streamed else [(b"content-length", str(len(ANSWER)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), *length]})
        for _ in range(EVENTS if streamed else 0):
            await send({"type": "http.response.body", "body": EVENT, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n" if streamed else ANSWER})


class Bare(App):
    """A proxy that only passes requests on."""

    def __init__(self, upstream: str, *, parsed: bool) -> None:
        self._upstream, self._parsed = upstream, parsed

    async def begin(self) -> None:
        """Open the client."""
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        )

    async def serve(self, scope: Any, body: bytes, send: Any) -> None:
        """Pass the upstream's response on."""
        if self._parsed:
            msgspec.json.decode(body)
        dropped = {b"host", b"content-length", b"connection"}
        headers = [(name.decode(), value.decode()) for name, value in scope["headers"] if name not in dropped]
        async with self._client.post(self._upstream + scope["path"], headers=headers, data=body) as answer:
            dropped = {b"transfer-encoding", b"connection"}
            back = [(name, value) for name, value in answer.raw_headers if name.lower() not in dropped]
            await send({"type": "http.response.start", "status": answer.status, "headers": back})
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def serve_gateway(port: int, upstream: str, window: str) -> None:
    """Serve the gateway as its command does, model-free, with its archive in memory."""
    from unabridged_gateway.config_file import load_config  # noqa: PLC0415 - the others must not pay for it
    from unabridged_gateway.server import serve  # noqa: PLC0415 - likewise

    serve(load_config(None, upstream=upstream, window=window or None, archive="memory:", summariser="none", port=port))


def main(role: str, port: str, upstream: str = "", window: str = "") -> None:
    """Serve until somebody ends the process."""
    if role == "gateway":
        serve_gateway(int(port), upstream, window)
        return
    made: dict[str, Callable[[], Any]] = {
        "upstream": Upstream,
        "bare": lambda: Bare(upstream, parsed=False),
        "bare-parsed": lambda: Bare(upstream, parsed=True),
    }
    uvicorn.run(
        made[role](), host="127.0.0.1", port=int(port), log_config=None, access_log=False, ws="none",
        server_header=False, date_header=False, proxy_headers=False, timeout_keep_alive=600,
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
