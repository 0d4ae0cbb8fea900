"""The words of a text and of a query, and what an index has of them: one tokenizer, so that all stores find alike.

A name is more than one word: `src/app/getUserName.py` is also `app/getusername.py`, `getusername.py`, `getusername`,
`user`, …; scripts written without spaces are single characters and pairs. Case, Unicode form and width don't matter.
Nothing is stemmed or dropped: search is literal.

`prepare_for_index` turns text into what an index takes: each run of letters and digits is a token, so is each hump of a
name, each character and each pair of an unspaced script. It must give the same as long as archives have what it gave:
SQLite takes a message out of its index by the same text.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from typing import Final, NamedTuple

MAX_TOKEN_CHARACTERS: Final = 80
"""Characters of a term; a longer one (base64, a token) is known by its beginning."""

CUT_MARK: Final = "…"
"""The term of every text that has a longer one."""

# Scripts written without spaces: Thai to Myanmar, Khmer, kana, Han, Hangul, and the Han of the higher planes.
_UNSPACED_SCRIPTS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_RUN_PATTERN: Final = re.compile(f"([{_UNSPACED_SCRIPTS}\u3005\u3006\u30fc]+)")
_SYMBOLS: Final = "\u2190-\u2bff\U0001f000-\U0001faff"  # arrows, symbols, emoji: each is a word by itself
_SINGLE_CHARACTER_PATTERN: Final = re.compile(f"[{_UNSPACED_SCRIPTS}\u3005\u3006\u30fc{_SYMBOLS}]")
_JOINING_CHARACTERS: Final = "./:@+~-"
_ASCII_NAME_PATTERN: Final = re.compile(rf"[A-Za-z0-9_]++(?:[{_JOINING_CHARACTERS}]++[A-Za-z0-9_]++)*+")
_SPLIT_PATTERNS: Final = re.compile(r"[:@+~]+"), re.compile(r"/+"), re.compile(r"[.-]+")
_HUMP_PATTERN: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HUMP_OR_UNDERSCORE_PATTERN: Final = re.compile(f"_+|{_HUMP_PATTERN.pattern}")
_ESCAPE_CHARACTERS: Final = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\b": " ", "\\f": " ", '\\"': '"'}
_ESCAPE_PATTERN: Final = re.compile(rb"\\[nrtbf]([A-Za-z0-9\x80-\xff]+)")
_UNICODE_ESCAPE_PATTERN: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_PHRASE_PATTERN: Final = re.compile(r'"([^"]+)"')
_SPACE_PATTERN: Final = re.compile(r"\s+")
_TOKEN_PATTERN: Final = re.compile(rb"[a-z0-9\x80-\xff]+")
# Lower case and digits as `a`, upper case as `A`, what stands between tokens as a space.
_CHARACTER_CLASSES: Final = bytes(
    ord(("A" if chr(code).isupper() else "a" if chr(code).isalnum() else " ") if code < 0x80 else "x")
    for code in range(256)
)


class QueryName(NamedTuple):
    """A word of a query: found as the `whole`, or as all of its `parts` (none for a simple word)."""

    whole: str
    parts: tuple[str, ...] = ()


class Query(NamedTuple):
    """What a search looks for: any of the names, best those with most; and each phrase, literally."""

    names: tuple[QueryName, ...]
    phrases: tuple[str, ...]


def count_terms(text: str) -> dict[str, int]:
    """Return how often each term stands in the text, in the reading that has it more often where it may be JSON."""
    counted = _count_name_terms(text)
    if "\\" in text:
        for term, times in _count_name_terms(decode_json_escapes(text)).items():
            counted[term] = max(times, counted.get(term, 0))
    return counted


def parse_query(query: str) -> Query:
    """Return the query as literal words. No character in it is an operator; an odd quote is just a character."""
    phrases = dict.fromkeys(fold_text(phrase) for phrase in _PHRASE_PATTERN.findall(query))
    phrases.pop("", None)
    names: dict[str, QueryName] = {}
    for name in _find_names(query):
        terms = _list_name_terms(name)
        if _UNSPACED_RUN_PATTERN.search(name):
            # A sentence without spaces is no name: each pair of characters counts by itself.
            pairs = [term for term in terms if len(term) > 1] or terms
            names.update((pair, QueryName(pair)) for pair in pairs)
        else:
            # `app.py:42` helps most when it stands there whole, but either half by itself is worth finding.
            halves = [half for half in _SPLIT_PATTERNS[0].split(name) if half.strip(_JOINING_CHARACTERS)]
            found = [_make_query_name(half) for half in halves]
            names.update((one.whole, one) for one in ([QueryName(terms[0])] if len(halves) > 1 else []) + found)
    if not names and not phrases and (literal := fold_text(query)):
        phrases = {literal: None}  # only signs, as in "=>": looked for as they stand
    return Query(tuple(names.values()), tuple(phrases))


def fold_text(text: str) -> str:
    """Return the text as phrases are compared: without case, Unicode form, width and kinds of white space."""
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return _SPACE_PATTERN.sub(" ", folded).strip()


def contains_phrases(text: str, phrases: tuple[str, ...]) -> bool:
    """Return whether every (folded) phrase stands in the text."""
    readings = {fold_text(reading) for reading in (text, decode_json_escapes(text))} if phrases else ()
    return all(any(phrase in reading for reading in readings) for phrase in phrases)


def decode_json_escapes(text: str) -> str:
    r"""Return the other reading of a text that may be JSON, as arguments of calls are: after `\n` a word begins."""
    if "\\" not in text:
        return text
    for escape, sign in _ESCAPE_CHARACTERS.items():
        text = text.replace(escape, sign)
    return _UNICODE_ESCAPE_PATTERN.sub(lambda match: chr(int(match[1], 16)), text)


def prepare_for_index(text: str) -> bytes:
    """Return the text as search indexes take it: runs of letters and digits, separated by spaces or punctuation."""
    data = _separate_unspaced(text)
    more: list[bytes] = []
    if b"\\" in data:
        more = _ESCAPE_PATTERN.findall(data)
        if b"\\u" in data:
            more += [_separate_unspaced(decode_json_escapes(word)) for word in data.decode().split() if "\\u" in word]
    data = b" ".join([data, *more, b""])
    return b" ".join([data, *_find_humps(data)])


def extract_tokens(prepared: bytes) -> set[bytes]:
    """Return the tokens of a prepared text, as SQLite's `ascii` tokenizer gives them; of a long one the beginning."""
    tokens = _TOKEN_PATTERN.findall(prepared.lower())
    most = MAX_TOKEN_CHARACTERS
    return {token if len(token) <= most else token.decode("utf-8", "replace")[:most].encode() for token in tokens}


