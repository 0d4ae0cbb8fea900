"""Find which identifiers and files stand in a text, and how much each occurrence weighs.

What a person or a call names weighs more than what merely stands in a tool's output. A name is what a program, a system
or a person would have to spell exactly: code names, ids, hashes, URLs, versions, amounts, flags, error codes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain
from typing import Literal, NamedTuple

from unabridged.marks import remove_record_ids
from unabridged.summary.ledger import Deed, File, Name, fade_weight
from unabridged.summary.shell import TOOL_TABLE, has_extension
from unabridged.text_cache import cache_by_text

Voice = Literal["person", "model", "call", "tool", "fault"]
VOICE_WEIGHTS: dict[Voice, float] = {"person": 1.5, "model": 1.0, "call": 1.0, "fault": 0.5, "tool": 0.1}

_MAX_NAMES_PER_TEXT = 200
"""Names in one output above which each weighs less."""
_FEW, _FEW_OF_A_PERSON = 8, 20
"""Names in one piece up to which each is told on its own, and not one of a crowd."""
_SHORT_TEXT_CHARACTERS = 400
"""Characters of a tool's output up to which what it names was asked for."""

_WORD_PATTERN = re.compile(r"[A-Za-z0-9_]{3,80}+(?![A-Za-z0-9_])")
# Sizes, times, addresses in memory and pieces of ids have digits too, but nobody needs to spell them.
_MEASURE_PATTERN = re.compile(TOOL_TABLE["measures"], re.IGNORECASE)
_CAMEL_CASE_PATTERN = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_SPECIAL_NAME_PATTERN = re.compile("|".join(TOOL_TABLE["names"].values()))
# What opens doors is no name: it stays in the archive and is not spread over summaries.
_SECRET_PATTERN = re.compile(TOOL_TABLE["secrets"])
_HASH_PATTERN = re.compile(r"[0-9a-f]{6,40}|\d+")
"""Hashes and bare numbers, of which tools are full: nobody comes back to most of them."""
_SMALL_NUMBER_PATTERN = re.compile(r"\d{1,7}|0o?\d+|(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{6,40}")
"""Of those, what nobody needs to spell who only saw it in a call or an output."""
_JSON_FIELD_PATTERN = re.compile(r'"(\w+)"\s*:')
_SPECIAL_CHARACTER_PATTERN = re.compile(r"[\d@#$€£¥%]|://|--|-\w+-")
_TRAILING_PUNCTUATION = ".,;:!?)]}'\"`"


class TextPiece(NamedTuple):
    """A stretch of text: whose it is, and when it was said."""

    turn: int
    voice: Voice
    text: str
    acts: bool = False
    """Whether the message also calls a tool."""


@lru_cache(maxsize=8192)
def is_name(word: str) -> bool:
    """Return whether a word of letters, digits and underscores has to be spelled exactly: no language has it."""
    bare = word.strip("_")
    if bare and ("_" in bare or (word.startswith("__") and len(word) > 4) or _CAMEL_CASE_PATTERN.search(word)):
        return True
    digits = sum(char.isdigit() for char in word)
    return bool(bare) and 0 < digits < len(word) >= 4 and not _MEASURE_PATTERN.fullmatch(word)


def collect_names(pieces: Iterable[TextPiece]) -> tuple[Name, ...]:
    """Return every name in the pieces of text, in the order of their last use."""
    found: dict[str, _Occurrences] = {}
    for piece in pieces:
        text = remove_record_ids(piece.text)
        if "\\" in text:  # Code in a string: what follows an escape is a word of its own.
            text = text.replace("\\n", "\n").replace("\\t", "\t")
        words = _find_names(text, piece.voice)
        weight = _compute_weight(piece.voice, len(words))
        by_person = piece.voice == "person"
        asked_for = piece.voice != "tool" or len(text) <= _SHORT_TEXT_CHARACTERS
        few = asked_for and len(words) <= (_FEW_OF_A_PERSON if by_person else _FEW)
        for word in words:
            seen = found.setdefault(word, _Occurrences())
            seen.add(weight, piece.turn)
            seen.asked |= by_person
            exact = any(map(str.isdigit, word)) and (piece.voice == "model" or not _HASH_PATTERN.fullmatch(word))
            seen.told |= few and (by_person or exact)
    names = (Name(word, seen.turn, seen.weight, seen.uses, seen.asked, seen.told) for word, seen in found.items())
    return tuple(sorted(names, key=lambda name: (name.turn, name.text)))


