"""Find what is wrong with a reply that should become a summary. An empty list is acceptance.

No check asks a model. Whether what a reply claims holds is another question: `citations` answers it, and mends.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

from unabridged.asking.ask import Reply
from unabridged.languages import fold_case, get_language_name, measure_phrase_match
from unabridged.languages.detection import detect_certain_language
from unabridged.text_tools import Count

SHINGLE_WORDS = 12
"""Words in a row that nobody repeats by chance."""
RESTATED_SHARE = 0.5
"""The share of a reply that may be found word for word in what it should summarise."""

_THINKING_PATTERN = re.compile(r"<(think|thinking|reasoning|analysis)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCED_REPLY_PATTERN = re.compile(r"\A```(?:markdown|md|text)?\n(.*)\n```\Z", re.DOTALL)
_SUMMARY_TAG_PATTERN = re.compile(r"\A<summary>(.*?)(?:</summary>)?\Z", re.DOTALL | re.IGNORECASE)
_WORD_PATTERN = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|[^\W\u2e80-\u9fff\uac00-\ud7af]+")

_LEADING_SIGNS_PATTERN = re.compile(r"[\W_]*")
_BAD_REPLIES = json.loads(Path(__file__).with_name("bad_replies.json").read_text(encoding="utf-8"))
"""How errors and placeholders open, in any case; of `placeholders`, all that the reply says."""
_ERRORS, _PLACEHOLDERS, _OPENINGS = ("|".join(_BAD_REPLIES[kind]) for kind in ("errors", "placeholders", "openings"))
_ERROR_PATTERN = re.compile(rf"\A\W*(?:{_ERRORS})", re.IGNORECASE)
_PLACEHOLDER_PATTERN = re.compile(rf"\A\W*(?:(?:{_PLACEHOLDERS})\W*\Z|{_OPENINGS})", re.IGNORECASE)

_STOP_MESSAGES = {
    "length": "the reply was cut off at its token limit; be much shorter",
    "other": "the reply ended for a reason the provider did not name",
}


class Problem(NamedTuple):
    """One thing that is wrong, by name and in words that a model can act on."""

    name: str
    message: str


class ExpectedReply(NamedTuple):
    """What a reply is compared with."""

    budget: int
    """The most tokens it may take."""
    replaced: int
    """The tokens of all that it stands for."""
    count: Count
    shown: Sequence[str] = ()
    """The texts it should summarise; earlier summaries and notes, which it may well repeat, are not among them."""
    language: str = ""
    """The language it must be in, as `detect_certain_language` names it; "" when any will do."""
    marks: Sequence[str] = ()
    """What sets the data off: a reply that carries it repeats its input."""


def extract_visible_text(text: str) -> str:
    """Return the reply without thinking in tags, and without a fence or tag around the whole of it."""
    text = _THINKING_PATTERN.sub("", text).strip()
    for around in (_FENCED_REPLY_PATTERN, _SUMMARY_TAG_PATTERN):
        if (inside := around.match(text)) is not None:
            text = inside[1].strip()
    return text


def trim_sections(text: str, budget: int, count: Count) -> str:
    """Return the text within the budget, without the last lines of its longest sections; each keeps its first line."""
    sections = [part.split("\n") for part in re.split(r"\n(?=#)", text)]
    lengths = [[*accumulate(map(len, lines))] for lines in sections]

    def shorten_to(most: int) -> str:
        rows = zip(sections, lengths, strict=True)
        return "\n".join("\n".join(lines[: max(1, bisect_right(sizes, most))]) for lines, sizes in rows)

    limits = sorted({0, *chain(*lengths)}, reverse=True)
    place = bisect_left(limits[:-1], True, key=lambda most: count(shorten_to(most)) <= budget)
    return shorten_to(limits[place])


def find_problems(reply: Reply, expected: ExpectedReply) -> list[Problem]:
    """Return everything that is wrong with the reply; the first is the gravest."""
    text = extract_visible_text(reply.text)
    if (problem := _find_failure(reply, text)) is not None:
        return [problem]
    return list(_find_content_problems(text, expected))


def list_impossible_checks(reply: Reply) -> tuple[str, ...]:
    """Return the names of checks that can't be made, because the reply does not say why the model stopped."""
    return ("cut-off", "tool-call", "reasoning-only") if reply.stop is None else ()


