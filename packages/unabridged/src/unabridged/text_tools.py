"""Pieces of text as they may stand in a summary: sentences, single lines, shortened, quoted without harm.

Everything that a tool or the model said passes through `quote` before it is written down, so that no line of it can
pose as one of ours, as a role, or as the end of the turn. People's words are carried as they are.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, islice
from typing import Any

from unabridged.languages import collect_phrases

Count = Callable[[str], int]
"""Counts the tokens of a text."""

_BULLET_PATTERN = re.compile(r"^(?:[-*+\u2022\u00b7\u2013\u2014]|\(?\d{1,3}[.)\u3001:]|#{1,6})\s+")
_FENCED_BLOCK_PATTERN = re.compile(r"^(?P<fence>```+|~~~+).*?(?:^(?P=fence)\s*$|\Z)", re.MULTILINE | re.DOTALL)

# What a host, a provider or we ourselves would take for structure: role tags, turn marks, our own wrappers.
_ROLE_TAG_PATTERN = re.compile(
    r"<(?=[|\uff5c]|!--|<?/?\s*(?:system|user|assistant|human|tool|developer|function|invoke|summary|ledger|request|rules?"
    r"|instructions?|context|conversation|transcript|message|antml|unabridged|important|admin|sys|inst"
    r"|tool_(?:results?|responses?|calls?|use|outputs?)|function_(?:results?|calls?)|(?:start|end)_of_turn)"
    r"\b[^<>\n]{0,80}>)([^<>\n]{0,120})(>?)",
    re.IGNORECASE,
)
_ROLE_BRACKET_PATTERN = re.compile(
    r"\[(?=/?(?:INST|SYS|SYSTEM|USER|ASSISTANT|unabridged|end of summary)\b)([^\[\]\n]{0,80})(\]?)", re.IGNORECASE
)
_ROLE_LABEL_PATTERN = re.compile(
    r"(?:(?<=\A)|(?<=[\n.!?:;\"'`*#>)\]] )|(?<=[\n*#>|]))(\*{0,3}(?:system|user|human|assistant|developer|tool|admin)"
    r"(?:\s(?:message|prompt|turn|note|instruction))?\*{0,3})\s?[:\uff1a]",
    re.IGNORECASE,
)
_HEADING_PATTERN = re.compile(r"(?:^|(?<=\s))#{2,6}\s+")
_RULED_LINE_PATTERN = re.compile(r"([-=~_*`])\1{3,}")
# What cannot be seen: it would hide a role from us, or turn around what a reader sees. Joiners belong to some scripts,
# to none between Latin letters.
_CONTROL_CHARACTER_PATTERN = re.compile(
    "\x1b\\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]|[\U000e0000-\U000e007f]"
    "|(?<=[A-Za-z])[\u200c\u200d]+|(?<![\u200c\u200d])[\u200c\u200d]++(?=[A-Za-z:\uff1a])"
)
_SPACE_PATTERN = re.compile(r"\s+")
_LAST_WORD_PATTERN = re.compile(r"(?<=\S)\s\S{1,24}\Z")
_FIRST_WORD_PATTERN = re.compile(r"\S{0,24}\s(?=\S)")


def split_sentences(text: str) -> list[str]:
    """Return the text in sentences, bullets and lines, in order, each without its surrounding white space."""
    return [piece for piece in (part.strip() for part in _sentence_end_pattern().split(text)) if piece]


@cache
def _sentence_end_pattern() -> re.Pattern[str]:
    """Return what ends a sentence: a mark and a space, a CJK mark, a line end; not after an abbreviation or initial."""
    return re.compile(
        r"(?<=[.!?\u2026\u061f\u0964])"
        + "".join(rf"(?<!\b{re.escape(word)})" for word in sorted(collect_phrases("abbreviations")))
        + r"(?<!\b[A-Z]\.)(?!(?<=\d\.)\s+[a-z])(?!(?<=M[a\xe1i\xed][xn]\.)\s+\d)[\"'\u201d\u2019\u00bb)\]]*\s+(?=\S)"
        r"|(?<=[\u3002\uff01\uff1f\uff61])[\u300d\u300f\u201d\u2019\uff09]*\s*(?=\S)"
        r"|\n+"
    )


def remove_bullet(sentence: str) -> str:
    """Return the sentence without the bullet or number it began with."""
    return _BULLET_PATTERN.sub("", sentence)


def blank_fences(text: str) -> str:
    """Return the text with its fenced blocks blanked: code and logs are not what somebody says. As long as it was."""
    if "```" not in text and "~~~" not in text:
        return text
    return _FENCED_BLOCK_PATTERN.sub(lambda found: "\n" * len(found[0]), text)


def find_fences(text: str) -> list[tuple[int, int]]:
    """Return where the fenced blocks of a text stand."""
    return [found.span() for found in _FENCED_BLOCK_PATTERN.finditer(text)] if "```" in text or "~~~" in text else []


def to_one_line(text: str, limit: int = 0) -> str:
    """Return the text on one line; with a limit, its beginning up to the last whole word that fits."""
    if limit and len(text) > 8 * limit:
        text = text[: 8 * limit]
    line = _SPACE_PATTERN.sub(" ", text).strip()
    if not limit or len(line) <= limit:
        return line
    cut = line[: max(limit - 1, 0)]
    # Text without spaces (CJK, long ids) is cut where the limit falls.
    space = cut.rfind(" ", limit * 2 // 3)
    return (cut[:space] if space > 0 else cut).rstrip(" ,;:") + "…"


def cut_to_head_and_tail(text: str, limit: int, mark: str = " … ") -> str:
    """Return the text, or when it is longer than `limit` its beginning and its end around a mark."""
    if len(text) <= limit:
        return text
    room = max(limit - len(mark), 2)
    head = room * 2 // 3
    before, after = text[:head], text[len(text) - (room - head) :]
    # Whole words, where one ends near enough: text without spaces is cut where the limit falls.
    if not text[head].isspace() and (found := _LAST_WORD_PATTERN.search(before, max(head - 26, 0))):
        before = before[: found.start()]
    if not text[len(text) - len(after) - 1].isspace() and (found := _FIRST_WORD_PATTERN.match(after)):
        after = after[found.end() :]
    return before.rstrip() + mark + after.lstrip()


def cut_to_whole_lines(text: str, limit: int, mark: str = "[\u2026]") -> str:
    """Return the text, or when it is longer than `limit` whole lines of its beginning and end, without blank ones."""
    text = text.strip()
    if len(text) <= limit:
        return text
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    head, tail, room = list[str](), list[str](), limit - len(mark) - 2
    heads = tails = 0
    full = set[bool]()
    while len(head) + len(tail) < len(lines) and len(full) < 2:
        from_head = True not in full and (heads <= 1.5 * tails or False in full)
        line = lines[len(head)] if from_head else lines[-1 - len(tail)]
        if heads + tails + len(line) + 1 > room:
            full.add(from_head)
        elif from_head:
            head.append(line)
            heads += len(line) + 1
        else:
            tail.insert(0, line)
            tails += len(line) + 1
    return "\n".join([*head, mark, *tail]) if head else cut_to_head_and_tail("\n".join(lines), limit)


def outline(text: str, limit: int) -> list[str]:
    """Return the lines of a document; of a long one the headings, with as many lines after each as fit the limit."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    behind = accumulate(lines, lambda number, line: 0 if line[0] == "#" else number + 1, initial=-1)
    numbered = [*zip(lines, islice(behind, 1, None), strict=True)]
    outlines = ([line for line, number in numbered if number <= most] for most in (len(lines), *range(12, -1, -1)))
    return next((short for short in outlines if sum(map(len, short)) + 3 * len(short) <= limit), lines)


