"""Real clients of the SDKs through the gateway: they resend everything, to one that refuses what real ones do."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import sdk_loops
from effort import ALL
from gateway_case import WINDOW, Case, gateway, worker
from patience import PATIENCE
from provider_app import ProviderApp
from provider_faults import pause_until
from rows import rows
from sdk_loops import SYSTEM, TASK, Chat, Contents, Messages, Responses, client_of


def beside(asked: dict[str, Any], name: str, messages: list[Any]) -> dict[str, Any]:
    """The messages go beside the SDK's own reading of them, which takes it seconds for a thousand."""
    plain = [m if isinstance(m, dict) else m.model_dump(exclude_unset=True) for m in messages]
    return {**asked, name: [], "extra_body": {name: plain}}


class Lines(Chat):
    def asked(self, messages: list[Any]) -> dict[str, Any]:
        return beside(super().asked(messages), "messages", messages)


class Items(Responses):
    def asked(self, messages: list[Any]) -> dict[str, Any]:
        return beside(super().asked(messages), "input", messages)


APIS = [(Lines(), "OpenAI"), (Items(), "OpenAI"), (Messages(), "Anthropic"), (Contents(), "genai")]
NAMES = ["chat", "responses", "messages", "contents"]
STEPS = int(os.environ.get("UNABRIDGED_STEPS", "18"))


def loop(api: Any, client: str, case: Case, *, asynchronous: bool = False, streaming: bool = False) -> list[Any]:
    """The loop over the SDK's own client; the conversation at its end."""
    given = client_of(client, case.base_url(client), asynchronous=asynchronous)
    if not asynchronous:
        with given as sdk:
            return sdk_loops.run(api, sdk, streaming=streaming)

    async def go() -> list[Any]:
        async with given as sdk:
            return await sdk_loops.arun(api, sdk, streaming=streaming)

    return asyncio.run(go())


def check_that_nothing_was_refused(case: Case, steps: int) -> None:
    provider = case.provider
    assert provider.refused == []
    assert provider.too_long == []
    assert provider.malformed == []
    assert len(case.conversation()) == steps + 1
    assert all(TASK.encode() in request.content for request in case.conversation())


def breaks(case: Case) -> int:
    """How many requests do not begin with all of the one before them."""
    asked = case.conversation()
    sizes = [request.cached_bytes + request.fresh_bytes for request in asked]
    return sum(request.cached_bytes < size for request, size in zip(asked[1:], sizes, strict=False))


WAYS = [
    (*api, asynchronous, streaming)
    for number, api in enumerate(APIS)
    for asynchronous, streaming in itertools.product([False, True], repeat=2)
    if ALL or (asynchronous == streaming) == (number % 2 == 0)
]
"""Each SDK by two of its four ways, so that each way is tried by two of them; with ALL=1 by all."""


@rows(
    ("api", "client", "asynchronous", "streaming"),
    WAYS,
    ids=lambda value: value if isinstance(value, str | bool) else type(value).__name__,
)
def test_a_conversation_far_beyond_the_window_ends_without_a_refusal_and_its_prefix_stands_between_compactions(
    api: Any, client: str, asynchronous: bool, streaming: bool, tmp_path: Path
) -> None:
    provider = ProviderApp(worker(STEPS), window=WINDOW, piece=100 if asynchronous else 0)
    with gateway(provider, tmp_path) as case:
        conversation = loop(api, client, case, asynchronous=asynchronous, streaming=streaming)
    check_that_nothing_was_refused(case, STEPS)
    assert len(conversation) > 2 * STEPS, "the caller's list is the caller's"
    assert any(record.model for record in case.records()), "the client's own model wrote a summary"
    assert breaks(case) <= case.compactions()
    assert breaks(case) < len(case.conversation()) / 2
    cached, fresh = case.cached()
    assert cached > fresh, f"{cached} of {cached + fresh} bytes were in the cache, {case.compactions()} compactions"


class Marking(Messages):
    """A mark that moves with every request, as Claude Code sets it, and a system prompt that has one."""

    def first(self) -> list[Any]:
        return [{"role": "user", "content": [{"type": "text", "text": TASK}]}]

    def asked(self, messages: list[Any]) -> dict[str, Any]:
        asked = super().asked(messages)
        mark = {"cache_control": {"type": "ephemeral"}}
        *before, last = messages
        marked = {**last, "content": [*last["content"][:-1], {**last["content"][-1], **mark}]}
        return {**asked, "system": [{"type": "text", "text": SYSTEM, **mark}], "messages": [*before, marked]}


class Renaming(Chat):
    """New ids for all calls in every request, as clients have them that keep none."""

    def asked(self, messages: list[Any]) -> dict[str, Any]:
        told = json.dumps([m if isinstance(m, dict) else m.model_dump(exclude_none=True) for m in messages])
        return super().asked(json.loads(re.sub(r"call_(\d+)", rf"call_{len(messages)}_\1", told)))


