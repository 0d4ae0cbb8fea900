from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

from summaries import BOTH, GOOD, Ran, block, quick, run, talk
from unabridged.asking.ask import Ask, AskFailed
from unabridged.asking.asker import Asker
from unabridged.asking.exchange import Exchange
from unabridged.asking.providers import open_model
from unabridged.asking.replies import reply_of
from unabridged.errors import SettingsError
from unabridged.summary.ask_loop import summarise
from unabridged.summary.brief import LivePrompt
from unabridged.tokens.calibrate import Usage
from upstream import Upstream, chat, claude, gemini, responses, serving

ASK = Ask(instruction="Summarise.", max_tokens=500, deadline=30)
CALL = {"id": "t-1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@dataclass(frozen=True)
class Provider:
    model: str
    base: str
    answer: Any
    path: str
    usage: Usage

    def __str__(self) -> str:
        return self.model.partition(":")[0]


OPENAI = Provider("openai:served", "/v1", chat, "/v1/chat/completions", Usage(120, 100, 0, 30))
CLAUDE = Provider("anthropic:claude-x", "", claude, "/v1/messages", Usage(120, 90, 10, 30))
GOOGLE = Provider("google:gemini-x", "", gemini, "/models/gemini-x:generateContent", Usage(120, 0, 0, 30))
RESPONSES = Provider("openai-responses:gpt-x", "/v1", responses, "/v1/responses", Usage(120, 100, 0, 30))
every_provider = pytest.mark.parametrize("provider", [OPENAI, CLAUDE, GOOGLE, RESPONSES], ids=str)

Opening = Callable[..., Asker]


@pytest.fixture
def opened(upstream: Upstream) -> Iterator[Opening]:
    """Askers of providers' models whose API is the upstream; all are closed after the test."""
    with ExitStack() as stack:

        def open_(provider: Provider, **options: Any) -> Asker:
            model = open_model(provider.model, base_url=upstream.url + provider.base, api_key="none", **options)
            return stack.enter_context(closing(quick(model)))

        yield open_


# R20
@every_provider
def test_a_reply_comes_with_its_stop_reason_and_usage(upstream: Upstream, opened: Opening, provider: Provider) -> None:
    upstream.answers = [provider.answer(GOOD)]
    reply = Exchange(opened(provider)).ask(ASK)
    assert (reply.text, reply.stop, reply.usage) == (GOOD, "end", provider.usage)
    assert (reply.calls, reply.model) == (0, provider.model)
    assert provider.path in upstream.paths[0]


@every_provider
def test_a_summary_through_the_real_client_sync_and_async(
    upstream: Upstream, opened: Opening, provider: Provider
) -> None:
    upstream.answers = [provider.answer(GOOD)]
    asker = opened(provider)
    for ran in (*BOTH, *BOTH):  # one client serves both, again and again
        summary = ran(summarise(*block()), asker)
        assert (summary.text, summary.usage) == (GOOD, provider.usage)
        assert (summary.checks_impossible, summary.models) == ((), (provider.model,))


BASH = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}


@pytest.mark.parametrize(
    ("provider", "answer", "stop"),
    [
        (OPENAI, chat(GOOD, "length"), "length"),
        (OPENAI, chat(None, "tool_calls", tool_calls=[CALL]), "tool"),
        (OPENAI, chat("no", "content_filter"), "refusal"),
        (CLAUDE, claude(GOOD, "max_tokens"), "length"),
        (CLAUDE, claude("", "tool_use", BASH), "tool"),
        (CLAUDE, claude("I won't.", "refusal"), "refusal"),
        (GOOGLE, gemini(GOOD, "MAX_TOKENS"), "length"),
        (GOOGLE, gemini("no", "SAFETY"), "refusal"),
        (RESPONSES, responses(GOOD, "incomplete"), "length"),
    ],
)
def test_every_way_to_stop_is_carried_through(
    upstream: Upstream, opened: Opening, provider: Provider, answer: Any, stop: str
) -> None:
    upstream.answers = [answer]
    reply = Exchange(opened(provider)).ask(ASK)
    assert (reply.stop, reply.calls) == (stop, stop == "tool")