@cache_by_text
def _find_names(text: str, voice: Voice) -> frozenset[str]:
    """Return the names in a text."""
    words = {word for word in set(_WORD_PATTERN.findall(text)) if is_name(word)}
    if voice != "tool" or len(text) < 2_000:
        special = _find_special_names(text)
        # Commands and logs are full of options and moments: next steps take theirs from elsewhere.
        words |= special if voice == "person" else {w for w in special if w[:2] != "--" and w[10:11] != "T"}
    if voice == "tool" and text[:1] in {"{", "["}:  # of a record, the names of its fields are the tool's
        words.difference_update(_JSON_FIELD_PATTERN.findall(text))
    words -= {word[1:] for word in words if word[0] == "#"}
    if voice in {"tool", "call"}:
        words = {word for word in words if not _SMALL_NUMBER_PATTERN.fullmatch(word)}
    return frozenset(word for word in words if len(word) < 14 or not _SECRET_PATTERN.match(word))


def _compute_weight(voice: Voice, number: int) -> float:
    """Return what one of so many names in a piece weighs: an output that lists thousands says little about each."""
    crowded = voice == "tool" and number > 0
    return VOICE_WEIGHTS[voice] * (min(1.0, _MAX_NAMES_PER_TEXT / number) if crowded else 1.0)


def _find_special_names(text: str) -> set[str]:
    """Return everything that is spelled with more than letters, digits and underscores. Each word is searched once."""
    words = " ".join(word for word in set(text.split()) if len(word) <= 400 and _SPECIAL_CHARACTER_PATTERN.search(word))
    found = _SPECIAL_NAME_PATTERN.findall(words)
    return {name.rstrip(_TRAILING_PUNCTUATION) for name in found if 3 <= len(name) <= 200}


class _Occurrences:
    """How a name or a file was met so far: a weight that fades with every message, a sum that does not."""

    __slots__ = ("asked", "deeds", "told", "turn", "uses", "weight")

    def __init__(self) -> None:
        self.weight = self.uses = 0.0
        self.turn = 0
        self.asked = self.told = False
        self.deeds: dict[Deed, int] = {}

    def add(self, weight: float, turn: int) -> None:
        if turn > self.turn:
            self.weight, self.turn = fade_weight(self.weight, turn - self.turn), turn
        self.weight += weight
        self.uses += weight


def collect_files(pieces: Iterable[TextPiece], touched: Iterable[tuple[int, str, Deed]]) -> tuple[File, ...]:
    """Return every file that was touched or named, with what happened to it; one entry however its path was written."""
    found: dict[str, _Occurrences] = {}
    for piece in pieces:
        paths = find_paths(piece.text, by_name=piece.voice != "tool")
        for path in paths:
            seen = found.setdefault(path, _Occurrences())
            seen.add(_compute_weight(piece.voice, 10 * len(paths)), piece.turn)
            if piece.voice == "person":
                seen.deeds["mention"] = seen.deeds.pop("mention", 0) + 1
    for turn, path, deed in touched:
        seen = found.setdefault(clean_path(path), _Occurrences())
        seen.add(0.5, turn)
        seen.deeds[deed] = seen.deeds.pop(deed, 0) + 1  # the last one stands last
    met = found.items()
    return merge_files(File(path, seen.turn, seen.weight, tuple(seen.deeds.items())) for path, seen in met if path)


