"""Sentences that say what a person approved, said or wants: recognised by rule, and held against people's turns.

The words for people, approvals and wishes stand in `claims.json`, for six languages. "A user", "if the user", "the user
is allowed" speak of somebody who uses what is being built; "waiting for the user's approval" claims none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from unabridged.ledger.languages import folded
from unabridged.ledger.phrasing import bare, sentences
from unabridged.summarise.evidence import Evidence, Said, content, only_forbidden, squeezed, wording

QUOTED = re.compile(r"`[^`\n]*`|“([^“”\n]{1,2000})”|\"([^\"\n]{1,2000})\"|«([^«»\n]{1,2000})»|「([^「」\n]{1,2000})」")
NOT_SAID = "[a quotation that was not found in what was said]"

_REACH = 120
"""Characters in which a person and the verb must stand: some languages put the verb last."""
_BREAK = re.compile(r"[,;:\uff0c\uff1b\u3001]|\s[-\u2013\u2014]\s|\b(?:and|but|und|aber|et|mais|y|pero)\b")
_BETWEEN = re.compile(r"\b(?:for|to|yet|if|whether|um|ob|pour|si|para)\b")
_ANYBODY = re.compile(
    r"\b(?:(?:an?|each|every|any|no|per|another|new|current|root|test|end|admin|logged-in|authenticated|jeder|jedes|ein"
    r"|eines|einem|einen|un|une|chaque|cada)\s+"
    r"|(?:if|when|whenever|once|until|unless|lets?|allows?|where|which|wenn|falls|si|cuando)\s+(?:the\s+|an?\s+|der\s+|el\s+"
    r"|l')?)\Z"
)
# What a page claims of the user is the page's claim, and said so.
_LABELLED = re.compile(
    r"\b(?:page|site|tool|output|log|result|e-?mail|mail|document|file|comment|notice|text|prompt|message)s?\b[^.;]{0,60}"
    r"\b(?:claim|said|says|stat|assert|pretend|alleg|false|contain|read)\w*\b[^.;]{0,40}\Z"
)
_PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|being|gets?|got|est|sont|était|fue|es|son|ser)\s+(?:\w+ly\s+)?\Z")
_ADJECTIVE = re.compile(r"\b(?:the|an|any|all|its|their|only|der|die|das|den|le|la|les|el|los|las)\s+\Z")
# "Confirmed that it works" reports; it is held to what was said, not to what was approved.
_REPORTS = re.compile(r"\s*(?:,\s*)?(?:that|dass|que|qu')\b|\s*了?\s*[,\uff0c\uff1a:]")
_CONFIRMS = re.compile(r"confirm|agree|accept|bestätig|akzept|accept|acept")
_AGREES = re.compile(r"agree|d'accord|de acuerdo|einverstanden")
# An approval that somebody has or gave; "user permission checks" is no such thing.
_HELD = re.compile(
    r"'s?\s|\b(?:with|after|per|on|upon|following|given|under|has|had|got|gets?|received|obtained)\s+(?:\w+\s+){1,3}\Z"
)
_GIVEN = re.compile(
    r"\s*(?:was|is|has been|had been)?\s*(?:given|received|obtained|granted|secured|confirmed)\b"
    r"|[^.;]{0,60}\b(?:erteilt|gegeben|gewährt)\b"
)
# Between a person and what they say stands little: "the user then explicitly asked".
_LITTLE = re.compile(r"'?s?(?:[\s,]+(?:[\w'-]+ly|[\w'-]{1,6}|originally|repeatedly|initially)){0,3}[\s,]*")


class Attribution(NamedTuple):
    """What kind of claim a sentence makes about a person, and where its verb stands."""

    kind: Literal["approval", "instruction"]
    start: int
    stop: int


def attributed(unit: str) -> Attribution | None:
    """What the sentence says of a person; None when it says nothing of the one who speaks in the conversation.

    What stands between quotation marks is somebody else's sentence, and does not count.
    """
    words = QUOTED.sub(lambda quoted: "_" * len(quoted[0]), folded(unit))
    if wording("person").search(words) is None:
        return None
    for kind in ("approve", "approval"):
        for verb in wording(kind).finditer(words):
            if _approves(words, verb, noun=kind == "approval"):
                reports = _CONFIRMS.match(verb[0]) and _REPORTS.match(words, verb.end())
                return Attribution("instruction" if reports else "approval", *verb.span())
    for kind in ("tell", "wish"):
        for verb in wording(kind).finditer(words):
            person = _before(words, verb)
            if person is not None and (_eastern(words, verb) or _near(words[person[1] : verb.start()], person, words)):
                return Attribution("instruction", *verb.span())
    return None


def _approves(words: str, verb: re.Match[str], *, noun: bool) -> bool:
    """Whether a person is said to have approved: not denied, not waited for, not somebody in general."""
    person, behind = _before(words, verb), None
    if person is None:
        person = behind = _behind(words, verb)
    if person is None:
        return False
    first, last = min(person[0], verb.start()), max(person[1], verb.end())
    breaks = [match.end() for match in _BREAK.finditer(words, 0, first)]
    before, between = words[max(breaks, default=0) : first][-40:], words[person[1] : verb.start()]
    if wording("unsure").search(before) or wording("deny").search(between) or _BETWEEN.search(between):
        return False
    eastern = _eastern(words, verb)
    if (noun or eastern) and wording("later").search(words[last : last + (14 if eastern else 60)]):
        return False
    if behind is not None or eastern:
        return True
    if noun:
        held = _HELD.search(words[max(0, person[0] - 16) : verb.start()])
        return held is not None or _GIVEN.match(words, verb.end()) is not None
    adjective = _ADJECTIVE.search(between) is not None  # "wider than the allowed width"
    return not adjective and (_PASSIVE.search(between) is None or _AGREES.match(verb[0]) is not None)


def _before(words: str, verb: re.Match[str]) -> tuple[int, int] | None:
    """The person named before the verb, with nobody else between."""
    for person in reversed(list(wording("person").finditer(words, max(0, verb.start() - _REACH), verb.start()))):
        clause = _BREAK.split(words[person.end() : verb.start()])[-1]
        if wording("other").search(clause):
            return None
        if not _ANYBODY.search(words[max(0, person.start() - 24) : person.start()]):
            return None if _LABELLED.search(words[: person.start()]) else person.span()
    return None


def _behind(words: str, verb: re.Match[str]) -> tuple[int, int] | None:
    """The person named behind the verb: "approved by the user"."""
    for by in wording("by").finditer(words, verb.end(), min(len(words), verb.end() + 40)):
        person = wording("person").search(words, by.end(), by.end() + 24)
        if person is not None and not _ANYBODY.search(words[: person.start()][-24:]):
            return person.span()
    return None


def _near(between: str, person: tuple[int, int], words: str) -> bool:
    """Whether what stands between a person and the verb is little; German puts much there, and its verb last."""
    little = _LITTLE.fullmatch(between) is not None
    return little or re.match(r"(?:be)?nutzer|anwender|kund|auftrag", words[person[0] :]) is not None


def _eastern(words: str, verb: re.Match[str]) -> bool:
    return words[verb.start()] > "\u2e7f"


# -- held against what people said ------------------------------------------------------------------------------------


def claimed(unit: str) -> frozenset[str]:
    """The content words of the sentence, without those that only attribute it."""
    words = folded(bare(unit.replace(NOT_SAID, " ").strip()))
    for kind in ("approve", "approval", "tell", "person"):
        words = wording(kind).sub(" ", words)
    return content(words)


def approved(unit: str, claim: Attribution, evidence: Evidence) -> bool:
    """Whether one person's turn says it, or nods to a question of the assistant's that does.

    All content words must be found (of four or more, a quarter may be missing), and the first behind the verb, which
    tells what was approved, always. A sentence that forbids supports nothing.
    """
    words = claimed(unit)
    if not words:
        return NOT_SAID not in unit and any(said.question for said in evidence.people)
    if carried_over(unit, words, evidence):
        return True
    behind = folded(unit)[claim.stop :].split()
    deed = next((word for piece in behind for word in claimed(piece)), None)

    def holds(known: frozenset[str]) -> bool:
        return len(words - known) <= len(words) // 4 and (deed is None or deed in known)

    for said in evidence.people:
        if holds(said.words) and not only_forbidden(said, words):
            return True
        if said.question and holds(said.words | said.question):
            return True
    return False


def supported(words: frozenset[str], people: Sequence[Said], unit: str = "") -> bool:
    """Whether one person's turn holds three in five of these words, and does not forbid what is claimed as wanted."""
    need = max(-(-len(words) * 3 // 5), min(2, len(words)))
    forbids = wording("deny").search(folded(unit)) is not None
    return any(
        len(words & (said.words | said.question)) >= need
        and (forbids or bool(said.question) or not only_forbidden(said, words))
        for said in people
    )


def spread(words: frozenset[str], people: Sequence[Said]) -> bool:
    """Whether people's turns together hold four in five of them: the sentence may put several turns together."""
    known: frozenset[str] = frozenset().union(*(said.words for said in people))
    return len(words) >= 4 and len(words & known) * 5 >= len(words) * 4


def carried_over(unit: str, words: frozenset[str], evidence: Evidence) -> bool:
    """Whether the earlier prose, which was checked in its time, says the same of a person."""
    if not evidence.prior:
        return False
    if squeezed(unit) in evidence.earlier:
        return True
    told = (sentence for sentence in sentences(evidence.prior) if wording("person").search(folded(sentence)))
    return any(words <= content(sentence) for sentence in told)
