"""The provider's own compaction through the SDKs' real clients, against a provider that holds it to its rules."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anthropic
import pytest

import sdk_loops
import unabridged
from patience import PATIENCE
from provider_app import ProviderApp
from provider_compaction import build_null_answer, list_compactions
from provider_faults import Fault, answer_garbage, delay_answer, drop_midstream, fail_with_status
from rows import rows
from sdk_loops import SYSTEM, TASK, BetaMessages, Chat, Messages, Responses, client_of, working
from serving import serve_in_thread
from unabridged import Compactor, Settings, SettingsError
from unabridged.archive import open_archive
from unabridged.events import Compacted, Failed
from unabridged_testing.loopback import LoopbackReply

WINDOW = 12_000
WRITTEN = "The worker went through the numbers one by one, and the readings were steady."
UNAVAILABLE = fail_with_status(529, code_name="compaction_unavailable")
FAULTS = {
    "refused": fail_with_status(400),
    "no key": fail_with_status(401),
    "not found": fail_with_status(404),
    "limited": fail_with_status(429, "1"),
    "broken": fail_with_status(500),
    "overloaded": fail_with_status(529),
    "garbage": answer_garbage(),
    "no JSON object": answer_garbage(b"[1, 2]"),
    "dropped": drop_midstream(),
    "no answer in time": delay_answer(3),
    "null content": Fault(body=build_null_answer()),
}
"""Whatever goes wrong with a compaction."""


class ThinkingMessages(Messages):
    """Messages of an agent that thinks, and whose requests have all that a request to compact may not have."""

    def asked(self, messages: list[Any]) -> dict[str, Any]:
        format_ = {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
        beside = {"stop_sequences": ["STOP"], "thinking": {"type": "adaptive"}, "output_config": {"format": format_}}
        return {**super().asked(messages), **beside, "tool_choice": {"type": "any"}}


APIS = [(ThinkingMessages(), "Anthropic"), (BetaMessages(), "Anthropic"), (Responses(), "OpenAI")]
WITHOUT = [(Chat(), "OpenAI"), (Messages("us.anthropic.claude-opus-5-5-v1:0"), "AnthropicBedrock")]
NAMES = ["messages", "beta-messages", "responses"]


def working_and_writing(steps: int, *, thinks: bool = True) -> Callable[[Sequence[Any]], LoopbackReply]:
    """The worker, whom another prompt makes write a summary."""
    work = working(steps, thinks=thinks)

    def answer(messages: Sequence[Any]) -> LoopbackReply:
        is_prompt = len(messages) == 1 and messages[0].get("content") != TASK
        return LoopbackReply(WRITTEN) if is_prompt else work(messages)

    return answer


class Run:
    """A loop over a wrapped client that compacts natively, every request of it streamed."""

    def __init__(
        self, api: Any, client: str, *, asynchronous: bool = False, steps: int = 30, faults: Sequence[Fault] = (),
        size: int = 400, thinks: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        self.archive = open_archive("memory:")
        self.events: list[Any] = []
        self.missing: list[str] = []
        self._client_name, self._is_async, self._api = client, asynchronous, api
        self.provider = ProviderApp(self._check_archive(working_and_writing(steps, thinks=thinks)), window=WINDOW)
        self.provider.compaction_faults = deque(faults)
        self.provider.compactions.size = size
        options = {"settings": Settings(clear=None), "summariser": "native", **options}
        with serve_in_thread(self.provider) as url:
            client_ = client_of(client, url, asynchronous=asynchronous)
            self.wrapped: Any = unabridged.wrap(
                client_, thread="t", archive=self.archive, window=WINDOW, on_event=self.events.append, **options
            )
            if asynchronous:
                self.conversation = asyncio.run(self._arun(client_))
            else:
                self.conversation = sdk_loops.run(api, self.wrapped, streaming=True)
        self.history = self.wrapped.unabridged
        self.sent = self.history.last("t").messages

    async def _arun(self, client: Any) -> list[Any]:
        async with client:
            return await sdk_loops.arun(self._api, self.wrapped, streaming=True)

    def _check_archive(self, script: Callable[[Sequence[Any]], LoopbackReply]) -> Any:
        """Note each request whose list the archive can't make whole: it must know what went before it is sent."""
        format_ = "anthropic" if "Anthropic" in self._client_name else "openai-responses"
        reader = Compactor(archive=self.archive, window=WINDOW, format=format_)
        lengths = [0]

        def answer(messages: Sequence[Any]) -> LoopbackReply:
            if len(messages) > 1:
                whole = reader.replay(list(messages), thread="t")
                texts = json.dumps(whole, default=str)
                if TASK not in json.dumps(whole[0], default=str) or len(whole) < lengths[-1] or '"compaction"' in texts:
                    self.missing.append(texts[:200])
                lengths.append(len(whole))
            return script(messages)

        return answer

    @property
    def receipts(self) -> list[Any]:
        return [event.receipt for event in self.events if isinstance(event, Compacted)]

    @property
    def failures(self) -> list[Failed]:
        return [event for event in self.events if isinstance(event, Failed)]

    def assert_nothing_is_lost(self) -> None:
        assert self.provider.refused == []
        assert self.provider.too_long == []
        assert self.missing == []
        replayed = self.history.replay(thread="t")
        assert replayed == self.conversation[: len(replayed)]
        assert len(replayed) >= len(self.conversation) - 3
        assert all(TASK in json.dumps(request) for request in self.provider.requests if is_of_agent(request))