def cut_middle(text: str, tokens: int, count: Count, note: str, earlier: tuple[int, int, str] | None = None) -> str:
    """Return the text, or when it counts more than `tokens` its beginning and its end around a note on its own line.

    `earlier` is where a note stands in it already, and the tokens that this one tells: the new one takes its place.
    """
    whole = count(text)
    if whole <= tokens:
        return text
    start, stop, left_out = earlier or (len(text), 0, f"{whole:,}")
    first, last = text[:start], text[stop:]
    note = f"\n{note.format(tokens=left_out)}\n"
    room = max(0, tokens - count(note))
    chars = int(len(text) * room / whole)
    while True:
        head, tail = chars * 3 // 5, chars - chars * 3 // 5
        short = first[:head] + note + (last[-tail:] if tail else "")
        size = count(short)
        if size <= tokens or chars == 0:
            return short if size < whole else text
        chars = min(chars - 1, int(chars * tokens / size * 0.95))


def find_common_cap(sizes: Sequence[int], total: int, floors: Sequence[int] | None = None) -> int:
    """Return the largest cap such that all `sizes`, cut to it but not below their floors, add up to at most `total`."""
    least = floors or [0] * len(sizes)

    def needs(height: int) -> int:
        return sum(max(min(size, height), floor) for size, floor in zip(sizes, least, strict=True))

    return max(0, bisect_right(range(max(sizes, default=0) + 1), total, key=needs) - 1)


