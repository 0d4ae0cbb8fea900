"""Names that a model's prose may have invented: paths, identifiers, numbers and addresses that stand nowhere."""

from __future__ import annotations

import re

from unabridged.ledger.files import mentioned
from unabridged.ledger.names import Piece, collect_names
from unabridged.summarise.evidence import Evidence, flag

# GitHub, JSON, Node.js: nobody's identifier, unless it is written as one.
_SIMPLE = re.compile(r"[A-Z]?[a-z]+[A-Z][A-Za-z]*|[A-Z]{3,}[a-z]*|[A-Z][a-z]+\.(?:js|io|net|ai)")
_NUMBER = re.compile(r"(?<![\w.,/:#-])\d[\d,.]*\d(?![\w/:-])")


def flagged(line: str, evidence: Evidence, language: str) -> tuple[str, list[str]]:
    """The line with a mark behind each name in it that stands nowhere, and those names."""
    marks: list[tuple[int, str]] = []
    covered: list[tuple[int, int]] = []
    for name in _names(line):
        match = re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])(?:\(\))?`?", line)
        if match is None or evidence.holds(name):
            continue
        if not any(start <= match.start() < stop for start, stop in covered):
            covered.append(match.span())
            marks.append((match.end(), name))
    marks.sort(reverse=True)
    for place, _ in marks:
        line = f"{line[:place]} ({flag(language)}){line[place:]}"
    return line, [name for _, name in marks]


def _names(line: str) -> list[str]:
    """What in a line has to be spelled exactly, the longest first."""
    code = " ".join(re.findall(r"`([^`\n]+)`", line))
    found = mentioned(line, by_name=True) | {entry.text for entry in collect_names([Piece(0, "model", line)])}
    found = {name for name in found if not _SIMPLE.fullmatch(name) or name in code or f"{name}(" in line}
    found.update(number for number in _NUMBER.findall(line) if len(number) >= 3)
    return sorted(found, key=lambda name: (-len(name), name))
