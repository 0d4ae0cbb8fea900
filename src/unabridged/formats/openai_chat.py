"""OpenAI Chat Completions: `{"role", "content", "tool_calls", …}`, and `ChatCompletionMessage` objects."""

from __future__ import annotations

from typing import Any, Literal

from unabridged.formats.base import Edit, Message, Slot, as_json, get, plain
from unabridged.formats.parts import edit_content, read_content
from unabridged.messages import Answer, Call, Origin, Reasoning, Role, View

_ROLES: dict[str, tuple[Role, Origin]] = {
    "system": ("system", "host"),
    "developer": ("system", "host"),
    "user": ("user", "person"),
    "assistant": ("assistant", "model"),
    "tool": ("tool", "tool"),
    "function": ("tool", "tool"),
}


class OpenAIChat:
    """The Chat Completions message list, as OpenAI and the many servers compatible with it take it."""

    name = "openai-chat"
    provider = "openai-chat"
    wire = None
    lone_system = False

    def read(self, message: Message) -> View:
        """What the message says."""
        role, origin = _ROLES.get(get(message, "role"), ("user", "host"))
        text, media = read_content(get(message, "content"))
        if role == "tool":
            call_id = get(message, "tool_call_id") or f"function:{get(message, 'name') or ''}"
            return View("tool", "tool", answers=(Answer(call_id, text),), media=media)
        if role != "assistant":
            return View(role, origin, text, media=media)
        return View(
            "assistant",
            "model",
            text or get(message, "refusal") or "",
            calls=_calls(message),
            media=media,
            reasoning=_reasoning(message),
        )

    def claims(self, message: Message) -> bool:
        """Tool messages, and assistant messages with `tool_calls`, are written by this format alone."""
        return get(message, "role") in {"tool", "function"} or bool(
            get(message, "tool_calls") or get(message, "function_call")
        )

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """A new message with just this text."""
        return {"role": role, "content": text}

    def answer(self, calls: tuple[Call, ...], text: str) -> list[Message]:
        """One tool message for each call."""
        return [_answer(call, text) for call in calls]

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed."""
        changed: dict[str, Any] = {}
        content = get(message, "content")
        slot = Slot("text")
        if get(message, "role") in {"tool", "function"}:
            slot = Slot("answer", self.read(message).answers[0].call_id)
        new = edit_content(content, lambda text: edit(slot, text), lambda source: edit(Slot("media"), source), "text")
        if new is not content:
            changed["content"] = new
        calls = [_edit_call(call, edit) for call in get(message, "tool_calls") or ()]
        if any(new is not old for new, old in zip(calls, get(message, "tool_calls") or (), strict=True)):
            changed["tool_calls"] = calls
        return {**plain(message), **changed} if changed else message

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without `reasoning_content` and its kin; the same object when it has none."""
        if not _reasoning(message):
            return message
        kept = {key: value for key, value in plain(message).items() if key not in _REASONING_KEYS}
        view = self.read(kept)
        return kept if view.text or view.calls or view.media else None


_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_details")


def _reasoning(message: Message) -> tuple[Reasoning, ...]:
    for key in _REASONING_KEYS:
        value = get(message, key)
        if isinstance(value, str) and value:
            return (Reasoning(value),)
        if isinstance(value, list) and value:
            return tuple(Reasoning(get(item, "text") or "", get(item, "signature") or "") for item in value)
    return ()


def _calls(message: Message) -> tuple[Call, ...]:
    legacy = get(message, "function_call")
    if legacy:
        name = get(legacy, "name") or ""
        return (Call(f"function:{name}", name, as_json(get(legacy, "arguments") or "")),)
    return tuple(_call(call) for call in get(message, "tool_calls") or ())


def _call(call: Any) -> Call:
    if get(call, "type") == "custom":
        custom = get(call, "custom")
        return Call(get(call, "id") or "", get(custom, "name") or "", get(custom, "input") or "")
    function = get(call, "function")
    return Call(get(call, "id") or "", get(function, "name") or "", as_json(get(function, "arguments") or ""))


def _edit_call(call: Any, edit: Edit) -> Any:
    field, key = ("custom", "input") if get(call, "type") == "custom" else ("function", "arguments")
    inner = get(call, field)
    old = as_json(get(inner, key) or "")
    new = edit(Slot("call", get(call, "id") or ""), old)
    return call if new == old else {**plain(call), field: {**plain(inner), key: new}}


def _answer(call: Call, text: str) -> Message:
    if call.id.startswith("function:"):
        return {"role": "function", "name": call.name, "content": text}
    return {"role": "tool", "tool_call_id": call.id, "content": text}
