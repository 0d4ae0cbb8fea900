"""OpenAI Responses items: messages, calls, outputs, reasoning; dicts and the SDK's output items in one list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from unabridged.formats import fields, parts
from unabridged.formats.base import Edit, Finding, Format, Message, Outgoing, Provider, Slot
from unabridged.formats.fields import as_json, get, to_plain_dict, with_field
from unabridged.formats.parts import ROLES, Editor, MessageContent
from unabridged.messages import Call, Reasoning, View

# type of the call -> the field that holds what the model wrote
_CALL_FIELDS = {
    "function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action", "shell_call": "action",
    "computer_call": "action", "apply_patch_call": "operation",
}  # fmt: skip
_EXTRA_FIELDS = ("actions", "pending_safety_checks", "acknowledged_safety_checks", "namespace", "environment")
_OUTPUT_TYPES = frozenset(f"{kind}_output" for kind in _CALL_FIELDS)
# calls that the provider itself answered: the result is inside the item
_SERVER_TOOL_ITEMS = frozenset({
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "mcp_call", "mcp_list_tools", "tool_search_call", "tool_search_output",
})  # fmt: skip
_TYPES_THAT_NEED_ID = frozenset({
    "reasoning", "file_search_call", "web_search_call", "code_interpreter_call", "image_generation_call",
    "computer_call", "local_shell_call", "mcp_call", "mcp_list_tools", "mcp_approval_request", "item_reference",
    "program", "program_output",
})  # fmt: skip
"""Items that are not taken without an `id`."""
_PLACEHOLDER_ID = "__fake_id__"
"""Stands for an id in items of the Agents SDK that another provider wrote; it is taken out before they are sent."""
_REQUIRED_FIELDS = {
    "function_call": ("name", "arguments"), "custom_tool_call": ("name", "input"), "reasoning": ("summary",),
    **dict.fromkeys(_OUTPUT_TYPES, ("output",)),
}  # fmt: skip
"""Fields of an item that are not taken as missing; those of a message have a rule of their own."""
_EDITABLE_FIELDS = {
    "message": "content", "function_call": "arguments", "custom_tool_call": "input",
    **dict.fromkeys(_OUTPUT_TYPES - {"computer_call_output"}, "output"),
}  # fmt: skip
"""Type of the item -> the field with what can be edited. A screenshot can't: only another one may stand there."""


# -- what is refused -------------------------------------------------------------------------------------------------


def _find_duplicate_items(outgoing: Outgoing) -> Iterator[Finding]:
    """Find items that repeat the `id` of another."""
    seen: set[str] = set()
    for index, item in outgoing.list_sent_messages():
        id_ = get(item, "id")
        if not id_ or id_ == _PLACEHOLDER_ID or get(item, "type") == "local_shell_call_output":
            continue  # the `id` of the last is the call's
        if id_ in seen:
            fault = f"repeats the id {id_!r}: leave the id out, or the item if it is the same one"
            yield Finding("duplicate-item", index, f"item {index} {fault}")
        seen.add(id_)


def _find_lone_reasoning(outgoing: Outgoing) -> Iterator[Finding]:
    """Find reasoning that does not stand before what the model then wrote; several in a row share what follows."""
    is_followed = False
    for index in range(len(outgoing.views) - 1, -1, -1):
        if not outgoing.views[index].glued:
            is_followed = outgoing.views[index].role == "assistant"
        elif not is_followed:
            fault = "is not followed by what it led to: leave it out, or bring back what followed"
            yield Finding("lone-reasoning", index, f"reasoning item {index} {fault}")


