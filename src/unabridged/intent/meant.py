"""What of earlier words a person's later words mean: the option they choose of an offer, what they drop of a request.

Words drop something where they say that it is not wanted, and name nothing but what the request names: all of it, or
one of the several things that it asks for. In doubt they only narrow it down, and the request stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import or_
from typing import NamedTuple

from unabridged.intent import speech_acts as says
from unabridged.intent.frames import frames
from unabridged.intent.lifting import CLAUSE, content_words, covers, is_named, literal, share_a_word
from unabridged.intent.rule_sentences import Reading
from unabridged.languages import EASTERN, folded, phrases
from unabridged.text_cache import remembered
from unabridged.text_tools import blank_fences, one_line, sentences

_LONGEST = 300
"""Characters of an option, and of the sentences around a question."""
_MOST = 9
"""Options that are kept of one message: the last ones."""
_LABEL = r"(?i:option )([A-Za-z]|\d{1,2})\b|\(?\b([A-Za-z]|\d{1,2})[).:\]](?=[*_]{0,2}(?:\s|\Z))"
_OPTION = re.compile(rf"^[ \t]*(?:(?:[-*+\u2022]|#{{1,6}}) +)?[*_]{{0,2}}(?:{_LABEL})[^\n]+", re.MULTILINE)
_CHOICE = re.compile(rf"{_LABEL}|(?<![^\s#(])([A-Z]|\d{{1,2}})(?![^\s,.!)])")
_ORDER = {word: str(i) for i, words in enumerate(frames()["ordinals"], 1) for word in words.split()}
_READ, _SHORT = 600, 120
"""Characters of a message that are looked through for what it drops; of one that says "stop" and nothing else."""
_JOINT = re.compile(
    r"(?<=[^\s(]{2}[.!?:]|\[\u2026\])\s+|\n+|(?<=[\u3001\u3002\uff01\uff0c\uff1b\uff1f])|\s(?=\(?\w\d?[.)]\s)"
)
"""Where one thing that is asked for may end and another begin: also before the mark of an item in a list."""


@remembered
def offer_in(text: str) -> str:
    """The options in a text, one a line, and on the last line its last question with what leads up to it."""
    text = blank_fences(text)
    options = [*_options(text).values()]
    return "\n".join([*options, _last_question(text, options)])


def answered_offer(reply: str, offer: str, *, replies: bool) -> str:
    """What of an offer this reply means: the options it names; else, where it `replies` at all, the question."""
    options, question = _options(offer), offer.rpartition("\n")[2]
    chosen = [options[label] for label in _labels_in(reply) if label in options]
    return " ".join(chosen) if chosen or not replies else question or one_line(" ".join(options.values()), 2 * _LONGEST)


def _options(text: str) -> dict[str, str]:
    """The options of a text by their labels; of several lists the last."""
    found: dict[str, str] = {}
    for line in _OPTION.finditer(text):
        label = (line[1] or line[2]).lower()
        found.pop(label, None)
        found[label] = one_line(line[0].replace("**", "").lstrip("-*+#_\u2022 \t"), _LONGEST)
    return dict([*found.items()][-_MOST:])


def _labels_in(reply: str) -> list[str]:
    """The labels that a reply names: in a long one with a mark at its beginning, in a short one also without."""
    groups, words = 3 if says.few_words(reply, 8) else 2, [_ORDER.get(w.lower(), w) for w in reply.split()[:8]]
    words[:1] = [word.upper() if len(words) < 3 else word for word in words[:1]]  # "b please"
    named = (label for found in _CHOICE.finditer(" ".join(words)) for label in found.groups()[:groups])
    return [label.lower() for label in named if label]


def _last_question(text: str, options: Sequence[str]) -> str:
    """The question among the last sentences with the sentence before it, as far as they fit; else the last two.

    "" where it is one of the options.
    """
    told = sentences(text)
    asked = next((i for i in range(len(told) - 1, max(len(told) - 4, -1), -1) if says.asks(told[i])), len(told) - 1)
    if not told or any(told[asked] in option for option in options):
        return ""
    pair = one_line(" ".join(told[max(asked - 1, 0) : asked + 1]))
    return pair if len(pair) <= _LONGEST else one_line(told[asked], _LONGEST)


# -- what is dropped ---------------------------------------------------------------------------------------------------


class _Dismissal(NamedTuple):
    """A clause that says of something that it is not wanted."""

    clause: str
    about: tuple[str, ...]
    outright: bool
    """Whether it is dropped in so many words, not only denied or left as it is."""
    firm: bool
    """Whether it is said of what is to be done, not of what is so."""


@remembered
def what_stays(text: str, request: str, *, stopped: bool) -> str:
    """A request after these words: as it was, "" where they drop it, with "[…]" in place of one of several things.

    Of one that was `stopped` they need name only something. Who drops what comes first and asks for something else
    drops all of it.
    """
    found, instead = _dismissals(text), says.wants_instead(text)
    order, (pieces, asked) = content_words(request), _pieces(request)
    for said in found:
        hit = {i for i in _hit(said, order, pieces) if not _stays(pieces[i], said, text)}
        others, first = asked - hit, 0 in hit and (said.outright or instead) and _wants_else(text, said)
        if others and not first and not hit.isdisjoint({0, *asked}):
            for i in hit:
                request = request.replace(pieces[i].strip(), "[\u2026]", 1)
            return request
        if hit and (first or not others) and _drops_all(said, text, order, [pieces[i] for i in {0, *asked}]):
            return ""
    named = [[share_a_word(said.about, pieces[i]) for i in {0, *asked}] for said in found if said.firm]
    return "" if stopped and any(map(all, named)) else request


def tells_of_part(answer: str, request: str) -> bool:
    """Whether an answer speaks of what was requested, but not of something that was to be done after that."""
    told, (pieces, asked) = [word for word in content_words(answer) if len(word) > 1], _pieces(request)
    silent = [i for i, piece in enumerate(pieces) if not share_a_word(told, piece)]
    begun = next((i for i in range(len(pieces)) if i not in silent), len(pieces))
    return any(i > begun and (i in asked or any(map(_orders, CLAUSE.split(pieces[i])))) for i in silent)


def ends_asking(request: str) -> bool:
    """Whether the last thing that a request asks for is to be told something."""
    last = _pieces(request)[0][-1]
    return says.wants_to_know(last[phrases("and").at_start(folded(last)) :])


@remembered
def _dismissals(text: str) -> tuple[_Dismissal, ...]:
    """The clauses of a person's message that say of something that it is not wanted."""
    return tuple(said for clause in _clauses(text) if (said := _dismissal(clause)))


