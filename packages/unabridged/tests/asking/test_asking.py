from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from patience import PATIENCE
from provider_errors import openai_error
from rows import rows
from summaries import BOTH, GOOD, Ran, block, ends, quick, run, run_async, summary_of
from unabridged.asking.ask import Ask, AskFailed, Reply
from unabridged.asking.asker import Asker
from unabridged.asking.exchange import Exchange
from unabridged.errors import SettingsError, SummaryFailed
from unabridged.settings import Settings
from unabridged.summary.ask_loop import ModelSummary, summarise
from unabridged_testing import ScriptedModel

LIMITED = openai_error(429, message="Rate limit reached", code="rate_limit_exceeded")
BROKEN = openai_error(500, message="The server had an error")
CUT = openai.APIConnectionError(request=LIMITED.request)
ASK = Ask(instruction="Summarise.")


class Stuck:
    """A model that never answers, until the test is over."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.asked = threading.Event()
        self.calls = 0

    def __call__(self, _ask: Ask) -> Reply:
        self.calls += 1
        self.asked.set()
        self.release.wait(60)
        return ends(f"{GOOD} late")

    async def acall(self, _ask: Ask) -> Reply:
        self.calls += 1
        self.asked.set()
        await asyncio.sleep(60)
        return ends(f"{GOOD} late")


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.release.set()


def callers(scripted: ScriptedModel) -> list[Any]:
    return [scripted, scripted.acall]


# -- what a model may be --------------------------------------------------------------------------------------------


def plain(prompt: str) -> str:
    assert "<conversation" in prompt
    return GOOD


async def plain_async(prompt: str) -> str:
    return plain(prompt)


def returns_coroutine(prompt: str) -> Any:
    return plain_async(prompt)


def asking(_ask: Ask) -> Reply:
    return ends(GOOD)


async def asking_async(_ask: Ask) -> Reply:
    return ends(GOOD)


# R20
@rows("ran", BOTH)
@rows("model", [plain, plain_async, asking, asking_async, returns_coroutine])
def test_any_callable_can_be_the_summariser(model: Any, ran: Ran) -> None:
    summary = summary_of(model, ran=ran)
    assert summary.text == GOOD
    takes_ask = model in {asking, asking_async}
    assert bool(summary.checks_impossible) is not takes_ask
    assert Asker(model).can_continue_live("openai-chat") is takes_ask


@pytest.mark.parametrize("model", [None, 3, "no-colon", lambda: GOOD])
def test_what_cannot_be_a_summariser_is_refused_at_once(model: Any) -> None:
    with pytest.raises(SettingsError):
        Asker(model)


@pytest.mark.parametrize("option", [{"deadline": 0}, {"retries": -1}, {"retries": 1.5}, {"cool_down": True}])
def test_a_wrong_number_is_refused_at_once(option: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(option))):
        Asker(plain, deadline=Settings(**option).deadline)


def test_a_model_that_returns_neither_text_nor_reply_fails_with_a_remedy() -> None:
    with pytest.raises(AskFailed, match="return a str or a Reply"):
        Exchange(quick(len)).ask(ASK)


# -- failures -------------------------------------------------------------------------------------------------------


# R34
@rows("ran", BOTH)
@rows("error", [LIMITED, BROKEN, CUT, TimeoutError("slow"), ConnectionResetError()])
def test_what_may_pass_is_tried_again(error: Exception, ran: Ran) -> None:
    scripted = ScriptedModel([error, error, ends(GOOD)])
    for model in callers(scripted):
        scripted.asks.clear()
        assert summary_of(model, ran=ran).text == GOOD
        assert scripted.calls == 3


@pytest.mark.parametrize("ran", BOTH)
def test_what_would_fail_again_is_not_tried_again(ran: Ran) -> None:
    scripted = ScriptedModel([openai_error(401, message="no key", code="invalid_api_key")], forever=True)
    with pytest.raises(AskFailed) as caught:
        summary_of(scripted, ran=ran)
    assert (caught.value.why, scripted.calls) == ("refused", 1)


# R33
@rows("ran", BOTH)
@rows(
    ("error", "why"),
    [(LIMITED, "unavailable"), (BROKEN, "unavailable"), (CUT, "unavailable"), (TimeoutError(), "timeout")],
)
def test_a_model_that_stays_down_ends_in_one_typed_failure(error: Exception, why: str, ran: Ran) -> None:
    scripted = ScriptedModel([error], forever=True)
    for model in callers(scripted):
        scripted.asks.clear()
        with pytest.raises(SummaryFailed) as caught:
            summary_of(model, ran=ran, retries=2)
        assert isinstance(caught.value, AskFailed)
        assert caught.value.why == why
        assert scripted.calls == 3


# R34
@pytest.mark.parametrize("ran", BOTH)
def test_the_other_model_takes_over_and_stays_for_the_rest_of_the_summary(ran: Ran) -> None:
    down, other = ScriptedModel([BROKEN], forever=True), ScriptedModel([ends(GOOD)], forever=True)
    given = block(window=2_600)
    summary: ModelSummary = ran(summarise(*given), quick(down, fallback=other.acall, retries=1))
    assert summary.models == ("ScriptedModel.acall",)
    assert down.calls == 2
    assert other.calls == summary.calls > 3


def test_a_reply_with_a_fault_is_asked_of_the_other_model() -> None:
    bad, other = ScriptedModel([ends("")]), ScriptedModel([ends(GOOD)])
    summary = summary_of(bad, fallback=other)
    assert (bad.calls, other.calls, summary.calls) == (1, 1, 2)
    assert "the reply was empty" in other.asks[0].instruction


def test_the_time_to_wait_that_a_provider_tells_is_kept() -> None:
    limited = openai_error(429, message="slow down", code="rate_limit_exceeded")
    limited.response.headers["retry-after"] = "900"
    scripted = ScriptedModel([limited], forever=True)
    with pytest.raises(AskFailed):
        Exchange(quick(scripted, deadline=5)).ask(ASK)
    assert scripted.calls == 1  # there is no time for a second


@pytest.mark.parametrize("ran", BOTH)
def test_a_model_that_failed_is_left_alone_for_a_while(ran: Ran) -> None:
    scripted = ScriptedModel([BROKEN], forever=True)
    asker = quick(scripted, retries=0, cool_down=600)
    whys = []
    for _ in range(5):
        with pytest.raises(AskFailed) as caught:
            ran(summarise(*block()), asker)
        whys.append(caught.value.why)
    assert whys == ["unavailable", *["cool-down"] * 4]
    assert scripted.calls == 1
    assert 0 < asker.seconds_until_ready <= 600


def test_without_a_cool_down_the_next_summary_asks_again() -> None:
    scripted = ScriptedModel([BROKEN, ends(GOOD)])
    asker = quick(scripted, retries=0, cool_down=0)
    with pytest.raises(AskFailed):
        run(summarise(*block()), asker)
    assert run(summarise(*block()), asker).text == GOOD


def test_the_host_can_have_every_model_left_alone() -> None:
    asker = quick(ScriptedModel([ends(GOOD)]), fallback=plain, cool_down=60)
    assert asker.seconds_until_ready == 0
    asker.open_circuits()
    with pytest.raises(AskFailed, match="left alone"):
        Exchange(asker).ask(ASK)


def test_a_generator_may_go_on_after_a_failed_ask() -> None:
    def steps() -> Any:
        try:
            yield ASK
        except SummaryFailed as failed:
            return f"model-free: {type(failed).__name__}"

    assert run(steps(), quick(ScriptedModel([BROKEN], forever=True))) == "model-free: AskFailed"


# -- a model that never returns ------------------------------------------------------------------------------------


# R34
@pytest.mark.parametrize("ran", BOTH)
def test_a_model_that_never_returns_ends_at_the_deadline(stuck: Stuck, ran: Ran) -> None:
    for model in (stuck, stuck.acall):
        with pytest.raises(AskFailed) as caught:
            ran(summarise(*block()), quick(model, deadline=0.1))
        assert caught.value.why == "timeout"
    assert not stuck.release.is_set()


@pytest.mark.parametrize("ran", BOTH)
def test_the_other_model_still_has_time_when_the_first_hangs(stuck: Stuck, ran: Ran) -> None:
    assert ran(summarise(*block()), quick(stuck, fallback=asking, deadline=2.0)).text == GOOD


def test_an_async_model_that_blocks_its_loop_does_not_hold_a_plain_thread(stuck: Stuck) -> None:
    async def rude(_ask: Ask) -> Reply:
        while not stuck.release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue  # ignores being cancelled
        return ends(GOOD)

    with pytest.raises(AskFailed, match="did not answer"):
        Exchange(quick(rude, deadline=0.1)).ask(ASK)


def test_a_late_answer_is_never_used() -> None:
    first = threading.Event()
    done = threading.Event()

    def late(_ask: Ask) -> Reply:
        if not first.is_set():
            first.set()
            done.wait(60)
            return ends("the late answer that must never be seen, whatever happens to it afterwards")
        return ends(GOOD)

    asker = quick(late, deadline=1.0, cool_down=0)
    with pytest.raises(AskFailed):
        run(summarise(*block()), asker)
    done.set()
    assert run(summarise(*block()), asker).text == GOOD


def test_calls_that_never_return_do_not_pile_up(stuck: Stuck) -> None:
    asker = quick(stuck, deadline=0.1, cool_down=0)
    whys = set()
    for _ in range(12):
        with pytest.raises(AskFailed) as caught:
            Exchange(asker).ask(ASK)
        whys.add(caught.value.why)
    assert stuck.calls == 4
    assert whys == {"timeout", "unavailable"}


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []

    def body() -> None:
        try:
            found.append(work())
        except SummaryFailed as error:
            found.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    return thread, found


@pytest.mark.parametrize("ran", BOTH)
def test_cancelling_ends_the_wait_while_the_model_still_hangs(stuck: Stuck, ran: Ran) -> None:
    for model in (stuck, stuck.acall):
        stuck.asked.clear()
        asker = quick(model, deadline=600)
        thread, found = in_thread(lambda asker=asker: ran(summarise(*block()), asker))  # type: ignore[misc] # bound now
        assert stuck.asked.wait(PATIENCE)
        asker.cancel()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        (error,) = found
        assert isinstance(error, AskFailed)
        assert error.why == "cancelled"
        assert asker.seconds_until_ready == 0  # the model is not to blame


def test_cancelling_ends_a_pause_between_two_tries_too() -> None:
    tried = threading.Event()

    def failing(_ask: Ask) -> Reply:
        tried.set()
        raise BROKEN

    asker = quick(failing, back_off=300, deadline=6_000)
    thread, found = in_thread(lambda: Exchange(asker).ask(ASK))
    assert tried.wait(PATIENCE)
    asker.cancel()
    thread.join(PATIENCE)
    assert [error.why for error in found if isinstance(error, AskFailed)] == ["cancelled"]


def test_a_cancelled_task_leaves_at_once(stuck: Stuck) -> None:
    async def body() -> None:
        task = asyncio.create_task(Exchange(quick(stuck, deadline=600)).aask(ASK))
        await asyncio.to_thread(stuck.asked.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(body())


def test_one_threads_wait_does_not_stall_another(stuck: Stuck) -> None:
    def half_stuck(ask: Ask) -> Reply:
        return stuck(ask) if ask.instruction == "hang" else ends(GOOD)

    asker = quick(half_stuck, deadline=600)
    thread, _ = in_thread(lambda: Exchange(asker).ask(Ask(instruction="hang")))
    assert stuck.asked.wait(PATIENCE)
    assert [run(summarise(*block()), asker).text for _ in range(3)] == [GOOD] * 3
    assert thread.is_alive()
    asker.cancel()
    thread.join(PATIENCE)


def test_other_tasks_run_while_a_blocking_model_is_asked(stuck: Stuck) -> None:
    async def body() -> None:
        waiting = asyncio.create_task(Exchange(quick(stuck, deadline=600)).aask(ASK))
        await asyncio.to_thread(stuck.asked.wait, 30)  # the loop is free: else this would never be reached
        stuck.release.set()
        assert (await waiting).text.endswith("late")

    asyncio.run(body())


def test_an_async_summary_is_the_same_as_a_sync_one() -> None:
    script = [ends(""), ends(GOOD)]
    assert summary_of(ScriptedModel(script), ran=run) == summary_of(ScriptedModel(script), ran=run_async)
