"""The kit's part in having the agent's own model write the summaries: which model, in which event loop, and without."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from typing import Any

import pytest

from patience import PATIENCE
from unabridged import Settings
from unabridged.adapters.kit import AGENT_MODEL, Agent, Engine, arun, run
from unabridged.archive.protocol import Scope
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.model_calls import _run_in_loop
from unabridged.formats import OpenAIChat

WRITTEN = "Ada and the assistant went through the items of the pump house, and Marten keeps the book."


def said(number: int) -> str:
    return f"Turn {number} is about " + " ".join(f"item{number}x{j}" for j in range(40))


def chat(turns: int = 12) -> list[dict[str, Any]]:
    return [{"role": role, "content": said(i)} for i in range(turns) for role in ("user", "assistant")]


def test_the_default_is_one_object_with_a_name_whatever_is_done_with_it() -> None:
    assert repr(AGENT_MODEL) == "AGENT_MODEL"
    assert copy.deepcopy({"model": AGENT_MODEL})["model"] is AGENT_MODEL
    assert copy.copy(AGENT_MODEL) is AGENT_MODEL


def test_a_request_without_a_model_is_model_free_and_the_receipt_says_why() -> None:
    engine = Engine(OpenAIChat(), model=AGENT_MODEL, archive="memory:", window=2_000)
    done = engine.request(chat(), Agent("gpt-5-mini"), thread="t").compactor.compact(chat(), thread="t")
    assert done is not None
    assert done.receipt is not None
    assert done.receipt.summariser == "model-free"
    assert done.receipt.notes[0].startswith("model-free: the agent's own model is not known here")


def test_the_agents_model_is_asked_in_the_callers_event_loop_also_in_the_background() -> None:
    loops: list[Any] = []
    begun = threading.Event()

    async def own(_: Ask) -> Reply:
        loops.append(asyncio.get_running_loop())
        begun.set()
        await asyncio.sleep(0)
        return Reply(WRITTEN, "end")

    async def main() -> None:
        settings = Settings(clear=None, background=0.3, deadline=20)
        engine = Engine(OpenAIChat(), model=AGENT_MODEL, archive="memory:", window=8_000, settings=settings)
        await asyncio.to_thread(engine.start)
        await arun(engine.request(chat(8), Agent(), thread="early", own=own).fit())
        assert await asyncio.to_thread(begun.wait, 10)
        assert loops == [asyncio.get_running_loop()]
        done = await arun(engine.request(chat(30), Agent(), thread="now", own=own).fit())
        assert WRITTEN in str(done.messages)
        assert set(loops) == {asyncio.get_running_loop()}
        blocking = run(engine.request(chat(30), Agent(), thread="blocking", own=own).fit())
        assert WRITTEN in str(blocking.messages)
        assert loops[-1] is not asyncio.get_running_loop()

    asyncio.run(main())


def test_a_summary_in_the_background_outlives_the_event_loop_that_it_was_begun_in() -> None:
    loops: list[Any] = []
    begun = threading.Event()

    async def own(_: Ask) -> Reply:
        loops.append(asyncio.get_running_loop())
        begun.set()
        await asyncio.sleep(30 if len(loops) == 1 else 0)  # the first call never ends within its loop
        return Reply(WRITTEN, "end")

    settings = Settings(clear=None, background=0.3, deadline=20)
    engine = Engine(OpenAIChat(), model=AGENT_MODEL, archive="memory:", window=8_000, settings=settings)

    async def begin() -> None:
        await arun(engine.request(chat(8), Agent(), thread="t", own=own).fit())
        assert await asyncio.to_thread(begun.wait, 10)

    asyncio.run(begin())
    until, scope = time.monotonic() + PATIENCE, Scope(engine.namespace, "t")
    while not engine.archive.records(scope) and time.monotonic() < until:
        time.sleep(0.02)
    assert [record.data["prose"] for record in engine.archive.records(scope)] == [WRITTEN]
    assert len(loops) == 2
    assert loops[0] is not loops[1]


def test_a_call_in_a_loop_that_is_closed_under_it_fails_at_once() -> None:
    """As at the end of `asyncio.run`, where what is scheduled last is neither run nor cancelled."""
    loop = asyncio.new_event_loop()

    async def own() -> Reply:
        await asyncio.sleep(30)
        raise AssertionError("nobody is there to run it")

    coroutine = own()
    work = _run_in_loop(coroutine, loop)
    loop.close()
    with pytest.raises(RuntimeError, match="has ended"):
        work.result(PATIENCE)
    coroutine.close()


def test_a_call_in_a_loop_that_was_closed_since_it_was_found_is_made_in_our_own() -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    async def call() -> Reply:
        return Reply("done")

    assert _run_in_loop(call(), loop).result(PATIENCE).text == "done"
