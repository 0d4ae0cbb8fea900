"""OpenAI Responses items: messages, calls, outputs, reasoning; dicts and the SDK's output items in one list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from unabridged.formats import older
from unabridged.formats.attached import edit_leaves
from unabridged.formats.base import Edit, Message, Slot, Texts, as_json, get, id_at, kind_of, plain, text_at, word
from unabridged.formats.parts import Content, Hands, Parts, edit_content, plain_text, read_content, spoken_by
from unabridged.messages import Answer, Call, Origin, Reasoning, Role, View

_ROLES: dict[str, tuple[Role, Origin]] = {
    "system": ("system", "host"),
    "developer": ("system", "host"),
    "user": ("user", "person"),
    "assistant": ("assistant", "model"),
}
# type of the call -> the field that holds what the model wrote
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}
_EXTRA = ("actions", "pending_safety_checks", "acknowledged_safety_checks", "namespace", "environment")
_EXTRA_KEYS = frozenset(_EXTRA)
_OUTPUTS = {f"{kind}_output": kind for kind in _CALLS}
# calls that the provider itself answered: the result is inside the item
_SERVER_SIDE = frozenset({
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "mcp_call", "mcp_list_tools", "tool_search_call", "tool_search_output",
})  # fmt: skip


_EDITED = {
    "message": "content",
    "function_call": "arguments",
    "custom_tool_call": "input",
    **dict.fromkeys(_OUTPUTS, "output"),
}
"""Type of the item -> the field with what can be edited. A screenshot can't: only another one may stand there."""
del _EDITED["computer_call_output"]


class OpenAIResponses:
    """The `input` items of the Responses API. One message may be several items: reasoning, calls, text."""

    name = "openai-responses"
    provider = "openai-responses"
    wire = None
    lone_system = False
    merges_turns = False

    def read(self, message: Message) -> View:
        """What the item says."""
        kind = kind_of(message) or "message"
        id_at(message, "id")  # any item may have one, and legality looks at it
        if kind == "reasoning":
            summary = read_content(get(message, "summary"), "summary").text
            shown = read_content(get(message, "content")).text
            sealed = text_at(message, "encrypted_content") or id_at(message, "id")
            return View("assistant", "model", reasoning=(Reasoning(shown or summary, sealed),), glued=True)
        view = _read_other(message, kind)
        changed = view.unread or kind == "computer_call_output"  # whose screenshot was text
        return replace(view, older=older.item(view, message, _SERVER_SIDE)) if changed else view

    def texts(self, message: Message) -> Texts | None:
        """The texts of a plain item, None for any other."""
        kind = message.get("type", "message") if type(message) is dict else None
        if kind == "message":
            role = message["role"]
            text = plain_text(message["content"], spoken_by(role)) if role in _ROLES else None
            return (text, (), ()) if text is not None and _id_is_text(message) else None
        if type(kind) is not str or not _EXTRA_KEYS.isdisjoint(message) or not _id_is_text(message):
            return None
        if type(message["call_id"]) is not str or message.get("role") is not None:
            return None
        if kind == "function_call":
            name, arguments = message["name"], message["arguments"]
            told = type(name) is type(arguments) is str and name and arguments
            return ("", (name, arguments), ()) if told else None
        answered = kind == "function_call_output" and type(message["output"]) is str
        return ("", (), (message["output"],)) if answered else None

    def claims(self, message: Message) -> bool:
        """Items with a `type` of their own are written by this format alone."""
        kind = word(message, "type")
        if kind == "message":
            return get(message, "stop_reason") is None  # which only an Anthropic response has
        if not kind:
            content = get(message, "content")
            return isinstance(content, list) and any(
                word(part, "type") in {"input_text", "output_text", "input_image", "input_file"} for part in content
            )
        return get(message, "role") is None

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """A new message item with just this text."""
        return {"role": role, "content": text}

    def answer(self, calls: tuple[Call, ...], text: str) -> list[Message]:
        """One output item for each function call; other kinds of calls take shapes of their own (see `legal`)."""
        return [{"type": "function_call_output", "call_id": call.id, "output": text} for call in calls]

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed."""
        kind = word(message, "type") or "message"
        if kind in _SERVER_SIDE:
            return edit_leaves(message, lambda text: edit(Slot("attached"), text))
        field, slot, beside = _EDITED.get(kind), Slot("text"), Slot("attached")
        if kind in _CALLS:
            slot = Slot("call", _call_id(message))
        elif kind in _OUTPUTS:
            slot = beside = Slot("answer", _call_id(message))
        old = get(message, field) if field is not None else None
        if field is None or old is None:
            return message
        role = word(message, "role")
        hands = Hands(
            lambda text: edit(slot, text),
            lambda source: edit(Slot("media"), source),
            lambda text: edit(beside, text),
            "output_text" if role == "assistant" else "input_text",
            spoken_by("tool" if kind in _OUTPUTS else role),
        )
        new = edit_content(old, hands)
        return message if new is old else {**plain(message), field: new}

    def without_reasoning(self, message: Message) -> Message | None:
        """None for a reasoning item, every other item as it is."""
        return None if get(message, "type") == "reasoning" else message


def _id_is_text(message: dict[str, Any]) -> bool:
    """Whether the item has no id, or one that is a text."""
    return type(message.get("id", "")) is str


def _call_id(message: Message) -> str:
    return id_at(message, "call_id") or id_at(message, "id")


def _jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value if value is None or isinstance(value, str | dict) else plain(value)


def _read_other(message: Message, kind: str) -> View:
    """A message, a call, an output, a provider's own result, or an item that only the provider reads."""
    if kind in _OUTPUTS:
        return _read_output(message)
    role, origin = _ROLES.get(text_at(message, "role"), ("user", "host"))
    calls: tuple[Call, ...] = ()
    if kind == "message":
        found = read_content(get(message, "content"), spoken=spoken_by(role))
    elif kind in _CALLS:
        role, origin = "assistant", "model"
        wrote = get(message, _CALLS[kind]) or get(message, "actions")
        calls = (Call(_call_id(message), text_at(message, "name") or kind, as_json(_jsonable(wrote))),)
        found = _beside(message).content()
    else:
        role, origin, parts = "assistant", "model", Parts()
        parts.attach(message)
        found = parts.content()
    return View(
        role,
        origin,
        found.text,
        calls,
        media=found.media,
        attached=found.attached,
        sealed=found.sealed,
        unread=found.unread,
        opaque=not (kind == "message" or kind in _CALLS or kind in _SERVER_SIDE),
    )


def _beside(message: Message) -> Parts:
    """What stands in a call or an output besides what was called and what came of it."""
    parts = Parts()
    extra = {key: value for key in _EXTRA if (value := get(message, key))}
    if extra:
        parts.attach(extra)
    return parts


def _read_output(message: Message) -> View:
    output, call_id = get(message, "output"), _call_id(message)
    parts = output if isinstance(output, list) else [output]
    plainly = isinstance(output, str) or output is None or word(message, "type") == "shell_call_output"
    found = Content() if plainly else read_content(parts, "output")
    text, beside = found.every, _beside(message).content()
    if isinstance(output, str) or output is None:
        text = output or ""
    elif not (text or found.media or found.unread):  # the streams of a shell, or nothing
        text = as_json([_jsonable(part) for part in parts])
    return View(
        "tool",
        "tool",
        answers=(Answer(call_id, text),),
        media=found.media,
        sealed=found.sealed,
        attached=beside.attached,
        unread=found.unread + beside.unread,
    )