def _find_failure(reply: Reply, text: str) -> Problem | None:
    """Return why the reply is no answer at all; None where it is one."""
    if reply.calls or reply.stop == "tool":
        return Problem("tool-call", "the reply called a tool; write the summary as plain text and call nothing")
    if reply.stop == "refusal" or (len(text) < 600 and _is_refusal(text)):
        return Problem("refusal", "the reply refused; only a factual record of the conversation is asked for")
    if not text and (reply.reasoning.strip() or reply.text.strip()):
        return Problem("reasoning-only", "the reply was thinking only; write the summary itself")
    if not text:
        return Problem("empty", "the reply was empty")
    return Problem("cut-off", _STOP_MESSAGES[reply.stop]) if reply.stop in _STOP_MESSAGES else None


def _is_refusal(text: str) -> bool:
    """Return whether it begins by saying that the model won't, or can't, perhaps after an apology."""
    words = _LEADING_SIGNS_PATTERN.sub("", fold_case(text), count=1)
    while reach := 0 if measure_phrase_match("refusals", words) else measure_phrase_match("apologies", words):
        words = _LEADING_SIGNS_PATTERN.sub("", words[reach:], count=1)
    return measure_phrase_match("refusals", words) > 0


def _find_content_problems(text: str, expected: ExpectedReply) -> Iterator[Problem]:
    """Yield what is wrong with what the reply says."""
    words, size = _split_words(text), expected.count(text)
    if len(text) < 1_500 and _ERROR_PATTERN.match(text):
        yield Problem("error-text", "the reply is an error message, not a summary")
    elif (len(text) < 12 and expected.replaced > 200) or (len(text) < 300 and _PLACEHOLDER_PATTERN.search(text)):
        yield Problem("placeholder", "the reply says nothing about the conversation")
    if any(mark in text for mark in expected.marks) or _is_restatement(words, expected.shown):
        yield Problem("restated-input", "the reply repeats the conversation; put it in your own words, far shorter")
    runs = [tuple(words[i : i + 5]) for i in range(len(words) - 4)]
    if len(words) >= 80 and len(set(runs)) * 2 < len(runs):
        yield Problem("repetitive", "the reply says the same thing over and over")
    if size >= expected.replaced:
        yield Problem("not-smaller", f"the reply takes {size:,} tokens and replaces {expected.replaced:,}")
    if size > expected.budget:
        yield Problem("over-budget", f"the reply takes {size:,} tokens and may take {expected.budget:,}")
    language = detect_certain_language([text]) if expected.language else ""
    if language and language != expected.language and not _is_mostly_in_language(text, expected.language, language):
        right, wrong = (get_language_name(code) or f"{code} script" for code in (expected.language, language))
        yield Problem("wrong-language", f"the reply is in {wrong}; the conversation is in {right}")


def _is_restatement(words: Sequence[str], shown: Sequence[str]) -> bool:
    """Return whether the reply repeats its input: these words, or half of them, stand in a row in one of the texts."""
    if len(words) < SHINGLE_WORDS + 4:
        plain = " ".join(words)
        return len(words) >= 4 and any(plain in " ".join(_split_words(text)) for text in shown)
    own = set(_hash_word_runs(words))
    restated = {shingle for text in shown for shingle in _hash_word_runs(_split_words(text)) if shingle in own}
    return len(restated) > RESTATED_SHARE * len(own)


def _is_mostly_in_language(text: str, language: str, other: str) -> bool:
    """Return whether the text is in this language, apart from a few lines in the other."""
    lines = {line: detect_certain_language([line]) == other for line in text.splitlines()}
    rest = [line for line, is_foreign in lines.items() if not is_foreign]
    foreign = sum(len(line) for line, is_foreign in lines.items() if is_foreign)
    return 4 * foreign <= sum(map(len, rest)) and detect_certain_language(rest) == language


def _split_words(text: str) -> list[str]:
    return [word.lower() for word in _WORD_PATTERN.findall(text)]


def _hash_word_runs(words: Sequence[str]) -> Iterator[int]:
    return (hash(tuple(words[i : i + SHINGLE_WORDS])) for i in range(max(0, len(words) - SHINGLE_WORDS + 1)))
