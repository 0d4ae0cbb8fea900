"""Providers on loopback, for the real clients of their SDKs: they refuse what the real ones would, in their own words.

    with Loopback(script, window=8_000) as provider:
        client = OpenAI(base_url=provider.url, api_key="none")

Chat Completions, Responses, Messages and Gemini's contents are served, plain and streamed, at the paths that the SDKs
post to (Azure's too), and Messages as Bedrock and Vertex have them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from unabridged_testing import loopback_wires as wires
from unabridged_testing.loopback_messages import LoopbackBedrock, LoopbackMessages, LoopbackVertex
from unabridged_testing.loopback_wires import LoopbackReply, LoopbackWire, ServedAnswer
from unabridged_testing.upstreams import Refused

__all__ = ["Loopback", "LoopbackProvider", "LoopbackReply"]

Script = Callable[[Sequence[Any]], LoopbackReply]
"""What the model answers to the messages of a request."""

WIRES: tuple[type[LoopbackWire], ...] = (
    wires.LoopbackChat, wires.LoopbackResponses, LoopbackMessages, LoopbackBedrock, LoopbackVertex, wires.LoopbackGemini
)  # fmt: skip
"""Every wire that is served."""


class LoopbackProvider:
    """All wires, with one model that follows `script` and takes `window` tokens.

    A request that a provider would refuse for its form is refused, and so is one that is too long; both are kept in
    `refused` and `too_long`, all that were taken in `requests`.
    """

    def __init__(self, script: Script, *, window: int) -> None:
        self.script = script
        self.window = window
        self.requests: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.too_long: list[int] = []
        self._wires = [wire() for wire in WIRES]

    def wire_at(self, path: str) -> LoopbackWire | None:
        """Return the wire of this path; None for a path of none."""
        return next((wire for wire in self._wires if wire.serves(path)), None)

    def answer(self, path: str, body: dict[str, Any]) -> ServedAnswer:
        """Return the answer of the provider at this path to this body."""
        wire = self.wire_at(path)
        if wire is None:
            return ServedAnswer(404, {"error": {"message": f"nothing at {path}"}})
        streamed = wire.is_streamed(path, body)
        tokens = count_tokens(wire.collect_model_input(body))
        try:
            wire.take(body)
        except Refused as reasons:
            self.refused.append(str(reasons))
            return wire.build_refusal(str(reasons))
        if tokens > self.window:
            self.too_long.append(tokens)
            return wire.build_too_long_answer(tokens, self.window, streamed=streamed)
        self.requests.append(body)
        return wire.build_answer(body, self.script(wire.messages(body)), tokens, streamed=streamed)


class Loopback(LoopbackProvider):
    """A `LoopbackProvider` that listens, from a thread of its own."""

    def __init__(self, script: Script, *, window: int) -> None:
        super().__init__(script, window=window)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler_class(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def count_tokens(read: Any) -> int:
    """Return the tokens of what a model reads: a quarter of its bytes as JSON."""
    return len(json.dumps(read, ensure_ascii=False).encode()) // 4


def _make_handler_class(provider: LoopbackProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            served = provider.answer(self.path, body)
            data = served.as_bytes()
            self.send_response(served.status)
            self.send_header("content-type", served.content_type)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
