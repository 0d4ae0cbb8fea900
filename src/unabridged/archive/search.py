"""The search index: one small compressed segment for the messages of each `store`, and one ranking for all stores.

A store keeps segments as it keeps any other bytes, beside the thread they belong to: so statistics never cross threads,
forgetting a thread forgets its words, and every store finds the same in the same order. A segment is a line of numbers,
then blocks, each deflated by itself, so that a term costs one small block and one `find`:

    1 2 61 3                version, messages, their terms in all, blocks of terms
    0:40 1:21               each message's turn and number of terms
    app.py<TAB>0:3 1        terms: in which messages, and how often if not once; a term's block is told by its checksum

Ranking is BM25 over the thread, with rare words counting more than usual; of equals the later turn comes first. Only
what has a word of the query is found. Words that begin alike (`paint`, `painted`) then count for the order, in any
language that bends its words at the end, without a list of any language's endings.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from math import log
from typing import Final, NamedTuple

from unabridged.archive.protocol import Part
from unabridged.archive.words import CUT, Query, count_terms, holds, parse, words_of
from unabridged.errors import ArchiveError

VERSION: Final = 1
_SATURATION: Final = 1.2  # BM25's k1: how soon another occurrence stops to matter
_LENGTH: Final = 0.5  # BM25's b: tool output is long by nature, so half the usual punishment for length
_RARE: Final = 1.5  # the power of a word's rarity: a question is mostly words that stand everywhere
_BY_PARTS: Final = 0.25  # what all the parts of a name are worth beside the name itself
_ALIKE: Final = 0.8  # what a word is worth that begins like the one looked for
_BEGINNING: Final = 4  # characters that words which begin alike share at least
_MOST_BYTES: Final = 8_000_000  # of an index that is gone through for such words: beyond, it would take too long
_BLOCK: Final = 256  # terms in a block, about


class _Match(NamedTuple):
    """A message that matches: its place in the thread's sequence of parts."""

    number: int
    turn: int
    score: float


class _Segment(NamedTuple):
    first: int
    size: int
    length: int
    blocks: tuple[bytes, ...]
    """Still deflated; the first tells turns and lengths, the others have the terms."""

    def postings(self, term: str) -> Mapping[int, int]:
        """How often the term stands in each message, by the message's number."""
        encoded = _encode(term)
        block = self.blocks[1 + _block_of(encoded, len(self.blocks) - 1)]
        return next((found for _, found in self._matching([_inflate(block)], b"\n%b\t" % encoded)), {})

    def having(self, words: Iterable[str]) -> set[int]:
        """The messages with a term around each of the words; of those with terms that were cut nobody can say."""
        blocks = [_inflate(block) for block in self.blocks[1:]]
        numbers = set(self.messages())
        for word in words:
            found = (postings for _, postings in self._matching(blocks, _encode(word)))
            numbers &= set(self.postings(CUT)).union(*found)
        return numbers

    def alike(self, words: Sequence[str]) -> dict[str, Counter[int]]:
        """How often other words that begin like these stand in each message, by word and by the message's number."""
        found: dict[str, Counter[int]] = {word: Counter() for word in words}
        for raw in map(_inflate, self.blocks[1:] if words else ()):
            for word, counted in found.items():
                for term, postings in self._matching([raw], b"\n" + _encode(word[:_BEGINNING])):
                    if _begin_alike(term, word):
                        counted.update(postings)
        return found

    def _matching(self, blocks: Iterable[bytes], sought: bytes) -> Iterator[tuple[str, dict[int, int]]]:
        """Every term with these bytes in it, and how often messages have it. It stands between line break and tab."""
        for raw in blocks:
            at = raw.find(sought)
            while at >= 0:
                end = raw.find(b"\t", at)
                if end > 0 and raw.find(b"\n", at + 1, end) < 0:  # in a term, not among the postings before the next
                    pairs = (entry.partition(b":") for entry in raw[end + 1 : raw.index(b"\n", end)].split())
                    term = raw[raw.rfind(b"\n", 0, at + 1) + 1 : end].decode("utf-8", "surrogatepass")
                    yield term, {self.first + int(number): int(times or 1) for number, _, times in pairs}
                at = raw.find(sought, at + 1)

    def messages(self) -> dict[int, tuple[int, int]]:
        """Turn and length of each message, by its number."""
        pairs = (entry.split(b":") for entry in _inflate(self.blocks[0]).split())
        return {self.first + at: (int(turn), int(length)) for at, (turn, length) in enumerate(pairs)}


