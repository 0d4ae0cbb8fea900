"""What left the context, found again and read in full: for programs as values, for an agent as text.

Everything here is bound to one scope, a namespace and a thread, and no argument of a search or a reference can leave
it. What a reference is, and what it leads to, is in `archive.references`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from unabridged.archive import codec
from unabridged.archive.live import with_live
from unabridged.archive.protocol import Archive, Hit, Part, Scope
from unabridged.archive.references import find, reference
from unabridged.formats import Format, Message
from unabridged.recall.excerpts import Piece, pieces_of, worth_of_stretches
from unabridged.recall.passages import Look, gather_passages
from unabridged.recall.results import MARK, Found, Neighbour, Reading, Result

__all__ = [
    "LONGEST",
    "MARK",
    "MOST",
    "PAGE",
    "ROOM",
    "USUAL",
    "Across",
    "Found",
    "Neighbour",
    "Reading",
    "Result",
    "find",
    "original",
    "read",
    "reference",
    "search",
    "search_page",
    "threads_with",
]  # fmt: skip

ROOM: Final = 15_600
"""Characters of a search result's text, about 4,000 tokens; signs of scripts without spaces count as three."""
PAGE: Final = 8_000
"""Characters of a message that one reading shows."""
MOST: Final = 20
"""Results of one search in their surroundings; further matches follow in a line each."""
USUAL: Final = 16
LONGEST: Final = 1_000
"""Characters of a query; what comes after them is not looked for."""

_CANDIDATES: Final = 200
"""Matches of the archive that are ordered anew."""
_OF_EACH: Final = 40
"""The same of each thread, where many are searched."""
_EACH: Final = 1_400
"""Characters that a result may take, on average, when few are asked for."""

_BESIDE: Final = (0.6, 0.35, 0.15)
"""What a match one, two and three turns away adds, as a share of its own score."""
_WEAK: Final = 0.2
"""Matches below this share of the best are not worth the reader's time."""
_LONG: Final = 1_500
"""Characters of a message above which its best stretch counts instead of its length."""
_LOOKED_AT: Final = 40
"""The archive's best, whose stretches are looked at."""
_ECHO: Final = re.compile(r"\s*(?:\[recall\]|[\w.-]{0,80}(?:search|read)_history\b)")


def search(
    archive: Archive,
    scope: Scope,
    query: str,
    limit: int = USUAL,
    *,
    room: int = ROOM,
    format: Format | None = None,  # noqa: A002 - the word every part uses for it
    live: Sequence[Part] | None = None,
) -> Found:
    """What of this thread left the context and matches the query best, in its surroundings.

    Literal words, as the archive finds them; when nothing has what stands in quotes, the words in them. The text of
    what is found takes at most `room` characters, less when few results are asked for. `live`, the messages that still
    stand in the context, are searched too, and marked as such.
    """
    query = query[:LONGEST]

    def hits_of(words: str) -> Sequence[Hit]:
        found = archive.search(scope, words, _CANDIDATES) if words.strip() else ()
        return with_live(archive, scope, words, found, live, limit=_CANDIDATES) if live else found

    hits = hits_of(query)
    loosely = not hits and '"' in query
    if loosely:
        hits = hits_of(query.replace('"', " "))
    found = _as_passages(archive, scope, query, rank(hits, query), limit, room=room, format=format, live=live or ())
    found = replace(found, matches=len(hits), at_least=len(hits) >= _CANDIDATES, with_live=live is not None)
    return replace(found, loosely=True) if loosely and found.results else found


class Across(NamedTuple):
    """The threads in which a search over many finds something, the best first."""

    query: str
    """What they hold: the query, or the words of it where no thread has what stands in quotes."""
    scopes: Sequence[Scope] = ()
    exact: bool = True
    """Whether these are all of them; False where a phrase inside words was looked for in too many messages."""

    @property
    def told(self) -> str:
        """How many threads there are, in words."""
        return f"{'' if self.exact else 'at least '}{len(self.scopes):,} thread{'' if len(self.scopes) == 1 else 's'}"


def threads_with(archive: Archive, namespaces: Sequence[str], query: str) -> Across:
    """Return every thread of the namespaces that holds the words: those with the best matches first, then the newest.

    The index gives all of them, and one search over each namespace the best.
    """
    query = query[:LONGEST]
    asked = Across(query)
    for words in dict.fromkeys([query, query.replace('"', " ")] if query.strip() else []):
        held = {space: archive.threads_with(space, words) for space in namespaces}
        scopes: dict[Scope, None] = {}
        for space, holders in held.items():
            names = set(holders.threads)
            best = (hit.thread for hit in archive.search_namespace(space, words, _CANDIDATES)) if names else ()
            scopes |= dict.fromkeys(Scope(space, name) for name in (*best, *holders.threads) if name in names)
        asked = Across(words, list(scopes), all(holders.exact for holders in held.values()))
        if scopes:
            break
    return asked


