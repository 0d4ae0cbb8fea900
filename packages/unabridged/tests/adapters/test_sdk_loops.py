"""Long loops through `unabridged.wrap`: the SDKs' real clients, and providers that refuse what real ones would."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import anthropic
import openai
import pytest
from google.genai import errors

import effort
import sdk_loops
import unabridged
from rows import rows
from sdk_loops import TASK, BetaMessages, Chat, Contents, Messages, Responses, client_of, working
from unabridged_testing.loopback import Loopback

WINDOW = 12_000
APIS = [(Chat(), "OpenAI"), (Responses(), "OpenAI"), (Messages(), "Anthropic"), (Contents(), "genai")]
NAMES = ["chat", "responses", "messages", "contents"]
OTHERS = [
    (BetaMessages(), "Anthropic"),
    (Messages("us.anthropic.claude-opus-5-5-v1:0"), "AnthropicBedrock"),
    (BetaMessages("claude-opus-5-5@20260801"), "AnthropicVertex"),
]
ALL, ALL_NAMES = [*APIS, *OTHERS], [*NAMES, "beta-messages", "bedrock", "vertex"]
LONG = {Chat: (False, False), Responses: (True, True), Messages: (True, True), Contents: (False, False)}
"""Async, streaming: the loops that have 150 steps with ALL=1."""
STEPS = int(os.environ.get("UNABRIDGED_STEPS", "20"))
"""Of the others."""


def loop(api: Any, name: str, provider: Loopback, *, asynchronous: bool, streaming: bool) -> list[Any]:
    """The loop over a wrapped client; the conversation at its end."""
    given = client_of(name, provider.url, asynchronous=asynchronous)
    wrapped = unabridged.wrap(given, thread="t", archive="memory:", window=WINDOW)
    if not asynchronous:
        with wrapped as client:
            return sdk_loops.run(api, client, streaming=streaming)

    async def go() -> list[Any]:
        async with wrapped as client:
            return await sdk_loops.arun(api, client, streaming=streaming)

    return asyncio.run(go())


@rows(("api", "client"), APIS, ids=NAMES)
@rows("streaming", [False, True], ids=["plain", "streaming"])
@rows("asynchronous", [False, True], ids=["sync", "async"])
def test_a_loop_far_beyond_the_window_has_no_request_refused(
    api: Any, client: str, asynchronous: bool, streaming: bool
) -> None:
    steps = 150 if effort.ALL and (asynchronous, streaming) == LONG[type(api)] else STEPS
    with Loopback(working(steps, thinks=True), window=WINDOW) as provider:
        conversation = loop(api, client, provider, asynchronous=asynchronous, streaming=streaming)
    assert provider.refused == []
    assert provider.too_long == []
    assert len(provider.requests) == steps + 1
    assert len(conversation) > 2 * steps, "the caller's list is the caller's"
    assert all(TASK in json.dumps(request) for request in provider.requests)


@rows(("api", "client"), ALL, ids=ALL_NAMES)
@rows("streaming", [False, True], ids=["plain", "streaming"])
@rows("asynchronous", [False, True], ids=["sync", "async"])
def test_a_window_smaller_than_was_thought_costs_one_refusal_and_is_learned(
    api: Any, client: str, streaming: bool, asynchronous: bool
) -> None:
    with Loopback(working(STEPS, thinks=True), window=WINDOW // 2) as provider:
        loop(api, client, provider, asynchronous=asynchronous, streaming=streaming)
    assert provider.refused == []
    assert len(provider.too_long) == 1, "in the provider's own words; Responses and Bedrock say it in an open stream"
    assert len(provider.requests) == STEPS + 1


@rows(("api", "client"), ALL, ids=ALL_NAMES)
@rows("streaming", [False, True], ids=["plain", "streaming"])
def test_without_wrap_the_same_loop_overflows(api: Any, client: str, streaming: bool) -> None:
    refusals = (openai.OpenAIError, anthropic.AnthropicError, errors.APIError, RuntimeError)
    provider = Loopback(working(STEPS), window=WINDOW)
    with provider, client_of(client, provider.url) as plain, pytest.raises(refusals):
        sdk_loops.run(api, plain, streaming=streaming)
    assert provider.too_long
