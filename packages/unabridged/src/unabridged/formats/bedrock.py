"""Bedrock's Converse: `{"role", "content": [blocks]}`, each block named by its only key. Plain dicts, never converted.

Bedrock demands that the turns alternate, the user's first, with no blank text among them; what it demands of thinking
and of the end of the list is what the Claude behind it demands. The tools go beside the messages, in `toolConfig`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from unabridged.formats import anthropic, fields
from unabridged.formats.base import Edit, Finding, LegalityRule, Message, Outgoing, Provider, Slot
from unabridged.formats.blocks import BlockFormat, find_trailing_space
from unabridged.formats.fields import Unreadable, are_same_objects, as_json, get
from unabridged.formats.parts import ROLES, MessageContent, edit_leaves
from unabridged.formats.rules import begin_with_user, build_message_rule, find_assistant_first, insert_turns
from unabridged.messages import Call, Media, MediaKind, Reasoning, View

_MEDIA_BLOCK_TYPES: tuple[MediaKind, ...] = ("image", "document", "video", "audio")
_OPAQUE_TYPES = frozenset({"toolAddition", "toolRemoval"})
_BLOCK_TYPES = (
    "text", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent",
    "searchResult", "json", *_MEDIA_BLOCK_TYPES, *_OPAQUE_TYPES,
)  # fmt: skip
_UNEDITED_TYPES = _OPAQUE_TYPES | {"reasoningContent", "cachePoint"}
_FIELDS_WITHOUT_TEXT = frozenset({"format", "toolUseId", "name", "status", "type", "citations", "qualifiers"})
"""Fields of blocks that are no text."""
_TEXT_DOCUMENT_TYPES = {"txt": "text/plain", "md": "text/markdown", "html": "text/html", "csv": "text/csv"}
_REQUIRED_FIELDS = {
    "toolUse": ("name", "input"), "toolResult": ("content",), "image": ("format", "source"),
    "document": ("name", "source"), "video": ("format", "source"), "audio": ("format", "source"),
}  # fmt: skip
"""Fields of a block that are not taken as missing, besides ids, which have a rule of their own."""
_OWN_TEXT = Slot("text")


def _find_block_kind(block: Any) -> str:
    """Return the key that names the block; "" for what is none of Converse's."""
    return next((kind for kind in _BLOCK_TYPES if kind in block), "") if isinstance(block, Mapping) else ""


# -- rules -----------------------------------------------------------------------------------------------------------


def _is_blank(block: Any) -> bool:
    return _find_block_kind(block) == "text" and not str(block["text"] or "").strip()


def _is_cache_point(block: Any) -> bool:
    """Return whether the block is no content, but marks how far the cache reaches."""
    return _find_block_kind(block) == "cachePoint"


def _is_silent_error(block: Any) -> bool:
    """Return whether the block says that a tool failed, and no more."""
    result = block["toolResult"] if _find_block_kind(block) == "toolResult" else None
    return result is not None and get(result, "status") == "error" and not get(result, "content")


def _has_late_results(message: Message) -> bool:
    return get(message, "role") == "user" and _FORMAT.has_late_results(message)


def _ends_in_thinking(message: Message) -> bool:
    last = [block for block in _FORMAT.blocks(message) if not _is_cache_point(block)][-1:]
    return any(map(_FORMAT.is_thinking, last))


def _is_unsigned_thinking(block: Any) -> bool:
    return _FORMAT.is_thinking(block) and not _read_thinking(block["reasoningContent"]).signature


def _has_content(message: Message) -> bool:
    return _FORMAT.has_content(_FORMAT.blocks(message))


def _is_claude(outgoing: Outgoing) -> bool:
    return "claude" in (outgoing.model or "").lower()


def _build_block_rule(name: str, is_wrong: Callable[[Any], bool], fault: str) -> LegalityRule:
    """Return a rule on each block of a message."""
    return build_message_rule(name, lambda message: any(map(is_wrong, _FORMAT.blocks(message))), fault)


