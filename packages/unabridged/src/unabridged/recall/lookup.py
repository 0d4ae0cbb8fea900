"""Find what left the context and read it in full: values for programs, texts for an agent.

Everything here is bound to one scope, a namespace and a thread, and no argument of a search or a reference can leave
it. What a reference is, and what it leads to, is in `archive.references`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Hit, Part, Scope
from unabridged.archive.references import find_part, make_reference
from unabridged.archive.search import search_with_context
from unabridged.formats import Format, Message
from unabridged.recall.excerpts import AttributedText, score_best_stretches, split_by_voice
from unabridged.recall.passages import gather_passages
from unabridged.recall.results import Found, Reading

RESULT_ROOM_CHARACTERS: Final = 15_600
"""Of a search result's text, about 4,000 tokens; signs of scripts without spaces count as three."""
PAGE_CHARACTERS: Final = 8_000
"""Of a message that one reading shows."""
DEFAULT_RESULTS: Final = 16
MAX_QUERY_CHARACTERS: Final = 1_000
"""What comes after them is not looked for."""

_MAX_HITS: Final = 200
"""Matches of the archive that are ordered anew."""
_MAX_HITS_EACH: Final = 40
"""The same of each thread, where many are searched."""
_SHARES_BESIDE: Final = (0.6, 0.35, 0.15)
"""What a match one, two and three turns away adds, as a share of its own score."""
_SMALLEST_SHARE: Final = 0.2
"""Matches below this share of the best are not worth the reader's time."""
_LONG_CHARACTERS: Final = 1_500
"""Above these, the best stretch of a message counts instead of its length."""
_SCORED_STRETCHES: Final = 40
"""The archive's best hits whose stretches are compared."""
_ECHO_PATTERN: Final = re.compile(r"\s*(?:\[recall\]|[\w.-]{0,80}(?:search|read)_history\b)")


def search(
    archive: Archive,
    scope: Scope,
    query: str,
    limit: int = DEFAULT_RESULTS,
    *,
    room: int = RESULT_ROOM_CHARACTERS,
    format: Format | None = None,  # noqa: A002 - the word every part uses for it
    live: Sequence[Part] | None = None,
) -> Found:
    """Return what of this thread left the context and matches the query best, in its surroundings.

    Literal words, as the archive finds them; when nothing has what stands in quotes, the words in them. The text of
    what is found takes at most `room` characters, less when few results are asked for. `live`, the messages that are
    still in the context, are searched too, and marked as such.
    """
    query = query[:MAX_QUERY_CHARACTERS]

    def find_hits(words: str) -> Sequence[Hit]:
        hits = archive.search(scope, words, _MAX_HITS) if words.strip() else ()
        return search_with_context(archive, scope, words, hits, live, limit=_MAX_HITS) if live else hits

    hits = find_hits(query)
    loosely = not hits and '"' in query
    if loosely:
        hits = find_hits(query.replace('"', " "))
    best = rank_hits(hits, query)
    found = gather_passages(archive, scope, query, best, limit, room=room, format=format, live=live or ())
    loosely = loosely and bool(found.results)
    at_least = len(hits) >= _MAX_HITS
    return replace(found, matches=len(hits), at_least=at_least, with_live=live is not None, loosely=loosely)


class ThreadSearch(NamedTuple):
    """The threads in which a search over many finds something, the best first."""

    query: str
    """What they have: the query, or the words of it where no thread has what stands in quotes."""
    scopes: Sequence[Scope] = ()
    exact: bool = True
    """Whether these are all of them; False where a phrase inside words was looked for in too many messages."""

    @property
    def count_in_words(self) -> str:
        """Return how many threads there are: "at least 3 threads"."""
        return f"{'' if self.exact else 'at least '}{len(self.scopes):,} thread{'' if len(self.scopes) == 1 else 's'}"


def find_threads(archive: Archive, namespaces: Sequence[str], query: str) -> ThreadSearch:
    """Return every thread of the namespaces that contains the words: best matches first, then the newest."""
    query = query[:MAX_QUERY_CHARACTERS]
    matches = ThreadSearch(query)
    for words in dict.fromkeys([query, query.replace('"', " ")] if query.strip() else []):
        holders = {space: archive.threads_with(space, words) for space in namespaces}
        scopes: dict[Scope, None] = {}
        for space, held in holders.items():
            names = set(held.threads)
            best = (hit.thread for hit in archive.search_namespace(space, words, _MAX_HITS)) if names else ()
            scopes |= dict.fromkeys(Scope(space, name) for name in (*best, *held.threads) if name in names)
        matches = ThreadSearch(words, list(scopes), all(held.exact for held in holders.values()))
        if scopes:
            break
    return matches


