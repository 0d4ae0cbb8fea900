"""OpenAI Chat Completions: `{"role", "content", "tool_calls", …}`, and `ChatCompletionMessage` objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unabridged.formats.base import LEGACY, Edit, Format, Message, Outgoing, Provider, Slot, Texts
from unabridged.formats.fields import (
    Unreadable,
    absent,
    as_json,
    get,
    id_at,
    kind_of,
    list_at,
    numbered,
    plain,
    same_objects,
    text_at,
    with_field,
    word,
)
from unabridged.formats.parts import ROLES, Content, Editor, missing_in_parts, plain_text, spoken_by
from unabridged.formats.rule_blocks import refuse_each
from unabridged.messages import Answer, Call, Origin, Reasoning, Role, View

_ROLES: dict[str, tuple[Role, Origin]] = {**ROLES, "tool": ("tool", "tool"), "function": ("tool", "tool")}
_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_details")
_BESIDE = frozenset({*_REASONING_KEYS, "refusal", "function_call"})
"""What an assistant's message may hold beside its text and its calls."""


# -- what is refused -------------------------------------------------------------------------------------------------


def _is_empty(message: Message) -> bool:
    """Whether nothing is in it that counts as content: an empty string does; null does beside calls."""
    content = get(message, "content")
    if content == []:
        return True
    return content is None and not (get(message, "role") == "assistant" and _speaks_otherwise(message))


def _speaks_otherwise(message: Message) -> bool:
    return any(get(message, key) for key in ("tool_calls", "function_call", "audio", "refusal"))


def _clean(message: Message) -> Message | None:
    """The message as Chat takes it; None when nothing would be left. The same object when nothing was wrong."""
    kept = message
    if get(kept, "tool_calls") == []:
        kept = {key: value for key, value in plain(kept).items() if key != "tool_calls"}
    if not _is_empty(kept):
        return kept
    if get(kept, "role") == "assistant" and _speaks_otherwise(kept):
        return {**plain(kept), "content": None}  # an empty list beside calls: null says the same and is taken
    if get(kept, "role") in {"tool", "function"}:
        return {**plain(kept), "content": ""}  # a tool that said nothing still answered
    return None


class ChatCompletions(Provider):
    """OpenAI's endpoint, as far as the many servers compatible with it agree."""

    name = "openai-chat"
    rules = (
        refuse_each("empty-message", _is_empty, "has no content: give it a text, or leave it out"),
        refuse_each(
            "empty-tool-calls",
            lambda message: bool(get(message, "tool_calls") == []),
            "has an empty `tool_calls` list: leave the field out",
        ),
    )

    def clean(self, given: Outgoing) -> Outgoing:
        """Without empty messages and empty lists of calls."""
        kept = [_clean(message) for _, message in given.wire()]
        return given.having([message for message in kept if message is not None]) if given.own else given


# -- reading and making ----------------------------------------------------------------------------------------------


class OpenAIChat(Format):
    """The Chat Completions message list, as OpenAI and the many servers compatible with it take it."""

    name = "openai-chat"
    provider = ChatCompletions()
    family = "other"
    roles = frozenset(_ROLES)

    def read(self, message: Message) -> View:
        """The view of the message."""
        kind_of(message)
        role, origin = _ROLES.get(text_at(message, "role"), ("user", "host"))
        found = Content(spoken_by(role)).add_all(get(message, "content"))
        if role == "tool":
            return View("tool", "tool", answers=(Answer(_call_id(message), found.every_text),), **found.beside())
        model = role == "assistant"
        text = found.text or (text_at(message, "refusal") if model else "")
        calls, thoughts = (_calls(message), _reasoning(message)) if model else ((), ())
        attached = tuple(found.attached)
        speaker = text_at(message, "name") if role == "user" else ""
        return View(role, origin, text, calls, reasoning=thoughts, attached=attached, speaker=speaker, **found.beside())

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

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """A tool message."""
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def missing(self, message: Message) -> Iterator[str]:
        """The fields that are not there, of the message, its parts and its calls."""
        yield from missing_in_parts(message)
        if word(message, "role") == "function":
            yield from absent(message, "name")
        for place, call in numbered(message, "tool_calls"):
            yield from absent(call, "type", at=place)
            custom = word(call, "type") == "custom"
            kind, wrote = ("custom", "input") if custom else ("function", "arguments")
            yield from absent(get(call, kind), "name", wrote, at=f"{place}.{kind}")

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed."""
        role, changed = word(message, "role"), {}
        content, calls = get(message, "content"), list_at(message, "tool_calls")
        editor = Editor(edit, spoken=spoken_by(role))
        if role in {"tool", "function"}:
            slot = Slot("answer", _call_id(message))
            editor = editor._replace(text=slot, attached=slot)
        if (new := editor.content(content)) is not content:
            changed["content"] = new
        edited = [_edit_call(call, edit) for call in calls]
        if not same_objects(edited, calls):
            changed["tool_calls"] = edited
        return {**plain(message), **changed} if changed else message

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without `reasoning_content` and its kin; the same object when it has none."""
        if not _reasoning(message):
            return message
        kept = {key: value for key, value in plain(message).items() if key not in _REASONING_KEYS}
        view = self.read(kept)
        return kept if view.text or view.calls or view.media or view.attached else None

    def with_calls(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """The message with these ids for its calls; None when nothing remains."""
        calls = [with_field(call, "id", id_) for call, id_ in zip(get(raw, "tool_calls"), ids, strict=True) if id_]
        return _clean({**plain(raw), "tool_calls": calls})

    def with_address(self, raw: Message, id_: str) -> Message:
        """The result, to this call."""
        return {**plain(raw), "tool_call_id": id_}


def _call_id(message: Message) -> str:
    """Which call a result is to; an old function's is known by its name only."""
    if word(message, "role") == "function":
        return LEGACY + text_at(message, "name")
    return id_at(message, "tool_call_id")


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
        return (Call(LEGACY + name, name, as_json(get(legacy, "arguments") or "")),)
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
