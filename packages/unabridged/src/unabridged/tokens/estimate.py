"""Estimate how many tokens a text is, without a tokenizer: a little high, and nowhere far too low.

A tokenizer cuts a text into words, numbers, marks and blanks, and each of these into the longest pieces it knows. So
does this, with the most frequent pieces only (`pieces.json`): what a tokenizer knows beyond them makes a text shorter,
never longer. A character that is in no piece costs its UTF-8 bytes, the most that any tokenizer needs. So a language or
a pattern that nobody thought of is counted too high, not too low. What a piece costs in each family was fitted to real
counts of prose, code, JSON, logs, noise and more than a hundred languages: the lowest prices that are 2 % low nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, get_args

from unabridged.formats.base import Family

ESTIMATE_VERSION = 2
"""Raised when estimates change: what was learned of older ones no longer holds."""

ERROR_BOUND = 0.05
"""How far below the true count an estimate may be, as a share of it, for texts of 200 characters or more.

Tests hold it for the tokenizers of each family, in more than a hundred languages and a hundred kinds of noise."""

HIGH, HIGH_UNKNOWN = 1.35, 2.75
"""How many times the true count an estimate may be, in prose, code and data: where the family is known, and where it is
not and each text counts as the dearest of them."""


class _Prices(NamedTuple):
    """The price of each kind of piece, in tokens."""

    word: float
    """A piece in ASCII letters."""
    title: float
    """More for a word with one capital letter."""
    wide: float
    """A piece in other letters."""
    byte: float
    """A byte of a character that is in no piece."""
    character: float
    """More for such a character."""
    number: float
    """A group of up to three digits."""
    digit: float
    """More for each of them."""
    mark: float
    """A piece of punctuation marks."""
    blank: float
    """A piece of blanks and line ends."""


_EVERY_PRICE = (  # in the order of the families, which only `formats` and the table of models name
    _Prices(0.98, 0.02, 1.00, 0.98, 0.03, 0.98, 0.00, 0.98, 0.98),
    _Prices(1.04, 0.00, 1.00, 0.98, 0.02, 0.98, 0.00, 0.98, 0.98),
    _Prices(1.08, 1.24, 1.10, 0.87, 0.95, 1.28, 0.00, 1.18, 0.86),
    _Prices(1.06, 0.19, 1.10, 1.04, 0.43, 1.16, 0.00, 1.04, 0.94),
    _Prices(1.03, 0.00, 0.99, 0.98, 0.00, 0.00, 0.98, 0.98, 0.98),
)
_PRICES: dict[Family, _Prices] = dict(zip(get_args(Family)[:-1], _EVERY_PRICE, strict=True))

_FAMILIES_PRICED_AT_START: tuple[Family, ...] = ("claude", "claude-3")
"""Families to which a word begins alike whether a space stands before it or not."""

# Words with the mark or blank before them, groups of digits, marks with the line end behind them, blanks. A run is cut
# at 24 characters, so that none takes long; where nothing shorter could match, nothing shorter is tried.
_PIECE_PATTERN = re.compile(
    r"[^\r\nA-Za-z0-9\x80-\U0010ffff]?+(?:[a-z\x80-\U0010ffff]{1,24}+|[A-Z]{1,24}+[a-z\x80-\U0010ffff]{0,24}+)"
    r"|[0-9]{1,3}+| ?+[^ \t-\r\x1c-\x1fA-Za-z0-9\x80-\U0010ffff]{1,24}+[\r\n/]{0,8}+"
    r"|[ \t-\r\x1c-\x1f]{0,24}[\r\n]{1,24}+|[ \t-\r\x1c-\x1f]{1,48}(?=[ \t-\r\x1c-\x1f])|[ \t-\r\x1c-\x1f]"
)

_MAX_CACHED_PIECES = 32_768
_MAX_CACHED_CHARACTERS = 48
"""Characters of a piece or word whose price is remembered: paths come again and again."""


class _CostCache(dict[str, float]):
    """The price of each piece, worked out once: most pieces of a text have been seen before."""

    def __init__(self, work_out: Callable[[str], float]) -> None:
        super().__init__()
        self._work_out = work_out

    def __missing__(self, piece: str) -> float:
        cost = self._work_out(piece)
        if len(piece) <= _MAX_CACHED_CHARACTERS:
            if len(self) >= _MAX_CACHED_PIECES:
                self.clear()
            self[piece] = cost
        return cost


def estimate(text: str, family: Family = "unknown") -> int:
    """Return about how many tokens `text` is for this family; high rather than low, 0 only for the empty text."""
    return get_estimator(family)(text)


@cache
def get_estimator(family: Family) -> Callable[[str], int]:
    """Return `estimate` for this family alone."""
    pieces, words = _build_cost_caches(family)

    def estimate_text(text: str) -> int:
        if not text:
            return 0
        if "  " in text:
            return ceil(sum(map(pieces.__getitem__, _PIECE_PATTERN.findall(text))))
        return ceil(sum(map(words.__getitem__, text.split(" "))))

    return estimate_text


@cache
def _build_cost_caches(family: Family) -> tuple[_CostCache, _CostCache]:
    """Return the remembered costs of one family: of pieces, and of what stands behind a space up to the next.

    No piece goes on behind a single space, so a text can be cut there first, which is many times as quick.
    """
    if family == "unknown":
        every = [_build_cost_caches(known)[0] for known in _PRICES]
        pieces = _CostCache(lambda piece: max(costs[piece] for costs in every))
    else:
        known, prices = _KnownPieces(family), _PRICES[family]
        pieces = _CostCache(lambda piece: _compute_cost(piece, prices, known))
    return pieces, _CostCache(lambda word: sum(map(pieces.__getitem__, _PIECE_PATTERN.findall(f" {word}"))))


class _KnownPieces:
    """The pieces that a family's tokenizers have, and how a text is cut into them."""

    def __init__(self, family: Family) -> None:
        self._pieces, self._ends = _load_family_pieces(family), _load_family_pieces(f"{family}-end")
        blocks: dict[str, str] = _load_pieces_table()["blocks"].get(family, {})
        self._blocks = {ord(first) >> 6: int(most) for most, firsts in blocks.items() for first in firsts}
        self._begins = family in _FAMILIES_PRICED_AT_START
        self._longest = {piece[0]: len(piece) for piece in sorted(self._pieces | self._ends, key=len)}

    def count_pieces(self, text: str) -> tuple[int, int, int, int]:
        """Count the known pieces of a text (ASCII, others), and the bytes and number of characters in none.

        Where all characters of a block of 64 are known to cost less than their bytes, that counts for their bytes.
        """
        if self._begins and text[-1].isalpha() and text[0] < "\x80" and text[0] != " ":
            text = " " + text if text[0].isalpha() else f"{text[0]} {text[1:]}"
        if text in self._pieces or text in self._ends:
            return (1, 0, 0, 0) if text.isascii() else (0, 1, 0, 0)
        narrow = wide = size = strange = start = 0
        while start < len(text):
            end = min(len(text), start + self._longest.get(text[start], 0))
            if end < len(text) or text[start:] not in self._ends:
                while end > start and text[start:end] not in self._pieces:
                    end -= 1
            if end == start:
                end += 1
                size += self._blocks.get(ord(text[start]) >> 6) or len(text[start].encode("utf-8", "surrogatepass"))
                strange += 1
            elif text[start:end].isascii():
                narrow += 1
            else:
                wide += 1
            start = end
        return narrow, wide, size, strange


def _load_family_pieces(family: str) -> frozenset[str]:
    """Return the pieces that a family has; those with `-end` stand at the end of a word only."""
    groups = _load_pieces_table().items()
    return frozenset(piece for having, pieces in groups if family in having.split() for piece in pieces)


@cache
def _load_pieces_table() -> dict[str, Any]:
    """Return the table, read once: families and the pieces that they have; `blocks` of characters that are cheap."""
    return dict(json.loads(Path(__file__).with_name("pieces.json").read_text(encoding="utf-8")))


def _compute_cost(piece: str, prices: _Prices, known: _KnownPieces) -> float:
    """Return the price of one match of the regular expression."""
    if "0" <= piece[0] <= "9":
        return prices.number + prices.digit * len(piece)
    narrow, wide, size, strange = known.count_pieces(piece)
    unknown = prices.byte * size + prices.character * strange
    if piece.isascii() and not piece[-1].isalpha():
        return unknown + narrow * (prices.blank if piece.isspace() else prices.mark)
    cost = unknown + prices.word * narrow + prices.wide * wide
    return cost if piece.islower() else cost + prices.title * (sum(map(str.isupper, piece)) == 1)
