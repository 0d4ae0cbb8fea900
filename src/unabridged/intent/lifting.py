"""Taking a rule back: which sentences of a person's do it, and which rules they reach.

A lost prohibition is the worst that can happen to a ledger, so in doubt a rule stays and the sentence is shown beside
it. A permission lifts a rule only when it names all that the rule is about and nothing else; one that names only what
is done ("you can push now") lifts the one rule about doing it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from unabridged.intent.entries import Lift, Rule
from unabridged.intent.person_words import split_sentences
from unabridged.intent.rule_sentences import Reading
from unabridged.languages import EASTERN, eastern_words, folded, phrases, vocabulary
from unabridged.text_cache import remembered

_KINDS = ("lift_all", "revoke", "unneeded", "allowed", "lift")
_WORD = re.compile(r"\d+|(?:(?![\u2e80-\uffff])[^\W\d_])+|[\u30a1-\u30ff]+|[\u3005\u3400-\u9fff\uf900-\ufaff]+")
"""A number, a word, a run of katakana, a run of signs; hiragana is grammar."""
_KANA = re.compile(r"[\u3040-\u30ff]")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")
CLAUSE = re.compile(r"[,;\uff0c\u3001\uff1b]\s+|[\uff0c\u3001\uff1b]|\s[\u2013\u2014-]\s")
_NONE: frozenset[str] = frozenset()
_BARE = 60
"""Characters of a permission that may leave out what it is about."""


def lifts(plain: str) -> bool:
    """Whether a sentence may take a rule back, if only in part."""
    return phrases(*_KINDS).inside(folded(plain))


def restricts(plain: str) -> bool:
    """Whether a sentence that permits something also says what it does not permit, or when, or only for once."""
    words = folded(plain)
    for kind in _KINDS[1:4]:  # "no longer applies": their own negations say nothing.
        for start, stop in phrases(kind).found(words):
            words = words[:start] + " " * (stop - start) + words[stop:]
    return phrases("restricts", "moment").inside(words)


def replaces(plain: str) -> bool:
    """Whether a rule may take the place of an older one by its value: another language, another limit."""
    words = folded(plain)
    return phrases("tongues").inside(words) or (phrases("bounds").inside(words) and any(map(str.isdigit, words)))


def lift(rules: Iterable[Rule], said: Iterable[Lift]) -> tuple[tuple[Rule, ...], tuple[Lift, ...]]:
    """The rules, those marked that a later sentence of the person's lifts; and the sentences, marked when they did."""
    result, marked = list(rules), []
    for sentence in said:
        if sentence.used:  # It did its work in an earlier merge; the rule may have been stated anew since.
            marked.append(sentence)
            continue
        earlier = [i for i, rule in enumerate(result) if rule.lifted < 0 and rule.turn < sentence.turn]
        found = _find_lifted(sentence.text, [result[i].text for i in earlier])
        for i in found:
            result[earlier[i]] = replace(result[earlier[i]], lifted=sentence.turn)
        marked.append(replace(sentence, used=bool(found)))
    return tuple(result), tuple(marked)


def concerns(sentence: Lift, rules: Iterable[Rule]) -> bool:
    """Whether it has a word in common with one of these rules, and is none of them: then it is worth showing."""
    texts = [rule.text for rule in rules]
    return sentence.text not in texts and any(share_a_word(content_words(sentence.text), text) for text in texts)


def _find_lifted(text: str, rules: Sequence[str]) -> list[int]:
    """Which of the rules the sentence takes back."""
    kind, taken = _taking(text)
    if not kind:
        return [i for i, rule in enumerate(rules) if _takes_place_of(rule, text)] if replaces(text) else []
    if kind == "lift_all":
        return [] if taken else [*range(len(rules))]
    duty = kind == "unneeded"
    about = [_about(rule, duty=duty) for rule in rules]
    if not taken:
        return []
    # What need not be done any more is not permitted by that.
    apart = {i for i, rule in enumerate(rules) if duty and phrases("forbids").inside(folded(rule))}
    inside = [i for i, words in enumerate(about) if i not in apart and covers(words, taken)]
    full = [i for i in inside if covers(taken, about[i])]
    if full:
        return full
    if kind == "revoke":
        named = inside
    elif kind == "lift" and len(taken) == 1 and len(text) <= _BARE:
        word = taken[0]
        named = [i for i in inside if alike(about[i][0], word) or alike(about[i][-1], word)]
        named = named if all(_only_where(rules[i], about[i], word) for i in named) else []
    else:
        return []
    # Which of several is meant nobody can tell.
    return named if all(covers(about[i], about[named[0]]) for i in named) else []


