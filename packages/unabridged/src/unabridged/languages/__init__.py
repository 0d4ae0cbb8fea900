"""Languages, one JSON file each: our own headings, and how a model refuses.

What was said is never translated; only headings and labels follow the conversation. To add a language, add a file: no
code names one, and an entry that it lacks is English's. `en.json` has every entry:

    name                   what the language is called, in English
    common                 its commonest words, by which it is recognised
    words                  our headings and labels
    abbreviations          words with a dot that end no sentence
    refusals, apologies    how a model begins that refuses to write a summary

Refusals and apologies are regular expressions in lower case; a space in one also matches a comma. Those of all
languages are tried at once.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any


@cache
def load_language_tables() -> MappingProxyType[str, dict[str, Any]]:
    """Return everything the files hold, by language code; a file need not have every entry."""
    files = sorted(Path(__file__).parent.glob("*.json"))
    return MappingProxyType({file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files})


@cache
def get_labels(language: str) -> MappingProxyType[str, str]:
    """Return our headings and labels in this language, each in English where there is none."""
    tables = load_language_tables()
    return MappingProxyType({**tables["en"]["words"], **tables.get(language, {}).get("words", {})})


def get_language_name(code: str) -> str:
    """Return what a language is called in English; "" for one that no file tells of."""
    return str(load_language_tables().get(code, {}).get("name", ""))


def fold_case(text: str) -> str:
    """Return the text as phrases are looked for in it: lower case, straight apostrophes."""
    return text.lower().replace("\u2019", "'").replace("\u2018", "'")


def collect_phrases(kind: str) -> frozenset[str]:
    """Return the phrases of this kind, such as `refusals`, in all languages; English has every kind."""
    if kind not in load_language_tables()["en"]:
        raise KeyError(kind)
    return frozenset(phrase for table in load_language_tables().values() for phrase in table.get(kind, ()))


def measure_phrase_match(kind: str, text: str) -> int:
    """Return how far a phrase of this kind at the very beginning of a folded text reaches; 0 when none stands there."""
    matches = (pattern.match(text) for pattern in _compile_phrases(kind))
    return max((match.end() for match in matches if match), default=0)


@cache
def _compile_phrases(kind: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern.replace(" ", "[ ,]+")) for pattern in sorted(collect_phrases(kind)))
