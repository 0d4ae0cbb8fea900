"""Summaries in no known frame are told by their words: learned from texts, tried on writers that were not seen."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from ledger_case import LISTS, person
from unabridged.intent import with_origins
from unabridged.intent.records import SURE, likeness, words_of
from unabridged.ledger.gather import gather

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "generate_records.py"
HELD_OUT: dict[str, list[str]] = json.loads((LISTS / "records_held_out.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_records", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not SCRIPT.is_file(), reason="a copy of the tree without its scripts: that of a mutant")
def test_the_table_is_what_the_texts_teach(script: ModuleType) -> None:
    assert script.table(script.learn(script.read_writers())) == script.TABLE.read_text(encoding="utf-8")


@pytest.mark.skipif(not SCRIPT.is_file(), reason="a copy of the tree without its scripts: that of a mutant")
def test_writers_it_has_not_seen_are_told_apart_by_their_words_alone(script: ModuleType) -> None:
    """Each is left out in turn: that is what the figures in the docs are of."""
    writers = script.read_writers()
    names = [name for name in writers if name.startswith("writer_")]
    found = {kind: [right for name in names for right in script.unseen(writers, name, kind)] for kind in script.KINDS}
    assert len(found["records"]) == len(found["others"]) == 80
    assert sum(found["records"]) >= 66
    assert sum(found["others"]) >= 79


def test_what_nobody_has_learned_from_is_mostly_told_apart() -> None:
    """In no list that the table is made of; `docs/origins.md` says what it got right at first sight."""
    records = [with_origins([person(text)])[0].origin for text in HELD_OUT["records"]]
    others = [with_origins([person(text)])[0] for text in HELD_OUT["others"]]
    assert records.count("summary") >= 33
    assert sum(view.origin == "person" and not view.inserted for view in others) >= 39


def test_words_that_were_not_learned_say_nothing() -> None:
    assert likeness("") == likeness("qqxw zzkv wwqx") == 0 < SURE


def test_scripts_without_spaces_are_read_by_pairs_of_signs() -> None:
    pairs = {"\u5df2\u5b8c", "\u5b8c\u6210", "\u3002"}
    assert words_of("Step 12: \u5df2\u5b8c\u6210 \u3002") == {"step", "0", ":", *pairs}


EARLIER = (
    "In an earlier session the assistant and I agreed on the schema: users, orders, items. The assistant proposed an "
    "index on orders.created_at and it was added. The tests passed. What was left open was the archive table. "
)


@pytest.mark.parametrize("last", ["Continue with the archive table and keep to the agreed schema.", "Now the table."])
def test_who_tells_of_an_earlier_session_and_says_what_to_do_is_a_person_whatever_the_words(last: str) -> None:
    assert likeness(EARLIER + last) >= SURE
    (view,) = with_origins([person(EARLIER + last)])
    assert (view.origin, view.inserted) == ("person", ())
    assert gather([view], answered=False).requests


def test_what_a_terminal_shows_is_no_summary_whatever_the_words() -> None:
    shown = "\n".join(
        ["$ ./handover --summary", *(f"\u2713 the user asked for part {i}, the assistant did it" for i in range(12))]
    )
    told = "Summary of the earlier conversation: the user wanted parts, the assistant settled them; one is open.\n"
    assert likeness(told + shown) >= SURE
    assert with_origins([person(told + shown)])[0].origin == "person"
