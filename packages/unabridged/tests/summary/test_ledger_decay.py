"""What lasts: a person's first words, and what was told on its own, keep their places however many rounds follow."""

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
from unabridged.summary.gather import gather_ledger

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


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_name_is_told_when_it_stands_among_few() -> None:
    crowd = " ".join(f"value_{i}" for i in range(60))
    views = [person("It is INV-48213."), says("I see job_77."), person(f"Here is the log: {crowd}")]
    told = {name.text: name.told for name in gather_ledger(views).names}
    assert told["INV-48213"] is told["job_77"] is True
    assert told["value_7"] is False


# -- twenty compactions in a row --------------------------------------------------------------------------------------


def opening() -> list[Any]:
    """Every fact once: in a person's words, a short answer, a call's arguments, or the assistant's words."""
    messages: list[Any] = [user("\n".join(["This holds from here on.", *DECISIONS])), assistant("Noted.")]
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
    found = twenty([*opening(), *(message for i in range(210) for message in work(i))], model=model, window=12_000)
    assert len(found.summaries) == 20
    for number, (_, messages) in enumerate(found.lists):
        context = "\n".join(str(message.get("content")) for message in messages)
        assert [fact for fact in FACTS if fact not in context] == [], f"round {number + 1}"
    sizes = [found.compactor.plan([{"role": "user", "content": summary}]).tokens for summary in found.summaries]
    limits = found.compactor.limits
    assert max(sizes) <= limits.summary + limits.people + 120  # its header, its end


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
