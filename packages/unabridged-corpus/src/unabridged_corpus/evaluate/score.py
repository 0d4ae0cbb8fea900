"""Score how much of what an agent needs next a shorter context still holds.

A conversation is cut; the file names and identifiers in the calls that come after the cut (in text protocols: in the
assistant's turns) that stood before it, and were not shown again before they were used, are what the agent needs. What
the compacted context holds of them is its score. Plain strings, no judge, no model: anybody can check it by hand.
Of a call its values are read, as they are and not as JSON escapes them: a tab before `name` makes no `tname`, and the
keys of its arguments are the tool's, no names.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from unabridged.formats import Message, detect_message_format
from unabridged.messages import View
from unabridged.text_tools import parse_json

CALLS_COMPARED = 60
"""How many calls after the cut count as next."""

_PATH_PATTERN = re.compile(
    r"(?<![A-Za-z0-9_.-])(?:[A-Za-z0-9_.-]{1,100}/){1,40}[A-Za-z0-9_.-]{1,100}\.[A-Za-z0-9]{1,6}"
)
_NAME_PATTERN = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{7,}\b")
_HUMP_PATTERN = re.compile(r"[a-z][A-Z]")


@dataclass(frozen=True, slots=True)
class Needs:
    """The paths and identifiers that are needed next; a path is held when its file name is."""

    files: frozenset[str]
    names: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.files or self.names)


@dataclass(frozen=True, slots=True)
class NeedsScore:
    """How many of the needed files and names a text holds."""

    files: int
    files_needed: int
    names: int
    names_needed: int

    @property
    def share(self) -> float:
        """Return the share of files and names together; 1 when nothing is needed."""
        needed = self.files_needed + self.names_needed
        return (self.files + self.names) / needed if needed else 1.0


def find_needs(before: Sequence[Message], after: Sequence[Message], calls: int = CALLS_COMPARED) -> Needs:
    """Return the files and names in the next calls that were seen before the cut and not shown again before use."""
    read = detect_message_format([*before, *after]).read
    return find_needs_in_views([read(message) for message in before], [read(message) for message in after], calls)


def find_needs_in_views(before: Sequence[View], after: Sequence[View], calls: int = CALLS_COMPARED) -> Needs:
    """Return `find_needs` of messages that were read already."""
    known = "\n".join(text for view in before for _, text in _split_view(view))
    files: set[str] = set()
    names: set[str] = set()
    shown: set[str] = set()
    seen = 0
    for view in after:
        acts_in_text = view.role == "assistant" and not view.calls
        for is_call, text in _split_view(view):
            if is_call or acts_in_text:
                seen += 1
                files |= {path for path in _PATH_PATTERN.findall(text) if path in known and path not in shown}
                exact_names = filter(_is_identifier, set(_NAME_PATTERN.findall(text)))
                names |= {name for name in exact_names if name in known and name not in shown}
            elif view.role != "assistant":
                shown |= {*_PATH_PATTERN.findall(text), *_NAME_PATTERN.findall(text)}
        if seen >= calls:
            break
    return Needs(frozenset(files), frozenset(names))


def count_held_needs(text: str, needed: Needs) -> NeedsScore:
    """Count how many of the needed files and names the text contains; of a file its base name is enough."""
    files = sum(path.rpartition("/")[2] in text for path in needed.files)
    return NeedsScore(files, len(needed.files), sum(name in text for name in needed.names), len(needed.names))


def find_cuts(messages: Sequence[Message], every: int = 24_000) -> list[int]:
    """Return the indices where the conversation has grown by `every` more tokens (characters of JSON / 4)."""
    places: list[int] = []
    size, limit = 0.0, float(every)
    for i, message in enumerate(messages[:-1]):
        size += len(json.dumps(message, default=str)) / 4
        if size >= limit:
            places.append(i + 1)
            limit = (size // every + 1) * every
    return places


def average_shares(scores: Mapping[str, Sequence[NeedsScore]]) -> tuple[float, float]:
    """Return the shares of files and names held: the mean over conversations of the mean over their cuts."""
    files = [[one.files / one.files_needed for one in of_one if one.files_needed] for of_one in scores.values()]
    names = [[one.names / one.names_needed for one in of_one if one.names_needed] for of_one in scores.values()]
    return _mean_of_means(files), _mean_of_means(names)


def bootstrap_interval(values: Sequence[float], draws: int = 2_000) -> tuple[float, float]:
    """Return a 95 % bootstrap interval of the mean; the same values always give the same one."""
    chance = random.Random(0)  # noqa: S311 - resampling, not secrets
    means = sorted(fmean(chance.choices(values, k=len(values))) for _ in range(draws))
    return means[draws // 40], means[-draws // 40 - 1]


def _mean_of_means(shares: Sequence[Sequence[float]]) -> float:
    means = [fmean(of_one) for of_one in shares if of_one]
    return fmean(means) if means else 1.0


def _is_identifier(word: str) -> bool:
    return "_" in word or _HUMP_PATTERN.search(word) is not None


def _split_view(view: View) -> Iterator[tuple[bool, str]]:
    """Yield every part of a message as (whether it is a call's arguments, its text)."""
    if view.text:
        yield False, view.text
    for call in view.calls:
        yield True, join_argument_values(call.arguments)
    for answer in view.answers:
        yield False, answer.text


def join_argument_values(value: Any) -> str:
    """Return the values of a call's arguments, a line each, as they are and not as JSON escapes them; without keys."""
    if isinstance(value, str):
        parsed = parse_json(value, value)
        return value if isinstance(parsed, str) else join_argument_values(parsed)
    if isinstance(value, Mapping):
        return "\n".join(map(join_argument_values, value.values()))
    if isinstance(value, list | tuple):
        return "\n".join(map(join_argument_values, value))
    return "" if value is None else str(value)
