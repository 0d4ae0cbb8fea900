"""Open and finished in many short dialogues of six languages: asked back, asked in between, going on, stopping.

A dialogue is what was said in order: `U` a person, `A` the assistant; `look` and `edit` are tool calls in between. The
numbers say which of the person's messages are open at the end. `second` and `third` were written when the ones before
them held: of 100, 83 did at first sight.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from ledger_case import LISTS, person, round_of, says
from unabridged.intent import Request
from unabridged.intent.requests import MOST_OPEN, settle
from unabridged.intent.speech_acts import asks_back, is_question, kind_of
from unabridged.ledger.gather import gather, merge, open_indices
from unabridged.messages import View

LOOK, EDIT = "look", "edit"


class Dialogue(NamedTuple):
    """What was said, and which of the person's messages are open at the end."""

    said: list[str]
    open: list[int]


def dialogues() -> list[Dialogue]:
    groups = json.loads((LISTS / "dialogues.json").read_text(encoding="utf-8"))
    return [Dialogue(**entry) for group in groups.values() for entry in group]


def views_of(said: list[str]) -> tuple[list[View], list[int]]:
    """The messages, and where the person's stand among them."""
    views: list[View] = []
    people: list[int] = []
    for step in said:
        if step == LOOK:
            views += round_of("read_file", "some text", path="a.py")
        elif step == EDIT:
            views += round_of("edit_file", "ok", path="a.py", new_text="x")
        elif step.startswith("U "):
            people.append(len(views))
            views.append(person(step[2:]))
        else:
            views.append(says(step[2:]))
    return views, people


def words(dialogue: Dialogue) -> list[str]:
    """The person's messages that are open at the end."""
    people = [step[2:] for step in dialogue.said if step.startswith("U ")]
    return [people[i] for i in dialogue.open]


def named(dialogue: Dialogue) -> str:
    return " | ".join(dialogue.said)[-70:]


# R25
@pytest.mark.parametrize("dialogue", dialogues(), ids=named)
def test_exactly_what_is_open_is_open(dialogue: Dialogue) -> None:
    views, people = views_of(dialogue.said)
    assert [request.text for request in gather(views, answered=True).open] == words(dialogue)
    assert open_indices(views) == tuple(people[i] for i in dialogue.open)


# R25
@pytest.mark.parametrize("dialogue", dialogues(), ids=named)
def test_it_is_so_wherever_the_last_compaction_fell(dialogue: Dialogue) -> None:
    views, people = views_of(dialogue.said)
    for cut in people[1:]:
        older = gather(views[:cut], answered=True)
        newer = gather(views[cut:], first_turn=cut, answered=True)
        assert [request.text for request in merge(older, newer).open] == words(dialogue)


# R25
@pytest.mark.parametrize("dialogue", [d for d in dialogues() if d.said[-1].startswith("U ")], ids=named)
def test_it_stays_so_while_the_work_goes_on_and_something_is_open_then(dialogue: Dialogue) -> None:
    views, _ = views_of([*dialogue.said, LOOK, EDIT])
    for cut in range(1, len(views), 2):
        older = gather(views[:cut], answered=views[cut].origin == "person")
        newer = gather(views[cut:], first_turn=cut, answered=False)
        found = [request.text for request in merge(older, newer).open]
        assert found == words(dialogue) if dialogue.open else dialogue.said[-1][2:] in found


# R25
def test_a_chain_of_questions_asked_back_keeps_what_began_it_and_the_newest() -> None:
    asked = Request(0, "Write my CV.", answer="What is your name?", asks="question")
    replies = [Request(i, f"Answer {i}.", answer="And then?", asks="question") for i in range(1, 200)]
    states = [request.state for request in settle([asked, *replies], tools=True)]
    assert states[0] == "waiting"
    assert states.count("waiting") == MOST_OPEN
    assert set(states[1 - MOST_OPEN :]) == {"waiting"}
    assert set(states[1 : 1 - MOST_OPEN]) == {"finished"}


@pytest.mark.parametrize(
    ("text", "worked", "asks"),
    [
        ("Where should it go?", 2, "question"),
        ("Shall I also pin it?", 2, "proposal"),
        ("Done. Shall I also pin it?", 2, "offer"),
        ("The first half is done. Shall I go on with the rest?", 2, "question"),
        ("The button is blue. Is there anything else?", 0, "offer"),
        ("Would you like to proceed? (yes/no)", 0, "question"),
        ("It failed. Please let me know if you need further assistance.", 1, ""),
        ("Why did it fail? Because the disk is full.", 1, ""),
        ("Which one? " + "x" * 1_300, 1, ""),
    ],
)
def test_what_the_assistants_closing_words_ask(text: str, worked: int, asks: str) -> None:
    assert asks_back(text, worked) == asks


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Which version are we on?", True),
        ("Quick question: who wrote it?", True),
        ("Can you tell me who wrote it?", True),
        ("Can you also fix the footer?", False),
        ("I only have Python 3.9 here. Does it matter?", False),
        ("这个函数是谁写的？", True),  # noqa: RUF001 - Chinese has its own mark
        ("誰が書きましたか。", True),
        ("Tell me who wrote it.", False),
        ("why does it take so long", True),
        ("The reason is a change of plans.", False),
    ],
)
def test_a_message_that_only_asks_is_told_from_one_that_orders_or_tells(text: str, asked: bool) -> None:
    assert is_question(text) is asked


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Please continue with chapter 2.", "more"),
        ("It says this, keep going:\nERROR 12", "more"),
        ("I don't know how to go on.", "new"),
        ("Do not continue with chapter 2.", "hold"),
        ("don't go on", "hold"),
        ("修复“继续”按钮。", "new"),
        ("不要继续。", "hold"),
        ("👍", "resume"),
        ("🙏", "ack"),
        ("Stop, forget it. Do the README.", "withdraw"),
        ("cancel that", "withdraw"),
        ("Cancel that order and refund it.", "new"),
    ],
)
def test_what_words_do_to_what_was_under_way(text: str, kind: str) -> None:
    assert kind_of(text) == kind
