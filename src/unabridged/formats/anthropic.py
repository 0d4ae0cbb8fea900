"""Anthropic Messages: `{"role", "content": str | blocks}`, with SDK blocks or whole `Message` objects among them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

from unabridged.formats import older
from unabridged.formats.attached import resets
from unabridged.formats.base import (
    Edit,
    Message,
    Slot,
    Texts,
    Unreadable,
    as_json,
    get,
    id_at,
    kind_of,
    listed,
    plain,
    text_at,
    word,
)
from unabridged.formats.parts import CONTENT, Hands, Parts, collect, edit_content, edit_part, plain_text
from unabridged.messages import Answer, Call, Origin, Reasoning, Role, View

_ROLES: dict[str, Role] = {"assistant": "assistant", "system": "system"}
_THINKING = frozenset({"thinking", "redacted_thinking"})
_OPAQUE = frozenset({
    "compaction", "container_upload", "mid_conversation_system", "fallback", "tool_addition", "tool_removal",
})  # fmt: skip
_BLOCKS = frozenset({"tool_use", "tool_result", "server_tool_use", "document", "image", "search_result"})
_SPOKEN = frozenset({"text"})


class Anthropic:
    """The Messages list. Tool results ride in user messages: they are the tool's words wherever they sit."""

    name = "anthropic"
    provider = "anthropic"
    wire = None
    lone_system = True
    merges_turns = False

    def read(self, message: Message) -> View:
        """What the message says."""
        kind_of(message)
        role = _ROLES.get(text_at(message, "role"), "user")
        content = get(message, "content")
        if content is None or isinstance(content, str):
            return View(role, _origin(role, answers=False), content or "")
        reader, blocks, number = _Reader(role), listed(content, "content", CONTENT), 0
        try:
            for number, block in enumerate(blocks):  # noqa: B007 - the error names it
                reader.add(block)
        except Unreadable as odd:
            raise odd.within(f"content[{number}]") from None
        view = reader.view()
        return replace(view, older=older.anthropic(view, blocks)) if view.unread else view

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
        return bool(kinds & (_BLOCKS | _THINKING | _OPAQUE)) or any(get(block, "cache_control") for block in content)

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """A new message with just this text."""
        return {"role": role, "content": text}

    def answer(self, calls: tuple[Call, ...], text: str) -> list[Message]:
        """One user message with a result, marked as an error, for each call."""
        blocks = [{"type": "tool_result", "tool_use_id": c.id, "content": text, "is_error": True} for c in calls]
        return [{"role": "user", "content": blocks}] if blocks else []

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed."""
        content = get(message, "content")
        if content is None or isinstance(content, str):
            new = edit_content(content, _hands(edit, Slot("text"), Slot("attached")))
            return message if new is content else _with_content(message, new)
        blocks = [_edit_block(block, edit) for block in content]
        if all(new is old for new, old in zip(blocks, content, strict=True)):
            return message
        return _with_content(message, blocks)

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without its thinking blocks; the same object when it has none; None when nothing would be left."""
        content = get(message, "content")
        if content is None or isinstance(content, str):
            return message
        kept = [block for block in content if word(block, "type") not in _THINKING]
        if len(kept) == len(content):
            return message
        return _with_content(message, kept) if kept else None


class _Reader:
    """Collects what the blocks of one message say."""

    def __init__(self, role: Role) -> None:
        self.role: Role = role
        self.parts = Parts()
        self.calls: list[Call] = []
        self.answers: list[Answer] = []
        self.reasoning: list[Reasoning] = []
        self.opaque = False
        self.resets = False

    def add(self, block: Any) -> None:
        """Take one block in. A server-side tool's call and result share the assistant's message and need no pairing."""
        kind = None if isinstance(block, str) else kind_of(block)
        if kind == "tool_use":
            self.calls.append(Call(id_at(block, "id"), text_at(block, "name"), as_json(get(block, "input") or {})))
        elif kind == "tool_result":
            self._answer(block)
        elif kind == "thinking":
            self.reasoning.append(Reasoning(text_at(block, "thinking"), text_at(block, "signature")))
        elif kind == "redacted_thinking":
            self.reasoning.append(Reasoning("", text_at(block, "data")))
        elif kind in _OPAQUE:
            self.opaque = True
            self.resets = self.resets or resets(block)
            self.parts.attach(block)
        else:  # text, media, and all that nobody says: server tools, search results, whatever comes next
            self.parts.add(block, _SPOKEN)

    def _answer(self, block: Any) -> None:
        """A tool's result: all that is readable in it is the tool's."""
        inner = collect(get(block, "content"))
        self.answers.append(Answer(id_at(block, "tool_use_id"), "\n".join(inner.every), bool(get(block, "is_error"))))
        self.parts.media += inner.media
        self.parts.sealed += inner.sealed
        self.parts.others += inner.others

    def view(self) -> View:
        """All of it as one message."""
        found = self.parts.content()
        return View(
            self.role,
            _origin(self.role, answers=bool(self.answers) and not found.text),
            found.text,
            calls=tuple(self.calls),
            answers=tuple(self.answers),
            media=found.media,
            reasoning=tuple(self.reasoning),
            attached=found.attached,
            sealed=found.sealed,
            unread=found.unread,
            opaque=self.opaque,
            resets=self.resets,
        )


def _origin(role: Role, *, answers: bool) -> Origin:
    if role == "assistant":
        return "model"
    if role == "system":
        return "host"
    return "tool" if answers else "person"


def _with_content(message: Message, content: Any) -> Message:
    if isinstance(message, dict):
        return {**message, "content": content}
    return {"role": get(message, "role"), "content": content}  # a response object carries fields no request takes


def _edit_block(block: Any, edit: Edit) -> Any:
    kind = word(block, "type")
    if kind == "tool_use":
        old = as_json(get(block, "input") or {})
        new = edit(Slot("call", id_at(block, "id")), old)
        return block if new == old else {**plain(block), "input": json.loads(new)}
    if kind == "tool_result":
        content = get(block, "content")
        slot = Slot("answer", id_at(block, "tool_use_id"))
        new_content = edit_content(content, _hands(edit, slot, slot))
        return block if new_content is content else {**plain(block), "content": new_content}
    if kind in _THINKING or kind in _OPAQUE:
        return block
    return edit_part(block, _hands(edit, Slot("text"), Slot("attached"))._replace(spoken=_SPOKEN))


def _hands(edit: Edit, text: Slot, attached: Slot) -> Hands:
    return Hands(lambda t: edit(text, t), lambda source: edit(Slot("media"), source), lambda t: edit(attached, t))
