"""Anthropic Messages: `{"role", "content": str | blocks}`, with SDK blocks or whole `Message` objects among them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from unabridged.formats.anthropic.rules import THINKING, Claude, with_blocks
from unabridged.formats.base import Edit, Format, Message, Slot, Texts, Unit
from unabridged.formats.fields import (
    absent,
    as_json,
    get,
    id_at,
    kind_of,
    numbered,
    plain,
    same_objects,
    text_at,
    with_field,
    word,
)
from unabridged.formats.parts import Content, Editor, plain_text
from unabridged.formats.rule_blocks import join_results, split_results
from unabridged.messages import Answer, Call, Origin, Reasoning, Role, View

_ROLES: dict[str, Role] = {"assistant": "assistant", "system": "system"}
_ORIGINS: dict[Role, Origin] = {"assistant": "model", "system": "host", "user": "person"}
_OPAQUE = frozenset({
    "compaction", "container_upload", "mid_conversation_system", "fallback", "tool_addition", "tool_removal",
})  # fmt: skip
_BLOCKS = frozenset({"tool_use", "tool_result", "server_tool_use", "document", "image", "search_result"})
_OWN = _BLOCKS | THINKING | _OPAQUE
_SPOKEN = frozenset({"text"})
_REQUIRED = {
    "text": ("text",), "tool_use": ("name", "input"), "server_tool_use": ("name", "input"), "thinking": ("thinking",),
    "image": ("source",), "document": ("source",), "search_result": ("source", "title", "content"),
}  # fmt: skip
"""Fields of a block that are not taken as missing, besides ids and signatures, which have rules of their own."""


class Anthropic(Format):
    """The Messages list. Tool results ride in user messages: they are the tool's words wherever they sit."""

    name = "anthropic"
    provider = Claude()
    answers_by = "tool_use_id"
    lone_system = True
    thinking = "signed"
    family = "claude"
    roles = frozenset(_ORIGINS)

    def read(self, message: Message) -> View:
        """The view of the message."""
        kind_of(message)
        role = _ROLES.get(text_at(message, "role"), "user")
        content = get(message, "content")
        if content is None or isinstance(content, str):
            return View(role, _ORIGINS[role], content or "")
        found = _ClaudeBlocks().add_all(content)
        text = found.text
        return View(
            role,
            "tool" if role == "user" and found.answers and not text else _ORIGINS[role],
            text,
            calls=tuple(found.calls),
            answers=tuple(found.answers),
            reasoning=tuple(found.reasoning),
            attached=tuple(found.attached),
            opaque=found.opaque,
            resets=found.resets,
            **found.beside(),
        )

    def texts(self, message: Message) -> Texts | None:
        """The texts of a plain message, None for any other."""
        if type(message) is not dict or message.get("type") is not None or type(message["role"]) is not str:
            return None
        content = message["content"]
        if type(content) is str:
            return content, (), ()
        said: list[str] = []
        calls: list[str] = []
        answers: list[str] = []
        for block in content:
            kind = block["type"]
            if kind == "text" and block["text"]:
                said.append(block["text"])
            elif kind == "tool_use" and type(block["id"]) is type(block["name"]) is str:
                calls += (block["name"], as_json(block["input"] or {}))
            elif (
                kind == "tool_result"
                and type(block["tool_use_id"]) is str
                and (text := plain_text(block["content"])) is not None
            ):
                answers.append(text)
            else:
                return None
        return ("\n".join(said), tuple(calls), tuple(answers)) if type(content) is list else None

    def claims(self, message: Message) -> bool:
        """Messages with tool, thinking or source blocks are written by this format alone."""
        content = get(message, "content")
        if not isinstance(content, list) or word(message, "role") not in {"user", "assistant"}:
            return False
        kinds = {word(block, "type") for block in content}
        return not kinds.isdisjoint(_OWN) or any(get(block, "cache_control") for block in content)

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """A user message with a result, marked as an error."""
        result = {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": True}
        return {"role": "user", "content": [result]}

    def missing(self, message: Message) -> Iterator[str]:
        """The fields that are not there, of the message and its blocks."""
        yield from absent(message, "content")
        for place, block in numbered(message, "content"):
            yield from absent(block, "type", *_REQUIRED.get(word(block, "type"), ()), at=place)

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed."""
        content = get(message, "content")
        if content is None or isinstance(content, str):
            new = Editor(edit).content(content)
            return message if new is content else with_blocks(message, new)
        blocks = [_edit_block(block, edit) for block in content]
        return message if same_objects(blocks, content) else with_blocks(message, blocks)

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without its thinking blocks; the same object when it has none; None when nothing would be left."""
        content = get(message, "content")
        if content is None or isinstance(content, str):
            return message
        kept = [block for block in content if word(block, "type") not in THINKING]
        if len(kept) == len(content):
            return message
        return with_blocks(message, kept) if kept else None

    def tool_schema(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """A tool as a request offers it to the model."""
        return {"name": name, "description": description, "input_schema": parameters}

    def split(self, index: int, message: Message, view: View) -> list[Unit]:
        """One unit, unless it carries results: then each of these, and what stands between them."""
        return split_results(index, message, view, lambda block: get(block, "type") == "tool_result")

    def join(self, units: Sequence[Unit], messages: Sequence[Message]) -> list[Message]:
        """Results in a row stand in one message; the rest of the messages they came from follows them there."""
        return join_results(units, messages, with_blocks)

    def with_calls(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """The message with these ids for its calls; None when nothing but thinking remains."""
        left = iter(ids)
        blocks = []
        for block in get(raw, "content"):
            if get(block, "type") != "tool_use":
                blocks.append(block)
            elif (id_ := next(left)) is not None:
                blocks.append(with_field(block, "id", id_))
        return None if all(get(block, "type") in THINKING for block in blocks) else with_blocks(raw, blocks)

    def with_address(self, raw: list[Any], id_: str) -> list[Any]:
        """The result, to this call."""
        return [with_field(block, "tool_use_id", id_) for block in raw]


def resets(block: Any) -> bool:
    """Whether a block is Anthropic's own compaction: the server drops what stands before. One that failed is not."""
    return word(block, "type") == "compaction" and bool(word(block, "content"))


class _ClaudeBlocks(Content):
    """Collects what the blocks of one message say."""

    def __init__(self) -> None:
        super().__init__(_SPOKEN)
        self.calls: list[Call] = []
        self.answers: list[Answer] = []
        self.reasoning: list[Reasoning] = []
        self.opaque = self.resets = False

    def add(self, part: Any) -> None:
        """Take one block in. A server-side tool's call and result share the assistant's message and need no pairing."""
        kind = None if isinstance(part, str) else kind_of(part)
        if kind == "tool_use":
            self.calls.append(Call(id_at(part, "id"), text_at(part, "name"), as_json(get(part, "input") or {})))
        elif kind == "tool_result":
            self._answer(part)
        elif kind == "thinking":
            self.reasoning.append(Reasoning(text_at(part, "thinking"), text_at(part, "signature")))
        elif kind == "redacted_thinking":
            self.reasoning.append(Reasoning("", text_at(part, "data")))
        elif kind in _OPAQUE:
            self.opaque = True
            self.resets = self.resets or resets(part)
            self.attach(part)
        else:  # text, media, and all that nobody says: server tools, search results, whatever comes next
            super().add(part)

    def _answer(self, block: Any) -> None:
        """A tool's result: all that is readable in it is the tool's."""
        inner = Content().add_all(get(block, "content"))
        self.answers.append(Answer(id_at(block, "tool_use_id"), inner.every_text, bool(get(block, "is_error"))))
        self.media += inner.media
        self.sealed += inner.sealed
        self.others += inner.others


def _edit_block(block: Any, edit: Edit) -> Any:
    kind = word(block, "type")
    if kind == "tool_use":
        old = as_json(get(block, "input") or {})
        new = edit(Slot("call", id_at(block, "id")), old)
        return block if new == old else {**plain(block), "input": json.loads(new)}
    if kind == "tool_result":
        content, slot = get(block, "content"), Slot("answer", id_at(block, "tool_use_id"))
        edited = Editor(edit, slot, slot).content(content)
        return block if edited is content else {**plain(block), "content": edited}
    return block if kind in THINKING or kind in _OPAQUE else Editor(edit, spoken=_SPOKEN).part(block)
