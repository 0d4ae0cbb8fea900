"""The engine with other formats, many threads, forks, and wrong options."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conversations import anthropic_round, long_chat, responses_round, user
from engine_case import compactor
from unabridged import Compactor, Settings, check
from unabridged.archive.protocol import Scope
from unabridged.errors import SettingsError


def test_thinking_bound_to_what_stood_before_is_dropped_after_a_rewrite_and_kept_where_it_must_be() -> None:
    messages: list[Any] = [user("the task")]
    for i in range(34):
        messages += anthropic_round(f"step{i}", "result " * 60, thinking=f"thought {i}")
    whole = Settings(clear=None)
    bound = Compactor(agent="claude-opus-5-5", window=4_000, archive="memory:", settings=whole)
    fitted = bound.fit(messages, thread="t")
    assert "thinking" not in str(fitted.messages)
    assert bound.replay(fitted.messages, thread="t") == messages
    signed = Compactor(agent="claude-opus-4-5", window=4_000, archive="memory:", settings=whole).fit(
        messages, thread="t"
    )
    assert signed.messages[-2] is messages[-2]


def test_responses_reasoning_stays_with_the_call_it_led_to() -> None:
    messages: list[Any] = [user("the task")]
    for i in range(30):
        messages += responses_round(f"step{i}", "result " * 60, reasoning=f"sealed-{i}")
    fitted = compactor().fit(messages, thread="t")
    kinds = [message.get("type") for message in fitted.messages]
    assert kinds[-3:] == ["reasoning", "function_call", "function_call_output"]
    assert check(fitted.messages, "openai-responses") == []


def test_async_forms_do_the_same() -> None:
    async def everything() -> None:
        engine = compactor()
        messages = long_chat(40)
        fitted = await engine.afit(messages, thread="t")
        assert fitted.changed
        assert await engine.areplay(fitted.messages, thread="t") == messages
        assert await engine.asearch("detail3x3", thread="t")
        assert await engine.aundo(fitted.messages, thread="t") == messages
        assert await engine.acompact(messages, thread="t") is not None

    asyncio.run(everything())


def test_many_threads_at_once_do_not_mix() -> None:
    engine = compactor()
    results: dict[int, bool] = {}

    def work(number: int) -> None:
        messages = [user(f"I am number {number}."), *long_chat(30 + number % 5)]
        fitted = engine.fit(messages, thread=f"t{number % 10}")
        results[number] = engine.replay(fitted.messages, thread=f"t{number % 10}") == messages

    workers = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == dict.fromkeys(range(20), True)


def test_memory_is_bounded_however_many_threads_there_are() -> None:
    engine = compactor(100_000)
    for i in range(2_000):
        engine.fit([user(f"hello {i}")], thread=f"t{i}")
    assert len(engine._runner.caches._caches) <= 512  # noqa: SLF001 - the bound itself is what is promised


@pytest.mark.posix
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # Python 3.12 warns of forking with threads: that is the point
def test_a_fork_while_a_thread_is_being_compacted_does_not_hang_the_child() -> None:
    engine = compactor(100_000)
    messages = long_chat(3)
    engine.fit(messages, thread="t")
    held = engine._runner.caches.find(Scope("default", "t"))  # noqa: SLF001 - holds the lock as a compaction would
    with held.lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if engine.fit(messages, thread="t").messages is messages else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"window": 3}, {"archive": "ftp://x"}, {"format": "xml"}, {"window": 4_000, "settings": Settings(reserve=4_000)}],
)
def test_wrong_options_are_refused_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        Compactor(**{"archive": "memory:", **wrong})


def test_more_calls_of_one_thread_than_a_loop_has_workers_all_end() -> None:
    async def model(_: str) -> str:
        await asyncio.sleep(0.05)
        return "They went through many questions, and nothing else is left to decide."

    async def all_of_them() -> list[Any]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        with Compactor(model, window=6_000, archive="memory:") as engine:
            return await asyncio.gather(*(engine.afit(long_chat(60), thread="t") for _ in range(6)))

    done = asyncio.run(all_of_them())
    assert [fitted.messages for fitted in done] == [done[0].messages] * 6