def _only_where(rule: str, about: Sequence[str], done: str) -> bool:
    """Whether a rule says, beside what is not to be done, only where to.

    "You can push now" is about pushing to main; "you can commit now" is not about committing secrets.
    """
    words = folded(rule)
    rest = [word for word in about if not alike(word, done)]
    places = [stop for _, stop in phrases("towards").found(words)]
    return all(any(word in words[stop : stop + len(word) + 8] for stop in places) for word in rest)


@remembered
def _taking(text: str) -> tuple[str, tuple[str, ...]]:
    """How a sentence takes something back, and what; "" when it does not, or not for good, or somebody else would."""
    said = next(iter(split_sentences(text.replace("\n", " "))), None)
    plain = said.plain if said else text
    kind = next((kind for kind in _KINDS if phrases(kind).inside(folded(plain))), "")
    if not kind or restricts(plain) or not Reading(plain).is_order:
        return "", ()
    takes, mere = phrases(kind).inside, phrases("asides", "openers").at_start  # "now that the release is out, …"
    clauses = (part for part in CLAUSE.split(text) if takes(folded(part)) or not mere(folded(part)))
    return kind, tuple(word for word in content_words(" ".join(clauses)) if word not in literal(kind))


@remembered
def _about(rule: str, *, duty: bool) -> tuple[str, ...]:
    """What a rule is about, without what it says in passing; of a duty, not when it is to be done."""
    words = folded(rule)
    clauses = [mark.end() for mark in CLAUSE.finditer(rule)]
    stops = [start for start in clauses if phrases("asides").at_start(words[start:])]
    if duty:
        stops += [start for start, _ in phrases("timing").found(words) if start > 8]
    return content_words(rule[: min(stops, default=len(rule))]) or content_words(rule)


@remembered
def content_words(text: str) -> tuple[str, ...]:
    """The words that tell what a sentence is about, in order."""
    words = folded(text)
    if not words.isascii():
        # Signs run on without spaces: what only joins them, and the languages' names, part them.
        words = _HIRAGANA.sub(" ", words) if _KANA.search(words) else words
        words = eastern_words("light").sub(" ", words)
        words = eastern_words("tongues").sub(lambda found: f" {found[0]} ", words)
    light = vocabulary("light")
    return tuple(dict.fromkeys(word for word in _WORD.findall(words) if word not in light))


def share_a_word(words: Sequence[str], text: str) -> bool:
    """Whether a text speaks of something that these words speak of."""
    others = content_words(text)
    begins, known = {other[:3] for other in others}, _groups()
    near = [word for word in words if word[:3] in begins or word in known]  # most words need no closer look
    return any(alike(word, other) for word in near for other in others)


def covers(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether each of the others is among the words."""
    return all(any(alike(word, other) for word in words) for other in others)


def is_named(word: str, words: Sequence[str]) -> bool:
    """Whether it is among the words, in any form; signs run on without spaces."""
    return any(alike(word, other) or (word[0] > EASTERN and word in other) for other in words)


def alike(word: str, other: str) -> bool:
    """Whether two words are forms of one, or mean the same here."""
    if word == other or word[0].isdigit() or other[0].isdigit():
        return word == other
    known = _groups()
    if known.get(word, _NONE) & known.get(other, _NONE):
        return True
    if word[:3] != other[:3]:  # most pairs differ here already
        return False
    shared = next((i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    rests = {word[shared:], other[shared:]} - {""}
    return shared >= (3 if len(rests) < 2 else 4) and rests <= vocabulary("endings")


@cache
def _groups() -> dict[str, frozenset[str]]:
    """The groups of words that mean the same, by word; a word may be one of several languages'."""
    found: dict[str, frozenset[str]] = {}
    for group in vocabulary("alike"):
        for word in group.split():
            found[word] = found.get(word, _NONE) | {group}
    return found


@cache
def literal(*kinds: str) -> frozenset[str]:
    """The words of the phrases themselves: those say that something is lifted, not what."""
    return frozenset(word for phrase in vocabulary(*kinds) for word in _WORD.findall(phrase))


def _takes_place_of(older: str, newer: str) -> bool:
    """Whether the newer rule is the older one with another language or another limit in it."""
    before, after = content_words(older), content_words(newer)
    gone = [word for word in before if not covers(after, (word,))]
    come = [word for word in after if not covers(before, (word,))]
    if len(gone) != 1 or len(come) != 1 or len(before) < 2:
        return False
    tongues = vocabulary("tongues")
    return (gone[0] in tongues and come[0] in tongues) or (_bounds(older, gone[0]) and _bounds(newer, come[0]))


def _bounds(text: str, number: str) -> bool:
    """Whether this number is a limit: a server's number tells which server."""
    words = folded(text)
    found = phrases("bounds").found(words)
    spans = ((max(start - 8, 0) if words[start] > EASTERN else stop, stop + 3 + len(number)) for start, stop in found)
    return number.isdigit() and any(number in _WORD.findall(words[begin:end]) for begin, end in spans)
