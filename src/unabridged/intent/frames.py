"""Which blocks of a `user` turn another system wrote: its summary of what was said before, or a text of the host's.

How known systems open and close such texts is data (`frames.json`). A summary of an unknown system is told by one rule:
of three signs two, and nobody who speaks for themselves at its beginning or asks for something at its end. Whatever
stands in a block of its own, before a frame or behind its end is still the person's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unabridged.languages import folded, phrases
from unabridged.messages import View
from unabridged.text_cache import remembered
from unabridged.text_tools import sentences

_LONG = 200
"""Characters from which on a text may be the summary of an unknown system."""
_OURS = "[unabridged "
_READ = 20_000
"""Characters that are looked through for its signs."""
_EASTERN = "\u2e7f"
"""Scripts above this sign write without spaces."""
_SET_OFF = frozenset('\n"\u201c\u201e\u00ab\u300c')
_MODELS = ("promise", "acts_next", "reported", "offer", "courtesy")
"""How a model speaks of itself."""
_SHORT = 40
"""Characters of a line that may be a heading though nothing marks it."""
_KINDS, _TELLINGS = 3, 2
"""Kinds of headings, and ways of speaking about the user as somebody else, that are a sign."""
_AROUND = "#*=-_<>/[](){}\"'`|:.,\u2022\u2013\u2014 \t0123456789"


class Block(NamedTuple):
    """A stretch of a turn and who wrote it."""

    whose: Literal["person", "summary", "host"]
    text: str


@cache
def frames() -> dict[str, Any]:
    """The table of frames."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("frames.json").read_text(encoding="utf-8"))
    return found


def _frame(kind: str, text: str) -> dict[str, Any]:
    """The frame of this kind that a text opens with; an empty one where there is none."""
    found: Iterator[dict[str, Any]] = (frame for frame in frames()[kind] if text.lstrip().startswith(frame["opens"]))
    return next(found, {})


def blocks_of(view: View) -> list[Block]:
    """The text of a turn, by who wrote it."""
    text, found = view.text, list[Block]()
    if text.startswith(_OURS):
        return [Block("person", text)]  # ours, if the archive knows it
    for start, stop in pairwise([0, *view.starts, len(text) + 1]):
        whole = "whole_turn" in _frame("summaries", text[start:stop])
        found += _divide(text[start : None if whole else stop - 1])
        if whole:
            break
    return found


@remembered
def _divide(text: str) -> tuple[Block, ...]:
    """One block of a turn, cut where a frame ends."""
    if _frame("host_texts", text):
        return (Block("host", text),)
    stop = _end_of_frame(text) or (len(text) if _is_hand_over(text) else 0)
    if not stop:
        return (Block("person", text),) if text.strip() else ()
    return (Block("summary", text[:stop]), *_divide(text[stop:]))


def is_summary(text: str) -> bool:
    """Whether a block that was set apart is a summary."""
    return any(block.whose == "summary" for block in _divide(text))


def _end_of_frame(text: str) -> int:
    """Where a summary ends that opens a block in a known frame; 0 where there is none.

    At the last of its closing words, for what it retells may have those too; at the end of the block where it has none.
    """
    frame = _frame("summaries", text)
    tag = bool(frame) and frame["opens"][0] == "<"
    if not frame or ("\n" not in text.strip() and (tag or _speaks(text, "asking"))):  # a line about the frame
        return 0
    places = (text.rfind(words) + len(words) for words in frame.get("closes", ()) if words in text)
    return max(places, default=len(text) if "whole_turn" in frame else _end_of_list(text))


def _end_of_list(text: str) -> int:
    """Where the list ends that a summary closes with, if somebody speaks of themselves in one paragraph below it."""
    listed, _, last = text.rstrip().rpartition("\n\n")
    ends = listed.rpartition("\n")[2]
    apart = ends.startswith((" ", "\t", "- ", "* ")) and last[:1].isalpha() and _SET_OFF.isdisjoint(last)
    said = folded(last) if apart and phrases("own").inside(folded(last)) else ""
    others = any(phrases(*_MODELS).at_start(words) for words in sentences(said)) or _has(said, [*chain(*_roles())])
    return len(listed) if said and not others else len(text)


def retold_in(view: View) -> str:
    """What the summaries in a turn say, without the words of the frames around them."""
    return "\n".join(map(_unframed, _summaries(view)))


def is_guess(view: View) -> bool:
    """Whether a summary in the turn is taken for one by its shape alone."""
    return any(not _frame("summaries", text) and _is_hand_over(text) for text in _summaries(view))


def _summaries(view: View) -> list[str]:
    """The summaries in a turn; all of one that the caller says is a summary."""
    if view.text.startswith(_OURS):
        return []
    if view.origin == "summary":
        return [block.text for block in blocks_of(view) if block.whose == "summary"] or [view.text]
    return [text for text in view.inserted if is_summary(text)]


