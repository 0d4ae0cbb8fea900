"""Whether a text reads like the record of an earlier conversation that some system wrote in its own way.

Learned by counting, not by rules: in how many such records a word stands, and in how many texts that people write or
paste (`tests/lists/records`; `scripts/generate_records.py` makes `records.json` of them and says how well it does on
writers it has not seen). Where a word stands counts too: people and records differ most in how they begin and end. What
speaks for either side is added up over the words of a text. Words of a language it was not learned from say nothing, so
that in doubt a text is a person's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from unabridged.languages import EASTERN, folded
from unabridged.text_tools import sentences

_WORD = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")
_STEM, _FEW, ALIKE = 6, 30, 0.5
"""Letters of a word that count, for its endings say little; traits below which a text can't be sure of itself; the
likeness from which on it may be a record."""


def traits_of(text: str) -> set[str]:
    """What counts in a text: words, pairs of words in a row, and apart from them what opens a sentence or the whole.

    Marked are the first word of a sentence (">"), and all words of the first ("^") and of the last ("$").
    """
    said = [[*_words(piece)] for piece in sentences(folded(text))] or [[]]
    found = {word for words in said for word in words}
    plain = [[word for word in words if word.isalnum()] for words in said]
    for words in plain:
        found.update(f">{word}" for word in words[:1])
        found.update(map("_".join, pairwise(words)))
    for mark, words in ("^", plain[0]), ("$", plain[-1]):
        found.update(mark + word for word in words)
    return found


def _words(text: str) -> Iterator[str]:
    """The words and signs in order, every number as 0; where words have no spaces, the pairs of signs in a row."""
    for word in _WORD.findall(text):
        if word[0] > EASTERN and len(word) > 1:
            yield from (word[i : i + 2] for i in range(len(word) - 1))
        else:
            yield "0" if word.isdigit() else word[:_STEM]


@cache
def _weights() -> dict[str, float]:
    """What each trait speaks for: a record above 0, a person below."""
    table = json.loads(Path(__file__).with_name("records.json").read_text(encoding="utf-8"))
    return {trait: int(tenths) / 10 for tenths, traits in table.items() for trait in traits.split(" ")}


def likeness(text: str) -> float:
    """How far the words of a text speak for a record (above 0) or for a person."""
    return weigh(traits_of(text), _weights())


def weigh(traits: set[str], weights: dict[str, float]) -> float:
    """What the traits speak for, by the square root of how many: as likely by chance in a long text as in a short."""
    found = [weights[trait] for trait in traits if trait in weights]
    return math.fsum(found) / math.sqrt(max(len(found), _FEW))
