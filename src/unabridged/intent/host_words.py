"""Which parts of a `user` turn the person did not say: what the host put beside their words, and what they hold up.

Found by how it is set off: a tagged block, a labelled context, a forwarded mail. A part is a range of places, so that
the turn itself stays as it is and each word keeps its place in it. Whole blocks of another system's are told by
`frames`, fences, quoted lines and quotations by `person_words`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

from unabridged.intent.frames import frames
from unabridged.languages import folded, phrases, vocabulary
from unabridged.text_cache import remembered
from unabridged.text_tools import find_fences

_TAG = re.compile(r"<([A-Za-z][\w.:-]*)(?: [^<>\n]*)?>")
_ANY_TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]*)")
_TAGS = {kind: frozenset(names.split()) for kind, names in frames()["tags"].items()}
"""Tags by whose they are. `hosts`: only hosts write them. `own`: around what is the person's own. `held_up`: they hold
something up, also where it is the last word of a tag. `wrappers`: a host may also put them around all that they say."""
_LABEL = re.compile(r"^[#* \t]*(?P<words>[^\W\d_][^\n:]{0,80}):", re.MULTILINE)

_GAP = 200
"""Characters behind a label in which what it labels begins."""
_SET_OFF = ("```", "~~~", "<", ">", "    ", "\t", "|", '"', "\u201c", "\u00ab")
_NOTES = re.compile("|".join(frames()["notes"]), re.MULTILINE)
"""Single lines of a host's."""


class Part(NamedTuple):
    """A range of a turn that the person did not say; `shown`: they, or the host for them, hold it up to be read."""

    start: int
    stop: int
    shown: bool


@remembered
def foreign_parts(text: str) -> tuple[Part, ...]:
    """The parts of a turn that are not the person's, in order and apart."""
    found = sorted([*_tagged(text), *_labelled(text), *_open_ended(text)])
    apart: list[Part] = []
    for part in found:
        last = apart.pop() if apart and part.start < apart[-1].stop else part
        apart.append(Part(last.start, max(last.stop, part.stop), shown=last.shown or part.shown))
    return tuple(apart)


def _with_own(text: str) -> Iterator[tuple[str, Part]]:
    """The parts, each with the person's words before it; last an empty one with their words at the end."""
    place = 0
    for part in (*foreign_parts(text), Part(len(text), len(text), shown=False)):
        yield text[place : part.start], part
        place = part.stop


def blank_foreign(text: str) -> str:
    """The turn as long as it was, with line breaks for all that is not the person's."""
    return "".join(own + "\n" * (part.stop - part.start) for own, part in _with_own(text))


@remembered
def own_words(text: str) -> str:
    """The person's words in a turn without the host's; "[…]" where something is shown. All of it when nothing else is.

    What they quote or paste in so many words stays: it is what they speak of.
    """
    if not foreign_parts(text) or not blank_foreign(text).strip():
        return text
    pieces = ((own.strip(), "[\u2026]" if part.shown else "") for own, part in _with_own(text))
    return "\n".join(filter(None, chain(*pieces)))


@remembered
def is_hosts(text: str) -> bool:
    """Whether nothing in a turn is a person's, and nothing in it is shown on their behalf."""
    parts = foreign_parts(text)
    return bool(parts) and not any(part.shown for part in parts) and not blank_foreign(text).strip()


def _tagged(text: str) -> Iterator[Part]:
    """Tagged blocks, outermost only; around what is the person's own, the tags. A host's never closed goes to the end.

    A tag that stands in a fence is code.
    """
    if "<" not in text:
        return
    closings, fences, stop, local = _closings(text), deque(find_fences(text)), 0, False
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    for opening in _TAG.finditer(text):
        name, start, body = opening[1].lower(), opening.start(), opening.end()
        while fences and (fences[0][1] <= start or fences[0][0] < stop):
            fences.popleft()
        if start < stop or (fences and fences[0][0] <= start):
            continue
        close = closings[start]
        end = text.find(">", close) + 1 or len(text) if close >= 0 else len(text)
        local = _runs_locally(text, text[body:close].strip()) if name == "command-name" else local
        hosts = name in _TAGS["hosts"] or name.startswith("local-command-") or (local and name.startswith("command-"))
        alone = name in _TAGS["wrappers"] and start <= first and end >= last
        if close < 0 and not hosts:
            continue
        if name in _TAGS["own"] and not hosts:
            yield from (Part(start, body, shown=False), Part(close, end, shown=False))
        elif hosts or ((text.find("\n", body, close) >= 0 or _holds_up(name)) and not alone):
            yield Part(start, end, shown=not hosts)
            stop = end


