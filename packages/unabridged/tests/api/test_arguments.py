"""Every argument of a wrong type is refused when the compactor is made, by its name and with what would be right."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from rows import rows
from unabridged import Compactor, Settings
from unabridged.errors import SettingsError, UnabridgedError


class Nothing:
    """An object that is none of what is wanted."""


WRONG: dict[str, tuple[Any, ...]] = {
    "model": (5, {}, Nothing()),
    "model_window": ("1", 0, True),
    "fallback": (5, {}),
    "fallback_window": ("1", 0),
    "agent": (5, b"x", ["a"]),
    "window": ("32k", 1.5, True, 0, -1),
    "archive": (5, {}, Nothing(), Path("agent.db")),
    "settings": ({"trigger": ("fraction", 0.8)}, {}, 5, "x", Settings),
    "namespace": (True, b"x", ["n"]),
    "format": (5, {}, Nothing(), "nonsense"),
    "counter": (5, "x"),
    "exact": ("yes", 1, None),
    "origin": (5, "x"),
    "on_event": (5, "x"),
    "hooks": (5, {}, "x"),
    "redact": (5, "x"),
    "state": (5, "x"),
}


def test_every_argument_is_tried() -> None:
    assert set(WRONG) == set(inspect.signature(Compactor.__init__).parameters) - {"self"}


@rows("name", WRONG)
def test_an_argument_of_a_wrong_type_is_said_by_its_name(name: str) -> None:
    beside: dict[str, Any] = {"archive": "memory:", "window": 32_000}
    if name in {"model_window", "fallback", "fallback_window"}:
        beside |= {"model": str, **({"fallback": str} if name == "fallback_window" else {})}
    for value in WRONG[name]:
        with pytest.raises(UnabridgedError) as caught:
            Compactor(**{**beside, name: value})
        assert isinstance(caught.value, SettingsError)
        assert ("model" if name == "fallback" else name) in str(caught.value), str(caught.value)


def test_settings_as_a_dict_are_told_what_to_write() -> None:
    wrong: Any = {"trigger": None}
    with pytest.raises(SettingsError, match=r"settings must be Settings\(\.\.\.\), such as .* got a dict"):
        Compactor(archive="memory:", settings=wrong)


@rows(
    ("name", "values"),
    [
        ("deadline", ("5", None, -1, float("nan"), float("inf"), True)),
        ("cool_down", ("5", None, -1)),
        ("retries", ("2", None, -1, 1.5, True)),
        ("instruction", (5, ["x"], b"x")),
        ("suffix", ("yes", 5)),
        ("summary_reserve", (0, -1, 1.5, "4096", True, float("nan"))),  # R51
    ],
)
def test_a_setting_of_a_wrong_type_is_said_by_its_name(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        given: dict[str, Any] = {name: value}
        with pytest.raises(SettingsError, match=name):
            Settings(**given)
