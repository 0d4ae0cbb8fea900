"""What a model's prose claims, held against what was said; what does not hold is mended by rule, and listed.

    quotations     words in a person's mouth must stand in one person's turn, else they become a paraphrase, or go
    approvals      "the user approved …": a person must have said so, or nodded to the assistant's question
    instructions   "the user wants …": most of its content words must stand in one person's turn
    voices         "I, the user, …", "User: …", "You told me …": likewise, whoever writes them
    permissions    "approved", "now allowed", of nobody in particular: not against what people said
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

from unabridged.languages import folded, sure_language
from unabridged.summarise.attributed import (
    NOT_SAID,
    QUOTED,
    Attribution,
    approved,
    attributed,
    carried_over,
    claimed,
    granted,
    lifts,
    spread,
    supported,
)
from unabridged.summarise.evidence import Evidence, content, flags, squeezed, unmarked, wording
from unabridged.summarise.headings import LISTED, harmless, is_heading, laid_out, next_line, without_bare_headings
from unabridged.summarise.invented import flagged
from unabridged.summarise.voices import labelled, plain, speaks_as_user, voiced
from unabridged.texts import bare, sentences

Kind = Literal["quotation", "approval", "instruction", "name", "repetition", "structure"]

WIDTH = 160
"""Characters of a claim that a receipt shows."""

_BESIDE = 2
"""Words about a quotation that a sentence may have beside it: "in the second message"."""
_A_GOAL = 4
"""Content words from which on a goal of which nobody spoke is not only put in other words."""
_SOMEBODY = re.compile(r"\b(?:they|he|she|er|sie|il|elle|él|ella|person|client|utente|usuário)\b|사용자|пользовател")
_BULLET = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])?\s*")
_GAPS = re.compile(r"\n{3,}")
_PARTED = re.compile(r"(?<=[;\uff1b])\s*")
_SIGN_OR_WORD = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|[^\W\u2e80-\u9fff\uac00-\ud7af]+")


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
            "structure": "nothing of yours may stand under such a heading: “{}”",
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
    text = plain(text)
    quoted = QUOTED.sub(lambda match: _quotation(match, text, evidence, found), text)
    lines, posing = laid_out(quoted)
    found += (Finding("structure", line.strip(), "stood under a heading of ours, left out") for line in posing)
    own = sure_language([text])
    foreign = bool(own and evidence.language and own != evidence.language)
    kept = _Reading(evidence, found, language, foreign).mended(lines)
    rest = "\n".join(harmless(line) for line in without_bare_headings(kept)).strip()
    return Mended(_GAPS.sub("\n\n", rest) if found else rest, tuple(found))


def within(text: str, budget: int, count: Callable[[str], int]) -> str:
    """The prose within its budget again, should marks have made it longer: marked lines go, the last first."""
    lines = text.split("\n")
    marked = [i for i, line in enumerate(lines) if any(f"({said})" in line for said in flags())]
    while marked and count("\n".join(lines)) > budget:
        del lines[marked.pop()]
    return "\n".join(without_bare_headings(lines)).strip()


# -- quotations -------------------------------------------------------------------------------------------------------


def _quotation(match: re.Match[str], text: str, evidence: Evidence, found: list[Finding]) -> str:
    """The quotation as it may stand. A name or a value is none, and code is not one either."""
    said = next((group for group in match.groups() if group is not None), "")
    if len(_SIGN_OR_WORD.findall(said)) < 3:
        return match[0]
    if evidence.quotes(said):
        return match[0]
    before = folded(re.split(r"[.!?\n]\s", text[max(0, match.start() - 160) : match.start()])[-1])
    by_person = wording("person").search(before) or _SOMEBODY.search(before)
    if not by_person and unmarked(said) in evidence.everything:
        return match[0]
    if not by_person or supported(content(said), evidence.people, said):
        found.append(Finding("quotation", said, "nobody said it like that, quotation marks taken off"))
        return said
    found.append(Finding("quotation", said, "no person said it, quotation taken out"))
    return NOT_SAID


# -- approvals and instructions ---------------------------------------------------------------------------------------


_Lead = Literal["approval", "instruction", ""]


class _Place(NamedTuple):
    """Where a sentence stands."""

    goals: bool = False
    """Under a heading about goals: there everything is the user's by its place."""
    foreign: bool = False
    """In prose of another language than people's words: those can't be looked for in it."""
    lead: _Lead = ""
    """Listed under what a person is said to have approved, said or wanted."""
    first: bool = True
    """The first sentence of its line."""
    behind: bool = False
    """Behind a semicolon and a claim that did not hold."""
    of_person: bool = False
    """Behind a sentence that names a person: "they" may be that person."""


