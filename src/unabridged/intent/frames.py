"""Which blocks of a `user` turn another system wrote: its summary of what was said before, or a text of the host's.

How known systems open and close such texts is data (`frames.json`). A summary of an unknown system is told by one rule:
several independent signs over the whole text, and nobody who speaks for themselves at its beginning. Whatever stands in
a block of its own, before a frame or behind its end is still the person's, and so is what they ask for below it.
"""

from __future__ import annotations

import json
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
_SET_OFF, _CLOSES = frozenset('\n"\u201c\u201e\u00ab\u300c'), frozenset('"\u201d\u201c\u00bb\u300d')
_MODELS = ("promise", "acts_next", "reported", "offer", "courtesy")
"""How a model speaks of itself."""
_SHORT = 48
"""Characters of a line that may be a heading though nothing marks it."""
_KINDS, _TELLINGS, _SAID, _ENOUGH = 3, 2, 12, 4
"""Kinds of headings that count, tellings and quotations that do, characters of one; points that are enough."""
_LABELS, _SPACES = str.maketrans("=|>?*\uff1a", "::::::"), str.maketrans("_-.", "   ")
_AROUND = "\u30fb\u25cf\u25a0\u00b7\u3010\u3011#*=-_<>/[](){}\"'`|:.,\u2022\u2013\u2014 \t0123456789"


class Block(NamedTuple):
    """A stretch of a turn and who wrote it."""

    whose: Literal["person", "summary", "host"]
    text: str


@cache
def frames() -> dict[str, Any]:
    """The table of frames."""
    return dict(json.loads(Path(__file__).with_name("frames.json").read_text(encoding="utf-8")))


def _frame(kind: str, text: str) -> dict[str, Any]:
    """The frame of this kind that a text opens with; an empty one where there is none."""
    return next((dict(frame) for frame in frames()[kind] if text.lstrip().startswith(frame["opens"])), {})


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
    stop = _end_of_frame(text) or _end_of_hand_over(text)
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
    return max(places, default=len(text) if "whole_turn" in frame else _end_of_list(text, "goal_below" in frame))


def _end_of_list(text: str, goal_below: bool) -> int:
    """Where the list ends that a summary closes with, if somebody speaks of themselves in one paragraph below it.

    Where a person's goal is always below, it need not be a list.
    """
    listed, _, last = text.rstrip().rpartition("\n\n")
    items = goal_below or listed.rpartition("\n")[2].startswith((" ", "\t", "- ", "* "))
    own = items and last[:1].isalpha() and _SET_OFF.isdisjoint(last) and phrases("own").inside(folded(last))
    others = any(map(phrases(*_MODELS).at_start, sentences(folded(last)))) or _has(folded(last), _people())
    return len(listed) if own and not others else len(text)


def retold_in(view: View) -> str:
    """What the summaries in a turn say, without the words of the frames around them."""
    return "\n".join(map(_unframed, _summaries(view)))


def is_guess(view: View) -> bool:
    """Whether a summary in the turn is taken for one by its shape alone."""
    return any(not _frame("summaries", text) and _end_of_hand_over(text) for text in _summaries(view))


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
def _end_of_hand_over(text: str) -> int:
    """Where a summary in no known frame ends that a text opens with; 0 where it is a person's.

    Below it a person may ask for something, in a paragraph of their own; where that is about "this", all is theirs.
    """
    told, _, last = text.rstrip().rpartition("\n\n")
    if not _asks(last if told else "".join(sentences(last)[-1:])):
        return len(text) if _is_hand_over(text) else 0
    about = _has(folded(last), [*frames()["hand_over"]["about"], *_people()])
    return len(told) if not about and _is_hand_over(told) else 0


def _asks(paragraph: str) -> bool:
    """Whether somebody asks for something in a paragraph that is no list, other than to go on."""
    said, listed = sentences(paragraph) or [""], not all(line[:1].isalpha() for line in paragraph.splitlines())
    about = _has(" ".join(folded(said[0]).split()[1:3]), frames()["hand_over"]["about"])  # "Shorten this"
    asks = about or _speaks(said[0], "asking") or _speaks(said[-1], "asking")
    return asks and not listed and not phrases("onward").inside(folded(said[-1]))


