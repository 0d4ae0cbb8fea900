"""The sentences of a message that are a person's own: none from a fence, a quotation, a tagged block or a host's frame.

What is not theirs is blanked, never cut, so that each sentence keeps its place in the message.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from unabridged.authorship.frames import FRAME_TABLE
from unabridged.authorship.host_words import TextRange, blank_out_ranges, find_closed_blocks, find_host_ranges
from unabridged.text_tools import blank_fences, find_fences, remove_bullet, split_sentences

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
