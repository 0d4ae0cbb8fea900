"""Whose window is what: the agent's, told or known or assumed; the summariser's own, and its stand-in's."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from conversations import long_chat
from engine_case import compactor
from rows import rows
from unabridged import Compactor, Settings
from unabridged.asking.ask import Ask, Reply
from unabridged.errors import SettingsError
from unabridged.settings import FALLBACK_WINDOW
from unabridged.tokens.models import find_model_info

PLAIN = "The assistant worked on several items and is going on."
STRANGERS = ["gpt-7", "azure-my-deployment", "gemini-9-nano", "us.nobody.thing-v1:0"]


def made(**options: Any) -> Compactor:
    return Compactor(archive="memory:", **options)


@pytest.mark.parametrize("name", STRANGERS)
def test_a_model_whose_window_is_not_known_is_named_once_with_the_remedy(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    name += "-once"
    assert find_model_info(name) is None
    with caplog.at_level(logging.WARNING, "unabridged"):
        for _ in range(3):
            with made(agent=name) as engine:
                assert engine.limits.window == FALLBACK_WINDOW
    said = [record.getMessage() for record in caplog.records if record.name == "unabridged"]
    assert len(said) == 1
    assert all(part in said[0] for part in (name, "32,768", "window="))


def test_nothing_is_said_where_the_window_is_known_or_given(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "unabridged"):
        made(agent="gpt-5").close()
        made(agent="a-stranger-with-a-window", window=8_000).close()
    assert not caplog.records


def test_neither_window_nor_agent_is_said_once_too() -> None:
    """In a process of its own: another test may have had it said already."""
    script = "from unabridged import Compactor\nfor _ in range(3): Compactor(archive='memory:').close()"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr.count("32,768 tokens are assumed") == 1
    assert "window=" in ran.stderr
    assert "agent=" in ran.stderr


@rows("window", [0, -1, 63, True, False, 8_000.0, "8000", "", [], float("nan")])
def test_a_window_that_is_none_is_refused(window: Any) -> None:
    for options in ({}, {"agent": "gpt-5"}):
        with pytest.raises(SettingsError, match="window must be a whole number"):
            made(window=window, **options)


@rows(
    ("name", "known_as"),
    [
        ("gemini-3-flash", "gemini-3-flash-preview"),
        ("google:gemini-3-flash", "gemini-3-flash-preview"),
        ("models/gemini-3-flash-preview", "gemini-3-flash-preview"),
        ("grok-4", "grok-4-0709"),
        ("xai/grok-4", "grok-4-0709"),
        ("gpt-35-turbo", "gpt-3.5-turbo"),
        ("azure/gpt-35-turbo-0125", "gpt-3.5-turbo"),
        ("openai:gpt-5", "gpt-5"),
        ("openai/gpt-5", "gpt-5"),
        ("gateway/openai:gpt-5", "gpt-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
    ],
)
def test_a_model_the_table_has_under_a_longer_name_is_found(name: str, known_as: str) -> None:
    info = find_model_info(name)
    assert info is not None
    assert info.name == known_as


# -- the summariser's own window --------------------------------------------------------------------------------------


class Small:
    """A summariser that remembers the largest ask it was given, in characters."""

    def __init__(self, reply: str = PLAIN) -> None:
        self.reply, self.asked, self.windows = reply, 0, set[int | None]()

    def __call__(self, ask: Ask) -> Reply:
        self.asked = max(self.asked, len(ask.instruction))
        self.windows.add(ask.window)
        return Reply(self.reply, "end")


def summarised(**options: Any) -> Any:
    with compactor(60_000, **options) as engine:
        return engine.compact(long_chat(60, words=40), thread="t")


def test_a_function_takes_what_it_was_said_to_take() -> None:
    large, small = Small(), Small()
    assert summarised(model=large).receipt.cost["calls"] == 1
    assert summarised(model=small, model_window=6_000).receipt.cost["calls"] > 4
    assert large.windows == {60_000}, "else what the agent takes"
    assert small.windows == {6_000}
    assert small.asked < large.asked / 4


def test_a_receipt_says_that_a_window_nobody_named_cost_many_asks() -> None:
    def notes(window: int, **options: Any) -> list[str]:
        with compactor(window, model=Small(), **options) as engine:
            done: Any = engine.compact(long_chat(60, words=40), thread="t")
        return [note for note in done.receipt.notes if "model_window=" in note]

    assert notes(60_000) == []
    assert notes(6_000, model_window=60_000) == []
    (note,) = notes(6_000)
    assert "times: its window is unknown and was taken to be the agent's, 6,000 tokens; model_window= sets it" in note


def test_a_string_takes_what_the_table_says_unless_it_was_said_otherwise() -> None:
    pytest.importorskip("pydantic_ai")
    url = "@http://127.0.0.1:9/v1"
    for name, told, window in (("gpt-5-mini", None, 272_000), ("gpt-5-mini", 9_000, 9_000), ("mine", None, None)):
        with made(model=f"openai:{name}{url}", model_window=told, window=60_000) as engine:
            assert engine._asker is not None  # noqa: SLF001 - what a caller sees of it is how large its asks are
            assert engine._asker.window == window  # noqa: SLF001 - likewise


def test_a_stand_in_with_a_smaller_window_gets_asks_that_fit_it() -> None:
    def down(_ask: Ask) -> Reply:
        raise ConnectionError("down")

    stand_in = Small()
    quick = Settings(retries=0)
    done = summarised(model=down, fallback=stand_in, fallback_window=6_000, settings=quick)
    assert done.receipt.summariser == "Small"
    assert stand_in.windows == {6_000}
    assert done.receipt.cost["calls"] > 4
    with compactor(60_000, model=down, fallback=stand_in, fallback_window=6_000, settings=quick) as engine:
        for thread in ("first", "while the model is left alone"):
            done = engine.compact(long_chat(60, words=40), thread=thread)
            assert done is not None
            assert done.receipt is not None
            assert done.receipt.summariser == "Small"


def test_a_stand_in_that_is_too_small_is_not_asked_what_a_reply_was_rejected_for() -> None:
    tried: list[int] = []

    def second_time(ask: Ask) -> Reply:
        tried.append(ask.again)
        return Reply(PLAIN if ask.again else "", "end")

    stand_in = Small()
    done = summarised(model=second_time, fallback=stand_in, fallback_window=2_000)
    assert done.receipt.summariser.endswith("second_time")
    assert tried == [0, 1]
    assert not stand_in.windows


@rows("which", ["model", "fallback"])
@rows("size", [0, -5, True, 6_000.0, "6000", 63])
def test_a_window_of_a_summariser_that_is_none_is_refused(which: str, size: Any) -> None:
    with pytest.raises(SettingsError, match=f"{which}_window must be a whole number"):
        made(model=Small(), fallback=Small(), window=8_000, **{f"{which}_window": size})


@pytest.mark.parametrize("option", [{"fallback": Small()}, {"model_window": 6_000}, {"fallback_window": 6_000}])
def test_what_belongs_to_a_summariser_is_refused_where_there_is_none(option: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="leave"):
        made(window=8_000, **option)
    if "fallback_window" in option:
        with pytest.raises(SettingsError, match="there is no fallback"):
            made(model=Small(), window=8_000, **option)