class Responses(Provider):
    """OpenAI's endpoint: it pairs calls and outputs by `call_id`, wherever they stand."""

    name = "openai-responses"
    unique_ids = True
    pairs_anywhere = True
    rules = (_find_duplicate_items, _find_lone_reasoning)

    def remove_refused(self, outgoing: Outgoing) -> Outgoing:
        """Leave out an item that comes again; any other one with the `id` of another loses it, or gets a new one.

        Calls and outputs are paired by `call_id`: none goes for its `id`.
        """
        repeated = {finding.index for finding in _find_duplicate_items(outgoing)}
        if not repeated:
            return outgoing
        taken = {get(item, "id") for _, item in outgoing.list_sent_messages()}
        first: dict[str, Message] = {}
        kept: list[Message] = []
        for index, item in outgoing.list_sent_messages():
            view, id_ = outgoing.views[index], get(item, "id")
            if index not in repeated:
                first.setdefault(id_ or "", item)
                kept.append(item)
            elif view.calls or view.answers or parts.compute_digest([item]) != parts.compute_digest([first[id_]]):
                bare = {key: value for key, value in to_plain_dict(item).items() if key != "id"}
                if get(item, "type") in _TYPES_THAT_NEED_ID:
                    bare["id"] = next(new for n in count(2) if (new := f"{id_}_{n}") not in taken)
                    taken.add(bare["id"])
                kept.append(bare)
        return outgoing.with_messages(kept)

    def arrange(self, outgoing: Outgoing) -> Outgoing:
        """Leave out reasoning that led to nothing."""
        alone = {finding.index for finding in _find_lone_reasoning(outgoing)} if outgoing.is_own_format else set()
        return outgoing.without_messages(lambda index, _: index in alone)


# -- reading and making ----------------------------------------------------------------------------------------------


