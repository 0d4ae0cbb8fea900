"""Rules and their look-alikes, from lists: what a person ruled is there after ten compactions, nothing else is.

`rules_second.json` was written by somebody who had not seen the code. `rules_third.json` grew with it: what was missed
once is held from then on; so is what a later reviewer missed, with variants of it, in `rules_fourth.json`.
`rules_held_out.json`, by another who had not seen the code, was looked at when that was done: 39 of 40 rules found, 38
of 40 look-alikes left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from conversations import assistant, chat_round, user
from ledger_case import LISTS, Message, run, section, work
from unabridged import Settings
from unabridged.intent.rules import rules_in

SECOND: dict[str, list[dict[str, str]]] = json.loads((LISTS / "rules_second.json").read_text(encoding="utf-8"))
THIRD: dict[str, list[dict[str, str]]] = json.loads((LISTS / "rules_third.json").read_text(encoding="utf-8"))
FOURTH: dict[str, list[dict[str, str]]] = json.loads((LISTS / "rules_fourth.json").read_text(encoding="utf-8"))
HELD_OUT: dict[str, list[dict[str, str]]] = json.loads((LISTS / "rules_held_out.json").read_text(encoding="utf-8"))
RULES = [entry for listed in (SECOND, THIRD, FOURTH, HELD_OUT) for entry in listed["rules"]]
LOOKALIKES = [entry for listed in (SECOND, THIRD, FOURTH, HELD_OUT) for entry in listed["lookalikes"]]
BY_PEOPLE = [entry for entry in LOOKALIKES if entry["where"] == "user"]

GROUP = 6
"""Messages that share a conversation: as many rules as somebody might well have."""
SUMMARIES = Settings(clear=None)
"""No clearing first: each compaction is one that makes a summary."""
OWN = "Never push to main."

KNOWN_MISSES = {
    "Every PR gets exactly one reviewer.",
    "Our API is versioned; breaking v1 is not acceptable.",
    "Our CTO says no new services.",
    "Our customers are called members, not users.",
    "Please write all code comments in English.",
    "Round all amounts to whole euros.",
    "We're a UK company: pounds, miles and British dates.",
    "I only work with people who double check their numbers.",
    "I need everything in both English and Welsh.",
    "It's four spaces in this repo, always.",
    "You must not touch the vendor folder, the tester says it is fragile.",
}
"""Rules that nothing in their words gives away, or not enough: one-off tasks and facts are put in the same words."""
KNOWN_MISTAKES = {
    "我们公司以前规定必须每天写日报，后来取消了。你能帮我找一下去年的模板吗？",  # noqa: RUF001 - Chinese has its own comma
    "Our tests never fail on Linux.",
    "Users never read the manual.",
    "サーバーはいつも昼まで応答しません。",
    "the intern always forgets the semicolon, can you add it",
}
"""Taken for rules: one was lifted in the same breath, the others tell in the words in which one rules."""


def done(text: str, *, result: str = "", said: str = "") -> list[Message]:
    """A person's message, the work on it, and the answer."""
    look = chat_round("read_file", result or "contents of the module\n" * 12, path="src/module_a.py")
    change = chat_round("edit_file", "ok", path="src/module_a.py", new_text="value = 1")
    return [user(text), *look, *change, assistant(said or "That works now; the cause was a wrong index.")]


def after_ten_compactions(opening: Sequence[Message], window: int, settings: Settings | None = None) -> str:
    """The summary turn of the tenth compaction of a conversation that begins so."""

    def conversation() -> Iterator[Message]:
        yield user("hello, we work on the shop")
        yield assistant("Hi. What is first?")
        yield from opening
        for number in count():
            yield from work(chat_round, number)

    return run(conversation(), window=window, settings=settings, most=10).summaries[-1]


def grouped(entries: Sequence[Any]) -> list[Any]:
    starts = range(0, len(entries), GROUP)
    return [pytest.param(entries[start : start + GROUP], id=f"from {start}") for start in starts]


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry["rule"])
def test_a_rule_is_found_word_for_word_among_what_else_was_said(entry: dict[str, str]) -> None:
    found = [rule.text for rule in rules_in(2, entry["message"])[0] if rule.strength > 1]
    assert any(entry["rule"] in text for text in found) is (entry["rule"] not in KNOWN_MISSES)


@pytest.mark.parametrize("entry", BY_PEOPLE, ids=lambda entry: entry["text"])
def test_what_only_looks_like_a_rule_is_none(entry: dict[str, str]) -> None:
    found = any(rule.strength > 1 for rule in rules_in(2, entry["text"])[0])
    assert found is (entry["text"] in KNOWN_MISTAKES)


# R22
@pytest.mark.parametrize("group", grouped(SECOND["rules"]))
def test_after_ten_compactions_each_rule_is_there_byte_for_byte(group: Sequence[dict[str, str]]) -> None:
    opening = [message for entry in group for message in done(entry["message"])]
    rules = "\n".join(section(after_ten_compactions(opening, 8_000, SUMMARIES), "rules"))
    assert [entry["rule"] for entry in group if entry["rule"] not in rules] == []


@pytest.mark.parametrize("entry", SECOND["rules"][::7], ids=lambda entry: entry["kind"])
def test_a_rule_at_turn_two_outlives_ten_compactions_in_a_small_window(entry: dict[str, str]) -> None:
    summary = after_ten_compactions(done(entry["message"]), 4_000)
    assert any(line.startswith("- [2] ") and entry["rule"] in line for line in section(summary, "rules"))


@pytest.mark.parametrize("group", grouped(SECOND["lookalikes"]))
def test_after_ten_compactions_no_look_alike_is_among_the_rules(group: Sequence[dict[str, str]]) -> None:
    opening = done(f"Have a look at the page. {OWN}")
    for entry in group:
        text, where = entry["text"], entry["where"]
        opening += done(
            text if where == "user" else "Now the next page, please.",
            result=text if where == "tool" else "",
            said=text if where == "assistant" else "",
        )
    summary = after_ten_compactions(opening, 8_000, SUMMARIES)
    assert [line for line in section(summary, "rules") if not line.startswith("[end of summary")] == [f"- [2] {OWN}"]
