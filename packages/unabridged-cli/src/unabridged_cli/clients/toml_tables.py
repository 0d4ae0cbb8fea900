"""TOML as people keep it: a table goes in at the end and out again, every other byte stays.

The standard library reads TOML and does not write it. The lines of a table are put in and taken out as text, and the
result is read again and compared with the document before. (docs/dependencies.md says why not with tomlkit.)
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from unabridged.errors import SettingsError
from unabridged_cli.clients.jsonc import HIDDEN_VALUE

_LINE_PATTERN = re.compile(r"[^\n]++\n?+|\n")
"""A line of TOML, which ends with a line feed only: other ends of lines are characters like any."""
_HEADER_PATTERN = re.compile(r"[ \t]*\[")


def parse_document(text: str) -> dict[str, Any]:
    """Return the document as a value, numbers with a point as text; raise `SettingsError` for anything but TOML."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n").removeprefix("\ufeff"), parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(error)) from None
    except ValueError:  # Python's own bound
        raise SettingsError("a number in it has more digits than can be read") from None
    except RecursionError:
        raise SettingsError("more brackets inside brackets than can be read") from None


def parse_or_none(text: str) -> dict[str, Any] | None:
    """Return the document as a value, None where it is not TOML."""
    try:
        return parse_document(text)
    except SettingsError:
        return None


def value_at(document: dict[str, Any] | None, path: Sequence[str]) -> Any:
    """Return the value at the path of a document, None where there is none."""
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def insert(text: str, path: Sequence[str], values: dict[str, Any]) -> str:
    """Return the text with a table of this name and these values at its end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    entries = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    separator = newline if text.endswith("\n") or not text else newline * 2
    added = f"{text}{separator if text else ''}[{'.'.join(path)}]{newline}{''.join(e + newline for e in entries)}"
    if value_at(parse_or_none(added), path) != values or not _is_equal_except_path(added, text, path):
        raise SettingsError(f"{path[0]!r} is written so that no table can be added: make it a table of its own")
    return added


def remove(text: str, path: Sequence[str]) -> str:
    """Return the text without the table and the tables in it; comments behind it stay."""
    lines = _LINE_PATTERN.findall(text)
    own = _find_table(lines, path)
    left: list[str] = []
    for number, line in enumerate(lines):
        if number not in own:
            left.append(line)
        elif number - 1 not in own and left and not left[-1].strip():
            left.pop()  # the empty line that set it apart
    removed = "".join(left)
    if value_at(parse_or_none(removed), path) is not None or not _is_equal_except_path(text, removed, path):
        raise SettingsError(f"[{'.'.join(path)}] is not written as a table of its own: remove it by hand")
    return removed


def mask(text: str, path: Sequence[str]) -> str:
    """Return the text line for line, with nothing readable but the table of this name."""
    lines = _LINE_PATTERN.findall(text)
    own = _find_table(lines, path)
    return "".join(
        line if number in own or not line.strip() else line.replace(line.strip(), HIDDEN_VALUE)
        for number, line in enumerate(lines)
    )


def _find_table(lines: Sequence[str], path: Sequence[str]) -> set[int]:
    """Return the numbers of the table's lines and of those of the tables in it, without comments behind their keys."""
    own: set[int] = set()
    waiting: list[int] = []
    is_own = False
    for number, line in enumerate(lines):
        names_own = bool(_HEADER_PATTERN.match(line)) and value_at(parse_or_none(line), path) is not None
        is_boundary = names_own or (is_own and _HEADER_PATTERN.match(line))
        # Inside a text or a list of several lines, what stands before a line is not whole.
        if is_boundary and parse_or_none("".join(lines[:number])) is not None:
            is_own, waiting = names_own, []
        waiting.append(number)
        if is_own and line.strip() and not line.lstrip().startswith("#"):
            own.update(waiting)
            waiting = []
    return own


def _is_equal_except_path(one: str, other: str, path: Sequence[str]) -> bool:
    """Return whether two documents are equal apart from the value at the path and tables that only contain it."""
    before, after = parse_or_none(one), parse_or_none(other)
    pairs: list[tuple[Any, Any]] = [(_remove_path(before, path), _remove_path(after, path))]
    while pairs:  # not by recursion: names may be nested deeper than Python's stack
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
            pairs += [(left[key], right[key]) for key in left]
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pairs += zip(left, right, strict=True)
        elif isinstance(left, dict | list) or left != right:
            return False
    return before is not None and after is not None


def _remove_path(document: Any, path: Sequence[str]) -> Any:
    if not isinstance(document, dict) or path[0] not in document:
        return document
    inner = _remove_path(document[path[0]], path[1:]) if len(path) > 1 else None
    others = {key: value for key, value in document.items() if key != path[0]}
    return {**others, path[0]: inner} if inner else others
