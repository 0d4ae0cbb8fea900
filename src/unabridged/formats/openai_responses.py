"""OpenAI Responses items: messages, calls, outputs, reasoning; dicts and the SDK's output items in one list."""

from __future__ import annotations

from typing import Any, Literal

from unabridged.formats.base import Edit, Message, Slot, as_json, get, id_at, kind_of, plain, text_at, word
from unabridged.formats.parts import edit_content, read_content
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
_OUTPUTS = {f"{kind}_output": kind for kind in _CALLS}
# calls that the provider itself answered: the result is inside the item
_SERVER_SIDE = frozenset({
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "mcp_call", "mcp_list_tools", "tool_search_call", "tool_search_output",
})  # fmt: skip


class OpenAIResponses:
    """The `input` items of the Responses API. One message may be several items: reasoning, calls, text."""

    name = "openai-responses"
    provider = "openai-responses"
    wire = None
    lone_system = False

    def read(self, message: Message) -> View:
        """What the item says."""
        kind = kind_of(message) or "message"
        id_at(message, "id")  # any item may have one, and legality looks at it
        if kind == "message":
            role, origin = _ROLES.get(text_at(message, "role"), ("user", "host"))
            text, media = read_content(get(message, "content"))
            return View(role, origin, text, media=media)
        if kind in _CALLS:
            name = text_at(message, "name") or kind
            call = Call(_call_id(message), name, as_json(_jsonable(get(message, _CALLS[kind]))))
            return View("assistant", "model", calls=(call,))
        if kind in _OUTPUTS:
            return _read_output(message)
        if kind == "reasoning":
            summary, _ = read_content(get(message, "summary"), "summary")
            shown, _ = read_content(get(message, "content"))
            sealed = text_at(message, "encrypted_content") or id_at(message, "id")
            return View("assistant", "model", reasoning=(Reasoning(shown or summary, sealed),), glued=True)
        if kind in _SERVER_SIDE:
            return View("assistant", "model", as_json(plain(message)))
        return View("assistant", "model", opaque=True)

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
        field, slot = {"function_call": "arguments", "custom_tool_call": "input"}.get(kind), Slot("call")
        if kind == "message":
            field, slot = "content", Slot("text")
        elif field is not None:
            slot = Slot("call", _call_id(message))
        elif kind in _OUTPUTS and kind != "computer_call_output":
            field, slot = "output", Slot("answer", _call_id(message))
        if field is None:
            return message
        old = get(message, field)
        if kind == "shell_call_output":
            old = None  # its output is a list of streams with exit codes, not content parts
        text_type = "output_text" if get(message, "role") == "assistant" else "input_text"
        new = edit_content(old, lambda text: edit(slot, text), lambda source: edit(Slot("media"), source), text_type)
        return message if new is old or old is None else {**plain(message), field: new}

    def without_reasoning(self, message: Message) -> Message | None:
        """None for a reasoning item, every other item as it is."""
        return None if get(message, "type") == "reasoning" else message


def _call_id(message: Message) -> str:
    return id_at(message, "call_id") or id_at(message, "id")


def _jsonable(value: Any) -> Any:
    return value if value is None or isinstance(value, str | dict | list) else plain(value)


def _read_output(message: Message) -> View:
    output = get(message, "output")
    if isinstance(output, str) or output is None:
        return View("tool", "tool", answers=(Answer(_call_id(message), output or ""),))
    if isinstance(output, list):
        text, media = read_content(output, "output")
        if not text and not media:
            text = as_json([_jsonable(part) for part in output])
        return View("tool", "tool", answers=(Answer(_call_id(message), text),), media=media)
    _, media = read_content([output], "output")  # a computer's screenshot
    return View(
        "tool", "tool", answers=(Answer(_call_id(message), "" if media else as_json(_jsonable(output))),), media=media
    )
