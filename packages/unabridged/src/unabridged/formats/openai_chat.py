"""OpenAI Chat Completions: `{"role", "content", "tool_calls", …}`, and `ChatCompletionMessage` objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unabridged.formats import fields
from unabridged.formats.base import LEGACY_CALL_PREFIX, Edit, Format, Message, Outgoing, Provider, Slot
from unabridged.formats.fields import are_same_objects, as_json, get, to_plain_dict, with_field
from unabridged.formats.parts import ROLES, Editor, MessageContent, find_missing_fields, find_spoken_types
from unabridged.formats.rules import build_message_rule
from unabridged.messages import Answer, Call, Origin, Reasoning, Role, View

_ROLES: dict[str, tuple[Role, Origin]] = {**ROLES, "tool": ("tool", "tool"), "function": ("tool", "tool")}
_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_details")


# -- what is refused -------------------------------------------------------------------------------------------------


def _is_empty(message: Message) -> bool:
    """Return whether nothing is in it that counts as content: an empty string does; null does beside calls."""
    content = get(message, "content")
    if content == []:
        return True
    return content is None and not (get(message, "role") == "assistant" and _has_content_elsewhere(message))


def _has_content_elsewhere(message: Message) -> bool:
    return any(get(message, key) for key in ("tool_calls", "function_call", "audio", "refusal"))


def _clean_message(message: Message) -> Message | None:
    """Return the message as Chat takes it; None when nothing would be left, the same object when nothing was wrong."""
    kept = message
    if get(kept, "tool_calls") == []:
        kept = {key: value for key, value in to_plain_dict(kept).items() if key != "tool_calls"}
    if not _is_empty(kept):
        return kept
    if get(kept, "role") == "assistant" and _has_content_elsewhere(kept):
        return {**to_plain_dict(kept), "content": None}  # an empty list beside calls: null says the same and is taken
    if get(kept, "role") in {"tool", "function"}:
        return {**to_plain_dict(kept), "content": ""}  # a tool that said nothing still answered
    return None


class ChatCompletions(Provider):
    """OpenAI's endpoint, as far as the many servers compatible with it agree."""

    name = "openai-chat"
    rules = (
        build_message_rule("empty-message", _is_empty, "has no content: give it a text, or leave it out"),
        build_message_rule(
            "empty-tool-calls",
            lambda message: bool(get(message, "tool_calls") == []),
            "has an empty `tool_calls` list: leave the field out",
        ),
    )

    def remove_refused(self, outgoing: Outgoing) -> Outgoing:
        """Leave out empty messages and empty lists of calls."""
        if not outgoing.is_own_format:
            return outgoing
        kept = [_clean_message(message) for _, message in outgoing.list_sent_messages()]
        return outgoing.with_messages([message for message in kept if message is not None])


# -- reading and making ----------------------------------------------------------------------------------------------


