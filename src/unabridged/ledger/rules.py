"""Standing rules: sentences in which a person says what holds from then on, and those that take one back.

Only a person's own words make a rule. Code, quotations and pasted logs in their message don't. Found by the phrases of
each language (`languages/`); in doubt a sentence is taken: it costs a line, a missed rule costs trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from unabridged.ledger.entries import Lift, Rule
from unabridged.ledger.languages import eastern_words, folded, phrases, vocabulary
from unabridged.ledger.phrasing import bare, sentences, without_fences
from unabridged.ledger.stated import LIMIT, imparts, strength

MOST_PER_MESSAGE = 24
READ = 60_000
"""Characters of a message that are looked through, at its beginning and its end: what is longer was pasted."""

_QUOTED_LINE = re.compile(r"^[ \t]*(?:>|\||\+\s?\d|-\s?\d{1,5}\s|at |File \"|\d+[:|]).*$", re.MULTILINE)
_PASTED = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''", re.DOTALL)
_TAG = re.compile(
    r"<(file|document|doc|log|logs|output|error|code|page|email|mail|quote|paste|text|article|"
    r"html|pre|diff|trace|transcript|readme|source|data|context)\b[^<>\n]*>",
    re.IGNORECASE,
)
"""What a person holds up to be looked at, in a tag that says what it is."""
_QUOTED = re.compile(
    r"\"[^\"\n]{0,600}\"|\u201c[^\u201d\n]{0,600}\u201d|\u201e[^\u201c\u201d\n]{0,600}[\u201c\u201d]|«[^»\n]{0,600}»"
    r"|[\u300c\u300e][^\u300d\u300f\n]{0,600}[\u300d\u300f]"
)
_BLANK = "\ufffc"
"""Stands for each character of a quotation, so that places stay true and no phrase is found in it."""
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_POINTS_BACK = re.compile(r"\b(?:that|this|it|so|das|dies|es|ça|cela|eso|esto)\b|这样|那样|これ|それ")


def find_rules(turn: int, text: str) -> tuple[list[Rule], list[Lift]]:
    """The rules a person states in a message, verbatim, and the sentences in which they lift one."""
    said = _spoken(text)
    rules: list[Rule] = []
    lifts: list[Lift] = []
    listed = False
    before = ""
    for core, plain, bullet in _sentences(said):
        words = folded(plain)
        listed = (listed and bullet) or _heads_list(plain, words)
        if phrases("lift").inside(words) and len(core) <= LIMIT:
            lifts += [Lift(turn, core)] if len(lifts) < MOST_PER_MESSAGE else []
        elif not _heads_list(plain, words):
            found = strength(plain, listed=listed)
            if found:
                rules.append(Rule(turn, _whole(core, before, said), found))
        before = core
    return _strongest(rules), lifts


def instructed(turn: int, text: str) -> list[Rule]:
    """The sentences of a message that the assistant only acknowledged: it was told something to keep in mind.

    Not where it was asked, or told a story, or given something to do: then "OK" is all there is to say.
    """
    found = list(_sentences(_spoken(text[:4_000])))
    if not all(imparts(plain) for _, plain, _ in found):
        return []
    kept = [core for core, plain, _ in found if 6 <= len(core) <= LIMIT and not phrases("lift").inside(folded(plain))]
    return [Rule(turn, core, 2) for core in kept[:8]]


def _spoken(text: str) -> str:
    """What of a message is the person's own: without code, quoted lines and what they hold up to be looked at."""
    if len(text) > READ:
        text = f"{text[: READ * 2 // 3]}\n{text[-READ // 3 :]}"
    return _untagged(_PASTED.sub("\n", _QUOTED_LINE.sub("", without_fences(text))))


def _untagged(text: str) -> str:
    """The text without what stands in such tags; each name is looked for once where it is never closed."""
    kept: list[str] = []
    stop, unclosed, small = 0, set[str](), text.lower()
    for opening in _TAG.finditer(text):
        name = opening[1].lower()
        if opening.start() < stop or name in unclosed:
            continue
        close = small.find(f"</{name}>", opening.end())
        if close < 0:
            unclosed.add(name)
            continue
        kept.append(text[stop : opening.start()])
        stop = close + len(name) + 3
    return "\n".join([*kept, text[stop:]])