def tokens_of_term(term: str) -> frozenset[str]:
    """Return the tokens that every text has in which this (folded) term stands."""
    found = _TOKEN_PATTERN.findall(_separate_unspaced(term).lower())
    return frozenset(token.decode()[:MAX_TOKEN_CHARACTERS] for token in found)


def tokens_inside_phrase(phrase: str) -> frozenset[str]:
    """Return the tokens of every text that has this (folded) phrase, even if it begins or ends inside a word."""
    spread = _separate_unspaced(phrase).lower()
    found: set[str] = set()
    for match in _TOKEN_PATTERN.finditer(spread):
        token = match[0].decode()
        if _SINGLE_CHARACTER_PATTERN.match(token) or (match.start() > 0 and match.end() < len(spread)):
            found.add(token[:MAX_TOKEN_CHARACTERS])
    return frozenset(found)


def is_single_character_word(term: str) -> bool:
    """Return whether the term is of an unspaced script, or a symbol: it stands wherever its characters do."""
    return _SINGLE_CHARACTER_PATTERN.match(term) is not None


def _separate_unspaced(text: str) -> bytes:
    """Return the text as bytes, with spaces around the characters of scripts that are written without spaces."""
    if text.isascii():
        return text.encode()
    return unicodedata.normalize("NFKC", text).encode("ascii", _ERROR_HANDLER_NAME)