def _unframed(text: str) -> str:
    if not (frame := _frame("summaries", text)):
        return text.strip()
    for words in (*frame.get("until", ()), *frame.get("closes", ())):
        text = text.partition(words)[0] if words in text else text
    body = text.strip().partition("\n")[2].strip() or text.strip()
    return body.rpartition(frame.get("after", "\x00"))[2].removeprefix("<summary>").strip()


@remembered
def _is_hand_over(text: str) -> bool:
    """Whether a text in no known frame is a machine's summary: two of three signs, and nobody speaks for themselves.

    The signs: its first lines or its last call it a recap of a conversation; it tells of the user as of somebody else,
    which is enough where it does nothing but; it has headings of several kinds that hand-overs have.
    """
    shape, lines = frames()["hand_over"], [line for line in text[:_READ].splitlines() if line.strip(_AROUND)]
    if len(text) < _LONG or not lines:
        return False
    opening, naming = _plain(lines[0][:_LONG]), _plain(" ".join(line[:_LONG] for line in (*lines[:3], lines[-1])))
    titles = {title for line in lines if (title := _title(line))}
    named = _has(naming, shape["recap"]) and _has(naming, shape["recalled"])
    signs = int(named and not _has(opening, shape["gatherings"]))
    signs += sum(any(_has(title, words) for title in titles) for words in shape["headings"].values()) >= _KINDS
    signs += 2 * any(len(titles.intersection(known)) >= len(known) - 1 for known in shape["templates"])
    signs += _retellings(text[:_READ])
    last = folded((sentences(text.rstrip()[-_LONG:]) or lines)[-1])
    asks = lines[-1][0].isalpha() and _speaks(last, "asking") and not phrases("onward").inside(last)
    speaks = _speaks(opening, "own_voice") and not any(words in opening.partition(". ")[0] for words in _tellings())
    return signs > 1 and not (speaks or asks or opening.partition(" ")[0] in shape["orders"])


def _retellings(text: str) -> int:
    """How surely a text tells of a user and a helper as of others: 2 where most of its sentences begin with either."""
    openings = [" ".join(folded(sentence).split()[:2]) for sentence in sentences(text)]
    begins = [sum(_has(opening, role) for opening in openings) for role in _roles()]
    spoken = f" {_plain(text)} "
    told = sum(phrase in spoken for phrase in _tellings()) if _has(spoken, [*chain(*_roles())]) else 0
    return 2 if min(begins) > _TELLINGS and 2 * sum(begins) > len(openings) else int(told >= _TELLINGS)


def _roles() -> list[list[str]]:
    """What a user and a helper are called by somebody else."""
    return [frames()["hand_over"][role] for role in ("user", "helper")]


@cache
def _tellings() -> frozenset[str]:
    """Ways to tell what a user or a helper did: "user asked"."""
    pairs = product(chain(*_roles()), frames()["hand_over"]["told"])
    return frozenset(who + did if who > _EASTERN else f" {who} {did} " for who, did in pairs)


def _title(line: str) -> str:
    """The words of a line that is a heading or begins with a label; "" for any other."""
    label, colon, _ = line.strip(_AROUND).replace("=", ":").replace("\uff1a", ":").partition(":")
    first, last = line.strip()[:1], line.rstrip()[-1:]
    bare = len(label) < _SHORT and last.isalnum()
    return (
        _plain(label)
        if colon or bare or (first and first in "#*<=[") or (last and last in ":\uff1a{[") or line.isupper()
        else ""
    )


def _plain(text: str) -> str:
    """The words of a text as they are looked for, without what marks a heading."""
    return " ".join(folded(text).replace("_", " ").replace("-", " ").strip(_AROUND).split())


def _has(text: str, words: list[str]) -> bool:
    """Whether a word of the text begins as one of these does; signs that are written without spaces stand anywhere."""
    return any((word if word > _EASTERN else f" {word}") in f" {text}" for word in words)


def _speaks(line: str, kind: str) -> bool:
    """Whether somebody asks in a line, or speaks with words of this kind."""
    words = f" {' '.join(folded(line).replace(',', ' ').split())} "
    return words.endswith("? ") or any(f" {word} " in words for word in frames()["hand_over"][kind])


def rejection_in(text: str, tool: str) -> tuple[str, str]:
    """The host's frame at the very opening of an error and, behind it, what a person said when rejecting the call."""
    for frame in frames()["rejections"]:
        opens = frame["opens"].replace("{tool}", tool)
        if text.startswith(opens):
            return opens, text[len(opens) :].partition(frame.get("closes") or "\x00")[0].strip()
    return "", ""