def is_of_agent(request: Any) -> bool:
    return bool(request.get("tools"))


@rows(("api", "client"), APIS, ids=NAMES)
@rows("asynchronous", [False, True], ids=["sync", "async"])
def test_three_compactions_in_a_row_are_the_providers_own_and_nothing_is_lost(
    api: Any, client: str, asynchronous: bool
) -> None:
    run = Run(api, client, asynchronous=asynchronous)
    run.assert_nothing_is_lost()
    assert run.failures == []
    made, asked = run.provider.compactions.made, run.provider.compactions.asked
    assert len(made) == len(run.receipts) >= 3
    assert all(receipt.cost["calls"] == 1 and receipt.cost["input"] > 5_000 for receipt in run.receipts)
    assert all("compacted by the provider itself" in receipt.notes[0] for receipt in run.receipts)
    assert list_compactions(run.sent) == made[-1:], "unchanged, and the only one"
    field = "messages" if client == "Anthropic" else "input"
    assert [list_compactions(body[field]) for body in asked] == [[], *([block] for block in made[:-1])]
    if client == "Anthropic":
        assert all(body["system"] == SYSTEM and body["tools"] and body["max_tokens"] >= 4_096 for body in asked)
    else:
        assert all(body["instructions"] == SYSTEM for body in asked)
    if isinstance(api, ThinkingMessages):
        assert all(body["thinking"] == {"type": "adaptive"} for body in asked)
    assert run.history.search("Number 2 was worked on", thread="t")
    before = run.history.undo(thread="t")
    assert list_compactions(before) == [made[-2]], "the list as it was, with the block before"
    assert run.history.replay(before, thread="t") == run.history.replay(thread="t")


