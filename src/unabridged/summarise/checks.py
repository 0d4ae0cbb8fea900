"""What of a model's prose may stand in a summary turn. Every check is exact, and none of them understands the text.

    headings       one of ours goes with what stands under it (`headings`)
    citations      a line that begins with `[n] "words"` stays only if person's message n has these words
    repetitions    a line that the ledger beside the prose has word for word goes
    names          paths, identifiers and numbers that stand nowhere are told in the receipt; the text stays as it is
    quotations     elsewhere, of three words or more, that nobody said: likewise
    rules          a sentence that the reply lists as a standing rule is one only if a person said it, word for word

Everything else is the model's own words, and the heading of the prose says so: no sentence in it is anybody's approval.
What people really said stands word for word in the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from unabridged.intent import Rule, add_rules, doubtful_in, own_sentences, possible_rules
from unabridged.ledger.bounds import within_bounds
from unabridged.ledger.entries import Ledger
from unabridged.ledger.names import Piece, collect_names, find_paths
from unabridged.messages import View
from unabridged.summarise.brief import Brief
from unabridged.summarise.headings import harmless, lay_out, under_each, without_bare_headings
from unabridged.text_cache import remembered
from unabridged.text_tools import bare, sentences

MOST_LISTED = 40
"""Lines that were left out and are listed one by one."""
MOST_NAMED = 8
"""Names and quotations that stand nowhere and are told one by one."""
WIDTH = 160
"""Characters of a line that a receipt shows."""
MOST_MARKS = 40
"""Quotation marks in a line that are tried as the end of what it cites."""
MOST_RULES = 24
"""Standing rules that one summary may add."""
LONGEST_RULES = 16_000
"""Characters of all rules that a reply lists."""
NO_RULE = "listed as a rule and said by no person, left out"
SHORTEST = 16
"""Characters of a line from which on it is taken for a repetition, and not for a few words that anybody says."""

_CITED = re.compile(
    r"\W{0,9}(?:\d{1,3}[.)] )?\W{0,9}\[(?P<turn>\d{1,9}|said)\][^\w\"]{0,9}(?:user\W{0,3})?\"(?P<words>.*)"
)
PASTED = "- Pasted in message {}:"
"""Before what a line cites that stands in the user's message, but as what somebody else wrote."""
DOUBTFUL = "- In message {}, not certain that the user said it:"
"""The same where the message reads like another system's summary."""
_LIST_SIGN = re.compile(r"(?<!\S)(?:\d{1,2}[.)]|[-*+\u2022]) ")
_QUOTATION_MARKS = str.maketrans(
    "\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f\u2018\u2019\u201a\u201b\u2039\u203a",
    '""""""""""' + "''''''",
)
_WORD = re.compile(r"\w+")
_ENDS = ".,;:!?\u2026 \u3002\uff01\uff1f\uff0c"
_QUOTED = re.compile(r"\"([^\"]{1,400})\"")
_CODE = re.compile(r"`[^`\n]*`")
_GAPS = re.compile(r"\n{3,}")
# GitHub, JSON, Node.js: nobody's identifier, unless it is written as one.
_SIMPLE = re.compile(r"[A-Z]?[a-z]+[A-Z][A-Za-z]*|[A-Z]{3,}[a-z]*|[A-Z][a-z]+\.(?:js|io|net|ai)")
_NUMBER = re.compile(r"(?<![\w.,/:#\[-])\d[\d,.]*\d(?![\w/:-])")
_SEPARATOR = re.compile(r"(?<=\d)[,.' \u00a0\u202f](?=\d{3}(?!\d))")
_TITLE = re.compile(r"#{1,6}[ \t]*\**Standing rules\**+(?::\**+)?[ \t]*", re.IGNORECASE)
_LISTED = re.compile(r"^[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])?[ \t]*(?:\[\d+\][ \t]*)?(.*)$", re.MULTILINE)
_MARKS = "\"'`\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d*_ \t"
_EASTERN = "\u2e80"
"""From here on, scripts without spaces."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The prose as it may stand, what was left out of it, and what else a receipt should say."""

    text: str
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_prose(text: str, brief: Brief, people: People) -> Checked:
    """The prose without what may not stand in it; "" when nothing is left."""
    lines, posing = lay_out(text)
    told = [f"stood under a heading of ours, left out: {_in_short(line)}" for line in posing]
    known = [normal(line) for line in brief.carried.split("\n")]
    kept: list[str] = []
    repeated = 0
    for line in lines:
        cites = is_citation(line)
        if cites and not people.have_said(line):
            if pasted := people.as_pasted(line):
                told.append(f"in the user's message, but not as their own words, told as such: {_in_short(line)}")
                kept.append(pasted)
            else:
                told.append(f"the user's message does not say it, left out: {_in_short(line)}")
        elif not cites and _repeats(line, known):
            repeated += 1
        else:
            kept.append(line)
    rest = "\n".join(harmless(line) for line in without_bare_headings(kept)).strip()
    listed = list(dict.fromkeys(told))
    listed[MOST_LISTED:] = [f"and {len(listed) - MOST_LISTED:,} more"] if len(listed) > MOST_LISTED else []
    if repeated:
        listed.append(f"lines that say only what the ledger says, left out: {repeated:,}")
    return Checked(_GAPS.sub("\n\n", rest) if listed else rest, tuple(listed), _notes(rest, brief))


