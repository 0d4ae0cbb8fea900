"""OpenAI Chat Completions: `{"role", "content", "tool_calls", …}`, and `ChatCompletionMessage` objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unabridged.formats.base import LEGACY, Edit, Format, Message, Outgoing, Provider, Slot
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
from unabridged.formats.parts import ROLES, Content, Editor, missing_in_parts, spoken_by
from unabridged.formats.rules import refuse_each
from unabridged.messages import Answer, Call, Origin, Reasoning, Role, View

_ROLES: dict[str, tuple[Role, Origin]] = {**ROLES, "tool": ("tool", "tool"), "function": ("tool", "tool")}
_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_details")


# -- what is refused -------------------------------------------------------------------------------------------------


def _is_empty(message: Message) -> bool:
    """Return whether nothing is in it that counts as content: an empty string does; null does beside calls."""
    content = get(message, "content")
    if content == []:
        return True
    return content is None and not (get(message, "role") == "assistant" and _speaks_otherwise(message))


def _speaks_otherwise(message: Message) -> bool:
    return any(get(message, key) for key in ("tool_calls", "function_call", "audio", "refusal"))


def _clean(message: Message) -> Message | None:
    """Return the message as Chat takes it; None when nothing would be left, the same object when nothing was wrong."""
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

    def clean(self, outgoing: Outgoing) -> Outgoing:
        """Leave out empty messages and empty lists of calls."""
        kept = [_clean(message) for _, message in outgoing.wire()]
        return outgoing.having([message for message in kept if message is not None]) if outgoing.own else outgoing


# -- reading and making ----------------------------------------------------------------------------------------------


class OpenAIChat(Format):
    """The Chat Completions message list, as OpenAI and the many servers compatible with it take it."""

    name = "openai-chat"
    provider = ChatCompletions()
    family = "other"
    roles = frozenset(_ROLES)

    def read(self, message: Message) -> View:
        """Return the view of the message."""
        kind_of(message)
        role, origin = _ROLES.get(text_at(message, "role"), ("user", "host"))
        content, speaker = get(message, "content"), text_at(message, "name") if role == "user" else ""
        calls, reasoning = (_calls(message), _reasoning(message)) if role == "assistant" else ((), ())
        if content is None or isinstance(content, str):  # by far the most frequent, and needs no walk
            if role == "tool":
                return View(role, origin, "", (), (Answer(_call_id(message), content or ""),))
            text = content or (text_at(message, "refusal") if role == "assistant" else "")
            return View(role, origin, text, calls, (), (), reasoning, (), (), speaker)
        parts = Content(spoken_by(role)).add_all(content)
        if role == "tool":
            return parts.answer_view(_call_id(message))
        if role == "assistant" and not parts.texts:
            parts.say(text_at(message, "refusal"))
        parts.calls += calls
        parts.reasoning += reasoning
        return parts.view(role, origin, speaker=speaker)

    def claims(self, message: Message) -> bool:
        """Return whether it is a tool message or one with `tool_calls`: this format alone writes them."""
        return word(message, "role") in {"tool", "function"} or bool(
            get(message, "tool_calls") or get(message, "function_call")
        )

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a tool message."""
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def missing(self, message: Message) -> Iterator[str]:
        """Yield the fields that are not there, of the message, its parts and its calls."""
        yield from missing_in_parts(message)
        if word(message, "role") == "function":
            yield from absent(message, "name")
        for place, call in numbered(message, "tool_calls"):
            yield from absent(call, "type", at=place)
            custom = word(call, "type") == "custom"
            kind, wrote = ("custom", "input") if custom else ("function", "arguments")
            yield from absent(get(call, kind), "name", wrote, at=f"{place}.{kind}")

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
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
        """Return a copy without `reasoning_content` and its kin; the same object when it has none."""
        if not _reasoning(message):
            return message
        kept = {key: value for key, value in plain(message).items() if key not in _REASONING_KEYS}
        view = self.read(kept)
        return kept if view.text or view.calls or view.media or view.attached else None

    def with_calls(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """Return the message with these ids for its calls; None when nothing remains."""
        calls = [with_field(call, "id", id_) for call, id_ in zip(get(raw, "tool_calls"), ids, strict=True) if id_]
        return _clean({**plain(raw), "tool_calls": calls})

    def with_address(self, raw: Message, id_: str) -> Message:
        """Return the result, to this call."""
        return {**plain(raw), "tool_call_id": id_}


def _call_id(message: Message) -> str:
    """Return which call a result is to; an old function's is known by its name only."""
    if word(message, "role") == "function":
        return LEGACY + text_at(message, "name")
    return id_at(message, "tool_call_id")


def _reasoning(message: Message) -> tuple[Reasoning, ...]:
    for key in _REASONING_KEYS:
        value = get(message, key)
        if not value:
            continue
        if isinstance(value, str):
            return (Reasoning(value),)
        if isinstance(value, list):
            return tuple(Reasoning(text_at(item, "text"), text_at(item, "signature")) for item in value)
    return ()


def _calls(message: Message) -> tuple[Call, ...]:
    if function := get(message, "function_call"):
        name = text_at(function, "name")
        return (Call(LEGACY + name, name, as_json(get(function, "arguments") or "")),)
    calls: list[Call] = []
    try:
        for call in list_at(message, "tool_calls"):
            calls.append(_call(call))  # noqa: PERF401 - the error names how far it came
    except Unreadable as odd:
        raise odd.within(f"tool_calls[{len(calls)}]") from None
    return tuple(calls)


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
