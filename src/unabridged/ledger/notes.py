"""Sentences of the assistant's worth carrying: what it found, decided, finished; not what it was about to do."""

from __future__ import annotations

import re
from collections.abc import Iterable

from unabridged.ledger.entries import Note
from unabridged.ledger.languages import folded, phrases
from unabridged.ledger.phrasing import bare, one_line, sentences, without_fences

LIMIT = 320
"""Characters of a note."""

_EXACT = re.compile(r"`[^`\n]+`|\b\w+_\w+|\b[a-z]+[A-Z]\w+|\b\d[\d.,:%/-]*\d\b|\"[^\"\n]{2,60}\"|[\w-]+\.[a-z]{1,4}\b")


def notes_in(turn: int, text: str, *, closing: bool) -> list[Note]:
    """The best sentences of one message; `closing` words, with which the assistant hands back, tell the most."""
    found = []
    for sentence in sentences(without_fences(text[:20_000])):
        said = bare(sentence)
        weight = _weight(said)
        if weight > 0:
            found.append(Note(turn, one_line(said, LIMIT), weight + (0.5 if closing else 0.0)))
    found.sort(key=lambda note: -note.weight)
    return found[: 4 if closing else 2]


def distinct(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The notes in order, the later one where two say the same."""
    last = {_key(note.text): note for note in notes}
    return tuple(sorted(last.values(), key=lambda note: (note.turn, note.text)))


def _key(text: str) -> str:
    return re.sub(r"\W+|\d+", " ", text.lower()).strip()[:80]


def _weight(sentence: str) -> float:
    """How much the sentence tells; 0 for filler, intentions and questions."""
    length, sentence = len(sentence), sentence[: 2 * LIMIT]
    wide = sum(char > "\u2e7f" for char in sentence[:100])
    if length < (8 if wide > length / 3 else 25) or sentence.endswith((":", "?", "\uff1f", "\uff1a")):
        return 0.0
    words = folded(sentence)
    telling = len({words[start:stop] for start, stop in phrases("decided").found(words)})
    exact = len(set(_EXACT.findall(sentence)))
    if phrases("intends").at_start(words) and telling < 3:
        return 0.0
    if not telling:
        return 0.0
    return min(telling, 3) * 0.5 + min(exact, 3) * 0.3 + (0.3 if length < 240 else 0.0)