def normal(text: str) -> str:
    """The text as quotations are compared: plain quotation marks, single spaces."""
    return " ".join(text.translate(_QUOTATION_MARKS).split())


def _repeats(line: str, known: Sequence[str]) -> bool:
    """Whether one line of the ledger has all of this line, word for word."""
    said = normal(bare(line.strip())).strip(_ENDS)
    return len(said) >= SHORTEST and any(said in other for other in known)


def _in_short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1].rstrip() + "…"


# -- what people said -------------------------------------------------------------------------------------------------


@dataclass
class People:
    """What people said themselves, by the number of the message; what they paste or quote is not said by them."""

    texts: dict[int | None, list[str]] = field(default_factory=dict)
    doubtful: dict[int | None, list[str]] = field(default_factory=dict)
    """What they may have said, though it reads like another system's summary."""
    cited: set[tuple[int | None, str]] = field(default_factory=set)
    """Citations in the earlier prose: they were checked when it was written."""

    @classmethod
    def of(cls, brief: Brief) -> People:
        """Those who speak in what goes, in what stays, and in what the ledger carries."""
        unnumbered = ((None, view) for view in brief.beside)
        said: list[tuple[int | None, View]] = [*brief.numbered(), *brief.stays, *unnumbered]
        numbered = [(turn, view.text) for turn, view in said if view.origin == "person"]
        doubtful = [(turn, text) for turn, view in said if (text := doubtful_in(view))]
        if brief.ledger is not None:
            numbered += [(request.turn, request.text) for request in brief.ledger.requests if not request.doubtful]
            doubtful += [(r.turn, r.text if r.doubtful else r.beside) for r in brief.ledger.requests]
            numbered += [(rule.turn, rule.text) for rule in brief.ledger.rules if not rule.doubtful]
            rejecting = [saying for saying in brief.ledger.sayings if saying.rejected]
            numbered += [(saying.turn, saying.text) for saying in rejecting]
            numbered += [  # in the message that answers the call, too
                (turn, saying.text)
                for turn, view in said
                for saying in rejecting
                if any(saying.text in answer.text for answer in view.answers)
            ]
        people = cls()
        for turn, text in numbered:
            people.texts.setdefault(turn, []).append(text)
        for turn, text in doubtful:
            people.doubtful.setdefault(turn, []).append(text)
        for earlier in [prose.text for prose in brief.earlier] or [brief.prior]:
            people.cited |= {(turn, words.strip(_ENDS)) for line in earlier.split("\n") for turn, words in cited(line)}
        return people

    def said(self, words: str, turn: int | None = None) -> bool:
        """Whether the person's message of this number, or any when none is given, has these very words."""
        texts = [text for number, said in self.texts.items() if turn in {number, None} for text in said]
        for wanted in _without_list_signs(normal(words).strip(_ENDS)):
            if wanted and ((turn, wanted) in self.cited or any(_has(text, wanted) for text in texts)):
                return True
        return False

    def have_said(self, line: str) -> bool:
        """Whether the message that the line cites has the words that it quotes."""
        return any(self.said(words, turn) for turn, words in cited(line))

    def as_pasted(self, line: str) -> str:
        """The line as it tells of words that stand in the message it cites, and that nobody said there; else ""."""
        for turn, words in cited(line):
            wanted = normal(words).strip(_ENDS)
            for label, texts in ((PASTED, self.texts), (DOUBTFUL, self.doubtful)):
                here = texts.get(turn, ()) if turn is not None and len(wanted) >= SHORTEST else ()
                if any(next(_places(normal(text), wanted), None) is not None for text in here):
                    _, mark, quoted = normal(line).partition('"')
                    return f"{label.format(turn)} {mark}{quoted}"
        return ""


