"""A switch for each section of a summary turn; what the user waits for and the rules always stand there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli_case import DESK, SESSION
from conversations import long_chat, user
from engine_case import compactor, texts
from unabridged import Settings
from unabridged.errors import SettingsError
from unabridged.languages import labels
from unabridged.ledger.summary_turn import LAYOUT, SERVED
from unabridged.ledger.summary_turn import OPTIONAL as SECTIONS

HEADINGS = {name: labels("en")[name].partition(" (")[0] for name in SECTIONS}
CONVERSATIONS = {
    "session": json.loads(SESSION.read_text())["messages"],
    "desk": json.loads(DESK.read_text())["messages"],
    "talk": [user("Always answer in English."), *long_chat(120)],
}


def summary(messages: list[Any], without: tuple[str, ...] = ()) -> str:
    settings = Settings(without=without, clear=None, trigger=("tokens", 6_000), keep=("tokens", 800))
    done = compactor(16_000, settings=settings).fit(messages, thread="t")
    assert done.receipt is not None
    return texts(done.messages).partition("[end of summary")[0]


@pytest.fixture(scope="module")
def whole() -> dict[str, str]:
    return {name: summary(messages) for name, messages in CONVERSATIONS.items()}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_can_be_left_out_and_only_it_goes(section: str, whole: dict[str, str]) -> None:
    for name, messages in CONVERSATIONS.items():
        shown = {other for other in SECTIONS if f"## {HEADINGS[other]}" in whole[name]}
        left = summary(messages, (section,))
        assert f"## {HEADINGS[section]}" not in left, name
        for heading in (labels("en")["open"], labels("en")["rules"]):
            assert (f"## {heading}" in left) == (f"## {heading}" in whole[name]), name
        assert shown - {section} <= {other for other in SECTIONS if f"## {HEADINGS[other]}" in left} | {"own_words"}


def test_most_sections_are_there_to_be_left_out(whole: dict[str, str]) -> None:
    shown = {name for text in whole.values() for name in SECTIONS if f"## {HEADINGS[name]}" in text}
    assert shown == {"done", "files", "names"}  # the others need a model, or a list of what is to be done


def test_all_of_them_left_out_leaves_what_is_open_and_the_rules(whole: dict[str, str]) -> None:
    for name, messages in CONVERSATIONS.items():
        left = summary(messages, SECTIONS)
        assert not [section for section in SECTIONS if f"## {HEADINGS[section]}" in left]
        for heading in ("open", "rules"):
            assert (f"## {labels('en')[heading]}" in left) == (f"## {labels('en')[heading]}" in whole[name])


@pytest.mark.parametrize(
    ("without", "says"),
    [
        (("rules",), "always stands"),
        (("open",), "always stands"),
        (("nonsense",), "without knows .*todo"),
        ("files", "tuple of sections"),
        (["files"], "tuple of sections"),
        ((5,), "without knows"),
    ],
)
def test_what_can_not_be_left_out_is_said(without: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Settings(without=without)


def test_every_section_of_the_ledger_has_a_heading_and_is_served() -> None:
    rows = [row for row in LAYOUT if row.write is not None]
    assert all(labels("en")[row.heading] for row in rows)
    assert sorted(SERVED) == sorted(row.name for row in rows)
    assert len({row.name for row in LAYOUT}) == len(LAYOUT)
