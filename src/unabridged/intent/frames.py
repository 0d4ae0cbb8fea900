"""Which blocks of a `user` turn another system wrote: its summary of what was said before, or a text of the host's.

How known systems open and close such texts is data (`frames.json`). What only reads like a summary of an unknown system
(`records`) is `doubtful`.
Whatever stands in a block of its own, before a frame or behind its end is still the person's, and so is, in doubt, what
does not have the form of the record above it.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unabridged.intent.records import ALIKE, likeness
from unabridged.languages import EASTERN, folded, phrases
from unabridged.messages import View
from unabridged.text_cache import remembered
from unabridged.text_tools import bare, blank_fences, sentences

_OURS = "[unabridged "
_LONG, _READ, _HANDED = 200, 20_000, 0.3
"""Bytes from which on a text may be the summary of an unknown system; characters that are read of it; the likeness
below which its first sentence may be a person's."""
_TAG_ENDS, _SIGNS = str.maketrans(">\n\t", "   "), frozenset('#=<[{|>-*_~`"')
"""What ends the name of a tag; what begins a paragraph of a record, whoever speaks in it."""
_BLANK = re.compile(r"(?<=\n)[ \t\r]+(?=\n)|\r(?=\n)")
"""What makes a blank line not blank."""
_COLON, _ASKS, _ENDS = (":", "\uff1a"), ("? ", "\uff1f "), (".", "!", "?", "\u3002", "\uff01", "\uff1f")
_MODELS = ("promise", "acts_next", "reported", "offer", "courtesy", "onward")
"""How a model speaks of itself, and how a system that hands over ends."""
_SHORT, _WORDS, _PRINTED = 48, 7, 3
"""Characters of a line that may be a heading though nothing marks it; words behind the user's name that may tell what
they said; lines as a terminal shows them that make a text a log, if they are a sixth of it."""
_PARTS, _SEEN = 40, 1_000
"""Paragraphs at the end of a text that are looked at to tell where it ends, and characters of each."""
_LABELS, _SPACES = str.maketrans("=|>?*\uff1a", "::::::"), str.maketrans("_-.\":<>'\u2019", 9 * " ")
_AROUND = "\u30fb\u25cf\u25a0\u00b7\u3010\u3011#*=-_<>/[](){}\"'`|:.,\u2022\u2013\u2014 \t0123456789"


class Block(NamedTuple):
    """A stretch of a turn and who wrote it."""

    whose: Literal["person", "summary", "doubtful", "host"]
    text: str


@cache
def frames() -> dict[str, Any]:
    """The table of frames."""
    return dict(json.loads(Path(__file__).with_name("frames.json").read_text(encoding="utf-8")))


def _shape() -> dict[str, Any]:
    return dict(frames()["hand_over"])


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
    found = list[Block]()
    while text.strip():
        if _frame("host_texts", text):
            return (*found, Block("host", text))
        lead = _end_of_tags(text)
        framed = _end_of_frame(text[lead:])
        stop = framed or _end_of_record(text[lead:])
        if not stop:
            return (*found, Block("person", text))
        if lead:
            found.append(Block("person", text[:lead]))
        found.append(Block("summary" if framed else "doubtful", text[lead : lead + stop]))
        text = text[lead + stop :]
    return tuple(found)


def _end_of_tags(text: str) -> int:
    """Where the blocks end that a text opens with and that only a host or the person would tag so; 0 without one.

    All of the text where one is not closed. A summary in a known frame is none of them.
    """
    names, stop = f"{frames()['tags']['hosts']} {frames()['tags']['own']}".split(), 0
    while stop < len(text) and not _frame("summaries", text[stop : stop + _SEEN]):
        opening = text[stop : stop + _LONG].lstrip()
        name = opening[1:_SHORT].translate(_TAG_ENDS).partition(" ")[0] if opening[:1] == "<" else ""
        if name.lower() not in names and "command-" not in name.lower():
            break
        closing = text.find(f"</{name}>", stop)
        stop = closing + len(name) + 3 if closing >= 0 else len(text)
    return stop and len(text) - len(text[stop:].lstrip())


def whose_block(text: str) -> str:
    """Whose a block is that was set apart."""
    return next((block.whose for block in _divide(text) if block.whose != "person"), "person")


def _end_of_frame(text: str) -> int:
    """Where a summary ends that opens a block in a known frame; 0 where there is none.

    At the last of its closing words, for what it retells may have those too; where it has none, where its form ends.
    """
    frame = _frame("summaries", text)
    if not frame or ("\n" not in text.strip() and (frame["opens"][0] == "<" or _asks(text))):  # a line about the frame
        return 0
    places = (text.rfind(words) + len(words) for words in frame.get("closes", ()) if words in text)
    whole = "whole_turn" in frame or "whole_block" in frame
    return max(places, default=len(text) if whole else _end_of_form(text, frame))


