"""What an archived message says, piece by piece and each with whose words it is, and where in it a query stands.

A message may hold several voices: a `user` turn can carry a tool's answer beside a person's sentence. They are told
apart here by reading the message again; where that fails, nothing is said to be a person's.
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

from unabridged.archive import codec, words
from unabridged.archive.protocol import Part
from unabridged.errors import ArchiveError
from unabridged.formats import Format, detect
from unabridged.messages import Media, View
from unabridged.text_tools import neutral, one_line

TOOL_OUTPUT: Final = "tool output"
ATTACHED: Final = "attached material, nobody's words"
_WHOSE: Final = {
    "person": "the user wrote",
    "model": "the assistant wrote",
    "tool": TOOL_OUTPUT,
    "host": "the host wrote",
    "summary": "a summary said",
}
_NOBODYS: Final = "text of unknown origin"
_MOST_PLACES: Final = 50_000
"""Occurrences looked at in one text: enough to find a good one in nearly any."""


class Piece(NamedTuple):
    """One voice's part of a message; `whose` says whose words the text is, in ours."""

    whose: str
    text: str


class Place(NamedTuple):
    """Where a query stands best: in which piece, and from which character of it to which."""

    piece: int
    start: int
    stop: int


def pieces_of(part: Part, format_: Format | None = None) -> list[Piece]:
    """The message in pieces; never empty."""
    view = _read(part, format_)
    if view is None:
        # Its text is whole but unsorted: were it called a person's, a tool's words beside theirs would be, too.
        return [Piece(_NOBODYS if part.origin == "person" else _WHOSE.get(part.origin, _NOBODYS), part.text)]
    found = [Piece("the assistant thought", block.text) for block in view.reasoning if block.text]
    if view.text:
        found.append(Piece(_WHOSE.get(part.origin, _NOBODYS), view.text))
    found += [
        Piece(f"the assistant called {neutral(one_line(c.name, 80))}", _readable(c.arguments)) for c in view.calls
    ]
    found += [Piece(f"{TOOL_OUTPUT}, an error" if a.error else TOOL_OUTPUT, a.text) for a in view.answers]
    found += [Piece(TOOL_OUTPUT if view.role == "assistant" else ATTACHED, text) for text in view.attached]
    found += [Piece(f"an attached {media.kind}", _attached(media)) for media in view.media]
    return found or [Piece(_WHOSE.get(part.origin, _NOBODYS), part.text)]


def find_place(pieces: Sequence[Piece], query: str, width: int) -> Place:
    """The stretch of at most about `width` characters that has most of the query; the beginning when none has any."""
    pattern = _pattern(query)
    best, most = Place(0, 0, min(width, len(pieces[0].text))), 0
    for index, piece in enumerate(pieces):
        folded, places = _folded(piece.text)
        held, first, last = _densest(folded, pattern, width)
        if (weight := sum(map(len, held))) > most:
            most = weight
            best = Place(index, *_around(piece.text, places[first], places[last - 1] + 1, width))
    return best


def worth_of_stretches(texts: Sequence[str], query: str, width: int = 300) -> list[float]:
    """For each text what the words of the query are worth that stand together in one stretch of it.

    A word is worth the more, the fewer of the texts have it in theirs.
    """
    pattern = _pattern(query)
    held = [_densest(words.fold(text), pattern, width)[0] for text in texts]
    spread = Counter(term for terms in held for term in terms)
    return [sum(log(1 + len(texts) / spread[term]) for term in terms) for terms in held]


def _read(part: Part, format_: Format | None) -> View | None:
    """What the message says, if reading it gives what was archived as its text (which may have been redacted)."""
    try:
        message = codec.decode(part.body)
        view = (format_ or detect([message])).read(message)
    except (ArchiveError, TypeError, ValueError, AttributeError):
        return None  # another program's classes, or a format of its own
    return view if view.whole_text() == part.text else None


def _readable(arguments: str) -> str:
    r"""A call's arguments; `\uXXXX` as the characters they stand for, which nobody should have to read in code."""
    if "\\u" not in arguments:
        return arguments
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _attached(media: Media) -> str:
    where = media.source if len(media.source) <= 300 and "://" in media.source[:12] else ""
    return ", ".join(item for item in (media.name, media.mime, where) if item) or "without a name"


def _pattern(query: str) -> re.Pattern[str] | None:
    """What to look for in folded text: phrases, names, and the parts of names, the longest first; None for nothing."""
    parsed = words.parse(query)
    found = dict.fromkeys((*parsed.phrases, *(term for name in parsed.names for term in (name.whole, *name.parts))))
    terms = sorted((term for term in found if term), key=len, reverse=True)[:60]
    return re.compile("|".join(_spelled(term) for term in terms)) if terms else None


def _densest(folded: str, pattern: re.Pattern[str] | None, width: int) -> tuple[frozenset[str], int, int]:
    """(terms, first, last) of the stretch that holds most: each term once, the longer the heavier."""
    best: tuple[frozenset[str], int, int] = (frozenset(), 0, 0)
    found = list(islice(pattern.finditer(folded), _MOST_PLACES)) if pattern else []
    held: Counter[str] = Counter()
    begin = weight = most = 0
    for match in found:
        weight += 0 if held[match[0]] else len(match[0])
        held[match[0]] += 1
        # What comes again later is not needed here: the stretch is as tight as it can be.
        while held[found[begin][0]] > 1 or (match.end() - found[begin].start() > width and found[begin] is not match):
            gone = found[begin][0]
            held[gone] -= 1
            weight -= 0 if held[gone] else len(gone)
            begin += 1
        tighter = weight == most and match.end() - found[begin].start() < best[2] - best[1]
        if weight > most or tighter:
            most, best = weight, (frozenset(+held), found[begin].start(), match.end())
    return best


def _spelled(term: str) -> str:
    r"""The term as it may stand in a text: with any white space, with JSON's `\uXXXX`; a short one only as a word."""
    plain = r"\s+".join(re.escape(word) for word in term.split(" "))
    if term.isascii():
        return rf"(?<![^\W_]){plain}(?![^\W_])" if len(term) < 4 and term.isalnum() else plain
    return f"{plain}|{re.escape(json.dumps(term)[1:-1])}"


@lru_cache(4_096)
def _fold(character: str) -> str:
    """The character as search compares it."""
    return unicodedata.normalize("NFKC", character).casefold()


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """The text without case and width, and the place in the text that each of its characters came from."""
    lower = text.lower()
    if len(lower) == len(text) and unicodedata.is_normalized("NFKC", text):
        return lower, range(len(text))
    characters = [*map(_fold, text)]
    return "".join(characters), [place for place, folded in enumerate(characters) for _ in folded]


def _around(text: str, first: int, last: int, width: int) -> tuple[int, int]:
    """The stretch with about as much before it as after it, from word to word."""
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
