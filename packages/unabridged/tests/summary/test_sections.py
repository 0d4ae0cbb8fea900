"""A switch for each section of a summary turn; what people said, rules and prose always stand there."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cli_case import DESK, SESSION
from conversations import chat_round, long_chat, user
from engine_case import texts
from ledger_case import count, people_in, person, round_of
from rows import rows
from unabridged import Compactor, Settings
from unabridged.errors import SettingsError
from unabridged.languages import get_labels
from unabridged.settings import OPTIONAL_SECTIONS as SECTIONS
from unabridged.summary.gather import gather_ledger
from unabridged.summary.layout import DROP_ORDER, LAYOUT, SECTION_ORDER
from unabridged.summary.sections import Sections
from unabridged_testing import ScriptedModel

HEADINGS = {name: get_labels("en")[name].partition(" (")[0] for name in SECTIONS}
PLAN = [
    {"content": "Find it", "status": "completed"},
    {"content": "Rename it in the tests", "status": "in_progress"},
    {"content": "Run them", "status": "pending"},
]
PROSE = "The files of the application are gone through one by one, and what the user asked for is under way."
RULE = "Always answer in English."
CONVERSATIONS = {
    "session": json.loads(SESSION.read_text())["messages"],
    "desk": json.loads(DESK.read_text())["messages"],
    "talk": [user(RULE), *long_chat(120)],
    "plan": [
        user("Rename load_settings."),
        *chat_round("TodoWrite", "ok", todos=PLAN),
        *chat_round("edit_file", "ok", path="a.py", new_text="read_settings"),
        *chat_round("bash", "12 passed", command="make test"),
        *long_chat(80),
    ],
}
CASES = [(name, by_model) for name in CONVERSATIONS for by_model in (False, True)]


def summary(case: tuple[str, bool], without: tuple[str, ...] = ()) -> str:
    name, by_model = case
    settings = Settings(without=without, clear=None, trigger=("tokens", 6_000), keep=("tokens", 800))
    model = ScriptedModel([f"{PROSE}\n\n### Rules\n- {RULE}"], forever=True) if by_model else None
    done = Compactor(model, window=16_000, archive="memory:", settings=settings).fit(CONVERSATIONS[name], thread="t")
    assert done.receipt is not None
    assert (done.receipt.summariser != "model-free") == by_model
    return texts(done.messages).partition("[end of summary")[0]


def shown(text: str) -> set[str]:
    return {section for section in SECTIONS if f"## {HEADINGS[section]}" in text}


def numbers(text: str) -> list[str]:
    """The numbers of the messages of people that are quoted."""
    return [line.partition("]")[0] for line in people_in(text) if line.startswith("- [")]


@pytest.mark.parametrize("by_model", [False, True])
def test_the_list_of_what_is_to_be_done_is_told_as_of_the_end_of_what_stays(by_model: bool) -> None:
    """Where its tasks are updated in messages that stay, an older state beside them would contradict these."""
    messages = [user("Rename load_settings."), *chat_round("TaskCreate", "Task #7 created: Find it", subject="Find it")]
    messages += chat_round("TaskCreate", "Task #8 created: Rename it", subject="Rename it")
    messages += [m for i in range(80) for m in chat_round("bash", f"row {i} " * 60, command=f"cat {i}.py")]
    messages += chat_round("TaskUpdate", "Updated task #7 status", taskId="7", status="completed")
    model = ScriptedModel([PROSE], forever=True) if by_model else None
    settings = Settings(clear=None, trigger=("tokens", 6_000), keep=("tokens", 800))
    done = Compactor(model, window=16_000, archive="memory:", settings=settings).fit(messages, thread="t")
    assert done.messages[-2:] == messages[-2:]
    told = texts(done.messages)
    assert "- [pending] Rename it" in told
    assert "- [pending] Find it" not in told
    messages += chat_round("TodoWrite", "ok", todos=PLAN)  # the whole list, which stays
    with Compactor(model, window=16_000, archive="memory:", settings=settings) as compactor:
        done = compactor.fit(messages, thread="t")
        assert get_labels("en")["todo"] not in texts(done.messages)
        more = [m for i in range(80) for m in chat_round("bash", f"line {i} " * 60, command=f"cat {i}.txt")]
        done = compactor.fit([*done.messages, *more], thread="t")  # and goes now
        assert "- [in_progress] Rename it in the tests" in texts(done.messages)


@pytest.fixture(scope="module")
def whole() -> dict[tuple[str, bool], str]:
    return {case: summary(case) for case in CASES}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_can_be_left_out_and_only_it_goes(section: str, whole: dict[tuple[str, bool], str]) -> None:
    for case in CASES:
        left = summary(case, (section,))
        assert section not in shown(left), case
        for heading, there in (("people", case[1] or section == "done"), ("rules", case == ("talk", True))):
            assert (f"## {get_labels('en')[heading]}" in left) == there, case
        assert people_in(left), case
        assert (PROSE in left) == case[1]
        assert shown(whole[case]) - {section} <= shown(left), case


def test_every_section_is_there_to_be_left_out(whole: dict[tuple[str, bool], str]) -> None:
    assert set().union(*map(shown, whole.values())) == set(SECTIONS)


def test_a_list_of_what_is_to_be_done_is_whole_unless_prose_tells_what_is_done(
    whole: dict[tuple[str, bool], str],
) -> None:
    for by_model in (False, True):
        text = whole["plan", by_model]
        assert "- [in_progress] Rename it in the tests\n  - [pending] Run them" in text
        assert ("- [completed] Find it" in text) == (not by_model)


def test_all_of_them_left_out_leaves_prose_rules_and_what_people_said(whole: dict[tuple[str, bool], str]) -> None:
    for case in CASES:
        left = summary(case, SECTIONS)
        assert not shown(left)
        assert (f"## {get_labels('en')['rules']}" in left) == (f"## {get_labels('en')['rules']}" in whole[case])
        assert numbers(left) == numbers(whole[case]), "the same messages of people, also where nothing else is told"


@rows(
    ("without", "says"),
    [
        (("rules",), "always stands"),
        (("people",), "always stands"),
        (("prose",), "always stands"),
        (("open",), "without knows .*todo"),
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
    assert all(get_labels("en")[row.name] for row in rows)
    assert sorted(SECTION_ORDER) == sorted(row.name for row in rows)
    assert sorted(DROP_ORDER) == sorted([*SECTION_ORDER, "newest"])
    assert len({row.name for row in LAYOUT}) == len(LAYOUT)


@pytest.mark.parametrize("room", [0, 20, 60, 200, 2_000])
def test_files_that_find_no_place_are_counted_where_they_would_stand(room: int) -> None:
    edited = [f"src/part_{number}.py" for number in range(12)]
    views = [view for path in edited for view in round_of("edit_file", "ok", path=path, new_text="x")]
    written = Sections(gather_ledger([person("Edit all of them."), *views]), count).files(room)
    found = re.search(r"- edited: (.+)", written)
    listed = found[1].split(", ") if found else []
    more = [int(name[1:]) for name in listed if name.startswith("+")]
    assert bool(listed) == (room >= 20)
    if listed:
        assert len(listed) - len(more) + sum(more) == len(edited)