def _find_turns_that_meet(outgoing: Outgoing) -> Iterator[Finding]:
    """Find turns that follow another of the same side, message by message; system messages do not count."""
    before = ""
    for index, view in enumerate(outgoing.views if outgoing.is_own_format else ()):
        if view.role == before:
            fault = f"follows another of the {before}'s: join them, or part them"
            yield Finding("alternation", index, f"message {index} {fault}")
        before = before if view.role == "system" else view.role


def _find_empty_messages(outgoing: Outgoing) -> Iterator[Finding]:
    messages = outgoing.messages if outgoing.is_own_format else None
    for index, view in enumerate(outgoing.views):
        is_empty = view.is_silent if messages is None else not _has_content(messages[index])
        if is_empty and view.role != "system":
            yield Finding("empty-message", index, f"message {index} ({view.role}) has no content: leave it out")


def _find_unsigned_thinking(outgoing: Outgoing) -> Iterator[Finding]:
    """Find Claude's thinking without its signature; other models' has none."""
    for index, message in outgoing.list_sent_messages() if _is_claude(outgoing) else ():
        if any(map(_is_unsigned_thinking, _FORMAT.blocks(message))):
            fault = "has thinking without a signature: leave the block out"
            yield Finding("unsigned-thinking", index, f"message {index} {fault}")


def _find_surplus_cache_points(outgoing: Outgoing) -> Iterator[Finding]:
    """Find cache points before the last four; those of the system prompt and the tools are not seen here."""
    sent = outgoing.list_sent_messages()
    points = [i for i, message in sent for block in _FORMAT.blocks(message) if _is_cache_point(block)]
    fault = f"{len(points)} cache points, and {anthropic.MAX_CACHE_MARKS} may be: leave out the earlier ones"
    for index in sorted(set(points[: -anthropic.MAX_CACHE_MARKS])):
        yield Finding("cache-marks", index, fault)


class Bedrock(Provider):
    """Converse, with any model behind it."""

    name = "bedrock-converse"
    unique_ids = True
    system_apart = True
    rules = (
        find_assistant_first,
        _find_turns_that_meet,
        _find_empty_messages,
        build_message_rule(
            "content-list",
            lambda message: isinstance(get(message, "content"), str),
            'has a text as its content: put it into a list, [{"text": …}]',
        ),
        _build_block_rule("blank-text", _is_blank, "has a blank text block: leave it out"),
        _build_block_rule(
            "silent-error", _is_silent_error, "has a toolResult with the status error and no content: say what failed"
        ),
        build_message_rule(
            "results-first", _has_late_results, "has a toolResult behind other blocks: put results first"
        ),
        build_message_rule("thinking-last", _ends_in_thinking, "ends in thinking: leave the block out"),
        find_trailing_space,
        _find_unsigned_thinking,
        anthropic.find_late_thinking,
        _find_surplus_cache_points,
        anthropic.find_misplaced_systems,
        anthropic.find_prefill,
    )

    def remove_refused(self, outgoing: Outgoing) -> Outgoing:
        """Leave out empty messages, and blocks that are refused for themselves."""
        if not outgoing.is_own_format:
            return outgoing.without_messages(lambda _, view: view.role != "system" and view.is_silent)
        cleaned = [_clean_blocks(message, outgoing) for _, message in outgoing.list_sent_messages()]
        return outgoing.with_messages(list(filter(_has_content, cleaned)))

    def arrange(self, outgoing: Outgoing) -> Outgoing:
        """Put a user's turn first and, where the model demands it, last; part turns that meet."""
        if not outgoing.is_own_format:
            return begin_with_user(outgoing)
        # A result that was left out may have left a cache point alone.
        messages = outgoing.messages or ()
        outgoing = begin_with_user(outgoing.without_messages(lambda i, _: not _has_content(messages[i])))
        if any(find_trailing_space(outgoing)):
            *before, last = outgoing.messages or ()
            outgoing = outgoing.with_messages([*before, _strip_trailing_space(last)])
        outgoing = anthropic.arrange_for_claude(outgoing)
        meeting = [(finding.index, outgoing.views[finding.index].role) for finding in _find_turns_that_meet(outgoing)]
        outgoing = insert_turns(outgoing, {i: "assistant" if role == "user" else "user" for i, role in meeting})
        has_surplus = any(_find_surplus_cache_points(outgoing))
        return outgoing.with_messages(_drop_early_points(outgoing.messages or ())) if has_surplus else outgoing


