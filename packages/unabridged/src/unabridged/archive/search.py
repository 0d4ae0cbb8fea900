"""Search, alike on every store: the database's own index gives candidates, one ranking on their texts decides.

Whether a word stands in a text is decided by `SearchedText`, on the text itself: an index of tokens (`words.prepare`)
may give too much, never too little.

Ranking is BM25 over the thread, or over the namespace, with rare words counting more than usual; of equals the later
turn comes first. Only what has a word of the query is found. Words that begin alike (`paint`, `painted`) then count for
the order, in any language that bends its words at the end, without a list of any language's endings.

Where more messages match than `MAX_READ_MESSAGES`, the index chooses: those with all of the words first, then
those with the rarest; of equals the newest. Up to that many, the order is exact.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from math import log
from typing import Final, NamedTuple, Protocol

from unabridged.archive import words
from unabridged.archive.protocol import Archive, Hit, Part, Scope, ThreadHits
from unabridged.archive.store_rules import make_hit
from unabridged.archive.words import Query, QueryName, contains_phrases, tokens_of_term

MAX_READ_MESSAGES: Final = 200
"""Messages that are read and ranked at most, unless more are asked for."""
MAX_READ_PER_THREAD: Final = 40
"""Messages of each thread that are read and ranked at most, in a search over many threads."""
MAX_SCANNED_MESSAGES: Final = 20_000
"""Messages that are read at most, as for a phrase that begins or ends inside a word."""
_MAX_TERMS: Final = 100
"""Words of a query that are looked for, the first ones."""
_MAX_COMBINED_WORDS: Final = 8
"""Words, the rarest, that are looked for together."""
_TRIAL_MESSAGES: Final = 4
"""Messages of a thread, those that have all of the words, in which a phrase is looked for first."""
_TERM_SATURATION: Final = 1.2  # BM25's k1: how soon another occurrence stops to matter
_LENGTH_WEIGHT: Final = 0.5  # BM25's b: tool output is long by nature, so half the usual punishment for length
_RARITY_EXPONENT: Final = 1.5  # the power of a word's rarity: a question is mostly words that stand everywhere
_NAME_PARTS_WEIGHT: Final = 0.5  # what all the parts of a name are worth, on average, beside the name itself
_SIMILAR_WORD_WEIGHT: Final = 0.8  # what a word is worth that begins like the one looked for
_MIN_COMMON_PREFIX: Final = 4  # characters that words which begin alike share at least

MessageKey = tuple[int, int]
"""The number of a thread, and that of one of its messages."""
KeysByThread = Mapping[int, Sequence[MessageKey]]
TokenSet = frozenset[str]
SearchedThreads = Iterable[tuple[Scope, Sequence[Part]]]
RequiredTokens = Sequence[Sequence[TokenSet]]
"""What a message must have: all of the tokens of one alternative, of each of these lists of alternatives."""


class SearchCandidate(NamedTuple):
    """A message, and where it stands."""

    scope: Scope
    number: int
    """Among the messages of its thread."""
    part: Part
    thread: int = 0
    """The number of its thread in the store."""


class SearchIndex(Protocol):
    """What a store's own index tells of the messages of one thread, or of one namespace."""

    @property
    def totals(self) -> tuple[int, int]:
        """Return how many messages there are, and how many characters they have."""

    def newest(self, wanted: RequiredTokens, most: int) -> Sequence[MessageKey]:
        """Messages that may have what is wanted, as thread and number, the newest ones."""

    def count(self, each: Sequence[TokenSet]) -> Sequence[int]:
        """Return about how many messages have all of these tokens, for each of the sets."""

    def read(self, keys: Sequence[MessageKey]) -> Iterable[SearchCandidate]:
        """Yield these messages, in no order and not all at once."""

    def threads(self, wanted: RequiredTokens) -> Sequence[int]:
        """Return every thread with a message that may have what is wanted, by its number in the store."""

    def newest_each(self, wanted: RequiredTokens, threads: Sequence[int], most: int) -> KeysByThread:
        """Return the newest messages of each of these threads that may have what is wanted."""

    def totals_each(self, threads: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        """Return how many messages each of these threads has, and how many characters."""


def search(query: str, limit: int, index: SearchIndex) -> list[Hit]:
    """Return the best matches, best first."""
    if limit < 1 or (wanted := _parse_bounded(query)) is None:
        return []
    totals, most = index.totals, min(max(MAX_READ_MESSAGES, limit), MAX_SCANNED_MESSAGES)
    spread = None
    broad = _broad_tokens(wanted)
    keys = index.newest(broad, most + 1)
    if len(keys) > most and wanted.phrases:
        found = rank(wanted, limit, index.read(index.newest(_tokens_of_phrases(wanted), most)), totals)
        if len(found) >= limit:
            return found
        keys = index.newest(broad, MAX_SCANNED_MESSAGES)
    elif len(keys) > most:
        terms = _list_terms(wanted)
        spread = dict(zip(terms, index.count([tokens_of_term(term) for term in terms]), strict=True))
        keys = _choose_messages(wanted, index, spread, most) if len(wanted.names) > 1 else keys[:most]
    return rank(wanted, limit, index.read(keys), totals, spread)


def threads_with(query: str, index: SearchIndex) -> tuple[list[int], bool]:
    """Return the threads that hold what is looked for, and whether these are all.

    For words the index knows. A phrase is looked for in the messages themselves, up to `MAX_SCANNED_MESSAGES` of them.
    """
    if (wanted := _parse_bounded(query)) is None:
        return [], True
    broad = _broad_tokens(wanted)
    waiting = [*index.threads(broad)]
    if not wanted.phrases and _can_index_decide(wanted.names):
        return waiting, True
    left, holding = MAX_SCANNED_MESSAGES, set[int]()
    if wanted.phrases:
        tried = index.newest_each(_tokens_of_phrases(wanted), waiting, _TRIAL_MESSAGES)
        left -= sum(map(len, tried.values()))
        holding = _find_matching_threads(wanted, index, tried)
    waiting = [thread for thread in waiting if thread not in holding]
    most = max(left // max(len(waiting), 1), _TRIAL_MESSAGES)
    read = index.newest_each(broad, waiting[: MAX_SCANNED_MESSAGES // _TRIAL_MESSAGES], most) if waiting else {}
    holding |= _find_matching_threads(wanted, index, read)
    unread = [thread for thread in read if thread not in holding and len(read[thread]) >= most]
    return [*holding], not unread and len(waiting) <= MAX_SCANNED_MESSAGES // _TRIAL_MESSAGES


def _can_index_decide(names: Sequence[QueryName]) -> bool:
    """Return whether the index alone can tell that a message has one of the names, without reading the message."""
    return all(
        any(one.whole in tokens or (one.parts and tokens.issuperset(one.parts)) for one in names)
        for name in names
        for tokens in _alternatives(name)
    )


def _find_matching_threads(query: Query, index: SearchIndex, keys: KeysByThread) -> set[int]:
    """Return the threads in which at least one of these messages matches the query."""
    holding: set[int] = set()
    terms = _list_terms(query)
    left = {thread: list(of_thread) for thread, of_thread in keys.items() if of_thread}
    while left:
        page = [key for of_thread in left.values() for key in of_thread[: max(MAX_READ_MESSAGES // len(left), 1)]]
        read = {(found.thread, found.number): found for found in index.read(page)}
        unknown = ((thread, found) for (thread, _), found in read.items() if thread not in holding)
        holding |= {thread for thread, found in unknown if _match_message(query, terms, (), found)}
        asked = Counter(thread for thread, _ in page)
        left = {thread: rest[asked[thread] :] for thread, rest in left.items() if thread not in holding}
        left = {thread: rest for thread, rest in left.items() if rest}
    return holding


def search_each(query: str, limit: int, index: SearchIndex, threads: Sequence[int]) -> dict[int, ThreadHits]:
    """Return the best matches of each of these threads; a thread without any is left out.

    `MAX_READ_PER_THREAD` messages of each are read: those with all of the words, then the rarest, then the newest.
    """
    if limit < 1 or (wanted := _parse_bounded(query)) is None:
        return {}
    most = max(MAX_READ_PER_THREAD, limit)
    first = index.newest_each(_broad_tokens(wanted), threads, most + 1)
    more = [thread for thread, keys in first.items() if len(keys) > most]
    chosen = _choose_each(wanted, index, more, most) if more else {}
    keys = {thread: dict.fromkeys([*chosen.get(thread, ()), *held]) for thread, held in first.items()}
    read: dict[int, list[SearchCandidate]] = {}
    for one in index.read([key for of_thread in keys.values() for key in list(of_thread)[:most]]):
        read.setdefault(one.thread, []).append(one)
    totals = index.totals_each(list(read))
    ranked = {thread: rank(wanted, most, found, totals[thread]) for thread, found in read.items()}
    return {thread: ThreadHits(hits[:limit], len(hits), thread not in more) for thread, hits in ranked.items() if hits}


def _choose_each(query: Query, index: SearchIndex, threads: Sequence[int], most: int) -> dict[int, list[MessageKey]]:
    """Return the messages of each thread to read first: those with whole phrases, or most of the rarest words."""
    if query.phrases:
        tiers: list[RequiredTokens] = [_tokens_of_phrases(query)]
    elif len(query.names) > 1:
        counts = index.count([tokens_of_term(name.whole) for name in query.names])
        ranked = [name for _, name in sorted(zip(counts, query.names, strict=True))][:_MAX_COMBINED_WORDS]
        tiers = [[_alternatives(name) for name in ranked[:count]] for count in range(len(ranked), 0, -1)]
    else:
        return {}
    chosen: dict[int, dict[MessageKey, None]] = {thread: {} for thread in threads}
    for tier in tiers:
        waiting = [thread for thread in threads if len(chosen[thread]) < most]
        for thread, keys in index.newest_each(tier, waiting, most).items() if waiting else ():
            chosen[thread].update(dict.fromkeys(keys))
    return {thread: list(keys) for thread, keys in chosen.items()}


def _broad_tokens(query: Query) -> RequiredTokens:
    """Return what every match has, and other messages too: the tokens inside all phrases, or those of any name."""
    if query.phrases:
        return [[frozenset[str]().union(*map(words.tokens_inside_phrase, query.phrases))]]
    return [[tokens for name in query.names for tokens in _alternatives(name)]]


def _tokens_of_phrases(query: Query) -> RequiredTokens:
    return [[frozenset[str]().union(*map(tokens_of_term, query.phrases))]]


def search_parts(query: str, limit: int, searched: SearchedThreads) -> list[Hit]:
    """Return the best of all messages of some threads: without an index, their texts are gone through."""
    if limit < 1 or (wanted := _parse_bounded(query)) is None:
        return []
    messages = [SearchCandidate(scope, at, part) for scope, parts in searched for at, part in enumerate(parts)]
    return rank(wanted, limit, messages, (len(messages), sum(len(one.part.text) for one in messages)))


def search_each_threads_parts(query: str, limit: int, searched: SearchedThreads) -> dict[str, ThreadHits]:
    """Return the best messages of each of these threads, whose texts are all gone through."""
    hits = {scope.thread: search_parts(query, len(parts), [(scope, parts)]) for scope, parts in searched}
    return {name: ThreadHits(found[:limit], len(found)) for name, found in hits.items() if found}


def search_with_context(
    archive: Archive, scope: Scope, query: str, hits: Sequence[Hit], context: Sequence[Part], *, limit: int
) -> list[Hit]:
    """Return the best of the thread's hits and of the messages of its context, which are marked `live`, ranked as one.

    A message of the context that the archive does not have is found without a reference: there is nothing to read.
    """
    archived, turns = {hit.hash for hit in hits}, {hit.turn for hit in hits}
    in_context = {part.hash for part in context}
    parts = [Part(hit.hash, b"", hit.turn, hit.role, hit.origin, hit.text) for hit in hits]
    parts += [part for part in context if part.hash not in archived and part.turn not in turns]  # no shortened hit
    ranked = search_parts(query, limit, [(scope, parts)])
    unknown = [hit.hash for hit in ranked if hit.hash not in archived]
    archived.update(archive.bodies(scope, unknown) if unknown else ())
    return [hit._replace(live=hit.hash in in_context, ref=hit.ref if hit.hash in archived else "") for hit in ranked]


def _parse_bounded(query: str) -> Query | None:
    """Return what the query looks for, up to a number of words; None where there is nothing to look for."""
    names, phrases = words.parse_query(query)
    return Query(names[:_MAX_TERMS], phrases[:_MAX_TERMS]) if names or phrases else None


def _alternatives(name: QueryName) -> list[TokenSet]:
    """Return the tokens of the whole; or those of all its parts."""
    parts = [frozenset[str]().union(*map(tokens_of_term, name.parts))] if name.parts else []
    return list(dict.fromkeys([tokens_of_term(name.whole), *parts]))


def _list_terms(query: Query) -> list[str]:
    return list(dict.fromkeys(term for name in query.names for term in (name.whole, *name.parts)))


def _choose_messages(query: Query, index: SearchIndex, spread: dict[str, int], most: int) -> list[MessageKey]:
    """Return the messages to read: those with all of the words, all but the commonest, …; then with each, by rarity.

    It begins with the rarest word, and asks for one more at a time until all that there is was found: messages with
    even more of the words are among these. To ask for many words at once goes through every message.
    """
    wanted = [_alternatives(name) for name in sorted(query.names, key=lambda name: spread[name.whole])]
    found: list[Sequence[MessageKey]] = []
    for count in range(1, min(len(wanted), _MAX_COMBINED_WORDS) + 1):
        found.append(index.newest(wanted[:count], most))
        if len(found[-1]) < most:
            break
    chosen = dict.fromkeys(key for keys in reversed(found) for key in keys)
    for one in wanted[1:]:
        if len(chosen) >= most:
            break
        chosen.update(dict.fromkeys(index.newest([one], most)))
    return list(chosen)[:most]


# -- what stands in a text -------------------------------------------------------------------------------------------


class SearchedText:
    """A text as words are looked for in it."""

    def __init__(self, text: str) -> None:
        self._cased = text if text.isascii() else unicodedata.normalize("NFKC", text)
        self._folded = text.lower() if text.isascii() else self._cased.casefold()
        self._aligned = len(self._cased) == len(self._folded)

    def count(self, term: str) -> int:
        """Return how often the (folded) term stands there: by itself, or as a hump of a name."""
        occurring = self._folded.count(term)
        if not occurring or words.is_single_character_word(term):
            return occurring
        if not (self._cased.isascii() and term.isascii()):
            return sum(self._stands_as_word(at, at + len(term)) for at in self._find_places(term))
        standing = len(words.whole_term_pattern(term).findall(self._folded))
        return standing if standing == occurring else standing + self._humps[term]

    @cached_property
    def _humps(self) -> Mapping[str, int]:
        return words.count_humps(self._cased)

    def count_similar_words(self, word: str) -> int:
        """Return how often words stand there that begin like this one and end otherwise."""
        begun = (at for at in self._find_places(word[:_MIN_COMMON_PREFIX]) if self._is_token_edge(at - 1))
        runs = (words.token_pattern().match(self._folded, at) for at in begun)
        return sum(_differ_in_ending(run[0], word) for run in runs if run)

    def _find_places(self, term: str) -> Iterator[int]:
        at = self._folded.find(term)
        while at >= 0:
            yield at
            at = self._folded.find(term, at + 1)

    def _stands_as_word(self, start: int, end: int) -> bool:
        left = self._is_token_edge(start - 1) or self._is_token_edge(start)
        right = self._is_token_edge(end) or self._is_token_edge(end - 1) or end - start >= words.MAX_TOKEN_CHARACTERS
        if left and right:
            return True
        bounded = (left or words.is_hump_start(self._cased, start)) and (right or words.is_hump_start(self._cased, end))
        if not self._aligned or end - start >= words.MAX_TOKEN_CHARACTERS or not bounded:
            return False
        return self._folded[start:end] in map(str.lower, words.split_word(self._token_at(start)))

    def _is_token_edge(self, at: int) -> bool:
        """Return whether no token goes on at this place."""
        if not 0 <= at < len(self._folded):
            return True
        sign = self._folded[at]
        if sign.isascii():
            return not sign.isalnum()
        return words.separator_pattern().match(sign) is not None or words.is_single_character_word(sign)

    def _token_at(self, at: int) -> str:
        """Return the token around this place, as it is written; of a longer one than matters, more than matters."""
        start = at
        while not self._is_token_edge(start - 1) and at - start <= words.MAX_TOKEN_CHARACTERS:
            start -= 1
        found = words.token_pattern().match(self._folded, start, start + 2 * words.MAX_TOKEN_CHARACTERS)
        return self._cased[start : found.end()] if found else ""


def _differ_in_ending(one: str, other: str) -> bool:
    """Return whether two words differ only in a short ending."""
    if one == other or not one.isalpha() or abs(len(one) - len(other)) > _MIN_COMMON_PREFIX:
        return False
    shared = max(_MIN_COMMON_PREFIX, min(len(one), len(other)) - 3)
    return one[:shared] == other[:shared]


# -- ranking ---------------------------------------------------------------------------------------------------------


class _Match(NamedTuple):
    found: SearchCandidate
    counts: dict[str, int]
    """How often each term stands there."""
    similar_counts: dict[str, int]
    """How often words that begin like one of the query's."""


def rank(
    query: Query,
    limit: int,
    candidates: Iterable[SearchCandidate],
    totals: tuple[int, int],
    spread: dict[str, int] | None = None,
) -> list[Hit]:
    """Return the best of the candidates; `totals` are all messages and their characters.

    `spread` tells how many messages have each term, where the candidates are not all of them.
    """
    messages, length = totals
    terms = _list_terms(query)
    compared = [name.whole for name in query.names if len(name.whole) > _MIN_COMMON_PREFIX and name.whole.isalpha()]
    matches = [match for found in candidates if (match := _match_message(query, terms, compared, found))]
    if spread is None:
        spread = {term: sum(1 for m in matches if m.counts[term] or m.similar_counts.get(term)) for term in terms}
    rarity = {term: log(1 + (max(messages - spread[term], 0) + 0.5) / (spread[term] + 0.5)) for term in terms}
    weight = {term: rare**_RARITY_EXPONENT * (_TERM_SATURATION + 1) for term, rare in rarity.items()}
    average = length / messages if messages and length else 1.0
    scored = [(match.found, _score(query, match, weight, average)) for match in matches]
    best = nsmallest(limit, scored, key=lambda one: (-one[1], -one[0].part.turn, one[0].scope, -one[0].number))
    return [make_hit(found.scope, found.part, score) for found, score in best]


def _match_message(query: Query, terms: Sequence[str], longer: Sequence[str], found: SearchCandidate) -> _Match | None:
    """Return how often the terms of the query occur in the message; None when it does not match."""
    text = found.part.text
    if query.phrases and not contains_phrases(text, query.phrases):
        return None
    other = words.decode_json_escapes(text)  # what it says if it is JSON
    read = [SearchedText(text), *([SearchedText(other)] if other != text else [])]
    times = {term: max([reading.count(term) for reading in read]) for term in terms}
    if not query.phrases and not any(
        times[name.whole] or (name.parts and all(times[part] for part in name.parts)) for name in query.names
    ):
        return None
    alike = {word: max(reading.count_similar_words(word) for reading in read) for word in longer if not times[word]}
    return _Match(found, times, alike)


def _score(query: Query, match: _Match, weight: dict[str, float], average: float) -> float:
    damp = _TERM_SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * len(match.found.part.text) / average)
    score = 0.0
    for name in query.names:
        times = match.counts[name.whole]
        score += weight[name.whole] * times / (times + damp)
        if name.parts and all(match.counts[part] for part in name.parts):
            worth = [weight[part] * match.counts[part] / (match.counts[part] + damp) for part in name.parts]
            score += _NAME_PARTS_WEIGHT * sum(worth) / len(worth)
    for word, times in match.similar_counts.items():
        score += _SIMILAR_WORD_WEIGHT * weight[word] * times / (times + damp)
    return score