def search_page(
    archive: Archive,
    scopes: Sequence[Scope],
    query: str,
    limit: int = USUAL,
    *,
    room: int = ROOM,
    format: Format | None = None,  # noqa: A002 - the word every part uses for it
) -> dict[Scope, Found]:
    """What matches the query best in each of these threads, which are searched at once; those without any left out.

    A `Found` says how many messages of its thread match, and whether these are all, since few of each are read.
    """
    found: dict[Scope, Found] = {}
    for space in dict.fromkeys(scope.namespace for scope in scopes):
        names = [scope.thread for scope in scopes if scope.namespace == space]
        for name, (hits, matches, whole) in archive.search_each(space, names, query[:LONGEST], _OF_EACH).items():
            scope = Scope(space, name)
            made = _as_passages(archive, scope, query, rank(hits, query)[:limit], limit, room=room, format=format)
            found[scope] = replace(made, matches=matches, at_least=not whole)
    return {scope: found[scope] for scope in scopes if scope in found}


def _as_passages(
    archive: Archive,
    scope: Scope,
    query: str,
    hits: Sequence[Hit],
    limit: int,
    *,
    room: int,
    format: Format | None,  # noqa: A002 - as above
    live: Sequence[Part] = (),
) -> Found:
    limit = min(max(limit, 1), MOST)
    room = min(room, max(limit, 2) * _EACH)
    width, beside = min(max(room // 6, 120), 500), min(max(room // 20, 60), 500)
    standing = frozenset(part.hash for part in live)
    look = Look(archive, scope, query, width, beside, format, live, standing)
    return gather_passages(look, hits, limit, room)


def read(
    archive: Archive,
    scope: Scope,
    ref: str | int,
    offset: int = 0,
    *,
    page: int = PAGE,
    format: Format | None = None,  # noqa: A002 - the word every part uses for it
) -> Reading:
    """The archived message with this reference, from `offset` on and about `page` characters of it."""
    part = find(archive, scope, ref)
    pieces = pieces_of(part, format)
    length = sum(len(piece.text) for piece in pieces)
    offset = min(max(offset, 0), max(length - 1, 0))
    return Reading(
        reference(scope, part.turn, part.hash),
        part.turn,
        part.role,
        part.origin,
        _page(pieces, offset, page),
        offset,
        length,
    )


def original(archive: Archive, scope: Scope, ref: str | int) -> Message:
    """The archived message with this reference as the caller's own object, exactly."""
    return codec.decode(find(archive, scope, ref).body)


def _page(pieces: Sequence[Piece], offset: int, room: int) -> tuple[Piece, ...]:
    """What of the pieces stands from `offset` on, about `room` characters; a cut falls on a line's end if it can."""
    found: list[Piece] = []
    for piece in pieces:
        if offset >= len(piece.text) > 0:
            offset -= len(piece.text)
            continue
        text = piece.text[offset : offset + max(room, 1)]
        if offset + len(text) < len(piece.text) and (line := text.rfind("\n", len(text) * 3 // 4)) >= 0:
            text = text[: line + 1]
        found.append(Piece(f"{piece.whose} (going on)" if offset else piece.whose, text))
        if offset + len(text) < len(piece.text) or room <= len(text):
            break
        room -= len(text)
        offset = 0
    return tuple(found)


# -- the order of what a search found ---------------------------------------------------------------------------------


def rank(hits: Sequence[Hit], query: str) -> list[Hit]:
    """The hits worth showing, best first: an archive ranks messages by themselves, a reader wants the place to look at.

    What stands beside other good matches comes first: a question and its answer share few words. One sentence in a long
    log counts as much as if it stood alone. What an agent looked up before is archived, too, and comes last.
    """
    originals = [hit for hit in hits if _ECHO.match(hit.text) is None]
    echoes = [hit for hit in hits if _ECHO.match(hit.text) is not None]
    scores = _with_stretches(originals, query)
    by_turn: dict[int, float] = {}
    for hit, score in zip(originals, scores, strict=True):
        by_turn[hit.turn] = max(score, by_turn.get(hit.turn, 0.0))

    def beside(turn: int) -> float:
        shares = enumerate(_BESIDE, 1)
        return sum(share * (by_turn.get(turn - far, 0.0) + by_turn.get(turn + far, 0.0)) for far, share in shares)

    total = [score + beside(hit.turn) for hit, score in zip(originals, scores, strict=True)]
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
