"""The example loops, run by the real SDK clients against a server on loopback that refuses what a provider would."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from places import ROOT
from unabridged import Compactor, Settings
from unabridged_testing import StrictUpstream

EXAMPLES = ROOT / "examples"
QUESTION = "Which of the logs mentions the broken pump? Never open anything called secret."


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def serving(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[str]:
    """A server that answers every POST with what `answer` makes of its body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps(answer(body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    """Twelve files of some 700 tokens each: more than the window of the test together."""
    for number in range(12):
        lines = [f"{number:02}:{minute:02} pump {number} pressure {minute * 37 % 101}" for minute in range(60)]
        (tmp_path / f"log{number}.txt").write_text("\n".join(lines))
    return [str(tmp_path / f"log{number}.txt") for number in range(12)]


def test_the_openai_loop_reads_more_than_fits_its_window(logs: list[str]) -> None:
    from openai import OpenAI

    upstream, steps = StrictUpstream("openai-chat"), iter(logs)

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        upstream.take(body["messages"])
        path = next(steps, None)
        message: dict[str, Any] = {"role": "assistant", "content": "None of them does."}
        if path:
            function = {"name": "read_file", "arguments": json.dumps({"path": path})}
            calls = [{"id": f"call_{len(upstream.requests)}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "finish_reason": "tool_calls" if path else "stop", "message": message}
        usage = {"prompt_tokens": len(json.dumps(body)) // 3, "completion_tokens": 20, "total_tokens": 0}
        return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}

    with serving(answer) as url, compactor() as small, OpenAI(base_url=url, api_key="none") as client:
        ended = example("openai_loop").run(client, small, [{"role": "user", "content": QUESTION}], "logs")
    assert ended[-1].content == "None of them does."
    assert shrank(upstream.requests)
    assert all(QUESTION in json.dumps(request) for request in upstream.requests)


def test_the_anthropic_loop_reads_more_than_fits_its_window(logs: list[str]) -> None:
    from anthropic import Anthropic

    upstream, steps = StrictUpstream("anthropic"), iter(zip(logs[::2], logs[1::2], strict=True))

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        upstream.take(body["messages"])
        number = len(upstream.requests)
        content: list[dict[str, Any]] = [
            {"type": "tool_use", "id": f"toolu_{number}_{i}", "name": "read_file", "input": {"path": path}}
            for i, path in enumerate(next(steps, ()))
        ]
        stop = "tool_use" if content else "end_turn"
        usage = {"input_tokens": len(json.dumps(body)) // 3, "output_tokens": 20}
        return {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
            "content": content or [{"type": "text", "text": "None of them does."}], "stop_reason": stop, "usage": usage,
        }  # fmt: skip

    with serving(answer) as url, compactor() as small, Anthropic(base_url=url, api_key="none") as client:
        ended = example("anthropic_loop").run(client, small, [{"role": "user", "content": QUESTION}], "logs")
    assert ended[-1]["content"][0].text == "None of them does."
    assert shrank(upstream.requests)
    assert all(QUESTION in json.dumps(request) for request in upstream.requests)


def compactor() -> Compactor:
    return Compactor(window=6000, archive="memory:", settings=Settings(trigger=("fraction", 0.8)))


def shrank(requests: list[list[Any]]) -> bool:
    """Whether a later request was shorter than the one before it: only a compaction makes it so."""
    sizes = [len(json.dumps(request)) for request in requests]
    return any(after < before for before, after in pairwise(sizes))