def lets_go(text: str) -> tuple[bool, bool]:
    """Whether words drop what was asked without naming it: "never mind"; and whether they ask for nothing else."""
    found = [said for said in _dismissals(text) if said.outright]
    more = {*filter(says.after_small_words, map(folded, _clauses(text)))} - {folded(said.clause) for said in found}
    unnamed = any(not said.about and not _labels_in(folded(said.clause)) for said in found)  # "forget the second"
    return unnamed, all(says.kind_of(clause) in {"ack", "resume"} for clause in more)


def _dismissal(clause: str) -> _Dismissal | None:
    """What a clause says is not wanted, if it says so of anything."""
    words, drops = folded(clause).lstrip(), phrases("withdraw", "cancel")
    words = words if drops.at_start(words) else says.after_small_words(words)
    eastern = words[:1] > EASTERN
    spans = [*drops.found(words)] if eastern else [(0, reach)] if (reach := drops.at_start(words)) else []
    spared, denied = phrases("spared").inside(words), phrases("forbids").inside(folded(clause))
    outright = bool(spans) or phrases("unneeded", "dropped").inside(words) or (denied and says.wants_instead(clause))
    if not outright and not denied and not spared:
        return None
    for start, stop in spans:
        words = words[:start] + " " * (stop - start) + words[stop:]
    if spans and phrases("tasks", "polite", "customs").at_start(says.after_small_words(words)) and not eastern:
        return _Dismissal("", (), True, True)  # what is wanted instead
    known = literal("forbids", "instead", "spared", *(("unneeded", "dropped") if outright else ("hold",)))
    about = tuple(word for word in content_words(words) if word not in known)
    firm = outright or spared or Reading(clause).strength() > 0
    return _Dismissal(clause, about, outright and not (spared and about), firm)


def _clauses(text: str) -> Iterator[str]:
    """The clauses of a message; "leave it alone and fix the other" are two."""
    for clause in (clause for piece in _JOINT.split(text[:_READ]) for clause in CLAUSE.split(piece)):
        joints = [start for start, stop in phrases("and").found(folded(clause)) if start and _orders(clause[stop:])]
        yield from (clause[start:stop] for start, stop in pairwise([0, *joints, len(clause)]))


