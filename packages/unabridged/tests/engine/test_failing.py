"""A summariser that fails is never silent: a WARNING with the remedy, an event, reason and cost in the receipt."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conversations import assistant, long_chat, user
from rows import rows
from unabridged import Compactor, Settings
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.replies import reply_of
from unabridged.errors import SummaryFailed
from unabridged.events import Compacted, Event, Failed
from upstream import Upstream, chat, claude, serving

PLAIN = "The assistant worked on several items and is going on."
SECRET, KEY = "the launch code is heron-77", "sk-live-4f1e9a7c0b2d4e6f8a1b"
DID = "I have repaired the part of the importer that reads the file, and this is what was wrong with it. " * 2
NEXT = "Now please look at the other parts of the importer, and tell me what you think of part"
TALK = [user(f"Fix it; {SECRET}."), *(m for i in range(40) for m in (assistant(DID), user(f"{NEXT} {i}.")))]
OVER, FITS = 2_500, 20_000
LONG = " ".join(f"word{i}" for i in range(4_000))
GERMAN = "Der Nutzer möchte, dass der Importer repariert wird, und das ist noch nicht fertig, weil die Tests fehlen."


def refused(status: int) -> tuple[int, dict[str, Any]]:
    said = f"refused: key {KEY}, prompt {SECRET}"
    return status, {"type": "error", "error": {"type": "some_error", "message": said, "code": None}}


CALLS = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
USE = {"type": "tool_use", "id": "1", "name": "f", "input": {}}

# The answer of each server, what the reason names, what the remedy says. None never answers.
FAILURES: dict[str, tuple[Any, ...]] = {
    "no key": (refused(401), refused(401), "AuthenticationError, HTTP 401", "key"),
    "forbidden": (refused(403), refused(403), "HTTP 403", "key"),
    "no such model": (refused(404), refused(404), "NotFoundError, HTTP 404", "name"),
    "bad request": (refused(400), refused(400), "BadRequestError, HTTP 400", "Failed event"),
    "limited": (refused(429), refused(429), "RateLimitError, HTTP 429", "fallback="),
    "down": (refused(500), refused(500), "InternalServerError, HTTP 500", "fallback="),
    "never answers": (None, None, "did not answer within", "deadline"),
    "empty": (chat(""), claude(""), "empty", "another model"),
    "no text": (chat(None), claude(""), "empty", "another model"),
    "cut off": (chat(PLAIN, "length"), claude(PLAIN, "max_tokens"), "cut-off", "another model"),
    "refusal": (chat(None, refusal="I can't."), claude("I can't.", "refusal"), "refusal", "another model"),
    "tool call": (chat(None, "tool_calls", **CALLS), claude("", "tool_use", USE), "tool-call", "another model"),
    "wrong language": (chat(GERMAN), claude(GERMAN), "wrong-language", "another model"),
    "not smaller": (chat(LONG), claude(LONG), "over-budget", "another model"),
}
PAID = list(FAILURES)[7:]


def through_openai(server: Upstream, *, waits: bool) -> Callable[[Ask], Any]:
    import openai

    options: dict[str, Any] = {"api_key": KEY, "base_url": f"{server.url}/v1", "max_retries": 0}

    def body(ask: Ask) -> dict[str, Any]:
        turn = {"role": "user", "content": ask.instruction}
        return {"model": "served", "messages": [turn], "max_tokens": ask.max_tokens}

    def served(ask: Ask) -> Reply:
        with openai.OpenAI(**options) as client:
            return reply_of(client.chat.completions.create(**body(ask)))

    async def aserved(ask: Ask) -> Reply:
        async with openai.AsyncOpenAI(**options) as client:
            return reply_of(await client.chat.completions.create(**body(ask)))

    return aserved if waits else served


def through_anthropic(server: Upstream, *, waits: bool) -> Callable[[Ask], Any]:
    import anthropic

    options: dict[str, Any] = {"api_key": KEY, "base_url": server.url, "max_retries": 0}

    def body(ask: Ask) -> dict[str, Any]:
        turn = {"role": "user", "content": ask.instruction}
        return {"model": "claude-x", "messages": [turn], "max_tokens": ask.max_tokens}

    def served(ask: Ask) -> Reply:
        with anthropic.Anthropic(**options) as client:
            return reply_of(client.messages.create(**body(ask)))

    async def aserved(ask: Ask) -> Reply:
        async with anthropic.AsyncAnthropic(**options) as client:
            return reply_of(await client.messages.create(**body(ask)))

    return aserved if waits else served


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    with serving() as upstream:
        yield upstream


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged, apart from how many messages of people a small summary left out."""
    records = [r for r in caplog.records if r.name == "unabridged" and r.levelno >= logging.WARNING]
    return [text for text in (record.getMessage() for record in records) if "are left out of the summary" not in text]


