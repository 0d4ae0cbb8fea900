"""Which parts of a `user` turn are the person's own: what a host put beside their words, and their own sentences.

A host's part is told by its exact tags and lines. Parts are ranges of places, and what is not the person's is blanked,
never cut, so that each word and each sentence keeps its place in the turn.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from unabridged.authorship.frames import FRAME_TABLE
from unabridged.text_cache import cache_by_text
from unabridged.text_tools import blank_fences, find_fences, remove_bullet, split_sentences

_TAG_PATTERN = re.compile(r"(?<!`)<([A-Za-z][\w.:-]*)(?: [^<>\n]*)?>")
_ANY_TAG_PATTERN = re.compile(r"<(/?)([A-Za-z][\w.:-]*)")
_HOST_TAGS, _OWN_TAGS = (frozenset(FRAME_TABLE["tags"][kind].split()) for kind in ("hosts", "own"))
"""Tags that only hosts write; tags that a host puts around what the person says."""
_HOST_LINE_PATTERN = re.compile(rf"^(?:{'|'.join(map(re.escape, FRAME_TABLE['host_lines']))})[^\n]*", re.MULTILINE)
_HOST_BLOCK_PATTERNS = [
    [re.compile(f"^(?:{'|'.join(map(re.escape, words))})", re.MULTILINE) for words in ([host["opens"]], host["until"])]
    for host in FRAME_TABLE["blocks"]
]
"""How a host's blocks open, and with which words it, or the person, speaks again."""
_LOCAL_COMMANDS = frozenset(FRAME_TABLE["local_commands"].split())
_MAX_INDENT = 40
"""Blanks that may stand before a tag which opens a line."""

TextRange = tuple[int, int]
"""The start and the end of a stretch of a turn."""


@cache_by_text
def find_host_ranges(text: str) -> tuple[TextRange, ...]:
    """Return the ranges of a turn that the host wrote, in order and without overlaps."""
    lines = [found.span() for found in _HOST_LINE_PATTERN.finditer(text)]
    apart: list[TextRange] = []
    for start, stop in sorted([*_find_tagged_ranges(text), *_find_untagged_ranges(text), *lines]):
        if apart and start < apart[-1][1]:
            apart[-1] = apart[-1][0], max(apart[-1][1], stop)
        else:
            apart.append((start, stop))
    return tuple(apart)


def blank_out_ranges(text: str, parts: Iterable[TextRange]) -> str:
    """Return the text with these ranges, which are in order, replaced by line breaks: its length does not change."""
    pieces, place = list[str](), 0
    for start, stop in parts:
        pieces += [text[place:start], "\n" * (stop - start)]
        place = stop
    return "".join([*pieces, text[place:]])


@cache_by_text
def remove_host_words(text: str) -> str:
    """Return a turn without what the host put beside the person's words; all of it where nothing would be left."""
    pieces, place = list[str](), 0
    for start, stop in (*find_host_ranges(text), (len(text), len(text))):
        pieces.append(text[place:start].strip())
        place = stop
    return text if len(pieces) == 1 else "\n".join(filter(None, pieces)) or text


def is_host_text(text: str) -> bool:
    """Return whether the host wrote all of a turn."""
    return bool(find_host_ranges(text)) and not blank_out_ranges(text, find_host_ranges(text)).strip()


def _find_tagged_ranges(text: str) -> Iterator[TextRange]:
    """Yield tagged blocks of the host's, outermost only, and the tags around what is the person's own.

    A block that opens a line and is never closed goes to the end. A tag that stands in a fence or in code is no block.
    """
    if "<" not in text:
        return
    closings, fences, end_of_last, local = _match_closing_tags(text), deque(find_fences(text)), 0, False
    alone = "<local-command-stdout>" in text and text.count("<command-name>") == 1
    for opening in _TAG_PATTERN.finditer(text):
        name, start, body = opening[1].lower(), opening.start(), opening.end()
        while fences and (fences[0][1] <= start or fences[0][0] < end_of_last):
            fences.popleft()
        if start < end_of_last or (fences and fences[0][0] <= start):
            continue
        close = closings[start]
        stop = text.find(">", close) + 1 or len(text) if close >= 0 else len(text)
        if name == "command-name":  # `/exit`: the host carries it out itself and asks nothing of the model
            local = alone or text[body:close].strip() in _LOCAL_COMMANDS
        hosts = name in _HOST_TAGS or name.startswith("local-command-") or (local and name.startswith("command-"))
        opens_line = text[max(end_of_last, start - _MAX_INDENT) : start].rstrip(" \t")[-1:] in {"", "\n"}
        if hosts and (close >= 0 or opens_line):
            yield start, stop
            end_of_last = stop
        elif name in _OWN_TAGS and close >= 0:
            yield from ((start, body), (close, stop))


