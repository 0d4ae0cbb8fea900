"""Which blocks of a `user` turn another system wrote: its summary of what was said before, or a text of the host's.

How known systems open and close such texts is data (`frames.json`). A summary of an unknown system is told by one rule:
it speaks of a conversation as of something past and of its user as of somebody else, and nobody speaks in it.
Whatever stands in a block of its own, before a frame or behind its end is still the person's, and so is, in doubt, what
does not have the form of the record above it.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import chain, pairwise, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unabridged.languages import folded, phrases
from unabridged.messages import View
from unabridged.text_cache import remembered
from unabridged.text_tools import bare, blank_fences, sentences

_OURS = "[unabridged "
_LONG, _READ, _MORE = 200, 20_000, 3_000
"""Characters from which on a text may be the summary of an unknown system; that are looked through for its signs; for
which it needs one sign more."""
_EASTERN = "\u2e7f"
"""Scripts above this sign write without spaces."""
_SET_OFF, _CLOSES = frozenset('\n"\u201c\u201e\u00ab\u300c'), frozenset('"\u201d\u201c\u00bb\u300d')
_COLON, _ASKS = (":", "\uff1a"), ("? ", "\uff1f ")
_MODELS = ("promise", "acts_next", "reported", "offer", "courtesy", "onward")
"""How a model speaks of itself, and how a system that hands over ends."""
_SHORT, _WORDS = 48, 5
"""Characters of a line that may be a heading though nothing marks it; words of a label are fewer."""
_CORE = {"asked", "done", "left"}
_TOLD, _ENOUGH, _PRINTED = 3, 3, 3
"""Sentences about the user that count; points that are enough; lines as a terminal shows them that make a text a log,
if they are a sixth of it."""
_PARTS, _SEEN = 40, 1_000
"""Paragraphs at the end of a text that are looked at to tell where it ends, and characters of each."""
_LABELS, _SPACES = str.maketrans("=|>?*\uff1a", "::::::"), str.maketrans("_-.\":<>'\u2019", 9 * " ")
_AROUND = "\u30fb\u25cf\u25a0\u00b7\u3010\u3011#*=-_<>/[](){}\"'`|:.,\u2022\u2013\u2014 \t0123456789"


class Block(NamedTuple):
    """A stretch of a turn and who wrote it."""

    whose: Literal["person", "summary", "host"]
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
    if _frame("host_texts", text):
        return (Block("host", text),)
    long = len(text.encode("utf-8", "replace")) >= _LONG
    stop = _end_of_frame(text) or (_end_of_hand_over(text) if long else 0)
    if not stop:
        return (Block("person", text),) if text.strip() else ()
    return (Block("summary", text[:stop]), *_divide(text[stop:]))


def is_summary(text: str) -> bool:
    """Whether a block that was set apart is a summary."""
    return any(block.whose == "summary" for block in _divide(text))


def _end_of_frame(text: str) -> int:
    """Where a summary ends that opens a block in a known frame; 0 where there is none.

    At the last of its closing words, for what it retells may have those too; where it has none, where its form ends.
    """
    frame = _frame("summaries", text)
    if not frame or ("\n" not in text.strip() and (frame["opens"][0] == "<" or _asks(text))):  # a line about the frame
        return 0
    places = (text.rfind(words) + len(words) for words in frame.get("closes", ()) if words in text)
    return max(places, default=len(text) if "whole_turn" in frame else _end_of_form(text, frame))


def _end_of_form(text: str, frame: dict[str, Any]) -> int:
    """Where a record ends: what stands in plain words below its headings, labels, lists and tags is a person's.

    Where it is in plain words itself, only who asks below it, or speaks of themselves as nobody does above.
    """
    whole = text.rstrip().rsplit("\n\n", _PARTS)
    parts = [part[:_SEEN] for part in whole]
    title, _, first = parts[0].partition("\n")
    formed = [_is_formed("", first or title), *(_is_formed(*pair) for pair in pairwise(parts))]
    upward = range(len(parts) - 1, 0, -1)
    below = list(takewhile(lambda i: not (formed[i] or _is_told(parts[i - 1], parts[i], frame)), upward))
    above = formed[bool(frame) or ("\n" not in parts[0].strip() and len(parts[0]) < _LONG) : len(parts) - len(below)]
    if "alone" in frame or (2 * sum(above) <= len(above) and "goal_below" not in frame):
        own = [_uses(part, "own") and not (formed[i] or _title(part.partition(".")[0])) for i, part in enumerate(parts)]
        asks = [_asks(part) or _uses(part, "polite") for part in parts]
        below = list(takewhile(lambda i: asks[i] or (own[i] and not any(own[:i])), below))
    below = below[: frame.get("goal_below")]
    return len(text.rstrip()) - sum(len(whole[i]) + 2 for i in below)


def _is_told(above: str, part: str, frame: dict[str, Any]) -> bool:
    """Whether a paragraph in plain words is of a record: below its opening, a model's closing, or told of either."""
    opened = "\n" not in above and above.endswith((*_COLON, ">", "]")) and _frame("summaries", above)
    said = [folded(piece) for piece in sentences(part)]
    models = all(map(phrases(*(_MODELS[: -1 if "goal_below" in frame else None])).at_start, said))
    assistants = any(_has(" ".join(_plain(words).split()[:2]), _shape()["assistants"]) for words in said)
    told = (assistants or any(map(_tells, said))) and not phrases("polite").at_start(said[-1])
    ends = len(part) < _SHORT and not _asks(part) and _naming([f"{_plain(part)} "])
    closing = f"\n{part}".startswith(tuple(frame.get("until", "\0")))
    return models or told or closing or bool(ends or opened or _frame("summaries", part))


