"""Sentences of the assistant's worth carrying: what it found, decided, finished; not what it was about to do.

What it found matters while it is new. What it decided holds until it decides otherwise, so decisions are told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unabridged.languages import folded, phrases
from unabridged.ledger.entries import Note
from unabridged.text_cache import remembered
from unabridged.texts import bare, one_line, sentences, without_fences

LIMIT = 320
"""Characters of a note."""
DECIDED = 1.0
"""What a decision weighs more than a finding."""
_MOST, _MOST_CLOSING = 2, 4
"""Notes of one message, besides its decisions."""
_MOST_DECISIONS = 8

_EXACT = re.compile(
    r"`[^`\n]+`|\b\w[^\W_]*+_\w+|\b[a-z]+[A-Z]\w+|\b\d[\d.,:%/-]{0,100}\d\b|\"[^\"\n]{2,60}\"|[\w-]{1,100}\.[a-z]{1,4}\b"
)


def notes_in(turn: int, text: str, *, closing: bool) -> list[Note]:
    """The best sentences of one message; `closing` words, with which the assistant hands back, tell the most."""
    more = 0.5 if closing else 0.0
    found = [Note(turn, said, weight + more, decided=decided) for said, weight, decided in _telling(text)]
    found.sort(key=lambda note: -note.weight)
    others = [note for note in found if not note.decided][: _MOST_CLOSING if closing else _MOST]
    return [*[note for note in found if note.decided][:_MOST_DECISIONS], *others]


@remembered
def _telling(text: str) -> tuple[tuple[str, float, bool], ...]:
    """The sentences that tell something, with how much, and whether it is a decision."""
    said = [bare(sentence) for sentence in sentences(without_fences(text[:20_000]))]
    return tuple((one_line(one, LIMIT), *weighed) for one in said if (weighed := _weight(one))[0] > 0)


def distinct(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The notes in order, the later one where two say the same."""
    last = {_key(note): note for note in notes}
    return tuple(sorted(last.values(), key=lambda note: (note.turn, note.text)))


def _key(note: Note) -> str:
    """What two notes have in common that say the same: "3 tests pass" was a stage on the way to "5 tests pass".

    Not so with decisions: which port or which version was decided on is all that tells two of them apart.
    """
    words = note.text.lower()
    return " ".join(re.findall(r"\w+", words)) if note.decided else re.sub(r"\W+|\d+", " ", words).strip()[:80]


def _weight(sentence: str) -> tuple[float, bool]:
    """How much the sentence tells, 0 for filler, intentions and questions; and whether it tells a decision."""
    length, sentence = len(sentence), sentence[: 2 * LIMIT]
    wide = sum(char > "\u2e7f" for char in sentence[:100])
    if length < (8 if wide > length / 3 else 25) or sentence.endswith((":", "?", "\uff1f", "\uff1a")):
        return 0.0, False
    words = folded(sentence)
    decided = phrases("decisions").inside(words)
    telling = len({words[start:stop] for start, stop in phrases("decided").found(words)})
    exact = len(set(_EXACT.findall(sentence)))
    if not decided and (not telling or (telling < 3 and phrases("intends").at_start(words))):
        return 0.0, False
    weight = min(telling, 3) * 0.5 + min(exact, 3) * 0.3 + (0.3 if length < 240 else 0.0)
    return weight + DECIDED * decided, decided
