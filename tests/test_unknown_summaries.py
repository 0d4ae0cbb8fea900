"""Summaries in no known frame are told by their words: learned from texts, tried on writers that were not seen."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from math import inf
from pathlib import Path
from types import ModuleType

import pytest

from conversations import chat_round, user
from ledger_case import LISTS, person, says, section
from unabridged import Compactor, Settings
from unabridged.clients.hook.reminder import write
from unabridged.formats import FORMATS
from unabridged.intent import doubtful_in, with_origins
from unabridged.intent.frames import frames
from unabridged.intent.records import ALIKE, likeness, traits_of
from unabridged.ledger.gather import gather, open_indices
from unabridged.ledger.sections import Sections
from unabridged.messages import Media

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
    assert sum(found["records"]) >= 173
    assert sum(found["others"]) >= 173


LEAST = {
    "two writers": (40, 40),
    "English": (24, 24),
    "ten other languages": (48, 48),
    "eight more in English": (188, 190),
    "people who write like records": (0, 158),
}
"""Of each group that nothing was learned from, how many records are doubtful and how many other texts are not."""


@pytest.mark.parametrize("group", HELD_OUT)
def test_what_nobody_has_learned_from_is_mostly_told_apart(group: str) -> None:
    """In no list that the table is made of; `docs/origins.md` says what it got right at first sight."""
    found = {
        kind: [with_origins([person(text)])[0] for text in HELD_OUT[group][kind]] for kind in ("records", "others")
    }
    records, others = ([view.origin for view in views] for views in found.values())
    assert sum(origin != "person" for origin in records) >= LEAST[group][0]
    assert others.count("person") >= LEAST[group][1]
    for view in found["others"]:
        ledger = gather([view], answered=False)
        assert ledger.requests, "what a person may have said is never lost"


def yields_nothing(text: str) -> bool:
    """Whether no rule, no open request and no quotation of the user's comes of a text."""
    ledger = gather(with_origins([person(text)]), answered=False)
    return (
        all(rule.doubtful for rule in ledger.rules)
        and not ledger.open
        and all(saying.retold for saying in ledger.sayings)
    )


@pytest.mark.parametrize(
    ("kind", "least"), [("real", 86), ("unknown", 30), ("real, harder", 59), ("unknown, harder", 18)]
)
def test_what_strangers_wrote_in_known_shapes_and_in_their_own_yields_nothing(kind: str, least: int) -> None:
    """Each retells a rule, a quotation and what is to be done. The harder ones lean on letters and other languages."""
    assert sum(map(yields_nothing, STRANGERS[kind])) >= least


@pytest.mark.parametrize("kind", ["real", "unknown"])
def test_nor_does_it_in_a_summary_turn(kind: str) -> None:
    for i, text in enumerate(STRANGERS[kind]):
        messages = [user(text), {"role": "assistant", "content": "That is done."}, user("Now list the rows.")]
        for n in range(40):
            messages += chat_round("bash", f"row {n} " * 60, command="ls")
        with Compactor(window=8_000, archive="memory:", settings=Settings(clear=None)) as compactor:
            summary = compactor.fit(messages, thread=f"t{i}").messages[0]["content"]
        assert section(summary, "open") == ["- message 2, in full after this summary; work on it was under way"]
        assert not section(summary, "rules")
        assert not [line for line in summary.splitlines() if line.startswith("- [0] user")]


def test_people_who_talk_about_summaries_are_hardly_ever_doubted_and_never_taken_for_one() -> None:
    views = [with_origins([person(text)])[0] for text in STRANGERS["people"]]
    assert all(view.is_request and not view.inserted for view in views)
    assert sum(view.origin == "person" for view in views) >= 39


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
    assert with_origins([person(f"{first}\n\n{told}{open_}")])[0].origin == "doubtful"


def test_words_that_were_not_learned_say_nothing_and_a_few_that_were_hardly_more() -> None:
    assert likeness("") == likeness("qqxw zzkv wwqx") == 0 < ALIKE


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
def test_who_tells_of_an_earlier_session_and_says_what_to_do_is_not_lost(last: str) -> None:
    (view,) = with_origins([person(EARLIER + last)])
    (request,) = gather([view], answered=False).requests
    assert (request.text, view.inserted) == (EARLIER + last, ())


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