def is_citation(line: str) -> bool:
    """Whether the line begins with the number of a message and a quotation from it."""
    return _CITED.fullmatch(normal(line)) is not None


def cited(line: str) -> Iterator[tuple[int | None, str]]:
    """What the line may cite: the number of the message and the words, the longest first, for they may hold marks."""
    found = _CITED.fullmatch(normal(line))
    number, words = found.group("turn", "words") if found else ("", "")
    for _ in range(MOST_MARKS):
        words = words.rpartition('"')[0].rstrip()
        if words:
            yield (None if number == "said" else int(number)), words


@remembered
def _own(text: str) -> tuple[str, str]:
    """A person's own sentences, normal, twice: as they were said, and with other signs in the place of quotations."""
    said = list(own_sentences(text))
    core = " ".join(sentence.core for sentence in said).translate(_QUOTATION_MARKS)
    plain = " ".join(sentence.plain for sentence in said).translate(_QUOTATION_MARKS)
    kept = [i for i, sign in enumerate(core) if not (sign.isspace() and core[i - 1 : i].isspace())]
    return "".join(" " if core[i].isspace() else core[i] for i in kept), "".join(plain[i] for i in kept)


def _without_list_signs(words: str) -> set[str]:
    """The words as they are, without a number or dot that began a list, and without any: own words have none."""
    return {words, _LIST_SIGN.sub("", words, count=1) if _LIST_SIGN.match(words) else words, _LIST_SIGN.sub("", words)}


def _has(text: str, wanted: str) -> bool:
    """Whether the person's own words have this, as whole words, and not only in what they quote."""
    core, plain = _own(text)
    for place in _places(core, wanted):
        stop = place + len(wanted)
        if any(a == b and a.isalnum() for a, b in zip(core[place:stop], plain[place:stop], strict=True)):
            return True
    # Between two sentences there may be signs that belong to neither.
    return wanted in normal(text) and f" {_words(wanted)} " in f" {_words(plain)} "


def _places(text: str, wanted: str) -> Iterator[int]:
    """Where this stands in the text as whole words."""
    place = text.find(wanted)
    while place >= 0:
        stop = place + len(wanted)
        if not (_joins(text[place - 1 : place + 1]) if place else False) and not _joins(text[stop - 1 : stop + 1]):
            yield place
        place = text.find(wanted, place + 1)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text))


def _joins(pair: str) -> bool:
    """Whether two signs stand inside one word."""
    return len(pair) > 1 and all(sign.isalnum() and sign < _EASTERN for sign in pair)


# -- names ------------------------------------------------------------------------------------------------------------


def _notes(text: str, brief: Brief) -> tuple[str, ...]:
    """A few of the names and of the quotations in the prose that stand nowhere in the record."""
    views = (*brief.views, *brief.beside)
    names, unsaid = find_unfounded(text, [*map(_whole, views), brief.prior, brief.carried, brief.also, brief.state])
    found = {"in the prose and not found in the record": names, "quoted in the prose and said by nobody": unsaid}
    return tuple(f"{what}: {_some(which)}" for what, which in found.items() if which)


