"""Standing rules: sentences in which a person says what holds from then on, and those that take one back.

Only a person's own words make a rule. Code, quotations and pasted logs in their message don't. Found by the phrases of
each language (`languages/`); in doubt a sentence is taken: it costs a line, a missed rule costs trust. What a rule
points at, code or a list, belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from unabridged.intent.entries import Lift, Request, Rule
from unabridged.intent.lifting import lifts, replaces, restricted
from unabridged.intent.own_words import blanked
from unabridged.intent.spoken import Said, heads_list, own_sentences, pointed_at, read, said_in, spoken
from unabridged.intent.stated import LIMIT, imparts, states, strength
from unabridged.languages import folded, phrases
from unabridged.text_cache import remembered

_Stated = tuple[str, int]
"""A rule and its strength."""

MOST_PER_MESSAGE = 24

_POINTS_BACK = re.compile(r"\b(?:that|this|it|so|das|dies|es|ça|cela|eso|esto)\b|这样|那样|これ|それ")


def find_rules(turn: int, text: str) -> tuple[list[Rule], list[Lift]]:
    """The rules a person states in a message, verbatim, and the sentences in which they lift one."""
    rules, taken_back = _stated(text)
    return [Rule(turn, rule, found) for rule, found in rules], [Lift(turn, sentence) for sentence in taken_back]


@remembered
def _stated(text: str) -> tuple[tuple[_Stated, ...], tuple[str, ...]]:
    text = read(text)
    said, own = spoken(text), blanked(text)
    rules: list[_Stated] = []
    taken_back: list[str] = []
    listed, before, stop = False, "", 0
    for sentence in said_in(said):
        core, plain = sentence.core, sentence.plain
        if sentence.stop <= stop:  # Part of what a rule points at.
            continue
        heading = heads_list(plain)
        listed = (listed and sentence.bullet) or heading
        takes = len(core) <= LIMIT and lifts(plain)
        found = 0 if heading or (takes and not restricted(plain)) else strength(plain, listed=listed)
        if found:
            stop = pointed_at(text, sentence)
            if own[sentence.stop : stop] != text[sentence.stop : stop]:  # nobody points at what the host put there
                stop = sentence.stop
            rules.append((_whole(sentence, before, text, stop), found))
        if (takes and found < 2) or (found > 1 and replaces(plain)):
            taken_back.append(core)
        before = core
    return tuple(_strongest(rules)), tuple(taken_back[:MOST_PER_MESSAGE])


def instructed(turn: int, text: str, *, fact: int = 1) -> list[Rule]:
    """The sentences of a message that the assistant only acknowledged: it was told something to keep in mind.

    Not where it was asked, or told a story, or given something to do: then "OK" is all there is to say. `fact` is the
    strength of what merely says how something is.
    """
    found = list(own_sentences(text[:4_000]))
    if not all(imparts(sentence.plain) for sentence in found):
        return []
    known = [rule for rule, _ in _stated(text)[0]]
    kept = [
        sentence
        for sentence in found
        if 6 <= len(sentence.core) <= LIMIT
        and not lifts(sentence.plain)
        and not any(sentence.core in rule and sentence.core != rule for rule in known)
    ]
    return [Rule(turn, sentence.core, fact if states(sentence.plain) else 2) for sentence in kept[:8]]


def acknowledges(answer: str) -> bool:
    """Whether the assistant's words do nothing but take note of what it was told."""
    return len(answer) <= 160 and "?" not in answer and phrases("acknowledged").at_start(folded(answer.strip())) > 0


def in_force(rules: Sequence[Rule], requests: Sequence[Request]) -> tuple[Rule, ...]:
    """The rules without those that were part of a wish the person withdrew; what forbids something stays.

    "Use Postgres" goes with "scratch that"; "never touch the CI", said beside a task, outlives the task.
    """
    gone = {request.turn for request in requests if request.state == "withdrawn"}

    def stays(rule: Rule) -> bool:
        return rule.lifted >= 0 or rule.strength > 2 or phrases("forbids").inside(folded(rule.text))

    return tuple(rule for rule in rules if rule.turn not in gone or stays(rule))


def merged(older: Sequence[Rule], newer: Sequence[Rule]) -> tuple[Rule, ...]:
    """Both lists in order, each rule once: at its first turn, as strong as it was ever put, in force if said again."""
    found: dict[str, Rule] = {}
    for rule in (*older, *newer):
        key = " ".join(folded(rule.text).split())
        known = found.get(key)
        if known is None:
            found[key] = rule
        else:
            lifted = rule.lifted if rule.turn > known.lifted or known.turn == rule.turn else known.lifted
            found[key] = replace(known, strength=max(known.strength, rule.strength), lifted=lifted)
    return tuple(sorted(found.values(), key=lambda rule: (rule.turn, rule.text)))


def _whole(sentence: Said, before: str, text: str, stop: int) -> str:
    """The sentence with what it points at, forwards or only back; always a stretch of what was said."""
    begin = sentence.stop - len(sentence.core)
    if stop > sentence.stop:
        return text[begin:stop]
    core = sentence.core[:LIMIT].rstrip()
    if len(core) < 45 and before and _POINTS_BACK.search(folded(core)):
        start = text.rfind(before, 0, begin)
        end = begin + len(core)
        if start >= 0 and end - start <= LIMIT and "\n" not in text[start:end]:
            return text[start:end]
    return core


def _strongest(rules: list[_Stated]) -> list[_Stated]:
    if len(rules) <= MOST_PER_MESSAGE:
        return rules
    places = sorted(range(len(rules)), key=lambda i: (-rules[i][1], i))[:MOST_PER_MESSAGE]
    return [rules[i] for i in sorted(places)]
