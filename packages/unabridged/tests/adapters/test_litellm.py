"""LiteLLM beyond the adapter contract: its other calls, routers, sessions, its proxy, and the code on the docs page."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("litellm", reason="LiteLLM can't be installed beside openai 3: make versions WHAT=litellm")

import litellm
from litellm.types.router import RetryPolicy

import unabridged
from places import ROOT
from unabridged.adapters.litellm import CompactionCallback
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged_testing.loopback import Loopback, LoopbackReply

OPENAI, ANTHROPIC = "openai/gpt-4.1-mini", "anthropic/claude-opus-4-5"
WINDOW = 4_000


def in_event_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test in an event loop, and let LiteLLM close its clients and its queue there."""

    @functools.wraps(test)
    def run(*arguments: Any, **options: Any) -> None:
        async def whole() -> None:
            await test(*arguments, **options)
            await litellm.close_litellm_async_clients()

        asyncio.run(whole())

    return run


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(litellm, "suppress_debug_info", True)
    monkeypatch.setattr(litellm, "in_memory_llm_clients_cache", type(litellm.in_memory_llm_clients_cache)())


@pytest.fixture
def provider() -> Iterator[Loopback]:
    with Loopback(lambda _: LoopbackReply("Noted."), window=WINDOW) as running:
        yield running


@pytest.fixture
def make() -> Iterator[Callable[..., CompactionCallback]]:
    """Make callbacks that LiteLLM has until the test ends."""
    made: list[CompactionCallback] = []

    def register(**keywords: Any) -> CompactionCallback:
        made.append(CompactionCallback(**{"archive": "memory:", **keywords}))
        litellm.callbacks.append(made[-1])
        return made[-1]

    yield register
    for compaction in made:
        compaction.close()


def talk(turns: int = 40) -> list[dict[str, str]]:
    said = [f"Turn {i}: hall {i} is quiet. " + f"Gauge {i} reads {i} bar. " * 20 for i in range(turns)]
    listed = [message for text in said for message in (user(text), {"role": "assistant", "content": "Noted."})]
    return [*listed, user("And now?")]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def at(provider: Loopback, model: str = OPENAI) -> dict[str, str]:
    return {"model": model, "api_base": provider.url, "api_key": "none"}


CALLS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "acompletion": (litellm.acompletion, "messages", OPENAI),
    "acompletion of another provider": (litellm.acompletion, "messages", ANTHROPIC),
    "anthropic_messages": (functools.partial(litellm.anthropic_messages, max_tokens=50), "messages", ANTHROPIC),
    "anthropic_messages of another provider": (
        functools.partial(litellm.anthropic_messages, max_tokens=50), "messages", OPENAI
    ),
    "aresponses": (litellm.aresponses, "input", OPENAI),
    "aresponses of another provider": (litellm.aresponses, "input", ANTHROPIC),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@in_event_loop
