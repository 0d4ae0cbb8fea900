"""What lasts: decisions, and what was told on its own, keep their places however many rounds come after."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, chat_round, user
from ledger_case import Run, person, run, says
from unabridged import Settings
from unabridged.asking.ask import Ask, Reply
from unabridged.ledger.entries import File, Ledger, Name, Note
from unabridged.ledger.gather import gather, merge
from unabridged.ledger.names import Piece
from unabridged.ledger.notes import drop_repeats, notes_in, sayings_in
from unabridged.ledger.rank import (
    MAX_DECISIONS,
    MAX_NOTES,
    decisions,
    decisions_within,
    files_by_rank,
    names_by_rank,
    notes_by_rank,
    within_bounds,
)

DECISIONS = (
    "We decided to keep SQLite because the cluster has no network.",
    "I'll go with a ring buffer for the event queue rather than a linked list.",
    "Decision: retries stay in the client, not in the gateway.",
    "We settled on ports above 9000 for all side services.",
    "The chosen design is a single writer thread with a bounded queue.",
    "Wir haben uns entschieden, die Tabelle nicht zu partitionieren.",
    "On a décidé de garder le format CSV pour les exports.",
    "Hemos decidido usar colas separadas para los trabajos largos.",
    "我们决定使用单独的缓存层。",
    "検索には全文索引を使うことに決めました。",
)
TOLD = {
    "a person": ("INV-48213", "build_4471", "srv-blue-17", "ops-desk@quarry.example", "QuarryLoader"),
    "a short answer": ("job_88a1f3", "TXN-551029", "10.24.7.91", "83.417"),
    "a call": ("tenant_zephyr_9", "WID-30177", "us_south_4b", "2031-04-17"),
    "the assistant": ("TKT-9921", "cache_key_v3", "4,750"),
}
FACTS = (*DECISIONS, *(fact for facts in TOLD.values() for fact in facts))


# -- decisions --------------------------------------------------------------------------------------------------------


def noted(turn: int, text: str) -> list[Note]:
    return notes_in(Piece(turn, "model", text), closing=True)


@pytest.mark.parametrize("text", DECISIONS)
def test_a_decision_is_told_apart_from_what_was_found(text: str) -> None:
    (note,) = noted(3, f"I looked at it. {text}")
    assert (note.text, note.decided) == (text, True)


@pytest.mark.parametrize(
    "text",
    [
        "Now I need to decide what to do about the missing index.",
        "Which of the two have you decided on for the new index?",
        "The tests of the parser failed because a file is missing.",
        "Please let me know which flight you would like to choose.",
        "Der Fehler liegt an einer fehlenden Datei im Ordner.",
    ],
)
def test_a_finding_or_a_question_is_no_decision(text: str) -> None:
    assert [note for note in noted(3, text) if note.decided] == []


def test_two_decisions_that_differ_in_a_number_are_two() -> None:
    decided = [note for i in range(9) for note in noted(i, f"We decided on port 90{i} for service {i}.")]
    found = [note for i in range(9) for note in noted(i, f"All {i + 2} tests of the parser passed.")]
    assert len(drop_repeats(decided)) == 9
    assert len(drop_repeats(found)) == 1


def test_however_many_findings_there_are_they_take_no_decisions_place() -> None:
    decided = [Note(turn, f"We decided on plan {turn}.", 1.0, decided=True) for turn in range(MAX_DECISIONS)]
    found = [Note(turn, f"File number {turn} was missing.", 9.0) for turn in range(500, 900)]
    ledger = within_bounds(Ledger(end=900, notes=(*decided, *found)))
    assert [note for note in ledger.notes if note.decided] == decided
    assert len(ledger.notes) == MAX_DECISIONS + MAX_NOTES


def test_with_more_decisions_than_room_the_first_stay_and_the_newest_and_the_weightiest() -> None:
    notes = tuple(
        Note(turn, f"We decided on plan {turn}.", 9.0 if turn == 50 else 1.0, decided=True) for turn in range(100)
    )
    kept = [note.turn for note in decisions_within(Ledger(end=100, notes=notes), 8, lambda _: 1)]
    assert kept == [0, 99, 1, 50, 2, 98, 3, 4]


def test_a_decision_too_long_for_the_room_leaves_it_to_the_next() -> None:
    notes = (Note(1, "long", 1.0, decided=True), Note(2, "short", 1.0, decided=True))
    chosen = decisions_within(Ledger(end=3, notes=notes), 5, lambda note: 9 if note.text == "long" else 3)
    assert [note.text for note in chosen] == ["short"]


def test_the_first_decisions_outlive_any_number_of_merges() -> None:
    ledger = Ledger()
    for number in range(200):
        block = [person(f"What about point {number}?"), says(f"We decided on plan number {number} for it.")]
        ledger = merge(ledger, gather(block, first_turn=2 * number, answered=True))
    turns = sorted(note.turn for note in decisions(ledger))
    assert turns[: MAX_DECISIONS // 2] == [2 * number + 1 for number in range(MAX_DECISIONS // 2)]
    assert turns[-1] == 399
    assert len(turns) == MAX_DECISIONS


def test_without_decisions_the_notes_are_the_new_and_the_telling_by_turns() -> None:
    old = Note(1, "The cause was an old lock.", 3.0)
    new = [Note(turn, f"Step {turn} passed.", 1.0) for turn in range(380, 400)]
    assert notes_by_rank(Ledger(end=400, notes=(old, *new)))[:2] == [new[-1], old]


# -- names and files --------------------------------------------------------------------------------------------------


def test_a_name_is_told_when_it_stands_among_few() -> None:
    crowd = " ".join(f"value_{i}" for i in range(60))
    views = [person("It is INV-48213."), says("I see job_77."), person(f"Here is the log: {crowd}")]
    told = {name.text: name.told for name in gather(views, answered=True).names}
    assert told["INV-48213"]
    assert told["job_77"]
    assert not told["value_7"]


def test_an_id_told_long_ago_comes_before_the_last_of_the_likely_names() -> None:
    old = [Name(f"ID-{i:03}", i, 1.0, 1.0, told=True) for i in range(10)]
    asked = Name("TICKET-1", 40, 1.0, 1.0, asked=True, told=True)
    new = [Name(f"likely_{i}", 900, 5.0, 5.0) for i in range(300)]
    ranked = [name.text for name in names_by_rank(Ledger(end=900, names=(*old, asked, *new)))]
    assert all(name.startswith("likely") for name in ranked[:80])
    assert ranked.index("TICKET-1") < ranked.index("ID-000") < ranked.index("ID-001") < ranked.index("ID-009") < 100
    assert len(ranked) == len(set(ranked)) == 311


def test_a_file_that_a_person_named_long_ago_comes_before_the_last_of_those_only_read() -> None:
    named = File("data/ledger.parquet", 3, 1.0, (("mention", 1),))
    changed = File("src/first.py", 1, 1.0, (("change", 1),))
    new = [File(f"src/part_{i:02}.py", 900, 5.0, (("read", 1),)) for i in range(60)]
    ranked = [file.path for file in files_by_rank(Ledger(end=900, files=(changed, named, *new)))]
    assert ranked.index("data/ledger.parquet") < ranked.index("src/first.py") < 24


def test_in_mere_talk_what_the_assistant_decided_weighs_twice() -> None:
    views = [says("Our plan for Sunday was a long walk."), says("We agreed for Sunday on a long walk.")]
    plain, decided = sayings_in([*views, person("Fine.")], [0, 1, 2])[:2]
    assert decided.weight > 1.5 * plain.weight


def test_of_a_long_message_every_decision_is_kept_beside_its_most_telling_sentence() -> None:
    filler = "There is more to say about the weather and the garden, and about what grows in it. " * 5
    message = f"Zanzibar Kilimanjaro Ouagadougou {filler}{DECISIONS[0]} {filler}{DECISIONS[3]}"
    said = sayings_in([person("What do we do?"), says(message), person("Fine.")], [0, 1, 2])
    assert {DECISIONS[0], DECISIONS[3]} <= {saying.text for saying in said}
    older = Ledger(end=3, sayings=said)
    assert merge(older, Ledger(first=3, end=4, sayings=sayings_in([says("Done.")], [3]))).sayings[:-1] == said


# -- twenty compactions in a row --------------------------------------------------------------------------------------


def opening() -> list[Any]:
    """Every fact once: in a person's words, a short answer, a call's arguments, or the assistant's words."""
    messages: list[Any] = []
    for number, text in enumerate(DECISIONS):
        messages += [user(f"What about point {number}?"), assistant(f"I looked at it. {text}")]
    for fact in TOLD["a person"]:
        messages += [user(f"By the way, yesterday I found {fact} in the mail."), assistant("I see.")]
    for number, fact in enumerate(TOLD["a short answer"]):
        messages += [user(f"Look at item {number}."), *chat_round(f"show_{number}", f"status ok: {fact}")]
        messages += [assistant("I looked at it.")]
    for number, fact in enumerate(TOLD["a call"]):
        messages += [
            user(f"Set item {number}."),
            *chat_round(f"set_{number}", "ok", value=fact),
            assistant("It is set."),
        ]
    for fact in TOLD["the assistant"]:
        messages += [user("And what is behind it?"), assistant(f"Behind it is {fact}.")]
    return messages


