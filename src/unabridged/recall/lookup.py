"""What left the context, found again and read in full: for programs as values, for an agent as text.

Everything here is bound to one scope, a namespace and a thread, and no argument of a search or a reference can leave
it. What a reference is, and what it leads to, is in `archive.references`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Scope
from unabridged.archive.references import find, reference
from unabridged.formats import Format, Message
from unabridged.recall.excerpts import Piece, pieces_of
from unabridged.recall.passages import Look, gather_passages
from unabridged.recall.ranking import rank
from unabridged.recall.results import MARK, Found, Neighbour, Reading, Result

__all__ = [
    "LONGEST", "MARK", "MOST", "PAGE", "ROOM", "USUAL", "Found", "Neighbour", "Reading", "Result",
    "find", "original", "read", "reference", "search",
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
_EACH: Final = 1_400
"""Characters that a result may take, on average, when few are asked for."""


def search(
    archive: Archive,
    scope: Scope,
    query: str,
    limit: int = USUAL,
    *,
    room: int = ROOM,
    format: Format | None = None,  # noqa: A002 - the word every part uses for it
) -> Found:
    """What of this thread left the context and matches the query best, in its surroundings.

    Literal words, as the archive finds them; when nothing has what stands in quotes, the words in them. The text of
    what is found takes at most `room` characters, less when few results are asked for.
    """
    query, limit = query[:LONGEST], min(max(limit, 1), MOST)
    hits = archive.search(scope, query, _CANDIDATES) if query.strip() else ()
    loosely = not hits and '"' in query
    if loosely:
        hits = archive.search(scope, query.replace('"', " "), _CANDIDATES)
    room = min(room, max(limit, 2) * _EACH)
    look = Look(archive, scope, query, min(max(room // 6, 120), 500), min(max(room // 20, 60), 500), format)
    found = gather_passages(look, rank(hits, query), limit, room)
    return replace(found, loosely=True) if loosely and found.results else found


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