def _runs_locally(text: str, command: str) -> bool:
    """Whether the host carries a command out itself and asks nothing of the model: `/exit`."""
    alone = "<local-command-stdout>" in text and text.count("<command-name>") == 1
    return alone or command in frames()["local_commands"].split()


def _closings(text: str) -> dict[int, int]:
    """Where each opening tag is closed, by where it stands; -1 for one that never is.

    At the last closing tag before the next block of its name: what is pasted may hold one, to speak after it.
    """
    found: dict[int, int] = {}
    last: dict[str, int] = {}
    opened: set[str] = set()
    for tag in reversed(list(_ANY_TAG.finditer(text))):
        name = tag[2].lower()
        if not tag[1]:
            found[tag.start()] = last.get(name, -1)
            opened.add(name)
        elif name in opened or name not in last:
            last[name] = tag.start()
            opened.discard(name)
    return found


def _holds_up(name: str) -> bool:
    """Whether the tag says that it holds something up: `file`, `error_logs`."""
    word = name.replace("_", "-").replace(".", "-").replace(":", "-").rpartition("-")[2]
    return not _TAGS["held_up"].isdisjoint({word, word.removesuffix("s")})


def _labelled(text: str) -> Iterator[Part]:
    """What stands under "Context:" and the like, up to the last "Question:"; a label in a line of words is no such.

    And what stands below "Here is the content of a.md:" where nothing sets it off, to the end.
    """
    lines = [(line.span(), folded(line["words"])) for line in _LABEL.finditer(text)]
    asked = max((start for (start, _), words in lines if _is_label(words, "question_labels")), default=-1)
    for (start, stop), words in lines:
        gap = text[stop : stop + _GAP]
        begin = text.rfind("\n", stop, stop + len(gap) - len(gap.lstrip(" *\n"))) + 1  # 0: more words on its line
        if _is_label(words, "context_labels") and (begin or asked >= 0):
            blank = text.find("\n\n", begin) if asked < 0 else -1
            yield Part(start, asked if asked > start else blank if blank >= 0 else len(text), shown=True)
            return
        shows = begin and phrases("shows").at_start(words) and phrases("shown").inside(words)
        if shows and not text.startswith(_SET_OFF, begin):
            yield Part(begin, len(text), shown=True)
            return


def _is_label(words: str, kind: str) -> bool:
    """Whether the words of a label are of this kind, with little else in them."""
    reach = phrases(kind).at_start(words)
    return reach > 0 and len(words) - reach <= 40


def _open_ended(text: str) -> Iterator[Part]:
    """What goes on to the end of the turn: a forwarded mail, a file shown without any marks around it.

    A skill's text, which ends where the host speaks again, and single lines of the host's.
    """
    stop = 0
    for below in _to_the_end().finditer(text):
        if below.start() >= stop:
            shown = not below[0].startswith("Base directory")
            ends = [] if shown else [text.find(f"\n{words}", below.end()) for words in frames()["after_a_skill"]]
            stop = min((end for end in ends if end >= 0), default=len(text))
            yield Part(below.start(), stop, shown=shown)
    yield from (Part(note.start(), note.end(), shown=False) for note in _NOTES.finditer(text))


@cache
def _to_the_end() -> re.Pattern[str]:
    """Lines below which all is somebody else's: a forwarded mail, the lines that a mail begins with, a skill."""
    titles = "|".join(map(re.escape, sorted(vocabulary("forwarded"))))
    below = "|".join(frames()["to_the_end"])
    return re.compile(rf"^(?:-{{2,}} ?(?:{titles}) ?-{{2,}}|{below})", re.MULTILINE | re.IGNORECASE)
