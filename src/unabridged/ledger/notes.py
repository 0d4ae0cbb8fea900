"""Sentences worth carrying. Notes: what the assistant found, decided, finished; not what it was about to do.

What it found matters while it is new. What it decided holds until it decides otherwise, so decisions are told apart.

Sayings: where people and the assistant only talk, what was said is what there is to keep, word for word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

from unabridged.archive.words import count_terms
from unabridged.intent import own_words
from unabridged.languages import folded, phrases
from unabridged.ledger.entries import Note, Saying
from unabridged.ledger.names import Piece
from unabridged.messages import View
from unabridged.text_cache import remembered
from unabridged.text_tools import bare, blank_fences, one_line, sentences

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

SAYING_LIMIT = 400
"""Characters of a saying; of a longer message its most telling sentence is kept, and what was decided in it."""
TALK = 12
"""People's messages above which a conversation without any action is mere talk."""
_READ = 20_000
"""Characters of a message that are read."""
_QUESTION = 0.3
"""What a question is worth beside an answer of the same words."""
_MORE_DECIDED = 2.0
"""What a decision of the assistant's is worth beside other words: it holds longer than what was told in passing."""
_DECISIONS_BESIDE = 3
"""Decisions in a long message that are kept besides its most telling sentence."""
_TO_REMEMBER = re.compile(r"(?<=[\w,;] )[^\W\d_a-z]\w+|\d+")
"""Names in the middle of a sentence, and numbers: what one has to remember exactly counts three times."""
_EVEN = 100
"""Added to every length, so that a single rare word is not everything."""


def notes_in(piece: Piece, *, closing: bool) -> list[Note]:
    """The best sentences of one message; `closing` words, with which the assistant hands back, tell the most."""
    more = 0.5 if closing else 0.0
    found = [Note(piece.turn, said, weight + more, decided=decided) for said, weight, decided in _telling(piece.text)]
    found.sort(key=lambda note: -note.weight)
    others = [note for note in found if not note.decided][: _MOST_CLOSING if closing else _MOST]
    return [*[note for note in found if note.decided][:_MOST_DECISIONS], *others]


@remembered
def _telling(text: str) -> tuple[tuple[str, float, bool], ...]:
    """The sentences that tell something, with how much, and whether it is a decision."""
    said = [bare(sentence) for sentence in sentences(blank_fences(text[:_READ]))]
    return tuple((one_line(one, LIMIT), *weighed) for one in said if (weighed := _weight(one))[0] > 0)


def drop_repeats(notes: Iterable[Note]) -> tuple[Note, ...]:
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


def is_talk(actions: Sequence[object], requests: int) -> bool:
    """Whether nothing is done in the conversation, and so much said that what was said is the story."""
    return not actions and requests > TALK


def sayings_in(views: Sequence[View], turns: Sequence[int]) -> tuple[Saying, ...]:
    """What people and the assistant said, each with how much it tells: rare words for its length, questions less."""
    spoken = [i for i, view in enumerate(views) if view.origin in {"person", "model"} and view.text.strip()]
    said = {i: own_words(view.text) if (view := views[i]).is_request else view.text for i in spoken}
    terms = {i: count_terms(text[:_READ]) for i, text in said.items()}
    spread = Counter(term for counted in terms.values() for term in counted)
    rarity = {term: log(len(spoken) / number) ** 2 for term, number in spread.items()}
    found = []
    for i in spoken:
        text, by_person = said[i].strip(), views[i].is_request
        if len(text) <= SAYING_LIMIT:
            found.append(Saying(turns[i], by_person, text, _saying_weight(text, terms[i], rarity, by_person=by_person)))
            continue
        told = [piece for piece in sentences(text[:_READ]) if len(piece) <= SAYING_LIMIT]
        weights = [_saying_weight(piece, count_terms(piece), rarity, by_person=by_person) for piece in told]
        best = sorted(range(len(told)), key=lambda place: (-weights[place], place))
        decided = [] if by_person else [place for place in best[1:] if _decides(told[place])][:_DECISIONS_BESIDE]
        found += [Saying(turns[i], by_person, told[place], weights[place]) for place in (*best[:1], *decided)]
    return tuple(found)


def _saying_weight(text: str, terms: dict[str, int], rarity: dict[str, float], *, by_person: bool) -> float:
    exact = {word.casefold() for word in _TO_REMEMBER.findall(text) if not word[0].islower()}
    told = sum(rarity.get(term, 0.0) * (3 if term in exact else 1) for term in terms) / (len(text) + _EVEN)
    if text.rstrip().endswith(("?", "\uff1f", "\u061f")):
        return told * _QUESTION
    return told * _MORE_DECIDED if not by_person and _decides(text) else told


def _decides(text: str) -> bool:
    return phrases("decisions").inside(folded(text))