def _is_formed(above: str, part: str) -> bool:
    """Whether a paragraph begins with a sign, a heading, or a label that hand-overs have; or stands below a heading."""
    first, _, more = part.lstrip("\n\xbf\xa1").partition("\n")
    title = _title(sentences(first)[0]) if first.strip() and "?" not in first else ""
    label = _kinds({title}) or (more and not more[0].islower() and title and title == _plain(first))
    labels = [*map(_is_label, part.strip("\n").split("\n"))]
    listed = bare(first) != first or (len(labels) > _PRINTED and 3 * sum(labels) >= 2 * len(labels))
    marked = above.startswith(("#", "**")) or above.rstrip("*_ ").endswith(_COLON)
    below = marked and "\n" not in above.strip() and _is_formed("", above)
    answered = bool(more) and first.endswith("?") and above.partition("\n")[0].endswith("?")
    return bool(label or listed or below or answered) or not first[:1].isalnum()


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
    above, closing, behind = text.rpartition(_closing(text))
    closed = closing and _people("user").isdisjoint(behind.split())
    stop = len(above + closing) if closed else _end_of_form(text, {})
    last = text.rstrip().rpartition("\n\n")[2]
    below = [folded(piece) for piece in sentences(text[stop:][:_SEEN])]
    about = any(_points(words) or not _people("user").isdisjoint(words.split()) for words in below)
    asks = not below and not _is_formed("", last[:_SEEN]) and _asks(sentences(last[-_SEEN:])[-1])
    return stop if not (about or asks) and _is_hand_over(text[:stop]) else 0


def _asks(text: str) -> bool:
    """Whether a sentence of a text asks something, says what is to be done, or is about "this"."""
    shape, begins = _shape(), phrases("tasks", "polite").at_start
    said = [f"{' '.join(piece.replace(',', ' ').split())} " for piece in sentences(folded(text))]
    asks = any(words.endswith(_ASKS) or begins(words) or words.startswith(tuple(shape["asking"])) for words in said)
    return asks or any(_points(words) or _has(words, shape["asked"]) for words in said)


def _uses(text: str, *kinds: str) -> bool:
    return phrases(*kinds).inside(folded(text))


def _points(words: str) -> bool:
    """Whether a sentence is about a text that stands beside it: "Shorten this"."""
    return _has(" ".join(words.split()[1:2]) or words, _shape()["about"])


def _is_hand_over(text: str) -> bool:
    """Whether a text tells of a conversation and its user as of somebody else, and nobody speaks in it for themselves.

    It calls itself the record of a conversation, tells what the user said or wants, has headings of what was asked,
    done and left, or lists what was said, word for word. Each way in which a person is heard in it counts against it.
    """
    shape, text = _shape(), text[:_READ].strip()
    pieces = sentences(text.replace(',"', ',\n"').replace(', "', ',\n"') if text[:1] == "{" else text) or [""]
    heads = [f"{_plain(piece[:_LONG])} " for piece in (*pieces[:4], *pieces[-1:])]
    opening, ends = pieces[0][:_LONG], [*heads, *map(_plain, pieces[-4:])]
    selves = any(_has(words, shape["selves"]) for words in ends)
    others = selves or _has(heads[0], shape["given"] + shape["given_you"])
    speaks = _asks(opening) or (not others and _uses(opening, "own", "polite"))
    if speaks or len(pieces) > _SEEN or _is_log(text):
        return False
    titles = {title for piece in pieces if (title := _title(piece))}
    kinds, named = _kinds(titles), 0 if _has(heads[0], shape["gatherings"]) else _naming(heads)
    core, told = len(kinds & _CORE), [*filter(_tells, pieces)]
    if named or told or selves or (core and not _people("user").isdisjoint(_plain(text).split())):
        told = [piece for piece in pieces if _tells(piece, "roles")]
    selves = selves and bool(told)  # people have a memory, too
    more = len(text) // _MORE
    signs = named + min(len(told), _TOLD + more) + min(core, 2) + bool(named and _is_one(text))
    speakers = sum("said" in _kinds({title}) for title in titles)
    quoted = speakers == 1 and sum(line.rstrip(" \t.,;|")[-1:] in _CLOSES for line in text.splitlines()) > 1
    known = any(len(titles.intersection(names)) >= len(names) - 1 for names in shape["templates"])
    return signs + 2 * (selves + quoted + known * (1 + more)) >= _ENOUGH + more + (not selves and _voices(text, told))