def _end_of_form(text: str, frame: dict[str, Any]) -> int:
    """Where a record ends: what stands in plain words below its headings, labels, lists and tags is a person's.

    Where it is in plain words itself, only who asks below it, or speaks of themselves as nobody does above.
    """
    even = _BLANK.sub(lambda gap: "\n" * len(gap[0]), text)
    whole = even.rstrip().rsplit("\n\n", _PARTS)
    parts = [part[:_SEEN] for part in whole]
    formed = [_is_formed("", parts[0].partition("\n")[2] or parts[0]), *(_is_formed(*pair) for pair in pairwise(parts))]
    opened = "\n" not in parts[0] and parts[0].endswith((*_COLON, ">", "]"))
    upward = range(len(parts) - 1, opened, -1)
    below = list(takewhile(lambda i: not (formed[i] or _is_told(parts[i], frame)), upward))
    above = formed[1 : len(parts) - len(below)]
    if "alone" in frame or (2 * sum(above) <= len(above) and "goal_below" not in frame):
        own = [_uses(part, "own") for part in parts]
        below = list(takewhile(lambda i: _asks(parts[i]) or (own[i] and not any(own[:i])), below))
    return len("\n\n".join(whole[: len(parts) - len(below[: frame.get("goal_below")])]))


def _is_told(part: str, frame: dict[str, Any]) -> bool:
    """Whether a paragraph in plain words is of a record: a model's closing, told of either, or says that it ends."""
    said, helpers = [folded(piece) for piece in sentences(part)], _shape()["assistants"]
    models = all(map(phrases(*(_MODELS[: -1 if "goal_below" in frame else None])).at_start, said))
    told = any(_tells(words) or _has(f"{' '.join(_plain(words).split()[:2])} ", helpers) for words in said)
    ends = len(part) < _LONG and not _speaks(part) and _names_itself(f"{_plain(part)} ")
    return models or ends or (told and not phrases("polite").at_start(said[-1]))


def _is_formed(above: str, part: str) -> bool:
    """Whether a paragraph begins with a sign, a heading, or a label that hand-overs have; or stands below a heading."""
    first, _, more = part.lstrip("\n\xbf\xa1").partition("\n")
    title = _title(sentences(first)[0]) if first.strip() and "?" not in first else ""
    label = title and (_has(title, _shape()["headings"]) or ((more or title != _plain(first)) and not _speaks(part)))
    labels = [*map(_is_label, part.strip("\n").split("\n"))]
    listed = bare(first) != first or (len(labels) > _PRINTED and 3 * sum(labels) >= 2 * len(labels))
    marked = above.startswith(("#", "**")) or above.rstrip("*_ ").endswith(_COLON)
    below = marked and "\n" not in above.strip() and _is_formed("", above)
    answered = bool(more) and first.endswith("?") and above.partition("\n")[0].endswith("?")
    signed = first[:1] in _SIGNS or not (first[:1].isalnum() or _speaks(part))
    return bool(label or listed or below or answered or signed)


def retold_in(view: View) -> str:
    """What the summaries in a turn say, without the words of the frames around them."""
    return "\n".join(map(_unframed, _summaries(view)))


def doubtful_in(view: View) -> str:
    """What in a turn reads like a summary, in no known frame."""
    if view.origin == "doubtful":
        return view.text
    return "\n".join(text for text in view.inserted if whose_block(text) == "doubtful")


def _summaries(view: View) -> list[str]:
    """The summaries in a turn; all of one that the caller says is a summary."""
    if view.text.startswith(_OURS):
        return []
    if view.origin == "summary":
        return [block.text for block in blocks_of(view) if block.whose == "summary"] or [view.text]
    return [text for text in view.inserted if whose_block(text) == "summary"]


def _unframed(text: str) -> str:
    if not (frame := _frame("summaries", text)):
        return text.strip()
    for words in (*frame.get("until", ()), *frame.get("closes", ())):
        text = text.partition(words)[0] if words in text else text
    body = text.strip().partition("\n")[2].strip() or text.strip()
    return body.rpartition(frame.get("after", "\x00"))[2].removeprefix("<summary>").strip()


@remembered
def _end_of_record(text: str) -> int:
    """Where a text ends that reads like a record of an earlier conversation, in no known frame; 0 where none does.

    It is one tagged block, or all of it: whether a person speaks at its end as well, nobody can tell for sure, unless
    what is said last is about "this".
    """
    if len(text.encode("utf-8", "replace")) < _LONG:
        return 0
    opening = text.lstrip()[:_SHORT]
    tag = f"</{opening[1:].replace('>', ' ').partition(' ')[0]}>"
    stop = text.rfind(tag) + len(tag) if opening[:1] == "<" and tag in text else len(text)
    *_, last = sentences(text[-_SEEN:]) or [""]
    return stop if not _points(folded(last)) and _reads_like_record(text[:stop]) else 0


