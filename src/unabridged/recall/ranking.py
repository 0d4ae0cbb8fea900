"""The order of what a search found: an archive ranks messages by themselves, a reader wants the place to look at.

- What stands beside other good matches comes first: a question and its answer share few words.
- One sentence in a long log counts as much as if it stood alone.
- What an agent looked up before is archived, too. It never stands in front of the originals it repeats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from unabridged.archive.protocol import Hit
from unabridged.recall.excerpts import worth_of_stretches

_BESIDE: Final = (0.6, 0.35, 0.15)
"""What a match one, two and three turns away adds, as a share of its own score."""
_WEAK: Final = 0.2
"""Matches below this share of the best are not worth the reader's time."""
_LONG: Final = 1_500
"""Characters of a message above which its best stretch counts instead of its length."""
_LOOKED_AT: Final = 40
"""The archive's best, whose stretches are looked at."""
_ECHO: Final = re.compile(r"\s*(?:\[recall\]|[\w.-]{0,80}(?:search|read)_history\b)")


def rank(hits: Sequence[Hit], query: str) -> list[Hit]:
    """The hits worth showing, best first; echoes of earlier look-ups last."""
    originals = [hit for hit in hits if _ECHO.match(hit.text) is None]
    echoes = [hit for hit in hits if _ECHO.match(hit.text) is not None]
    scores = _with_stretches(originals, query)
    by_turn: dict[int, float] = {}
    for hit, score in zip(originals, scores, strict=True):
        by_turn[hit.turn] = max(score, by_turn.get(hit.turn, 0.0))
    total = [
        score
        + sum(
            share * (by_turn.get(hit.turn - far, 0.0) + by_turn.get(hit.turn + far, 0.0))
            for far, share in enumerate(_BESIDE, 1)
        )
        for hit, score in zip(originals, scores, strict=True)
    ]
    least = _WEAK * max(total, default=0.0)
    order = sorted(range(len(originals)), key=lambda i: -total[i])
    return [*(originals[i] for i in order if total[i] >= least), *echoes]


def _with_stretches(hits: Sequence[Hit], query: str) -> list[float]:
    """Each hit's score; a long message has at least what a short one with the words of its best stretch has."""
    scores = [hit.score for hit in hits]
    looked_at = hits[:_LOOKED_AT]
    if all(len(hit.text) <= _LONG for hit in looked_at):
        return scores
    worth = worth_of_stretches([hit.text for hit in looked_at], query)
    short = [(gain, hit.score) for hit, gain in zip(looked_at, worth, strict=True) if len(hit.text) <= _LONG]
    for i, hit in enumerate(looked_at):
        if len(hit.text) > _LONG:
            # A message with less of the query than this stretch has can't be better than it.
            least = max((score for gain, score in short if gain < worth[i]), default=0.0)
            scores[i] = max(scores[i], least * 1.01)
    return scores