class OpenAIResponses(Format):
    """The `input` items of the Responses API. One message may be several items: reasoning, calls, text."""

    name = "openai-responses"
    provider = Responses()
    answers_by = "call_id"
    items = True
    thinking = "glued"
    family = "openai"
    roles = frozenset(ROLES)

    def read(self, message: Message) -> View:
        """Return the view of the item."""
        kind = fields.read_type(message) or "message"
        fields.read_id(message, "id")  # any item may have one, and legality looks at it
        if kind == "reasoning":
            summary = MessageContent().add_all(get(message, "summary"), "summary").text
            shown = MessageContent().add_all(get(message, "content")).text
            sealed = fields.read_text(message, "encrypted_content") or fields.read_id(message, "id")
            return View("assistant", "model", reasoning=(Reasoning(shown or summary, sealed),), glued=True)
        return _read_output(message) if kind in _OUTPUT_TYPES else _read_other_item(message, kind)

    def claims(self, message: Message) -> bool:
        """Return whether the item has a `type` of its own: this format alone writes such."""
        kind = fields.read_word(message, "type")
        if kind == "message":
            return get(message, "stop_reason") is None  # which only an Anthropic response has
        if not kind:
            content = get(message, "content")
            return isinstance(content, list) and any(
                fields.read_word(part, "type") in {"input_text", "output_text", "input_image", "input_file"}
                for part in content
            )
        return get(message, "role") is None

    def takes_role(self, message: Message) -> bool:
        """Return whether the item is no message, or has a role that the provider knows."""
        return not _is_message(message) or super().takes_role(message)

    def missing(self, message: Message) -> Iterator[str]:
        """Yield the fields that are not there: of messages, calls and outputs, and a reasoning item's summary."""
        if _is_message(message):
            yield from fields.find_absent(message, "content")
            yield from parts.find_missing_fields(message)
        yield from fields.find_absent(message, *_REQUIRED_FIELDS.get(fields.read_word(message, "type"), ()))

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        kind = fields.read_word(message, "type") or "message"
        if kind in _SERVER_TOOL_ITEMS:
            return parts.edit_leaves(message, lambda text: edit(Slot("attached"), text))
        field = _EDITABLE_FIELDS.get(kind)
        if field is None or (old := get(message, field)) is None:
            return message
        role = fields.read_word(message, "role")
        text_type = "output_text" if role == "assistant" else "input_text"
        spoken = parts.find_spoken_types("tool" if kind in _OUTPUT_TYPES else role)
        editor = Editor(edit, spoken=spoken, text_type=text_type)
        if kind in _CALL_FIELDS:
            editor = editor._replace(text=Slot("call", _read_call_id(message)))
        elif kind in _OUTPUT_TYPES:
            slot = Slot("answer", _read_call_id(message))
            editor = editor._replace(text=slot, attached=slot)
        return with_field(message, field, editor.content(old))

    def without_reasoning(self, message: Message) -> Message | None:
        """Return None for a reasoning item, every other item as it is."""
        return None if get(message, "type") == "reasoning" else message

    def tool_schema(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return a tool as a request offers it: not strict, since strict knows no optional arguments."""
        tool = {"type": "function", "name": name, "description": description, "parameters": parameters}
        return {**tool, "strict": False}

    def with_call_ids(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """Return the item with another call_id and without its `id`, which the provider knows with the old one."""
        if ids[0] is None:
            return None
        return {key: value for key, value in {**to_plain_dict(raw), "call_id": ids[0]}.items() if key != "id"}

    def with_answered_id(self, raw: Message, id_: str) -> Message:
        """Return the output, to this call."""
        return {**to_plain_dict(raw), "id" if get(raw, "type") == "local_shell_call_output" else "call_id": id_}

    def answer(self, call: Call, message: Message, text: str) -> Message | None:
        """Return an output in the shape that this kind of call takes; None when only a screenshot would do."""
        kind = get(message, "type")
        if kind == "computer_call":
            return None
        if kind == "local_shell_call":
            return {"type": "local_shell_call_output", "id": call.id, "output": text}
        output: dict[str, Any] = {"type": f"{kind}_output", "call_id": call.id, "output": text}
        if kind == "shell_call":
            output["output"] = [{"stdout": "", "stderr": text, "outcome": {"type": "exit", "exit_code": 1}}]
        elif kind == "apply_patch_call":
            output["status"] = "failed"
        return output


def _is_message(item: Message) -> bool:
    """Return whether the item is a message; one with an id alone refers to an item that the provider stored."""
    alone = get(item, "id") is not None and get(item, "role") is None and get(item, "content") is None
    return fields.read_word(item, "type") in {"", "message"} and not (alone and get(item, "type") is None)


def _read_call_id(message: Message) -> str:
    return fields.read_id(message, "call_id") or fields.read_id(message, "id")


def _to_plain_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_plain_json(item) for item in value]
    return to_plain_dict(value) if hasattr(value, "model_dump") else value


def _read_other_item(message: Message, kind: str) -> View:
    """Return the view of a message, a call, a provider's own result, or an item that only the provider reads."""
    role, origin = ROLES.get(fields.read_text(message, "role"), ("user", "host"))
    content = MessageContent(parts.find_spoken_types(role))
    if kind == "message":
        return content.add_all(get(message, "content")).build_view(role, origin)
    if kind in _CALL_FIELDS:
        written = get(message, _CALL_FIELDS[kind]) or get(message, "actions")
        name = fields.read_text(message, "name") or kind
        content.calls = [Call(_read_call_id(message), name, as_json(_to_plain_json(written)))]
        _attach_extra(content, message)
    else:
        content.add_attached(message)
        content.opaque = kind not in _SERVER_TOOL_ITEMS
    return content.build_view("assistant", "model")


def _attach_extra(content: MessageContent, message: Message) -> None:
    """Take in what stands in a call or an output besides what was called and what came of it."""
    extra = {key: value for key in _EXTRA_FIELDS if (value := get(message, key))}
    if extra:
        content.add_attached(extra)


def _read_output(message: Message) -> View:
    output, content, extra = get(message, "output"), MessageContent(), MessageContent()
    _attach_extra(extra, message)
    if output is None or isinstance(output, str):
        content.add_text(output or "")
    else:
        pieces = output if isinstance(output, list) else [output]
        if fields.read_word(message, "type") != "shell_call_output":
            content.add_all(pieces, "output")
        if not (content.every or content.media or content.others):  # the streams of a shell, or nothing
            content.add_text(as_json([_to_plain_json(part) for part in pieces]))
    view = content.build_answer_view(_read_call_id(message))
    if not extra.others:
        return view
    digest = view.unread_digest + parts.compute_digest(extra.others)
    return replace(view, attached=tuple(extra.attached), unread_digest=digest)
