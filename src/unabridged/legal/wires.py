"""How each wire format is taken apart for mending, and put together again.

A conversation is mended as a list of pieces. In Chat and Responses every message is one; an Anthropic message with
results falls into its results and the rest, so that a result can go where its call is. Whatever comes through in one
piece is put together as the caller's own object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from unabridged.formats.base import Format, Message, get, plain
from unabridged.legal import openai_chat
from unabridged.legal.anthropic import THINKING
from unabridged.legal.conversation import LEGACY
from unabridged.messages import Answer, Call, View


@dataclass(frozen=True, slots=True)
class Piece:
    """What moves as one: a message, one result of a message, or the rest of that message between results."""

    raw: Any
    role: str
    calls: tuple[Call, ...] = ()
    answer: Answer | None = None
    source: int = -1
    """Where the message stood that it comes from; -1 when it was made here."""
    place: int = 0
    """Which piece of that message it is."""
    part: bool = False
    """`raw` is a list of blocks, not a message."""


class Wire(NamedTuple):
    """What mending does to one format's messages."""

    split: Callable[[int, Message, View], list[Piece]]
    join: Callable[[Sequence[Piece], Sequence[Message]], list[Message]]
    with_calls: Callable[[Any, Sequence[str | None]], Any]
    """The message with these ids for its calls, those with None left out; None when nothing remains."""
    with_address: Callable[[Any, str], Any]
    """The result, to this call."""


def _whole(index: int, message: Message, view: View) -> list[Piece]:
    calls = tuple(call for call in view.calls if not call.id.startswith(LEGACY))
    answer = next((a for a in view.answers if not a.call_id.startswith(LEGACY)), None)
    if answer is None and view.answers and get(message, "role") == "tool":
        answer = Answer("", view.answers[0].text)  # a tool message without its id, which reads like an old function's
    return [Piece(message, view.role, calls, answer, index)]


def _as_they_are(pieces: Sequence[Piece], _: Sequence[Message]) -> list[Message]:
    return [piece.raw for piece in pieces]


def _chat_calls(message: Message, ids: Sequence[str | None]) -> Message | None:
    calls = [_with(call, "id", id_) for call, id_ in zip(get(message, "tool_calls"), ids, strict=True) if id_]
    return openai_chat.cleaned({**plain(message), "tool_calls": calls})


def _chat_address(message: Message, id_: str) -> Message:
    return {**plain(message), "tool_call_id": id_}


def _item_calls(item: Message, ids: Sequence[str | None]) -> Message | None:
    if ids[0] is None:
        return None
    # The provider knows the item by its own id with its own call_id: a new call_id is a new item.
    return {key: value for key, value in {**plain(item), "call_id": ids[0]}.items() if key != "id"}


def _item_address(item: Message, id_: str) -> Message:
    return {**plain(item), "id" if get(item, "type") == "local_shell_call_output" else "call_id": id_}


def _blocks(index: int, message: Message, view: View) -> list[Piece]:
    """An Anthropic message: one piece unless it carries results."""
    if not view.answers:
        return [Piece(message, view.role, view.calls, None, index)]
    pieces: list[Piece] = []
    answers = iter(view.answers)
    for block in get(message, "content"):
        if get(block, "type") == "tool_result":
            pieces.append(Piece([block], "tool", (), next(answers), index, len(pieces), part=True))
        elif pieces and pieces[-1].answer is None:
            pieces[-1].raw.append(block)
        else:
            pieces.append(Piece([block], view.role, (), None, index, len(pieces), part=True))
    return pieces


def _join_blocks(pieces: Sequence[Piece], messages: Sequence[Message]) -> list[Message]:
    """Results in a row stand in one message; the rest of the messages they came from follows them there."""
    joined: list[Message] = []
    start = 0
    while start < len(pieces):
        if not pieces[start].part:
            joined.append(pieces[start].raw)
            start += 1
            continue
        stop = start + 1
        sources, results = {pieces[start].source}, pieces[start].answer is not None
        while stop < len(pieces) and pieces[stop].part:
            piece = pieces[stop]
            if not (piece.source in sources if piece.answer is None else results):
                break
            sources.add(piece.source)
            results = results and piece.answer is not None
            stop += 1
        joined.append(_one_message(pieces[start:stop], messages))
        start = stop
    return joined


def _one_message(group: Sequence[Piece], messages: Sequence[Message]) -> Message:
    source = max(piece.source for piece in group)
    blocks = [block for piece in group for block in piece.raw]
    if source < 0:
        return {"role": "user", "content": blocks}
    first = next(piece.source for piece in group if piece.source >= 0)
    given = list(get(messages[first], "content"))
    if len(given) == len(blocks) and all(new is old for new, old in zip(blocks, given, strict=True)):
        return messages[first]
    return with_blocks(messages[first], blocks)


def with_blocks(message: Message, blocks: list[Any]) -> Message:
    """A copy with this content; a response object becomes the message a request takes."""
    if isinstance(message, dict):
        return {**message, "content": blocks}
    return {"role": get(message, "role"), "content": blocks}


def _block_calls(message: Message, ids: Sequence[str | None]) -> Message | None:
    left = iter(ids)
    blocks = []
    for block in get(message, "content"):
        id_ = next(left) if get(block, "type") == "tool_use" else get(block, "id")
        if get(block, "type") != "tool_use":
            blocks.append(block)
        elif id_ is not None:
            blocks.append(_with(block, "id", id_))
    if all(get(block, "type") in THINKING for block in blocks):
        return None
    return with_blocks(message, blocks)


def _block_address(raw: list[Any], id_: str) -> list[Any]:
    return [_with(block, "tool_use_id", id_) for block in raw]


def _with(thing: Any, key: str, value: str) -> Any:
    return thing if get(thing, key) == value else {**plain(thing), key: value}


_WIRES: dict[str, Wire] = {
    "openai-chat": Wire(_whole, _as_they_are, _chat_calls, _chat_address),
    "openai-responses": Wire(_whole, _as_they_are, _item_calls, _item_address),
    "anthropic": Wire(_blocks, _join_blocks, _block_calls, _block_address),
}


def wire_of(fmt: Format) -> Wire:
    """What mending does to this format's messages: as the format says, else as it is known here."""
    return fmt.wire or _WIRES[fmt.name]
