"""What of a message is the person's own words: not the code, quotations, logs and summaries they hold up.

What is not theirs is blanked, never cut: each sentence keeps its place in the message, so that what a rule points at
("always begin with:" and a block of code) can be taken from there byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from unabridged.intent.frames import frames
from unabridged.intent.host_words import blank_foreign
from unabridged.languages import folded, labels, phrases, tables
from unabridged.text_tools import bare, blank_fences, sentences

READ = 60_000
"""Characters of a message that are looked through, at its beginning and its end: what is longer was pasted."""
POINTED = 1_000
"""Characters of a block that a rule points at."""

_QUOTED_LINE = re.compile(rf"^[ \t]*(?:{'|'.join(frames()['quoted_lines'])}).*$", re.MULTILINE)
_PASTED = re.compile("|".join(frames()["pasted"]), re.MULTILINE)
"""Blocks between marks, and the screen of a terminal: a line with its prompt or bullet, and what is indented below."""
QUOTED = re.compile("|".join(frames()["quotations"]))
"""Quotations, of any length; one that is not closed on its line goes on where marks open and close as they should."""
_MORE_THAN_A_NAME = frozenset(" \t(){}<>=;\\")
BLANK = "\ufffc"
"""Stands for each character of a quotation, so that places stay true and no phrase is found in it."""
_SUMMARY = re.compile(r"\[unabridged summary\b.*?(?:\[end of summary\b[^\]\n]{0,60}\]|\Z)", re.DOTALL)
_HEADED = re.compile(r"^## (?P<heading>.*)\n(?P<lines>(?:(?!## |\[end of summary).*\n?)*)", re.MULTILINE)
_TURN = re.compile(r"^- \[\d+\]", re.MULTILINE)
_ITEM = re.compile(r"[ \t]*(?:[-*+>\u2022\u00b7\u2013]|\(?\d{1,3}[.)\u3001])[ \t]+\S")
_INDENT = re.compile(r"(?: {4}|\t)[ \t]*\S")
_INDENTED = re.compile(rf"^(\S.*)(\n\s*?)^(?!{_ITEM.pattern})((?: {{4}}|\t).*(?:\n+(?: {{4}}|\t).*)*)", re.MULTILINE)
"""A line and an indented block below it that is no list."""
_FENCE = re.compile(r"[ \t]*(?P<fence>```+|~~~+)")
_TITLE = re.compile(r"^#{1,4} \S.*$", re.MULTILINE)
_TITLES = 3
"""Headings that make a text a document."""
_COLON = (":", "\uff1a")


class Sentence(NamedTuple):
    """One sentence of a person's."""

    core: str
    """As it was said."""
    plain: str
    """The same with its quotations blanked."""
    bullet: bool
    stop: int
    """Where it ends in the text that was read."""


def read(text: str) -> str:
    """The part of a message that is looked through."""
    return text if len(text) <= READ else f"{text[: READ * 2 // 3]}\n{text[-READ // 3 :]}"


def own_text(text: str) -> str:
    """The text, everything blanked that is not the person's own; as long as it was."""
    said = _SUMMARY.sub(lambda found: _keep_rules(found[0]), text) if "[unabridged summary" in text else text
    said = _QUOTED_LINE.sub(_blank, blank_fences(blank_foreign(said)))
    return _INDENTED.sub(_blank_indented, _blank_document(_PASTED.sub(_blank, said)))


def _blank_document(text: str) -> str:
    """A plan or report that a person hands over, with headings of its own, is no list of what they want always.

    What stands before its first heading is theirs, and what stands below one that announces rules.
    """
    heads = list(_TITLE.finditer(text))
    if len(heads) < _TITLES:
        return text
    parts = [text[: heads[0].start()]]
    for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=True):
        part = text[head.start() : stop]
        parts.append(part if phrases("rule_headings").inside(folded(head[0])) else re.sub(r"[^\n]", " ", part))
    return "".join(parts)


def split_sentences(said: str) -> Iterator[Sentence]:
    """The sentences of what `own_text` returned."""
    own = QUOTED.sub(lambda found: _blank_quotation(found[0]), said)
    stop = 0
    for sentence in sentences(own):
        stop = own.index(sentence, stop) + len(sentence)
        plain = bare(sentence)
        yield Sentence(said[stop - len(plain) : stop], plain, plain != sentence, stop)


def own_sentences(text: str) -> Iterator[Sentence]:
    """The person's own sentences in a message."""
    return split_sentences(own_text(read(text)))


def heads_list(core: str) -> bool:
    """Whether what follows is a list of rules, each a rule of its own."""
    return core.endswith(_COLON) and len(core) < 80 and phrases("rule_headings").inside(folded(core))


def end_of_block(text: str, sentence: Sentence) -> int:
    """Where the block ends that a sentence points at: code, a command, a list; its own end when there is none.

    Byte for byte the person's message, so a block that is too long is left where it is.
    """
    colon = sentence.core.endswith(_COLON)
    rest = text[sentence.stop : sentence.stop + POINTED + 1]
    gap = len(rest) - len(rest.lstrip())
    begin = rest.rfind("\n", 0, gap) + 1
    lines = rest[begin:].splitlines(keepends=True)
    if not begin or not lines:
        return sentence.stop
    if not colon and not (_FENCE.match(lines[0]) and phrases("pointers").inside(folded(sentence.plain))):
        return sentence.stop
    block = _block(lines)
    size = begin + len(block.rstrip())
    return sentence.stop + size if block and size <= POINTED else sentence.stop


def _block(lines: list[str]) -> str:
    if fence := _FENCE.match(lines[0]):
        closing = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == fence["fence"]), -1)
        return "".join(lines[: closing + 1])
    kind = next((kind for kind in (_ITEM, _INDENT) if kind.match(lines[0])), None)
    if kind is None:
        return lines[0]
    return "".join(takewhile(lambda line: not line.strip() or kind.match(line) or line[0] in " \t", lines))


def _blank_quotation(quotation: str) -> str:
    """A quotation blanked; a name in code stays, for it is what a sentence is about."""
    name = quotation[0] == "`" and _MORE_THAN_A_NAME.isdisjoint(quotation)
    return quotation if name else BLANK * len(quotation)


def _blank(found: re.Match[str]) -> str:
    return "\n" * len(found[0])


def _keep_rules(summary: str) -> str:
    """Of a summary turn that nobody knows, only the rules: the person handed it over, and rules are not dropped."""
    kept = ["\n"] * len(summary)
    headings = {labels(code)["rules"] for code in tables()}
    for section in _HEADED.finditer(summary):
        if section["heading"].strip() in headings:
            lines = _TURN.sub(lambda found: "-" + " " * (len(found[0]) - 1), section["lines"])
            kept[section.start("lines") : section.end("lines")] = lines
    return "".join(kept)


def _blank_indented(found: re.Match[str]) -> str:
    """A line and the indented block below it, blanked where the line only leads up to it ("I get this:")."""
    lead, gap, block = found.groups()
    return lead + gap + "\n" * len(block) if _leads_up(lead.strip(), apart=gap.count("\n") > 1) else found[0]


def _leads_up(lead: str, *, apart: bool) -> bool:
    """Whether this line only shows what follows; one that asks for it to be followed does not."""
    asks = bare(lead) != lead or phrases("rule_headings", "introduces").inside(folded(lead))
    return not asks and (lead.endswith(_COLON) or (apart and (lead[-1].isalnum() or lead[-1] == "`")))
