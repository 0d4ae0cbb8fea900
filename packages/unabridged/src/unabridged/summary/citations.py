"""Check what of a model's prose may stand in a summary turn. Every check is exact; none understands the text.

    headings       one of ours goes with what stands under it (`headings`)
    citations      a line that begins with `[n] "words"` stays only if person's message n has these words
    names          paths, identifiers and numbers that stand nowhere are listed in the receipt; the text stays as it is
    quotations     elsewhere, of three words or more, that nobody said: likewise

Everything else is the model's own words, and the heading of the prose says so: no sentence in it is anybody's approval.
What people really said stands word for word beside it. Rules that a reply lists are checked in `rules`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from unabridged.authorship import find_own_sentences
from unabridged.messages import View
from unabridged.summary.brief import Brief
from unabridged.summary.headings import level_headings, neutralise_line, remove_bare_headings
from unabridged.summary.names import TextPiece, collect_names, find_paths
from unabridged.text_cache import cache_by_text

MAX_LISTED = 40
"""Lines that were left out and are listed one by one."""
MAX_NAMED = 8
"""Names and quotations that stand nowhere and are listed one by one."""
MAX_SHOWN_CHARACTERS = 160
"""Characters of a line that a receipt shows."""
MAX_MARKS = 40
"""Quotation marks in a line that are tried as the end of what it cites."""
MIN_PASTE_CHARACTERS = 16
"""Characters of a quotation from which on it is more than a few words that anybody says."""

_CITATION_PATTERN = re.compile(
    r"\W{0,9}(?:\d{1,3}[.)] )?\W{0,9}\[(?P<turn>\d{1,9}|said)\][^\w\"]{0,9}(?:user\W{0,3})?\"(?P<words>.*)"
)
PASTED_LINE = "- Pasted in message {}:"
"""Before what a line cites that stands in the user's message, but as what somebody else wrote."""
_LIST_SIGN_PATTERN = re.compile(r"(?<!\S)(?:\d{1,2}[.)]|[-*+\u2022]) ")
_QUOTATION_MARKS = str.maketrans(
    "\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f\u2018\u2019\u201a\u201b\u2039\u203a",
    '""""""""""' + "''''''",
)
_WORD_PATTERN = re.compile(r"\w+")
_END_PUNCTUATION = ".,;:!?\u2026 \u3002\uff01\uff1f\uff0c"
_QUOTATION_PATTERN = re.compile(r"\"([^\"]{1,400})\"")
_CODE_PATTERN = re.compile(r"`[^`\n]*`")
_BLANK_LINES_PATTERN = re.compile(r"\n{3,}")
# GitHub, JSON, Node.js: nobody's identifier, unless it is written as one.
_COMMON_NAME_PATTERN = re.compile(r"[A-Z]?[a-z]+[A-Z][A-Za-z]*|[A-Z]{3,}[a-z]*|[A-Z][a-z]+\.(?:js|io|net|ai)")
_NUMBER_PATTERN = re.compile(r"(?<![\w.,/:#\[-])\d[\d,.]*\d(?![\w/:-])")
_THOUSANDS_SEPARATOR_PATTERN = re.compile(r"(?<=\d)[,.' \u00a0\u202f](?=\d{3}(?!\d))")
_FIRST_EASTERN_CHARACTER = "\u2e80"
"""From here on, scripts without spaces."""


class CheckedProse(NamedTuple):
    """The prose as it may stand, what was left out of it, and what else a receipt should say."""

    text: str
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_prose(text: str, brief: Brief) -> CheckedProse:
    """Return the prose without what may not stand in it; "" when nothing is left."""
    lines, posing = level_headings(text)
    people = PeopleWords(brief)
    reasons = dict.fromkeys(f"stood under a heading of ours, left out: {_shorten_line(line)}" for line in posing)
    kept: list[str] = []
    for line in lines:
        cites = is_citation(line)
        if cites and not people.is_citation_true(line):
            why = "the user's message does not say it, left out"
            if pasted := people.cite_as_pasted_text(line):
                why = "in the user's message, but not as their own words, told as such"
                kept.append(pasted)
            reasons[f"{why}: {_shorten_line(line)}"] = None
        else:
            kept.append(line)
    rest = "\n".join(neutralise_line(line) for line in remove_bare_headings(kept)).strip()
    listed, more = [*reasons][:MAX_LISTED], len(reasons) - MAX_LISTED
    listed += [f"and {more:,} more"] * (more > 0)
    checked = _BLANK_LINES_PATTERN.sub("\n\n", rest) if listed else rest
    return CheckedProse(checked, tuple(listed), _build_receipt_notes(rest, brief))


