"""Bedrock's Converse: `{"role", "content": [blocks]}`, each block named by its only key. Plain dicts, never converted.

`bedrock_rules` says what is refused and mends it; the tools go beside the messages, in `toolConfig`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unabridged.formats.base import Edit, Format, Message, Slot, Texts, Unit
from unabridged.formats.bedrock_rules import (
    MEDIA,
    OPAQUE,
    Bedrock,
    block_kind,
    blocks_of,
    has_nothing,
    is_call,
    is_result,
    read_thought,
    thinks,
    with_blocks,
)
from unabridged.formats.fields import (
    Unreadable,
    absent,
    as_json,
    get,
    id_at,
    kind_of,
    list_at,
    numbered,
    same_objects,
    text_at,
    word,
)
from unabridged.formats.parts import ROLES, Content, edit_leaves
from unabridged.formats.rule_blocks import join_results, split_results
from unabridged.messages import Answer, Call, Media, Reasoning, View

_TEXT_DOCUMENTS = {"txt": "text/plain", "md": "text/markdown", "html": "text/html", "csv": "text/csv"}
_FIXED = frozenset({"format", "toolUseId", "name", "status", "type", "citations", "qualifiers"})
"""Fields of blocks that are no text."""
_UNTOUCHED = OPAQUE | {"reasoningContent", "cachePoint"}
_OWN = Slot("text")
_REQUIRED = {
    "toolUse": ("name", "input"), "toolResult": ("content",), "image": ("format", "source"),
    "document": ("name", "source"), "video": ("format", "source"), "audio": ("format", "source"),
}  # fmt: skip
"""Fields of a block that are not taken as missing, besides ids, which have a rule of their own."""


class BedrockConverse(Format):
    """The messages of a Converse request. All results of a turn's calls ride in the user's next message."""

    name = "bedrock-converse"
    provider = Bedrock()
    answers_by = "toolUseId"
    lone_system = True
    alternates = True
    thinking = "signed"
    roles = frozenset({"user", "assistant", "system"})

    def read(self, message: Message) -> View:
        """The view of the message."""
        kind_of(message)
        role, origin = ROLES.get(text_at(message, "role"), ("user", "person"))
        found = _Blocks(role).add_all(get(message, "content"))
        return View(
            role,
            "tool" if found.answers and not found.text else origin,
            found.text,
            calls=tuple(found.calls),
            answers=tuple(found.answers),
            reasoning=tuple(found.reasoning),
            attached=tuple(found.attached),
            opaque=found.opaque,
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
            ((kind, held),) = block.items()
            if kind == "text" and type(held) is str and held:
                said.append(held)
            elif kind == "toolUse" and type(held["toolUseId"]) is type(held["name"]) is str and "type" not in held:
                calls += (held["name"], as_json(held["input"] or {}))
            elif kind == "toolResult" and message["role"] == "user" and type(held["toolUseId"]) is str:
                answers.append(_plain_text(held["content"]))
            else:
                return None
        return ("\n".join(said), tuple(calls), tuple(answers)) if type(content) is list else None

    def claims(self, message: Message) -> bool:
        """Blocks that are named by their key, and have no `type`, are written by this format alone."""
        content = get(message, "content")
        if not isinstance(content, list) or word(message, "role") not in {"user", "assistant", "system"}:
            return False
        return any(block_kind(block) and not word(block, "type") for block in content)

    def text(self, role: Any, text: str) -> Message:
        """A new message with just this text."""
        return {"role": role, "content": [{"text": text}]}

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """A user message with a result, marked as an error."""
        result = {"toolUseId": call.id, "content": [{"text": text}], "status": "error"}
        return {"role": "user", "content": [{"toolResult": result}]}

    def missing(self, message: Message) -> Iterator[str]:
        """The fields that are not there, of the blocks of the message."""
        for place, block in numbered(message, "content"):
            kind = block_kind(block)
            yield from absent(get(block, kind), *_REQUIRED.get(kind, ()), at=f"{place}.{kind}")

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed."""
        content = blocks_of(message)
        edited = [_edit_block(block, edit) for block in content]
        return message if same_objects(edited, content) else with_blocks(message, edited)

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without its thinking blocks; the same object when it has none; None when nothing would be left."""
        content = blocks_of(message)
        kept = [block for block in content if not thinks(block)]
        if len(kept) == len(content):
            return message
        return None if has_nothing({"content": kept}) else with_blocks(message, kept)

    def tool_schema(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """A tool as a request offers it to the model."""
        return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": parameters}}}

    def split(self, index: int, message: Message, view: View) -> list[Unit]:
        """One unit, unless it carries results: then each of these, and what stands between them."""
        return split_results(index, message, view, is_result)

    def join(self, units: Sequence[Unit], messages: Sequence[Message]) -> list[Message]:
        """Results in a row stand in one message; the rest of the messages they came from follows them there."""
        return join_results(units, messages, with_blocks)

    def with_calls(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """The message with these ids for its calls; None when nothing but thinking remains."""
        left = iter(ids)
        blocks = []
        for block in blocks_of(raw):
            if not is_call(block):
                blocks.append(block)
            elif (id_ := next(left)) is not None:
                blocks.append({"toolUse": {**block["toolUse"], "toolUseId": id_}})
        spoken = [block for block in blocks if not thinks(block)]
        return None if has_nothing({"content": spoken}) else with_blocks(raw, blocks)

    def with_address(self, raw: list[Any], id_: str) -> list[Any]:
        """The result, to this call."""
        return [{"toolResult": {**block["toolResult"], "toolUseId": id_}} for block in raw]


def _plain_text(content: list[dict[str, str]]) -> str:
    """The text of a result that holds nothing else; a `ValueError` or `TypeError` for any other."""
    if type(content) is not list:
        raise TypeError(content)
    items = [item for ((*item,),) in (part.items() for part in content)]
    if any(kind != "text" or type(text) is not str for kind, text in items):
        raise TypeError(content)
    return "\n".join(text for _, text in items if text)


# -- reading ---------------------------------------------------------------------------------------------------------


def _texts_inside(block: Any) -> dict[str, Any]:
    """The fields of a block in which there may be text that nobody says."""
    kind = block_kind(block)
    inner = block.get(kind) if kind else block
    inner = get(inner, "text") if kind == "guardContent" else inner
    held = inner if isinstance(inner, Mapping) else block
    return {key: value for key, value in held.items() if key not in _FIXED}


def _read_media(block: Any) -> Media | None:
    """The image, sound, film or document that the block is; None where it is made of text, or is no such thing."""
    name = next((name for name in MEDIA if name in block), None)
    if name is None:
        return None
    held = block[name]
    source, form = get(held, "source") or {}, text_at(held, "format")
    if get(source, "text") is not None or get(source, "content") is not None:
        return None
    data = get(source, "bytes")
    if isinstance(data, bytes | bytearray):
        data = b64encode(data).decode()
    data = data or text_at(get(source, "s3Location") or get(source, "location") or {}, "uri")
    mime = _TEXT_DOCUMENTS.get(form) or f"{'application' if name == 'document' else name}/{form}"
    return Media(name, mime if form else "", data, name=text_at(held, "name"))


def _held(block: Any, kind: str) -> Any:
    """What the block of this kind holds: an object, but for text and JSON."""
    held = block[kind] if kind else None
    if kind and kind not in {"text", "json"} and not isinstance(held, Mapping):
        raise Unreadable(kind, held, "an object")
    return held


class _Blocks(Content):
    """Collects what the blocks of one message, or of one result, say."""

    def __init__(self, role: str = "tool") -> None:
        super().__init__()
        self.role = role
        self.calls: list[Call] = []
        self.answers: list[Answer] = []
        self.reasoning: list[Reasoning] = []
        self.opaque = False

    def add(self, part: Any) -> None:
        """Take one block in."""
        if isinstance(part, str):
            self.say(part)
            return
        kind_of(part)
        kind = block_kind(part)
        held = _held(part, kind)
        if kind == "text":
            self.say(text_at(part, "text"))
        elif kind == "json":
            self.say(as_json(held))
        elif is_call(part):
            self.calls.append(Call(id_at(held, "toolUseId"), text_at(held, "name"), as_json(get(held, "input") or {})))
        elif kind == "toolResult" and self.role == "user":
            self._answer(held)
        elif kind == "reasoningContent":
            self.reasoning.append(read_thought(held))
        elif kind == "citationsContent" or (kind == "guardContent" and not _is_source(held)):
            self._say_inside(part, held)
        elif (media := _read_media(part)) is not None:
            self.media.append(media)
        elif kind != "cachePoint":
            self.opaque = self.opaque or kind in OPAQUE
            self.attach(_texts_inside(part))

    def _say_inside(self, part: Any, held: Any) -> None:
        """The author's own words in a block that says more about them: citations, or what a guardrail looks at."""
        if (media := _read_media(held)) is not None:
            self.media.append(media)
            return
        for piece in _spoken_pieces(held):
            self.say(text_at(piece, "text"))
        self.others.append(part)

    def _answer(self, held: Any) -> None:
        inner = _Blocks().add_all(list_at(held, "content"), "toolResult.content")
        self.answers.append(Answer(id_at(held, "toolUseId"), inner.every_text, get(held, "status") == "error"))
        self.media += inner.media
        self.sealed += inner.sealed
        self.others += inner.others


