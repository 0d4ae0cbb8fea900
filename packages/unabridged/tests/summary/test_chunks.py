from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from summaries import BOTH, GOOD, Ran, Task, block, calls_bound, count, ends, person, quick, run, summary_of, talk, used
from unabridged.asking.ask import Ask, Reply
from unabridged.summary.ask_loop import summarise
from unabridged.summary.brief import CarriedSummary
from unabridged.summary.chunks import split_messages
from unabridged_testing import ScriptedModel

WINDOW = 4_000
MARK = re.compile(r"mark\d+end")
NOTE = (
    "### Goals and constraints\nThe user wants the importer repaired; some of it was done in note {}, the rest is open."
)


class Folding(ScriptedModel):
    """Answers every ask with a note of its own, so that each can be followed through the folds."""

    def __call__(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        return ends(NOTE.format(len(self.asks)))


def of_size(times: int) -> Task:
    """A conversation of so many times the summariser's window."""
    turns = times * WINDOW // count("".join(view.text for view in talk(1)))
    return block(talk(turns + 1), window=WINDOW, budget=500)


# R23
@pytest.mark.parametrize("ran", BOTH)
@pytest.mark.parametrize("times", [5, 50])
def test_a_block_larger_than_the_window_is_shown_in_chunks_each_message_once(times: int, ran: Ran) -> None:
    conversation = of_size(times)
    assert sum(count(view.text) for view in conversation.brief.views) >= times * WINDOW
    scripted = Folding()
    summary = summary_of(scripted, conversation, ran=ran)
    marks = [mark for view in conversation.brief.views for mark in MARK.findall(view.text)]
    seen = Counter(mark for ask in scripted.asks for mark in MARK.findall(ask.instruction))
    assert seen == Counter(marks)
    assert summary.calls == scripted.calls <= calls_bound(*conversation)
    assert all(count(ask.instruction) + ask.max_tokens <= WINDOW for ask in scripted.asks)
    assert count(summary.text) <= 500


def test_every_note_is_folded_exactly_once() -> None:
    scripted = Folding()
    summary = summary_of(scripted, of_size(30))
    folded = Counter(
        number
        for ask in scripted.asks
        if "<notes " in ask.instruction
        for number in re.findall(r"in note (\d+)", ask.instruction)
    )
    assert folded == Counter(str(i + 1) for i in range(scripted.calls - 1))
    assert f"note {scripted.calls}," in summary.text


def test_the_bound_holds_when_every_reply_has_to_be_asked_for_twice() -> None:
    conversation = of_size(5)
    faulty = True

    def every_second(_ask: Ask) -> Reply:
        nonlocal faulty
        faulty = not faulty
        return ends("") if not faulty else ends(NOTE.format(1))

    summary = summary_of(every_second, conversation)
    assert summary.calls <= calls_bound(*conversation)
    assert summary.calls > calls_bound(*conversation) // 2


# R25
def test_the_earlier_summary_is_the_first_of_the_notes_in_the_fold() -> None:
    scripted = Folding()
    conversation = of_size(5)
    prior = "The older goal was speed, and that was reached a week ago."
    summary_of(scripted, Task(replace(conversation.brief, earlier=CarriedSummary(prior)), conversation.model))
    holding = [ask.instruction for ask in scripted.asks if prior in ask.instruction]
    assert len(holding) == 1
    assert "Notes 1 of" in holding[0]
    assert holding[0].index(prior) < holding[0].index("in note 1,")


def test_an_earlier_summary_too_long_for_the_fold_is_read_like_the_rest() -> None:
    prior = " ".join(f"older{i}end" for i in range(700))
    scripted = Folding()
    conversation = of_size(5)
    summary_of(scripted, Task(replace(conversation.brief, earlier=CarriedSummary(prior)), conversation.model))
    seen = Counter(word for ask in scripted.asks for word in re.findall(r"older\d+end", ask.instruction))
    assert seen == Counter(prior.split())
    assert all(count(ask.instruction) + ask.max_tokens <= WINDOW for ask in scripted.asks)


def test_the_rules_that_replies_to_chunks_list_are_known_to_the_last_fold_and_stand_in_no_note() -> None:
    asks: list[Ask] = []

    def write(ask: Ask) -> Reply:
        asks.append(ask)
        return ends(f"{NOTE.format(len(asks))}\n### Standing rules\n- Never do thing {len(asks)}.")

    summary = summary_of(write, of_size(5))
    *others, last = [ask.instruction for ask in asks]
    _, _, rules = last.partition("<rules ")
    listed = tuple(f"Never do thing {i + 1}." for i in range(len(asks)))
    assert all(f"- {rule}" in rules.partition("</rules ")[0] for rule in listed[:-1])
    assert not any("Never do thing" in ask for ask in others)
    assert "Never do thing" not in last.partition("<notes ")[2]
    assert summary.rules == listed


def test_however_many_rules_the_replies_list_every_ask_fits_the_window() -> None:
    asks: list[Ask] = []

    def write(ask: Ask) -> Reply:
        asks.append(ask)
        rules = (f"- Never do thing {len(asks)}x{i} of all the things that there are." for i in range(40))
        return ends("\n".join([NOTE.format(len(asks)), "### Standing rules", *rules]))

    summary = summary_of(write, of_size(5))
    assert all(count(ask.instruction) + ask.max_tokens <= WINDOW for ask in asks)
    assert "- Never do thing 1x0 of" in asks[-1].instruction
    assert len(summary.rules) == 40 * len(asks)


# R23
def test_one_message_larger_than_the_window_is_split_and_wholly_shown() -> None:
    rows = [f"row{i}end" for i in range(6_000)]
    conversation = block(
        [person("Please read the table."), *used("read", "{}", " ".join(rows))], window=WINDOW, budget=500
    )
    scripted = Folding()
    summary = summary_of(scripted, conversation)
    seen = Counter(row for ask in scripted.asks for row in re.findall(r"row\d+end", ask.instruction))
    assert (
        len(seen) >= len(rows) - scripted.calls
    )  # a row may be cut where a part ends, and is then shown in two halves
    assert max(seen.values()) == 1
    assert any("tool read answers, part 2" in ask.instruction for ask in scripted.asks)
    assert summary.calls <= calls_bound(*conversation)


# R23
def test_a_cap_on_the_input_is_opt_in_shows_the_newest_and_is_noted() -> None:
    scripted = ScriptedModel([ends(GOOD)])
    summary = summary_of(scripted, block(talk(40), max_input=1_000))
    assert "mark79end" in scripted.asks[0].instruction
    assert "mark3end" not in scripted.asks[0].instruction
    assert "the newest 1,000 of" in summary.notes[0]


@settings(max_examples=examples(20, 40), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9_000), min_size=1, max_size=12),
    window=st.integers(2_500, 20_000),
    budget=st.integers(40, 3_000),
    prior=st.integers(0, 2_000),
    rules=st.integers(0, 12),
)
def test_every_ask_fits_the_window_and_the_bound_holds(
    sizes: list[int], window: int, budget: int, prior: int, rules: int
) -> None:
    views = [person(f"{i} " + "word " * (size // 5)) for i, size in enumerate(sizes)]
    conversation = block(views, window=window, budget=budget, prior="old " * (prior // 4))
    asks: list[Ask] = []

    def write(ask: Ask) -> Reply:
        asks.append(ask)
        listed = (f"- Never do {len(asks)}x{i}." for i in range(rules))
        return ends("\n".join(["fine and well", "### Standing rules", *listed]))

    if sum(sizes) < 200:
        return
    summary = run(summarise(*conversation), quick(write))
    assert summary.calls <= calls_bound(*conversation)
    assert all(count(ask.instruction) + ask.max_tokens <= window for ask in asks)


@settings(max_examples=examples(30, 60), deadline=None)
@given(text=st.text(max_size=3_000), room=st.integers(40, 400))
def test_a_split_message_holds_every_character_in_order(text: str, room: int) -> None:
    found = split_messages([(0, person(text))], count, room)
    whole = "".join(piece.text.split("\n", 1)[1].removesuffix("\n") for piece in found)
    assert whole == re.sub("[\ud800-\udfff]|\x00", "\ufffd", text)
    assert all(piece.tokens <= room for piece in found)
