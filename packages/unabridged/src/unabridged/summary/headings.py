"""Level the headings of a model's prose: all below the one that says whose it is, none that could be one of ours.

A heading under which a summary turn gives people's words or the host's goes with what stands under it, for by its place
that would be theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from unabridged.languages import fold_case, get_labels, load_language_tables
from unabridged.text_tools import neutralise_markup

HIGHEST_LEVEL = 3
"""The level of the prose's own headings at most: the summary turn's are of level 2."""

_HEADING_PATTERN = re.compile(r"\s*(?:#{1,6}\s+\S|\*\*[^*\n]{1,80}\*\*:?\s*\Z)")
_BOLD_LINE_PATTERN = re.compile(r"\s*\*\*[^*\n]{1,240}\*\*:?\s*\Z")
"""A line in bold, as long as the longest heading of ours may be."""
_LIST_ITEM_PATTERN = re.compile(r"\s*(?:[-*+\u2022>]|\d{1,3}[.)])\s|\s*>|\s{2,}\S")
"""An item of a list, a line of a block quotation, or what continues one."""

_TEXT_LEVEL = 8
"""A level below that of every heading."""

_HASHES_PATTERN = re.compile(r"(\s*)(#{1,6})(?=\s+\S)")
_UNDERLINE_PATTERN = re.compile(r" {0,3}(?:=+|-{2,})\s*\Z")
_HEADING_TAG_PATTERN = re.compile(r"\s*<h([1-6])\b[^<>]*>([^\n]+?)</h\1>\s*\Z", re.IGNORECASE)
_HEADING_IN_LIST_PATTERN = re.compile(r"\s*(?:[-*+>]\s+)+#{1,6}\s")
_CODE_PATTERN = re.compile(r"(`[^`]{1,200}`)")
_FENCE_PATTERN = re.compile(r"\s*(`{3,}|~{3,})")
_END_MARK_PATTERN = re.compile(r"\[(?=\s*end of summary\b)", re.IGNORECASE)
_OWN_HEADINGS = (
    "pinned by the host", "state as of message", "told by the host", "decisions of the user",
    "the user's newest messages", "also said by the user", "standing rules",
)  # fmt: skip
"""Headings of a summary turn that are the same in every language, and others that would pose as one."""


def level_headings(text: str) -> tuple[list[str], list[str]]:
    """Return the lines of the prose with its headings at their level, and the lines that had to go."""
    lines = _convert_to_hash_headings(text.split("\n"))
    code = _find_code_lines(lines)
    posing = [i for i, line in enumerate(lines) if _is_any_heading(lines, i, code) and _poses_as_ours(line)]
    gone = {i for section in find_sections(lines, posing) for i in section}
    levels = [len(found[2]) for i, line in enumerate(lines) if i not in code and (found := _HASHES_PATTERN.match(line))]
    lower = max(0, HIGHEST_LEVEL - min(levels, default=HIGHEST_LEVEL))
    kept = [line if i in code else _lower_heading(line, lower) for i, line in enumerate(lines) if i not in gone]
    return kept, [lines[i] for i in sorted(gone) if lines[i].strip()]


def is_heading(line: str) -> bool:
    """Return whether the line is a heading, or one in bold."""
    return _HEADING_PATTERN.match(line) is not None


def find_sections(lines: Sequence[str], starts: Sequence[int]) -> Iterator[list[int]]:
    """Yield the lines of each section, given the lines where their headings stand."""
    code = _find_code_lines(lines)
    for start, follows in pairwise([*starts, len(lines)]):
        yield _find_section(lines, start, follows, code)


def _find_section(lines: Sequence[str], start: int, follows: int, code: frozenset[int]) -> list[int]:
    """Return a heading, the first block under it, and the lists that follow; a later paragraph is not under it."""
    found = [start]
    blocks = 0
    for i in range(start + 1, len(lines)):
        if i == follows and (i in code) == (start in code):
            return found
        begins = i == start + 1 or not lines[i - 1].strip()
        if (i not in code and is_heading(lines[i])) or (start in code and _FENCE_PATTERN.match(lines[i])):
            break
        if lines[i].strip() and begins:
            blocks += 1
            if blocks > 1 and not _LIST_ITEM_PATTERN.match(lines[i]):
                break
        found.append(i)
    while len(found) > 1 and not lines[found[-1]].strip():
        found.pop()
    return found


def remove_bare_headings(lines: Sequence[str]) -> list[str]:
    """Return the lines without headings that nothing stands under any more; what is in a fence is none."""
    kept: list[str] = []
    code = _find_code_lines(lines)
    below = 0  # the level of what comes next: none at the end, the deepest for text
    for i in range(len(lines) - 1, -1, -1):
        has_text = bool(lines[i].strip())
        level = _TEXT_LEVEL if has_text else below
        if i not in code and is_heading(lines[i]):
            level = _find_level(lines[i])
        if has_text and level < _TEXT_LEVEL and below <= level:
            continue
        kept.append(lines[i])
        below = level
    return kept[::-1]


def _find_level(heading: str) -> int:
    """Return how deep a heading stands: one without hashes is below all that have them."""
    hashes = _HASHES_PATTERN.match(heading)
    return len(hashes[2]) if hashes is not None else _TEXT_LEVEL - 1


def neutralise_line(line: str) -> str:
    """Return the line as `neutralise_markup` leaves it, but with its own hashes, and its code as it is."""
    hashes = re.match(r"\s*#{1,6}\s+", line)
    start = hashes.end() if hashes and not _poses_as_ours(line) else 0
    parts = _CODE_PATTERN.split(line[start:])  # every other one is code
    plain = "".join(part if i % 2 else neutralise_markup(part) for i, part in enumerate(parts))
    return line[:start] + _END_MARK_PATTERN.sub("(", plain)


def _lower_heading(line: str, lower: int) -> str:
    found = _HASHES_PATTERN.match(line)
    return f"{found[1]}{'#' * min(6, len(found[2]) + lower)}{line[found.end() :]}" if found is not None else line


def _convert_to_hash_headings(lines: list[str]) -> list[str]:
    """Return the lines with a heading that is underlined, or in a tag, as one with hashes."""
    code = _find_code_lines(lines)
    for i, line in enumerate(lines):
        if i not in code and (tag := _HEADING_TAG_PATTERN.match(line)):
            lines[i] = f"{'#' * int(tag[1])} {tag[2].strip()}"
    kept: list[str] = []
    for i, (before, line) in enumerate(pairwise(["", *lines])):
        text = before.strip() and not _LIST_ITEM_PATTERN.match(before) and not is_heading(before) and "|" not in before
        if text and i not in code and i - 1 not in code and _UNDERLINE_PATTERN.match(line):
            kept[-1] = f"{'#' if '=' in line else '##'} {before.strip()}"
        else:
            kept.append(line)
    return kept


def _find_code_lines(lines: Sequence[str]) -> frozenset[int]:
    """Return the lines of fenced blocks that are closed; a fence that is not closed hides nothing."""
    inside: set[int] = set()
    opened: tuple[int, str] | None = None
    for i, line in enumerate(lines):
        found = _FENCE_PATTERN.match(line)
        if opened is None and found is not None:
            opened = (i, found[1])
        elif opened is not None and line.strip() == opened[1]:
            inside.update(range(opened[0], i + 1))
            opened = None
    return frozenset(inside)


def _is_any_heading(lines: Sequence[str], i: int, code: frozenset[int]) -> bool:
    """Return whether the line is a heading; one that ends in a colon before a list is one too."""
    if is_heading(lines[i]) or _BOLD_LINE_PATTERN.match(lines[i]) or _HEADING_IN_LIST_PATTERN.match(lines[i]):
        return True
    if i in code:
        return False
    leads = len(lines[i]) <= 240 and lines[i].rstrip().endswith((":", "\uff1a"))
    below = (lines[j] for j in range(i + 1, len(lines)) if lines[j].strip())
    return leads and _LIST_ITEM_PATTERN.match(next(below, "")) is not None


def _poses_as_ours(heading: str) -> bool:
    """Return whether a heading holds one under which people's words or the host's stand, in any language."""
    plain = " ".join(re.sub(r"[*_`~#\\]", "", fold_case(heading)).split())
    return any(name in plain for name in (*_OWN_HEADINGS, *_load_own_headings()))


@cache
def _load_own_headings() -> frozenset[str]:
    ours = (get_labels(code)[name] for code in load_language_tables() for name in ("people", "rules", "done"))
    return frozenset(fold_case(re.split(r"[(\uff08]", label)[0].strip()) for label in ours)
