"""Take the rules out of a model's reply: each stays only as a verbatim quotation of a person's own words.

A rule is carried from summary to summary until the model lists it as one that no longer holds and quotes words of a
newer message of a person; that these words are there, and newer, is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unabridged.authorship import find_own_sentences
from unabridged.summary.citations import has_own_words, normalise_quotation
from unabridged.summary.headings import find_sections
from unabridged.summary.ledger import PersonMessage, Rule
from unabridged.summary.originals import OriginalMessages
from unabridged.text_tools import remove_bullet, split_sentences

MAX_RULES = 24
"""Rules that one summary may add."""
MAX_LIST_CHARACTERS = 16_000
"""Characters of all rules that a reply lists."""
UNSAID_NOTE = "listed as a rule and said by no person, left out"
NOT_LIFTED_NOTE = "called a rule that no longer holds, without newer words of a person: carried on"

_TITLE_PATTERN = re.compile(r"#{1,6}[ \t]*\**(?:Standing rules|Rules)\**+(?::\**+)?[ \t]*", re.IGNORECASE)
_LIST_ITEM_PATTERN = re.compile(r"^[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])?[ \t]*(?:\[\d+\][ \t]*)?(.*)$", re.MULTILINE)
_LIFTED_RULE_PATTERN = re.compile(
    r"\W{0,4}no longer\b[^\"]{0,20}\"(?P<rule>.*)\"[^\"]{0,30}\b(?:since|because|by)\b[^\"]{0,20}\"(?P<words>.*)\"\W*",
    re.IGNORECASE,
)
_BLANK_LINES_PATTERN = re.compile(r"\n{3,}")
_MARKUP_CHARACTERS = "\"'`\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d*_ \t"
_MIN_RULE_CHARACTERS = 4
"""Characters of the words that lift a rule."""


def split_off_rules(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a reply without its list of rules, and the lines listed there; what follows the list stays."""
    lines = text.split("\n")
    sections = list(find_sections(lines, [i for i, line in enumerate(lines) if _TITLE_PATTERN.fullmatch(line)]))
    below = ("\n".join(lines[i] for i in section[1:])[:MAX_LIST_CHARACTERS] for section in sections)
    lines_below = (line.rstrip() for rules in below for line in _LIST_ITEM_PATTERN.findall(rules))
    listed = tuple(line for line in lines_below if line.strip(_MARKUP_CHARACTERS))
    gone = {i for section in sections for i in section}
    rest = "\n".join(line for i, line in enumerate(lines) if i not in gone)
    return (_BLANK_LINES_PATTERN.sub("\n\n", rest).strip() if gone else text), listed


def find_rules(
    listed: Iterable[str], read: OriginalMessages, known: Sequence[Rule], carried: Sequence[PersonMessage] = ()
) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Return the rules that hold after this summary, and what the receipt says of lines that did not count.

    `carried` are messages of people that went before: a reply may name a rule in one of them, or words that end one.
    """
    people = [(turn, view.text) for turn, view in zip(read.turns, read.views, strict=True) if view.origin == "person"]
    here = frozenset(read.turns)
    people += [(message.turn, message.text) for message in carried if message.turn not in here]
    first_by_plain = {
        _normalise_sentence(sentence.core): Rule(turn, sentence.core.strip())
        for turn, text in reversed(people)
        for sentence in reversed([*find_own_sentences(text)])
        if any(map(str.isalnum, sentence.without_quotations))  # more than a quotation
    }
    rules, notes = list(known), list[str]()
    lifts = list[re.Match[str]]()
    for line in listed:
        if lifted := _LIFTED_RULE_PATTERN.fullmatch(normalise_quotation(line)):
            lifts.append(lifted)
            continue
        for sentence in split_sentences(line.strip(_MARKUP_CHARACTERS)):
            plain = _normalise_sentence(sentence)
            if any(_normalise_sentence(rule.text) == plain for rule in rules):
                continue
            if plain not in first_by_plain:
                notes.append(f"{UNSAID_NOTE}: {sentence}")
            elif len(rules) - len(known) < MAX_RULES:
                rules.append(first_by_plain[plain])
    for lifted in lifts:
        gone = [rule for rule in rules if _normalise_sentence(rule.text) == _normalise_sentence(lifted["rule"])]
        words = normalise_quotation(lifted["words"]).strip(_MARKUP_CHARACTERS)
        newer = [text for turn, text in people if gone and turn > gone[0].turn]
        if len(words) >= _MIN_RULE_CHARACTERS and any(has_own_words(text, words) for text in newer):
            rules.remove(gone[0])
        else:
            notes.append(f"{NOT_LIFTED_NOTE}: {lifted['rule']}")
    return tuple(sorted(rules, key=lambda rule: rule.turn)), tuple(notes)


def _normalise_sentence(sentence: str) -> str:
    """Return a sentence as it is compared: without its bullet, its marks and its last stop."""
    return normalise_quotation(remove_bullet(sentence.strip())).strip(_MARKUP_CHARACTERS + ".!\u3002\uff01")
