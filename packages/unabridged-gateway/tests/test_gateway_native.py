"""The provider's own compaction for clients of the gateway, which resend everything and know nothing of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import sdk_loops
from gateway_case import WINDOW, Case, gateway, worker
from provider_app import ProviderApp
from provider_compaction import build_null_answer, list_compactions
from provider_faults import Fault, answer_garbage, drop_midstream, fail_with_status
from rows import rows
from sdk_loops import TASK, BetaMessages, Chat, Messages, Responses, client_of

APIS = [(Messages(), "Anthropic"), (BetaMessages(), "Anthropic"), (Responses(), "OpenAI")]
NAMES = ["messages", "beta-messages", "responses"]
STEPS = 18
NATIVE = {"summariser": "native", "clear": None}
FAULTS = {
    "refused": fail_with_status(400),
    "not found": fail_with_status(404),
    "broken": fail_with_status(500),
    "garbage": answer_garbage(),
    "dropped": drop_midstream(),
    "null content": Fault(body=build_null_answer()),
}


def loop(api: Any, client: str, case: Case, *, asynchronous: bool = False) -> list[Any]:
    sdk = client_of(client, case.base_url(client), asynchronous=asynchronous)
    if not asynchronous:
        with sdk:
            return sdk_loops.run(api, sdk, streaming=True)

    async def go() -> list[Any]:
        async with sdk:
            return await sdk_loops.arun(api, sdk, streaming=True)

    return asyncio.run(go())


def assert_all_was_answered(case: Case) -> None:
    provider = case.provider
    assert provider.refused == []
    assert provider.too_long == []
    assert provider.malformed == []
    assert len(case.conversation()) == STEPS + 1
    assert all(TASK.encode() in request.content for request in case.conversation())


@rows(("api", "client"), APIS, ids=NAMES)
@rows("background", [None, 0.8], ids=["at the trigger", "early"])
@rows("asynchronous", [False, True], ids=["sync", "async"])
def test_the_provider_compacts_for_a_client_that_resends_everything(
    api: Any, client: str, background: float | None, asynchronous: bool, tmp_path: Path
) -> None:
    with gateway(ProviderApp(worker(STEPS), window=WINDOW), tmp_path, background=background, **NATIVE) as case:
        conversation = loop(api, client, case, asynchronous=asynchronous)
    assert_all_was_answered(case)
    assert len(conversation) > 2 * STEPS
    assert len(case.provider.compactions.made) >= 3
    summaries = [record for record in case.records() if record.kind == "summary"]
    assert all("native" in record.data for record in summaries)
    last = json.loads(case.conversation()[-1].content)
    (block,) = list_compactions(last["messages" if client == "Anthropic" else "input"])
    assert block in case.provider.compactions.made
    if client == "Anthropic":
        assert all("compact-2026-09-04" in request.headers.get("anthropic-beta", "") for request in with_blocks(case))


def with_blocks(case: Case) -> list[Any]:
    requests = [request for request in case.conversation() if b'"compaction"' in request.content]
    assert requests
    return requests


@rows(("api", "client"), APIS[::2], ids=NAMES[::2])
@rows("fault", FAULTS.values(), ids=FAULTS)
def test_the_clients_own_model_writes_where_the_provider_does_not_compact(
    api: Any, client: str, fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = ProviderApp(worker(STEPS), window=WINDOW)
    provider.compaction_faults.append(fault)
    with gateway(provider, tmp_path, background=None, **NATIVE) as case:
        loop(api, client, case)
    assert_all_was_answered(case)
    first, *others = sorted((one for one in case.records() if one.kind == "summary"), key=lambda one: one.created)
    assert "native" not in first.data
    assert others
    assert any("our own prompt was used instead" in note for note in first.data["receipt"]["notes"])
    assert "the provider's own compaction failed" in caplog.text


def test_what_is_unavailable_for_a_moment_is_asked_for_again(tmp_path: Path) -> None:
    provider = ProviderApp(worker(STEPS), window=WINDOW)
    provider.compaction_faults += [fail_with_status(529, code_name="compaction_unavailable")]
    with gateway(provider, tmp_path, background=None, **NATIVE) as case:
        loop(Messages(), "Anthropic", case)
    assert_all_was_answered(case)
    assert all("native" in record.data for record in case.records() if record.kind == "summary")


def test_a_model_has_the_summariser_that_is_set_for_it(tmp_path: Path) -> None:
    models = {"gpt-*": {"summariser": "native"}}
    with gateway(ProviderApp(worker(STEPS), window=WINDOW), tmp_path, clear=None, models=models) as case:
        loop(Messages(), "Anthropic", case)
        assert case.provider.compactions.made == []
        loop(Chat(), "OpenAI", case)
        assert case.provider.compactions.made == [], "Chat Completions have none"
        loop(Responses(), "OpenAI", case)
    assert case.provider.compactions.made
    assert case.provider.refused == []
