"""LlamaIndex's `ChatMessage` as a wire format: a role and blocks, calls among them, a result in a message of its own.

A class of the integration translates them for its provider, so what a provider refuses of single blocks is its
business; what no provider takes (calls and results that don't pair) is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

from unabridged.archive import codec
from unabridged.formats import DEFAULT
from unabridged.formats.base import Edit, Format, Message, Slot
from unabridged.formats.fields import Unreadable, are_same_objects, as_json, get, parse_call_arguments
from unabridged.formats.parts import ROLES, MessageContent, find_spoken_types
from unabridged.messages import Call, Media, Reasoning, View

codec.allow("llama_index.core.base.llms.types")

_ROLES = {**ROLES, "chatbot": ROLES["assistant"], "model": ROLES["assistant"]}
_TOOL_ROLES = frozenset({"tool", "function"})
_MEDIA_FIELDS = {
    "image": ("image", "image_mimetype"), "audio": ("audio", "format"), "video": ("video", "video_mimetype"),
    "document": ("data", "document_mimetype"),
}  # fmt: skip
"""The fields of each media block that hold its data, in base64, and what kind of data that is."""
_CALLS_KEY, _SIGNATURES_KEY = "tool_calls", "thought_signatures"
"""Where older histories have calls beside the blocks, and OpenAI's client a copy of them; and where Google's client
has what was signed of each block, by its place."""


class LlamaIndexMessages(Format):
    """Messages of `llama_index.core.llms`."""

    name = "llama-index"
    provider = DEFAULT.provider  # calls and results pair as everywhere; the rest is the integration's own business

    def read(self, message: Message) -> View:
        """Return the view of the message."""
        if not isinstance(message, ChatMessage):
            raise Unreadable("", message, "a ChatMessage of LlamaIndex's")
        named = message.role.value
        content = _Blocks(find_spoken_types(named)).add_all(_list_blocks(message), "blocks")
        if named in _TOOL_ROLES:
            return content.build_answer_view(_answered_call_id(message))
        return content.build_view(*_ROLES[named])

    def claims(self, message: Message) -> bool:
        """Return whether it is a message of LlamaIndex's: nobody else has this class."""
        return isinstance(message, ChatMessage)

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """Return a new message with just this text."""
        return ChatMessage(text, role=role)

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a message of the tool's."""
        return ChatMessage(text, role="tool", additional_kwargs={"tool_call_id": call.id})

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        is_answer = message.role.value in _TOOL_ROLES
        own = Slot("answer", _answered_call_id(message)) if is_answer else Slot("text")
        blocks = _list_blocks(message)
        return _with_blocks(message, blocks, [_edit_block(block, edit, own) for block in blocks])

    def without_reasoning(self, message: Message) -> Message | None:
        """Return a copy without its thinking; the same object when it has none; None when nothing would be left."""
        blocks = _list_blocks(message)
        kept = [block for block in blocks if block.block_type != "thinking"]
        return _with_blocks(message, blocks, kept) if kept or not blocks else None

    def with_call_ids(self, raw: ChatMessage, ids: Sequence[str | None]) -> ChatMessage | None:
        """Return the message with these ids for its calls; None when nothing but thinking remains."""
        new_ids, blocks = iter(ids), []
        for block in _list_blocks(raw):
            if block.block_type != "tool_call":
                blocks.append(block)
            elif id_ := next(new_ids):
                blocks.append(_update(block, tool_call_id=id_))
        says_something = any(block.block_type != "thinking" for block in blocks)
        return _with_blocks(raw, (), blocks) if says_something else None

    def with_answered_id(self, raw: ChatMessage, id_: str) -> ChatMessage:
        """Return the result, to this call."""
        return raw.model_copy(update={"additional_kwargs": {**raw.additional_kwargs, "tool_call_id": id_}})


FORMAT = LlamaIndexMessages()


class _Blocks(MessageContent):
    """Collects what the blocks hold."""

    def add(self, part: Any) -> None:
        """Take in one block."""
        kind = part.block_type
        if kind == "text":
            self.add_text(part.text)
        elif kind == "tool_call":
            self.calls.append(Call(part.tool_call_id or "", part.tool_name, as_json(part.tool_kwargs)))
        elif kind == "thinking":
            signature = part.additional_information.get("signature") or ""
            self.reasoning.append(Reasoning(part.content or "", signature))
        elif kind in _MEDIA_FIELDS:
            self.media.append(_read_media(part))
        elif kind != "cache":
            self.add_attached(part)


def _list_blocks(message: ChatMessage) -> list[Any]:
    """Return the blocks of the message; calls that it has beside them are among these."""
    beside = message.additional_kwargs.get(_CALLS_KEY) or ()
    if not beside or any(block.block_type == "tool_call" for block in message.blocks):
        return message.blocks
    return [*message.blocks, *map(_read_call, beside)]


def _read_call(call: Any) -> ToolCallBlock:
    function = get(call, "function") or call
    arguments = get(function, "arguments") or get(function, "input") or {}
    return ToolCallBlock(tool_call_id=get(call, "id"), tool_name=get(function, "name") or "", tool_kwargs=arguments)


def _read_media(block: Any) -> Media:
    data, kind = (getattr(block, name) for name in _MEDIA_FIELDS[block.block_type])
    source = data.decode() if isinstance(data, bytes) else str(block.url or block.path or "")
    mime = kind if not kind or "/" in kind else f"{block.block_type}/{kind}"
    return Media(block.block_type, mime or "", source, name=getattr(block, "title", None) or "")


def _answered_call_id(message: ChatMessage) -> str:
    """Return the id of the call that is answered; Responses calls it otherwise."""
    more = message.additional_kwargs
    return str(more.get("tool_call_id") or more.get("call_id") or "")


def _with_blocks(message: ChatMessage, old: Sequence[Any], new: list[Any]) -> ChatMessage:
    """Return a copy with these blocks, and nothing beside them that was true of others; itself for the old ones."""
    if are_same_objects(new, old):
        return message
    stale = {_CALLS_KEY} if len(new) == len(message.blocks) else {_CALLS_KEY, _SIGNATURES_KEY}
    beside = {name: value for name, value in message.additional_kwargs.items() if name not in stale}
    return message.model_copy(update={"blocks": new, "additional_kwargs": beside})


def _update(block: Any, **changed: Any) -> Any:
    same = all(getattr(block, name) == value for name, value in changed.items())
    return block if same else block.model_copy(update=changed)


def _edit_block(block: Any, edit: Edit, own: Slot) -> Any:
    """Return one block, edited; the same object when nothing changed."""
    kind = block.block_type
    if kind == "text":
        return _update(block, text=edit(own, block.text))
    if kind == "tool_call":
        old = as_json(block.tool_kwargs)
        new = edit(Slot("call", block.tool_call_id or ""), old)
        as_given = new if isinstance(block.tool_kwargs, str) else parse_call_arguments(new)
        return block if new == old else _update(block, tool_kwargs=as_given)
    if kind in _MEDIA_FIELDS:
        old = _read_media(block).source
        new = edit(Slot("media"), old)
        return block if new == old else TextBlock(text=new)
    if kind == "citable":
        inner = [_edit_block(each, edit, own if own.kind == "answer" else Slot("attached")) for each in block.content]
        return _update(block, content=inner)
    return block
