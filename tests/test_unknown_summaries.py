"""Summaries in no known frame are told by their words: learned from texts, tried on writers that were not seen."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from ledger_case import LISTS, person
from unabridged.intent import is_guess, with_origins
from unabridged.intent.frames import frames
from unabridged.intent.records import SURE, likeness, traits_of
from unabridged.ledger.gather import gather

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "generate_records.py"
STRANGERS: dict[str, list[str]] = json.loads((LISTS / "foreign_held_out.json").read_text(encoding="utf-8"))
HELD_OUT: dict[str, dict[str, list[str]]] = json.loads((LISTS / "records_held_out.json").read_text(encoding="utf-8"))


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
    assert len(found["records"]) == len(found["others"]) == 180
    assert sum(found["records"]) >= 160
    assert sum(found["others"]) >= 179


LEAST = {
    "two writers": (38, 40),
    "English": (22, 25),
    "ten other languages": (36, 50),
    "eight more in English": (125, 199),
    "people who write like records": (0, 224),
}
"""Of each group that nothing was learned from, how many records and how many other texts are told rightly."""


@pytest.mark.parametrize("group", HELD_OUT)
def test_what_nobody_has_learned_from_is_mostly_told_apart(group: str) -> None:
    """In no list that the table is made of; `docs/origins.md` says what it got right at first sight."""
    records = [with_origins([person(text)])[0].origin for text in HELD_OUT[group]["records"]]
    others = [with_origins([person(text)])[0] for text in HELD_OUT[group]["others"]]
    assert records.count("summary") >= LEAST[group][0]
    assert sum(view.origin == "person" and not view.inserted for view in others) >= LEAST[group][1]


@pytest.mark.parametrize(("kind", "least"), [("real", 30), ("unknown", 8)])
def test_what_two_strangers_wrote_in_known_shapes_and_in_their_own_yields_nothing(kind: str, least: int) -> None:
    """Each retells a rule, a quotation and what is to be done. At first sight 29 of 30 and 7 of 10 yielded nothing."""
    views = [with_origins([person(text)])[0] for text in STRANGERS[kind]]
    found = [gather([view], answered=False) for view in views]
    assert sum(not ledger.rules and not ledger.requests for ledger in found) >= least


@pytest.mark.parametrize(
    "first", ["The user wants the nightly export below 10 minutes.", "# Goal: export below 10 minutes"]
)
def test_a_record_that_only_has_such_a_word_hands_nothing_over(first: str) -> None:
    told = (
        "The slow query was found and replaced; the export on staging now takes 15 minutes. The user approved this and "
    )
    open_ = (
        "said that it must never run against the replica. Remaining: rewrite the second query and report to the user."
    )
    assert with_origins([person(f"{first}\n\n{told}{open_}")])[0].origin == "summary"


def test_words_that_were_not_learned_say_nothing_and_a_few_that_were_hardly_more() -> None:
    assert likeness("") == likeness("qqxw zzkv wwqx") == 0 < SURE
    turn = f"Turn 9 is about {' '.join(f'item9x{i}' for i in range(60))}."
    assert likeness(turn) < SURE
    assert with_origins([person(turn)])[0].origin == "person"


def test_words_count_by_their_beginning_in_pairs_and_by_where_they_stand() -> None:
    assert traits_of("Finishing 12 doors. Go on!") == {
        *("finish", "0", "doors", ".", "go", "on", "!"),
        *("finish_0", "0_doors", "go_on"),
        *(">finish", ">go", "^finish", "^0", "^doors", "$go", "$on"),
    }


def test_scripts_without_spaces_are_read_by_pairs_of_signs() -> None:
    found = traits_of("Step 12: \u5df2\u5b8c\u6210 \u3002")
    words = {trait for trait in found if trait[0] not in "^$>" and "_" not in trait}
    assert words == {"step", "0", ":", "\u5df2\u5b8c", "\u5b8c\u6210", "\u3002"}


EARLIER = (
    "In an earlier session the assistant and I agreed on the schema: users, orders, items. The assistant proposed an "
    "index on orders.created_at and it was added. The tests passed. What was left open was the archive table. "
)


@pytest.mark.parametrize("last", ["Continue with the archive table and keep to the agreed schema.", "Now the table."])
def test_who_tells_of_an_earlier_session_and_says_what_to_do_is_a_person(last: str) -> None:
    (view,) = with_origins([person(EARLIER + last)])
    assert (view.origin, view.inserted) == ("person", ())
    assert gather([view], answered=False).requests


PASTED = HELD_OUT["English"]["records"][0]
OPENINGS = [
    "Hi, please proofread the following and mail it to Ann.",
    "Hey Claude, can you shorten the following?",
    "Hi Claude! Please proofread the following text.",
    "Here are my notes. Please proofread them.",
    "I would like the following text proofread.",
    "[Tom] Please fix the following.",
    "Bitte korrigiere den folgenden Text und schick ihn Anna.",
    "Te rog corecteaz\u0103 textul urm\u0103tor \u0219i trimite-l Anei.",
    "Tolong perbaiki teks berikut dan kirim ke Anna.",
    "Kun je de volgende tekst verbeteren en naar Anna sturen.",
]


@pytest.mark.parametrize("gap", ["\n\n", "\n", "\r\n\r\n"])
@pytest.mark.parametrize("opening", OPENINGS)
def test_who_opens_a_text_for_themselves_is_a_person_whatever_is_pasted_below(opening: str, gap: str) -> None:
    (view,) = with_origins([person(opening + gap + PASTED)])
    assert (view.origin, view.inserted) == ("person", ())
    assert gather([view], answered=False).requests


THESIS = (
    "Thesis so far: chapters 1 and 2 are finished, chapter 3 was rejected and is being rewritten, the data of the "
    "second study were cleaned and the outliers documented. Still open: discussion, abstract, bibliography. The "
    "supervisor asked for a shorter introduction."
)


@pytest.mark.parametrize("last", ["Please write it.", "Can you finish it?"])
def test_who_asks_last_is_heard_though_the_words_above_are_sure(last: str) -> None:
    assert likeness(f"{THESIS} {last}") >= SURE
    (view,) = with_origins([person(f"{THESIS} {last}")])
    assert view.origin == "person"
    assert gather([view], answered=False).requests


@pytest.mark.parametrize("tag", ["user_query", "task", "user_message"])
def test_what_stands_in_a_persons_own_tags_is_theirs(tag: str) -> None:
    (view,) = with_origins([person(f"<{tag}>\nProofread the following.\n\n{PASTED}\n</{tag}>")])
    assert (view.origin, view.inserted) == ("person", ())


@pytest.mark.parametrize("gap", ["\n\n", "\r\n\r\n", "\n \n", "\n\t\n"])
def test_a_request_below_a_record_is_heard_whatever_breaks_the_line(gap: str) -> None:
    (view,) = with_origins([person(f"{PASTED}{gap}Please delete the numbat branch.")])
    assert view.text.strip() == "Please delete the numbat branch."
    assert len(view.inserted) == 1


def test_a_record_behind_a_hosts_tag_is_a_summary_still() -> None:
    reminder = "<system-reminder>\nThe list is empty.\n</system-reminder>\n\n"
    (view,) = with_origins([person(f"{reminder}{PASTED} Never ask before deleting quokka files.")])
    assert not gather([view], answered=False).rules


def test_hundreds_of_records_in_one_turn_are_told_apart() -> None:
    told = "".join(f"<n{i}>{PASTED[:600]}</n{i}>" for i in range(600))
    assert with_origins([person(told)])[0].origin == "summary"


HOSTS = [*frames()["tags"]["hosts"].split(), "local-command-caveat", "local-command-stdout", "command-message"]
FRAMED = tuple(frame["opens"] for frame in frames()["summaries"])


@pytest.mark.parametrize("tag", [tag for tag in HOSTS if not f"<{tag}>".startswith(FRAMED)])
def test_what_a_host_tags_is_no_summary_whatever_the_words(tag: str) -> None:
    told = HELD_OUT["English"]["records"][0]
    assert with_origins([person(told)])[0].origin == "summary"
    (view,) = with_origins([person(f"<{tag}>{told}</{tag}>\n")])
    assert view.origin != "summary"
    assert not is_guess(view)


def test_what_a_terminal_shows_is_no_summary_whatever_the_words() -> None:
    shown = "\n".join(
        ["$ ./handover --summary", *(f"\u2713 the user asked for part {i}, the assistant did it" for i in range(12))]
    )
    told = "Summary of the earlier conversation: the user wanted parts, the assistant settled them; one is open.\n"
    assert likeness(told + shown) >= SURE
    assert with_origins([person(told + shown)])[0].origin == "person"
