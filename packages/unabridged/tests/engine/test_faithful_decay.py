"""Twenty compactions in a row: what was said at the beginning is still known, and the summary does not grow."""

from __future__ import annotations

import random
import re
from statistics import mean
from typing import Any

import pytest

from conversations import assistant, chat_round, user
from unabridged import Compactor, Settings
from unabridged.archive import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.asking.ask import Ask, Reply
from unabridged.summary import originals
from unabridged.summary.ledger import Ledger, from_json

ROUNDS = 20
RULES = (
    "Never push to the main branch.",
    "Always answer in short sentences.",
    "Do not touch the folder legacy/.",
    "Please never send mail to customers.",
)
IDS = (
    "INV-48213", "ORD_77120_B", "srv-blue-17", "build_4471", "release_2_9_rc3", "billing_job_v7", "TICKET-9921",
    "/srv/data/ledger_q3.parquet", "config/regions.yaml", "4.18.2-beta",
)  # fmt: skip
FIRST = f"Before we begin. {' '.join(RULES)} For later: {', '.join(IDS)}. These are the ones we talk about."
TEAMS = ("alder", "birch", "cedar", "dogwood", "elder", "fir", "ginkgo", "hazel", "ivy", "juniper", "kapok", "larch")


def opening() -> list[Any]:
    return [
        user(FIRST),
        assistant("Understood, I will keep to these rules, and I noted all ten of them."),
        user("What do we know about the teams?"),
        assistant(
            " ".join(f"Fact {name}: the {name} team keeps what it knows in a room of its own." for name in TEAMS)
        ),
    ]


def work(number: int) -> list[Any]:
    """One request, done with tools, about something else each time."""
    lines = "\n".join(f"row {number}-{i}: value_{number}_{i} of part_{number}_{i % 7}.csv" for i in range(60))
    return [
        user(f"Now look at part number {number} of the table."),
        *chat_round("read_table", lines, path=f"tables/part_{number}.csv"),
        assistant(f"Part number {number} has 60 rows, and all of them were read."),
    ]


class Lossy:
    """Writes down every fact it is shown, in the conversation or in earlier records, and forgets a third of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same losses every time

    def __call__(self, ask: Ask) -> Reply:
        shown = dict.fromkeys(re.findall(r"Fact (\w+):", ask.instruction))
        kept = [f"- Fact {name}: it has its room." for name in shown if self.random.random() > 1 / 3]
        return Reply("\n".join(["### Facts learned", "The parts of the table were read.", *kept]), "end", model="lossy")


def rounds(model: Any, *, window: int = 6_000) -> list[tuple[str, str, int]]:
    """For each of twenty compactions: all of the context, the summary turn alone, and its tokens."""
    found: list[tuple[str, str, int]] = []
    settings = Settings(clear=None, deadline=30)
    with Compactor(model, window=window, archive="memory:", settings=settings) as compactor:
        whole, messages = opening(), opening()
        number = 0
        while len(found) < ROUNDS:
            added = work(number)
            number += 1
            whole += added
            fitted = compactor.fit([*messages, *added], thread="t")
            messages = fitted.messages
            if fitted.changed:
                (summary,) = [m for m in messages if str(m["content"]).startswith("[unabridged summary")]
                context = "\n".join(str(message["content"]) for message in messages)
                found.append((context, summary["content"], compactor.plan([summary]).tokens))
        assert compactor.replay(messages, thread="t") == whole
        most = compactor.limits.summary + compactor.limits.people
        assert max(size for _, _, size in found) <= most + 120  # its header, its end
    return found


@pytest.mark.parametrize("seed", [None, 1], ids=["model-free", "lossy"])
def test_what_a_person_said_first_does_not_fade_in_twenty_rounds(seed: int | None) -> None:
    # R25
    for number, (context, summary, _) in enumerate(rounds(None if seed is None else Lossy(seed))):
        assert f"- [0] user: \u201c{FIRST}\u201d" in summary, f"round {number + 1}"
        newest = re.findall(r"Now look at part number (\d+) of the table\.", context)
        told = re.findall(r"part number (\d+) has 60 rows|tables/part_(\d+)\.csv", context, re.IGNORECASE)
        assert int(newest[-1]) == max(int(one or other) for one, other in told), "the newest is there too"


def facts_by_round(seed: int) -> list[int]:
    proses = [
        summary.partition("## Summary by a model")[2].partition("\n## ")[0] for _, summary, _ in rounds(Lossy(seed))
    ]
    return [sum(f"Fact {name}:" in prose for name in TEAMS) for prose in proses]


def test_what_only_the_prose_holds_stays_however_forgetful_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Carried from summary to summary, facts are gone after a few rounds; with the archive they stay."""
    again = [facts_by_round(seed) for seed in (1, 2)]
    monkeypatch.setattr(originals, "read_earlier_prose", lambda _archive, _record: [])
    carried = [facts_by_round(seed) for seed in (1, 2)]
    assert mean(mean(run[12:]) for run in carried) < 0.5
    early, late = (mean(mean(run[part]) for run in again) for part in (slice(4, 12), slice(12, 20)))
    assert late >= early - 0.5  # of twelve
    assert late > 3
    assert min(min(run) for run in again) > 0