def own_sentences(text: str) -> Iterator[tuple[str, str, bool]]:
    """The person's own sentences in a message, as `_sentences` gives them."""
    return _sentences(_spoken(text))


def _sentences(said: str) -> Iterator[tuple[str, str, bool]]:
    """Each sentence as it was said, the same with its quotations blanked, and whether it was a bullet."""
    own = _QUOTED.sub(lambda found: _BLANK * len(found[0]), said)
    stop = 0
    for sentence in sentences(own):
        stop = own.index(sentence, stop) + len(sentence)
        plain = bare(sentence)
        yield said[stop - len(plain) : stop], plain, plain != sentence


def acknowledges(answer: str) -> bool:
    """Whether the assistant's words do nothing but take note of what it was told."""
    return len(answer) <= 160 and "?" not in answer and phrases("acknowledged").at_start(folded(answer.strip())) > 0


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


def lift(rules: Iterable[Rule], lifts: Iterable[Lift]) -> tuple[tuple[Rule, ...], tuple[Lift, ...]]:
    """The rules, those marked that a later sentence of the person's lifts; and the sentences, marked when they did.

    A rule is lifted only when the sentence names at least half of what the rule is about. Otherwise both stand, and
    the reader sees the later one.
    """
    result = list(rules)
    about = [_topics(rule.text) for rule in result] if lifts else []
    marked = []
    for sentence in lifts:
        if sentence.used:  # It did its work in an earlier merge; the rule may have been stated anew since.
            marked.append(sentence)
            continue
        named = _topics(sentence.text)
        shares = [
            (len(named & topics) / len(topics), i)
            for i, rule in enumerate(result)
            if rule.lifted < 0 and rule.turn < sentence.turn and (topics := about[i])
        ]
        best, place = max(shares, default=(0.0, -1))
        if best >= 0.5:
            result[place] = replace(result[place], lifted=sentence.turn)
        marked.append(replace(sentence, used=best >= 0.5))
    return tuple(result), tuple(marked)


def _heads_list(core: str, words: str) -> bool:
    return core.endswith((":", "\uff1a")) and len(core) < 80 and phrases("rule_headings").inside(words)


def _whole(core: str, before: str, said: str) -> str:
    """The sentence, with the one before when it only points back at it; always a stretch of what was said."""
    core = core[:LIMIT].rstrip()
    if len(core) < 45 and before and _POINTS_BACK.search(folded(core)):
        start = said.find(before)
        stop = said.find(core, start) + len(core)
        if 0 <= start < stop and stop - start <= LIMIT and "\n" not in said[start:stop]:
            return said[start:stop]
    return core


def _strongest(rules: list[Rule]) -> list[Rule]:
    if len(rules) <= MOST_PER_MESSAGE:
        return rules
    places = sorted(range(len(rules)), key=lambda i: (-rules[i].strength, i))[:MOST_PER_MESSAGE]
    return [rules[i] for i in sorted(places)]


def _topics(text: str) -> set[str]:
    """What a rule is about: the beginnings of its longer words; pairs of signs in scripts without spaces."""
    words = folded(text)
    topics = {
        word[:5] for word in _WORDS.findall(words) if len(word) >= 4 and word.isascii() and word not in _stop_words()
    }
    topics |= {
        word[:5] for word in _WORDS.findall(words) if len(word) >= 4 and not word.isascii() and word[0] < "\u2e7f"
    }
    signs = eastern_words("strong", "wish", "weak", "lift", "filler").sub(" ", words)
    for run in re.findall(r"[\u3040-\u9fff]{2,}", signs):
        topics |= {run[i : i + 2] for i in range(len(run) - 1)}
    return topics


def _stop_words() -> frozenset[str]:
    return vocabulary("strong", "wish", "weak", "filler", "common", "negation", "subjects")