class Host:
    """A compactor, what it was told, and what was logged."""

    def __init__(self, model: Any, window: int, caplog: pytest.LogCaptureFixture, **options: Any) -> None:
        self.events: list[Event] = []
        self._caplog = caplog
        deadline = options.pop("deadline", 10.0)
        limits = Settings(
            trigger=("tokens", 2_000), keep=("tokens", 400), deadline=deadline, retries=0, cool_down=0, suffix=False
        )
        self.engine = Compactor(
            model, window=window, archive="memory:", settings=limits, on_event=self.events.append, **options
        )

    def fit(self, *, waits: bool, thread: str = "t") -> Any:
        if waits:
            return asyncio.run(self.engine.afit(list(TALK), thread=thread))
        return self.engine.fit(list(TALK), thread=thread)

    @property
    def failed(self) -> list[Failed]:
        return [event for event in self.events if isinstance(event, Failed)]

    @property
    def warnings(self) -> list[str]:
        return warnings_in(self._caplog)


async def stand_in(_prompt: str) -> str:
    return PLAIN


@pytest.mark.parametrize(("sdk", "waits"), [(through_openai, False), (through_anthropic, True)], ids=["sync", "async"])
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_logged_once_told_and_in_the_receipt(
    kind: str, sdk: Any, waits: bool, server: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    answers = FAILURES[kind]
    server.answers = [answers[0 if sdk is through_openai else 1]]
    reason, remedy = answers[2:]
    deadline = 0.3 if answers[0] is None else 10.0
    model = sdk(server, waits=waits)
    name = model.__qualname__

    host = Host(model, FITS, caplog, deadline=deadline)
    done = host.fit(waits=waits)
    assert done.messages == TALK, "while it fits, history stays"
    (failed,) = host.failed
    assert (failed.stage, failed.cost.get("calls", 0)) == ("summary", 2 if kind in PAID else 0)
    (said,) = host.warnings
    assert reason in said
    assert remedy in said

    caplog.clear()
    host = Host(model, OVER, caplog, deadline=deadline)
    done = host.fit(waits=waits)
    assert done.receipt.summariser == "model-free"
    (why,) = [note for note in done.receipt.notes if note.startswith("model-free: ")]
    assert reason in why
    paid = {"calls": 2, "input": 240, "output": 60} if kind in PAID else {}
    assert {key: done.receipt.cost.get(key) for key in paid} == paid
    assert bool(done.receipt.cost) is bool(paid)
    assert len(host.failed) == 1
    assert len(host.warnings) == 1
    told = [
        *host.warnings,
        why,
        repr(done.receipt),
        *(repr(e.receipt) for e in host.events if isinstance(e, Compacted)),
    ]
    assert not [text for text in told if SECRET in text or KEY in text]

    caplog.clear()
    large = {"model_window": 32_000, "fallback_window": 32_000}
    host = Host(model, OVER, caplog, deadline=max(deadline, 1.0), fallback=stand_in, **large)
    done = host.fit(waits=waits)
    assert done.receipt.summariser.endswith("stand_in")
    (failed,) = host.failed
    cost = [failed.cost.get(key, 0) for key in ("calls", "input", "output")]
    assert (failed.stage, failed.goes_on) == ("summary", True)
    assert cost == ([1, 120, 30] if kind in PAID else [0, 0, 0])
    assert isinstance(failed.error, SummaryFailed)
    assert reason in failed.error.reason
    assert [type(event).__name__ for event in host.events] == ["Compacting", "Failed", "Compacted"]
    (note,) = [note for note in done.receipt.notes if "stand_in was asked instead" in note]
    assert reason in note
    if kind not in PAID:
        assert name in note
        assert len(host.warnings) == 1
        assert all("stand_in was asked instead" in text for text in host.warnings)


def test_a_connection_that_is_refused_and_errors_of_any_kind_are_told_alike(caplog: pytest.LogCaptureFixture) -> None:
    import openai

    gone = Upstream()
    gone.url = "http://127.0.0.1:9"
    errors: list[Any] = [
        openai.APIConnectionError(request=None),  # type: ignore[arg-type] # as a stranger may raise it
        *(TimeoutError(), ConnectionResetError(), ValueError(SECRET), KeyError(SECRET), OSError(5, SECRET)),
        SystemExit(KEY),
    ]

    def raising(error: BaseException) -> Callable[[Ask], Any]:
        def model(_ask: Ask) -> Any:
            raise error

        return model

    for model in (through_openai(gone, waits=False), through_anthropic(gone, waits=True), *map(raising, errors)):
        caplog.clear()
        host = Host(model, OVER, caplog)
        receipt = host.fit(waits=False).receipt
        assert receipt.summariser == "model-free"
        assert any(note.startswith("model-free: ") for note in receipt.notes)
        assert len(host.failed) == len(host.warnings) == 1
        assert not [text for text in (*host.warnings, repr(receipt)) if SECRET in text or KEY in text]


def test_it_is_said_once_in_a_row_and_again_in_the_next_row(caplog: pytest.LogCaptureFixture) -> None:
    down = [True, True, True, False, True, True]

    def model(_ask: Ask) -> Reply:
        if down[0]:
            raise ConnectionError
        return Reply(PLAIN, "end")

    host = Host(model, OVER, caplog)
    said: list[int] = []
    wrote: list[bool] = []
    while down:
        wrote.append(host.fit(waits=False, thread=f"t{len(wrote)}").receipt.summariser == "model-free")
        said.append(len(host.warnings))
        down.pop(0)
    assert wrote == [True, True, True, False, True, True]
    assert said == [1, 1, 1, 1, 2, 2]
    assert len(host.failed) == 5, "the event comes every time"


def test_while_it_is_left_alone_the_receipt_still_says_why(caplog: pytest.LogCaptureFixture) -> None:
    def model(_ask: Ask) -> Reply:
        raise ConnectionError(KEY)

    settings = Settings(retries=0, cool_down=600)
    with Compactor(model, window=OVER, archive="memory:", settings=settings) as engine:
        for thread in ("first", "second"):
            receipt = engine.fit(list(TALK), thread=thread).receipt
            assert receipt is not None
            (why,) = [note for note in receipt.notes if note.startswith("model-free: ")]
            assert "ConnectionError" in why
    assert "left alone for another" in why
    assert len(warnings_in(caplog)) == 1


def test_calls_that_were_paid_before_one_failed_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """In chunks: the first two are answered, the third is not."""
    answered: list[int] = []

    def model(_ask: Ask) -> Reply:
        if len(answered) == 2:
            raise ConnectionError
        answered.append(1)
        return Reply(f"{PLAIN} Part {len(answered)}.", "end", {"prompt_tokens": 100, "completion_tokens": 10})  # type: ignore[arg-type]

    talk = [user("Fix it."), *(m for i in range(300) for m in (assistant(f"did part {i} " * 30), user(f"next {i}")))]
    settings = Settings(retries=0, cool_down=0)
    with Compactor(model, window=8_000, model_window=4_000, archive="memory:", settings=settings) as engine:
        receipt = engine.fit(talk, thread="t").receipt
    assert receipt is not None
    assert receipt.summariser == "model-free"
    assert (receipt.cost["calls"], receipt.cost["input"], receipt.cost["output"]) == (2, 200, 20)
    assert len(warnings_in(caplog)) == 1


def test_a_failure_in_the_background_is_told_the_same_way(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = []

    def model(_ask: Ask) -> Reply:
        return Reply("", "end", {"prompt_tokens": 100, "completion_tokens": 1})  # type: ignore[arg-type]

    settings = Settings(background=0.3, retries=0, trigger=("tokens", 4_000), keep=("tokens", 400))
    with Compactor(model, window=20_000, archive="memory:", settings=settings, on_event=events.append) as engine:
        assert engine.fit(list(TALK), thread="t").messages == TALK
        for _ in range(200):
            if events:
                break
            asyncio.run(asyncio.sleep(0.01))
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.cost["calls"] == 2
    assert len(warnings_in(caplog)) == 1


def test_a_cancel_is_nobodys_failure_and_still_in_the_receipt(caplog: pytest.LogCaptureFixture) -> None:
    def model(_ask: Ask) -> Reply:
        engine.cancel()
        asyncio.run(asyncio.sleep(5))
        return Reply(PLAIN, "end")

    with Compactor(model, window=OVER, archive="memory:", settings=Settings(retries=0)) as engine:
        receipt = engine.fit(list(TALK), thread="t").receipt
    assert receipt is not None
    assert any("cancelled" in note for note in receipt.notes)
    assert not warnings_in(caplog)


# -- two models -----------------------------------------------------------------------------------------------------


def answering(*said: Any, name: str = "") -> Any:
    """A summariser that gives these replies one after the other, and the last of them for good; errors are raised."""
    left = list(said)

    def model(ask: Ask) -> Reply:
        del ask
        model.calls += 1  # type: ignore[attr-defined]
        now = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(now, BaseException):
            raise now
        return Reply(now, "end", {"prompt_tokens": 100, "completion_tokens": 10})  # type: ignore[arg-type]

    model.calls, model.name = 0, name or "answering"  # type: ignore[attr-defined]
    return model


def two(first: Any, second: Any, caplog: pytest.LogCaptureFixture, window: int = OVER, **options: Any) -> Host:
    return Host(first, window, caplog, fallback=second, model_window=32_000, fallback_window=32_000, **options)


DOWN = ConnectionError("no route")
CASES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], list[int], int]] = {
    # What the first and the second model answer, the calls for nothing in each event, and the calls that were good.
    "both are well": ((PLAIN,), (PLAIN,), [], 1),
    "the first raises": ((DOWN,), (PLAIN,), [0], 1),
    "the first is empty": (("",), (PLAIN,), [1], 1),
    "the first is empty, the second raises, the first is well": (("", PLAIN), (DOWN,), [0], 2),
    "the first is empty and then raises, the second raises": (("", DOWN), (DOWN,), [0, 1], 0),
    "both raise": ((DOWN,), (DOWN,), [0, 0], 0),
    "both are empty": (("",), ("",), [1, 1], 0),
    "the first raises, the second is empty": ((DOWN,), ("",), [0, 2], 0),
    "the first raises, the second is empty once": ((DOWN,), ("", PLAIN), [0], 2),
}


