"""What a summariser may do that nobody expects: leave by force, stop the loop, fork, return what is no reply."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from conversations import assistant, user
from patience import PATIENCE
from rows import rows
from summaries import quick
from unabridged import Compactor, Settings
from unabridged.asking import model_calls
from unabridged.asking.ask import Ask, AskFailed, Reply
from unabridged.asking.exchange import Exchange
from unabridged.asking.replies import read_reply
from unabridged.tokens.calibrate import Usage
from upstream import chat, claude, responses

PLAIN = "The assistant worked on several items and is going on."
TALK = [user("Fix it."), *(m for i in range(40) for m in (assistant("done " * 40), user(f"next {i}")))]
QUICK = Settings(deadline=20, retries=0, cool_down=0)
OVER, FITS = 2_500, 20_000


class Odd(BaseException):
    """An error of the host's own that is no `Exception`."""


class Unspeakable(Exception):  # noqa: N818 - raised by a stranger
    """One that raises when it is looked at."""

    def __str__(self) -> str:
        raise ValueError("not even this")

    @property
    def response(self) -> Any:
        raise RuntimeError("nor this")


KINDS: list[BaseException] = [
    SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Odd(), StopIteration(3),
    StopAsyncIteration(), Unspeakable(), MemoryError(), RecursionError(), BaseExceptionGroup("both", [SystemExit()]),
]  # fmt: skip


def fitted(model: Any, window: int, **options: Any) -> Any:
    trigger = Settings(trigger=("tokens", 2_000), keep=("tokens", 400), deadline=PATIENCE, retries=0, cool_down=0)
    with Compactor(model, window=window, archive="memory:", settings=trigger, **options) as engine:
        return engine.fit(list(TALK), thread="t")


async def good(_prompt: str) -> str:
    return PLAIN


def raising(error: BaseException, way: str) -> Callable[[Ask], Any]:
    """A summariser that raises it: in a thread, as a coroutine, or as a coroutine that a function returns."""

    def plainly(_ask: Ask) -> Any:
        raise error

    async def waiting(_ask: Ask) -> Any:
        await asyncio.sleep(0)
        raise error

    def returned(ask: Ask) -> Any:
        return waiting(ask)

    return {"sync": plainly, "async": waiting, "returned": returned}[way]


@rows("way", ["sync", "async", "returned"])
@rows("error", KINDS, ids=lambda error: type(error).__name__)
def test_whatever_a_summariser_raises_ends_that_summary_and_nothing_else(error: BaseException, way: str) -> None:
    began = time.monotonic()
    assert fitted(raising(error, way), FITS).messages == TALK
    assert fitted(raising(error, way), OVER).receipt.summariser == "model-free"
    assert fitted(raising(error, way), OVER, fallback=good).receipt.summariser == "good"
    assert fitted(good, OVER).receipt.summariser == "good", "the next summariser is asked as if nothing had been"
    assert time.monotonic() - began < PATIENCE, "and nobody waited for the deadline"


@rows("error", [kind for kind in KINDS if not isinstance(kind, KeyboardInterrupt)])
def test_the_callers_own_event_loop_survives_it_too(error: BaseException) -> None:
    async def main() -> str:
        with Compactor(raising(error, "async"), window=OVER, archive="memory:", settings=QUICK) as engine:
            done = await engine.afit(list(TALK), thread="t")
        assert done.receipt is not None
        return done.receipt.summariser

    assert asyncio.run(main()) == "model-free"


async def stops(_ask: Ask) -> str:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return PLAIN


async def leaves_a_task_that_exits(_ask: Ask) -> str:
    async def exits() -> None:
        raise SystemExit(2)

    loose = asyncio.ensure_future(exits())
    await asyncio.sleep(0.01)
    assert loose.done()
    return PLAIN


async def leaves_a_callback_that_exits(_ask: Ask) -> str:
    def exits() -> None:
        raise SystemExit(2)

    asyncio.get_running_loop().call_soon(exits)
    await asyncio.sleep(0.01)
    return PLAIN


async def cancels_itself(_ask: Ask) -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return PLAIN


