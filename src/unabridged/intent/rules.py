"""Standing rules: sentences in which a person says what holds from then on, and those that take one back.

Only a person's own words make a rule. Code, quotations and pasted logs in their message don't, and beside code or a
log that nothing sets off only an order with a lasting word does: the rest may be part of it. Found by the phrases of
each language (`languages/`); in doubt a sentence is none: it stands among the person's messages all the same, and a
wrong rule is worse than a missing one. What a rule points at, code or a list, belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from unabridged.intent.entries import Lift, Request, Rule
from unabridged.intent.frames import doubtful_in
from unabridged.intent.host_words import blank_foreign
from unabridged.intent.lifting import content_words, is_named, lift, lifts, replaces, restricts
from unabridged.intent.person_words import end_of_block, heads_list, own_sentences, own_text, read, split_sentences
from unabridged.intent.rule_sentences import RULE_LIMIT, Reading, is_signed
from unabridged.languages import folded, phrases, sure_language, tables
from unabridged.messages import View
from unabridged.text_cache import remembered

_Stated = tuple[str, int]
"""A rule and its strength."""

MOST_PER_MESSAGE = 24


def find_rules(
    views: Sequence[View], turns: Sequence[int], requests: Sequence[Request]
) -> tuple[tuple[Rule, ...], tuple[Lift, ...]]:
    """The rules that people state in these messages, verbatim, and the sentences in which they lift one.

    And, marked as doubtful, what would be rules in what may be another system's summary.
    `requests` are what `find_requests` found in them. What two people say to each other rules nothing.
    """
    rules, taken_back = list[Rule](), list[Lift]()
    apart = _between_people(views)
    for turn, view in zip(turns, views, strict=True):
        if view.origin == "person" and not apart:
            stated, lifting = rules_in(turn, view.text)
            rules += stated
            taken_back += lifting
        if text := doubtful_in(view):
            rules += [replace(rule, doubtful=True) for rule in rules_in(turn, text)[0]]
    return merge_rules(rules, taken_back, requests)


def merge_rules(
    rules: Sequence[Rule], taken_back: Sequence[Lift], requests: Sequence[Request]
) -> tuple[tuple[Rule, ...], tuple[Lift, ...]]:
    """Each rule once, marked where a later sentence lifts it; and those sentences, marked where they did.

    Without what was part of a wish that the person withdrew: "Use Postgres" goes with "scratch that"; what forbids
    something stays, for "never touch the CI", said beside a task, outlives the task.
    """
    heard = [request for request in requests if not request.is_silent]
    replies = {now.turn: (then, now) for then, now in pairwise(heard) if then.asks in {"question", "proposal"}}
    weak = [rule for rule in rules if rule.turn in replies and rule.strength < 3 and not rule.doubtful]
    replied = {rule for rule in weak if _answers(rule.text, *replies[rule.turn])}
    united = _unite(rule for rule in rules if rule not in replied)
    lifted, marked = lift([rule for rule in united if not rule.doubtful], taken_back)
    again = [replace(sentence, used=False) for sentence in taken_back]
    lifted = (*lifted, *lift([rule for rule in united if rule.doubtful], again)[0])
    gone = {request.turn for request in requests if request.state == "withdrawn"}

    def stays(rule: Rule) -> bool:
        return rule.lifted >= 0 or rule.strength > 2 or phrases("forbids").inside(folded(rule.text))

    return tuple(rule for rule in lifted if rule.turn not in gone or stays(rule)), marked


def _answers(rule: str, before: Request, reply: Request) -> bool:
    """Whether a wish merely answers what the assistant had asked: "1, but only Tokyo", "I don't want insurance".

    It does not say what its person wants, or says it in the words of the question: that chooses among what was offered.
    """
    told, asked = content_words(rule), content_words(f"{before.answer}\n{reply.context}")
    return 2 * sum(is_named(word, asked) for word in told) >= len(told) or not phrases("own").inside(folded(rule))


def add_rules(rules: Sequence[Rule], new: Sequence[Rule], taken_back: Sequence[Lift]) -> tuple[Rule, ...]:
    """The rules with new ones among them, as far as no later sentence lifted those."""
    standing, _ = lift(new, [replace(sentence, used=False) for sentence in taken_back])
    return _unite((*rules, *standing))


def possible_rules(turn: int, text: str) -> list[Rule]:
    """Every sentence of a person's that may be a rule, if somebody takes it for one.

    One that is worded as a rule; where we don't know the language, all that is said to be kept in mind.
    """
    known = "strong" in tables().get(sure_language([text]), {})
    found = []
    for sentence in own_sentences(text):
        if 6 <= len(sentence.core) <= RULE_LIMIT:
            worded = max((rule.strength for rule in rules_in(turn, sentence.core)[0]), default=0)
            if worded or (Reading(sentence.plain).imparts and not known):
                found.append(Rule(turn, sentence.core, worded or 2))
    return found


def rules_in(turn: int, text: str) -> tuple[list[Rule], list[Lift]]:
    """The rules a person states in a message, verbatim, and the sentences in which they lift one."""
    rules, taken_back = _read_rules(text)
    return [Rule(turn, rule, found) for rule, found in rules], [Lift(turn, sentence) for sentence in taken_back]


@remembered
def _read_rules(text: str) -> tuple[tuple[_Stated, ...], tuple[str, ...]]:
    text = read(text)
    said, own = own_text(text), blank_foreign(text)
    rules: list[_Stated] = []
    taken_back: list[str] = []
    listed, stop = False, 0
    spoken = [(sentence, Reading(sentence.plain)) for sentence in split_sentences(said)]
    pasted = sum(reading.cites_code for _, reading in spoken) > 1
    for sentence, reading in spoken:
        core, plain = sentence.core, sentence.plain
        if sentence.stop <= stop:  # Part of what a rule points at.
            continue
        heading = heads_list(plain)
        listed = (listed and sentence.bullet) or heading
        takes = len(core) <= RULE_LIMIT and lifts(plain)
        told = heading or (takes and not restricts(plain)) or (pasted and not listed and not reading.is_firm)
        found = 0 if told else reading.strength(listed=listed)
        if found:
            stop = end_of_block(text, sentence)
            if own[sentence.stop : stop] != text[sentence.stop : stop]:  # nobody points at what the host put there
                stop = sentence.stop
            block = text[sentence.stop : stop]
            rules.append((core + block if block else core[:RULE_LIMIT].rstrip(), found))
        if (takes and found < 2) or (found > 1 and replaces(plain)):
            taken_back.append(core)
    kept = sorted(rules, key=lambda rule: -rule[1])[:MOST_PER_MESSAGE]
    return tuple(rule for rule in rules if rule in kept), tuple(taken_back[:MOST_PER_MESSAGE])


def _between_people(views: Sequence[View]) -> bool:
    """Whether nobody here is an assistant: whoever answers speaks under a time and a name, and calls no tool."""
    answers = [view for view in views if view.origin == "model"]
    return bool(answers) and all(is_signed(view.text) and not view.calls for view in answers)


def _unite(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Each rule once: at its first turn, as strong as it was ever put, in force if it was said again."""
    found: dict[str, Rule] = {}
    for rule in rules:
        key = " ".join(folded(rule.text).split())
        known = found.get(key, rule)
        if rule.doubtful and not known.doubtful:
            continue
        known = rule if known.doubtful and not rule.doubtful else known
        lifted = rule.lifted if rule.turn > known.lifted or known.turn == rule.turn else known.lifted
        found[key] = replace(known, strength=max(known.strength, rule.strength), lifted=lifted)
    return tuple(sorted(found.values(), key=lambda rule: (rule.turn, rule.text)))
