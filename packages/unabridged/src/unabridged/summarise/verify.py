"""What is wrong with a reply that should become a summary. An empty list is acceptance.

Each check is a small function with a name; none of them asks a model. Whether what a reply claims holds is another
question: `checks` answers it, and mends.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from unabridged.asking.ask import Reply
from unabridged.languages import folded, language_name, phrase_at_start, sure_language

SHINGLE = 12
"""Words in a row that nobody repeats by chance."""
RESTATED = 0.5
"""The share of a reply that may be found word for word in what it should summarise."""

_THINKING = re.compile(r"<(think|thinking|reasoning|analysis)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_WRAPPED = re.compile(r"\A```(?:markdown|md|text)?\n(.*)\n```\Z", re.DOTALL)
_TAGGED = re.compile(r"\A<summary>(.*?)(?:</summary>)?\Z", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|[^\W\u2e80-\u9fff\uac00-\ud7af]+")

_LEADING = re.compile(r"[\W_]*")
_ERROR = re.compile(
    r"\A\W*(?:error(?: code| message)?\s*[:(\d]|error (?:generating|creating|calling|while|during)\b"
    r"|an error (?:occurred|has occurred)|internal server error|service unavailable|bad gateway|gateway time-?out"
    r"|(?:http )?(?:4\d\d|5\d\d)\b[^\n]{0,30}(?:error|too many|unavailable|bad|forbidden|unauthori[sz]ed)"
    r"|(?:the )?(?:request|connection|operation) (?:timed out|was reset|reset|refused|error)"
    r"|rate limit (?:exceeded|reached|error)|too many requests|(?:failed|unable) to (?:generate|summari)"
    r"|(?:could|can) ?not (?:generate|summari)|traceback \(most recent call|<!doctype html|<html"
    r"|\{\s*[\"'](?:error|detail|type)[\"']\s*:|\w*(?:Error|Exception): )",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"\A\W*(?:(?:previous |earlier )?conversation (?:was )?too long to summari[sz]e|"
    r"(?:no|nothing|there (?:is|was) (?:no|nothing))[^.\n]{0,40}(?:to summari[sz]e|conversation|provided|available)|"
    r"(?:insert |your )?summary(?: goes)? here|summary (?:unavailable|not available|pending|failed)|"
    r"(?:the )?summary|todo|tbd|n/?a|none|null|undefined|lorem ipsum|placeholder|ok(?:ay)?|done|understood|sure)\W*\Z"
    r"|\A\W*(?:previous |earlier )?conversation (?:was )?too long to summari[sz]e"
    r"|\A\W*(?:please|could you|can you) (?:provide|share|paste|send)[^.\n]{0,60}"
    r"(?:conversation|text|messages|transcript)"
    r"|\A\W*lorem ipsum",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, by name and in words that a model can act on."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Expected:
    """What a reply is held against."""

    budget: int
    """The most tokens it may take."""
    replaced: int
    """The tokens of all that it stands for."""
    count: Callable[[str], int]
    shown: Sequence[str] = ()
    """The texts it should summarise; earlier summaries and notes, which it may well repeat, are not among them."""
    language: str = ""
    """The language it must be in, as `sure_language` names it; "" when any will do."""
    marks: Sequence[str] = ()
    """What sets the data off: a reply that carries it repeats its input."""


def visible_text(text: str) -> str:
    """The reply as it is meant: without thinking in tags, and without a fence or tag around the whole of it."""
    text = _THINKING.sub("", text).strip()
    for around in (_WRAPPED, _TAGGED):
        if (inside := around.match(text)) is not None:
            text = inside[1].strip()
    return text


def trim(text: str, budget: int, count: Callable[[str], int]) -> str:
    """The text within the budget, without the last lines of whichever of its sections is the longest."""
    sections = [part.split("\n") for part in re.split(r"\n(?=#)", text)]
    shorter = _last_lines(sections)

    def without(lines: int) -> str:
        taken = Counter(shorter[:lines])
        return "\n".join("\n".join(section[: len(section) - taken[i]]) for i, section in enumerate(sections))

    fewest = bisect_left(range(len(shorter)), True, key=lambda lines: count(without(lines)) <= budget)
    return without(fewest)


def _last_lines(sections: Sequence[Sequence[str]]) -> list[int]:
    """Which section loses its last line, one after the other: always the longest, until that has a single line."""
    longest = [(-sum(map(len, lines)), i) for i, lines in enumerate(sections)]
    heapify(longest)
    left = [len(lines) for lines in sections]
    found: list[int] = []
    while left[place := longest[0][1]] > 1:
        left[place] -= 1
        found.append(place)
        heapreplace(longest, (longest[0][0] + len(sections[place][left[place]]), place))
    return found


def find_problems(reply: Reply, expected: Expected) -> list[Problem]:
    """Everything that is wrong with the reply; the first is the gravest."""
    text = visible_text(reply.text)
    for check in (_not_an_answer, _says_nothing, _cut_off):
        if (problem := check(reply, text)) is not None:
            return [problem]
    return [problem for check in _CONTENT if (problem := check(text, expected)) is not None]


def impossible_checks(reply: Reply) -> tuple[str, ...]:
    """The checks that this reply can't be put to, because it does not say why the model stopped."""
    return ("cut-off", "tool-call", "reasoning-only") if reply.stop is None else ()