def test_thinking_is_kept_apart_from_the_text(upstream: Upstream, opened: Opening) -> None:
    upstream.answers = [claude(GOOD, "end_turn", {"type": "thinking", "thinking": "hm", "signature": "s"})]
    reply = Exchange(opened(CLAUDE)).ask(ASK)
    assert (reply.text, reply.reasoning) == (GOOD, "hm")


# R20
def test_the_callers_options_and_the_reserved_output_are_sent(upstream: Upstream, opened: Opening) -> None:
    upstream.answers = [chat(GOOD)]
    Exchange(opened(OPENAI, options={"temperature": 0.25})).ask(ASK)
    sent = upstream.requests[0]
    assert sent["temperature"] == 0.25
    assert sent.get("max_completion_tokens", sent.get("max_tokens")) == 500
    assert sent["messages"] == [{"role": "user", "content": "Summarise."}]


@pytest.mark.parametrize("name", ["openai", "ollama", "vllm", "llamacpp", "lmstudio"])
def test_an_address_may_stand_in_the_string(upstream: Upstream, name: str) -> None:
    upstream.answers = [chat(GOOD)]
    with closing(quick(f"{name}:served@{upstream.url}/v1")) as asker:
        summary = run(summarise(*block()), asker)
    assert (summary.text, summary.models) == (GOOD, (f"{name}:served",))
    assert upstream.paths == ["/v1/chat/completions"]


@every_provider
def test_a_provider_that_is_busy_is_asked_again_by_us_alone(
    upstream: Upstream, opened: Opening, provider: Provider
) -> None:
    busy = (503, {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})
    upstream.answers = [busy, busy, provider.answer(GOOD)]
    assert Exchange(opened(provider)).ask(ASK).text == GOOD
    assert len(upstream.requests) == 3  # the SDK's own retries would add to them


TOO_LONG = {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}
TOO_LONG_CLAUDE = {"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 8192 maximum"}
TOO_LONG_GOOGLE = {
    "code": 400,
    "status": "INVALID_ARGUMENT",
    "message": "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
}


@pytest.mark.parametrize(
    ("provider", "error"),
    [
        (OPENAI, {"error": TOO_LONG}),
        (RESPONSES, {"error": TOO_LONG}),
        (CLAUDE, {"type": "error", "error": TOO_LONG_CLAUDE}),
        (GOOGLE, {"error": TOO_LONG_GOOGLE}),
    ],
)
def test_an_overflow_is_recognised_behind_the_real_client(
    upstream: Upstream, opened: Opening, provider: Provider, error: dict[str, Any]
) -> None:
    upstream.answers = [(400, error)]
    with pytest.raises(AskFailed) as caught:
        Exchange(opened(provider)).ask(ASK)
    assert caught.value.overflow is not None
    assert caught.value.overflow.limit == 8_192
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("ran", BOTH)
def test_a_server_that_hangs_ends_at_the_deadline(upstream: Upstream, ran: Ran) -> None:
    upstream.answers = [None]
    with (
        closing(quick(f"openai:served@{upstream.url}/v1", deadline=0.4, retries=0)) as asker,
        pytest.raises(AskFailed) as caught,
    ):
        ran(summarise(*block()), asker)
    assert caught.value.why == "timeout"


# -- as a suffix ------------------------------------------------------------------------------------------------------


TOOLS_CHAT = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
TOOLS_CLAUDE = [{"name": "bash", "input_schema": {"type": "object", "properties": {}}}]
TURNS = [{"role": view.role, "content": view.text} for view in talk(56)]
RULE = "You build things."


async def _live_request(provider: str, url: str) -> None:
    """The agent's own last request, made by the SDK as a user would."""
    if provider == "anthropic":
        async with anthropic.AsyncAnthropic(api_key="none", base_url=url) as client:
            await client.messages.create(
                model="claude-x",
                max_tokens=900,
                system=RULE,
                tools=TOOLS_CLAUDE,  # type: ignore[arg-type] # plain dicts, as users write them
                messages=TURNS[:-1],  # type: ignore[arg-type]
            )
        return
    async with openai.AsyncOpenAI(api_key="none", base_url=f"{url}/v1") as other:
        if provider == "openai-responses":
            await other.responses.create(
                model="gpt-x",
                instructions=RULE,
                tools=TOOLS_CLAUDE,  # type: ignore[arg-type]
                input=TURNS[:-1],  # type: ignore[arg-type]
            )
        else:
            await other.chat.completions.create(
                model="served",
                tools=TOOLS_CHAT,  # type: ignore[arg-type]
                messages=TURNS[:-1],  # type: ignore[arg-type]
            )