class OpenAIChat(Format):
    """The Chat Completions message list, as OpenAI and the many servers compatible with it take it."""

    name = "openai-chat"
    provider = ChatCompletions()
    family = "other"
    roles = frozenset(_ROLES)

    def read(self, message: Message) -> View:
        """Return the view of the message."""
        fields.read_type(message)
        role, origin = _ROLES.get(fields.read_text(message, "role"), ("user", "host"))
        content, speaker = get(message, "content"), fields.read_text(message, "name") if role == "user" else ""
        calls, reasoning = (_read_calls(message), _read_reasoning(message)) if role == "assistant" else ((), ())
        if content is None or isinstance(content, str):  # by far the most frequent, and needs no walk
            if role == "tool":
                return View(role, origin, "", (), (Answer(_read_call_id(message), content or ""),))
            text = content or (fields.read_text(message, "refusal") if role == "assistant" else "")
            return View(role, origin, text, calls, (), (), reasoning, (), (), speaker)
        parts = MessageContent(find_spoken_types(role)).add_all(content)
        if role == "tool":
            return parts.build_answer_view(_read_call_id(message))
        if role == "assistant" and not parts.texts:
            parts.add_text(fields.read_text(message, "refusal"))
        parts.calls += calls
        parts.reasoning += reasoning
        return parts.build_view(role, origin, speaker=speaker)

    def claims(self, message: Message) -> bool:
        """Return whether it is a tool message or one with `tool_calls`: this format alone writes them."""
        is_answer = fields.read_word(message, "role") in {"tool", "function"}
        return is_answer or bool(get(message, "tool_calls") or get(message, "function_call"))

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a tool message."""
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def missing(self, message: Message) -> Iterator[str]:
        """Yield the fields that are not there, of the message, its parts and its calls."""
        yield from find_missing_fields(message)
        if fields.read_word(message, "role") == "function":
            yield from fields.find_absent(message, "name")
        for place, call in fields.enumerate_items(message, "tool_calls"):
            yield from fields.find_absent(call, "type", at=place)
            kind, wrote = _find_call_fields(call)
            yield from fields.find_absent(get(call, kind), "name", wrote, at=f"{place}.{kind}")

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        role, calls = fields.read_word(message, "role"), fields.read_list(message, "tool_calls")
        editor = Editor(edit, spoken=find_spoken_types(role))
        if role in {"tool", "function"}:
            slot = Slot("answer", _read_call_id(message))
            editor = editor._replace(text=slot, attached=slot)
        new = with_field(message, "content", editor.content(get(message, "content")))
        edited = [_edit_call(call, edit) for call in calls]
        return new if are_same_objects(edited, calls) else {**to_plain_dict(new), "tool_calls": edited}

    def without_reasoning(self, message: Message) -> Message | None:
        """Return a copy without `reasoning_content` and its kin; the same object when it has none."""
        if not _read_reasoning(message):
            return message
        kept = {key: value for key, value in to_plain_dict(message).items() if key not in _REASONING_KEYS}
        view = self.read(kept)
        return kept if view.text or view.calls or view.media or view.attached else None

    def with_call_ids(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """Return the message with these ids for its calls; None when nothing remains."""
        calls = [with_field(call, "id", id_) for call, id_ in zip(get(raw, "tool_calls"), ids, strict=True) if id_]
        return _clean_message({**to_plain_dict(raw), "tool_calls": calls})

    def with_answered_id(self, raw: Message, id_: str) -> Message:
        """Return the result, to this call."""
        return {**to_plain_dict(raw), "tool_call_id": id_}


def _read_call_id(message: Message) -> str:
    """Return which call a result is to; an old function's is known by its name only."""
    if fields.read_word(message, "role") == "function":
        return LEGACY_CALL_PREFIX + fields.read_text(message, "name")
    return fields.read_id(message, "tool_call_id")


def _read_reasoning(message: Message) -> tuple[Reasoning, ...]:
    for key in _REASONING_KEYS:
        value = get(message, key)
        if not value:
            continue
        if isinstance(value, str):
            return (Reasoning(value),)
        if isinstance(value, list):
            return tuple(
                Reasoning(fields.read_text(item, "text"), fields.read_text(item, "signature")) for item in value
            )
    return ()


def _read_calls(message: Message) -> tuple[Call, ...]:
    if function := get(message, "function_call"):
        name = fields.read_text(function, "name")
        return (Call(LEGACY_CALL_PREFIX + name, name, as_json(get(function, "arguments") or "")),)
    return tuple(fields.read_each(fields.read_list(message, "tool_calls"), _read_call, "tool_calls"))


def _read_call(call: Any) -> Call:
    fields.read_type(call)
    kind, wrote = _find_call_fields(call)
    called = get(call, kind)
    arguments = fields.read_text(called, wrote) if kind == "custom" else as_json(get(called, wrote) or "")
    return Call(fields.read_id(call, "id"), fields.read_text(called, "name"), arguments)


def _find_call_fields(call: Any) -> tuple[str, str]:
    """Return the field that holds what is called, and the field in it with what the model wrote."""
    return ("custom", "input") if fields.read_word(call, "type") == "custom" else ("function", "arguments")


def _edit_call(call: Any, edit: Edit) -> Any:
    field, key = _find_call_fields(call)
    inner = get(call, field)
    old = as_json(get(inner, key) or "")
    new = edit(Slot("call", fields.read_id(call, "id")), old)
    return call if new == old else {**to_plain_dict(call), field: {**to_plain_dict(inner), key: new}}