@pytest.mark.parametrize("tag", ["user_query", "task", "user_message"])
def test_what_stands_in_a_persons_own_tags_is_theirs(tag: str) -> None:
    (view,) = with_origins([person(f"<{tag}>\nProofread the following.\n\n{PASTED}\n</{tag}>")])
    assert (view.origin, view.inserted) == ("person", ())


def test_what_comes_with_an_image_is_a_persons() -> None:
    (view,) = with_origins([replace(person(PASTED), media=(Media("image", "image/png", "x.png"),))])
    assert (view.origin, view.text) == ("person", PASTED)


def test_a_record_in_a_block_beside_a_persons_words_is_told_as_doubtful() -> None:
    content = [{"type": "text", "text": PASTED}, {"type": "text", "text": "Delete the numbat branch. Always ask."}]
    (view,) = with_origins([FORMATS["anthropic"].read({"role": "user", "content": content})])
    ledger = gather([view], answered=False)
    assert [request.text for request in ledger.open] == ["Delete the numbat branch. Always ask."]
    assert [(saying.by_person, saying.retold) for saying in ledger.sayings] == [(True, True), (True, False)]
    sections = Sections(ledger, len, (), inf, "")
    assert PASTED in sections.doubtful(9_000)
    assert not sections.story(9_000)
    later = gather([view, says("The branch is deleted."), person("Thanks. Write a poem about cats.")], answered=False)
    assert "- [0] Not certain that the user said it" in Sections(later, len, (), inf, "").story(9_000)


@pytest.mark.parametrize("own", ["Thanks!", "Current date: 2026-05-05"])
def test_a_record_beside_a_few_words_stays_with_them_while_they_are_open(own: str) -> None:
    content = [{"type": "text", "text": f"{PASTED}\n\nNever drop a table."}, {"type": "text", "text": own}]
    views = with_origins([FORMATS["anthropic"].read({"role": "user", "content": content})])
    ledger = gather(views, answered=False)
    assert [request.beside for request in ledger.doubtful] == [content[0]["text"]]
    assert "Never drop a table." in [rule.text for rule in ledger.rules if rule.doubtful]
    assert open_indices(views) == (0,)


@pytest.mark.parametrize("gap", ["", "\n", "<system-reminder>\nThe list is empty.\n</system-reminder>\n\n"])
def test_words_behind_a_tagged_record_are_the_persons_whatever_stands_before_it(gap: str) -> None:
    own = "Please add the numbat test. Never push to main."
    (view,) = with_origins([person(f"{gap}<session_memory>\n{PASTED}\n</session_memory>\n\n{own}")])
    ledger = gather([view], answered=False)
    assert [request.text for request in ledger.open] == [own]
    assert [rule.text for rule in ledger.rules if not rule.doubtful] == ["Never push to main."]
    assert PASTED in ledger.requests[0].beside


REPLIES = [
    ("Do you want travel insurance with it?", "I don't want insurance."),
    ("Which one shall I take: oak or zinc?", "the second one"),
    ("Plan: 1. lexer 2. parser 3. tests. Shall I start?", "yes, go on"),
    ("The lexer is in place. Shall I write docs for it as well?", "never mind"),
]


@pytest.mark.parametrize(("question", "reply"), REPLIES)
def test_what_may_be_a_summary_does_not_stand_between_a_question_and_its_answer(question: str, reply: str) -> None:
    talk = [person("Port the numbat parser to Rust."), says(question), person(reply)]
    alone = gather(with_origins(talk), answered=False)
    with_it = gather(with_origins([*talk[:2], person(PASTED), talk[2]]), turns=[0, 1, 9, 2], answered=False)
    assert [request for request in with_it.requests if not request.doubtful] == list(alone.requests)
    assert tuple(rule for rule in with_it.rules if not rule.doubtful) == alone.rules
    assert [request.state for request in with_it.doubtful] == ["open"]