def find_closed_blocks(text: str) -> Iterator[TextRange]:
    """Yield the outermost tagged blocks of a text that are closed, whatever their tags."""
    end_of_last = 0
    closings = _match_closing_tags(text) if "<" in text else {}
    for start in sorted(closings):
        if start >= end_of_last and closings[start] >= 0:
            end_of_last = text.find(">", closings[start]) + 1 or len(text)
            yield start, end_of_last


def _match_closing_tags(text: str) -> dict[int, int]:
    """Return where each opening tag is closed, by its place; -1 for one that never is.

    It is closed by the last closing tag before the next block of its name: what is pasted may hold one itself.
    """
    found, last = dict[int, int](), dict[str, int]()
    opened: set[str] = set()
    for tag in reversed(list(_ANY_TAG_PATTERN.finditer(text))):
        name = tag[2].lower()
        if not tag[1]:
            found[tag.start()] = last.get(name, -1)
            opened.add(name)
        elif name in opened or name not in last:
            last[name] = tag.start()
            opened.discard(name)
    return found


def _find_untagged_ranges(text: str) -> Iterator[TextRange]:
    """Yield the blocks of a host that have no tags, each down to where somebody speaks again or the turn ends."""
    for opens, speaks in _HOST_BLOCK_PATTERNS:
        stop = 0
        for opening in opens.finditer(text):
            if opening.start() >= stop:
                again = speaks.search(text, opening.end())
                stop = again.start() if again else len(text)
                yield opening.start(), stop


# -- a person's own sentences -----------------------------------------------------------------------------------------
#
# None is from a fence, a quotation, a tagged block or a host's frame.

MAX_CHARACTERS = 60_000
"""Characters of a message that are read, at its beginning and its end: what is longer was pasted."""
BLANK_CHARACTER = "\ufffc"
"""Stands for each character of a quotation, so that places stay true."""

_QUOTED_LINE_PATTERN = re.compile(r"^[ \t]*[>|].*$", re.MULTILINE)
_QUOTING_PATTERN = re.compile("|".join(FRAME_TABLE["held_up"]), re.MULTILINE)
_QUOTATION_PATTERN = re.compile(
    r"\"\"\"(?:[^\"]|\"\"?(?!\"))*+\"\"\"|'''(?:[^']|''?(?!'))*+'''"
    r"|\"[^\"\n]*\"|(?<![\w\"])\"(?=\S)[^\"]*(?<=\S)\"(?![\w\"])|\u201c[^\u201c\u201d]*\u201d"
    r"|\u201e[^\u201c\u201d\u201e]*[\u201c\u201d]|«[^«»]*»|[\u300c\u300e][^\u300c-\u300f]*[\u300d\u300f]"
    r"|(?<![\w'])'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w)){2,4000}'(?![\w'])"
    r"|\u2018(?:[^\u2018\u2019\n]|\u2019(?=\w)){2,4000}\u2019|`[^`\n]+`"
)
_CHARACTERS_NOT_IN_NAMES = frozenset(" \t(){}<>=;\\")


class OwnSentence(NamedTuple):
    """One sentence of a person's."""

    core: str
    """As it was said."""
    without_quotations: str
    """The same with its quotations blanked."""


def find_own_sentences(text: str) -> Iterator[OwnSentence]:
    """Yield the person's own sentences in a message."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS * 2 // 3]}\n{text[-MAX_CHARACTERS // 3 :]}"
    if text.startswith("[unabridged summary"):
        return
    said = blank_out_ranges(text, find_host_ranges(text))
    said = blank_fences(blank_out_ranges(said, _find_blocks_outside_fences(said)))
    for pattern in (_QUOTED_LINE_PATTERN, _QUOTING_PATTERN):
        said = pattern.sub(lambda found: "\n" * len(found[0]), said)
    said = blank_out_ranges(said, find_closed_blocks(said))
    own = _QUOTATION_PATTERN.sub(lambda found: _blank_quotation(found[0]), said)
    stop = 0
    for sentence in split_sentences(own):
        stop = own.index(sentence, stop) + len(sentence)
        plain = remove_bullet(sentence)
        yield OwnSentence(said[stop - len(plain) : stop], plain)


def _find_blocks_outside_fences(text: str) -> Iterator[TextRange]:
    """Yield the tagged blocks that open outside a code fence."""
    fences = find_fences(text)
    for block in find_closed_blocks(text) if fences else ():
        before = bisect_right(fences, block) - 1
        if before < 0 or fences[before][1] <= block[0]:
            yield block


def _blank_quotation(quotation: str) -> str:
    """Return a quotation blanked; a name in code stays, for it is what a sentence is about."""
    is_name = quotation[0] == "`" and _CHARACTERS_NOT_IN_NAMES.isdisjoint(quotation)
    return quotation if is_name else BLANK_CHARACTER * len(quotation)