def _separate_error_run(error: UnicodeError) -> tuple[bytes, int]:
    """Return what replaces characters beyond ASCII: so the encoder itself finds them, as fast as it copies others."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _separate_run(error.object[error.start : error.end]), error.end


_ERROR_HANDLER_NAME: Final = "unabridged.spread"
codecs.register_error(_ERROR_HANDLER_NAME, _separate_error_run)


@lru_cache(maxsize=1 << 14)
def _separate_run(run: str) -> bytes:
    pieces = _UNSPACED_RUN_PATTERN.split(run.casefold())
    pieces[::2] = (
        separator_pattern().sub(lambda match: f" {match[0]} " if is_single_character_word(match[0]) else " ", p)
        for p in pieces[::2]
    )
    pieces[1::2] = (f" {' '.join(_list_pairs(piece))} " for piece in pieces[1::2])
    return "".join(pieces).encode("utf-8", "replace")


def _find_humps(data: bytes) -> set[bytes]:
    """Return the humps of every name in the data, which ends with a space; found by the places where they meet."""
    names = set(_find_hump_names(data).values())
    # Where a single letter would stand alone there are none: base64, most often, which is not worth remembering.
    worth = (name for name in names if b"aAAa" not in name.translate(_CHARACTER_CLASSES))
    return {hump for name in worth for hump in _split_humps_of_bytes(name)}


def _find_hump_names(data: bytes) -> dict[int, bytes]:
    """Return the names with humps in the data, which ends with a space, by where they begin."""
    classes = data.translate(_CHARACTER_CLASSES)
    find, before = classes.find, classes.rfind
    names: dict[int, bytes] = {}
    for meeting in (b"aA", b"AAa"):
        at = find(meeting)
        while at >= 0:
            start, end = before(b" ", 0, at) + 1, find(b" ", at)
            names[start] = data[start:end]
            at = find(meeting, end)
    return names


def count_humps(text: str) -> Counter[str]:
    """Return how often each hump (folded) of a name stands in this text of ASCII."""
    names = _find_hump_names(f"{text} ".encode()).values()
    return Counter(hump.lower().decode() for name in names for hump in _split_humps_of_bytes(name))


@lru_cache(maxsize=1 << 16)
def _split_humps_of_bytes(name: bytes) -> tuple[bytes, ...]:
    return tuple(hump.encode() for hump in split_word(name.decode()))


def is_hump_start(text: str, at: int) -> bool:
    """Return whether another hump of a name begins at this place."""
    return _HUMP_PATTERN.match(text, at) is not None


def _count_name_terms(text: str) -> dict[str, int]:
    counted: dict[str, int] = {}
    seen = counted.get
    for name, times in Counter(_find_names(text)).items():
        for term in _list_name_terms(name):
            counted[term] = seen(term, 0) + times
    return counted


def _find_names(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_NAME_PATTERN.findall(text)
    return _name_pattern().findall(unicodedata.normalize("NFKC", text))


@lru_cache(maxsize=1 << 16)
def _list_name_terms(name: str) -> tuple[str, ...]:
    """Return what the name is indexed by, each once: itself first, then its pieces, down to words and their parts."""
    if name.isascii() or not (runs := _UNSPACED_RUN_PATTERN.split(name))[1:]:
        return tuple(_list_pieces(name))
    found: dict[str, None] = {}
    for index, run in enumerate(runs):
        found.update(dict.fromkeys(_list_pairs(run.casefold()) if index % 2 else _list_pieces(run)))
    return tuple(found)


def _list_pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] + list(run)


def _list_pieces(name: str) -> list[str]:
    if name.islower() and name.isalpha() and len(name) <= MAX_TOKEN_CHARACTERS:
        return [_to_term(name)]
    pieces = [name.strip(_JOINING_CHARACTERS)]
    found = dict.fromkeys(pieces)
    for path in (piece for piece in pieces if "/" in piece):
        steps = path.split("/")
        found.update(dict.fromkeys("/".join(steps[at:]) for at in range(1, len(steps))))
    for joiner in _SPLIT_PATTERNS:
        pieces = [part for piece in pieces for part in joiner.split(piece) if part]
        found.update(dict.fromkeys(pieces))
    for word in pieces:
        found.update(dict.fromkeys(split_word(word)))
    terms = list(dict.fromkeys(_to_term(piece) for piece in found if piece))
    return [*terms, CUT_MARK] if any(len(piece) > MAX_TOKEN_CHARACTERS for piece in pieces) else terms


def _make_query_name(name: str) -> QueryName:
    """Return the name with its smallest parts: a text that has them all has the name, if in another arrangement."""
    whole = _list_name_terms(name)[0]
    words = [word for word in separator_pattern().split(name) if word.strip("_")]
    parts = tuple(dict.fromkeys(_to_term(part) for word in words for part in (split_word(word) or [word])))
    return QueryName(whole, () if parts == (whole,) else parts)


def split_word(word: str) -> list[str]:
    """Return the parts of `getUserName` and `user_name`; none where one would be a single letter, or in bulk data."""
    if len(word) > MAX_TOKEN_CHARACTERS:
        return []
    parts = [part for part in _HUMP_OR_UNDERSCORE_PATTERN.split(word) if part]
    return parts if all(len(part) > 1 for part in parts) else []


def _to_term(piece: str) -> str:
    return (piece.lower() if piece.isascii() else piece.casefold())[:MAX_TOKEN_CHARACTERS]


@cache
def _combining_marks() -> str:
    r"""Return every combining mark as a regular expression class: part of words, though `\w` leaves them out."""
    blocks = (range(0x300, 0x2000), range(0x20D0, 0x2100), range(0x2DE0, 0x2E00), range(0xA000, 0xAC00))
    return "".join(chr(code) for block in blocks for code in block if unicodedata.category(chr(code))[0] == "M")


@cache
def _name_pattern() -> re.Pattern[str]:
    word = f"[\\w{_combining_marks()}]+"
    return re.compile(f"{word}(?:[{_JOINING_CHARACTERS}]+{word})*|[{_SYMBOLS}]")


@lru_cache(maxsize=1 << 10)
def whole_term_pattern(term: str) -> re.Pattern[str]:
    """Return a pattern that finds a folded ASCII term where it stands as a whole word."""
    literal = re.escape(term)
    left = f"(?<![a-z0-9]{literal})" if term[0].isalnum() else ""
    right = "(?![a-z0-9])" if term[-1].isalnum() and len(term) < MAX_TOKEN_CHARACTERS else ""
    return re.compile(f"{literal}{right}{left}")  # the literal first: it is what is looked for fastest


@cache
def separator_pattern() -> re.Pattern[str]:
    """Return a pattern for one character that is not part of a word."""
    return re.compile(f"[^\\w{_combining_marks()}]")


@cache
def token_pattern() -> re.Pattern[str]:
    """Return a pattern for one token of a folded text."""
    return re.compile(f"(?:(?![{_UNSPACED_SCRIPTS}\u3005\u3006\u30fc_])[\\w{_combining_marks()}])+")