# -- what a short answer says yes to ----------------------------------------------------------------------------------


def test_what_a_short_answer_agrees_to_stands_beside_a_models_prose_whatever_it_forgets() -> None:
    offered = "Shall we keep SQLite because the cluster has no network?"
    how = Settings(clear=None, deadline=30, trigger=("messages", 20), keep=("messages", 4))
    with Compactor(Lossy(1), window=60_000, archive="memory:", settings=how) as compactor:
        messages: list[Any] = [user("What do we store it in?"), assistant(offered), user("Yes."), assistant("Good.")]
        changed = 0
        for number in range(40):
            fitted = compactor.fit([*messages, *work(number)], thread="t")
            messages, changed = fitted.messages, changed + fitted.changed
            if fitted.changed:
                (summary,) = [m["content"] for m in messages if str(m["content"]).startswith("[unabridged summary")]
                _, heading, said = summary.partition("\n## What the user said")
                assert heading
                assert f"- [2] user, in reply to the assistant's \u201c{offered}\u201d: \u201cYes.\u201d" in said
        assert changed > 8


# -- the ledger derived anew ------------------------------------------------------------------------------------------


def ledgers(archive: MemoryArchive) -> list[tuple[int, Ledger]]:
    records = archive.records(Scope("n", "t"))
    return [(int(str(r.data["rounds"])), from_json(r.data["ledger"])) for r in records]


def compacted(archive: Any, number: int) -> list[Any]:
    with Compactor(window=6_000, archive=archive, namespace="n", settings=Settings(clear=None)) as compactor:
        messages, done, i = opening(), 0, 0
        while done < number:
            fitted = compactor.fit([*messages, *work(i)], thread="t")
            messages, done, i = fitted.messages, done + fitted.changed, i + 1
    return messages


def test_every_fourth_round_the_ledger_is_derived_from_the_originals() -> None:
    archive = MemoryArchive()
    compacted(archive, 10)
    assert [count for count, _ in ledgers(archive)] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_a_ledger_derived_anew_says_the_same_of_people_and_files_as_the_one_carried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    anew, carried = MemoryArchive(), MemoryArchive()
    compacted(anew, 9)
    monkeypatch.setattr(originals, "ROUNDS_BETWEEN_READS", 10**9)
    compacted(carried, 9)
    (_, one), (_, other) = ledgers(anew)[-1], ledgers(carried)[-1]
    assert (one.first, one.end) == (other.first, other.end)
    assert len(one.people) > 20
    assert one.people == other.people
    assert {file.path for file in one.files} == {file.path for file in other.files}


class Pruned(MemoryArchive):
    """An archive from which the originals were removed."""

    def bodies(self, scope: Scope, hashes: Any) -> Any:
        held = super().bodies(scope, hashes)
        return {key: body for key, body in held.items() if b"[unabridged summary" in body}


def test_where_the_archive_no_longer_holds_the_originals_the_ledger_is_carried_on() -> None:
    archive = Pruned()
    messages = compacted(archive, 6)
    assert [count for count, _ in ledgers(archive)] == [0, 1, 2, 3, 4, 5]
    assert all(rule in str(messages) for rule in RULES)


def test_a_conversation_too_long_to_be_read_again_is_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "MAX_MESSAGES", 30)
    archive = MemoryArchive()
    compacted(archive, 6)
    assert [count for count, _ in ledgers(archive)] == [0, 1, 2, 3, 4, 5]


def test_too_much_text_is_known_beforehand_and_never_read_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "MAX_CHARACTERS", 5_000)
    monkeypatch.setattr(originals, "undo_records", lambda *_args, **_options: pytest.fail("all of it was read again"))
    archive = MemoryArchive()
    compacted(archive, 6)
    assert [count for count, _ in ledgers(archive)] == [0, 1, 2, 3, 4, 5]


def test_the_earlier_proses_that_fit_are_the_first_the_last_and_some_between() -> None:
    found = [originals.EarlierProse(10 * i + 1, f"prose{i}") for i in range(9)]
    shown = originals.select_evenly(found, 5 * 20, lambda text: len(text.split()) + 7)
    assert re.findall(r"prose\d", shown) == ["prose0", "prose2", "prose4", "prose6", "prose8"]
    assert shown.startswith("Record up to message 0:\nprose0")
    assert originals.select_evenly(found, 10, len) == "prose8"
    assert originals.select_evenly(found[:1], 10, len) == "prose0"


def test_the_longer_the_record_the_rarer_it_is_read_again() -> None:
    assert (
        next(rounds for rounds in range(8) if originals.should_begin_again(rounds, depth=5))
        == originals.ROUNDS_BETWEEN_READS - 1
    )
    assert not originals.should_begin_again(140, depth=300)
    assert originals.should_begin_again(150, depth=300)