def _refuses(text: str) -> bool:
    """Whether it begins by saying that the model won't, or can't, perhaps after an apology."""
    words = _LEADING.sub("", folded(text), count=1)
    while reach := 0 if phrase_at_start("refusals", words) else phrase_at_start("apologies", words):
        words = _LEADING.sub("", words[reach:], count=1)
    return phrase_at_start("refusals", words) > 0


def _not_an_answer(reply: Reply, text: str) -> Problem | None:
    if reply.calls or reply.stop == "tool":
        return Problem("tool-call", "the reply called a tool; write the summary as plain text and call nothing")
    if reply.stop == "refusal" or (len(text) < 600 and _refuses(text)):
        return Problem("refusal", "the reply refused; only a factual record of the conversation is asked for")
    return None


def _says_nothing(reply: Reply, text: str) -> Problem | None:
    if text:
        return None
    if reply.reasoning.strip() or reply.text.strip():
        return Problem("reasoning-only", "the reply was thinking only; write the summary itself")
    return Problem("empty", "the reply was empty")


def _cut_off(reply: Reply, _text: str) -> Problem | None:
    if reply.stop == "length":
        return Problem("cut-off", "the reply was cut off at its token limit; be much shorter")
    if reply.stop == "other":
        return Problem("cut-off", "the reply ended for a reason the provider did not name")
    return None


def _is_an_error(text: str, expected: Expected) -> Problem | None:
    if len(text) < 1_500 and _ERROR.match(text):
        return Problem("error-text", "the reply is an error message, not a summary")
    few = len(text) < 12 and expected.replaced > 200
    if few or (len(text) < 300 and _PLACEHOLDER.search(text)):
        return Problem("placeholder", "the reply says nothing about the conversation")
    return None


def _repeats_the_input(text: str, expected: Expected) -> Problem | None:
    if any(mark in text for mark in expected.marks) or _restates(_words(text), expected.shown):
        return Problem("restated-input", "the reply repeats the conversation; put it in your own words, far shorter")
    return None


def _restates(words: Sequence[str], shown: Sequence[str]) -> bool:
    """Whether these words, or half of what they say, stand in a row in one of the texts."""
    if len(words) < SHINGLE + 4:
        plain = " ".join(words)
        return len(words) >= 4 and any(plain in " ".join(_words(text)) for text in shown)
    mine = set(_shingles(words))
    known = {shingle for text in shown for shingle in _shingles(_words(text)) if shingle in mine}
    return len(known) > RESTATED * len(mine)


def _repeats_itself(text: str, _expected: Expected) -> Problem | None:
    words = _words(text)
    if len(words) < 80:
        return None
    shingles = [tuple(words[i : i + 5]) for i in range(len(words) - 4)]
    if len(set(shingles)) * 2 < len(shingles):
        return Problem("repetitive", "the reply says the same thing over and over")
    return None


def _not_smaller(text: str, expected: Expected) -> Problem | None:
    size = expected.count(text)
    if size >= expected.replaced:
        return Problem("not-smaller", f"the reply takes {size:,} tokens and replaces {expected.replaced:,}")
    return None


def _over_budget(text: str, expected: Expected) -> Problem | None:
    size = expected.count(text)
    if size > expected.budget:
        return Problem("over-budget", f"the reply takes {size:,} tokens and may take {expected.budget:,}")
    return None


def _wrong_language(text: str, expected: Expected) -> Problem | None:
    found = sure_language([text]) if expected.language else ""
    if found and found != expected.language and not _mostly(text, expected.language, found):
        wanted, have = (language_name(code) or f"{code} script" for code in (expected.language, found))
        return Problem("wrong-language", f"the reply is in {have}; the conversation is in {wanted}")
    return None


def _mostly(text: str, language: str, other: str) -> bool:
    """Whether the text is in this language but for a few lines of the other, which may be people's own words."""
    lines = {line: sure_language([line]) == other for line in text.splitlines()}
    rest = [line for line, foreign in lines.items() if not foreign]
    few = 4 * sum(len(line) for line, foreign in lines.items() if foreign) <= sum(map(len, rest))
    return few and sure_language(rest) == language


_CONTENT = (_is_an_error, _repeats_the_input, _repeats_itself, _not_smaller, _over_budget, _wrong_language)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _shingles(words: Sequence[str]) -> Iterator[int]:
    return (hash(tuple(words[i : i + SHINGLE])) for i in range(max(0, len(words) - SHINGLE + 1)))