def build(messages: Sequence[tuple[int, str]]) -> bytes:
    """The segment of these messages, each given by turn and text."""
    lengths: list[int] = []
    postings: defaultdict[str, list[str]] = defaultdict(list)
    for number, (_, text) in enumerate(messages):
        counted = count_terms(text)
        lengths.append(sum(counted.values()))
        once = str(number)
        for term, times in counted.items():
            postings[term].append(once if times == 1 else f"{once}:{times}")
    blocks: list[list[str]] = [[] for _ in range(1 + min(64, len(postings) // _BLOCK))]
    for term in sorted(postings):
        blocks[_block_of(_encode(term), len(blocks))].append(f"\n{term}\t{' '.join(postings[term])}")
    turns = " ".join(f"{turn}:{length}" for (turn, _), length in zip(messages, lengths, strict=True))
    head = f"{VERSION} {len(messages)} {sum(lengths)} {len(blocks)}\n".encode()
    packed = [zlib.compress(_encode(text)) for text in (turns, *("".join([*block, "\n"]) for block in blocks))]
    return head + b"".join(len(block).to_bytes(4, "big") + block for block in packed)


def check(first: int, segment: bytes) -> Mapping[int, tuple[int, int]]:
    """Turn and length of each message the segment says it has; an `ArchiveError` when it can't be read."""
    opened = _open(first, segment)
    messages = opened.messages()
    if len(messages) != opened.size or sum(length for _, length in messages.values()) != opened.length:
        raise ArchiveError(f"the search index of messages {first:,} and on is inconsistent. Restore it from a backup.")
    return messages


def search(
    query: str, limit: int, segments: Iterable[tuple[int, bytes]], read: Callable[[Sequence[int]], Mapping[int, Part]]
) -> list[tuple[Part, float]]:
    """The best matches and their scores, best first.

    `segments` come with the number of their first message; `read` gives the messages with some numbers. They are read
    a few at a time where a phrase has to be looked for in them.
    """
    wanted = parse(query)
    if limit < 1 or not (wanted.names or wanted.phrases):
        return []
    ranked = _rank(wanted, [_open(first, segment) for first, segment in segments])
    ordered = nsmallest(len(ranked) if wanted.phrases else limit, ranked, key=lambda m: (-m.score, -m.turn, -m.number))
    found: list[tuple[Part, float]] = []
    step = max(16, 2 * limit)
    for at in range(0, len(ordered), step):
        batch = ordered[at : at + step]
        parts = read([match.number for match in batch])
        found += [(parts[m.number], m.score) for m in batch if holds(parts[m.number].text, wanted.phrases)]
        if len(found) >= limit:
            break
    return found[:limit]


def _open(first: int, segment: bytes) -> _Segment:
    head, _, rest = segment.partition(b"\n")
    try:
        version, size, length, count = (int(part) for part in head.split())
    except ValueError as error:
        raise ArchiveError(f"the search index of messages {first:,} and on can't be read: {error}.") from error
    if version != VERSION:
        raise ArchiveError(f"the search index is of version {version}, this is version {VERSION}. Update unabridged.")
    blocks = tuple(_blocks(rest))
    if len(blocks) != count + 1:
        raise ArchiveError(f"the search index of messages {first:,} and on can't be read: it is cut off.")
    return _Segment(first, size, length, blocks)


def _blocks(rest: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(rest):
        end = at + 4 + int.from_bytes(rest[at : at + 4], "big")
        yield rest[at + 4 : end]
        at = end


def _inflate(block: bytes) -> bytes:
    try:
        return zlib.decompress(block)
    except zlib.error as error:
        raise ArchiveError(f"a block of the search index can't be read: {error}. Restore it from a backup.") from error


def _encode(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


def _block_of(term: bytes, blocks: int) -> int:
    return zlib.crc32(term) % blocks


def _rank(query: Query, segments: list[_Segment]) -> list[_Match]:
    """Every message that has one of the names, and may have the phrases."""
    total = sum(segment.size for segment in segments)
    average = (sum(segment.length for segment in segments) / total or 1.0) if total else 1.0
    found = [{term: segment.postings(term) for term in query.terms()} for segment in segments]
    words = _words_to_compare(query, segments)
    others = [segment.alike(words) for segment in segments]
    spread: Counter[str] = Counter()
    for postings, beside in zip(found, others, strict=True):
        spread.update({term: len(counted.keys() | beside.get(term, {}).keys()) for term, counted in postings.items()})
    weight = {
        term: log(1 + (total - df + 0.5) / (df + 0.5)) ** _RARE * (_SATURATION + 1) for term, df in spread.items()
    }
    ranked: list[_Match] = []
    for segment, postings, beside in zip(segments, found, others, strict=True):
        if not query.phrases and not any(postings.values()):
            continue
        messages = segment.messages()
        damp = {n: _SATURATION * (1 - _LENGTH + _LENGTH * length / average) for n, (_, length) in messages.items()}
        scores = _scores(query, postings, weight, damp)
        for term, counted in beside.items():
            for number in scores.keys() & counted.keys() - postings[term].keys():
                scores[number] += _ALIKE * weight[term] * counted[number] / (counted[number] + damp[number])
        if query.phrases:
            inside = [word for phrase in query.phrases for word in words_of(phrase)]
            scores = {number: scores.get(number, 0.0) for number in segment.having(inside)}
        ranked += [_Match(number, messages[number][0], score) for number, score in scores.items()]
    return ranked


def _words_to_compare(query: Query, segments: Sequence[_Segment]) -> list[str]:
    """The words whose beginnings are looked for in other words: none where going through the index takes too long."""
    size = sum(len(block) for segment in segments for block in segment.blocks)
    words = [name.whole for name in query.names if len(name.whole) > _BEGINNING and name.whole.isalpha()]
    return words if size <= _MOST_BYTES else []


def _begin_alike(one: str, other: str) -> bool:
    """Whether two words differ only in a short ending."""
    if one == other or not one.isalpha() or abs(len(one) - len(other)) > _BEGINNING:
        return False
    shared = max(_BEGINNING, min(len(one), len(other)) - 3)
    return one[:shared] == other[:shared]


def _scores(
    query: Query, postings: Mapping[str, Mapping[int, int]], weight: Mapping[str, float], damp: Mapping[int, float]
) -> dict[int, float]:
    """What the names a message has are worth in it, for every message that has any."""
    scores: dict[int, float] = {}
    for name in query.names:
        idf = weight[name.whole]
        for number, times in postings[name.whole].items():
            scores[number] = scores.get(number, 0.0) + idf * times / (times + damp[number])
        if name.parts:
            for number in set(postings[name.parts[0]]).intersection(*(postings[part] for part in name.parts[1:])):
                worth = sum(weight[p] * postings[p][number] / (postings[p][number] + damp[number]) for p in name.parts)
                scores[number] = scores.get(number, 0.0) + _BY_PARTS * worth
    return scores
