"""LangChain messages as a wire format: content blocks of every provider, tool calls, thinking, media.

A chat model translates these messages for its provider, so what a provider refuses of single blocks is that model's
business; what no provider takes (calls and results that don't pair) is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain_core import messages as kinds
from langchain_core.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, ToolMessage

from unabridged.adapters.langchain import blocks as block_shapes
from unabridged.adapters.langchain.blocks import THINKING_TYPES, is_call, is_untyped_text, read_thinking_block
from unabridged.formats import DEFAULT, fields
from unabridged.formats.anthropic import is_provider_compaction
from unabridged.formats.base import LEGACY_CALL_PREFIX, Edit, Format, Message, Slot
from unabridged.formats.fields import Unreadable, are_same_objects, as_json, parse_call_arguments
from unabridged.formats.parts import ROLES, SPOKEN_TYPES, Editor, MessageContent
from unabridged.messages import Call, Media, Origin, Reasoning, Role, View

SOURCE_KEY = "lc_source"
SUMMARY_SOURCE = "summarization"
"""The mark of LangChain's own summaries in `additional_kwargs`; ours have it too."""

_CHAT_ROLES = {**ROLES, "ai": ROLES["assistant"]}
_REASONING_KEYS = ("reasoning_content", "reasoning")
"""Where integrations keep a model's thinking beside the content."""

_TEXT_TYPES = SPOKEN_TYPES | {"output_text", "refusal"}
"""Blocks that are a model's own words."""


class LangChain(Format):
    """Messages of `langchain_core`. Edited copies keep their id, so that a reducer replaces what they came from."""

    name = "langchain"
    provider = DEFAULT.provider  # calls and results pair as everywhere; the rest is the chat model's own business

    def read(self, message: Message) -> View:
        """Return the view of the message."""
        if not isinstance(message, BaseMessage):
            raise Unreadable("", message, "a message of LangChain's")
        blocks = _LangChainBlocks(model=isinstance(message, AIMessage))
        blocks.add_all(message.content)
        if isinstance(message, ToolMessage | FunctionMessage):
            failed = isinstance(message, ToolMessage) and message.status == "error"
            view = blocks.build_answer_view(_answered_call_id(message), is_error=failed)
        else:
            role, origin = _read_role(message)
            speaker = (message.name or "") if isinstance(message, HumanMessage) else ""
            view = blocks.build_view(role, origin, speaker=speaker)
        if isinstance(message, AIMessage):
            own = [block for block in blocks.others if fields.read_word(block, "type") == "compaction"]
            calls, thoughts = _read_calls(message) or tuple(blocks.calls), _read_reasoning(message)
            resets = any(map(is_provider_compaction, own))
            view = replace(view, calls=calls, reasoning=thoughts, opaque=bool(own), resets=resets)
        return view

    def claims(self, message: Message) -> bool:
        """Return whether it is a message of LangChain's: nobody else has these classes."""
        return isinstance(message, BaseMessage)

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """Return a new message with just this text, marked as LangChain marks its summaries."""
        marked = {SOURCE_KEY: SUMMARY_SOURCE}
        if role == "user":
            return HumanMessage(content=text, additional_kwargs=marked)
        return AIMessage(content=text, additional_kwargs=marked)

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a tool message, marked as an error."""
        return ToolMessage(text, tool_call_id=call.id, name=call.name or None, status="error")

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        changed: dict[str, Any] = {}
        new_texts: dict[str, str] = {}
        editor = Editor(edit, spoken=SPOKEN_TYPES)
        if isinstance(message, ToolMessage | FunctionMessage):
            slot = Slot("answer", _answered_call_id(message))
            editor = editor._replace(text=slot, attached=slot)
        elif isinstance(message, AIMessage):
            editor = editor._replace(spoken=_TEXT_TYPES)
            for key in ("tool_calls", "invalid_tool_calls"):
                calls = getattr(message, key)
                new = [_edit_call(call, edit, new_texts) for call in calls]
                if not are_same_objects(new, calls):
                    changed[key] = new
        content = _edit_content(message.content, editor, new_texts, model=isinstance(message, AIMessage))
        if content is not message.content:
            changed["content"] = content
        if "tool_calls" in changed and "tool_calls" in message.additional_kwargs:
            changed["additional_kwargs"] = _fields_without_calls(message)
        return message.model_copy(update=changed) if changed else message

    def without_reasoning(self, message: Message) -> Message | None:
        """Return a copy without its thinking; the same object when it has none; None when nothing would be left."""
        if not isinstance(message, AIMessage) or not _read_reasoning(message):
            return message
        content: Any = message.content
        if not isinstance(content, str):
            content = [block for block in content if isinstance(block, str) or block.get("type") not in THINKING_TYPES]
        if not content and not message.tool_calls and not message.invalid_tool_calls:
            return None
        rest = {key: value for key, value in message.additional_kwargs.items() if key not in _REASONING_KEYS}
        return message.model_copy(update={"content": content or "", "additional_kwargs": rest})

    def with_call_ids(self, raw: AIMessage, ids: Sequence[str | None]) -> AIMessage | None:
        """Return the message with these ids for its calls; None when nothing remains."""
        calls: list[Any] = [*raw.tool_calls, *raw.invalid_tool_calls]
        kept = [{**call, "id": id_} for call, id_ in zip(calls, ids, strict=False) if id_]
        content: Any = raw.content
        if not isinstance(content, str):
            # Where the calls stand in the content only, as another client's history may have them, these are meant.
            own = [block_shapes.call_id(block) for block in content if is_call(block)]
            old = [call["id"] or "" for call in calls] or own
            content = block_shapes.replace_call_ids(content, list(zip(old, ids, strict=True)))
        if not kept and not content:
            return None
        update = {"content": content, "additional_kwargs": _fields_without_calls(raw)}
        update["tool_calls"] = [call for call in kept if isinstance(call["args"], dict)]
        update["invalid_tool_calls"] = [call for call in kept if not isinstance(call["args"], dict)]
        return raw.model_copy(update=update)

    def with_answered_id(self, raw: ToolMessage, id_: str) -> ToolMessage:
        """Return the result, to this call."""
        return raw.model_copy(update={"tool_call_id": id_})


FORMAT = LangChain()


def _read_role(message: BaseMessage) -> tuple[Role, Origin]:
    if isinstance(message, AIMessage):
        return "assistant", "model"
    if isinstance(message, kinds.SystemMessage):
        return "system", "host"
    if isinstance(message, kinds.ChatMessage):
        return _CHAT_ROLES.get(message.role.lower(), ROLES["user"])
    # A summary another middleware left in the list is not a person's request.
    return "user", "host" if message.additional_kwargs.get(SOURCE_KEY) == SUMMARY_SOURCE else "person"


class _LangChainBlocks(MessageContent):
    """Collects what the blocks hold, and the calls among them; thoughts are read elsewhere."""

    def __init__(self, *, model: bool) -> None:
        super().__init__(_TEXT_TYPES if model else SPOKEN_TYPES)
        self.model = model

    def add(self, part: Any) -> None:
        """Take in one block."""
        if not isinstance(part, str | dict):
            raise Unreadable("", part, "a text or a dict")
        if is_call(part) and self.model:
            self.calls.append(block_shapes.read_call_block(part))
        elif is_untyped_text(part):
            self.add_text(part["text"])
        elif not (self.model and fields.read_word(part, "type") in THINKING_TYPES):
            super().add(part)

    def read_media(self, part: Any) -> Media | None:
        """Return the media that the block is, in LangChain's own shapes too."""
        return block_shapes.read_block_media(part)


