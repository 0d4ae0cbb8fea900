"""A provider on loopback: it remembers every request, and answers compactions with a given summary."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from real_clients.streams import Answer, anthropic_events, anthropic_message, as_bytes, response, response_events

Kind = Literal["turn", "compaction", "aside"]

_COMPACTIONS = (
    "Your task is to create a detailed summary",  # Claude Code
    "CONTEXT CHECKPOINT COMPACTION",  # Codex
    "You are a context summarization assistant",  # pi
)
"""How each client asks for a summary; the first two as the last message, pi's as its system prompt."""
_COMPACTED = "The conversation history before this point was compacted"
"""How pi introduces a summary, its own or ours: for ours it asks no model."""
_PREFIX = "This is the PREFIX of a turn"
"""pi asks once more for the begun turn; a recorded summary has both in one."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client: a turn of the conversation, a compaction, or an aside (a title, a probe)."""

    kind: Kind
    path: str
    body: dict[str, Any]

    @property
    def tokens(self) -> int:
        """Return about how many tokens the request has."""
        return len(json.dumps(self.body, ensure_ascii=False)) // 4

    def turns(self) -> list[Any]:
        """Return the messages that were sent."""
        found: list[Any] = self.body.get("messages") or self.body.get("input") or []
        return found

    def text(self) -> str:
        """Return every text of its messages, unescaped."""
        return "\n".join(_texts(self.turns()))


@dataclass(slots=True)
class Loopback:
    """The provider: `say` answers the turns, by the number of the turn; `summary` answers every compaction."""

    summary: str
    say: Callable[[int, Request], Answer] = lambda _number, _request: Answer("Understood.")
    count: Callable[[Request], int] = lambda request: request.tokens
    """How many tokens a request is reported to have taken."""
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, kind: Kind) -> list[Request]:
        """Return the requests of one kind, in order."""
        return [request for request in self.requests if request.kind == kind]

    def after_compaction(self) -> Request | None:
        """Return the first turn sent after the last compaction, whoever wrote its summary; None when there was none."""
        kinds = [request.kind for request in self.requests]
        if "compaction" not in kinds:
            return next((request for request in self.of("turn") if _COMPACTED in request.text()), None)
        last = len(kinds) - 1 - kinds[::-1].index("compaction")
        return next((request for request in self.requests[last:] if request.kind == "turn"), None)

    def take(self, path: str, body: dict[str, Any]) -> bytes:
        """Return the answer to a request, as bytes of its protocol."""
        request = Request(kind_of(path, body), path, body)
        with self.lock:
            number = len(self.of("turn"))
            self.requests.append(request)
        model, streamed = str(body.get("model")), bool(body.get("stream"))
        if "count_tokens" in path:
            return json.dumps({"input_tokens": self.count(request)}).encode()
        if request.kind == "compaction":
            answer = Answer(self.summary if _PREFIX not in request.text() else "As in the summary above.")
        else:
            answer = self.say(number, request) if request.kind == "turn" else Answer("An aside")
        if "responses" in path:
            whole = response(answer, self.count(request), model)
            return as_bytes(response_events(whole)) if streamed else json.dumps(whole).encode()
        message = anthropic_message(answer, self.count(request), model)
        return as_bytes(anthropic_events(message)) if streamed else json.dumps(message).encode()


def kind_of(path: str, body: dict[str, Any]) -> Kind:
    """Return whether a request is a turn, a compaction, or neither."""
    turns = body.get("messages") or body.get("input") or []
    last = "\n".join(_texts([body.get("system"), body.get("instructions"), turns[-3:]]))
    if any(words in last for words in _COMPACTIONS):
        return "compaction"
    return "turn" if body.get("tools") and "count_tokens" not in path else "aside"


def _texts(value: Any) -> Iterator[str]:
    """Yield every string of a value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


@contextmanager
def serving(loopback: Loopback) -> Iterator[Loopback]:
    """Serve the provider until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"] or 0))
            body = json.loads(raw) if raw.startswith(b"{") else {}
            self.answer(loopback.take(self.path, body), streamed=bool(body.get("stream")))

        def do_GET(self) -> None:
            self.answer(b'{"object": "list", "data": [], "models": []}', streamed=False)

        do_HEAD = do_GET  # noqa: N815 - the server looks for this name

        def answer(self, data: bytes, *, streamed: bool) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if streamed else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    loopback.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield loopback
    finally:
        server.shutdown()
        server.server_close()