@dataclass(slots=True)
class _Reading:
    """The prose being read, line by line: what was found, and whose the next line is by its place."""

    evidence: Evidence
    found: list[Finding]
    language: str
    foreign: bool
    goals: bool = False
    lead: _Lead = ""
    begins: bool = False
    """Whether the line just read leads what is listed below it."""
    turn: bool = False
    """In what a line like "User: …" began: up to the next empty line it is the user's."""

    def mended(self, lines: Sequence[str]) -> list[str]:
        """The lines as they may stand."""
        known = [(squeezed(line), content(line)) for line in self.evidence.carried.split("\n") if line.strip("# ")]
        kept: list[str] = []
        leading = -1
        shorter: list[int] = []
        for line in lines:
            if is_heading(line):
                kept += self._heading(line)
                continue
            said = self._line(line)
            if said is not None and _repeats(said, known):
                self.found.append(Finding("repetition", said.strip(), "says only what the ledger says, left out"))
                said = None
            if said is not None:
                kept.append(self._flagged(said))
            if self.begins or not self.lead or self.turn:
                leading = len(kept) - 1 if said is not None and self.begins else -1
            elif said is None:
                shorter.append(leading)
        return _without_bare_leads(kept, shorter)

    def _flagged(self, line: str) -> str:
        """The line with a mark behind each name in it that stands nowhere."""
        line, unknown = flagged(line, self.evidence, self.language)
        self.found += (Finding("name", name, "not found in the record, marked") for name in unknown)
        return line

    def _heading(self, line: str) -> list[str]:
        """The heading, unless it states an approval that nobody gave."""
        self.goals = wording("goals").search(folded(line)) is not None
        self.lead, self.turn = "", False
        finding = _claim(line.strip("#*: \t"), self.evidence, _Place())
        if finding is None or finding.kind != "approval":
            return [line]
        self.found.append(finding)
        return []

    def _line(self, line: str) -> str | None:
        """The line without what does not hold in it; None when nothing is left."""
        self.begins = False
        if not line.strip():
            self.lead, self.turn = ("", False) if self.turn else (self.lead, False)
            return line
        if labelled(line) is not None:
            self.lead, self.turn = "instruction", True
        elif not self.turn and LISTED.match(line) is None:
            self.lead = ""
        if self.lead and line.lstrip().startswith(">"):
            said = line.lstrip("> \t").strip()
            if self.evidence.quotes(said):
                return line
            self.found.append(Finding("quotation", said, "no person said it, quotation taken out"))
            return None
        kept = _claims(line, self.evidence, self.found, _Place(self.goals, self.foreign, self.lead))
        if not self.lead:
            self.lead = _leads(line)
            self.begins = bool(self.lead)
        return kept


def _leads(line: str) -> _Lead:
    """What is claimed of a person in a line that ends in a colon, and so of all that is listed below it."""
    if not line.rstrip().endswith((":", "\uff1a")):
        return ""
    claim = attributed(voiced(sentences(line)[-1]))
    return claim.kind if claim is not None else ""