# R31, R34
@rows("waits", [False, True], ids=["sync", "async"])
@rows("case", CASES)
def test_each_model_that_failed_is_told_once_whoever_answered(
    case: str, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, wasted, good = CASES[case]
    host = two(answering(*first), answering(*second), caplog)
    receipt = host.fit(waits=waits).receipt
    assert (receipt.summariser == "model-free") == (not good)
    assert receipt.cost.get("calls", 0) == sum(wasted) + good
    assert_told(host.failed, wasted, goes_on=True)
    kinds = [type(event).__name__ for event in host.events]
    again = ["Compacting"] * (not good)  # without a model it is begun anew
    assert kinds == ["Compacting", *["Failed"] * len(wasted), *again, "Compacted"]


# R31, R34
@rows("case", CASES)
def test_each_model_that_failed_in_the_background_is_told_once(case: str) -> None:
    first, second, wasted, good = CASES[case]
    events: list[Event] = []
    settings = Settings(
        background=0.3, retries=0, cool_down=0, trigger=("tokens", 4_000), keep=("tokens", 400), suffix=False
    )
    with Compactor(
        answering(*first), fallback=answering(*second), window=20_000, archive="memory:", settings=settings,
        on_event=events.append,
    ) as engine:  # fmt: skip
        assert engine.fit(list(TALK), thread="t").messages == TALK
        engine._runner.background.wait_for_all(20)  # noqa: SLF001 - nothing public says when it is done
    assert_told([event for event in events if isinstance(event, Failed)], wasted, goes_on=bool(good))


def assert_told(failed: list[Failed], wasted: list[int], *, goes_on: bool) -> None:
    """Assert that there is one event for each model, with the calls that it was paid for nothing."""
    assert [event.stage for event in failed] == ["summary"] * len(wasted)
    assert sorted(int(event.cost.get("calls", 0)) for event in failed) == wasted
    assert sorted(event.cost.get("input", 0) for event in failed) == [100 * calls for calls in wasted]
    assert all(event.goes_on is goes_on for event in failed)
    assert len({event.error.place for event in failed}) == len(wasted)  # type: ignore[attr-defined]


def test_a_model_that_rests_is_not_asked_and_so_does_not_fail_again(caplog: pytest.LogCaptureFixture) -> None:
    first, second = answering(DOWN), answering(PLAIN, DOWN)
    events: list[Event] = []
    settings = Settings(trigger=("tokens", 2_000), keep=("tokens", 400), retries=0, cool_down=600, suffix=False)
    with Compactor(
        first, fallback=second, window=OVER, model_window=32_000, archive="memory:", settings=settings,
        on_event=events.append, fallback_window=32_000,
    ) as engine:  # fmt: skip
        seen: list[tuple[int, str]] = []
        for number in range(4):
            events.clear()
            receipt = engine.fit(list(TALK), thread=f"t{number}").receipt
            assert receipt is not None
            who = "model-free" if receipt.summariser == "model-free" else "second"
            seen.append((sum(isinstance(event, Failed) for event in events), who))
            notes = receipt.notes
    assert seen == [(1, "second"), (1, "model-free"), (0, "model-free"), (0, "model-free")]
    assert (first.calls, second.calls) == (1, 2)
    assert any("left alone for another" in note for note in notes)
    assert len(warnings_in(caplog)) == 2


def test_in_chunks_a_model_is_told_once_with_all_that_it_took_for_nothing() -> None:
    talk = [user("Fix it."), *(m for i in range(300) for m in (assistant(f"did part {i} " * 30), user(f"next {i}")))]
    parts = [f"{PLAIN} Part {i}." for i in range(60)]
    faulty = [text for part in parts for text in ("", part)]
    for first, calls in (((*parts[:2], DOWN), 0), (faulty, None)):
        events: list[Event] = []
        second = answering(*parts)
        settings = Settings(retries=0, cool_down=0, suffix=False)
        with Compactor(
            answering(*first), fallback=second, window=8_000, model_window=4_000, fallback_window=4_000,
            archive="memory:", settings=settings, on_event=events.append,
        ) as engine:  # fmt: skip
            receipt = engine.fit(talk, thread="t").receipt
        assert receipt is not None
        assert receipt.summariser != "model-free"
        (failed,) = [event for event in events if isinstance(event, Failed)]
        assert second.calls > 3
        assert failed.cost.get("calls", 0) == (second.calls if calls is None else calls)


def test_the_failure_is_told_when_the_fallback_has_to_be_asked_in_smaller_pieces() -> None:
    talk = [user("Fix it."), *(m for i in range(60) for m in (assistant(f"did part {i} " * 30), user(f"next {i}")))]
    events: list[Event] = []
    second = answering(*(f"{PLAIN} Part {i}." for i in range(60)))
    settings = Settings(retries=0, cool_down=0, suffix=False)
    with Compactor(
        answering(DOWN), fallback=second, window=8_000, model_window=64_000, fallback_window=4_000,
        archive="memory:", settings=settings, on_event=events.append,
    ) as engine:  # fmt: skip
        receipt = engine.fit(talk, thread="t").receipt
    assert receipt is not None
    assert receipt.summariser != "model-free"
    assert second.calls > 1
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.error.__cause__ is DOWN


def test_what_failed_is_paid_at_the_prices_of_its_own_model(caplog: pytest.LogCaptureFixture) -> None:
    paid: dict[str, float] = {}
    for names in (("gpt-5-mini", "claude-opus-4-5"), ("claude-opus-4-5", "gpt-5-mini")):
        host = two(answering("", name=names[0]), answering("", name=names[1]), caplog)
        receipt = host.fit(waits=False).receipt
        assert receipt.summariser == "model-free"
        costs = [event.cost["dollars"] for event in host.failed]
        assert receipt.cost["dollars"] == pytest.approx(sum(costs))
        for name, dollars in zip(names, costs, strict=True):
            assert paid.setdefault(name, dollars) == pytest.approx(dollars)
    assert paid["claude-opus-4-5"] > paid["gpt-5-mini"] > 0


@rows("ends_with", ["a reply", "nothing", "an error"])
@rows("window", [None, 2_500], ids=["one ask", "chunks"])
def test_an_async_summariser_that_blocks_the_event_loop_past_the_deadline_is_asked_once(
    ends_with: str, window: int | None
) -> None:
    """Nothing in one event loop can end the wait; but no other ask, retry or fallback follows it."""
    asked: list[str] = []

    async def blocks(prompt: str) -> str:
        asked.append(prompt)
        time.sleep(0.3)  # noqa: ASYNC251 - that is the fault
        if ends_with == "an error":
            raise ConnectionError("the connection broke")
        return "The pumps were looked at, and all of them are steady." if ends_with == "a reply" else ""

    async def other(prompt: str) -> str:
        asked.append(prompt)
        return ""

    settings = Settings(deadline=0.1)
    engine = Compactor(blocks, fallback=other, model_window=window, window=8_000, archive="memory:", settings=settings)
    for thread in ("one", "two"):  # the second time, it rests
        fitted = asyncio.run(engine.afit(long_chat(60), thread=thread))
        assert fitted.receipt is not None
        assert fitted.receipt.summariser == "model-free"
        assert len(asked) == 1