# -- files -------------------------------------------------------------------------------------------------------------

_SYSTEM_FOLDERS = frozenset({"/tmp", "/var", "/usr", "/home", "/root", "/opt", "/etc", "/Users", "/private"})  # noqa: S108 - names only
_PATH_PATTERN = re.compile(r"(?<![\w./~+>\])}*$-])[\w.~+-]{0,80}+/[\w./@+-]{2,240}+")
_FILE_NAME_PATTERN = re.compile(r"(?<![\w./@~+-])[\w@+-][\w.@+-]{0,80}\.[A-Za-z]\w{0,6}(?![\w/(])")


@cache_by_text
def find_paths(text: str, *, by_name: bool) -> frozenset[str]:
    """Return the paths in a text; with `by_name` also file names without a folder."""
    paths = {clean_path(path) for path in set(_PATH_PATTERN.findall(text))}
    found = {path for path in paths if path and "//" not in path and has_extension(path) and path.count("/") < 20}
    if by_name:
        found |= {name for name in set(_FILE_NAME_PATTERN.findall(text)) if has_extension(name)}
    return frozenset(found)


def clean_path(path: str) -> str:
    """Return a path without the marks of the sentence around it."""
    path = path.strip("'\"`,;:()[]<> ").rstrip(".")
    while path.startswith(("./", "../")):
        path = path.partition("/")[2]
    return path if len(path) <= 260 and "$" not in path and path.strip("/.-") and path[-1] != "-" else ""


def merge_files(files: Iterable[File]) -> tuple[File, ...]:
    """Return one entry a file: `theme.ts` and `/home/me/src/theme.ts` are the same when nothing speaks against it."""
    files = list(files)
    known = {file.path for file in files}
    by_base: dict[str, list[File]] = {}
    for file in sorted(files, key=lambda file: (-len(file.path), file.path)):
        if file.path[:2] in {"a/", "b/"} and file.path[2:] in known:  # the two sides of a diff
            file = replace(file, path=file.path[2:])  # noqa: PLW2901 - the same file by its own name
        alike = by_base.setdefault(file.path.rstrip("/").rpartition("/")[2], [])
        owners = [i for i, other in enumerate(alike) if f"/{other.path}".endswith(f"/{file.path}")]
        owners.sort(key=lambda i: -alike[i].weight)
        # With several candidates, one that is far more in use than the others is meant.
        if owners and (len(owners) == 1 or alike[owners[0]].weight > 3 * alike[owners[1]].weight):
            alike[owners[0]] = _merge_file_entries(alike[owners[0]], file)
        else:
            alike.append(file)
    return tuple(sorted(chain(*by_base.values()), key=lambda file: (file.turn, file.path)))


def _merge_file_entries(one: File, other: File) -> File:
    """Return both entries under the first one's path; what was done last stands last."""
    deeds: dict[Deed, int] = {}
    for file in sorted((one, other), key=lambda file: file.turn):
        for deed, number in file.deeds:
            deeds[deed] = deeds.pop(deed, 0) + number
    turn = max(one.turn, other.turn)
    weight = sum(fade_weight(file.weight, turn - file.turn) for file in (one, other))
    return File(one.path, turn, weight, tuple(deeds.items()))


def abbreviate_root(text: str, root: str) -> str:
    """Return the text with an ellipsis for the folder that the work is in."""
    return text.replace(f"{root}/", "…/") if root else text


def find_common_root(paths: Iterable[str]) -> str:
    """Return the deepest folder that nearly all absolute paths are in; "" when it is not worth leaving out."""
    folders = [folder for path in paths if (folder := path.rpartition("/")[0]).startswith("/")]
    counted = Counter(root for folder in folders for root in accumulate(folder.split("/"), "{}/{}".format))
    nearly_all = (root for root, number in counted.items() if number > 2 and number * 5 >= len(folders) * 4)
    return max((root for root in nearly_all if root not in _SYSTEM_FOLDERS), key=len, default="")