def _without_bare_leads(lines: Sequence[str], shorter: Sequence[int]) -> list[str]:
    """The lines without those that led a list of which nothing is left."""
    bare_leads = set()
    for i in shorter:
        below = next_line(lines, i)
        if i >= 0 and LISTED.match(below) is None:
            bare_leads.add(i)
    return [line for i, line in enumerate(lines) if i not in bare_leads]


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
        parted = unit.rstrip().endswith((";", "\uff1b"))
        person = wording("person").search(folded(voiced(unit, of_person=place.of_person))) is not None
        place = place._replace(first=False, behind=parted and (finding is not None or place.behind), of_person=person)
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
    if speaks_as_user(unit) and not evidence.quotes(bare(unit.strip())):
        return Finding("instruction", unit.strip(), "written as if by the user, left out")
    if (start := labelled(unit)) is not None and not claimed(unit[start:]) and not evidence.quotes(unit[start:]):
        return Finding("quotation", unit.strip(), "no person said it, left out")
    meant = voiced(unit, of_person=place.of_person)
    claim = attributed(meant)
    if claim is None and place.lead and start is None:
        meant = f"the user {'approved' if place.lead == 'approval' else 'said'}: {bare(unit.strip())}"
        claim = attributed(meant)
    if claim is not None and claim.kind == "approval":
        held = approved(meant, claim, evidence)
        return None if held else Finding("approval", unit.strip(), "no person approved it, left out")
    if claim is None and (why := _permitted(unit, evidence, behind=place.behind)):
        return Finding("approval", unit.strip(), f"{why}, left out")
    if claim is None and not place.goals:
        return None
    why = _unsaid(meant, evidence, claim, place)
    return Finding("instruction", unit.strip(), f"{why}, left out") if why else None


def _permitted(unit: str, evidence: Evidence, *, behind: bool) -> str:
    """Why what this sentence says is approved or allowed, by nobody in particular, can't be; "" when it can."""
    words = claimed(unit)
    if wording("approve").search(folded(unit)) and evidence.poses_as_approval(words):
        return "a tool or a page said it and no person"
    claim = granted(unit)
    if claim is not None and not approved(unit, claim, evidence) and not evidence.reports_approval(words):
        return "no person approved it"
    if lifts(unit, evidence.people) and not carried_over(unit, words, evidence):
        return "people forbade it"
    follows = behind and wording("permits").search(folded(unit)) is not None
    return "no person allowed it" if follows and not supported(words, evidence.people, unit) else ""


def _unsaid(unit: str, evidence: Evidence, claim: Attribution | None, place: _Place) -> str:
    """Why this can't be what a person said or wants; "" when it can. Without a claim, only what tools said can't."""
    if claim is not None and wording("waits").search(folded(unit)[claim.start : claim.stop]):
        unit = wording("outcome").sub(" ", folded(unit))  # who asked for something waits for an answer
    if unit.rstrip().endswith((":", "\uff1a")):
        unit = wording("wish").sub(" ", folded(unit))  # what the requests are stands below
    words = claimed(unit)
    if not words:
        return "nothing is left of it" if claim is not None and NOT_SAID in unit else ""
    if carried_over(unit, words, evidence) or supported(words, evidence.people, unit):
        return ""
    if evidence.in_data(words):
        return "a tool or a page said it and no person"
    if claim is None:
        strange = place.goals and place.first and len(words) >= _A_GOAL and len(words & evidence.talk) * 3 < len(words)
        return "nobody spoke of it" if strange and not place.foreign else ""
    held = place.foreign or spread(words, evidence.people) or _quotes_well(unit, evidence)
    return "" if held else "no person said it"


def _quotes_well(unit: str, evidence: Evidence) -> bool:
    """Whether the sentence hardly says more than what it quotes, and a person said that."""
    quoted = [next(filter(None, match.groups()), "") for match in QUOTED.finditer(unit)]
    if not any(len(_SIGN_OR_WORD.findall(said)) >= 2 and evidence.quotes(said) for said in quoted):
        return False
    return len(claimed(QUOTED.sub(" ", unit))) <= _BESIDE


# -- what is left -----------------------------------------------------------------------------------------------------


def _repeats(line: str, known: Sequence[tuple[str, frozenset[str]]]) -> bool:
    """Whether one line of the ledger says all that this one says."""
    words = content(line)
    if len(words) < 3:
        return False
    said = squeezed(bare(line.strip())).strip(".,;:!?` ")
    return any(said in text or words <= there for text, there in known)


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1].rstrip() + "…"
