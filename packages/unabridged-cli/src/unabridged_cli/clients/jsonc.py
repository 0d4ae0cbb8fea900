"""JSON as people keep it, comments and trailing commas included: an entry goes in or out, every other byte stays.

    text = insert(text, ("mcpServers",), "unabridged", {...})
    text = remove(text, ("mcpServers", "unabridged"))

A path is made of keys and indices. What `insert` adds, `remove` takes away again, to the byte; only the blanks inside
brackets that were empty before are not remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from unabridged.errors import SettingsError

JsonPath = tuple[str | int, ...]

_SPACE_PATTERN = re.compile(r"(?:[ \t\r\n\ufeff]++|//[^\n\r]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+", re.DOTALL)
_BLANK_CHARACTERS = " \t\r\n"
_LINE_END_PATTERN = re.compile(r"\r\n|\n|\r")
_INDENT_PATTERN = re.compile(r'(?:\A|[\r\n])([ \t]+)["\[{]')
_decode_scalar = json.JSONDecoder().raw_decode
_COMMENT_PATTERN = re.compile(r"//[^\n\r]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_CLOSING_BRACKETS = {"{": "}", "[": "]"}
HIDDEN_VALUE = "\u2026"
"""What stands in the place of what is not shown."""


@dataclass(slots=True, eq=False)
class JsonChild:
    """One member or item: where it begins (a member with its key), and the comma behind it, if there is one."""

    name: str | int
    start: int
    node: JsonNode
    comma: int | None = None

    @property
    def next_start(self) -> int:
        """Return where the next one may begin."""
        return self.node.end if self.comma is None else self.comma + 1


@dataclass(slots=True, eq=False)
class JsonNode:
    """A value and where it stands; `children` is None for what is neither an object nor a list."""

    start: int
    end: int
    value: Any
    children: list[JsonChild] | None = None

    def find_child(self, name: str | int) -> JsonChild | None:
        """Return the child of this name; of several with one name the last, which is the one that programs read."""
        return next((child for child in reversed(self.children or ()) if child.name == name), None)

    def find_node(self, path: JsonPath) -> JsonNode | None:
        """Return the value at the path."""
        if not path:
            return self
        child = self.find_child(path[0])
        return child.node.find_node(path[1:]) if child is not None else None


@lru_cache(maxsize=4)  # one edit looks at the same text several times, and a client's may be megabytes
def parse_document(text: str) -> JsonNode:
    """Return the document. A file that is empty, or holds nothing but comments, is an empty object at its end."""
    start = _skip_blanks(text, 0)
    if start == len(text):
        return JsonNode(start, start, {}, [])
    try:
        node = _read_value(text, start)
    except RecursionError:
        raise SettingsError("more brackets inside brackets than can be read") from None
    end = _skip_blanks(text, node.end)
    if end < len(text):
        raise _build_syntax_error(text, end, "the end")
    return node


def value_at(text: str, path: JsonPath) -> Any:
    """Return what is at the path, None where nothing is."""
    node = parse_document(text).find_node(path)
    return node and node.value


def insert(text: str, path: tuple[str, ...], key: str | None, value: Any) -> str:
    """Return the text with the value as the last in its place: under the key, or without one as an item of a list.

    What is missing on the way to that place is made. The result is read again, to have the value and all that it had.
    """
    wanted: tuple[str | None, ...] = (*path, key)
    added = _insert_unchecked(text, wanted, value)
    try:
        is_right = parse_document(added).value == _insert_into_value(parse_document(text).value, wanted, value)
    except (SettingsError, RecursionError):
        is_right = False
    if not is_right:
        raise SettingsError(f"it is written so that {_format_path(wanted)} can't be added: add it by hand")
    return added


def _insert_unchecked(text: str, wanted: tuple[str | None, ...], value: Any) -> str:
    node = parse_document(text)
    if node.start == node.end:
        newline = _detect_newline(text)
        ended = "" if not text or text.endswith(("\n", "\r")) else newline  # a comment may stand there
        return text + ended + _dump_json(_wrap_in_containers(wanted, value), "  ", newline) + newline
    for depth, name in enumerate(wanted):
        _check_kind(node, list if name is None else dict, wanted[:depth])
        child = node.find_child(name) if name is not None else None
        if child is None:
            return _insert_child(text, node, depth, name, _wrap_in_containers(wanted[depth + 1 :], value))
        node = child.node
    raise SettingsError(f"{_format_path(wanted)} is there already")


def remove(text: str, path: JsonPath) -> str:
    """Return the text without what is at the path; the same text where nothing is."""
    document = parse_document(text)
    parent = document.find_node(path[:-1])
    child = parent.find_child(path[-1]) if parent is not None else None
    if parent is None or parent.children is None or child is None:
        return text
    index = parent.children.index(child)
    before = parent.children[index - 1] if index else None
    start = _find_cut_position(text, before.next_start if before else parent.start + 1, child)
    if child.comma is None and before is not None and before.comma is not None:
        return text[: before.comma] + text[before.comma + 1 : start] + text[child.node.end :]
    alone = len(parent.children) == 1 and start == parent.start + 1
    rest = text[child.next_start :]
    return text[:start] + (rest.lstrip(_BLANK_CHARACTERS) if alone else rest)


def _find_cut_position(text: str, begin: int, child: JsonChild) -> int:
    """Return where to cut the text to remove a child, so that comments in front of it stay."""
    gap = text[begin : child.start].rstrip(_BLANK_CHARACTERS)
    last_line, rest = _LINE_END_PATTERN.split(gap)[-1], text[child.next_start :].lstrip(" \t")
    ends_line = "//" in last_line and not rest.startswith(("\n", "\r"))
    return child.start if ends_line else begin + len(gap)


def mask(text: str, shown: list[JsonPath], near: list[JsonPath]) -> str:
    """Return the text with only the values at `shown` readable, and the keys on the paths to `near`; lines are kept."""
    document = parse_document(text)
    way = {path[:depth] for path in near for depth in range(len(path))}
    ours = [document.find_node(path) for path in shown]
    kept: list[str] = []
    position = 0
    for start, end, readable in _find_value_spans(document, (), ours, way):
        kept += [_remove_comments(text[position:start]), text[start:end] if readable else _hide_text(text[start:end])]
        position = end
    return "".join([*kept, _remove_comments(text[position:])])


def _find_value_spans(
    node: JsonNode, path: JsonPath, shown: list[JsonNode | None], way: set[JsonPath]
) -> Iterator[tuple[int, int, bool]]:
    """Yield where each child that is shown, or is not, begins and ends; nothing for brackets on the way."""
    for child in node.children or ():
        inner = (*path, child.name)
        readable = child.node in shown  # by identity: a key may stand there twice
        if inner in way and not readable and child.node.children is not None:
            yield from _find_value_spans(child.node, inner, shown, way)
        else:
            yield child.start, child.node.end, readable


def _hide_text(text: str) -> str:
    """Return a sign in the place of a text, over as many lines."""
    return HIDDEN_VALUE + "".join(_LINE_END_PATTERN.findall(text))


def _remove_comments(gap: str) -> str:
    """Return blanks, brackets, commas and keys of ours without the comments between them."""
    return _COMMENT_PATTERN.sub(lambda found: f"{found[0][:2]} {_hide_text(found[0])}", gap)


# -- how it is read ---------------------------------------------------------------------------------------------------


def _skip_blanks(text: str, position: int) -> int:
    """Return the position behind blanks and comments."""
    found = _SPACE_PATTERN.match(text, position)
    return found.end() if found else position


def _read_value(text: str, start: int) -> JsonNode:
    if text[start : start + 1] in _CLOSING_BRACKETS:
        return _read_container(text, start)
    try:
        value, end = _decode_scalar(text, start)
    except json.JSONDecodeError:
        raise _build_syntax_error(text, start, "a value") from None
    except ValueError:  # Python's own bound
        raise _build_syntax_error(text, start, "a number of fewer digits, this one can't be read") from None
    return JsonNode(start, end, value)


def _read_container(text: str, start: int) -> JsonNode:
    """Return an object or a list, with all that is in it."""
    closing = _CLOSING_BRACKETS[text[start]]
    children: list[JsonChild] = []
    position = _skip_blanks(text, start + 1)
    while text[position : position + 1] != closing:
        if children and children[-1].comma is None:
            raise _build_syntax_error(text, position, f"a comma or {closing}")
        children.append(_read_child(text, position, len(children) if closing == "]" else None))
        position = _skip_blanks(text, children[-1].node.end)
        if text[position : position + 1] == ",":
            children[-1].comma = position
            position = _skip_blanks(text, position + 1)
    pairs = ((child.name, child.node.value) for child in children)
    value: Any = [value for _, value in pairs] if closing == "]" else dict(pairs)
    return JsonNode(start, position + 1, value, children)


def _read_child(text: str, start: int, index: int | None) -> JsonChild:
    if index is not None:
        return JsonChild(index, start, _read_value(text, start))
    if text[start : start + 1] != '"':
        raise _build_syntax_error(text, start, "a key in quotes")
    key = _read_value(text, start)
    colon = _skip_blanks(text, key.end)
    if text[colon : colon + 1] != ":":
        raise _build_syntax_error(text, colon, "a colon")
    return JsonChild(key.value, start, _read_value(text, _skip_blanks(text, colon + 1)))


def _build_syntax_error(text: str, position: int, expected: str) -> SettingsError:
    lines = _LINE_END_PATTERN.split(text[:position])
    return SettingsError(f"line {len(lines)}, column {len(lines[-1]) + 1}: expected {expected}")


def _check_kind(node: JsonNode, kind: type, path: tuple[str | None, ...]) -> None:
    if not isinstance(node.value, kind):
        wanted = "a list" if kind is list else "an object"
        raise SettingsError(f"{_format_path(path) or 'the whole'} is not {wanted}")


def _format_path(path: tuple[str | None, ...]) -> str:
    return ".".join(name for name in path if name is not None)


def _wrap_in_containers(names: tuple[str | None, ...], value: Any) -> Any:
    """Return the value inside all that has to be created around it."""
    for name in reversed(names):
        value = [value] if name is None else {name: value}
    return value


def _insert_into_value(whole: Any, names: tuple[str | None, ...], value: Any) -> Any:
    """Return the whole with the value in its place."""
    if not names:
        return value
    name, *rest = names
    if name is None:
        return [*(whole or ()), _insert_into_value(None, tuple(rest), value)]
    inner = whole or {}
    return {**inner, name: _insert_into_value(inner.get(name), tuple(rest), value)}


def _detect_newline(text: str) -> str:
    """Return how lines end in the text."""
    return next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")


def _insert_child(text: str, container: JsonNode, depth: int, key: str | None, value: Any) -> str:
    """Return the text with one more child at the end of the container, behind the comments there."""
    children = container.children or []
    newline = _detect_newline(text)
    found = _INDENT_PATTERN.search(text)
    unit = found[1] if found else "  "
    one_line = bool(children) and not _LINE_END_PATTERN.search(text.strip(_BLANK_CHARACTERS))
    lead = "" if one_line else newline + unit * (depth + 1)
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + (":" if one_line else ": ")
    written = lead + name + _dump_json(value, None if one_line else unit, lead or newline)
    begin = children[-1].next_start if children else container.start + 1
    rest = text[begin : container.end - 1]
    at = begin + len(rest.rstrip(_BLANK_CHARACTERS))
    if not children:
        written += "" if _LINE_END_PATTERN.search(text, at, container.end - 1) else newline + unit * depth
    elif children[-1].comma is not None:
        written += ","
    else:
        return text[:begin] + "," + text[begin:at] + written + text[at:]
    return text[:at] + written + text[at:]


def _dump_json(value: Any, unit: str | None, newline: str) -> str:
    """Return the value as JSON; with a unit over several lines, each led by `newline`."""
    if unit is None:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline)