def _is_source(guarded: Any) -> bool:
    """Whether a guarded text is what an answer is checked against, and nobody's words."""
    return "grounding_source" in (get(get(guarded, "text"), "qualifiers") or ())


def _spoken_pieces(held: Any) -> list[Any]:
    return [*list_at(held, "content")] if get(held, "text") is None else [get(held, "text")]


# -- editing ---------------------------------------------------------------------------------------------------------


def _edit_block(block: Any, edit: Edit, own: Slot = _OWN) -> Any:
    """The block, edited; `own` is the slot of the texts that the author of the message, or the tool, says."""
    kind = block_kind(block)
    if kind in {"text", "json"}:
        old = as_json(block[kind])
        new = edit(own, old) if old else old
        return block if new == old else {"text": new}
    if is_call(block):
        return _edit_call(block, edit)
    if kind == "toolResult" and own is _OWN:
        return _edit_result(block, edit)
    if kind in _UNTOUCHED:
        return block
    media = _read_media(block[kind] if kind == "guardContent" else block)
    if media is not None:
        new = edit(Slot("media"), media.source)
        return block if new == media.source else {"text": new}
    return _edit_inside(block, kind, edit, own)


def _edit_call(block: Any, edit: Edit) -> Any:
    held = block["toolUse"]
    old = as_json(get(held, "input") or {})
    new = edit(Slot("call", id_at(held, "toolUseId")), old)
    return block if new == old else {"toolUse": {**held, "input": json.loads(new)}}


def _edit_result(block: Any, edit: Edit) -> Any:
    held = block["toolResult"]
    content, slot = list_at(held, "content"), Slot("answer", id_at(held, "toolUseId"))
    edited = [_edit_block(item, edit, slot) for item in content]
    return block if same_objects(edited, content) else {"toolResult": {**held, "content": edited}}


def _edit_inside(block: Any, kind: str, edit: Edit, own: Slot) -> Any:
    """A block that holds texts in fields of its own, with these edited where they stand."""
    if not kind:
        return edit_leaves(block, lambda text: edit(Slot("attached"), text))
    held = block[kind]
    spoken = kind == "citationsContent" or (kind == "guardContent" and not _is_source(held))
    slot = own if spoken or own.kind == "answer" else Slot("attached")
    texts = _texts_inside(block)
    edited = edit_leaves(texts, lambda text: edit(slot, text))
    if edited is texts:
        return block
    return {kind: {"text": {**held["text"], **edited}} if kind == "guardContent" else {**held, **edited}}