def search_each_thread(
    archive: Archive,
    scopes: Sequence[Scope],
    query: str,
    limit: int = DEFAULT_RESULTS,
    *,
    room: int = RESULT_ROOM_CHARACTERS,
    format: Format | None = None,  # noqa: A002 - the word every part uses for it
) -> dict[Scope, Found]:
    """Return what matches the query best in each of these threads, searched at once; those without any left out.

    A `Found` says how many messages of its thread match, and whether these are all, since few of each are read.
    """
    pages: dict[Scope, Found] = {}
    for space in dict.fromkeys(scope.namespace for scope in scopes):
        names = [scope.thread for scope in scopes if scope.namespace == space]
        hits_of = archive.search_each(space, names, query[:MAX_QUERY_CHARACTERS], _MAX_HITS_EACH)
        for name, (hits, matches, is_all) in hits_of.items():
            scope = Scope(space, name)
            best = rank_hits(hits, query)[:limit]
            found = gather_passages(archive, scope, query, best, limit, room=room, format=format)
            pages[scope] = replace(found, matches=matches, at_least=not is_all)
    return {scope: pages[scope] for scope in scopes if scope in pages}


def read(
    archive: Archive,
    scope: Scope,
    ref: str | int,
    offset: int = 0,
    *,
    page: int = PAGE_CHARACTERS,
    format: Format | None = None,  # noqa: A002 - the word every part uses for it
) -> Reading:
    """Return about `page` characters of the archived message with this reference, from `offset` on."""
    part = find_part(archive, scope, ref)
    pieces = split_by_voice(part, format)
    length = sum(len(piece.text) for piece in pieces)
    offset = min(max(offset, 0), max(length - 1, 0))
    ref = make_reference(scope, part.turn, part.hash)
    return Reading(ref, part.turn, part.role, part.origin, _cut_page(pieces, offset, page), offset, length)


def original(archive: Archive, scope: Scope, ref: str | int) -> Message:
    """Return the archived message with this reference as the caller's own object, exactly."""
    return codec.decode(find_part(archive, scope, ref).body)


def _cut_page(pieces: Sequence[AttributedText], offset: int, room: int) -> tuple[AttributedText, ...]:
    """Return about `room` characters of the pieces from `offset` on; a cut falls on a line's end if it can."""
    page: list[AttributedText] = []
    for piece in pieces:
        if offset >= len(piece.text) > 0:
            offset -= len(piece.text)
            continue
        text = piece.text[offset : offset + max(room, 1)]
        if offset + len(text) < len(piece.text) and (line := text.rfind("\n", len(text) * 3 // 4)) >= 0:
            text = text[: line + 1]
        page.append(AttributedText(f"{piece.whose} (going on)" if offset else piece.whose, text))
        if offset + len(text) < len(piece.text) or room <= len(text):
            break
        room -= len(text)
        offset = 0
    return tuple(page)


# -- the order of what a search found ---------------------------------------------------------------------------------


def rank_hits(hits: Sequence[Hit], query: str) -> list[Hit]:
    """Return the hits worth showing, best first: an archive ranks messages by themselves, a reader looks for a place.

    What is beside other good matches comes first: a question and its answer share few words. One sentence in a long log
    counts as much as if it stood alone. What an agent looked up before is archived, too, and comes last.
    """
    originals, echoes = list[Hit](), list[Hit]()
    for hit in hits:
        (echoes if _ECHO_PATTERN.match(hit.text) else originals).append(hit)
    scores = _score_with_stretches(originals, query)
    by_turn: dict[int, float] = {}
    for hit, score in zip(originals, scores, strict=True):
        by_turn[hit.turn] = max(score, by_turn.get(hit.turn, 0.0))

    def score_beside(turn: int) -> float:
        shares = enumerate(_SHARES_BESIDE, 1)
        return sum(share * (by_turn.get(turn - far, 0.0) + by_turn.get(turn + far, 0.0)) for far, share in shares)

    totals = [score + score_beside(hit.turn) for hit, score in zip(originals, scores, strict=True)]
    least = _SMALLEST_SHARE * max(totals, default=0.0)
    order = sorted(range(len(originals)), key=lambda i: -totals[i])
    return [*(originals[i] for i in order if totals[i] >= least), *echoes]


def _score_with_stretches(hits: Sequence[Hit], query: str) -> list[float]:
    """Return each hit's score; of a long message at least what a short one has whose words its best stretch has."""
    scores = [hit.score for hit in hits]
    best = hits[:_SCORED_STRETCHES]
    if all(len(hit.text) <= _LONG_CHARACTERS for hit in best):
        return scores
    worth = score_best_stretches([hit.text for hit in best], query)
    short = [(gain, hit.score) for hit, gain in zip(best, worth, strict=True) if len(hit.text) <= _LONG_CHARACTERS]
    for i, hit in enumerate(best):
        if len(hit.text) > _LONG_CHARACTERS:
            # A message with less of the query than this stretch has can't be better than it.
            least = max((score for gain, score in short if gain < worth[i]), default=0.0)
            scores[i] = max(scores[i], least * 1.01)
    return scores
