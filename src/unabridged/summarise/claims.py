"""What a model's prose claims, held against what was said; what does not hold is mended by rule, and listed.

    quotations     words in a person's mouth must stand in one person's turn, else they become a paraphrase, or go
    approvals      "the user approved …": a person must have said so, or nodded to the assistant's question
    instructions   "the user wants …": most of its content words must stand in one person's turn
    names          paths, identifiers, numbers and addresses that stand nowhere are marked
    repetitions    lines that say only what the ledger beside the prose says go

Nothing here understands the text: sentences are compared by their content words. A claim that fails is left out rather
than corrected; what the user really said stands word for word in the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from unabridged.ledger.languages import folded, tables
from unabridged.ledger.names import Piece, collect_names, mentioned
from unabridged.ledger.phrasing import bare, neutral, sentences
from unabridged.summarise.attributed import (
    NOT_SAID,
    QUOTED,
    approved,
    attributed,
    carried_over,
    claimed,
    spread,
    supported,
)
from unabridged.summarise.evidence import Evidence, content, flag, flags, squeezed, wording
from unabridged.summarise.language import language_of

Kind = Literal["quotation", "approval", "instruction", "name", "repetition"]

WIDTH = 160
"""Characters of a claim that a receipt shows."""

_SOMEBODY = re.compile(r"\b(?:they|he|she|er|sie|il|elle|él|ella|person|client|utente|usuário)\b|사용자|пользовател")
_CLOSING = re.compile(r"\[(?=\s*end of summary\b)", re.IGNORECASE)
_OURS = ("the user's newest messages", "pinned by the host", "state as of message", "told by the host")
"""Headings of a summary turn that are the same in every language, and what gives them away."""
_HEADING = re.compile(r"\s*(?:#{1,6}\s+\S|\*\*[^*\n]{1,80}\*\*:?\s*\Z)")
_BULLET = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])?\s*")
_PARTED = re.compile(r"(?<=[;\uff1b])\s*")
_SIGN_OR_WORD = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|[^\W\u2e80-\u9fff\uac00-\ud7af]+")
# GitHub, JSON, Node.js: nobody's identifier, unless it is written as one.
_SIMPLE = re.compile(r"[A-Z]?[a-z]+(?:[A-Z]+[a-z]*)+|[A-Z]{3,}[a-z]*|[A-Z][a-z]+\.(?:js|io|net|ai)")
_NUMBER = re.compile(r"(?<![\w.,/:#-])\d[\d,.]*\d(?![\w/:-])")


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim that does not hold, and what was done about it."""

    kind: Kind
    text: str
    done: str

    @property
    def fault(self) -> str:
        """What is wrong, for the model that wrote it."""
        said = {
            "quotation": "nobody said “{}”",
            "approval": "no person approved this: “{}”",
            "instruction": "no person said or asked this: “{}”",
            "name": "this stands nowhere in the conversation: {}",
            "repetition": "kept elsewhere word for word: “{}”",
        }
        return said[self.kind].format(_shown(self.text))

    @property
    def line(self) -> str:
        """What the receipt says."""
        return f"{self.done}: {_shown(self.text)}"


class Mended(NamedTuple):
    """The prose without what does not hold, and what that was."""

    text: str
    findings: tuple[Finding, ...] = ()


def mend(text: str, evidence: Evidence, *, language: str = "") -> Mended:
    """The prose as it may stand: every claim in it holds or is marked, and nothing in it poses as structure."""
    found: list[Finding] = []
    quoted = QUOTED.sub(lambda match: _quotation(match, text, evidence, found), text)
    known = [(squeezed(line), content(line)) for line in evidence.carried.split("\n") if line.strip("# ")]
    own = language_of([text])
    foreign = bool(own and evidence.language and own != evidence.language)
    lines: list[str] = []
    goals = False
    for line in quoted.split("\n"):
        if _HEADING.match(line):
            goals = wording("goals").search(folded(line)) is not None
            lines.append(line)
            continue
        kept = _claims(line, evidence, found, _Place(goals, foreign))
        if kept is not None and _repeats(kept, known):
            found.append(Finding("repetition", kept.strip(), "says only what the ledger says, left out"))
        elif kept is not None:
            lines.append(_flagged(kept, evidence, found, language))
    return Mended("\n".join(_harmless(line) for line in _without_bare_headings(lines)).strip(), tuple(found))


def within(text: str, budget: int, count: Callable[[str], int]) -> str:
    """The prose within its budget again, should marks have made it longer: marked lines go, the last first."""
    lines = text.split("\n")
    marked = [i for i, line in enumerate(lines) if any(f"({said})" in line for said in flags())]
    while marked and count("\n".join(lines)) > budget:
        del lines[marked.pop()]
    return "\n".join(_without_bare_headings(lines)).strip()


# -- quotations -------------------------------------------------------------------------------------------------------


def _quotation(match: re.Match[str], text: str, evidence: Evidence, found: list[Finding]) -> str:
    """The quotation as it may stand. A name or a value is none, and code is not one either."""
    said = next((group for group in match.groups() if group is not None), "")
    if len(_SIGN_OR_WORD.findall(said)) < 3:
        return match[0]
    key = squeezed(said).strip(".,;:!?… 。\uff01\uff1f")
    if evidence.said(key) or key in evidence.earlier:
        return match[0]
    before = folded(re.split(r"[.!?\n]\s", text[max(0, match.start() - 160) : match.start()])[-1])
    by_person = wording("person").search(before) or _SOMEBODY.search(before)
    if not by_person and key in evidence.everything:
        return match[0]
    if not by_person or supported(content(said), evidence.people, said):
        found.append(Finding("quotation", said, "nobody said it like that, quotation marks taken off"))
        return said
    found.append(Finding("quotation", said, "no person said it, quotation taken out"))
    return NOT_SAID


