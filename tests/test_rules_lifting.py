"""Taking rules back: only the person does, only what they name, and in doubt a rule stays and both are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger_case import LISTS, compacted, person, round_of, says
from unabridged.intent import Lift, Rule
from unabridged.intent.lifting import lift
from unabridged.intent.rules import rules_in

PAIRS: dict[str, list[dict[str, str]]] = json.loads((LISTS / "rules_fourth.json").read_text(encoding="utf-8"))


def named(kind: str) -> list[Any]:
    return [pytest.param(pair["rule"], pair["later"], id=f"{pair['rule']} {pair['later']}") for pair in PAIRS[kind]]


def lifted(rules: list[str], later: str) -> list[str]:
    """Which of the rules a later message lifts, two compactions on."""
    opening = [message for rule in rules for message in (person(rule), says("OK."))]
    made = compacted([opening, [person("go on"), says("Yes.")], [person(later), says("Good.")]])
    return [rule.text for rule in made.ledger.rules if rule.lifted >= 0]


# R22
@pytest.mark.parametrize(("rule", "later"), named("standing"))
def test_a_permission_for_something_else_or_of_somebody_else_lifts_nothing(rule: str, later: str) -> None:
    assert lifted([rule], later) == []


@pytest.mark.parametrize(("rule", "later"), named("lifted"))
def test_who_names_what_a_rule_is_about_lifts_it(rule: str, later: str) -> None:
    assert lifted([rule], later) == [rule]


def test_a_doubtful_permission_is_shown_beside_the_rule_it_concerns_and_no_other() -> None:
    rule, doubtful, other = "Never push to main.", "You can push to staging now.", "You can rename the logo now."
    made = compacted([[person(rule), says("OK.")], [person(f"{doubtful} {other}"), *round_of("ls", "a", path="/x")]])
    lines = made.text.splitlines()
    assert [line for line in (f"- [0] {rule}", f"- [2] {doubtful}", f"- [2] {other}") if line in lines] == [
        f"- [0] {rule}",
        f"- [2] {doubtful}",
    ]


def test_a_permission_that_could_mean_either_of_two_rules_lifts_none() -> None:
    assert lifted(["Never push to main.", "Never push tags."], "You can push now.") == []
    assert lifted(["Keep functions under 40 lines.", "Keep files under 400 lines."], "Forget the line limit.") == []


def test_of_two_rules_the_one_that_is_named_is_lifted() -> None:
    rules = ["Never push to main.", "Never push tags."]
    assert lifted(rules, "You can push tags now.") == ["Never push tags."]


@pytest.mark.parametrize(
    ("rule", "task"),
    [
        ("No console logs.", "Remove the no-console rule."),
        ("Never exceed the rate limit.", "Drop the rate limit."),
        ("Never change the unique constraint.", "Remove the constraint."),
        ("Schreib nichts in die Konsole.", "Entferne die Konsolen-Regel."),
    ],
)
def test_a_task_about_a_limit_or_a_rule_in_the_code_lifts_nothing(rule: str, task: str) -> None:
    assert lifted([rule], task) == []


def test_a_sentence_that_permits_and_forbids_is_a_rule() -> None:
    text = "You can push to staging now, but never to main."
    rules, lifts = rules_in(3, text)
    assert [rule.text for rule in rules] == [text]
    assert lifts == []


def test_the_number_of_a_server_is_no_limit_that_a_later_one_replaces() -> None:
    assert lifted(["Never restart server 1."], "Never restart server 2.") == []


def test_a_language_asked_for_again_holds_again() -> None:
    first, second = "Answer in German.", "Answer in English from now on."
    made = compacted([[person(text), says("OK.")] for text in (first, second, first)])
    assert {rule.text: rule.lifted for rule in made.ledger.rules} == {first: -1, second: 4}


def test_a_sentence_lifts_only_what_was_ruled_before_it_and_only_once() -> None:
    rules = [Rule(4, "Never push to main.", 3)]
    assert lift(rules, [Lift(2, "You can push to main now.")])[0][0].lifted == -1
    assert lift(rules, [Lift(6, "You can push to main now.", used=True)])[0][0].lifted == -1
