"""Long loops through `unabridged.wrap`: the SDKs' real clients, and providers that refuse what real ones would."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors

import sdk_loops
import unabridged
from sdk_loops import TASK, BetaMessages, Chat, Contents, Messages, Responses, working
from unabridged.testing.loopback import Loopback

WINDOW = 12_000
APIS = [(Chat(), openai), (Responses(), openai), (Messages(), anthropic), (Contents(), genai)]
NAMES = ["chat", "responses", "messages", "contents"]
LONG = {Chat: (False, False), Responses: (True, True), Messages: (True, True), Contents: (False, False)}
"""Async, streaming: the loops that always have 300 steps."""
STEPS = int(os.environ.get("UNABRIDGED_STEPS", "30"))
"""Of the others."""


def client_of(sdk: Any, provider: Loopback, *, asynchronous: bool = False) -> Any:
    if sdk is genai:
        given = genai.Client(api_key="none", http_options={"base_url": provider.url})
        return given.aio if asynchronous else given
    prefix = "Async" if asynchronous else ""
    name = "OpenAI" if sdk is openai else "Anthropic"
    return getattr(sdk, prefix + name)(base_url=provider.url, api_key="none", max_retries=0)


def loop(api: Any, sdk: Any, provider: Loopback, *, asynchronous: bool, streaming: bool, **keywords: Any) -> list[Any]:
    """The loop over a wrapped client; the conversation at its end."""
    keywords = {"thread": "t", "archive": "memory:", "window": WINDOW, **keywords}
    if not asynchronous:
        with unabridged.wrap(client_of(sdk, provider), **keywords) as client:
            return sdk_loops.run(api, client, streaming=streaming)

    async def go() -> list[Any]:
        async with unabridged.wrap(client_of(sdk, provider, asynchronous=True), **keywords) as client:
            return await sdk_loops.arun(api, client, streaming=streaming)

    return asyncio.run(go())


@pytest.mark.parametrize(("api", "sdk"), APIS, ids=NAMES)
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_loop_far_beyond_the_window_has_no_request_refused(
    api: Any, sdk: Any, asynchronous: bool, streaming: bool
) -> None:
    steps = 300 if (asynchronous, streaming) == LONG[type(api)] else STEPS
    with Loopback(working(steps, thinks=True), window=WINDOW) as provider:
        conversation = loop(api, sdk, provider, asynchronous=asynchronous, streaming=streaming)
    assert provider.refused == []
    assert provider.too_long == []
    assert len(provider.requests) == steps + 1
    assert len(conversation) > 2 * steps, "the caller's list is the caller's"
    assert all(TASK in json.dumps(request) for request in provider.requests)


@pytest.mark.parametrize(("api", "sdk"), [*APIS, (BetaMessages(), anthropic)], ids=[*NAMES, "beta-messages"])
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_window_smaller_than_was_thought_costs_one_refusal_and_is_learned(
    api: Any, sdk: Any, streaming: bool, asynchronous: bool
) -> None:
    with Loopback(working(30, thinks=True), window=WINDOW // 2) as provider:
        loop(api, sdk, provider, asynchronous=asynchronous, streaming=streaming)
    assert provider.refused == []
    assert len(provider.too_long) == 1, "in each provider's own words; Responses says it after the stream was opened"
    assert len(provider.requests) == 31


@pytest.mark.parametrize(("api", "sdk"), APIS, ids=NAMES)
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
def test_without_wrap_the_same_loop_overflows(api: Any, sdk: Any, streaming: bool) -> None:
    refusals = (openai.OpenAIError, anthropic.AnthropicError, errors.APIError, RuntimeError)
    with Loopback(working(30), window=WINDOW) as provider, client_of(sdk, provider) as client, pytest.raises(refusals):
        sdk_loops.run(api, client, streaming=streaming)
    assert provider.too_long
