"""Mends what Anthropic refuses besides unpaired calls: block by block, and where messages stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from unabridged.formats.base import Message, get, plain
from unabridged.legal.anthropic import (
    CACHE_MARKS,
    FIRST_ADAPTIVE,
    THINKING,
    blocks,
    ends_in_server_tool,
    ends_in_space,
    ends_in_thinking,
    is_blank,
    is_empty_compaction,
    is_unsigned,
    mark,
    thinks_late,
)
from unabridged.legal.reasoning import claude_version
from unabridged.legal.wires import with_blocks


def cleaned(message: Message, model: str | None, *, last: bool) -> Message | None:
    """The message with no block that is refused for itself; None when nothing is left; else as it is."""
    given = blocks(message)
    if not given:
        allowed = (last and get(message, "role") == "assistant") or get(message, "output_config")
        return message if allowed else None
    kept = [inner for block in given if not _refused(block) for inner in _texts_cleaned(block)]
    if is_blank({"content": kept}):
        kept = [block for block in kept if get(block, "type") != "text"]
    version = claude_version(model)
    if version is not None and version < FIRST_ADAPTIVE and thinks_late({"content": kept}):
        kept.sort(key=lambda block: get(block, "type") not in THINKING)
    if not kept:
        return None
    same = len(kept) == len(given) and all(new is old for new, old in zip(kept, given, strict=True))
    return message if same else with_blocks(message, kept)


def _refused(block: Any) -> bool:
    return is_unsigned(block) or is_empty_compaction(block)


def _texts_cleaned(block: Any) -> Iterable[Any]:
    """The block without empty texts, itself or inside a result."""
    if get(block, "type") == "text":
        return [block] if get(block, "text") else []
    content = get(block, "content")
    if get(block, "type") != "tool_result" or not isinstance(content, list | tuple):
        return [block]
    kept = [inner for inner in content if get(inner, "type") != "text" or get(inner, "text")]
    return [block] if len(kept) == len(content) else [{**plain(block), "content": kept}]


def systems_placed(messages: Sequence[Message], filler: Message) -> list[Message]:
    """System messages at the end of the user's turn they stand in or before; two of them become one."""
    placed: list[Message] = []
    users: list[Message] = []
    systems: list[Message] = []

    def flush() -> None:
        if systems and not users and not (placed and ends_in_server_tool(placed[-1])):
            users.append(filler)
        placed.extend(users)
        if systems:
            placed.append(systems[0] if len(systems) == 1 else _joined(systems))
        users.clear()
        systems.clear()

    for message in messages:
        if get(message, "role") == "assistant":
            flush()
            placed.append(message)
        else:
            (systems if get(message, "role") == "system" else users).append(message)
    flush()
    return placed


def _joined(systems: Sequence[Message]) -> Message:
    merged = with_blocks(systems[0], [block for message in systems for block in blocks(message)])
    return {**plain(systems[-1]), **merged}


def end_cleaned(messages: Sequence[Message]) -> list[Message]:
    """The list with an end that is taken: no thinking and no white space at the end of the assistant's words."""
    kept = list(messages)
    while kept and (ends_in_thinking(kept[-1]) or ends_in_space(kept[-1])):
        *before, last = blocks(kept[-1])
        if get(last, "type") == "text":
            before.append({**plain(last), "text": get(last, "text").rstrip()})
        if before:
            kept[-1] = with_blocks(kept[-1], before)
        else:
            del kept[-1]
    return kept


def cache_cleaned(messages: Sequence[Message]) -> list[Message]:
    """The list with the last four cache marks and no others."""
    left = CACHE_MARKS
    kept: list[Message] = []
    for message in reversed(messages):
        given = blocks(message)
        cut = []
        for block in reversed(given):
            bare, left = _marks_cut(block, left)
            cut.append(bare)
        same = all(new is old for new, old in zip(reversed(cut), given, strict=True))
        kept.append(message if same else with_blocks(message, cut[::-1]))
    return kept[::-1]


def _marks_cut(block: Any, left: int) -> tuple[Any, int]:
    """The block with its marks cut once none are left, and how many are then."""
    if mark(block):
        left -= 1
        if left < 0:
            block = {key: value for key, value in plain(block).items() if key != "cache_control"}
    content = get(block, "content")
    if get(block, "type") == "tool_result" and isinstance(content, list) and any(mark(inner) for inner in content):
        inners = []
        for inner in reversed(content):
            bare, left = _marks_cut(inner, left)
            inners.append(bare)
        if any(new is not old for new, old in zip(reversed(inners), content, strict=True)):
            block = {**plain(block), "content": inners[::-1]}
    return block, left