def _is_hand_over(text: str) -> bool:
    """Whether a text shows in several ways that it is a machine's record, and nobody speaks for themselves at its head.

    No way is enough alone. It calls itself a recap; it is one object or tag and says what was done; it lists what was
    said, word for word; it tells of the user as of somebody else; it has headings of the kinds that hand-overs have.
    """
    shape, text = frames()["hand_over"], text[:_READ].strip()
    pieces = sentences(text.replace(', "', ',\n"') if text[:1] == "{" else text)
    lines = [line for line in text.splitlines() if line.strip(_AROUND)] or [""]
    opening, naming = _plain(lines[0][:_LONG]), _plain(" ".join(line[:_LONG] for line in (*lines[:4], *pieces[-1:])))
    named = _has(naming, shape["recap"]) and _has(naming, shape["recalled"])
    about = not named and _has(opening, shape["about"])
    if len(text) < _LONG or about or _speaks(opening, "own_voice"):
        return False
    titles = {title for piece in pieces if (title := _title(piece))}
    kinds = {kind for kind, words in shape["headings"].items() if any(_has(title, words) for title in titles)}
    owned = any(phrases("own").inside(folded(piece)) for piece in pieces if _SET_OFF.isdisjoint(piece))
    told = _retellings(text, pieces, titles, named or not owned)
    signs = [
        named and not _has(opening, shape["gatherings"]),
        "done" in kinds and _is_one(text),
        "said" in kinds and sum(map(_is_quotation, lines)) >= _TELLINGS,
        *(len(titles.intersection(known)) >= len(known) - 1 for known in shape["templates"]),
    ]
    return 2 * sum(map(bool, signs)) + min(len(kinds), _KINDS) + told >= _ENOUGH + owned


def _retellings(text: str, pieces: list[str], titles: set[str], others: bool) -> int:
    """How surely a text tells of a user and a helper as of others: 4 where most of its sentences begin with either.

    A heading may name the user too, and "they" and "she" may be the user where nobody else speaks.
    """
    openings = [" ".join(folded(piece).split()[:2]) for piece in pieces]
    begins = [sum(_has(opening, _people(role)) for opening in openings) for role in ("user", "helper")]
    if min(begins) > _TELLINGS and 2 * sum(begins) > len(openings):
        return 4
    they = _tellings(_plain(text), "others") if others and _has(_plain(text), _people()) else 0
    told = _tellings(_plain(text)) + they + sum(_has(title, _people("whose")) for title in titles)
    return min(told, 3) if told >= _TELLINGS else 0


def _is_one(text: str) -> bool:
    """Whether a text is one object, or one tag and what it holds."""
    return text[0] + text[-1] == "{}" or text.endswith(f"</{text[1:].replace('>', ' ').partition(' ')[0]}>")


def _is_quotation(line: str) -> bool:
    """Whether a line is what somebody said, word for word, perhaps with a label."""
    line = line.rstrip(" \t.,;|")
    start = next((i for i, sign in enumerate(line) if sign in _SET_OFF), len(line))
    label, said = line[:start].rstrip(), line[start:]
    apart = not label.strip(_AROUND) or label.endswith((":", "\uff1a"))
    return apart and len(said) > _SAID and said[-1] in _CLOSES and said[1] not in _CLOSES


def _people(*roles: str) -> list[str]:
    """What those in these roles are called by somebody else."""
    return [*chain(*(frames()["hand_over"][role] for role in roles or ("user", "helper")))]


def _tellings(text: str, *roles: str) -> int:
    """In how many ways a text tells what those in these roles did: "the user asked"."""
    pairs = product((who for who in _people(*roles) if who in text), frames()["hand_over"]["told"])
    return sum((who + did if who > _EASTERN else f" {who} {did} ") in f" {text} " for who, did in pairs)


def _title(line: str) -> str:
    """The words of a line that is a heading or begins with a label; "" for any other."""
    label, *more = line.lstrip(_AROUND).translate(_LABELS).split(":", 1)
    bare = not line[:1].islower() and line.rstrip(" )*_\uff09\u3011")[-1:].isalnum()
    marked = more or bare or line.lstrip().startswith(("#", "**", "<", "=", "["))
    code = label.isascii() and "(" in label.replace(" (", "")
    return _plain(label) if marked and len(label) < _SHORT and not code else ""


def _plain(text: str) -> str:
    """The words of a text as they are looked for, without what marks a heading."""
    return " ".join(folded(text).translate(_SPACES).strip(_AROUND).split())


def _has(text: str, words: list[str]) -> bool:
    """Whether a word of the text begins as one of these does; signs that are written without spaces stand anywhere."""
    return any((word if word > _EASTERN else f" {word}") in f" {text}" for word in words)


def _speaks(line: str, kind: str) -> bool:
    """Whether somebody asks in a line, says what is to be done, or speaks with words of this kind."""
    words = f" {' '.join(folded(line).replace(',', ' ').split())} "
    asks = words.endswith(("? ", "\uff1f ")) or phrases("tasks", "polite").at_start(words[1:])
    return bool(asks) or any(f" {word} " in words for word in frames()["hand_over"][kind])


def rejection_in(text: str, tool: str) -> tuple[str, str]:
    """The host's frame at the very opening of an error and, behind it, what a person said when rejecting the call."""
    for frame in frames()["rejections"]:
        opens = frame["opens"].replace("{tool}", tool)
        if text.startswith(opens):
            return opens, text[len(opens) :].partition(frame.get("closes") or "\x00")[0].strip()
    return "", ""
