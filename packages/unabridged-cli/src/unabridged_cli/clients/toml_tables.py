"""TOML as people keep it: a table goes in at the end and out again, every other byte stays.

The standard library reads TOML and does not write it. One table needs no writer: its lines are put in and taken out as
text, and each time the result is read again and held against what it should be.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from typing import Any

from unabridged.errors import SettingsError
from unabridged_cli.clients.jsonc import MASK

_LINE = re.compile(r"[^\n]*\n?")
"""TOML's lines: other ends of lines are characters like any."""
_HEADER = re.compile(r"[ \t]*\[")
_KEY = re.compile(r"""[ \t]*("[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*([.\]])""")


def read(text: str) -> dict[str, Any]:
    """The document as a value."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(error)) from None
    except ValueError:  # Python's own bound
        raise SettingsError("a number in it has more digits than can be read") from None
    except RecursionError:
        raise SettingsError("more brackets inside brackets than can be read") from None


def value_at(text: str, path: tuple[str, ...]) -> Any:
    """What stands at the path, None where nothing does."""
    value: Any = read(text)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def insert(text: str, path: tuple[str, ...], values: dict[str, Any]) -> str:
    """The text with a table of this name and these values at its end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [
        f"[{'.'.join(path)}]",
        *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()),
    ]
    ended = "" if not text or text.endswith("\n") else newline
    added = text + ended + (newline if text else "") + "".join(line + newline for line in lines)
    if not _differ_in(read_or_none(added), read(text), path) or value_at(added, path) != values:
        raise SettingsError(f"{path[0]!r} is written so that no table can be added: make it a table of its own")
    return added


def remove(text: str, path: tuple[str, ...]) -> str:
    """The text without the table and the tables in it; comments behind it stay."""
    lines = [line for line in _LINE.findall(text) if line]
    left: list[str] = []
    position = 0
    while position < len(lines):
        stop = _table_end(lines, position, path)
        if stop > position and left and not left[-1].strip():
            left.pop()  # the empty line that set it apart
        left += lines[position : position + 1] if stop == position else []
        position = max(stop, position + 1)
    removed = "".join(left)
    if not _differ_in(read(text), read_or_none(removed), path) or value_at(removed, path) is not None:
        raise SettingsError(f"[{'.'.join(path)}] is not written as a table of its own: remove it by hand")
    return removed


def mask(path: tuple[str, ...]) -> Callable[[str, str], str]:
    """How a text is shown, line for line: the table of this name is readable, of other lines that they are there."""

    def show(text: str, _other: str) -> str:
        lines = [line for line in _LINE.findall(text) if line]
        kept: list[str] = []
        while len(kept) < len(lines):
            start = len(kept)
            stop = _table_end(lines, start, path)
            line = lines[start]
            kept += lines[start:stop] or [line.replace(line.strip(), MASK) if line.strip() else line]
        return "".join(kept)

    return show


def read_or_none(text: str) -> dict[str, Any] | None:
    """The document as a value, None where it is none."""
    try:
        return read(text)
    except SettingsError:
        return None


def _table_end(lines: list[str], start: int, path: tuple[str, ...]) -> int:
    """The line behind the last key of the table that begins here; `start` itself where no such table does."""
    name = _table_name(lines[start])
    if name is None or name[: len(path)] != path or not _is_header(lines, start):
        return start
    stop = start + 1
    while stop < len(lines) and not _is_header(lines, stop):
        stop += 1
    while stop > start + 1 and (not lines[stop - 1].strip() or lines[stop - 1].lstrip().startswith("#")):
        stop -= 1
    return stop


def _is_header(lines: list[str], number: int) -> bool:
    """Whether a table begins in this line; inside a text or list of several lines, what stands before is not whole."""
    return bool(_HEADER.match(lines[number])) and read_or_none("".join(lines[:number])) is not None


def _table_name(line: str) -> tuple[str, ...] | None:
    """The name in a table's header line."""
    header = _HEADER.match(line)
    names: list[str] = []
    position = header.end() if header else len(line)
    while found := _KEY.match(line, position):
        names.append(found[1].strip("\"'"))
        if found[2] == "]":
            return tuple(names)
        position = found.end()
    return None


def _differ_in(more: dict[str, Any] | None, less: dict[str, Any] | None, path: tuple[str, ...]) -> bool:
    """Whether the two are the same but for what stands at the path in the first, and what held nothing else."""
    if more is None or less is None:
        return False
    if len(path) == 1:
        return _same(_without(more, path[0]), less)
    name, inner = path[0], more.get(path[0])
    others = _same(_without(more, name), _without(less, name))
    return others and isinstance(inner, dict) and _differ_in(inner, less.get(name, {}), path[1:])


def _without(table: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


def _same(one: Any, other: Any) -> bool:
    """Whether two documents say the same, however deep they are; `nan` is `nan` here."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
            pairs += [(left[key], right[key]) for key in left]
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pairs += zip(left, right, strict=True)
        elif isinstance(left, dict | list) or not (left == right or (_is_nan(left) and _is_nan(right))):
            return False
    return True


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