def find_unfounded(text: str, sources: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names and the quotations, of three words or more, in a text that stand in none of the sources."""
    record = normal("\n".join(sources)).lower()
    plain = _SEPARATOR.sub("", record)
    names: list[str] = []
    for name in _names(text):
        if not _stands(name.lower(), record, plain) and not any(name in longer for longer in names):
            names.append(name)
    plainly = _CODE.sub(lambda code: code[0].replace('"', ""), text)  # a mark in code opens and closes nothing
    quoted = [said for line in plainly.split("\n") for said in _QUOTED.findall(normal(line)) if said.count(" ") > 1]
    unsaid = [said for said in quoted if said.lower().strip(_ENDS) not in record]
    if unsaid:  # a line of code stands in the arguments of a call with signs of its own
        spoken = f" {_words(record)} "
        unsaid = [said for said in unsaid if f" {_words(said.lower())} " not in spoken]
    return names, [f'"{said}"' for said in unsaid]


def _some(found: Sequence[str]) -> str:
    more = f" and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
    return ", ".join(map(_in_short, found[:MOST_NAMED])) + more


def _names(text: str) -> list[str]:
    """What in a text has to be spelled exactly, the longest first."""
    code = " ".join(re.findall(r"`([^`\n]+)`", text))
    spelled = {*find_paths(text, by_name=True), *(entry.text for entry in collect_names([Piece(0, "model", text)]))}
    found = {name for name in spelled if not _SIMPLE.fullmatch(name) or name in code or f"{name}(" in text}
    found |= {number for number in _NUMBER.findall(text) if len(number) >= 3}
    return sorted(found, key=lambda name: (-len(name), name))


def _stands(name: str, record: str, without_separators: str) -> bool:
    """Whether a path, identifier, number or address is in the record, as a whole or put together of two parts."""
    if name in record:
        return True
    if name[:1].isdigit() or name[:1] in "$€£¥":
        return _SEPARATOR.sub("", name).strip("$€£¥% ") in without_separators
    cuts = [i for i, sign in enumerate(name) if sign == "/" and 0 < i < len(name) - 1]
    return any(name[:i] in record and name[i + 1 :] in record for i in cuts)


def _whole(view: View) -> str:
    """All that the summariser may have been shown of a message, thinking and addresses included."""
    addresses = [media.source for media in view.media if len(media.source) < 400]
    return "\n".join([view.whole_text(), *(block.text for block in view.reasoning), *addresses])


# -- rules that a reply lists ----------------------------------------------------------------------------------------


def split_rules(text: str) -> tuple[str, tuple[str, ...]]:
    """A reply without its list of standing rules, and the sentences listed there; what follows the list stays."""
    lines = text.split("\n")
    titles = [i for i, line in enumerate(lines) if _TITLE.fullmatch(line)]
    sections = list(under_each(lines, titles))
    below = ("\n".join(lines[i] for i in section[1:])[:LONGEST_RULES] for section in sections)
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
        for rule in possible_rules(turns[i], view.text) if view.origin == "person" else ():
            if _plain(rule.text) in wanted and len(rules) < MOST_RULES:
                rules.setdefault(rule.text, rule)
    return tuple(rules.values())


def _plain(sentence: str) -> str:
    return " ".join(bare(sentence.strip()).split()).strip(_MARKS + ".!\u3002\uff01")


def ledger_with(ledger: Ledger, rules: Sequence[Rule]) -> Ledger:
    """The ledger with these rules in it.

    What it holds already is not added, nor is the whole of a request that was done: that would be done again.
    """
    done = {request.text.strip() for request in ledger.finished if request.worked}
    known = [rule.text for rule in ledger.rules if not rule.doubtful]
    new = [rule for rule in rules if rule.text not in done and not any(rule.text in text for text in known)]
    return within_bounds(replace(ledger, rules=add_rules(ledger.rules, new, ledger.lifts))) if new else ledger
