"""Sentences that say what a person approved, said or wants: recognised by rule, and held against people's turns.

The words for people, approvals and wishes stand in `claims.json`, for six languages. "A user", "if the user", "the user
is allowed" speak of somebody who uses what is being built; "waiting for the user's approval" claims none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from unabridged.languages import folded
from unabridged.summarise.evidence import Evidence, Said, content, only_forbidden, squeezed, wording
from unabridged.texts import bare, sentences

# Single marks quote only where one opens before a word and one closes behind it: an apostrophe does neither.
QUOTED = re.compile(
    r"`[^`\n]*`|[“„]([^“”„\n]{1,2000})[”“]|\"([^\"\n]{1,2000})\"|«([^«»\n]{1,2000})»|»([^«»\n]{1,2000})«"
    r"|\u2039([^\u2039\u203a\n]{1,2000})\u203a|「([^「」\n]{1,2000})」|『([^『』\n]{1,2000})』"
    r"|(?:(?<!\S)|(?<=[:\uff1a\u2014])|(?<=\s\())['\u2018\u201a](?=\w)(?!\d|(?:tis|twas|em|til|cause)\b)"
    r"((?:[^'\u2018\u2019\u201a\n]|(?<=\w)['\u2019](?=\w)){1,1000})(?<=\S)['\u2019\u2018](?!\w)"
)
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
_REPORTS = re.compile(r"\s*+(?:,\s*+)?(?:that|dass|que|qu')\b|\s*+(?:了\s*+)?[,\uff0c\uff1a:]")
_CONFIRMS = re.compile(r"confirm|agree|accept|bestätig|akzept|accept|acept")
_AGREES = re.compile(r"agree|d'accord|de acuerdo|einverstanden|vereinbar|abge|conv[ei]n|acord")
# An approval that somebody has or gave; "user permission checks" is no such thing.
_HELD = re.compile(
    r"'s?\s|\b(?:with|after|per|on|upon|following|given|under|has|had|got|gets?|received|obtained)\s+(?:\w+\s+){1,3}\Z"
)
_GIVEN = re.compile(
    r"\s*+(?::\s*+)?(?:(?:was|is|has been|had been)\s*+)?(?:given|received|obtained|granted|secured|confirmed)\b"
    r"|[^.;,]{0,60}\s(?:was|has been|had been)\s+(?:given|received|obtained|granted|secured)\b"
    r"|[^.;]{0,60}\b(?:erteilt|gegeben|gewährt)\b"
)
# Between a person and what they say stands little: "the user then explicitly asked".
_LITTLE = re.compile(r"'?s?(?:[\s,]+(?:[\w'-]+ly|[\w'-]{1,6}|originally|repeatedly|initially)){0,3}[\s,]*")
# "The user thought about it and now wants …": one person, two verbs.
_AND = re.compile(r"\s[^.;:]{1,60}\band\s(?:(?:\w+ly|now|then|also|later)\s)?")
# "X: approved", "Approved: X", "X was approved": by whom is not said; "orders are approved by a script" says it.
_LABEL = re.compile(r"(?:[:\uff1a]|\s[-\u2013\u2014])\s*(?:fully |already |explicitly |now |déjà |ya )?\Z")
_COLON = re.compile(r"\s*[:\uff1a\u2013\u2014]")
_PREDICATE = re.compile(
    r"(?<!\bthat )(?<!\bwhich )(?<!\bwho )\b"
    r"(?:is|are|was|were|(?:has|have|had) been|ist|sind|wurden?|est|sont|(?:a|ont) été|fue|fueron|está|ha sido|es)\s+"
    r"(?:\w+ly |now |also |already |bereits |déjà |ya )?\Z"
)
_TO_DO = re.compile(r"\b(?:approval|consent|permission|authori[sz]ation|go-ahead|green light|sign-off)\s+(?:to|for)\b")
_MEANS = re.compile(
    r"\s+(?:by|with|via|using|through|against|automatically|if|when|unless|only|until|von|vom|par|por)\b"
)
_OPEN = re.compile(
    r"\b(?:if|once|until|unless|whether|when|before|pending|await\w*|should|must|nothing|nobody|nichts|niemand|rien|personne|nada|nadie|sobald|wenn|falls|bis|ob|si|dès|quand"
    r"|cuando|hasta)\b"
)


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
            if verb[0] == "待っ" and person is not None and words[person[1]] not in "はが":
                continue  # what is waited for is the user's
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
    """The person named behind the verb: "approved by the user", "agreed with the user"."""
    reach = verb.end(), min(len(words), verb.end() + 40)
    found = list(wording("by").finditer(words, *reach))
    if _AGREES.match(verb[0]):
        found += wording("with").finditer(words, *reach)
    for by in found:
        person = wording("person").search(words, by.end(), by.end() + 24)
        if person is not None and not _ANYBODY.search(words[: person.start()][-24:]):
            return person.span()
    return None


def _near(between: str, person: tuple[int, int], words: str) -> bool:
    """Whether what stands between a person and the verb is little; German puts much there, and its verb last."""
    little = _LITTLE.fullmatch(between) is not None or _AND.fullmatch(between) is not None
    return little or re.match(r"(?:be)?nutzer|anwender|kund|auftrag", words[person[0] :]) is not None


def granted(unit: str) -> Attribution | None:
    """The approval that the sentence states without saying whose; None when it states none, or denies or awaits it."""
    words = QUOTED.sub(lambda quoted: "_" * len(quoted[0]), folded(unit))
    if words.rstrip().endswith(("?", "\uff1f")):
        return None
    for verb in wording("granted").finditer(words):
        before, behind = words[: verb.start()], words[verb.end() :]
        if wording("deny").search(before[-60:]) or _OPEN.search(before[-80:]):
            continue
        if _states(before, verb[0], behind) or _eastern(words, verb):
            return Attribution("approval", *verb.span())
    return None


def _states(before: str, verb: str, behind: str) -> bool:
    """Whether the participle is what the sentence says, and not a word in it."""
    if re.match(r"(?:granted|erteilt|accord|conced|otorg)", verb) and not wording("approval").search(before):
        return False
    if re.match(r"(?:obtained|received|secured)", verb) and not _TO_DO.search(before):
        return False
    if not re.search(r"\w", before):
        return _COLON.match(behind) is not None
    if not re.search(r"\w", behind) and _LABEL.search(before):
        return True
    if verb.startswith("auth") and re.match(r"\s+to\b", behind) and not wording("other").search(before):
        return False  # an account that may read a bucket
    return _PREDICATE.search(before) is not None and _MEANS.match(behind) is None


def _eastern(words: str, verb: re.Match[str]) -> bool:
    return words[verb.start()] > "\u2e7f"


# -- held against what people said ------------------------------------------------------------------------------------


def claimed(unit: str) -> frozenset[str]:
    """The content words of the sentence, without those that only attribute it."""
    words = folded(bare(unit.replace(NOT_SAID, " ").strip()))
    for kind in ("approve", "approval", "granted", "tell", "person"):
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


def lifts(unit: str, people: Sequence[Said]) -> bool:
    """Whether the sentence says that something may be done which people only forbade."""
    if wording("lifted").search(folded(unit)) is None:
        return False
    words = claimed(unit)
    about = [(len(words & (said.words | said.question)), said) for said in people]
    most = max((number for number, _ in about), default=0)
    best = [said for number, said in about if number == most]
    return (
        most > 0 and 2 * most >= len(words) and all(not said.question and only_forbidden(said, words) for said in best)
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
