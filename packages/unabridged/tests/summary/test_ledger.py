"""The ledger as a value: JSON there and back, and the laws of merging."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from ledger_case import answers, calls, compacted, count, person, round_of, says
from unabridged.messages import View
from unabridged.summary.bounds import MAX_FILES, MAX_MOMENTS, MAX_NAMES, MAX_RULES
from unabridged.summary.gather import gather_ledger, merge_ledgers
from unabridged.summary.layout import render_within_budget
from unabridged.summary.ledger import Ledger, Rule, from_json, to_json
from unabridged.summary.people import MAX_PEOPLE_CHARACTERS as MOST_WORDS

WORDS = [
    "never push",
    "fix parse_args in src/cli.py",
    "wait",
    "yes",
    "thanks",
    "no, use tabs",
    "你好",
    "also X-12 #b5bd68",
]
TURNS = st.one_of(
    st.sampled_from(WORDS).map(person),
    st.sampled_from(["Done.", "The cause is `load_config`.", "Which one?", "Understood."]).map(says),
    st.sampled_from(["read_file", "edit_file", "bash"]).map(
        lambda tool: calls(tool, path="src/a.py", command="pytest -q")
    ),
    st.sampled_from(["ok", "ValueError: bad", "exit code 1", "2 passed"]).map(answers),
)
BLOCKS = st.lists(TURNS, max_size=12)


def folded(blocks: list[list[View]]) -> Ledger:
    ledger, turn = Ledger(), 0
    for block in blocks:
        ledger = merge_ledgers(ledger, gather_ledger(block, first_turn=turn))
        turn += len(block)
    return ledger


@given(BLOCKS)
@settings(max_examples=examples(30, 60), deadline=None)
def test_json_there_and_back_is_the_same_ledger(block: list[View]) -> None:
    ledger = gather_ledger(block)
    ledger = replace(ledger, rules=tuple(Rule(message.turn, message.text) for message in ledger.people))
    assert from_json(to_json(ledger)) == ledger


def test_what_a_ledger_on_disk_lacks_gets_its_default() -> None:
    ledger = gather_ledger([person("Never push."), says("OK.")])
    data = json.loads(to_json(ledger))
    del data["rules"], data["todo"], data["people"][0]["times"]
    assert from_json(json.dumps(data)) == ledger
    assert from_json("{}") == Ledger()


@given(BLOCKS, BLOCKS)
@settings(max_examples=examples(30, 60), deadline=None)
def test_folding_a_block_that_is_part_already_changes_nothing(one: list[View], other: list[View]) -> None:
    older = gather_ledger(one)
    newer = gather_ledger(other, first_turn=len(one))
    merged = merge_ledgers(older, newer)
    assert merge_ledgers(merged, newer) == merged
    assert merge_ledgers(Ledger(), older) == older


@given(BLOCKS, BLOCKS, BLOCKS)
@settings(max_examples=examples(30, 60), deadline=None)
def test_it_does_not_matter_which_neighbours_are_merged_first(a: list[View], b: list[View], c: list[View]) -> None:
    ledgers = []
    turn = 0
    for block in (a, b, c):
        ledgers.append(gather_ledger(block, first_turn=turn))
        turn += len(block)
    first, second, third = ledgers
    left, right = merge_ledgers(merge_ledgers(first, second), third), merge_ledgers(first, merge_ledgers(second, third))
    for part in ("people", "actions", "remarks", "todo", "end"):
        assert getattr(left, part) == getattr(right, part)
    assert {name.text for name in left.names} == {name.text for name in right.names}


@given(st.lists(BLOCKS, max_size=6))
@settings(max_examples=examples(20, 40), deadline=None)
def test_nothing_is_listed_twice(blocks: list[list[View]]) -> None:
    ledger = folded(blocks)
    assert len({name.text for name in ledger.names}) == len(ledger.names)
    assert len({remark.turn for remark in ledger.remarks}) == len(ledger.remarks)
    assert len({file.path for file in ledger.files}) == len(ledger.files)
    assert len({message.turn for message in ledger.people}) == len(ledger.people)


@given(st.lists(BLOCKS, max_size=6))
@settings(max_examples=examples(20, 40), deadline=None)
def test_every_message_of_a_person_is_in_the_ledger_once_and_in_order(blocks: list[list[View]]) -> None:
    said = [(turn, view.text) for turn, view in enumerate(chain(*blocks)) if view.origin == "person"]
    people = folded(blocks).people
    assert sum(message.times for message in people) == len(said)
    assert [message.turn for message in people] == sorted(message.turn for message in people)
    told = [text for message in people for text in [message.text] * message.times]
    assert told == [text for _, text in said]
    assert {message.turn for message in people} <= {turn for turn, _ in said}


def test_rules_of_two_ledgers_are_carried_each_once() -> None:
    first, second = Rule(0, "Never push."), Rule(4, "Use tabs.")
    older = replace(gather_ledger([person("Never push."), says("OK.")]), rules=(first,))
    newer = replace(gather_ledger([person("Use tabs."), says("OK.")], first_turn=4), rules=(first, second))
    assert merge_ledgers(older, newer).rules == (first, second)


# R25
def test_a_thousand_rounds_stay_within_the_bounds() -> None:
    blocks = []
    for i in range(200):
        block = [person(f"Never use helper_{i} again. Please fix module_{i}.py")]
        for j in range(5):
            block += round_of(
                "bash", f"error_{i}_{j} in pkg{i}/file_{j}.py", command=f"python run_{i}_{j}.py --flag-{j}"
            )
        blocks.append([*block, says(f"The cause was `value_{i}`; fixed.")])
    ledger = folded(blocks)
    bounds = {"names": MAX_NAMES, "files": MAX_FILES}
    assert all(len(getattr(ledger, part)) <= bound for part, bound in bounds.items())
    assert len(ledger.people) == 200, "what people said is not bounded by its number"
    told = [remark.text for remark in ledger.remarks] + [action.target + action.outcome for action in ledger.actions]
    assert MAX_MOMENTS // 3 < sum(map(len, told)) <= MAX_MOMENTS
    assert len(to_json(ledger)) < 300_000


def test_rules_and_the_words_of_people_stay_within_their_bounds() -> None:
    ledger = replace(gather_ledger([person("go")]), rules=tuple(Rule(turn, f"Never {turn}.") for turn in range(500)))
    assert merge_ledgers(ledger, gather_ledger([person("on")], first_turn=1)).rules == ledger.rules[-MAX_RULES:]
    pages = [f"{number} {'word ' * 4_000}END" for number in range(40)]
    people = folded([[person(page), says("Seen.")] for page in [*pages, "One short message."]]).people
    assert sum(len(message.text) for message in people) <= MOST_WORDS
    assert len(people) == 41
    assert people[-1].text == "One short message."
    assert all(m.text.startswith(f"{n} word") and m.text.endswith("END") for n, m in enumerate(people[:-1]))


def test_the_size_stays_and_early_facts_stay_over_twenty_compactions() -> None:
    first = [
        person("Customer 8812-AX pays by invoice INV-20931. Never email them. Deploy to host db7.example.com."),
        says("Noted."),
    ]
    facts = ["8812-AX", "INV-20931", "Never email them.", "db7.example.com"]
    blocks = [first]
    sizes = []
    for i in range(20):
        rounds = [
            view
            for j in range(12)
            for view in round_of(
                "bash", f"line with some_name_{i}_{j}\n" * 20, command=f"grep -n token_{i}_{j} src/m{j}.py"
            )
        ]
        blocks.append([person(f"task number {i}"), *rounds, says(f"Task {i} works now.")])
        made = compacted(blocks, budget=1_000)
        sizes.append(len(to_json(made.ledger)))
        assert [fact for fact in facts if fact not in made.text] == []
        assert count(made.text) <= 1_000
    assert max(sizes) < 120_000


def test_render_without_the_story_leaves_what_was_done_to_the_prose() -> None:
    ledger = gather_ledger([person("Never push."), *round_of("bash", "ok", command="make all_targets"), says("Works.")])
    text = render_within_budget(ledger, 1_000, count, prose="It was done.").text()
    assert "Never push." in text
    assert "make all_targets" not in text
    assert "Works." not in text


@pytest.mark.parametrize("text", ["Find out why these fail: {}.", "\u062a\u062d\u0642\u0642 \u0645\u0646: {}."])
def test_the_newest_message_of_a_person_is_whole_wherever_it_fits(text: str) -> None:
    # R15 R16
    text = text.format(", ".join(f"order {number}" for number in range(1_209, 1_229)))
    ledger = gather_ledger([person("Look."), *round_of("bash", "ok", command="make"), person(text)])
    size = count(text) + 4  # and the marks around it
    for budget in range(0, size * 12, 7):
        quoted = text in render_within_budget(ledger, 3_000, count, people=budget).text()
        assert quoted or budget // 4 < size, budget
        beside = text in render_within_budget(ledger, 3_000, count, people=budget, prose="It was done.").text()
        assert beside or budget * 3 // 4 < size + 30, budget  # the first takes at most a quarter
