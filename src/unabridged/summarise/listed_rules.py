"""Standing rules that a model finds: a sentence it lists is one only if a person said it, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from unabridged.intent import Rule, add_rules, possible_rules
from unabridged.ledger.entries import Ledger
from unabridged.ledger.rank import within_bounds
from unabridged.messages import View
from unabridged.summarise.checks import People
from unabridged.summarise.headings import under_each
from unabridged.text_tools import bare, sentences

MOST = 24
"""Rules that one summary may add."""
LONGEST = 16_000
"""Characters of all rules that a reply lists."""
NO_RULE = "listed as a rule and said by no person, left out"

_TITLE = re.compile(r"#{1,6}[ \t]*\**Standing rules\**+(?::\**+)?[ \t]*", re.IGNORECASE)
_LISTED = re.compile(r"^[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])?[ \t]*(?:\[\d+\][ \t]*)?(.*)$", re.MULTILINE)
_MARKS = "\"'`\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d*_ \t"
_GAP = re.compile(r"\s+")
_GAPS = re.compile(r"\n{3,}")


def split_rules(text: str) -> tuple[str, tuple[str, ...]]:
    """A reply without its list of standing rules, and the sentences listed there; what follows the list stays."""
    lines = text.split("\n")
    titles = [i for i, line in enumerate(lines) if _TITLE.fullmatch(line)]
    sections = list(under_each(lines, titles))
    below = ("\n".join(lines[i] for i in section[1:])[:LONGEST] for section in sections)
    listed = tuple(line.rstrip() for rules in below for line in _LISTED.findall(rules) if line.strip(_MARKS))
    gone = {i for section in sections for i in section}
    rest = "\n".join(line for i, line in enumerate(lines) if i not in gone)
    return (_GAPS.sub("\n\n", rest).strip() if listed else text), listed


def unsaid_rules(listed: Iterable[str], people: People) -> tuple[str, ...]:
    """What the receipt says of those sentences that no person said: they are in no ledger."""
    whole = (sentence for line in listed for sentence in sentences(line.strip(_MARKS)))
    return tuple(f"{NO_RULE}: {sentence}" for sentence in whole if not people.said(_plain(sentence)))


def find_said_rules(listed: Iterable[str], views: Sequence[View], turns: Sequence[int]) -> tuple[Rule, ...]:
    """Those of the sentences that a person said, exactly as they said them; what they paste or quote is not said.

    Whole sentences only: a part of one may have lost its "never". White space may differ: the person's own is kept.
    """
    wanted = {_plain(sentence) for line in listed for sentence in sentences(line.strip(_MARKS))}
    rules: dict[str, Rule] = {}
    for i, view in enumerate(views):
        for rule in possible_rules(turns[i], view.text) if view.is_request else ():
            if _plain(rule.text) in wanted and len(rules) < MOST:
                rules.setdefault(rule.text, rule)
    return tuple(rules.values())


def _plain(sentence: str) -> str:
    return _GAP.sub(" ", bare(sentence.strip())).strip(_MARKS + ".!\u3002\uff01")


def ledger_with(ledger: Ledger, rules: Sequence[Rule]) -> Ledger:
    """The ledger with these rules in it.

    What it holds already is not added, nor is the whole of a request that was done: that would be done again.
    """
    done = {request.text.strip() for request in ledger.finished if request.worked}
    new = [
        rule for rule in rules if rule.text not in done and not any(rule.text in known.text for known in ledger.rules)
    ]
    if not new:
        return ledger
    return within_bounds(replace(ledger, rules=add_rules(ledger.rules, new, ledger.lifts)))