def _naming(heads: list[str]) -> int:
    """How surely a text calls itself the record of a conversation, at its beginning or end: 2, 1 or 0.

    A sentence names two of three: that something is handed on, that it is a summary, that there was a conversation.
    """
    sure, likely = ([[_has(head, words) for words in kinds] for head in heads] for kinds in _shape()["naming"])
    pairs = (1 + any(some) for some, more in zip(sure, likely, strict=True) if sum(map(max, some, more)) > 1)
    return max(0, *pairs, *(some[0] for some in sure))


def _tells(piece: str, *who: str) -> bool:
    """Whether a sentence tells what the user said or wants, or a label names them; not what is so if they do it."""
    shape, plain, title, people = _shape(), _plain(piece), _title(piece), _people("user", *who)
    words, signs = plain.replace(",", "").split(), [word for word in people if word > _EASTERN]
    near = " ".join(" ".join(words[i + 1 : i + 4]) for i, word in enumerate(words) if word in people)
    did = _has(near, shape["told"]) or (_has(plain, signs) and _has(plain, shape["did"]))
    given = _has(plain, shape["given"] + shape["given_you"])
    label = len(title.split()) < _WORDS and (_has(title, signs) or not _people("user").isdisjoint(title.split()))
    return (did or given or label) and not plain.startswith(tuple(shape["if"]))


def _voices(text: str, told: list[str]) -> int:
    """How much a person is heard in a text: 1 for who says I or you, 3 for who does so or gives orders at its end.

    Nobody is, where the one who says I, or to whom you is said, was asked by somebody else, and asks for nothing.
    """
    said = [(line, piece) for line in text.splitlines() for piece in sentences(line) if _SET_OFF.isdisjoint(piece)]
    plain = [piece for line, piece in said if piece not in told and not _is_label(line)]
    own = [piece for _, piece in said if _uses(piece, "own")]
    to = [piece for piece in plain if _uses(piece, "polite") or _has(f"{_plain(piece)} ", _shape()["addressed"])]
    given = [_has(_plain(" ".join(told)), _shape()[kind]) for kind in ("given", "given_you")]
    if ((given[0] and not to) or (given[1] and not own)) and not any(map(_asks, plain)):
        return 0
    line, end = said[-1] if said else ("", "")
    return 3 if (end in plain or not line.startswith(end)) and (end in own + to or _asks(end)) else bool(own or to)


def _is_label(line: str) -> bool:
    """Whether a line begins with a sign or a label."""
    first = line.partition(" ")[0]
    return not line[:1].isalpha() or ":" in line[:_SHORT].translate(_LABELS) or (first.isascii() and first.isupper())


def _is_log(text: str) -> bool:
    """Whether a text is what a terminal shows: many of its lines are printed or code, and it is no single object."""
    opens, closes = map(tuple, frames()["terminal"].values())
    lines = [line.strip() for line in blank_fences(text).splitlines() if line.strip()]
    printed = sum(line.startswith(opens) or line.endswith(closes) for line in lines)
    return printed >= _PRINTED and 6 * printed >= len(lines) and not _is_one(text)


def _kinds(titles: set[str]) -> set[str]:
    """Of which kinds of headings that hand-overs have these are."""
    return {kind for kind, words in _shape()["headings"].items() if any(_has(title, words) for title in titles)}


def _is_one(text: str) -> bool:
    """Whether a text is one object, or one tag and what it holds."""
    return text[0] + text[-1] == "{}" or text.endswith(_closing(text))


def _closing(text: str) -> str:
    """What closes the tag that a text opens with."""
    name = text[1:_SHORT].replace(">", " ").partition(" ")[0]
    return f"</{name}>" if text[:1] == "<" else "\0"


@cache
def _people(*roles: str) -> frozenset[str]:
    """What those in these roles are called by somebody else."""
    return frozenset(chain.from_iterable(_shape()[role] for role in roles))


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
    return any((word if word > _EASTERN else f" {word}") in f" {text}" for word in words)


def rejection_in(text: str, tool: str) -> tuple[str, str]:
    """The host's frame at the very opening of an error and, behind it, what a person said when rejecting the call."""
    for frame in frames()["rejections"]:
        opens = frame["opens"].replace("{tool}", tool)
        if text.startswith(opens):
            return opens, text[len(opens) :].partition(frame.get("closes") or "\x00")[0].strip()
    return "", ""
