"""Where people and the assistant only talk, what was said is what there is to keep: what tells most, word for word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log

from unabridged.archive.search.words import count_terms
from unabridged.intent import own_words
from unabridged.languages import folded, phrases
from unabridged.ledger.entries import Saying
from unabridged.messages import View
from unabridged.texts import sentences

LIMIT = 400
"""Characters of a saying; of a longer message its most telling sentence is kept, and what was decided in it."""
TALK = 12
"""People's messages above which a conversation without any action is mere talk."""
_MOST = 20_000
"""Characters of a message that are read."""
_QUESTION = 0.3
"""What a question is worth beside an answer of the same words."""
_DECIDED = 2.0
"""What a decision of the assistant's is worth beside other words: it holds longer than what was told in passing."""
_MOST_DECISIONS = 3
"""Decisions in a long message that are kept besides its most telling sentence."""
_EXACT = re.compile(r"(?<=[\w,;] )[^\W\d_a-z]\w+|\d+")
"""Names in the middle of a sentence, and numbers: what one has to remember exactly counts three times."""
_EVEN = 100
"""Added to every length, so that a single rare word is not everything."""


def is_talk(actions: Sequence[object], requests: int) -> bool:
    """Whether nothing is done in the conversation, and so much said that what was said is the story."""
    return not actions and requests > TALK


def sayings_in(views: Sequence[View], turns: Sequence[int]) -> tuple[Saying, ...]:
    """What people and the assistant said, each with how much it tells: rare words for its length, questions less."""
    spoken = [i for i, view in enumerate(views) if view.origin in {"person", "model"} and view.text.strip()]
    said = {i: own_words(view.text) if (view := views[i]).is_request else view.text for i in spoken}
    terms = {i: count_terms(text[:_MOST]) for i, text in said.items()}
    spread = Counter(term for counted in terms.values() for term in counted)
    rarity = {term: log(len(spoken) / number) ** 2 for term, number in spread.items()}
    found = []
    for i in spoken:
        text, by_person = said[i].strip(), views[i].is_request
        if len(text) <= LIMIT:
            found.append(Saying(turns[i], by_person, text, _weight(text, terms[i], rarity, by_person=by_person)))
            continue
        told = [piece for piece in sentences(text[:_MOST]) if len(piece) <= LIMIT]
        weights = [_weight(piece, count_terms(piece), rarity, by_person=by_person) for piece in told]
        best = sorted(range(len(told)), key=lambda place: (-weights[place], place))
        decided = [] if by_person else [place for place in best[1:] if _decides(told[place])][:_MOST_DECISIONS]
        found += [Saying(turns[i], by_person, told[place], weights[place]) for place in (*best[:1], *decided)]
    return tuple(found)


def _weight(text: str, terms: dict[str, int], rarity: dict[str, float], *, by_person: bool) -> float:
    exact = {word.casefold() for word in _EXACT.findall(text) if not word[0].islower()}
    told = sum(rarity.get(term, 0.0) * (3 if term in exact else 1) for term in terms) / (len(text) + _EVEN)
    if text.rstrip().endswith(("?", "\uff1f", "\u061f")):
        return told * _QUESTION
    return told * _DECIDED if not by_person and _decides(text) else told


def _decides(text: str) -> bool:
    return phrases("decisions").inside(folded(text))