@remembered
def _pieces(request: str) -> tuple[list[str], set[int]]:
    """A request in pieces, and which of them ask for something: items, sentences, what "and" joins to such a piece.

    Where none is known to ask for anything, the first does.
    """
    joints = {start for start, _ in phrases("and").found(folded(request))}
    places = sorted({0, len(request), *joints, *(mark.end() for mark in _JOINT.finditer(request))})
    pieces = [request[start:stop] for start, stop in pairwise(places)]
    asked = {i for i, piece in enumerate(pieces) if _orders(piece) or _options(piece)} or {0}
    joined = [i for i in range(min(asked) + 1, len(pieces)) if places[i] in joints]
    return pieces, asked | {i for i in joined if not phrases("forbids").inside(folded(pieces[i]))}


def _orders(text: str) -> bool:
    """Whether a clause begins with what is to be done, or nearly so: "only give me the list"."""
    words, known = says.after_small_words(folded(text)), phrases("tasks", "polite")
    begins = any(word.strip(",.:;!?") in known.by_word for word in words.split(maxsplit=2)[:2])
    return begins or (words[:1] > EASTERN and known.inside(words))


def _hit(said: _Dismissal, order: Sequence[str], pieces: Sequence[str]) -> set[int]:
    """Which pieces of a request are meant: by their marks, or because they name what is dropped."""
    labels = _labels_in(said.clause) if said.outright and says.few_words(said.clause, 8) else []
    hit = {i for i, piece in enumerate(pieces) if not {*labels}.isdisjoint(_options(piece))}
    if hit or not said.about or not all(is_named(word, order) for word in said.about):
        return hit
    named = [[is_named(word, content_words(piece)) for word in said.about] for piece in pieces]
    # "write tests for the parser and the lexer", "don't test the lexer": what they share comes first
    shared = {i for i, names in enumerate(named) if any(names) and all(map(or_, names, named[0]))} - {0}
    return {i for i, names in enumerate(named) if all(names)} or shared or {*range(len(pieces))}


def _stays(piece: str, said: _Dismissal, text: str) -> bool:
    """Whether a message drops nothing of a piece: it says the piece's own prohibition again, or how to do the rest."""
    more = [word for word in content_words(piece) if not is_named(word, said.about)]
    again = bool(said.about) and any({*said.about} <= {*own.about} for own in _dismissals(piece))
    return again or (not said.outright and not says.wants_instead(text) and share_a_word(more, text))


def _wants_else(text: str, said: _Dismissal) -> bool:
    """Whether a message asks for something besides what it drops."""
    rest = (clause for clause in _clauses(text) if clause != said.clause)
    return any(_orders(clause) or says.wants_instead(clause) for clause in rest)


def _drops_all(said: _Dismissal, text: str, order: Sequence[str], asked: Sequence[str]) -> bool:
    """Whether a clause drops what it names: where it only denies it, it must name what is to be done.

    Or something else is wanted instead. Somebody who says stop need not name all of it.
    """
    clauses = (says.after_small_words(folded(clause)) for piece in asked for clause in CLAUSE.split(piece))
    deeds = order if said.about[:1] > (EASTERN,) else [clause.split()[0] for clause in clauses if clause]
    begins = any(is_named(word, deeds) for word in said.about)  # the verb comes first, or last
    halts = len(text) <= _SHORT and phrases("hold").at_start(folded(text.strip())) > 0
    denies = begins and (halts or len(said.about) == 1 or covers(said.about, order))
    return said.outright or denies or ((begins or says.wants_instead(text)) and _wants_else(text, said))


def asks_leave(answer: str, request: str) -> bool:
    """Whether an answer ends by asking whether to do the very thing that was requested, and nothing besides."""
    last, order = "".join(sentences(answer)[-1:]), content_words(request)
    return phrases("offer").inside(folded(last)) and all(is_named(word, order) for word in content_words(last))


def says_again(text: str, request: str) -> bool:
    """Whether the words say a request anew with something changed: most of what it names, in about as many words."""
    order, said = content_words(request), content_words(text)
    return 0 < len(said) <= 2 * len(order) and 3 * sum(is_named(word, said) for word in order) >= 2 * len(order)
