"""Agent Framework's messages as the framework itself stores them: `Message.to_dict()`, with a list of contents.

A chat client translates them for its provider, so what a provider refuses of single contents is that client's business;
what no provider takes (calls and results that don't pair) is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from unabridged.formats import DEFAULT, fields
from unabridged.formats.base import Edit, Message, Slot
from unabridged.formats.blocks import BlockFormat
from unabridged.formats.parts import ROLES, Editor, MessageContent, find_media_kind, find_spoken_types, read_mime_type
from unabridged.messages import Call, Media, Reasoning, View

_FRAMEWORK_TYPES = frozenset({"function_approval_request", "function_approval_response", "usage"})
"""Contents that are the framework's own business: no model reads them."""


class StoredMessages(BlockFormat):
    """`{"role", "contents": [...]}`, each content with its type. Results have messages of their own, many in one."""

    name = "agent-framework"
    provider = DEFAULT.provider  # calls and results pair as everywhere; the rest is the chat client's own business
    answers_by = "call_id"
    blocks_field = "contents"
    results_role = "tool"

    def read(self, message: Message) -> View:
        """Return the view of the message."""
        fields.read_type(message)
        named = fields.read_text(message, "role")
        contents = _Contents(find_spoken_types(named)).add_all(fields.get(message, "contents"), "contents")
        if contents.has_only_answers:
            return contents.build_view("tool", "tool")
        role, origin = ROLES.get(named, ("user", "person"))
        author = fields.read_word(message, "author_name") if role == "user" else ""
        return contents.build_view(role, origin, speaker=author)

    def claims(self, message: Message) -> bool:
        """Return whether it has contents: nobody else calls them that."""
        return isinstance(fields.get(message, "contents"), list)

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """Return a new message with just this text."""
        return {"type": "message", "role": role, "contents": [{"type": "text", "text": text}]}

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a message with a result."""
        result = {
            "type": "function_result",
            "call_id": call.id,
            **_build_result_fields([{"type": "text", "text": text}]),
        }
        return {"type": "message", "role": "tool", "contents": [result]}

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        blocks = self.blocks(message)
        edited = [_edit_content(block, edit) for block in blocks]
        return message if fields.are_same_objects(edited, blocks) else self.with_blocks(message, edited)

    def blocks(self, message: Message) -> Sequence[Any]:
        """Return the contents of the message."""
        return fields.get(message, "contents") or []

    def with_blocks(self, message: Message, blocks: Sequence[Any]) -> Message:
        """Return a copy with these contents."""
        return {**message, "contents": list(blocks)}

    def is_call(self, block: Any) -> bool:
        """Return whether the agent runs the tool, and not the provider."""
        is_call = fields.read_type(block) == "function_call"
        return is_call and not (block.get("informational_only") or block.get("hosted"))

    def is_result(self, block: Any) -> bool:
        """Return whether it is the result of a call."""
        return fields.read_type(block) == "function_result"

    def is_thinking(self, block: Any) -> bool:
        """Return whether it is the model's thinking."""
        return fields.read_type(block) == "text_reasoning"

    def with_id(self, block: Any, id_: str) -> Any:
        """Return the call with this id, or the result to that call."""
        return fields.with_field(block, "call_id", id_)


FORMAT = StoredMessages()


class _Contents(MessageContent):
    """Collects what the contents of a message hold."""

    def add(self, part: Any) -> None:
        """Take in one content."""
        if FORMAT.is_call(part):
            name, arguments = fields.read_text(part, "name"), fields.as_json(part.get("arguments") or "")
            self.calls.append(Call(fields.read_id(part, "call_id"), name, arguments))
        elif FORMAT.is_result(part):
            inner = _Contents().add_all(_list_result_items(part), "items")
            self.add_answer(fields.read_id(part, "call_id"), inner, is_error=bool(part.get("exception")))
        elif FORMAT.is_thinking(part):
            signature = fields.read_text(part, "protected_data")
            self.reasoning.append(Reasoning(fields.read_text(part, "text"), signature))
        elif fields.read_type(part) not in _FRAMEWORK_TYPES:
            super().add(part)

    def read_media(self, part: Any) -> Media | None:
        """Return the media that the content is."""
        return _read_media(part)


def _read_media(part: Any) -> Media | None:
    if fields.read_type(part) not in {"data", "uri", "hosted_file"}:
        return None
    source = fields.read_text(part, "uri") or fields.read_text(part, "file_id")
    mime = fields.read_text(part, "media_type") or read_mime_type(source)
    return Media(find_media_kind(mime), mime, source, name=fields.read_word(part, "name"))


def _list_result_items(result: Any) -> Any:
    """Return the contents of a result; the text of one that has none."""
    return result.get("items") or [{"type": "text", "text": fields.as_json(result.get("result") or "")}]


def _build_result_fields(items: list[Any]) -> dict[str, Any]:
    """Return the two fields of a result: its contents, and their text."""
    texts = [item["text"] for item in items if item["type"] == "text" and item["text"]]
    return {"result": "\n".join(texts), "items": items}


def _edit_content(block: Any, edit: Edit) -> Any:
    """Return one content, edited; the same object when nothing changed."""
    if FORMAT.is_call(block):
        given = block.get("arguments") or ""
        old = fields.as_json(given)
        new = edit(Slot("call", block["call_id"]), old)
        as_given = new if isinstance(given, str) else fields.parse_call_arguments(new)
        return block if new == old else {**block, "arguments": as_given}
    if FORMAT.is_result(block):
        slot, items = Slot("answer", block["call_id"]), _list_result_items(block)
        edited = [_edit_part(item, Editor(edit, text=slot, attached=slot)) for item in items]
        return block if fields.are_same_objects(edited, items) else {**block, **_build_result_fields(edited)}
    if FORMAT.is_thinking(block) or fields.read_type(block) in _FRAMEWORK_TYPES:
        return block
    return _edit_part(block, Editor(edit))


def _edit_part(part: Any, editor: Editor) -> Any:
    if fields.read_type(part) == "text":
        return editor.edit_part(part)
    return editor.edit_other_part(part, _read_media(part))