@rows(("api", "client"), APIS[::2], ids=NAMES[::2])
@rows("fault", FAULTS.values(), ids=FAULTS)
def test_where_the_provider_does_not_compact_our_own_prompt_does_and_it_is_said(
    api: Any, client: str, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    deadline = 2 if fault is FAULTS["no answer in time"] else PATIENCE
    run = Run(api, client, faults=[fault], steps=14, settings=Settings(clear=None, deadline=deadline))
    run.assert_nothing_is_lost()
    (failed,) = run.failures
    assert (failed.stage, failed.goes_on) == ("summary", True)
    assert bool(failed.cost) == (fault.body == build_null_answer() and client == "Anthropic")
    first = run.receipts[0]
    assert any("our own prompt was used instead" in note for note in first.notes)
    assert WRITTEN[:40] in json.dumps(run.provider.requests[-1], default=str) or len(run.receipts) > 1
    assert "the provider's own compaction failed" in caplog.text
    compactions = [
        one for one in run.provider.raw if run.provider.compactions.is_request(one.path, json.loads(one.body))
    ]
    assert len(compactions) == len(run.receipts), "asked once for each compaction"


def test_only_what_is_unavailable_for_a_moment_is_asked_for_again() -> None:
    run = Run(Messages(), "Anthropic", faults=[UNAVAILABLE, UNAVAILABLE], steps=14)
    run.assert_nothing_is_lost()
    assert run.failures == []
    assert run.provider.compactions.made
    run = Run(Messages(), "Anthropic", faults=[UNAVAILABLE] * 3, steps=14)
    run.assert_nothing_is_lost()
    assert "compaction_unavailable" in run.receipts[0].notes[0]


def test_a_compaction_that_is_too_large_is_not_used() -> None:
    run = Run(Messages(), "Anthropic", size=40_000, steps=14)
    run.assert_nothing_is_lost()
    assert run.provider.compactions.made
    assert "too large" in str(run.failures[0].error)
    assert run.failures[0].cost["output"] == 10_000
    assert list_compactions(run.sent) == []


@rows(("api", "client"), WITHOUT, ids=["chat", "bedrock"])
def test_requests_to_an_api_without_a_compaction_are_summarised_with_our_own_prompt(api: Any, client: str) -> None:
    run = Run(api, client, steps=14)
    assert run.provider.refused == []
    assert run.provider.too_long == []
    assert run.provider.compactions.made == []
    assert "our own prompt was used instead" in run.receipts[0].notes[0]
    assert run.receipts[0].summariser != "model-free"


@rows(("api", "client"), APIS[1:], ids=NAMES[1:])
def test_a_list_that_one_provider_compacted_reaches_another_without_its_block(api: Any, client: str) -> None:
    run = Run(api, client, steps=14, thinks=False)
    made = run.provider.compactions.made
    assert made
    other, window = ProviderApp(working_and_writing(0), window=5 * WINDOW), 5 * WINDOW
    options: dict[str, Any] = {"thread": "t", "archive": run.archive, "window": window}
    options["settings"] = Settings(clear=None, trigger=("tokens", 9_000))
    with serve_in_thread(other) as url:
        sdk = client_of(client, url.replace("127.0.0.1", "localhost"))
        native, plain = unabridged.wrap(sdk, summariser="native", **options), unabridged.wrap(sdk, **options)
        for wrapped in (native, plain, native):  # and once more, as the archive has it by now
            api.plain(wrapped, api.asked(run.sent))
            assert wrapped.unabridged.replay(thread="t") == run.history.replay(run.sent, thread="t")
    assert other.refused == []
    assert other.too_long == []
    sent = [list_compactions(request["messages" if client == "Anthropic" else "input"]) for request in other.requests]
    assert sent == [other.compactions.made, [], other.compactions.made]
    assert len(other.compactions.made) == 1


def test_the_originals_go_to_another_provider_without_thinking_that_is_bound_to_a_compacted_list() -> None:
    run = Run(Messages(), "Anthropic", steps=14)
    other = ProviderApp(working_and_writing(0), window=20 * WINDOW)
    with serve_in_thread(other) as url:
        sdk: Any = client_of("Anthropic", url)
        wrapped = unabridged.wrap(sdk, thread="t", archive=run.archive, window=20 * WINDOW)
        wrapped.messages.create(**Messages().asked(run.sent))
    assert other.refused == []
    (request,) = other.requests
    assert len(request["messages"]) == len(run.history.replay(run.sent, thread="t"))


@contextmanager
def compacting(
    client: str, *, asynchronous: bool = False, **options: Any
) -> Iterator[tuple[Compactor, ProviderApp, Any]]:
    provider = ProviderApp(working_and_writing(0), window=WINDOW)
    with serve_in_thread(provider) as url:
        sdk = client_of(client, url, asynchronous=asynchronous)
        model = unabridged.native(sdk, "claude-opus-5-5" if client == "Anthropic" else "gpt-5-mini", **options)
        with Compactor(model, archive="memory:", window=WINDOW, settings=Settings(clear=None)) as compactor:
            yield compactor, provider, sdk


async def afit(compactor: Compactor, sdk: Any, messages: list[Any], fixed: dict[str, Any]) -> unabridged.Compaction:
    async with sdk:
        return await compactor.afit(messages, **fixed)


def long_talk(count: int = 40) -> list[Any]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": f"Sentence {i} of the talk. " * 40} for i in range(count + 1)]


@rows("client", ["Anthropic", "OpenAI"])
@rows("asynchronous", [False, True], ids=["sync", "async"])
def test_a_compactor_of_ones_own_loop_has_the_provider_compact(client: str, asynchronous: bool) -> None:
    messages, options = long_talk(), {"thinking": {"type": "adaptive"}} if client == "Anthropic" else {}
    with compacting(client, asynchronous=asynchronous, **options) as (compactor, provider, sdk):
        fixed: Any = {"thread": "t", "system": SYSTEM}
        fitted = (
            asyncio.run(afit(compactor, sdk, messages, fixed)) if asynchronous else compactor.fit(messages, **fixed)
        )
        assert list_compactions(fitted.messages) == provider.compactions.made
        assert provider.compactions.asked[0].get("thinking") == options.get("thinking")
        assert SYSTEM in provider.compactions.asked[0].values()
        assert compactor.fit(messages, **fixed).messages == fitted.messages
        assert compactor.fit(fitted.messages, **fixed).messages == fitted.messages, "its own block stays"
        assert compactor.replay(fitted.messages, thread="t") == messages
        if client == "Anthropic" and not asynchronous:
            asked = {"model": "claude-opus-5-5", "max_tokens": 10, "messages": fitted.messages}
            with pytest.raises(anthropic.BadRequestError, match="beta header"):
                sdk.messages.create(**asked)
            sdk.beta.messages.create(**asked, betas=["compact-2026-09-04"])


def test_a_block_of_the_callers_own_that_stays_leaves_no_room_for_another() -> None:
    block = {"type": "compaction", "content": "Earlier, all was well.", "signature": "s"}
    messages = [{"role": "assistant", "content": [block]}, *long_talk()]
    with compacting("Anthropic") as (compactor, provider, _):
        fitted = compactor.fit(messages, thread="t")
        assert provider.compactions.asked == []
        assert fitted.messages[0] is messages[0]
        assert any("takes one at most" in note for note in fitted.receipt.notes)  # type: ignore[union-attr]


def test_whoever_can_not_compact_is_refused_at_once() -> None:
    google, chat = client_of("genai", "http://127.0.0.1:1"), client_of("OpenAI", "http://127.0.0.1:1")
    with pytest.raises(SettingsError, match="no compaction of its own"):
        unabridged.wrap(google, summariser="native", archive="memory:")
    with pytest.raises(SettingsError, match="no compaction of its own"):
        unabridged.native(google, "gemini-2.5-flash")
    with pytest.raises(SettingsError, match="openai-responses messages, and the format is openai-chat"):
        Compactor(unabridged.native(chat, "gpt-5-mini"), format="openai-chat", archive="memory:")
    with pytest.raises(SettingsError, match="and stand alone"):
        unabridged.wrap(chat, summariser="magic", archive="memory:")
    with pytest.raises(SettingsError, match="and stand alone"):
        unabridged.wrap(chat, summariser="native", model="openai:gpt-5-mini", archive="memory:")


def test_betas_and_headers_of_the_agents_own_go_along() -> None:
    provider = ProviderApp(working_and_writing(0), window=WINDOW)
    with serve_in_thread(provider) as url:
        wrapped: Any = unabridged.wrap(
            client_of("Anthropic", url), archive="memory:", window=WINDOW, summariser="native", thread="t"
        )
        wrapped.beta.messages.create(
            model="claude-opus-5-5", max_tokens=10, messages=long_talk(), betas=["context-1m-2025-08-07"],
            extra_headers={"x-team": "blue"}, context_management={"edits": []},
        )  # fmt: skip
    assert provider.refused == []
    assert len(provider.raw) == 2
    for request in provider.raw:
        assert request.headers["x-team"] == "blue"
        assert set(request.headers["anthropic-beta"].split(",")) >= {"context-1m-2025-08-07", "compact-2026-09-04"}
