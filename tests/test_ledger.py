"""The ledger as a value: JSON there and back, and the laws of merging."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_case import answers, calls, compacted, count, person, round_of, says
from unabridged.ledger.bounds import MAX_FILES, MAX_MOMENTS, MAX_NAMES, MAX_REQUESTS, MAX_RULES
from unabridged.ledger.entries import Ledger, from_json, to_json
from unabridged.ledger.gather import gather, merge
from unabridged.ledger.summary_turn import render
from unabridged.messages import View

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
        ledger = merge(ledger, gather(block, first_turn=turn, answered=True))
        turn += len(block)
    return ledger


@given(BLOCKS)
@settings(max_examples=100, deadline=None)
def test_json_there_and_back_is_the_same_ledger(block: list[View]) -> None:
    ledger = gather(block, answered=True)
    assert from_json(to_json(ledger)) == from_json(json.loads(to_json(ledger))) == ledger


def test_keys_of_another_version_are_ignored_and_absent_ones_get_their_default() -> None:
    ledger = gather([person("Never push."), says("OK.")], answered=True)
    data: dict[str, Any] = {**json.loads(to_json(ledger)), "colour": "blue"}
    data["rules"] = [{**data["rules"][0], "shade": 3}]
    assert from_json(data) == ledger
    assert from_json({}) == Ledger()


@given(BLOCKS, BLOCKS)
@settings(max_examples=100, deadline=None)
def test_folding_a_block_that_is_part_already_changes_nothing(one: list[View], other: list[View]) -> None:
    older = gather(one, answered=True)
    newer = gather(other, first_turn=len(one), answered=True)
    merged = merge(older, newer)
    assert merge(merged, newer) == merged
    assert merge(Ledger(), older) == older


@given(BLOCKS, BLOCKS, BLOCKS)
@settings(max_examples=100, deadline=None)
def test_it_does_not_matter_which_neighbours_are_merged_first(a: list[View], b: list[View], c: list[View]) -> None:
    ledgers = []
    turn = 0
    for block in (a, b, c):
        ledgers.append(gather(block, first_turn=turn, answered=True))
        turn += len(block)
    first, second, third = ledgers
    left, right = merge(merge(first, second), third), merge(first, merge(second, third))
    for part in ("rules", "actions", "sayings", "todo", "end"):
        assert getattr(left, part) == getattr(right, part)
    assert [(r.turn, r.text) for r in left.open] == [(r.turn, r.text) for r in right.open]
    assert {name.text for name in left.names} == {name.text for name in right.names}


@given(st.lists(BLOCKS, max_size=6))
@settings(max_examples=60, deadline=None)
def test_nothing_is_listed_twice(blocks: list[list[View]]) -> None:
    ledger = folded(blocks)
    names, rules = [name.text for name in ledger.names], [rule.text.lower() for rule in ledger.rules]
    assert (len(set(names)), len(set(rules))) == (len(names), len(rules))
    assert len(set(ledger.sayings)) == len(ledger.sayings)
    assert len({file.path for file in ledger.files}) == len(ledger.files)
    assert len({request.turn for request in ledger.requests}) == len(ledger.requests)


# R25
def test_a_thousand_rounds_stay_within_the_bounds() -> None:
    blocks = []
    for i in range(60):
        block = [person(f"Never use helper_{i} again. Please fix module_{i}.py")]
        for j in range(5):
            block += round_of(
                "bash", f"error_{i}_{j} in pkg{i}/file_{j}.py", command=f"python run_{i}_{j}.py --flag-{j}"
            )
        blocks.append([*block, says(f"The cause was `value_{i}`; fixed.")])
    ledger = folded(blocks)
    bounds = {"names": MAX_NAMES, "files": MAX_FILES, "requests": MAX_REQUESTS, "rules": MAX_RULES}
    assert all(len(getattr(ledger, part)) <= bound for part, bound in bounds.items())
    told = [saying.text for saying in ledger.sayings] + [action.target + action.outcome for action in ledger.actions]
    assert MAX_MOMENTS // 3 < sum(map(len, told)) <= MAX_MOMENTS
    assert len(to_json(ledger)) < 300_000


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
    ledger = gather(
        [person("Never push."), *round_of("bash", "ok", command="make all_targets"), says("Works.")], answered=True
    )
    text = render(ledger, 1_000, count, prose="It was done.").text()
    assert "Never push." in text
    assert "make all_targets" not in text
    assert "Works." not in text


def test_an_open_request_that_stands_nowhere_else_is_whole_wherever_it_fits() -> None:
    # R15 R16
    numbers = ", ".join(f"order {number}" for number in range(1_209, 1_229))
    for text in (f"Find out why these fail: {numbers}.", f"تحقق من سبب فشل الطلب رقم: {numbers}."):
        turns = [person(text), *round_of("bash", "ok", command="make"), person("Also add a dry run.")]
        ledger = gather(turns, answered=False)
        alone = render(ledger, 1_000, count, kept={3}).text()
        needed = count(alone[: alone.index(text) + len(text)] + "\n~~~\n")
        for budget in range(needed + max(12, needed // 8), needed * 2):
            assert text in render(ledger, budget, count, kept={3}).text(), budget
