"""Requests that no client should send: passed on or refused as the provider would, never an error of the gateway's."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import PATIENCE
from provider_app import ProviderApp
from real_clients.malformed import go_malformed
from serving import serve_in_thread
from unabridged_gateway.app import Gateway
from unabridged_gateway.config_file import load_config
from unabridged_testing.loopback import LoopbackReply

REQUESTS = int(os.environ.get("UNABRIDGED_REQUESTS", "300"))
"""How many are tried."""
LONG = "a detail that matters " * 120
CALL, RESULT = {"path": "a.py"}, LONG
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "gpt-5",
        "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": LONG}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": json.dumps(CALL)}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": RESULT},
            {"role": "user", "content": "Go on."},
        ],
    },
    "/v1/responses": {
        "model": "gpt-5",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": LONG}]},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": json.dumps(CALL)},
            {"type": "function_call_output", "call_id": "c1", "output": RESULT},
            {"type": "compaction", "encrypted_content": "unabridged1.eJw="},
            {"role": "user", "content": "Go on."},
            {"type": "compaction_trigger"},
        ],
    },
    "/v1/messages": {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": LONG}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": CALL},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": RESULT}]},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Go on."},
        ],
    },
    "/v1beta/models/gemini-3-pro:generateContent": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": LONG}]},
            {"role": "model", "parts": [{"functionCall": {"name": "read", "args": CALL}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": RESULT}}}]},
            {"role": "user", "parts": [{"text": "Go on."}]},
        ],
    },
}

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from([[], {}, [[]], [None], {"type": "image"}, {"role": "user"}, LONG, "\ud800", [LONG] * 3]),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a value."""
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*at, key))


def put(value: Any, at: tuple[Any, ...], odd: Any, how: str) -> Any:
    """The value with something odd at this place, or without what stands there, or with it twice."""
    if not at:
        return odd
    key, *rest = at
    if isinstance(value, dict):
        if not rest and how == "gone":
            return {name: item for name, item in value.items() if name != key}
        return {name: put(item, tuple(rest), odd, how) if name == key else item for name, item in value.items()}
    if rest or how == "odd":
        return [put(item, tuple(rest), odd, how) if place == key else item for place, item in enumerate(value)]
    return value[:key] + (value[key : key + 1] * 2 if how == "twice" else []) + value[key + 1 :]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes, dict[str, str]]:
    """A path, a body that is wrong somewhere, and headers that may lie about it."""
    path = draw(st.sampled_from(list(BODIES)))
    body: Any = {**BODIES[path], **draw(st.sampled_from([{}, {"stream": True}, {"stream": "yes"}]))}
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.sampled_from(list(places(body))))
        body = put(body, at, draw(ODD), draw(st.sampled_from(["odd", "gone", "twice"])))
    data = json.dumps(body).encode()
    if draw(st.integers(0, 3)) == 0:
        cut = draw(st.integers(0, len(data)))
        data = data[:cut] + draw(st.binary(max_size=8)) + data[cut + draw(st.integers(0, 8)) :]
    lie = draw(st.sampled_from([{}] * 6 + [{"content-encoding": name} for name in ("gzip", "zstd", "br", "x")]))
    return path, data, lie


@pytest.fixture(scope="module")
def between() -> Iterator[tuple[httpx.Client, ProviderApp]]:
    """A client of a gateway with a small window, and the provider behind it."""
    provider = ProviderApp(lambda _: LoopbackReply("Fine."), window=100_000)
    log = logging.getLogger("unabridged.gateway")
    level = log.level
    log.setLevel(logging.CRITICAL)
    with serve_in_thread(provider) as upstream:
        config = load_config(None, upstream=upstream, window="4k", archive="memory:", summariser="none", port=0)
        with serve_in_thread(Gateway(config)) as url, httpx.Client(base_url=url, timeout=PATIENCE) as client:
            yield client, provider
    log.setLevel(level)


@settings(max_examples=REQUESTS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies())
def test_what_no_client_should_send_is_passed_on_or_refused_as_the_provider_would(
    between: tuple[httpx.Client, ProviderApp], sent: tuple[str, bytes, dict[str, str]]
) -> None:
    client, provider = between
    path, data, lie = sent
    before = len(provider.raw)
    answer = client.post(path, content=data, headers={"content-type": "application/json", **lie})
    assert answer.status_code < 500, answer.text
    if len(provider.raw) == before:  # refused here, or a compaction that was asked for
        assert answer.status_code in {400, 413, 415} or '"compaction"' in answer.text, answer.text
        assert answer.status_code == 200 or "error" in answer.json()


def test_over_raw_sockets_each_is_answered_or_closed_and_nothing_else_goes_on() -> None:
    """As `make clients WHAT=gateway` does it with 10,000."""
    for check in go_malformed(max(200, REQUESTS // 2)):
        assert check.holds, check
