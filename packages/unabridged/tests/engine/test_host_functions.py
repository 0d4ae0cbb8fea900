"""Every function of the host's that raises, returns nonsense, is async or hangs: nothing is lost or comes out raw."""

from __future__ import annotations

import logging
import time
import warnings
from typing import Any

import pytest

from conversations import assistant, chat_round, user
from rows import rows
from unabridged import Compactor, Settings, check
from unabridged.engine.hooks import Hooks
from unabridged.errors import FunctionFailed, SettingsError
from unabridged.events import Event, Failed

OVER, FITS = 3_000, 20_000
TALK = [
    user("Fix it."),
    *(m for i in range(12) for m in chat_round(f"t{i}", f"line {i} of it\n" * 20)),
    *(m for i in range(20) for m in (assistant("done " * 40), user(f"next {i}"))),
]


async def coroutine() -> None:
    """Never awaited."""


class Neither:
    """Neither yes nor no, as an array is."""

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


def made(name: str, function: Any, window: int, events: list[Event]) -> Compactor:
    """A compactor with this one function of the host's."""
    limits: dict[str, Any] = {"trigger": ("tokens", 2_000), "keep": ("tokens", 400), "deadline": 0.3}
    given: dict[str, Any] = {"on_event": events.append}
    if name == "pin":
        limits["pin"] = function
    elif name in {"prepare", "finalize", "callback"}:
        given["hooks"] = Hooks(**{name: function})
    else:
        given[name] = function
    return Compactor(window=window, archive="memory:", namespace="tenant", settings=Settings(**limits), **given)


def raises(*_: Any) -> Any:
    raise KeyError("metadata")


def returning(value: Any) -> Any:
    return lambda *_: value


# What each may not return. (Anything is yes or no for a pin, and nobody looks at what a callback or on_event returns.)
WRONG: dict[str, list[Any]] = {
    "counter": [None, 2.5, -1, "7", [3]],
    "origin": ["robot", 3, True, b"person", ["person"]],
    "pin": [Neither()],
    "redact": [None, 3, b"text", ["text"]],
    "state": [3, b"text", ["text"]],
    "prepare": [None, 3, "text", {"role": "user"}, [1, 2], [None], [object()]],
    "finalize": [None, 3, "text", [1, 2], [None], [{"role": "nobody", "content": 3}]],
    "callback": [],
    "on_event": [],
}
ASYNC = {"counter", "origin", "pin", "redact", "prepare", "finalize", "callback", "on_event"}
GOES_ON = {"state", "prepare", "finalize", "callback", "on_event"}
"""Those without which a compaction can go on when the request no longer fits."""


def cases() -> list[Any]:
    found = [(name, raises, "raises") for name in WRONG]
    found += [(name, returning(value), f"{value!r:.20}") for name, values in WRONG.items() for value in values]
    return [pytest.param(name, function, id=f"{name}: {what}") for name, function, what in found]


@pytest.mark.parametrize(("name", "function"), cases())
def test_a_function_that_fails_is_told_by_its_name_and_nothing_is_lost(name: str, function: Any) -> None:
    for window in (FITS, OVER):
        events: list[Event] = []
        given = list(TALK)
        with made(name, function, window, events) as engine:
            try:
                done = engine.fit(given, thread="t")
            except SettingsError as error:
                assert name in str(error)  # noqa: PT017 - some raise, some are told
                assert name not in GOES_ON
                assert name == "counter" or window == OVER, "while it fits the run goes on"
            else:
                if window == FITS and name not in {"state", "on_event"}:
                    assert done.messages == TALK
                    assert done.why
                if window == OVER:
                    assert name in GOES_ON
                    assert done.tokens_after <= OVER
                    assert check(done.messages, "openai-chat") == []
                    assert engine.replay(done.messages, thread="t") == TALK
            failed = [event for event in events if isinstance(event, Failed)]
            stage = "hook" if name in {"prepare", "finalize", "callback"} else name
            assert failed or name == "on_event"
            assert all((event.stage, event.namespace) == (stage, "tenant") for event in failed)
        assert given == TALK


@rows("name", sorted(ASYNC))
def test_an_async_function_or_none_at_all_is_refused_at_once(name: str) -> None:
    async def waits(*_: Any) -> Any:
        return None

    for unusable in (waits, 3, "text"):
        with pytest.raises(SettingsError, match=name):
            made(name, unusable, FITS, [])


@rows("name", ["pin", "redact", "origin", "prepare", "finalize", "counter"])
def test_a_function_that_returns_something_to_await_is_told_too(name: str) -> None:
    events: list[Event] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with made(name, lambda *_: coroutine(), FITS, events) as engine:
            if name == "counter":
                with pytest.raises(FunctionFailed, match="counter"):
                    engine.fit(list(TALK), thread="t")
            else:
                assert engine.fit(list(TALK), thread="t").messages == TALK
    assert [event for event in events if isinstance(event, Failed)]


def test_a_state_that_hangs_or_leaves_by_force_costs_the_state_and_nothing_else() -> None:
    def hangs(_thread: str) -> str:
        time.sleep(1)
        return "late"

    def exits(_thread: str) -> str:
        raise SystemExit(1)

    async def exits_waiting(_thread: str) -> str:
        raise SystemExit(1)

    for function in (hangs, exits, exits_waiting):
        events: list[Event] = []
        with made("state", function, OVER, events) as engine:
            done = engine.fit(list(TALK), thread="t")
        assert done.changed
        assert [event.stage for event in events if isinstance(event, Failed)] == ["state"]


def test_what_failed_is_not_tried_again_at_every_call(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def redact(_text: str) -> str:
        calls.append(1)
        raise KeyError("k")

    events: list[Event] = []
    with made("redact", redact, FITS, events) as engine:
        for _ in range(5):
            assert engine.fit(TALK, thread="t").messages is TALK
        with pytest.raises(FunctionFailed, match="redact raised KeyError"):
            engine.fit(TALK * 20, thread="longer")
    assert len(calls) == 2
    assert len([r for r in caplog.records if r.levelno == logging.WARNING and "redact" in r.getMessage()]) == 1


def test_a_finalize_that_makes_it_longer_is_left_out_when_it_must_fit_and_the_receipt_says_so() -> None:
    for window in (FITS, OVER):
        events: list[Event] = []
        with made("finalize", lambda before, _after: [*before, user("more " * 900)], window, events) as engine:
            done = engine.fit(list(TALK), thread="t")
            if window == FITS:
                assert done.messages == TALK
            else:
                assert done.tokens_after <= OVER
                assert done.receipt is not None
                assert "without hooks: finalize raised WontFit" in done.receipt.notes
                assert engine.replay(done.messages, thread="t") == TALK


def test_good_functions_are_asked_as_before() -> None:
    def origin(message: Any) -> Any:
        return "person" if message["role"] == "user" else None

    hooks = Hooks(prepare=tuple, finalize=lambda _before, after: after, callback=lambda _a, _b: None)
    settings = Settings(pin=lambda message: message.get("content") == "next 3" or None, clear=None)  # type: ignore[arg-type,return-value]
    with Compactor(
        window=OVER, archive="memory:", origin=origin, redact=str.upper, hooks=hooks, settings=settings
    ) as engine:
        done = engine.fit(list(TALK), thread="t")
        assert user("next 3") in done.messages
        assert "“NEXT " in str(done.messages)
        assert engine.replay(done.messages, thread="t") == TALK