def work(number: int) -> list[Any]:
    """A request, and work on it that is full of names and findings of its own."""
    code = "\n".join(f"def handle_part_{number}_{i}(rowReader{number}x{i}): pass" for i in range(40))
    read = "\n".join(f"row {number}.{i}: loadColumn{number}x{i} of table_{number}_{i}" for i in range(60))
    return [
        user(f"Now do part number {number}."),
        *chat_round(f"read_{number}", read, path=f"src/part_{number}.py"),
        *chat_round(f"write_{number}", "ok", path=f"src/part_{number}.py", content=code),
        assistant(
            f"Part {number} failed at first because `loadColumn{number}x3` was missing; it is fixed and it works now."
        ),
    ]


class Lossy:
    """Writes down every fact that it is shown, and forgets a third of them each time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same losses every time

    def __call__(self, ask: Ask) -> Reply:
        kept = [f"- {fact}" for fact in FACTS if fact in ask.instruction and self.random.random() > 1 / 3]
        return Reply("\n".join(["### Facts learned", "The parts were read and written.", *kept]), "end", model="lossy")


def twenty(conversation: list[Any], *, model: Any, window: int) -> Run:
    return run(conversation, window=window, model=model, settings=Settings(deadline=30), most=20)


# R25
@pytest.mark.parametrize("seed", [None, 1, 2], ids=["model-free", "lossy-1", "lossy-2"])
def test_no_early_fact_is_lost_in_twenty_rounds_full_of_other_names(seed: int | None) -> None:
    model = None if seed is None else Lossy(seed)
    found = twenty([*opening(), *(message for i in range(130) for message in work(i))], model=model, window=12_000)
    assert len(found.summaries) == 20
    for number, (_, messages) in enumerate(found.lists):
        context = "\n".join(str(message.get("content")) for message in messages)
        assert [fact for fact in FACTS if fact not in context] == [], f"round {number + 1}"
    sizes = [found.compactor.plan([{"role": "user", "content": summary}]).tokens for summary in found.summaries]
    assert max(sizes) <= found.compactor.limits.summary * 1.1 + 120  # its header, its end


DATA = Path(os.environ.get("BENCH_DATA", "recorded")) / "coding_tools.jsonl"


@pytest.mark.skipif(not DATA.exists(), reason="needs recorded conversations: set BENCH_DATA to a folder of them")
def test_no_early_fact_is_lost_in_twenty_rounds_of_recorded_work() -> None:
    with DATA.open(encoding="utf-8") as lines:
        recorded = [json.loads(next(lines))["messages"] for _ in range(12)]
    later = [message for messages in recorded for message in messages if message["role"] != "system"]
    found = twenty([*opening(), *later], model=None, window=16_000)
    lost = []
    for _, messages in found.lists:
        context = "\n".join(str(message.get("content")) for message in messages)
        lost.append([fact for fact in FACTS if fact not in context])
    assert lost == [[]] * 20
