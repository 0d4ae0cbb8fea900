"""How the engine mends LangChain messages: which are calls and results, and what they are with other ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from unabridged.adapters.langchain.blocks import CALLS
from unabridged.formats.base import Message
from unabridged.legal.conversation import LEGACY
from unabridged.legal.wires import Piece, Wire
from unabridged.messages import View


def _split(index: int, message: Message, view: View) -> list[Piece]:
    calls = tuple(call for call in view.calls if not call.id.startswith(LEGACY))
    answer = next((a for a in view.answers if not a.call_id.startswith(LEGACY)), None)
    return [Piece(message, view.role, calls, answer, index)]


def _join(pieces: Sequence[Piece], _: Sequence[Message]) -> list[Message]:
    return [piece.raw for piece in pieces]


def _with_calls(message: AIMessage, ids: Sequence[str | None]) -> AIMessage | None:
    """The message with these ids for its calls, those with None left out; None when nothing remains."""
    given: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    if not given:
        return _with_calls_in_content(message, ids)
    new_ids = dict(zip((call["id"] or "" for call in given), ids, strict=True))
    kept = [{**call, "id": id_} for call, id_ in zip(given, ids, strict=True) if id_]
    content: Any = message.content
    if not isinstance(content, str):
        content = [block for block in (_with_id(block, new_ids) for block in content) if block is not None]
    if not kept and not content:
        return None
    parsed = [call for call in kept if isinstance(call["args"], dict)]
    others = [call for call in kept if not isinstance(call["args"], dict)]
    extra = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    changed = {"tool_calls": parsed, "invalid_tool_calls": others, "content": content, "additional_kwargs": extra}
    return message.model_copy(update=changed)


def _with_calls_in_content(message: AIMessage, ids: Sequence[str | None]) -> AIMessage | None:
    """The same for calls that stand nowhere else, as another client's history may have them."""
    left = iter(ids)
    content: list[Any] = []
    for block in message.content:
        if isinstance(block, str) or block.get("type") not in CALLS:
            content.append(block)
        elif (id_ := next(left)) is not None:
            content.append({**block, "call_id" if block.get("call_id") else "id": id_})
    return message.model_copy(update={"content": content}) if content else None


def _with_id(block: Any, new_ids: dict[str, str | None]) -> Any:
    if isinstance(block, str) or block.get("type") not in CALLS:
        return block
    field = "call_id" if block.get("call_id") else "id"
    id_ = new_ids.get(str(block.get(field) or ""), block.get(field))
    return {**block, field: id_} if id_ else None


def _with_address(message: ToolMessage, id_: str) -> ToolMessage:
    return message if message.tool_call_id == id_ else message.model_copy(update={"tool_call_id": id_})


WIRE = Wire(_split, _join, _with_calls, _with_address)
