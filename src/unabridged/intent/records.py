"""Whether a text reads like the record of an earlier conversation that some system wrote in its own way.

Learned by counting, not by rules: in how many such records a word stands, and in how many texts that people write or
paste (`tests/lists/records`; `scripts/generate_records.py` makes `records.json` of them and says how well it does on
writers it has not seen). What speaks for either side is added up over the words of a text. Words of a language it was
not learned from say nothing, so that in doubt a text is a person's.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path

from unabridged.languages import EASTERN, folded

_WORD = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")
_READ, SURE = 6_000, 0.8
"""Characters that are read; the likeness from which on a text is a record by its words alone."""


def words_of(text: str) -> set[str]:
    """The words and signs of a text, every number as 0; where words have no spaces, the pairs of signs in a row."""
    found = set[str]()
    for word in _WORD.findall(folded(text[:_READ])):
        if word[0] > EASTERN and len(word) > 1:
            found.update(word[i : i + 2] for i in range(len(word) - 1))
        else:
            found.add("0" if word.isdigit() else word)
    return found


@cache
def _weights() -> dict[str, float]:
    """What each word speaks for: a record above 0, a person below."""
    table = json.loads(Path(__file__).with_name("records.json").read_text(encoding="utf-8"))
    return {word: int(tenths) / 10 for tenths, words in table.items() for word in words.split(" ")}


def likeness(text: str) -> float:
    """How far the words of a text speak for a record (above 0) or for a person."""
    return weigh(words_of(text), _weights())


def weigh(words: set[str], weights: dict[str, float]) -> float:
    """What the words speak for, by the square root of how many do: as likely by chance in a long text as in a short."""
    found = [weights[word] for word in words if word in weights]
    return math.fsum(found) / math.sqrt(max(len(found), 1))