@pytest.mark.parametrize(("api", "client"), [(Marking(), "Anthropic"), (Renaming(), "OpenAI")], ids=["marks", "ids"])
def test_moving_cache_marks_and_new_call_ids_leave_a_conversation_the_same(
    api: Any, client: str, tmp_path: Path
) -> None:
    provider = ProviderApp(worker(STEPS), window=WINDOW)
    with gateway(provider, tmp_path) as case:
        loop(api, client, case)
    check_that_nothing_was_refused(case, STEPS)
    assert 0 < case.compactions() < STEPS / 2, "what was compacted once is found again"
    if client == "Anthropic":
        assert breaks(case) <= case.compactions()
        assert all(request.content.count(b'"cache_control"') == 2 for request in case.conversation())


ODD = [
    ("/v1/chat/completions", b'{ "messages":[{"role":"user","content":"%s"}],\n"model" : "m","x":1.0, "x":1e400}'),
    ("/v1/responses", b'{"input" : [ {"role":"user", "content": "%s"} ],"model":"m", "store":false }'),
    ("/v1/messages", b'{"max_tokens":9,"messages":[{"content":"%s" ,"role":"user"}], "model":"m"}\n'),
    ("/v1beta/models/m:generateContent", b'{"contents":[{"parts":[{"text":"%s"}],"role":"user"}] }'),
]


@pytest.mark.parametrize(("path", "body"), ODD, ids=NAMES)
def test_below_the_trigger_the_provider_gets_the_very_bytes_that_the_client_sent(
    path: str, body: bytes, tmp_path: Path
) -> None:
    # R3: short enough to be known by their length, long enough to be read, and compressed
    words = [b"h\\u00e9 \xc3\xa9 \\ud83d\\ude00", b"several words " * 2_000]
    provider = ProviderApp(worker(0), window=WINDOW)
    with gateway(provider, tmp_path) as case, httpx.Client(base_url=case.url, timeout=PATIENCE) as client:
        for data in (body % text for text in words):
            for sent, how in ((data, "identity"), (gzip.compress(data), "gzip")):
                answer = client.post(path, content=sent, headers={"content-encoding": how, "authorization": "Bearer k"})
                assert answer.status_code == 200, answer.text
                got = provider.raw[-1]
                assert (got.body, got.path, got.headers["authorization"]) == (sent, path, "Bearer k")
                assert got.headers["content-encoding"] == how


@pytest.mark.parametrize(("api", "client"), APIS, ids=NAMES)
def test_a_window_smaller_than_was_said_is_learned_and_no_client_hears_of_it(
    api: Any, client: str, tmp_path: Path
) -> None:
    provider = ProviderApp(worker(20), window=WINDOW // 2, piece=50)
    with gateway(provider, tmp_path) as case:
        loop(api, client, case, streaming=True)
    assert provider.refused == []
    assert len(provider.too_long) == 1


def test_events_reach_the_client_before_the_next_is_made(tmp_path: Path) -> None:
    provider = ProviderApp(worker(9), window=WINDOW)
    for length in (0, 30_000):  # not read, and watched for its usage
        read = threading.Event()
        provider.faults.append(pause_until(read, after_events=2))
        messages = [{"role": "user", "content": TASK + " " * length}]
        body = {"model": "m", "messages": messages, "stream": True, "max_tokens": 9}
        with (
            gateway(provider, tmp_path) as case,
            httpx.stream("POST", f"{case.url}/v1/messages", json=body, timeout=PATIENCE) as answer,
        ):
            lines = answer.iter_lines()
            assert "message_start" in next(lines)
            assert any("content_block_start" in line for line in lines)
            read.set()
            assert any("message_stop" in line for line in lines)


def test_parallel_conversations_that_begin_alike_do_not_mix(tmp_path: Path) -> None:
    provider = ProviderApp(worker(STEPS), window=WINDOW)

    class Named(Chat):
        def __init__(self, name: str) -> None:
            self.name = name

        def asked(self, messages: list[Any]) -> dict[str, Any]:
            return {**super().asked(messages), "user": self.name}

        def turn(self, answer: Any) -> tuple[list[Any], str]:
            new, ended = super().turn(answer)
            return [{**m, "content": f"{self.name}: {m['content']}"} if isinstance(m, dict) else m for m in new], ended

    names = ["anna", "berta", "clara"]
    with gateway(provider, tmp_path) as case, ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: loop(Named(name), "OpenAI", case), names))
    assert (provider.refused, provider.too_long) == ([], [])
    for request in case.conversation():
        said = request.content.decode()
        (name,) = re.findall(r'"user":"(\w+)"', said)
        assert not [other for other in names if other != name and f"{other}: " in said]
