"""A gateway before a provider, both behind real ports, and a model that works through numbers."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from patience import PATIENCE
from provider_app import ProviderApp, ReceivedRequest
from sdk_loops import TASK
from serving import serve_in_thread
from unabridged.archive import Record, Scope, open_archive
from unabridged_gateway.app import Gateway
from unabridged_gateway.config import build_config
from unabridged_gateway.config_file import load_config
from unabridged_testing.loopback import LoopbackReply

WINDOW = 12_000
FAMILIES = ("openai", "anthropic", "gemini")
KEY = "sk-very-secret-4711"
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "contents": "/v1beta/models/gemini-3-pro:generateContent",
}
WORKED = re.compile(r"Number (\d+) was worked on")


def worker(steps: int, *, thinks: bool = True) -> Any:
    """A model that works on one number after another, told by the last message alone; it also writes summaries."""

    def answer(messages: Sequence[Any]) -> LoopbackReply:
        last = json.dumps(messages[-1])
        worked = WORKED.search(last)
        if len(messages) == 1 and len(last) > 1_000:
            return LoopbackReply(
                "The user wants all of the numbers worked through, one by one. Those so far were steady."
            )
        if worked is None and TASK not in last:
            return LoopbackReply("Hello, I am here to help.")
        number = int(worked[1]) + 1 if worked else 1
        if number > steps:
            return LoopbackReply("All done.")
        words = f"The readings before were steady, so {number} is the next to be looked at. " * 30
        return LoopbackReply(words, [("work", {"number": number})], f"Number {number} comes next." if thinks else "")

    return answer


class Case(NamedTuple):
    """Where the gateway is, and the provider behind it."""

    url: str
    provider: ProviderApp
    archive: Path

    def base_url(self, client: str) -> str:
        """What the SDK's client of this name is given."""
        return f"{self.url}/v1" if "OpenAI" in client else self.url

    def records(self) -> list[Record]:
        """All that is recorded, in every thread."""
        with closing(open_archive(f"sqlite:///{self.archive}")) as archive:
            scopes = [Scope(space, thread) for space in archive.namespaces() for thread in archive.threads(space)]
            return [record for scope in scopes for record in archive.records(scope)]

    def compactions(self) -> int:
        """How many records were ever made, those that a better one replaced too."""
        with closing(sqlite3.connect(self.archive)) as database:
            return int(database.execute("SELECT count(*) FROM records").fetchone()[0])

    def conversation(self) -> list[ReceivedRequest]:
        """The requests that asked the model to go on; those for a summary are left out."""
        return [request for request in self.provider.asked if b'"tools"' in request.content]

    def cached(self) -> tuple[int, int]:
        """How many bytes of them the provider's cache held, and how many it did not."""
        asked = self.conversation()
        return sum(request.cached_bytes for request in asked), sum(request.fresh_bytes for request in asked)


@contextmanager
def gateway(provider: ProviderApp, folder: Path, **given: Any) -> Iterator[Case]:
    """The gateway, before this provider, with an archive in the folder."""
    archive = folder / "archive.db"
    with serve_in_thread(provider) as upstream:
        options = {"window": WINDOW, "archive": f"sqlite:///{archive}", "port": 0}
        options["upstreams"] = dict.fromkeys(FAMILIES, upstream)
        with serve_in_thread(Gateway(build_config(**{**options, **given}))) as url:
            yield Case(url, provider, archive)


def say(_: object) -> LoopbackReply:
    return LoopbackReply("Noted, and done as you asked.")


@contextmanager
def gateway_before(provider: ProviderApp, **flags: Any) -> Iterator[httpx.Client]:
    """A client of a gateway that stands before this provider."""
    with serve_in_thread(provider) as upstream:
        given = {"upstream": upstream, "window": "8k", "archive": "memory:", "summariser": "none", "port": 0, **flags}
        with serve_in_thread(Gateway(load_config(None, **given))) as url:
            headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
            with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
                yield client


def body_of(kind: str, turns: int, *, words: int = 60, **more: Any) -> dict[str, Any]:
    """A request with so many turns before the last one."""
    said = []
    for turn in range(turns):
        said += [
            ("user", f"Step {turn}: look at part {turn}. " + "detail " * words),
            ("assistant", f"Part {turn} is fine."),
        ]
    said.append(("user", "What is left to do?"))
    if kind == "contents":
        parts = [{"role": "model" if who == "assistant" else who, "parts": [{"text": text}]} for who, text in said]
        return {"contents": parts, **more}
    messages = [{"role": who, "content": text} for who, text in said]
    if kind == "responses":
        return {"model": "gpt-5", "input": messages, **more}
    return {
        "model": "claude-opus-5-5" if kind == "messages" else "gpt-5",
        "max_tokens": 100,
        "messages": messages,
        **more,
    }