# -- approvals and instructions ---------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where a sentence stands."""

    goals: bool
    """Under a heading about goals: there everything is the user's by its place."""
    foreign: bool
    """In prose of another language than people's words: those can't be looked for in it."""


def _claims(line: str, evidence: Evidence, found: list[Finding], place: _Place) -> str | None:
    """The line without the sentences that claim what no person said; None when nothing is left of it."""
    kept: list[str] = []
    whole = True
    for unit in _units(line):
        finding = _claim(unit, evidence, place)
        if finding is None:
            kept.append(unit)
        else:
            found.append(finding)
            whole = False
    if whole:
        return line
    bullet = _BULLET.match(line)
    rest = "".join(kept).strip().rstrip(";")
    head = bullet[0] if bullet and not rest.startswith(bullet[0].strip() or "\0") else ""
    return head + rest if re.search(r"\w", _BULLET.sub("", rest, count=1)) else None


def _units(line: str) -> Iterator[str]:
    """The sentences of a line, and what a semicolon parts in them; together they are the line."""
    ends: list[int] = []
    for sentence in sentences(line):
        for part in _PARTED.split(sentence):
            place = ends[-1] if ends else 0
            ends.append(line.find(part, place) + len(part))
    start = 0
    for stop in [*ends[:-1], len(line)]:
        yield line[start:stop]
        start = stop


def _claim(unit: str, evidence: Evidence, place: _Place) -> Finding | None:
    """What is wrong with this sentence as a claim about a person; None when it is none, or holds."""
    claim = attributed(unit)
    if claim is not None and claim.kind == "approval":
        held = approved(unit, claim, evidence)
        return None if held else Finding("approval", unit.strip(), "no person approved it, left out")
    if claim is None and wording("approve").search(folded(unit)) and evidence.poses_as_approval(claimed(unit)):
        return Finding("approval", unit.strip(), "a tool or a page said it and no person, left out")
    if claim is None and not place.goals:
        return None
    why = _unsaid(unit, evidence, told=claim is not None and not place.foreign)
    return Finding("instruction", unit.strip(), f"{why}, left out") if why else None


def _unsaid(unit: str, evidence: Evidence, *, told: bool) -> str:
    """Why this can't be what a person said or wants; "" when it can."""
    words = claimed(unit)
    if not words:
        return "nothing is left of it" if told and NOT_SAID in unit else ""
    if carried_over(unit, words, evidence) or supported(words, evidence.people, unit):
        return ""
    if evidence.in_data(words):
        return "a tool or a page said it and no person"
    return "no person said it" if told and not spread(words, evidence.people) else ""


# -- names ------------------------------------------------------------------------------------------------------------


def _flagged(line: str, evidence: Evidence, found: list[Finding], language: str) -> str:
    """The line with a mark behind each name in it that stands nowhere."""
    marks: list[tuple[int, str]] = []
    covered: list[tuple[int, int]] = []
    for name in _names(line):
        match = re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])(?:\(\))?`?", line)
        if match is None or evidence.holds(name):
            continue
        if not any(start <= match.start() < stop for start, stop in covered):
            covered.append(match.span())
            marks.append((match.end(), name))
    for place, name in sorted(marks, reverse=True):
        found.append(Finding("name", name, "not found in the record, marked"))
        line = f"{line[:place]} ({flag(language)}){line[place:]}"
    return line


def _names(line: str) -> list[str]:
    """What in a line has to be spelled exactly, the longest first."""
    code = " ".join(re.findall(r"`([^`\n]+)`", line))
    found = mentioned(line, by_name=True) | {entry.text for entry in collect_names([Piece(0, "model", line)])}
    found = {name for name in found if not _SIMPLE.fullmatch(name) or name in code or f"{name}(" in line}
    found.update(number for number in _NUMBER.findall(line) if len(number) >= 3)
    return sorted(found, key=lambda name: (-len(name), name))


# -- what is left -----------------------------------------------------------------------------------------------------


def _repeats(line: str, known: Sequence[tuple[str, frozenset[str]]]) -> bool:
    """Whether one line of the ledger says all that this one says."""
    words = content(line)
    if len(words) < 3:
        return False
    said = squeezed(bare(line.strip())).strip(".,;:!?` ")
    return any(said in text or words <= there for text, there in known)


def _without_bare_headings(lines: Sequence[str]) -> list[str]:
    """The lines without headings that nothing stands under any more."""
    kept: list[str] = []
    empty = True
    for line in reversed(lines):
        heading = _HEADING.match(line) is not None
        if heading and empty:
            continue
        kept.append(line)
        empty = heading or (empty and not line.strip())
    return kept[::-1]


def _harmless(line: str) -> str:
    """The line as `neutral` leaves it, but with its own heading, unless that is one of ours for people's words."""
    heading = re.match(r"\s*#{1,6}\s+", line)
    start = heading.end() if heading and not _poses(line[heading.end() :]) else 0
    return line[:start] + _CLOSING.sub("(", neutral(line[start:]))


def _poses(heading: str) -> bool:
    """Whether a heading holds one under which a summary turn gives people's words or the host's, in any language."""
    ours = (table["words"][name] for table in tables().values() for name in ("open", "finished", "rules"))
    names = {folded(re.split(r"[(\uff08]", label)[0].strip()) for label in ours}
    plain = " ".join(re.sub(r"[*_`~#\\]", "", folded(heading)).split())
    return any(name in plain for name in (*_OURS, *names))


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1].rstrip() + "…"