async def closes(_ask: Ask) -> str:
    asyncio.get_running_loop().close()
    return PLAIN


@pytest.mark.parametrize("model", [stops, leaves_a_task_that_exits, leaves_a_callback_that_exits])
def test_a_loop_that_is_stopped_goes_on(model: Any) -> None:
    assert Exchange(quick(model, deadline=5)).ask(Ask(instruction="x")).text == PLAIN
    assert Exchange(quick(good, deadline=5)).ask(Ask(instruction="x")).text == PLAIN


@pytest.mark.parametrize("model", [cancels_itself, closes])
def test_a_summariser_that_breaks_off_its_own_call_fails_at_once(model: Any) -> None:
    with pytest.raises(AskFailed):
        Exchange(quick(model, deadline=5, retries=0)).ask(Ask(instruction="x"))
    assert Exchange(quick(good, deadline=5)).ask(Ask(instruction="x")).text == PLAIN


def test_a_loop_that_was_closed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = asyncio.new_event_loop()
    closed.close()
    monkeypatch.setitem(model_calls._loops, os.getpid(), closed)  # noqa: SLF001 - a running one can't be closed from outside
    assert Exchange(quick(good, deadline=5)).ask(Ask(instruction="x")).text == PLAIN


@pytest.mark.posix
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_loop_of_its_own() -> None:
    assert Exchange(quick(good, deadline=5)).ask(Ask(instruction="x")).text == PLAIN
    child = os.fork()
    if child == 0:
        try:
            answered = Exchange(quick(good, deadline=5)).ask(Ask(instruction="x")).text == PLAIN
        finally:
            os._exit(0 if answered else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- what it returns --------------------------------------------------------------------------------------------------


class Exploding:
    """An object that raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


READ: list[tuple[Any, Reply]] = [
    ("text", Reply("text", model="m")),
    (Reply(None, "tool", calls=1), Reply("", "tool", None, 1, "", "m")),  # type: ignore[arg-type] # as an SDK has it
    (Reply("x", "end", {"input_tokens": 5}), Reply("x", "end", Usage(5), model="m")),  # type: ignore[arg-type]
    (Reply("x", "end", {"prompt_tokens": 5, "completion_tokens": 2}), Reply("x", "end", Usage(5, output=2), model="m")),  # type: ignore[arg-type]
    (Reply("x", "end", SimpleNamespace(input_tokens=7)), Reply("x", "end", Usage(7), model="m")),  # type: ignore[arg-type]
    (Reply("x", "end", "many"), Reply("x", "end", model="m")),  # type: ignore[arg-type]
    (Reply("x", "end", 3), Reply("x", "end", model="m")),  # type: ignore[arg-type]
    (Reply("x", "end", Exploding()), Reply("x", "end", model="m")),  # type: ignore[arg-type]
    (Reply("x", "end", Usage(None)), Reply("x", "end", model="m")),  # type: ignore[arg-type]
    (Reply("x", "stop"), Reply("x", "end", model="m")),  # type: ignore[arg-type]
    (Reply("x", "max_tokens"), Reply("x", "length", model="m")),  # type: ignore[arg-type]
    (Reply("x", "who knows"), Reply("x", "other", model="m")),  # type: ignore[arg-type]
    (Reply("x", calls=[{}, {}]), Reply("x", calls=2, model="m")),  # type: ignore[arg-type]
    (Reply("x", reasoning=None, model=None), Reply("x", model="m")),  # type: ignore[arg-type]
    (Reply([{"type": "text", "text": "x"}], "end"), Reply("x", "end", model="m")),  # type: ignore[arg-type]
    ([{"type": "text", "text": "a"}, {"type": "tool_use", "id": "1"}], Reply("a", calls=1, model="m")),
    ([{"type": "thinking", "thinking": "hm"}, "b"], Reply("b", reasoning="hm", model="m")),
    (chat("x")[1], Reply("x", "end", Usage(120, 100, 0, 30), model="served")),
    (chat(None, "tool_calls", tool_calls=[{}])[1], Reply("", "tool", Usage(120, 100, 0, 30), 1, model="served")),
    (ChatCompletion.construct(**chat("x")[1]), Reply("x", "end", Usage(120, 100, 0, 30), model="served")),
    (Response.construct(**responses("x")[1]), Reply("x", "end", Usage(120, 100, 0, 30), model="gpt-x")),
    (Message.construct(**claude("x")[1]), Reply("x", "end", Usage(120, 90, 10, 30), model="claude-x")),
]  # fmt: skip


@rows(("said", "read"), READ, ids=range(len(READ)))
def test_a_reply_may_be_as_an_sdk_has_it(said: Any, read: Reply) -> None:
    assert read_reply(said, "m") == read


NO_REPLY: list[Any] = [
    None, b"bytes", 3, True, 2.5, object(), [1, 2], [None], [{"no": "type"}], {}, {"a": 1}, ("x",), {"x"}, iter("ab"),
    Reply(b"x"), Reply(3), Reply(object()), Reply([3]), Reply("x", calls="two"), Reply("x", calls=object()),  # type: ignore[arg-type]
    Exploding(), SimpleNamespace(choices=[]), {"choices": [{"message": 3}]}, {"content": "a message, not a response"},
    {"output": 3}, lambda: PLAIN, PLAIN.encode,
]  # fmt: skip


def test_what_is_no_reply_is_a_failure_like_any_other() -> None:
    for number, said in enumerate(NO_REPLY):

        async def waiting(_ask: Ask, said: Any = said) -> Any:
            return said

        def plainly(_ask: Ask, said: Any = said) -> Any:
            return said

        model: Any = waiting if number % 2 else plainly
        assert fitted(model, FITS).messages == TALK, repr(said)
        assert fitted(model, OVER).receipt.summariser == "model-free", repr(said)
        assert fitted(model, OVER, fallback=good).receipt.summariser.endswith("good"), repr(said)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.tuples(*[anything] * 6), st.booleans())
def test_any_value_in_any_field_is_read_or_refused_and_never_comes_out_raw(fields: tuple[Any, ...], bare: bool) -> None:
    try:
        read = read_reply(fields[0] if bare else Reply(*fields), "m")
    except TypeError as error:
        assert "return a str or a Reply" in str(error)  # noqa: PT017 - refused, and the remedy said
        return
    assert isinstance(read.text, str)
    assert isinstance(read.calls, int)
    assert read.stop in {None, "end", "length", "tool", "refusal", "other"}
    assert read.usage is None or isinstance(read.usage, Usage)
    assert read.model


# -- what it is given -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_a_summariser_appends_changes_nobodys_conversation(way: str) -> None:
    system, tools = [{"type": "text", "text": "Be brief."}], [{"type": "function", "function": {"name": "f"}}]
    mine, seen = list(TALK), []

    def spoils(ask: Ask) -> Reply:
        seen.append((len(ask.messages), len(ask.tools), len(ask.system)))
        assert all(one is other for one, other in zip(ask.messages, TALK, strict=False)), "the very objects, in a copy"
        for given_list in (ask.messages, ask.tools, ask.system):
            given_list.clear()  # type: ignore[union-attr] # a list as it was given
        if len(seen) == 1:
            raise ConnectionError("try again")
        return Reply(PLAIN, "end")

    async def spoils_waiting(ask: Ask) -> Reply:
        return spoils(ask)

    settings = Settings(trigger=("tokens", 2_000), keep=("tokens", 400), suffix=True, retries=1)
    model: Any = spoils if way == "sync" else spoils_waiting
    with Compactor(model, agent="gpt-5", window=FITS, archive="memory:", settings=settings) as engine:
        done = engine.fit(mine, thread="t", system=system, tools=tools)
        assert done.receipt is not None
        assert done.receipt.summariser.endswith(model.__name__)
        assert engine.replay(done.messages, thread="t") == TALK
    assert mine == TALK
    assert (len(system), len(tools)) == (1, 1)
    assert len(seen) == 2
    assert seen[0] == seen[1], "the second try is given what the first was"
    assert seen[0][0] > 40
