"""Split an archived message by whose words it has, and find where in it a query is.

A message may have several voices: a `user` turn can carry a tool's answer beside a person's sentence. They are split
here by reading the message again; where that fails, nothing is attributed to a person.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from math import log
from typing import Final, NamedTuple

from unabridged.archive import words
from unabridged.archive.protocol import Part
from unabridged.archive.references import read_body_view
from unabridged.formats import Format
from unabridged.messages import Media
from unabridged.text_tools import neutralise_markup, to_one_line

TOOL_OUTPUT: Final = "tool output"
ATTACHED_MATERIAL: Final = "attached material, nobody's words"
_AUTHOR_LABELS: Final = {
    "person": "the user wrote", "model": "the assistant wrote", "tool": TOOL_OUTPUT, "host": "the host wrote",
    "summary": "a summary said",
}  # fmt: skip
_UNKNOWN_AUTHOR: Final = "text of unknown origin"
_MAX_OCCURRENCES: Final = 50_000
"""Looked at in one text: enough to find a good stretch in nearly any."""


class AttributedText(NamedTuple):
    """One voice's part of a message; `whose` says in our words whose text it is."""

    whose: str
    text: str


class MatchPosition(NamedTuple):
    """The stretch that has most of a query: in which piece, and from which character of it to which."""

    piece: int
    start: int
    stop: int


def split_by_voice(part: Part, format_: Format | None = None) -> list[AttributedText]:
    """Return the message in pieces, at least one."""
    view, whose = read_body_view(part.body, format_), _AUTHOR_LABELS.get(part.origin, _UNKNOWN_AUTHOR)
    if view is None or (view.role, view.whole_text()) != (part.role, part.text):  # its text may have been redacted
        # Its text is complete but unsorted: called a person's, it would make a tool's words beside theirs one's, too.
        return [AttributedText(_UNKNOWN_AUTHOR if part.origin == "person" else whose, part.text)]
    pieces = [AttributedText("the assistant thought", block.text) for block in view.reasoning if block.text]
    if view.text:
        pieces.append(AttributedText(whose, view.text))
    for call in view.calls:
        name = neutralise_markup(to_one_line(call.name, 80))
        pieces.append(AttributedText(f"the assistant called {name}", _unescape_arguments(call.arguments)))
    pieces += [AttributedText(f"{TOOL_OUTPUT}, an error" if a.error else TOOL_OUTPUT, a.text) for a in view.answers]
    material = TOOL_OUTPUT if view.role == "assistant" else ATTACHED_MATERIAL
    pieces += [AttributedText(material, text) for text in view.attached]
    pieces += [AttributedText(f"an attached {media.kind}", _describe_media(media)) for media in view.media]
    return pieces or [AttributedText(whose, part.text)]


def find_best_stretch(pieces: Sequence[AttributedText], query: str, width: int) -> MatchPosition:
    """Return the stretch of about `width` characters that has most of the query; the beginning when none has any."""
    pattern = _compile_query(query)
    best, most = MatchPosition(0, 0, min(width, len(pieces[0].text))), 0
    for index, piece in enumerate(pieces):
        folded, places = _fold_text(piece.text)
        terms, first, last = _find_densest_stretch(folded, pattern, width)
        if (weight := sum(map(len, terms))) > most:
            most = weight
            best = MatchPosition(index, *_widen_to_words(piece.text, places[first], places[last - 1] + 1, width))
    return best


def score_best_stretches(texts: Sequence[str], query: str, width: int = 300) -> list[float]:
    """Return for each text the worth of those words of the query that are together in one stretch of it.

    A word is worth the more, the fewer of the texts have it in their stretch.
    """
    pattern = _compile_query(query)
    terms_of = [_find_densest_stretch(words.fold_text(text), pattern, width)[0] for text in texts]
    spread = Counter(term for terms in terms_of for term in terms)
    return [sum(log(1 + len(texts) / spread[term]) for term in terms) for terms in terms_of]


def _unescape_arguments(arguments: str) -> str:
    r"""Return a call's arguments with each `\uXXXX` as the character it stands for."""
    if "\\u" not in arguments:
        return arguments
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _describe_media(media: Media) -> str:
    where = media.source if len(media.source) <= 300 and "://" in media.source[:12] else ""
    return ", ".join(item for item in (media.name, media.mime, where) if item) or "without a name"


def _compile_query(query: str) -> re.Pattern[str] | None:
    """Compile what to look for in folded text: phrases, names and their parts, the longest first; None for nothing."""
    parsed = words.parse_query(query)
    names = (term for name in parsed.names for term in (name.whole, *name.parts))
    terms = sorted(filter(None, dict.fromkeys((*parsed.phrases, *names))), key=len, reverse=True)[:60]
    return re.compile("|".join(_build_term_pattern(term) for term in terms)) if terms else None


def _find_densest_stretch(folded: str, pattern: re.Pattern[str] | None, width: int) -> tuple[frozenset[str], int, int]:
    """Return (terms, first, last) of the stretch that has most: each term once, the longer the heavier."""
    best: tuple[frozenset[str], int, int] = (frozenset(), 0, 0)
    matches = list(islice(pattern.finditer(folded), _MAX_OCCURRENCES)) if pattern else []
    inside: Counter[str] = Counter()
    begin = weight = most = 0
    for match in matches:
        weight += 0 if inside[match[0]] else len(match[0])
        inside[match[0]] += 1
        # What comes again later is not needed here: the stretch is as tight as it can be.
        while inside[matches[begin][0]] > 1 or (
            match.end() - matches[begin].start() > width and matches[begin] is not match
        ):
            left = matches[begin][0]
            inside[left] -= 1
            weight -= 0 if inside[left] else len(left)
            begin += 1
        start, stop = matches[begin].start(), match.end()
        if weight > most or (weight == most and stop - start < best[2] - best[1]):
            most, best = weight, (frozenset(+inside), start, stop)
    return best


def _build_term_pattern(term: str) -> str:
    r"""Return a pattern of the term: with any white space, with JSON's `\uXXXX`; a short one only as a word."""
    plain = r"\s+".join(re.escape(word) for word in term.split(" "))
    if term.isascii():
        return rf"(?<![^\W_]){plain}(?![^\W_])" if len(term) < 4 and term.isalnum() else plain
    return f"{plain}|{re.escape(json.dumps(term)[1:-1])}"


@lru_cache(4_096)
def _fold_character(character: str) -> str:
    """Return the character as search compares it."""
    return unicodedata.normalize("NFKC", character).casefold()


def _fold_text(text: str) -> tuple[str, Sequence[int]]:
    """Return the text without case and width, and the place in the text that each of its characters came from."""
    lower = text.lower()
    if len(lower) == len(text) and unicodedata.is_normalized("NFKC", text):
        return lower, range(len(text))
    characters = [*map(_fold_character, text)]
    return "".join(characters), [place for place, folded in enumerate(characters) for _ in folded]


def _widen_to_words(text: str, first: int, last: int, width: int) -> tuple[int, int]:
    """Return the stretch with about as much before it as after it, from word to word."""
    last = min(last, first + width)
    spare = width - (last - first)
    start, stop = max(first - spare // 2, 0), min(last + spare // 2, len(text))
    if stop - start < width:
        start, stop = max(stop - width, 0), min(start + width, len(text))
    if start:
        space = text.find(" ", start, min(start + 30, first))
        start = space + 1 if space >= 0 else start
    if stop < len(text):
        space = text.rfind(" ", max(stop - 30, last), stop)
        stop = space if space >= 0 else stop
    return start, stop