@pytest.mark.parametrize(
    ("provider", "tools", "system"),
    [(OPENAI, TOOLS_CHAT, None), (RESPONSES, TOOLS_CLAUDE, RULE), (CLAUDE, TOOLS_CLAUDE, RULE)],
)
def test_a_suffix_reads_nearly_all_of_its_input_from_the_providers_cache(
    upstream: Upstream, opened: Opening, provider: Provider, tools: Any, system: Any
) -> None:
    upstream.answers = [provider.answer(GOOD)]
    asyncio.run(_live_request(str(provider), upstream.url))
    live = LivePrompt(TURNS, 9_000, system=system, tools=tools, kept=2)
    summary = run(summarise(*block(live=live)), opened(provider))
    assert (summary.text, summary.checks_impossible) == (GOOD, ())
    assert upstream.cached[0] == 0
    assert upstream.cached[1] >= 0.9  # the rest is the newest turn and the instruction
    sent = upstream.requests[1]
    assert (sent.get("messages") or sent["input"])[:-1] == TURNS
    assert sent["tools"] == tools


def test_a_provider_that_cannot_continue_the_live_prompt_says_so(opened: Opening) -> None:
    with pytest.raises(AskFailed, match="only OpenAI and Anthropic"):
        Exchange(opened(GOOGLE)).ask(Ask(messages=TURNS, instruction="x"))
    assert not opened(GOOGLE).can_continue_live("openai-chat")
    assert opened(CLAUDE).can_continue_live("anthropic")
    assert not opened(CLAUDE).can_continue_live("openai-chat")


# -- replies of plain SDK calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "stop", "calls", "usage"),
    [
        (chat(GOOD), "end", 0, Usage(120, 100, 0, 30)),
        (chat(None, "tool_calls", tool_calls=[CALL]), "tool", 1, Usage(120, 100, 0, 30)),
        (chat(None, "stop", refusal="I can't."), "refusal", 0, Usage(120, 100, 0, 30)),
        (claude(GOOD, "max_tokens"), "length", 0, Usage(120, 90, 10, 30)),
        (claude(GOOD, "pause_turn"), "other", 0, Usage(120, 90, 10, 30)),
        (responses(GOOD), "end", 0, Usage(120, 100, 0, 30)),
        (responses(GOOD, "incomplete"), "length", 0, Usage(120, 100, 0, 30)),
        (
            responses("", "completed", {"type": "function_call", "name": "x", "arguments": "{}", "call_id": "c"}),
            "tool",
            1,
            Usage(120, 100, 0, 30),
        ),
    ],
)
def test_a_response_of_each_sdk_can_be_read_as_a_reply(answer: Any, stop: str, calls: int, usage: Usage) -> None:
    reply = reply_of(answer[1])
    assert (reply.stop, reply.calls, reply.usage) == (stop, calls, usage)


def test_what_is_no_response_is_refused() -> None:
    with pytest.raises(TypeError, match="can't read a reply"):
        reply_of({"id": 1})


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["gpt-5", ":x", "openai:", "nobody:gpt-5"])
def test_a_name_that_is_none_is_refused_at_once(model: str) -> None:
    with pytest.raises(SettingsError):
        open_model(model)


def test_a_missing_key_is_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        open_model("openai:gpt-5")


def test_without_the_extra_the_error_names_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['pydantic_ai'] = None\n"
        "from unabridged.asking.asker import Asker\n"
        "try:\n    Asker('openai:gpt-5')\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "NotInstalled" in found.stdout
    assert "pip install 'unabridged[models]'" in found.stdout


def test_no_sdk_is_imported_before_a_string_is_used() -> None:
    code = (
        "import sys, unabridged.asking.asker, unabridged.summary.ask_loop, unabridged.asking.providers\n"
        "print([name for name in ('pydantic_ai', 'pydantic', 'openai', 'anthropic', 'httpx2') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