def _reads_like_record(text: str) -> bool:
    """Whether the words of a text are those of a record, and nobody asks for something where it begins."""
    text = blank_fences(text[:_READ]).strip() or text[:_READ].strip()
    text = text.replace(',"', ',\n"').replace(', "', ',\n"') if text.startswith("{") else text
    first, *others = said = sentences(text) or [""]
    if len(said) > _SEEN or (_is_log(text) and text[:1] != "{"):
        return False
    # Below a heading, what is to be done may be the goal that a record tells.
    opening = [first, *(piece for piece in others[:1] if first[:_LONG].endswith(_ENDS) and not _is_label(piece))]
    questions = [f"{line.rstrip()} ".endswith(_ASKS) for line in text.splitlines()]
    answered = any(questions[:1]) and sum(questions) >= _PRINTED
    asked = any(_uses(piece[:_LONG], "polite") or (_asks(piece[:_LONG]) and not answered) for piece in opening)
    return not (asked or _hands_over(first[:_LONG])) and likeness(text) >= ALIKE


def _hands_over(first: str) -> bool:
    """Whether the first sentence of a text points at what is below it, as people do: "Proofread the following"."""
    points = first.endswith((*_ENDS, *_COLON)) and _has(_plain(first), _shape()["below"])
    return points and likeness(first) < _HANDED and not _names_itself(f"{_plain(first)} ")


def _asks(text: str) -> bool:
    """Whether a sentence of a text asks something, says what is to be done, or is about "this"."""
    shape, begins = _shape(), phrases("tasks", "polite").at_start
    said = [f"{' '.join(piece.replace(',', ' ').split())} " for piece in sentences(folded(text))]
    asks = any(words.endswith(_ASKS) or begins(words) or words.startswith(tuple(shape["asking"])) for words in said)
    return asks or any(_points(words) or _has(words, shape["asked"]) for words in said)


def _uses(text: str, *kinds: str) -> bool:
    return phrases(*kinds).inside(folded(text))


def _speaks(text: str) -> bool:
    """Whether somebody asks for something in a text, says I, or addresses the reader."""
    return _asks(text) or _uses(text, "own", "polite") or _has(f"{_plain(text)} ", _shape()["addressed"])


def _points(words: str) -> bool:
    """Whether a sentence is about a text that stands beside it: "Shorten this"."""
    return _has(" ".join(words.split()[1:2]) or words, _shape()["about"])


def _names_itself(head: str) -> bool:
    """Whether a sentence names two of three: that something is handed on, a summary, a conversation."""
    sure, likely = ([_has(head, words) for words in kinds] for kinds in _shape()["naming"])
    return sum(map(max, sure, likely)) > 1 or sure[0]


def _tells(piece: str) -> bool:
    """Whether a sentence tells what the user said or wants."""
    shape, plain = _shape(), _plain(piece)
    words = plain.replace(",", "").split()
    near = (" ".join(words[i + 1 : i + _WORDS]) for i, word in enumerate(words) if word in shape["user"])
    signs = [word for word in shape["user"] if word > EASTERN]
    return any(_has(behind, shape["told"]) for behind in near) or (_has(plain, signs) and _has(plain, shape["did"]))


def _is_label(line: str) -> bool:
    """Whether a line begins with a sign or a label."""
    first = line.partition(" ")[0]
    return not line[:1].isalpha() or ":" in line[:_SHORT].translate(_LABELS) or (first.isascii() and first.isupper())


def _is_log(text: str) -> bool:
    """Whether a text is what a terminal shows: many of its lines are printed, code, or numbered as those of a file."""
    opens, closes = map(tuple, frames()["terminal"].values())
    lines = [line.strip() for line in blank_fences(text).splitlines() if line.strip()]
    numbered = sum(number.isdigit() and not rest[:1].isdigit() for number, _, rest in (s.partition(":") for s in lines))
    printed = numbered + sum(line.startswith(opens) or line.endswith(closes) for line in lines)
    return printed >= _PRINTED and 6 * printed >= len(lines)


def _title(line: str) -> str:
    """The words of a line that is a heading or begins with a label; "" for any other."""
    label, *more = line.lstrip(_AROUND).translate(_LABELS).split(":", 1)
    alone = not line[:1].islower() and line.rstrip(" )*_\uff09\u3011")[-1:].isalnum()
    marked = more or alone or line.lstrip().startswith(("#", "**", "<", "=", "["))
    return _plain(label) if marked and len(label) < _SHORT else ""


def _plain(text: str) -> str:
    """The words of a text as they are looked for, without what marks a heading."""
    return " ".join(folded(text).translate(_SPACES).strip(_AROUND).split())


def _has(text: str, words: list[str]) -> bool:
    """Whether a word of the text begins as one of these does; signs that are written without spaces stand anywhere."""
    return any((word if word > EASTERN else f" {word}") in f" {text}" for word in words)


def rejection_in(text: str, tool: str) -> tuple[str, str]:
    """The host's frame at the very opening of an error and, behind it, what a person said when rejecting the call."""
    for frame in frames()["rejections"]:
        opens = frame["opens"].replace("{tool}", tool)
        if text.startswith(opens):
            return opens, text[len(opens) :].partition(frame.get("closes") or "\x00")[0].strip()
    return "", ""
