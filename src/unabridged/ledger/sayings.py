"""What people and the assistant said, word for word, and how much each of it tells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import log

from unabridged.archive.words import count_terms
from unabridged.intent import doubtful_in, own_words, retold_in
from unabridged.languages import folded, phrases
from unabridged.ledger.entries import Action, Saying
from unabridged.ledger.names import Piece
from unabridged.messages import View
from unabridged.text_cache import remembered
from unabridged.text_tools import bare, blank_fences, one_line, sentences, whole_lines

LONGEST = 2_000
"""Characters of what somebody said in the course of work; of a longer text, lines of its beginning and its end."""
LONGEST_REQUEST = 4_000
"""The same of what a person said."""
LONGEST_SUMMARY = 2_400
"""The same of another system's summary."""
REJECTED = 120
"""Characters of a call that a person rejected."""
_PERSON, _DECISION, _CLOSING, _LONG, _REMARK, _ANNOUNCED = 9.0, 9.0, 8.0, 6.0, 1.5, 0.4
"""Weights: a person's words; of the assistant's a decision, its last in a turn, long ones, remarks, what comes next."""
_ASKS = (":", "\uff1a", "?", "\uff1f", "\u061f")
_LONG_FROM, _CLOSING_FROM, _MOST_DECISIONS = 350, 120, 4
"""Characters of a long message, and of one that may close a turn; decisions of one message."""

TALK = 12
"""People's messages above which a conversation without any action is mere talk."""
SAYING_LIMIT = 400
"""Characters of what is said in mere talk; of a longer message its most telling sentence is kept."""
_READ = 20_000
"""Characters of a message that are read."""
_QUESTION = 0.3
"""What a question is worth beside an answer of the same words."""
_TO_REMEMBER = re.compile(r"(?<=[\w,;] )[^\W\d_a-z]\w+|\d+")
"""Names in the middle of a sentence, and numbers: what one has to remember exactly counts three times."""
_EVEN = 100
"""Added to every length, so that a single rare word is not everything."""


def is_talk(actions: Sequence[object], requests: int) -> bool:
    """Whether nothing is done in the conversation, and so much said that what was said is the story."""
    return not actions and requests > TALK


def retold(views: Sequence[View], turns: Sequence[int]) -> Iterator[Saying]:
    """What summaries of other systems say, and what may be one; of a long one lines of its beginning and its end."""
    for turn, view in zip(turns, views, strict=True):
        if text := retold_in(view):
            yield Saying(turn, False, whole_lines(text, LONGEST_SUMMARY), _PERSON, retold=True)
        if text := doubtful_in(view):
            yield Saying(turn, True, whole_lines(own_words(text), LONGEST_REQUEST), _PERSON, retold=True)


def rejections(actions: Iterable[Action]) -> Iterator[Saying]:
    """What people said when they rejected a call."""
    for action in actions:
        if action.rejection:
            call = one_line(f"{action.tool} {action.target}", REJECTED)
            yield Saying(action.turn, True, whole_lines(action.rejection, LONGEST), _PERSON, rejected=call)


def sayings_at_work(pieces: Sequence[Piece]) -> Iterator[Saying]:
    """What was said around the work; what the assistant said last before a person spoke closes its turn."""
    spoken = [piece for piece in pieces if piece.voice in {"person", "model"} and piece.text.strip()]
    for place, piece in enumerate(spoken):
        if piece.voice == "person":
            yield Saying(piece.turn, True, whole_lines(piece.text, LONGEST_REQUEST), _PERSON)
            continue
        closing = place + 1 == len(spoken) or spoken[place + 1].voice == "person"
        text = piece.text.strip() if closing else _without_announcement(piece.text.strip())
        decided = _decisions(text)
        if decided and len(text) <= SAYING_LIMIT:
            yield Saying(piece.turn, False, text, _DECISION, lasts=True)
            continue
        weight = _REMARK + (_LONG - _REMARK) * min(len(text) / _LONG_FROM, 1.0)
        weight = _CLOSING if closing and len(text) > _CLOSING_FROM else weight
        announces = text[-1:] in _ASKS[:2] and not closing
        yield Saying(piece.turn, False, whole_lines(text, LONGEST), _ANNOUNCED if announces else weight)
        yield from (Saying(piece.turn, False, said, _DECISION, lasts=True) for said in decided)


@remembered
def _decisions(text: str) -> tuple[str, ...]:
    """The sentences of a text that tell a decision."""
    said = dict.fromkeys(bare(sentence) for sentence in sentences(blank_fences(text[:_READ])))
    told = (one for one in said if one[:1].isalpha() and one[-1:] not in _ASKS)
    decided = (one_line(one, SAYING_LIMIT) for one in told if phrases("decisions").inside(folded(one)))
    return tuple(islice(decided, _MOST_DECISIONS))


def _without_announcement(text: str) -> str:
    """A text without the sentence at its end that only says what comes next, where there is another."""
    rest = text.removesuffix(sentences(text)[-1]).rstrip() if text[-1:] in _ASKS[:2] else ""
    return rest or text


def sayings_in_talk(views: Sequence[View], turns: Sequence[int]) -> list[Saying]:
    """What was said where nothing is done, each with how much it tells: rare words for its length, questions less."""
    spoken = [i for i, view in enumerate(views) if view.origin in {"person", "model"} and view.text.strip()]
    said = {i: own_words(view.text) if (view := views[i]).is_request else view.text for i in spoken}
    terms = {i: count_terms(text[:_READ]) for i, text in said.items()}
    spread = Counter(term for counted in terms.values() for term in counted)
    rarity = {term: log(len(spoken) / number) ** 2 for term, number in spread.items()}
    found = []
    for i in spoken:
        text = said[i].strip()
        told = [text] if len(text) <= SAYING_LIMIT else sentences(text[:_READ])
        told = [piece for piece in told if len(piece) <= SAYING_LIMIT] or [one_line(text, SAYING_LIMIT)]
        weight, best = max((_rarity_of(piece, rarity), piece) for piece in told)
        found.append(Saying(turns[i], views[i].is_request, best, weight))
    most = max((saying.weight for saying in found), default=0.0) or 1.0
    return [replace(saying, weight=_PERSON * saying.weight / most) for saying in found]


def _rarity_of(text: str, rarity: dict[str, float]) -> float:
    exact = {word.casefold() for word in _TO_REMEMBER.findall(text) if not word[0].islower()}
    told = sum(rarity.get(term, 0.0) * (3 if term in exact else 1) for term in count_terms(text)) / (len(text) + _EVEN)
    return told * _QUESTION if text.rstrip()[-1:] in _ASKS else told
