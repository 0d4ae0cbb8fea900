"""A provider on loopback: answers as the real ones do, and tells what a prefix cache would have held."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Upstream:
    """What was asked, and what to answer: `(status, body)` pairs, the last again and again; None hangs.

    A body that is a list is streamed, event by event.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.answers: list[tuple[int, Any] | None] = []
        self.url = ""
        self.over = threading.Event()
        self.cached: list[float] = []
        """For each request, the share of its prompt that the longest earlier request began with."""
        self._prompts: list[str] = []

    def take(self, path: str, body: dict[str, Any]) -> tuple[int, Any] | None:
        prompt = _prompt(body)
        known = max((_common(prompt, old) for old in self._prompts), default=0)
        self.cached.append(known / len(prompt))
        self._prompts.append(prompt)
        self.requests.append(body)
        self.paths.append(path)
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


def _prompt(body: dict[str, Any]) -> str:
    """Tools, system and messages in the order in which providers cache them."""
    turns = body.get("messages") or body.get("input") or body.get("contents")
    return json.dumps([body.get("tools"), body.get("system") or body.get("instructions"), turns])


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _events(events: list[dict[str, Any]]) -> str:
    named = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    said = "".join(f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True))
    return f"{said}data: [DONE]\n\n" if "type" not in events[0] else said


@contextmanager
def serving() -> Iterator[Upstream]:
    """The upstream, listening."""
    upstream = Upstream()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = upstream.take(self.path, body)
            if answer is None:
                upstream.over.wait(60)
                self.close_connection = True
                return
            status, content = answer
            streamed = isinstance(content, list)
            data = _events(content).encode() if streamed else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if streamed else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    upstream.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.over.set()
        server.shutdown()
        server.server_close()


def chat(text: str | None, finish: str = "stop", **message: Any) -> tuple[int, dict[str, Any]]:
    """A chat completion."""
    usage = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}
    return 200, {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        ],
        "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 100}},
    }


def claude(text: str, stop: str = "end_turn", *blocks: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A message of Anthropic's."""
    usage = {"input_tokens": 20, "output_tokens": 30, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 10}
    said = [{"type": "text", "text": text}] if text else []
    content = [*blocks, *said]
    return 200, {
        "id": "m-1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def gemini(text: str, finish: str = "STOP") -> tuple[int, dict[str, Any]]:
    """A response of Google's."""
    usage = {"promptTokenCount": 120, "candidatesTokenCount": 30, "totalTokenCount": 150}
    part = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish, "index": 0}
    return 200, {"candidates": [part], "usageMetadata": usage, "modelVersion": "gemini-x", "responseId": "g-1"}


def responses(text: str, status: str = "completed", *items: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A response of OpenAI's Responses API."""
    message = {
        "type": "message",
        "id": "msg-1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    usage = {
        "input_tokens": 120,
        "output_tokens": 30,
        "total_tokens": 150,
        "input_tokens_details": {"cached_tokens": 100},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return 200, {
        "id": "r-1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-x",
        "status": status,
        "output": [*items, *([message] if text else [])],
        "incomplete_details": None if status == "completed" else {"reason": "max_output_tokens"},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
