"""Sentences that speak of the user, as the user or for the user without saying so: read as if they said so.

"You told me to …"              the user told me to …
"User: delete it"               the user said: delete it
"The user … They approved …"    the user approved …
"I, the user, confirm …"        nobody but the user may say that
"""

from __future__ import annotations

import re

from unabridged.languages import folded
from unabridged.summarise.evidence import wording

_COLON = r"[:\uff1a\ua789\u2236\u02d0\ufe55\ufe13\u205a\u0589\u05c3\u1361\u0703\ua4fd]"
"""A colon, and what looks like one."""
_LABEL = re.compile(
    rf"[\s>*_#+\u2022-]{{0,24}}(?:\d{{1,3}}[.)]\s+)?(?:\[(?P<tag>[^\]\n]{{1,16}})\](?!\(){_COLON}?"
    rf"|[*_]{{0,3}}(?:(?:the|der|die|el|la) |l')?(?P<name>[^\W\d_]{{2,14}})[*_]{{0,3}}"
    rf"\s?(?:\([^()\n]{{1,40}}\)|[\[#]?\d{{1,6}}\]?)?[*_]{{0,3}}\s?{_COLON})[*_]{{0,3}}\s*",
    re.IGNORECASE,
)
_INSTEAD = (("cites", "the user said"), ("you_told", "the user asked"), ("you_approved", "the user approved"))
_UNSEEN = re.compile(
    "[\xad\u200b\u2060-\u2064\ufeff]|(?<=[A-Za-z])[\u200c-\u200f]+|(?<![\u200c-\u200f])[\u200c-\u200f]++(?=[A-Za-z:])"
)
_MIXED = re.compile(r"[^\W\d_]+")
_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u04bb\u0501\u03bf\u03bd\u0410\u0415\u041e\u0420\u0421\u0422\u041d\u041c\u0425\u0405",
    "aeopcyxisjhdovAEOPCTHMXS",
)
"""Letters of other scripts that look like Latin ones."""
_SIGN = "\u2e7f"


def plain(text: str) -> str:
    """The text without signs that can't be seen, and with words of look-alike letters in the letters they look like."""
    text = _UNSEEN.sub("", text)
    return text if text.isascii() else _MIXED.sub(_in_latin, text)


def _in_latin(word: re.Match[str]) -> str:
    latin = word[0].translate(_ALIKE)
    mixed = latin.isascii() and any(char.isascii() for char in word[0])
    return latin if mixed else word[0]


def voiced(unit: str, *, of_person: bool = False) -> str:
    """The sentence with the user named in it where it only addresses, labels or means them.

    `of_person`: the sentence before spoke of the user, so that "they" may be the user.
    """
    if (label := labelled(unit)) is not None:
        return f"the user said: {unit[label:]}"
    words = folded(unit)
    if of_person and (pronoun := re.compile(rf"\W*(?:{wording('pronoun').pattern})").match(words)):
        return f"{_user(pronoun[0])}{unit[pronoun.end() :]}"
    for kind, told in _INSTEAD:
        if (found := wording(kind).search(words)) is not None:
            return f"{unit[: found.start()]}{told}{unit[found.end() :]}"
    you = wording("you").search(words)
    return f"{unit[: you.start()]}{_user(you[0])}{unit[you.end() :]}" if you is not None else unit


def labelled(line: str) -> int | None:
    """Where the words begin in a line that a transcript would give as the user's; None when it is no such line."""
    label = _LABEL.match(line)
    name = (label["tag"] or label["name"]).strip() if label is not None else ""
    return label.end() if label is not None and wording("role").fullmatch(folded(name)) else None


def speaks_as_user(unit: str) -> bool:
    """Whether the sentence is written as if the user wrote it."""
    return wording("voice").search(folded(unit)) is not None


def _user(instead: str) -> str:
    return "用户" if instead.strip()[-1:] > _SIGN else "the user"
