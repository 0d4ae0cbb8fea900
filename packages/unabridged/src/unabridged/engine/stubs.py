"""Build stubs: the one line that replaces the bulk of a tool result, an argument or an image.

A stub keeps what the agent most likely needs of it: which tool, on what, how much there was, how it went, the names
that stand nowhere else any more, and where the whole is, when there is a way to follow a reference. The same input
always gives the same stub.

    [Tool result cleared: bash "pytest tests/test_io.py"; 214 lines, 9,120 characters; exit 1; 2 failed, 31 passed;
     names: read_header, RowCursor; full text: r-12; record 9f3a1c2e4b5d/12]                    (on one line)

The record and turn it names are what replay goes by: results that read alike have the same stub but for that.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from unabridged.authorship import find_exit_code
from unabridged.marks import CLEARED_PREFIX, format_stub
from unabridged.messages import Call, Media
from unabridged.summary.actions import read_call_effect
from unabridged.text_cache import cache_by_text
from unabridged.text_tools import map_strings, to_one_line

MOST_OF_LINE, MOST_OF_OUTCOME = 60, 120
"""Characters kept of what a tool was pointed at, and of the line that tells how it went."""
MAX_HEAD_CHARACTERS = 160
"""Characters kept of a long string in a call's arguments: its beginning says what it was."""
MAX_NAMES = 12
"""Names kept of one piece: they cost 1 to 2 % of a run and hold most of what the agent asks for next."""

_TALLY_PATTERN = re.compile(r"^.*?\b\d+ (?:passed|failed|errors?)\b.*$", re.IGNORECASE | re.MULTILINE)
_EXCEPTION_PATTERN = re.compile(r"^(?:E[ \t]+)?[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b.*$", re.MULTILINE)
_FAILURE_PATTERN = re.compile(
    r"^.*?\b(?:(?:error|fatal|failed|failure)[ \t]*[:!\]]|command not found|no such file|permission denied).*$",
    re.IGNORECASE | re.MULTILINE,
)
# File names with their folders, and words. Both begin only where a run of such characters begins: no text is slow.
_PATH_PATTERN = re.compile(r"(?<![\w./-])[\w.-]*(?:/[\w.-]+)+\.[A-Za-z]\w{0,5}(?![\w/])")
_WORD_PATTERN = re.compile(r"(?<!\w)[A-Za-z_]\w{4,47}(?!\w)")
_NAME_PATTERN = re.compile(r"[A-Za-z0-9]_[A-Za-z0-9]|[a-z][A-Z]|^[A-Z]{2,}\d{2,}$")


def build_stub(
    call: Call | None, text: str, ref: str | None = None, names: Sequence[str] = (), record: str = ""
) -> str:
    """Return the line that replaces a tool's result."""
    tool = _describe_call(call) if call else to_one_line(text, MOST_OF_LINE)
    outcome = [part for part in _describe_outcome(text) if not tool.startswith(part[: MOST_OF_LINE // 2])]
    parts = [tool or "no text", _describe_extent(text), *outcome, *_build_notes(ref, names, record)]
    return format_stub("Tool result", parts)


def build_media_stub(media: Media, ref: str | None = None, record: str = "") -> str:
    """Return the line that replaces an image, sound or document."""
    what = [to_one_line(media.mime, MOST_OF_LINE) or "type unknown", to_one_line(media.name, MOST_OF_LINE)]
    return format_stub(media.kind.capitalize(), filter(None, [*what, *_build_notes(ref, (), record)]))


def shorten_arguments(arguments: str, ref: str | None = None, names: Sequence[str] = (), record: str = "") -> str:
    """Return a call's arguments with every long string in them cut to its beginning; JSON stays JSON."""
    notes = ["".join(f"; {note}" for note in _build_notes(ref, names, record))]
    try:
        value = json.loads(arguments)
        if not isinstance(value, dict | list):
            return arguments
        return _to_sendable_json(map_strings(value, lambda text: _cut_to_beginning(text, notes)), arguments)
    except ValueError:
        return _cut_to_beginning(arguments, notes)  # a custom tool's free text
    except RecursionError:  # nested deeper than can be followed
        return arguments


@cache_by_text
def find_words(text: str) -> frozenset[str]:
    """Return every name in the text; a stub need not repeat these while the text stays."""
    return frozenset((*_WORD_PATTERN.findall(text), *(path.rpartition("/")[2] for path in _PATH_PATTERN.findall(text))))


def find_new_names(text: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the file names and identifiers the text uses most often, without those already known."""
    names: list[str] = []
    for name in _list_names_by_frequency(text):
        if name not in known and not any(name in kept for kept in names):
            names.append(name)
        if len(names) == MAX_NAMES:
            break
    return tuple(names)


@cache_by_text
def _list_names_by_frequency(text: str) -> tuple[str, ...]:
    """Return the file names and identifiers in the text, most frequent first."""
    uses = Counter(path.rpartition("/")[2] for path in _PATH_PATTERN.findall(text))
    uses.update(word for word in _WORD_PATTERN.findall(text) if _NAME_PATTERN.search(word))
    return tuple(name for name, _ in uses.most_common() if len(name) <= 48)


def _cut_to_beginning(text: str, notes: list[str]) -> str:
    """Return the text's beginning and how much is gone; the first one shortened takes the notes for the whole call."""
    note = f"… {CLEARED_PREFIX}{len(text) - MAX_HEAD_CHARACTERS:,} more characters{notes[0] if notes else ''}]"
    if len(text) <= MAX_HEAD_CHARACTERS + 2 * len(note):
        return text
    notes.clear()
    return text[:MAX_HEAD_CHARACTERS] + note


def _to_sendable_json(value: Any, otherwise: str) -> str:
    """Return the value as JSON that can be sent; what JSON can't say (an infinite number) leaves it as it was."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair: send it escaped
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return otherwise
    return text


def _build_notes(ref: str | None, names: Sequence[str], record: str) -> list[str]:
    notes = [f"names: {', '.join(names)}"] * bool(names) + [f"full text: {ref}"] * bool(ref)
    return notes + [f"record {record}"] * bool(record)


def _describe_call(call: Call) -> str:
    """Return the name of the tool, and what it went to."""
    target = to_one_line(read_call_effect(call.arguments, call.name).target, MOST_OF_LINE)
    name = to_one_line(call.name, MOST_OF_LINE)
    return f'{name} "{target}"' if target else name


def _describe_extent(text: str) -> str:
    lines = text.count("\n") + 1
    return f"{lines:,} line{'s' if lines > 1 else ''}, {len(text):,} characters"


@cache_by_text
def _describe_outcome(text: str) -> tuple[str, ...]:
    """Return the exit code that the protocol states, and the line that says most: a tally, or what was raised last."""
    code = find_exit_code(text)
    text = text if len(text) <= 20_000 else f"{text[:4_000]}\n{text[-16_000:]}"
    lines = _TALLY_PATTERN.findall(text)[-1:] or _EXCEPTION_PATTERN.findall(text)[-1:]
    lines = lines or _FAILURE_PATTERN.findall(text)[: code != 0]
    return (*[f"exit {code}"] * (code is not None), *(to_one_line(line, MOST_OF_OUTCOME) for line in lines))