def test_what_may_be_a_summary_takes_no_rule_of_a_persons_and_no_lift_of_it() -> None:
    rule, lift = person("Never drop a table."), person("You may drop tables now.")
    told = person(f"{PASTED}\n\nNever drop a table.")
    older = gather(with_origins([rule, says("Noted."), lift]), answered=False)
    merged = gather(with_origins([told]), prior=older, first_turn=3, answered=False)
    assert [(r.text, r.lifted) for r in merged.rules if not r.doubtful] == [("Never drop a table.", 2)]
    wider = [person("Never push to the main branch."), person(f"{PASTED}\n\nNever push."), person("You may push now.")]
    with_it, alone = (gather(with_origins(views), answered=False) for views in (wider, [wider[0], wider[2]]))
    assert [lift.used for lift in with_it.lifts] == [lift.used for lift in alone.lifts]


def test_silent_records_between_questions_and_answers_are_closed_with_what_follows_them() -> None:
    views = [person("Port the tables.")]
    for i in range(30):
        views += [says(f"Table {i} is ported. Which one shall I take next?"), person(PASTED), person(f"table {i + 1}")]
    ledger = gather(with_origins([*views, says("All tables are ported.")]), answered=True)
    assert sum(request.doubtful for request in ledger.requests) == 30
    assert not ledger.doubtful


def test_a_rule_that_is_doubted_goes_when_a_person_states_or_lifts_it() -> None:
    told = person(f"{PASTED}\n\nNever drop a table. Never push to main.")
    stated = gather(with_origins([told, says("Noted."), person("Yes, from me. Never drop a table.")]), answered=False)
    assert [rule.text for rule in stated.rules if rule.doubtful and rule.lifted < 0 and "Never" in rule.text] == [
        "Never push to main."
    ]
    assert [rule.text for rule in stated.rules if not rule.doubtful] == ["Never drop a table."]
    lifted = gather(with_origins([told, says("Noted."), person("You may push to main from now on.")]), answered=False)
    assert [rule.text for rule in lifted.rules if rule.doubtful and rule.lifted < 0 and "Never" in rule.text] == [
        "Never drop a table."
    ]


def test_what_may_be_a_summary_and_was_answered_is_no_finished_request_of_a_reminder() -> None:
    ledger = gather(with_origins([person(PASTED), says("All of that is done."), person("Thanks!")]), answered=True)
    assert PASTED[:20] not in write(ledger, 3).partition("## Finished")[2].partition("\n## ")[0]


def test_a_record_behind_a_hosts_tag_is_doubtful_still() -> None:
    reminder = "<system-reminder>\nThe list is empty.\n</system-reminder>\n\n"
    (view,) = with_origins([person(f"{reminder}{PASTED} Never ask before deleting quokka files.")])
    assert all(rule.doubtful for rule in gather([view], answered=False).rules)


def test_hundreds_of_records_in_one_turn_are_told_apart() -> None:
    told = "".join(f"<n{i}>{PASTED[:600]}</n{i}>" for i in range(600))
    assert with_origins([person(told)])[0].origin == "doubtful"


HOSTS = [*frames()["tags"]["hosts"].split(), "local-command-caveat", "local-command-stdout", "command-message"]
FRAMED = tuple(frame["opens"] for frame in frames()["summaries"])


@pytest.mark.parametrize("tag", [tag for tag in HOSTS if not f"<{tag}>".startswith(FRAMED)])
def test_what_a_host_tags_is_no_summary_whatever_the_words(tag: str) -> None:
    told = HELD_OUT["English"]["records"][0]
    assert with_origins([person(told)])[0].origin == "doubtful"
    (view,) = with_origins([person(f"<{tag}>{told}</{tag}>\n")])
    assert view.origin not in {"summary", "doubtful"}
    assert not doubtful_in(view)


def test_what_a_terminal_shows_is_no_summary_whatever_the_words() -> None:
    shown = "\n".join(
        ["$ ./handover --summary", *(f"\u2713 the user asked for part {i}, the assistant did it" for i in range(12))]
    )
    told = "Summary of the earlier conversation: the user wanted parts, the assistant settled them; one is open.\n"
    assert likeness(told + shown) >= ALIKE
    assert with_origins([person(told + shown)])[0].origin == "person"