def normalise_quotation(text: str) -> str:
    """Return the text as quotations are compared: plain quotation marks, single spaces."""
    return " ".join(text.translate(_QUOTATION_MARKS).split())


def _shorten_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[: MAX_SHOWN_CHARACTERS - 1].rstrip() + "…"


# -- what people said -------------------------------------------------------------------------------------------------


class PeopleWords:
    """What people said themselves, by the number of the message; what they paste or quote is not said by them."""

    def __init__(self, brief: Brief) -> None:
        """Collect the words of those who speak in what goes, in what stays, and in what the ledger carries."""
        self.texts = defaultdict[int | None, list[str]](list)
        self.cited = set[tuple[int | None, str]]()
        """Citations in the earlier prose: they were checked when it was written."""
        unnumbered = ((None, view) for view in brief.beside.views)
        views: list[tuple[int | None, View]] = [*brief.list_numbered_messages(), *brief.beside.following, *unnumbered]
        for turn, view in views:
            if view.origin == "person":
                self.texts[turn].append(view.text)
        for message in brief.ledger.people if brief.ledger else ():
            self.texts[message.turn].append(message.text)
            for turn, view in views:  # what was said when a call was rejected stands in its result, too
                if message.rejected and any(message.text in answer.text for answer in view.answers):
                    self.texts[turn].append(message.text)
        for rule in brief.ledger.rules if brief.ledger else ():
            self.texts[rule.turn].append(rule.text)
        for earlier in [prose.text for prose in brief.earlier.proses] or [brief.earlier.prose]:
            found = (citation for line in earlier.split("\n") for citation in find_citations(line))
            self.cited.update((turn, words.strip(_END_PUNCTUATION)) for turn, words in found)

    def is_said(self, words: str, turn: int | None = None) -> bool:
        """Return whether the person's message of this number (any, when None) has exactly these words."""
        texts = [text for number, said in self.texts.items() if turn in {number, None} for text in said]
        for wanted in _strip_list_signs(normalise_quotation(words).strip(_END_PUNCTUATION)):
            if wanted and ((turn, wanted) in self.cited or any(has_own_words(text, wanted) for text in texts)):
                return True
        return False

    def is_citation_true(self, line: str) -> bool:
        """Return whether the message that the line cites has the words that it quotes."""
        return any(self.is_said(words, turn) for turn, words in find_citations(line))

    def cite_as_pasted_text(self, line: str) -> str:
        """Return the line, reworded as a citation of pasted text; "" where the message does not contain the words."""
        for turn, words in find_citations(line):
            wanted = normalise_quotation(words).strip(_END_PUNCTUATION)
            here = self.texts.get(turn, ()) if turn is not None and len(wanted) >= MIN_PASTE_CHARACTERS else ()
            if any(next(_find_word_places(normalise_quotation(text), wanted), None) is not None for text in here):
                _, mark, quoted = normalise_quotation(line).partition('"')
                return f"{PASTED_LINE.format(turn)} {mark}{quoted}"
        return ""


def is_citation(line: str) -> bool:
    """Return whether the line begins with the number of a message and a quotation from it."""
    return _CITATION_PATTERN.fullmatch(normalise_quotation(line)) is not None


def find_citations(line: str) -> Iterator[tuple[int | None, str]]:
    """Yield what the line may cite: the message's number and the words, the longest first, for they may hold marks."""
    found = _CITATION_PATTERN.fullmatch(normalise_quotation(line))
    number, words = found.group("turn", "words") if found else ("", "")
    for _ in range(MAX_MARKS):
        words = words.rpartition('"')[0].rstrip()
        if words:
            yield (None if number == "said" else int(number)), words


@cache_by_text
def _read_own_sentences(text: str) -> tuple[str, str]:
    """Return a person's own sentences, normalised, twice: as they are, and with other signs in place of quotations."""
    said = list(find_own_sentences(text))
    core = " ".join(sentence.core for sentence in said).translate(_QUOTATION_MARKS)
    plain = " ".join(sentence.without_quotations for sentence in said).translate(_QUOTATION_MARKS)
    kept = [i for i, sign in enumerate(core) if not (sign.isspace() and core[i - 1 : i].isspace())]
    return "".join(" " if core[i].isspace() else core[i] for i in kept), "".join(plain[i] for i in kept)


def _strip_list_signs(words: str) -> set[str]:
    """Return the words as they are, without a number or dot that began a list, and without any."""
    first = _LIST_SIGN_PATTERN.sub("", words, count=1) if _LIST_SIGN_PATTERN.match(words) else words
    return {words, first, _LIST_SIGN_PATTERN.sub("", words)}