def _clean_blocks(message: Message, outgoing: Outgoing) -> Message:
    """Return the message with no block that is refused for itself; as it is when there was none."""
    blocks, signs = _FORMAT.blocks(message), _is_claude(outgoing)
    kept = [block for block in blocks if not (_is_blank(block) or (signs and _is_unsigned_thinking(block)))]
    if anthropic.must_think_first(outgoing.model) and _FORMAT.has_late_thinking(kept):
        kept.sort(key=lambda block: not _FORMAT.is_thinking(block))
    while _ends_in_thinking({"content": kept}):
        kept = [*kept[: max(i for i, block in enumerate(kept) if _FORMAT.is_thinking(block))]]
    kept = [_explain_error(block) if _is_silent_error(block) else block for block in kept]
    same = are_same_objects(kept, blocks) and not isinstance(get(message, "content"), str)
    return message if same else _FORMAT.with_blocks(message, kept)


def _explain_error(block: Any) -> Any:
    return {"toolResult": {**block["toolResult"], "content": [{"text": "[It failed, and said nothing.]"}]}}


def _strip_trailing_space(message: Message) -> Message:
    *before, last = _FORMAT.blocks(message)
    return _FORMAT.with_blocks(message, [*before, {"text": last["text"].rstrip()}])


def _drop_early_points(messages: Iterable[Message]) -> list[Message]:
    """Return the messages with the last four cache points and no others."""
    contents = [(message, _FORMAT.blocks(message)) for message in messages]
    points = sum(_is_cache_point(block) for _, blocks in contents for block in blocks)
    surplus = iter(range(points - anthropic.MAX_CACHE_MARKS))
    left: list[Message] = []
    for message, blocks in contents:
        kept = [block for block in blocks if not _is_cache_point(block) or next(surplus, None) is None]
        left.append(message if len(kept) == len(blocks) else _FORMAT.with_blocks(message, kept))
    return left


# -- reading and making ----------------------------------------------------------------------------------------------


class BedrockConverse(BlockFormat):
    """The messages of a Converse request. All results of a turn's calls ride in the user's next message."""

    name = "bedrock-converse"
    provider = Bedrock()
    answers_by = "toolUseId"
    lone_system = True
    alternates = True
    thinking = "signed"
    roles = frozenset({"user", "assistant", "system"})

    def read(self, message: Message) -> View:
        """Return the view of the message."""
        fields.read_type(message)
        role, origin = ROLES.get(fields.read_text(message, "role"), ("user", "person"))
        content = _ConverseBlocks(role).add_all(get(message, "content"))
        return content.build_view(role, "tool" if content.has_only_answers else origin)

    def claims(self, message: Message) -> bool:
        """Return whether its blocks are named by their key and have no `type`: this format alone writes such."""
        content = get(message, "content")
        if not isinstance(content, list) or fields.read_word(message, "role") not in {"user", "assistant", "system"}:
            return False
        return any(_find_block_kind(block) and not fields.read_word(block, "type") for block in content)

    def text(self, role: Any, text: str) -> Message:
        """Return a new message with just this text."""
        return {"role": role, "content": [{"text": text}]}

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a user message with a result, marked as an error."""
        result = {"toolUseId": call.id, "content": [{"text": text}], "status": "error"}
        return {"role": "user", "content": [{"toolResult": result}]}

    def missing(self, message: Message) -> Iterator[str]:
        """Yield the fields that are not there, of the blocks of the message."""
        for place, block in fields.enumerate_items(message, "content"):
            kind = _find_block_kind(block)
            yield from fields.find_absent(get(block, kind), *_REQUIRED_FIELDS.get(kind, ()), at=f"{place}.{kind}")

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        blocks = self.blocks(message)
        edited = [_edit_block(block, edit) for block in blocks]
        return message if are_same_objects(edited, blocks) else self.with_blocks(message, edited)

    def tool_schema(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return a tool as a request offers it to the model."""
        return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": parameters}}}

    def is_call(self, block: Any) -> bool:
        """Return whether the caller runs the tool: a provider's own stands, result and all, in the model's turn."""
        return _find_block_kind(block) == "toolUse" and fields.read_word(block["toolUse"], "type") != "server_tool_use"

    def is_result(self, block: Any) -> bool:
        """Return whether the block is a tool's result."""
        return _find_block_kind(block) == "toolResult"

    def is_thinking(self, block: Any) -> bool:
        """Return whether the block is the model's thinking."""
        return _find_block_kind(block) == "reasoningContent"

    def read_block_text(self, block: Any) -> str:
        """Return the text of a text block; "" of any other."""
        return str(block["text"]) if _find_block_kind(block) == "text" else ""

    def has_content(self, blocks: Sequence[Any]) -> bool:
        """Return whether there is more than cache points."""
        return not all(map(_is_cache_point, blocks))

    def with_id(self, block: Any, id_: str) -> Any:
        """Return the call with this id, or the result to that call."""
        kind = _find_block_kind(block)
        return {kind: {**block[kind], "toolUseId": id_}}