def _answered_call_id(message: ToolMessage | FunctionMessage) -> str:
    """Return the id of the call that is answered; an old function's is made of its name."""
    return message.tool_call_id if isinstance(message, ToolMessage) else f"{LEGACY_CALL_PREFIX}{message.name}"


def _fields_without_calls(message: AIMessage) -> dict[str, Any]:
    """Return the fields beside the content, without the provider's copy of the calls: some would send that instead."""
    return {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}


def _read_calls(message: AIMessage) -> tuple[Call, ...]:
    """Return all calls, also those with arguments that did not parse: both are answered by a tool message."""
    calls = [Call(call["id"] or "", call["name"], as_json(call["args"])) for call in message.tool_calls]
    return (*calls, *(Call(c["id"] or "", c["name"] or "", c["args"] or "") for c in message.invalid_tool_calls))


def _read_reasoning(message: AIMessage) -> tuple[Reasoning, ...]:
    thoughts: list[Reasoning] = []
    if not isinstance(message.content, str):
        blocks = [b for b in message.content if isinstance(b, dict) and b.get("type") in THINKING_TYPES]
        thoughts += [read_thinking_block(block) for block in blocks]
    for key in _REASONING_KEYS:
        kept = message.additional_kwargs.get(key)
        if isinstance(kept, str) and kept:
            thoughts.append(Reasoning(kept))
        elif isinstance(kept, dict):
            thoughts.append(read_thinking_block(kept))
    return tuple(thoughts)


def _edit_call(call: Any, edit: Edit, new_texts: dict[str, str]) -> Any:
    valid = isinstance(call["args"], dict)
    old = as_json(call["args"]) if valid else call["args"] or ""
    new = edit(Slot("call", call["id"] or ""), old)
    if new == old:
        return call
    new_texts[call["id"] or ""] = new
    return {**call, "args": parse_call_arguments(new) if valid else new}


def _edit_content(content: Any, editor: Editor, new_texts: dict[str, str], *, model: bool) -> Any:
    if isinstance(content, str):
        return editor.content(content)
    blocks = [_edit_block(block, editor, new_texts, model=model) for block in content]
    return content if are_same_objects(blocks, content) else blocks


def _edit_block(block: Any, editor: Editor, new_texts: dict[str, str], *, model: bool) -> Any:
    kind = fields.read_word(block, "type")
    if model and is_call(block):
        return block_shapes.with_call_arguments(block, new_texts)
    if model and (kind in THINKING_TYPES or kind == "compaction"):
        return block
    if is_untyped_text(block):
        return fields.with_field(block, "text", editor.edit_part(block["text"]))
    if isinstance(block, str) or kind in editor.spoken:
        return editor.edit_part(block)
    return editor.edit_other_part(block, block_shapes.read_block_media(block))
