"""Standing rules: sentences in which a person says what holds from then on, and those that take one back.

Only a person's own words make a rule. Code, quotations and pasted logs in their message don't. Found by the phrases of
each language (`languages/`); in doubt a sentence is taken: it costs a line, a missed rule costs trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from unabridged.ledger.entries import Lift, Rule
from unabridged.ledger.languages import eastern_words, folded, phrases, vocabulary
from unabridged.ledger.phrasing import bare, sentences, without_fences

LIMIT = 400
"""Characters of one rule."""
MOST_PER_MESSAGE = 24

_QUOTED_LINE = re.compile(r"^[ \t]*(?:>|\||\+\s?\d|-\s?\d{1,5}\s|at |File \"|\d+[:|]).*$", re.MULTILINE)
_MACHINE = re.compile(
    r"^\w*(?:Error|Exception|Warning|Traceback|INFO|DEBUG|WARN)\b|[{}<>;=\\]|::|->|\w\(\)|^\s*(?:import|from|def|class|const|let|var|return|if)\b.*[:;({]\s*$"
)
_SPEAKER = re.compile(r"\A(?:\[[^\]\n]{4,40}\]\s*)?(?:\w{1,20}:\s+)?")
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_POINTS_BACK = re.compile(r"\b(?:that|this|it|so|das|dies|es|ça|cela|eso|esto)\b|这样|那样|これ|それ")


def find_rules(turn: int, text: str) -> tuple[list[Rule], list[Lift]]:
    """The rules a person states in a message, verbatim, and the sentences in which they lift one."""
    said = _QUOTED_LINE.sub("", without_fences(text))
    rules: list[Rule] = []
    lifts: list[Lift] = []
    listed = False
    before = ""
    for sentence in sentences(said):
        core = bare(sentence)
        words = folded(core)
        listed = (listed and core != sentence) or _heads_list(core, words)
        if phrases("lift").inside(words) and len(core) <= LIMIT:
            lifts.append(Lift(turn, core))
        elif not _heads_list(core, words):
            strength = _strength(core, words, listed=listed)
            if strength:
                rules.append(Rule(turn, _whole(core, before, said), strength))
        before = core
    return _strongest(rules), lifts


def instructed(turn: int, text: str) -> list[Rule]:
    """The sentences of a message that the assistant only acknowledged: it was told something to keep in mind."""
    said = [bare(sentence) for sentence in sentences(without_fences(text)[:4_000])]
    plain = [sentence for sentence in said if not sentence.endswith(("?", "\uff1f")) and 6 <= len(sentence) <= LIMIT]
    return [Rule(turn, sentence, 2) for sentence in plain if not phrases("lift").inside(folded(sentence))][:8]


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
    marked = []
    for sentence in lifts:
        if sentence.used:  # It did its work in an earlier merge; the rule may have been stated anew since.
            marked.append(sentence)
            continue
        named = _topics(sentence.text)
        shares = [
            (len(named & topics) / len(topics), i)
            for i, rule in enumerate(result)
            if rule.lifted < 0 and rule.turn < sentence.turn and (topics := _topics(rule.text))
        ]
        best, place = max(shares, default=(0.0, -1))
        if best >= 0.5:
            result[place] = replace(result[place], lifted=sentence.turn)
        marked.append(replace(sentence, used=best >= 0.5))
    return tuple(result), tuple(marked)


def _heads_list(core: str, words: str) -> bool:
    return core.endswith((":", "\uff1a")) and len(core) < 80 and phrases("rule_headings").inside(words)


def _strength(core: str, words: str, *, listed: bool) -> int:
    """3, 2 or 1 for a sentence that states a rule, 0 for one that does not."""
    short = len(core) < 5 and core.isascii()
    if short or len(core) > 3 * LIMIT or _MACHINE.search(core):
        return 0
    denied = list(phrases("not_rules").found(words))
    strong = _cued("strong", words, denied)
    if core.endswith(("?", "\uff1f")):
        return 2 if strong and phrases("polite").at_start(words) else 0
    if strong:
        return 1 if _tells(words, denied) else 3
    begins = phrases("begins").at_start(words) > 0 and not any(start == 0 for start, _ in denied)
    if listed or begins or _cued("wish", words, denied) or _forbids(words, denied):
        return 2
    weak = _cued("weak", words, denied) or phrases("customs").at_start(words) > 0
    if phrases("scope").inside(words):  # "Make every change …": for all of a kind, so perhaps for good.
        return 2 if weak else int(not phrases("subjects").at_start(words) and len(words) <= 120)
    return int(weak)


def _tells(words: str, denied: Sequence[tuple[int, int]]) -> bool:
    """Whether "always" or "never" only tells how things are: "they always cheer me on"."""
    said = _SPEAKER.sub("", words)
    if not phrases("subjects").at_start(said) or phrases("addressed").inside(said):
        return False
    habits = set(phrases("habit").found(words))
    return all(span in habits for span in phrases("strong").found(words) if not _within(span, denied))


def _within(span: tuple[int, int], denied: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < stop and start < span[1] for start, stop in denied)


def _cued(kind: str, words: str, denied: Sequence[tuple[int, int]]) -> bool:
    return any(not _within(span, denied) for span in phrases(kind).found(words))


def _forbids(words: str, denied: Sequence[tuple[int, int]]) -> bool:
    """An order with a negation in it: "no emojis", "bitte keine Tests löschen", "no toques esto"."""
    return not phrases("subjects").at_start(words) and _cued("negation", words, denied) and len(words) <= 200


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