_FORMAT: BedrockConverse = BedrockConverse()


# -- reading ---------------------------------------------------------------------------------------------------------


def _read_block_body(block: Any, kind: str) -> Any:
    """Return what the block of this kind holds: an object, but for text and JSON."""
    inside = block[kind] if kind else None
    if kind and kind not in {"text", "json"} and not isinstance(inside, Mapping):
        raise Unreadable(kind, inside, "an object")
    return inside


def _select_attached_fields(block: Any) -> dict[str, Any]:
    """Return the fields of a block in which there may be text that nobody says."""
    kind = _find_block_kind(block)
    inside = block.get(kind) if kind else block
    inside = get(inside, "text") if kind == "guardContent" else inside
    holder = inside if isinstance(inside, Mapping) else block
    return {key: value for key, value in holder.items() if key not in _FIELDS_WITHOUT_TEXT}


def _read_thinking(thinking: Any) -> Reasoning:
    """Return a thought, or one that only the provider can read."""
    sealed = get(thinking, "redactedContent")
    if sealed is not None:
        return Reasoning("", b64encode(sealed).decode() if isinstance(sealed, bytes | bytearray) else str(sealed))
    thought = get(thinking, "reasoningText") or {}
    return Reasoning(fields.read_text(thought, "text"), fields.read_text(thought, "signature"))


def _read_media(block: Any) -> Media | None:
    """Return the image, sound, film or document that the block is; None where it is made of text, or is no such."""
    kind = next((kind for kind in _MEDIA_BLOCK_TYPES if kind in block), None)
    if kind is None:
        return None
    media = block[kind]
    source, form = get(media, "source") or {}, fields.read_text(media, "format")
    if get(source, "text") is not None or get(source, "content") is not None:
        return None
    data = get(source, "bytes")
    data = b64encode(data).decode() if isinstance(data, bytes | bytearray) else fields.read_text(source, "bytes")
    data = data or fields.read_text(get(source, "s3Location") or get(source, "location") or {}, "uri")
    mime = _TEXT_DOCUMENT_TYPES.get(form) or f"{'application' if kind == 'document' else kind}/{form}"
    return Media(kind, mime if form else "", data, name=fields.read_text(media, "name"))


