"""The files of this folder as they are read, and their phrases as they are looked for in a text.

A label is English where a file lacks it; the phrases of one kind are looked for in all languages at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
EASTERN = "\u2e7f"
"""Scripts above this sign write without spaces."""
_GAP = r"(?:[^.!?\n]|[.!?](?=\w)){1,40}?"
"""A few words of the same sentence; the dot in a file's name ends none."""


@cache
def tables() -> MappingProxyType[str, dict[str, Any]]:
    """Everything the files hold, by language code; a file need not have every entry."""
    files = sorted(Path(__file__).parent.glob("*.json"))
    return MappingProxyType({file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files})


@cache
def labels(language: str) -> MappingProxyType[str, str]:
    """Our headings and labels in this language, each in English where there is none."""
    return MappingProxyType({**tables()["en"]["words"], **tables().get(language, {}).get("words", {})})


def language_name(code: str) -> str:
    """What a language is called in English; "" for one that no file tells of."""
    name: str = tables().get(code, {}).get("name", "")
    return name


class Phrases(NamedTuple):
    """The phrases of one kind in all languages, ready to be looked for."""

    by_word: dict[str, list[tuple[str, str]]]
    """By the first word, so that a text costs one look-up a word; each with a word that a text must have for it."""
    eastern: tuple[str, ...]

    def found(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the phrases stand in a text that `folded` returned."""
        for word, start in _words(text):
            for phrase, needed in self.by_word.get(word, ()):
                if needed in text and (match := _pattern(phrase).match(text, start)):
                    yield match.span()
        if not text.isascii():
            for phrase in self.eastern:
                if phrase.partition("…")[0] in text and (match := _pattern(phrase).search(text)):
                    yield match.span()

    def at_start(self, text: str) -> int:
        """How far a phrase at the very beginning of the text reaches; 0 when none stands there."""
        first = _WORD.match(text)
        begins = [first[0], first[0].partition("'")[0] + "'"] if first else []
        listed = [pair for word in begins for pair in self.by_word.get(word, ())]
        matches = [_pattern(phrase).match(text) for phrase, needed in listed if needed in text]
        if text[:1] > EASTERN:
            matches += [_pattern(phrase).match(text) for phrase in self.eastern if phrase[0] == text[0]]
        return max((match.end() for match in matches if match), default=0)

    def inside(self, text: str) -> bool:
        """Whether any of them stands in the text."""
        return any(True for _ in self.found(text))


@lru_cache(maxsize=256)
def _words(text: str) -> tuple[tuple[str, int], ...]:
    """The words of a text with their places; a sentence is looked through several times in a row."""
    found = []
    for match in _WORD.finditer(text):
        word = match[0]
        found.append((word, match.start()))
        if "'" in word:  # French elides: n'utilise, d'abord
            found.append((word[: word.index("'") + 1], match.start()))
    return tuple(found)


def folded(text: str) -> str:
    """The text as phrases are looked for in it: lower case, straight apostrophes, the same length."""
    lower = text.lower()
    if len(lower) != len(text):  # A few capitals grow when lowered; positions must stay true.
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lower.replace("\u2019", "'").replace("\u2018", "'")


@cache
def phrases(*kinds: str) -> Phrases:
    """The phrases of these kinds in all languages."""
    by_word: dict[str, list[tuple[str, str]]] = {}
    eastern: list[str] = []
    for phrase in dict.fromkeys(_listed(kinds)):
        if phrase[0] > EASTERN:
            eastern.append(phrase)
            continue
        begin, *rest = phrase.split()
        needed = max((word for word in rest if word.isalpha()), key=len, default="")
        for first in begin.split("|"):
            key = first[:2] if first.endswith("'…") else first.rstrip("*,.!:…")
            for spelled in dict.fromkeys((key, key.replace("n't", "nt"))):  # typed in haste, without the apostrophe
                by_word.setdefault(spelled, []).append((phrase, needed))
    return Phrases(by_word, tuple(eastern))


@cache
def vocabulary(*kinds: str) -> frozenset[str]:
    """The single words of these kinds, in all languages."""
    return frozenset(_listed(kinds))


def _listed(kinds: Iterable[str]) -> Iterator[str]:
    """What the files list under these kinds. English has every kind; a language that lacks one adds nothing to it."""
    if unknown := set(kinds) - set(tables()["en"]):
        raise KeyError(*unknown)
    return (phrase for table in tables().values() for kind in kinds for phrase in table.get(kind, ()))


@cache
def eastern_words(*kinds: str) -> re.Pattern[str]:
    """A pattern for text that is made of nothing but words of these kinds, in scripts without spaces."""
    words = sorted((word for word in vocabulary(*kinds) if word[0] > EASTERN), key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(map(re.escape, words))})+")


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    """The phrase as a pattern; compiled when it may stand in a text, because most never do."""
    if phrase[0] > EASTERN:
        return re.compile(r"[^\n]{0,12}?".join(re.escape(part) for part in phrase.split("…")))
    words = [_GAP if word == "…" else f"(?:{'|'.join(map(_open, word.split('|')))})" for word in phrase.split()]
    pattern = r"[ ,]+".join(words).replace(f"[ ,]+{_GAP}", _GAP).replace(f"{_GAP}[ ,]+", _GAP)
    return re.compile(rf"\b{pattern}" + (r"(?!\w)" if phrase[-1].isalnum() else ""))


def _open(word: str) -> str:
    if word.startswith("…"):
        return r"\w+" + re.escape(word[1:])
    if word.endswith("…"):
        return re.escape(word[:-1]) + _GAP
    return re.escape(word[:-1]) + r"\w*" if word.endswith("*") else re.escape(word).replace("n't", "n'?t")