async def test_every_async_call_is_fitted_once_in_the_format_of_its_caller(
    name: str, provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    function, field, model = CALLS[name]
    events: list[Any] = []
    compaction = make(window=WINDOW, on_event=events.append)
    with unabridged.thread("t1"):
        await function(**at(provider, model), **{field: talk()})
        assert (len(provider.requests), provider.refused, provider.too_long) == (1, [], [])
        assert [type(event).__name__ for event in events].count("Compacted") == 1
        assert compaction.history.replay() == talk()
        await function(**at(provider, model), **{field: [*talk(), user("And then?")]})
    assert [type(event).__name__ for event in events].count("Compacted") == 1
    assert provider.too_long == []


@pytest.mark.parametrize("name", CALLS)
@in_event_loop
async def test_a_refused_call_is_sent_again_shorter_or_the_next_one_is(
    name: str, provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    function, field, model = CALLS[name]
    make(window=100_000)
    try:
        await function(**at(provider, model), **{field: talk()})
    except litellm.BadRequestError:
        assert not name.startswith("acompletion")
        await function(**at(provider, model), **{field: talk()})
    assert (len(provider.requests), len(provider.too_long), provider.refused) == (1, 1, [])


@in_event_loop
async def test_a_fallback_model_of_the_callers_own_is_asked_as_he_said(
    provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    make(window=100_000)
    larger = {OPENAI: "openai/gpt-4.1"}
    await litellm.acompletion(**at(provider), messages=talk(), context_window_fallback_dict=larger)
    assert [request["model"] for request in provider.requests] == ["gpt-4.1"]


@in_event_loop
async def test_nothing_of_ours_reaches_the_provider(
    provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    make(window=WINDOW)
    await litellm.acompletion(**at(provider), messages=talk(2))
    assert provider.requests[0].keys() == {"model", "messages"}
    assert provider.requests[0]["messages"] == talk(2)


@pytest.mark.parametrize("method", ["acompletion", "aanthropic_messages", "aresponses"])
@in_event_loop
async def test_a_router_with_a_retry_policy_sends_a_refused_request_again(
    method: str, provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    make(window=100_000)
    deployments = [{"model_name": "mini", "litellm_params": at(provider)}]
    router = litellm.Router(deployments, num_retries=0, retry_policy=RetryPolicy(BadRequestErrorRetries=1))
    given: dict[str, Any] = {"input": talk()} if method == "aresponses" else {"messages": talk(), "max_tokens": 50}
    await getattr(router, method)(model="mini", **given)
    assert (len(provider.requests), len(provider.too_long)) == (1, 1)


@in_event_loop
async def test_the_window_of_a_deployment_is_that_of_its_configuration(
    provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    make()
    one = {
        "model_name": "own",
        "litellm_params": at(provider, "openai/own"),
        "model_info": {"max_input_tokens": WINDOW},
    }
    await litellm.Router([one]).acompletion(model="own", messages=talk())
    assert (len(provider.requests), provider.too_long) == (1, [])


@in_event_loop
async def test_a_conversation_is_named_by_the_context_or_the_session_and_owned_by_a_key(
    provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    compaction = make(window=WINDOW, thread="own")
    ask = functools.partial(litellm.acompletion, **at(provider), messages=talk())
    await ask()
    await ask(litellm_session_id="s1")
    await ask(metadata={"session_id": "s2"})
    await ask(metadata={"session_id": "s3", "litellm_session_id_generated": True})
    with unabridged.thread("t1"):
        await ask(litellm_session_id="s4")
    await ask(litellm_session_id="s1", metadata={"user_api_key": "key"})
    archive = compaction.history.archive
    assert set(archive.threads("default")) == {"own", "s1", "s2", "t1"}
    assert set(archive.threads("key")) == {"s1"}
    assert len(archive.records(Scope("key", "s1"))) == 1


@in_event_loop
async def test_usage_is_learned_from_answers_and_from_streams_that_report_it(
    provider: Loopback, make: Callable[..., CompactionCallback], monkeypatch: pytest.MonkeyPatch
) -> None:
    compaction = make(window=100_000)
    seen: list[Any] = []
    ask = functools.partial(litellm.acompletion, **at(provider), messages=talk(2))
    await ask()
    request = compaction.history.compactor()
    monkeypatch.setattr(request, "observe", lambda _, report: seen.append(report))
    await ask()
    for options in ({}, {"stream_options": {"include_usage": True}}):
        async for _ in await ask(stream=True, **options):
            pass
        for _ in range(100):
            await asyncio.sleep(0.02)  # LiteLLM reports the end of a stream from a queue
            if not compaction._open_calls:  # noqa: SLF001
                break
    assert [report.usage.prompt_tokens > 0 for report in seen] == [True, True]
    assert not compaction._open_calls  # noqa: SLF001 - nothing is kept of what is over


@in_event_loop
async def test_a_summariser_may_ask_through_litellm(
    provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    asked: list[str] = []

    async def summarise(prompt: str) -> str:
        asked.append(prompt)
        answer = await litellm.acompletion(**at(provider, "openai/large"), messages=[user(prompt)])
        return str(answer.choices[0].message.content)

    compaction = make(window=WINDOW, model=summarise)
    with unabridged.thread("t1"):
        await litellm.acompletion(**at(provider), messages=talk())
    assert asked
    assert set(compaction.history.archive.threads("default")) == {"t1"}


@in_event_loop
async def test_messages_without_their_name_are_sent_as_they_are_with_a_warning(
    provider: Loopback, make: Callable[..., CompactionCallback], caplog: pytest.LogCaptureFixture
) -> None:
    make(window=WINDOW)
    where = {"api_base": provider.url, "api_key": "none"}
    with pytest.raises(litellm.ContextWindowExceededError):
        await litellm.acompletion(OPENAI, talk(), **where)
    assert "messages here only when passed by name" in caplog.text
    await litellm.acompletion(OPENAI, messages=talk(), **where)  # the model may have any place
    assert len(provider.requests) == 1


def test_around_takes_the_arguments_in_any_place_and_refuses_what_it_can_not_fit(
    provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    compaction = make(window=WINDOW)
    where = {"api_base": provider.url, "api_key": "none"}
    compaction.around(litellm.completion)(OPENAI, talk(), **where, litellm_session_id="s1")
    compaction.around(litellm.responses)(talk(), OPENAI, **where)
    router = litellm.Router([{"model_name": "mini", "litellm_params": at(provider)}])
    compaction.around(router.completion)("mini", talk())
    assert (len(provider.requests), provider.too_long) == (3, [])
    assert "s1" in compaction.history.archive.threads("default")
    for function in (litellm.acompletion, litellm.embedding):
        with pytest.raises(TypeError, match=r"around takes a sync function such as litellm\.completion"):
            compaction.around(function)


@in_event_loop
async def test_a_closed_callback_is_in_none_of_litellms_lists(
    provider: Loopback, make: Callable[..., CompactionCallback]
) -> None:
    first, second = make(window=WINDOW), make(window=WINDOW)
    await litellm.acompletion(**at(provider), messages=talk(2))
    first.close()
    lists = (litellm.callbacks, litellm._async_success_callback, litellm._async_failure_callback)  # noqa: SLF001
    assert all(first not in listed and second in listed for listed in lists)


# -- the proxy --------------------------------------------------------------------------------------------------------

KEY = "sk-Kf83jd92Lq0vNx7TzB41"
CONFIG = """
model_list:
  - model_name: mini
    litellm_params: {{model: {openai}, api_base: "{url}", api_key: none}}
  - model_name: opus
    litellm_params: {{model: {anthropic}, api_base: "{url}", api_key: none}}
litellm_settings: {{callbacks: compaction.callback}}
router_settings: {{retry_policy: {{BadRequestErrorRetries: 1}}}}
general_settings: {{master_key: {key}}}
"""


@pytest.mark.skipif(find_spec("fastapi") is None, reason="the proxy is not installed: pip install 'litellm[proxy]'")
def test_the_proxy_fits_what_its_clients_send(provider: Loopback, tmp_path: Path) -> None:
    page = next(block for block in blocks() if block.startswith("# compaction.py"))
    (tmp_path / "compaction.py").write_text(page)
    config = CONFIG.format(openai=OPENAI, anthropic=ANTHROPIC, url=provider.url, key=KEY)
    (tmp_path / "config.yaml").write_text(config)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("litellm")), "--config", "config.yaml", "--port", str(port)]
    alone = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    with (tmp_path / "log").open("w") as log:
        proxy = subprocess.Popen(command, cwd=tmp_path, env=alone, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/health/liveliness", proxy, tmp_path / "log")
        bodies: dict[str, dict[str, Any]] = {
            "chat/completions": {"model": "mini", "messages": talk()},
            "messages": {"model": "opus", "messages": talk(), "max_tokens": 50},
            "responses": {"model": "mini", "input": talk()},
        }
        for path, body in bodies.items():
            post(f"http://127.0.0.1:{port}/v1/{path}", body)
        assert (len(provider.requests), len(provider.too_long), provider.refused) == (3, 3, [])
    finally:
        proxy.terminate()
        proxy.wait(30)
    with closing(open_archive(f"sqlite:///{tmp_path / 'proxy.db'}")) as archive:
        assert list(archive.threads("default")) == []
        assert "s1" in archive.threads("litellm_proxy_master_key")


def wait_for(url: str, proxy: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - loopback
                return
        except OSError:
            assert proxy.poll() is None, log.read_text()[-2_000:]
            assert time.monotonic() < deadline, log.read_text()[-2_000:]
            time.sleep(0.5)


def post(url: str, body: dict[str, Any]) -> None:
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}", "x-litellm-session-id": "s1"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - loopback
    with urllib.request.urlopen(asked, timeout=60) as answered:  # noqa: S310 - loopback
        assert answered.status == 200


# -- the page ---------------------------------------------------------------------------------------------------------


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "litellm.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_code_on_the_docs_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers = itertools.cycle(
        [*[LoopbackReply("", [("read_log", {"number": i})]) for i in range(12)], LoopbackReply("7.")]
    )
    with Loopback(lambda _: next(answers), window=9_000) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        known: dict[str, Any] = {"__name__": "litellm_page"}
        exec(compile(blocks()[0], "the first block", "exec"), known)  # noqa: S102 - running the page is the test
        assert known["answer"] == "7."
        assert (provider.refused, len(provider.too_long)) == ([], 1)
        assert [message["role"] for message in known["original"]] == ["user", *["assistant", "tool"] * 12]
        for block in blocks()[1:]:
            exec(compile(block, "another block", "exec"), known)  # noqa: S102 - running the page is the test
    for name in ("compaction", "quiet", "callback"):
        known[name].close()