class _ConverseBlocks(MessageContent):
    """What the blocks of one message, or of one result, say."""

    def __init__(self, role: str = "tool") -> None:
        super().__init__()
        self.role = role

    def add(self, part: Any) -> None:
        """Take one block in."""
        if isinstance(part, str):
            self.add_text(part)
            return
        fields.read_type(part)
        kind = _find_block_kind(part)
        inside = _read_block_body(part, kind)
        if kind == "text":
            self.add_text(fields.read_text(part, "text"))
        elif kind == "json":
            self.add_text(as_json(inside))
        elif _FORMAT.is_call(part):
            arguments = as_json(get(inside, "input") or {})
            self.calls.append(Call(fields.read_id(inside, "toolUseId"), fields.read_text(inside, "name"), arguments))
        elif kind == "toolResult" and self.role == "user":
            result = _ConverseBlocks().add_all(fields.read_list(inside, "content"), "toolResult.content")
            self.add_answer(fields.read_id(inside, "toolUseId"), result, is_error=get(inside, "status") == "error")
        elif kind == "reasoningContent":
            self.reasoning.append(_read_thinking(inside))
        elif _is_authors_text(kind, inside):
            self._add_inner_text(part, inside)
        elif (media := _read_media(part)) is not None:
            self.media.append(media)
        elif kind != "cachePoint":
            self.opaque = self.opaque or kind in _OPAQUE_TYPES
            self.add_attached(_select_attached_fields(part))

    def _add_inner_text(self, part: Any, inside: Any) -> None:
        """Take in the author's own words in a block that says more about them."""
        if (media := _read_media(inside)) is not None:
            self.media.append(media)
            return
        text = get(inside, "text")
        for piece in fields.read_list(inside, "content") if text is None else [text]:
            self.add_text(fields.read_text(piece, "text"))
        self.others.append(part)


def _is_authors_text(kind: str, inside: Any) -> bool:
    """Return whether the texts in the block are its author's words: with citations, or looked at by a guardrail.

    A guarded text may also be what an answer is checked against: nobody's words.
    """
    if kind == "guardContent":
        return "grounding_source" not in (get(get(inside, "text"), "qualifiers") or ())
    return kind == "citationsContent"


# -- editing ---------------------------------------------------------------------------------------------------------


def _edit_block(block: Any, edit: Edit, own: Slot = _OWN_TEXT) -> Any:
    """Return the block, edited; `own` is the slot of the texts that the author of the message, or the tool, says."""
    kind = _find_block_kind(block)
    if kind in {"text", "json"}:
        old = as_json(block[kind])
        new = edit(own, old) if old else old
        return block if new == old else {"text": new}
    if _FORMAT.is_call(block):
        return _edit_call(block, edit)
    if kind == "toolResult" and own is _OWN_TEXT:
        return _edit_result(block, edit)
    if kind in _UNEDITED_TYPES:
        return block
    media = _read_media(block[kind] if kind == "guardContent" else block)
    if media is not None:
        new = edit(Slot("media"), media.source)
        return block if new == media.source else {"text": new}
    return _edit_inside(block, kind, edit, own)


def _edit_call(block: Any, edit: Edit) -> Any:
    call = block["toolUse"]
    old = as_json(get(call, "input") or {})
    new = edit(Slot("call", fields.read_id(call, "toolUseId")), old)
    return block if new == old else {"toolUse": {**call, "input": json.loads(new)}}


def _edit_result(block: Any, edit: Edit) -> Any:
    result = block["toolResult"]
    content, slot = fields.read_list(result, "content"), Slot("answer", fields.read_id(result, "toolUseId"))
    edited = [_edit_block(item, edit, slot) for item in content]
    return block if are_same_objects(edited, content) else {"toolResult": {**result, "content": edited}}


def _edit_inside(block: Any, kind: str, edit: Edit, own: Slot) -> Any:
    """Return a block that holds texts in fields of its own, with these edited where they stand."""
    if not kind:
        return edit_leaves(block, lambda text: edit(Slot("attached"), text))
    inside = block[kind]
    slot = own if _is_authors_text(kind, inside) or own.kind == "answer" else Slot("attached")
    texts = _select_attached_fields(block)
    edited = edit_leaves(texts, lambda text: edit(slot, text))
    if edited is texts:
        return block
    return {kind: {"text": {**inside["text"], **edited}} if kind == "guardContent" else {**inside, **edited}}
