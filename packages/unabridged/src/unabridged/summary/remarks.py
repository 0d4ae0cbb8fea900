"""Collect what the assistant said, word for word, and weigh it; and summaries of other systems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log

from unabridged.archive.words import count_terms
from unabridged.authorship import find_other_summary
from unabridged.messages import View
from unabridged.summary.ledger import Remark
from unabridged.summary.names import TextPiece
from unabridged.text_tools import cut_to_whole_lines, split_sentences, to_one_line

MAX_REMARK_CHARACTERS = 2_000
"""Characters of what the assistant said; of a longer text, lines of its beginning and its end."""
MAX_SUMMARY_CHARACTERS = 2_400
"""The same of another system's summary."""
CLOSING_WEIGHT, LONG_WEIGHT, SHORT_WEIGHT, ANNOUNCED_WEIGHT, SUMMARY_WEIGHT = 8.0, 6.0, 1.5, 0.4, 9.0
"""Weights: the last words before a person speaks, a long message, a short one, one that only leads up to a call."""
_LONG_FROM, _CLOSING_FROM = 350, 120
"""Characters of a long message, and of one that may close a turn."""

MIN_TALK_MESSAGES = 12
"""People's messages above which a conversation without any action is mere talk."""
TALK_LIMIT = 400
"""Characters of a message in mere talk; of a longer one the sentence with the rarest words is kept."""
_READ_CHARACTERS = 20_000
"""Characters of a message that are read."""
_ANNOUNCING_ENDINGS = (":", "\uff1a")
_NAME_OR_NUMBER_PATTERN = re.compile(r"(?<=[\w,;] )[^\W\d_a-z]\w+|\d+")
"""Names in the middle of a sentence, and numbers: what one has to remember exactly counts three times."""
_LENGTH_OFFSET = 100
"""Added to every length, so that a single rare word is not everything."""


def is_mere_talk(actions: Sequence[object], people: int) -> bool:
    """Return whether nothing is done in the conversation and much is said, so that what was said is the story."""
    return not actions and people > MIN_TALK_MESSAGES


def find_retold_summaries(views: Sequence[View], turns: Sequence[int]) -> Iterator[Remark]:
    """Yield what summaries of other systems say; of a long one lines of its beginning and its end."""
    for turn, view in zip(turns, views, strict=True):
        if text := find_other_summary(view):
            yield Remark(turn, cut_to_whole_lines(text, MAX_SUMMARY_CHARACTERS), SUMMARY_WEIGHT, retold=True)


def collect_work_remarks(pieces: Sequence[TextPiece]) -> Iterator[Remark]:
    """Yield the assistant's remarks around its work; its last words before a person speaks weigh most."""
    spoken = [piece for piece in pieces if piece.voice in {"person", "model"} and piece.text.strip()]
    for place, piece in enumerate(spoken):
        if piece.voice == "person":
            continue
        closing = place + 1 == len(spoken) or spoken[place + 1].voice == "person"
        text = piece.text.strip() if closing else _remove_announcement(piece.text.strip())
        weight = SHORT_WEIGHT + (LONG_WEIGHT - SHORT_WEIGHT) * min(len(text) / _LONG_FROM, 1.0)
        weight = CLOSING_WEIGHT if closing and len(text) > _CLOSING_FROM else weight
        weight = ANNOUNCED_WEIGHT if text.endswith(_ANNOUNCING_ENDINGS) and not closing else weight
        told = cut_to_whole_lines(text, MAX_REMARK_CHARACTERS)
        yield Remark(piece.turn, told, weight, closing=closing and not piece.acts)


def _remove_announcement(text: str) -> str:
    """Return a text without the sentence at its end that leads up to a call, where there is another."""
    rest = text.removesuffix(split_sentences(text)[-1]).rstrip() if text.endswith(_ANNOUNCING_ENDINGS) else ""
    return rest or text


def collect_talk_remarks(views: Sequence[View], turns: Sequence[int]) -> list[Remark]:
    """Return the assistant's remarks where nothing is done, weighed by the rarity of their words."""
    spoken = [i for i, view in enumerate(views) if view.origin in {"person", "model"} and view.text.strip()]
    terms = {i: count_terms(views[i].text[:_READ_CHARACTERS]) for i in spoken}
    spread = Counter(term for counted in terms.values() for term in counted)
    rarity = {term: log(len(spoken) / number) ** 2 for term, number in spread.items()}
    found = []
    for i in spoken:
        if views[i].origin != "model":
            continue
        text = views[i].text.strip()
        told = [text] if len(text) <= TALK_LIMIT else split_sentences(text[:_READ_CHARACTERS])
        told = [piece for piece in told if len(piece) <= TALK_LIMIT] or [to_one_line(text, TALK_LIMIT)]
        weight, best = max((_compute_rarity(piece, rarity), piece) for piece in told)
        found.append(Remark(turns[i], best, weight))
    most = max((remark.weight for remark in found), default=0.0) or 1.0
    return [replace(remark, weight=SUMMARY_WEIGHT * remark.weight / most) for remark in found]


def _compute_rarity(text: str, rarity: dict[str, float]) -> float:
    exact = {word.casefold() for word in _NAME_OR_NUMBER_PATTERN.findall(text) if not word[0].islower()}
    worth = sum(rarity.get(term, 0.0) * (3 if term in exact else 1) for term in count_terms(text))
    return worth / (len(text) + _LENGTH_OFFSET)