def parse_json(text: str, otherwise: Any = None) -> Any:
    """Return the value that the JSON text holds; `otherwise` where it is no JSON, or nested too deep to be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def map_strings(value: Any, change: Callable[[str], Any]) -> Any:
    """Return the JSON value with every string in it changed; its keys stay."""
    if isinstance(value, list):
        return [map_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {key: map_strings(item, change) for key, item in value.items()}
    return change(value) if isinstance(value, str) else value


def mark_line_ends(text: str) -> str:
    """Return the text on one line with a sign where its lines ended: how a command is shown."""
    return " \u23ce ".join(line.strip() for line in text.splitlines() if line.strip())


def neutralise_markup(text: str) -> str:
    """Return the text with everything that looks like a role, tag or heading made harmless, and still readable.

    The brackets of `<system>` and the colon of `User:` become look-alikes that nothing parses, a heading loses its
    hashes, and typographic quotation marks become plain ones.
    """
    if not text.isprintable():
        text = _CONTROL_CHARACTER_PATTERN.sub("", text)
    if "<" in text:
        text = _ROLE_TAG_PATTERN.sub(lambda found: "\u2039" + found[1] + "\u203a" * len(found[2]), text)
    if "[" in text:
        text = _ROLE_BRACKET_PATTERN.sub(lambda found: "(" + found[1] + ")" * len(found[2]), text)
    if ":" in text or "\uff1a" in text:
        text = _ROLE_LABEL_PATTERN.sub("\\1\ua789", text)
    if "#" in text:
        text = _HEADING_PATTERN.sub("", text)
    text = _RULED_LINE_PATTERN.sub(r"\1\1\1", text)
    return text if text.isascii() else text.replace("\u201c", '"').replace("\u201d", '"')


def quote(text: str, limit: int = 0) -> str:
    """Return the text on one line, between our quotation marks, which nothing inside can close."""
    return f"\u201c{neutralise_markup(to_one_line(text, limit))}\u201d"


def indent(text: str) -> str:
    """Return the text with lines after the first set in: none of them can pose as one of ours."""
    return "\n  ".join(neutralise_markup(line) for line in text.splitlines())


def wrap_in_fence(text: str) -> str:
    """Return the text unchanged between two fences that are longer than any fence inside it."""
    longest = max((len(run) for run in re.findall(r"~{3,}", text)), default=2)
    fence = "~" * max(longest + 1, 3)
    return f"{fence}\n{text}\n{fence}"