def has_own_words(text: str, wanted: str) -> bool:
    """Return whether these are whole words of the person's own, and not only of what they quote."""
    core, plain = _read_own_sentences(text)
    for place in _find_word_places(core, wanted):
        stop = place + len(wanted)
        if any(a == b and a.isalnum() for a, b in zip(core[place:stop], plain[place:stop], strict=True)):
            return True
    # Between two sentences there may be signs that belong to neither.
    return wanted in normalise_quotation(text) and f" {_join_words(wanted)} " in f" {_join_words(plain)} "


def _find_word_places(text: str, wanted: str) -> Iterator[int]:
    """Yield where this stands in the text as whole words."""
    place = text.find(wanted)
    while place >= 0:
        stop = place + len(wanted)
        if not any(_is_inside_word(text[edge - 1 : edge + 1]) for edge in (place, stop)):
            yield place
        place = text.find(wanted, place + 1)


def _join_words(text: str) -> str:
    return " ".join(_WORD_PATTERN.findall(text))


def _is_inside_word(pair: str) -> bool:
    """Return whether two signs stand inside one word."""
    return len(pair) > 1 and all(sign.isalnum() and sign < _FIRST_EASTERN_CHARACTER for sign in pair)


# -- names ------------------------------------------------------------------------------------------------------------


def _build_receipt_notes(text: str, brief: Brief) -> tuple[str, ...]:
    """Return a few of the names and of the quotations in the prose that stand nowhere in the record."""
    sources = [*map(_read_shown_text, (*brief.views, *brief.beside.views)), brief.earlier.prose]
    names, unsaid = find_unfounded(text, [*sources, brief.beside.other_text, brief.state])
    found = {"in the prose and not found in the record": names, "quoted in the prose and said by nobody": unsaid}
    return tuple(f"{what}: {_join_some(entries)}" for what, entries in found.items() if entries)


def find_unfounded(text: str, sources: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names in a text, and its quotations of three words or more, that none of the sources contains."""
    record = normalise_quotation("\n".join(sources)).lower()
    plain = _THOUSANDS_SEPARATOR_PATTERN.sub("", record)
    names: list[str] = []
    for name in _find_exact_names(text):
        if not _is_in_record(name.lower(), record, plain) and not any(name in longer for longer in names):
            names.append(name)
    plainly = _CODE_PATTERN.sub(lambda code: code[0].replace('"', ""), text)  # a mark in code opens and closes nothing
    quoted = [words for line in plainly.split("\n") for words in _QUOTATION_PATTERN.findall(normalise_quotation(line))]
    unsaid = [words for words in quoted if words.count(" ") > 1 and words.lower().strip(_END_PUNCTUATION) not in record]
    if unsaid:  # a line of code stands in the arguments of a call with signs of its own
        spoken = f" {_join_words(record)} "
        unsaid = [words for words in unsaid if f" {_join_words(words.lower())} " not in spoken]
    return names, [f'"{words}"' for words in unsaid]


def _join_some(entries: Sequence[str]) -> str:
    more = f" and {len(entries) - MAX_NAMED:,} more" if len(entries) > MAX_NAMED else ""
    return ", ".join(map(_shorten_line, entries[:MAX_NAMED])) + more


def _find_exact_names(text: str) -> list[str]:
    """Return what in a text has to be spelled exactly, the longest first."""
    code = " ".join(re.findall(r"`([^`\n]+)`", text))
    spelled = {*find_paths(text, by_name=True), *(entry.text for entry in collect_names([TextPiece(0, "model", text)]))}
    found = {name for name in spelled if not _COMMON_NAME_PATTERN.fullmatch(name) or name in code or f"{name}(" in text}
    found |= {number for number in _NUMBER_PATTERN.findall(text) if len(number) >= 3}
    return sorted(found, key=lambda name: (-len(name), name))


def _is_in_record(name: str, record: str, without_separators: str) -> bool:
    """Return whether the record has this path, identifier, number or address, whole or in two parts."""
    if name in record:
        return True
    if name[:1].isdigit() or name[:1] in "$€£¥":
        return _THOUSANDS_SEPARATOR_PATTERN.sub("", name).strip("$€£¥% ") in without_separators
    cuts = [i for i, sign in enumerate(name) if sign == "/" and 0 < i < len(name) - 1]
    return any(name[:i] in record and name[i + 1 :] in record for i in cuts)


def _read_shown_text(view: View) -> str:
    """Return all that the summariser may have been shown of a message, thinking and addresses included."""
    addresses = [media.source for media in view.media if len(media.source) < 400]
    return "\n".join([view.whole_text(), *(block.text for block in view.reasoning), *addresses])
