"""OpenAI Chat Completions: `{"role", "content", "tool_calls", …}`, and `ChatCompletionMessage` objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from unabridged.formats import older
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
    list_at,
    plain,
    text_at,
    word,
)
from unabridged.formats.parts import Hands, edit_content, plain_text, read_content, spoken_by
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
    merges_turns = False

    def read(self, message: Message) -> View:
        """What the message says."""
        kind_of(message)
        role, origin = _ROLES.get(text_at(message, "role"), ("user", "host"))
        content = get(message, "content")
        found = read_content(content, spoken=spoken_by(role))
        rest: dict[str, Any] = {"media": found.media, "sealed": found.sealed, "unread": found.unread}
        if role == "tool":
            call_id = id_at(message, "tool_call_id") or f"function:{text_at(message, 'name')}"
            view = View("tool", "tool", answers=(Answer(call_id, found.every),), **rest)
        elif role != "assistant":
            view = View(role, origin, found.text, attached=found.attached, **rest)
        else:
            text = found.text or text_at(message, "refusal")
            thought = _reasoning(message)
            rest["attached"] = found.attached
            view = View("assistant", "model", text, calls=_calls(message), reasoning=thought, **rest)
        return replace(view, older=older.chat(view, content)) if view.unread else view

    def texts(self, message: Message) -> Texts | None:
        """The texts of a plain message, None for any other."""
        if type(message) is not dict or message.get("type") is not None:
            return None
        role, content = message["role"], message.get("content")
        text = "" if content is None else plain_text(content)
        if text is None or type(role) is not str:
            return None
        if role == "tool":
            known = type(message["tool_call_id"]) is str and message["tool_call_id"]
            return ("", (), (text,)) if known else None
        if role != "assistant":
            return (text, (), ()) if role != "function" else None
        if not _BESIDE.isdisjoint(message) and any(message.get(key) is not None for key in _BESIDE):
            return None
        return text, _call_texts(message.get("tool_calls")), ()

    def claims(self, message: Message) -> bool:
        """Tool messages, and assistant messages with `tool_calls`, are written by this format alone."""
        return word(message, "role") in {"tool", "function"} or bool(
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
        slot, beside = Slot("text"), Slot("attached")
        if word(message, "role") in {"tool", "function"}:
            slot = beside = Slot("answer", self.read(message).answers[0].call_id)
        hands = Hands(
            lambda text: edit(slot, text), lambda source: edit(Slot("media"), source), lambda t: edit(beside, t)
        )
        new = edit_content(content, hands._replace(spoken=spoken_by(word(message, "role"))))
        if new is not content:
            changed["content"] = new
        calls = [_edit_call(call, edit) for call in list_at(message, "tool_calls")]
        if any(new is not old for new, old in zip(calls, list_at(message, "tool_calls"), strict=True)):
            changed["tool_calls"] = calls
        return {**plain(message), **changed} if changed else message

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without `reasoning_content` and its kin; the same object when it has none."""
        if not _reasoning(message):
            return message
        kept = {key: value for key, value in plain(message).items() if key not in _REASONING_KEYS}
        view = self.read(kept)
        return kept if view.text or view.calls or view.media or view.attached else None


_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_details")
_BESIDE = frozenset({*_REASONING_KEYS, "refusal", "function_call"})
"""What an assistant's message may hold beside its text and its calls."""


def _call_texts(calls: Any) -> tuple[str, ...]:
    """The name and arguments of each call, in turn; raises for what is no plain call."""
    if calls is None:
        return ()
    found: list[str] = []
    if type(calls) is not list:
        raise Unreadable("tool_calls", calls, "a list")
    for call in calls:
        function = call["function"]
        name, arguments = function["name"], function["arguments"]
        if not (call["type"] == "function" and type(call["id"]) is type(name) is type(arguments) is str):
            raise Unreadable("", call, "a plain call")
        found += (name, arguments)
    return tuple(found)


def _reasoning(message: Message) -> tuple[Reasoning, ...]:
    for key in _REASONING_KEYS:
        value = get(message, key)
        if isinstance(value, str) and value:
            return (Reasoning(value),)
        if isinstance(value, list) and value:
            return tuple(Reasoning(text_at(item, "text"), text_at(item, "signature")) for item in value)
    return ()


def _calls(message: Message) -> tuple[Call, ...]:
    legacy = get(message, "function_call")
    if legacy:
        name = text_at(legacy, "name")
        return (Call(f"function:{name}", name, as_json(get(legacy, "arguments") or "")),)
    calls, found = list_at(message, "tool_calls"), []
    try:
        for call in calls:
            found.append(_call(call))  # noqa: PERF401 - the error names how far it came
    except Unreadable as odd:
        raise odd.within(f"tool_calls[{len(found)}]") from None
    return tuple(found)


def _call(call: Any) -> Call:
    if kind_of(call) == "custom":
        custom = get(call, "custom")
        return Call(id_at(call, "id"), text_at(custom, "name"), text_at(custom, "input"))
    function = get(call, "function")
    return Call(id_at(call, "id"), text_at(function, "name"), as_json(get(function, "arguments") or ""))


def _edit_call(call: Any, edit: Edit) -> Any:
    field, key = ("custom", "input") if word(call, "type") == "custom" else ("function", "arguments")
    inner = get(call, field)
    old = as_json(get(inner, key) or "")
    new = edit(Slot("call", id_at(call, "id")), old)
    return call if new == old else {**plain(call), field: {**plain(inner), key: new}}


def _answer(call: Call, text: str) -> Message:
    if call.id.startswith("function:"):
        return {"role": "function", "name": call.name, "content": text}
    return {"role": "tool", "tool_call_id": call.id, "content": text}
