"""Known frames of hosts: how their summaries, notes, rejections and exit codes begin and end (`frames.json`)."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unabridged.messages import View
from unabridged.text_cache import cache_by_text
from unabridged.text_tools import parse_json

_OWN_FRAME_START = "[unabridged "
_MAX_JSON_CHARACTERS = 20_000
"""Characters of a result that is parsed for an exit code."""
_BLANKS_PATTERN = re.compile(r"\s+")
_OPENING_TAG_PATTERN = re.compile(r"\s*<([\w.:-]{1,60})[^<>\n]{0,200}>")

FRAME_TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("frames.json").read_text(encoding="utf-8"))
"""What is known of hosts: how their texts open and end, their tags and lines, and the forms of actions."""
_EXIT_CODE_PATTERNS = [re.compile(pattern, re.MULTILINE) for pattern in FRAME_TABLE["exit_codes"]]


class TurnBlock(NamedTuple):
    """A stretch of a turn and who wrote it."""

    author: Literal["person", "summary", "host"]
    text: str


def split_turn_by_author(view: View) -> list[TurnBlock]:
    """Return the text of a turn in blocks, by who wrote them."""
    text, found = view.text, list[TurnBlock]()
    if text.startswith(_OWN_FRAME_START):
        return [TurnBlock("person", text)]  # a summary of ours only if the archive knows it
    for start, stop in pairwise([0, *view.block_starts, len(text) + 1]):
        whole = "whole_turn" in _find_summary_frame(text[start:stop])
        found += _split_text_by_author(text[start : None if whole else stop - 1])
        if whole:
            break
    return found


@cache_by_text
def _split_text_by_author(text: str) -> tuple[TurnBlock, ...]:
    """Return one block of a turn, split where a known frame begins and ends, with the author of each part."""
    found = list[TurnBlock]()
    while text.strip():
        if any(text.lstrip().startswith(frame["opens"]) for frame in FRAME_TABLE["host_texts"]):
            return (*found, TurnBlock("host", text))
        lead = _find_end_of_host_tags(text)
        stop = _find_end_of_summary(text[lead:])
        if not stop:
            return (*found, TurnBlock("person", text))
        found += [TurnBlock("person", text[:lead])] * bool(lead) + [TurnBlock("summary", text[lead : lead + stop])]
        text = text[lead + stop :]
    return tuple(found)


def _find_end_of_host_tags(text: str) -> int:
    """Return where the host's tagged blocks end that a text opens with; 0 without one."""
    names, stop = FRAME_TABLE["tags"]["hosts"].split(), 0
    while not _find_summary_frame(text, stop):
        opening = _OPENING_TAG_PATTERN.match(text, stop)
        if opening is None or opening[1].lower() not in names:
            break
        closing = text.find(f"</{opening[1]}>", stop)
        stop = closing + len(opening[1]) + 3 if closing >= 0 else len(text)
    return stop and len(text) - len(text[stop:].lstrip())


def _find_summary_frame(text: str, start: int = 0) -> dict[str, Any]:
    """Return the frame of a summary that a text opens with, from `start` on; an empty one where there is none."""
    if blanks := _BLANKS_PATTERN.match(text, start):
        start = blanks.end()
    frames = FRAME_TABLE["summaries"]
    return next((dict(frame) for frame in frames if text.startswith(frame["opens"], start)), {})


def _find_end_of_summary(text: str) -> int:
    """Return where the summary ends that a text opens with in a known frame; 0 without one.

    It ends at the last of its closing words, for what it retells may hold those too; where it has none, with the text.
    """
    frame = _find_summary_frame(text)
    if not frame or "\n" not in text.strip():  # a line that only names the frame
        return 0
    ends = [text.rfind(words) + len(words) for words in frame.get("closes", ()) if words in text]
    if ends or "last_paragraph" not in frame:
        return max(ends, default=len(text))
    return len(text.rstrip().rpartition("\n\n")[0]) or len(text)


def find_block_author(text: str) -> str:
    """Return who wrote a block that was set apart."""
    return next((block.author for block in _split_text_by_author(text) if block.author != "person"), "person")


def find_other_summary(view: View) -> str:
    """Return what another system's summaries in a turn say, without the words of their frames."""
    if view.text.startswith(_OWN_FRAME_START):
        return ""
    if view.origin == "summary":
        found = [block.text for block in split_turn_by_author(view) if block.author == "summary"] or [view.text]
    else:
        found = [text for text in view.inserted if find_block_author(text) == "summary"]
    return "\n".join(map(_remove_summary_frame, found))


def _remove_summary_frame(text: str) -> str:
    if not (frame := _find_summary_frame(text)):
        return text.strip()
    for words in (*frame.get("until", ()), *frame.get("closes", ())):
        text = text.partition(words)[0] if words in text else text
    body = text.strip().partition("\n")[2].strip() or text.strip()
    return body.rpartition(frame.get("after", "\x00"))[2].removeprefix("<summary>").strip()


def find_rejection(text: str, tool: str) -> tuple[str, str]:
    """Return the host's frame at the very opening of an error and, behind it, what a person said who rejected it."""
    for frame in FRAME_TABLE["rejections"]:
        opens = frame["opens"].replace("{tool}", tool)
        if text.startswith(opens):
            return opens, text[len(opens) :].partition(frame.get("closes") or "\x00")[0].strip()
    return "", ""


@cache_by_text
def find_exit_code(text: str) -> int | None:
    """Return the exit code that a known host's frame or a JSON field of a result states; None without one."""
    edges = text if len(text) <= 2_000 else f"{text[:1_000]}\n{text[-1_000:]}"
    for pattern in _EXIT_CODE_PATTERNS:
        if found := pattern.search(edges):
            return int(found[1])
    is_record = text.startswith("{") and len(text) <= _MAX_JSON_CHARACTERS
    value = parse_json(text, {}) if is_record else {}
    inner = value.get("metadata")
    fields = {**(inner if isinstance(inner, dict) else {}), **value}
    codes = (fields.get(key) for key in ("exit_code", "exitCode", "exit_status", "returncode", "return_code"))
    return next((code for code in codes if isinstance(code, int) and not isinstance(code, bool)), None)
