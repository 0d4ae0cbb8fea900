"""Gemini: `{"role", "parts"}`, as REST sends it, with `snake_case` keys, or as the SDK's `MessageContent` objects.

Ids of function calls are optional here: without one, a response is to the call of its name that stands at its place
among those of that name. `name#2` is then what both are known by.

Its turns are the user's, the model's and, after calls, the function responses'. It counts the responses and looks at
where the turns stand; in a conversation that a client translates, ids are the client's, which needs them to find a
response's function.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from unabridged.formats import fields
from unabridged.formats.base import Edit, Finding, Message, Outgoing, Provider, Slot, ThinkingRule
from unabridged.formats.blocks import BlockFormat
from unabridged.formats.fields import Unreadable, are_same_objects, as_json, get, to_plain_dict
from unabridged.formats.openai_chat import OpenAIChat
from unabridged.formats.parts import MessageContent, edit_leaves, find_media_kind
from unabridged.formats.rules import begin_with_user, find_assistant_first, insert_turns
from unabridged.messages import Answer, Call, Media, Origin, Reasoning, Role, View

_ROLES: dict[str, tuple[Role, Origin]] = {
    "": ("user", "person"),  # who names nobody means the user
    "user": ("user", "person"),
    "model": ("assistant", "model"),
    "assistant": ("assistant", "model"),
    "function": ("user", "tool"),
    "tool": ("user", "tool"),
    "system": ("system", "host"),
}
_TEXT_FIELDS = ("result", "output", "error")
"""Fields of a response under which its text stands alone."""
_REQUIRED_FIELDS = {
    "function_call": ("name",), "function_response": ("name", "response"), "inline_data": ("mime_type", "data"),
    "file_data": ("file_uri",),
}  # fmt: skip
"""Fields of what a part may hold that are not taken as missing."""
_FIELDS_BESIDE = frozenset({"thought", "thought_signature", "thoughtSignature", "text"})

_VERSION_PATTERN = re.compile(r"gemini-(\d{1,2})(?!\d)")
_FIRST_WITH_SIGNED_CALLS = 3
"""The version that signs its calls, and of all that came after."""
_STAND_IN_SIGNATURE = "skip_thought_signature_validator"
"""What Gemini takes in place of a signature that is not to be had."""


# -- fields ----------------------------------------------------------------------------------------------------------


@cache
def _to_camel_case(name: str) -> str:
    """Return the name of a field as REST sends it; `name` is as the SDK has it."""
    first, *words = name.split("_")
    return first + "".join(map(str.title, words))


def get_either_name(holder: Any, key: str) -> Any:
    """Return a field of a dict, by its snake_case or camelCase name, or of an SDK's object; None without it."""
    if not isinstance(holder, Mapping):
        return getattr(holder, key, None)
    value = holder.get(key)
    return holder.get(_to_camel_case(key)) if value is None else value


def replace_fields(holder: Any, **changes: Any) -> Any:
    """Return a copy of the same class with these fields replaced; those that are None are removed."""
    if not isinstance(holder, Mapping):
        if changes.get("parts"):
            changes["parts"] = [_to_sdk_part(part, type(holder)) for part in changes["parts"]]
        return holder.model_copy(update=changes)
    new = dict(holder)
    for key, value in changes.items():
        name = key if key in new or any("_" in other for other in new) else _to_camel_case(key)
        new[name] = value
        if value is None:
            del new[name]
    return new


def _to_sdk_part(part: Any, kind: Any) -> Any:
    """Return a part made here as an SDK object, where its turn is one: SDK objects hold no dicts as parts."""
    return kind.model_validate({"parts": [part]}).parts[0] if isinstance(part, Mapping) else part


def read_signature(part: Any) -> str:
    """Return the thought signature of a part; bytes as base64."""
    signature = None if isinstance(part, str) else get_either_name(part, "thought_signature")
    if isinstance(signature, bytes | bytearray):
        return b64encode(signature).decode()
    return signature if isinstance(signature, str) else ""


# -- what is refused -------------------------------------------------------------------------------------------------


def _signs_calls(model: str | None) -> bool:
    """Return whether the model is a Gemini that signs its calls."""
    version = _VERSION_PATTERN.search(model.lower()) if model else None
    return version is not None and int(version[1]) >= _FIRST_WITH_SIGNED_CALLS


def _find_calls_after_model(outgoing: Outgoing) -> Iterator[Finding]:
    """Find calls right after another turn of the model's, not after the user's or function responses."""
    if outgoing.format.items:
        return  # several items are one turn: the client joins them
    before: View | None = None
    for index, view in enumerate(outgoing.views):
        if view.role == "system":
            continue
        if view.calls and before is not None and before.role == "assistant":
            fault = "calls a tool right after another message of the model's"
            remedy = "join the two, or put a user message between them"
            yield Finding("call-after-model", index, f"message {index} {fault}: {remedy}")
        before = view


def _find_empty_turns(outgoing: Outgoing) -> Iterator[Finding]:
    """Find turns without a part."""
    for index, view in enumerate(outgoing.views):
        if _is_empty_turn(view):
            yield Finding("empty-message", index, f"message {index} ({view.role}) is empty: leave it out")


def _is_empty_turn(view: View) -> bool:
    return view.role in {"user", "assistant"} and view.is_silent


def _find_unsigned_calls(outgoing: Outgoing) -> Iterator[Finding]:
    """Find messages since the user last spoke whose first call lacks its thought signature, which Gemini 3 demands.

    Of Chat's messages only where other calls have one: a client that keeps signatures elsewhere shows none at all.
    """
    messages, shows = outgoing.messages, outgoing.is_own_format or isinstance(outgoing.format, OpenAIChat)
    if messages is None or not (shows and _signs_calls(outgoing.model)):
        return
    signatures = [[_read_call_signature(call) for call in _list_signable_calls(message)] for message in messages]
    if not outgoing.is_own_format and not any(map(any, signatures)):
        return
    spoke = (i for i, view in enumerate(outgoing.views) if view.role == "user" and not view.answers)
    for index in range(max(spoke, default=-1) + 1, len(messages)):
        if signatures[index] and not signatures[index][0]:
            fault = "its first call has no thought signature, which Gemini demands in the current turn"
            remedy = f"bring it back, or send {_STAND_IN_SIGNATURE!r} in its place"
            yield Finding("unsigned-call", index, f"message {index}: {fault}: {remedy}")


def _list_signable_calls(message: Message) -> list[Any]:
    """Return what carries the signatures: the calls of a Chat message, or the parts with the calls of a turn."""
    parts = [part for part in get_either_name(message, "parts") or () if get_either_name(part, "function_call")]
    return parts or [*(get(message, "tool_calls") or ())]


def _read_call_signature(call: Any) -> str:
    """Return the signature from where Gemini puts it, or its own Chat endpoint."""
    extra = get(call, "extra_content")
    return read_signature(call) or get(get(extra or {}, "google") or {}, "thought_signature") or ""


def _add_stand_in_signature(message: Message) -> Message:
    """Return a copy whose first call has what stands in for a signature."""
    if parts := get_either_name(message, "parts"):
        first = next(part for part in parts if get_either_name(part, "function_call"))
        sign = _STAND_IN_SIGNATURE if isinstance(first, Mapping) else _STAND_IN_SIGNATURE.encode()
        signed = [replace_fields(part, thought_signature=sign) if part is first else part for part in parts]
        return replace_fields(message, parts=signed)
    first, *others = get(message, "tool_calls")
    extra = {**to_plain_dict(get(first, "extra_content") or {})}
    extra["google"] = {**to_plain_dict(extra.get("google") or {}), "thought_signature": _STAND_IN_SIGNATURE}
    return {**to_plain_dict(message), "tool_calls": [{**to_plain_dict(first), "extra_content": extra}, *others]}


def _join_responses(outgoing: Outgoing) -> Outgoing:
    """Join the responses of turns in a row in one: only there are those without ids found by their places."""
    messages: list[Message] = []
    answers = False
    for view, message in zip(outgoing.views, outgoing.messages or (), strict=True):
        joins, answers = answers and bool(view.answers), bool(view.answers) and view.role == "user"
        if joins and answers:
            before, parts = get_either_name(messages[-1], "parts"), get_either_name(message, "parts")
            messages[-1] = replace_fields(messages[-1], parts=[*before, *parts])
        else:
            messages.append(message)
    return outgoing.with_messages(messages) if len(messages) < len(outgoing.views) else outgoing


class Gemini(Provider):
    """Google's models."""

    name = "gemini"
    system_apart = True
    rules = (find_assistant_first, _find_calls_after_model, _find_empty_turns, _find_unsigned_calls)

    def thinking_rule(self, model: str) -> ThinkingRule | None:
        """Return `signed` from 3 on."""
        return "signed" if _signs_calls(model) else None

    def remove_refused(self, outgoing: Outgoing) -> Outgoing:
        """Leave out empty turns; in a list of this format, join turns of function responses that follow each other."""
        outgoing = outgoing.without_messages(lambda _, view: _is_empty_turn(view))
        return _join_responses(outgoing) if outgoing.is_own_format else outgoing

    def arrange(self, outgoing: Outgoing) -> Outgoing:
        """Put a user's turn first and between two turns of the model's that call, and sign calls."""
        outgoing = begin_with_user(outgoing)
        messages = list(outgoing.messages or ())
        for finding in _find_unsigned_calls(outgoing):
            messages[finding.index] = _add_stand_in_signature(messages[finding.index])
        outgoing = outgoing.with_messages(messages)
        return insert_turns(outgoing, {finding.index: "user" for finding in _find_calls_after_model(outgoing)})


# -- reading and making ----------------------------------------------------------------------------------------------


class GeminiContents(BlockFormat):
    """The `contents` of a request. Function responses ride in the user's turns: they are the tool's words there."""

    name = "gemini"
    provider = Gemini()
    answers_by = "id"
    thinking = "signed"
    family = "other"
    blocks_field = "parts"
    roles = frozenset({None, "", "user", "model", "function", "tool"})

    def read(self, message: Message) -> View:
        """Return the view of the content."""
        parts = self.blocks(message)
        role, origin = _ROLES.get(fields.read_text(message, "role"), ("user", "host"))
        content = _GeminiParts().add_all(parts, "parts")
        return content.build_view(role, "tool" if content.has_only_answers else origin)

    def claims(self, message: Message) -> bool:
        """Return whether it has `parts`, none of which says its `type`: this format alone writes such."""
        parts = get_either_name(message, "parts")
        if not isinstance(parts, list) or fields.read_word(message, "role") not in {"", "user", "model", "function"}:
            return False
        has_role = isinstance(message, Mapping) or hasattr(message, "role")
        return has_role and not any(get_either_name(part, "type") or get_either_name(part, "kind") for part in parts)

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """Return a new turn with just this text."""
        return {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]}

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a user's turn with a response, marked as an error."""
        response = {"name": call.name, "response": {"error": text}}
        if not _is_place_id(call.id, call.name):
            response["id"] = call.id
        return {"role": "user", "parts": [{"functionResponse": response}]}

    def missing(self, message: Message) -> Iterator[str]:
        """Yield the fields that are not there, of the parts of the turn."""
        for place, part in fields.enumerate_items(message, "parts"):
            for kind, names in _REQUIRED_FIELDS.items():
                if (content := get_either_name(part, kind)) is not None:
                    absent = (name for name in names if get_either_name(content, name) in (None, ""))
                    yield from (f"{place}.{kind}.{name}" for name in absent)

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        parts, editor = self.blocks(message), _PartEditor(edit)
        edited = [editor.edit_part(part) for part in parts]
        return message if are_same_objects(edited, parts) else replace_fields(message, parts=edited)

    def without_reasoning(self, message: Message) -> Message | None:
        """Return a copy without thoughts and signatures; itself where it has none, None if nothing is left."""
        parts = self.blocks(message)
        kept = [_remove_signature(part) for part in parts if not get_either_name(part, "thought")]
        kept = [part for part in kept if _says_something(part)]
        if are_same_objects(kept, parts):
            return message
        return replace_fields(message, parts=kept) if kept else None

    def tool_schema(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return a function's declaration; a request has all of them in the `functionDeclarations` of one tool."""
        return {"name": name, "description": description, "parametersJsonSchema": parameters}

    def blocks(self, message: Message) -> Sequence[Any]:
        """Return the parts of a turn; a turn of another format is refused, one that was left empty is not."""
        if not isinstance(message, Mapping) and not hasattr(message, "parts"):
            raise Unreadable("", message, "a dict with parts or an SDK's Content")
        if isinstance(message, Mapping) and "content" in message:
            raise Unreadable("content", message["content"], "`parts`, a list,")
        return fields.read_list(message, "parts", "a list of parts")

    def with_blocks(self, message: Message, blocks: Sequence[Any]) -> Message:
        """Return a copy with these parts, of the class that it is."""
        return replace_fields(message, parts=blocks)

    def is_call(self, block: Any) -> bool:
        """Return whether the part is a function call."""
        return bool(get_either_name(block, "function_call"))

    def is_result(self, block: Any) -> bool:
        """Return whether the part is a function response."""
        return bool(get_either_name(block, "function_response"))

    def is_thinking(self, block: Any) -> bool:
        """Return whether the part is a thought."""
        return bool(get_either_name(block, "thought"))

    def has_content(self, blocks: Sequence[Any]) -> bool:
        """Return whether any part is more than an empty text or a thought."""
        return any(map(_says_something, blocks))

    def with_id(self, block: Any, id_: str) -> Any:
        """Return the call with this id, or the response to it; without an id, where it is the place of a call."""
        key = "function_call" if self.is_call(block) else "function_response"
        function = get_either_name(block, key)
        own_id, is_place = fields.read_text(function, "id"), _is_place_id(id_, fields.read_text(function, "name"))
        if (own_id or id_) == id_ and (is_place or own_id):
            return block
        return replace_fields(block, **{key: replace_fields(function, id=None if is_place else id_)})


# -- parts -----------------------------------------------------------------------------------------------------------


def _says_something(part: Any) -> bool:
    """Return whether the part is more than an empty text or a thought."""
    if isinstance(part, str) or get_either_name(part, "thought"):
        return isinstance(part, str) and bool(part)
    present = part if isinstance(part, Mapping) else dict(part)
    return bool(get_either_name(part, "text")) or any(
        value is not None and key not in _FIELDS_BESIDE for key, value in present.items()
    )


def _remove_signature(part: Any) -> Any:
    return replace_fields(part, thought_signature=None) if read_signature(part) else part


# -- which call a response is to ---------------------------------------------------------------------------------------


def _identify_next(function: Any, seen: Counter[str]) -> tuple[str, str, str]:
    """Return the id and the name of a turn's next call or response, and what it is known by without an id.

    `seen` counts those before it, by their names.
    """
    name = fields.read_text(function, "name")
    seen[name] += 1
    place = f"{name}#{seen[name]}"
    return fields.read_id(function, "id") or place, name, place


def _is_place_id(id_: str, name: str) -> bool:
    """Return whether an id is one of ours: the name of a function and the number of its call."""
    return id_.startswith(f"{name}#") and id_[len(name) + 1 :].isdigit()


# -- reading ---------------------------------------------------------------------------------------------------------


class _ResponseText(NamedTuple):
    """The text of a response, and the field it stands alone in; "" where the text is the whole response as JSON."""

    text: str
    field: str = ""
    is_error: bool = False

    @classmethod
    def from_response(cls, response: Any) -> _ResponseText:
        """Return the text of this response."""
        if response is None:
            return cls("")
        if not isinstance(response, Mapping):
            raise Unreadable("response", response, "an object")
        failed = bool(response.get("error"))
        (field, text), *more = response.items() or (("", None),)
        if field in _TEXT_FIELDS and isinstance(text, str) and not more:
            return cls(text, field, failed)
        return cls(as_json(dict(response)) if response else "", "", failed)

    def replace_text(self, text: str) -> dict[str, Any]:
        """Return the response with this text instead."""
        if self.field:
            return {self.field: text}
        try:
            whole = json.loads(text)
        except ValueError:
            whole = None
        return whole if isinstance(whole, dict) else {"error" if self.is_error else "output": text}


class _GeminiParts(MessageContent):
    """What the parts of one turn say."""

    def __init__(self) -> None:
        super().__init__(frozenset())
        self._called, self._answered = Counter[str](), Counter[str]()

    def add(self, part: Any) -> None:
        """Take one part in."""
        if isinstance(part, str):
            self.add_text(part)
            return
        if not isinstance(part, Mapping) and not hasattr(part, "model_dump"):
            raise Unreadable("", part, "a dict or an SDK's part")
        text, signature = fields.read_text(part, "text"), read_signature(part)
        if get_either_name(part, "thought"):
            self.reasoning.append(Reasoning(text, signature))
        else:
            self.add_text(text)
            if signature:
                self.reasoning.append(Reasoning("", signature))
        if call := get_either_name(part, "function_call"):
            id_, name, place = _identify_next(call, self._called)
            self.calls.append(Call(id_, name, as_json(_read_object_field(call, "args")), place))
        elif response := get_either_name(part, "function_response"):
            self._add_response(response)
        elif (media := _read_media(part)) is not None:
            self.media.append(media)
        else:
            self._add_provider_tools(part)

    def _add_response(self, response: Any) -> None:
        result = _ResponseText.from_response(get_either_name(response, "response"))
        id_, _, _ = _identify_next(response, self._answered)
        self.answers.append(Answer(id_, result.text, result.is_error))
        media = map(_read_media, fields.read_list(response, "parts", "a list of parts"))
        self.media += [one for one in media if one is not None]

    def _add_provider_tools(self, part: Any) -> None:
        """Take in what the provider's own tools did: nobody's words."""
        if code := get_either_name(part, "executable_code"):
            self.add_attached({"code": fields.read_text(code, "code")})
        elif execution := get_either_name(part, "code_execution_result"):
            self.add_attached({"output": fields.read_text(execution, "output")})
        elif call := get_either_name(part, "tool_call"):
            self.add_attached({"input": _read_object_field(call, "args")})
        elif response := get_either_name(part, "tool_response"):
            self.add_attached(_read_object_field(response, "response"))
        elif isinstance(part, Mapping) and not part.keys() <= _FIELDS_BESIDE:
            self.add_attached(part)


def _read_object_field(holder: Any, key: str) -> Mapping[str, Any]:
    value = get_either_name(holder, key)
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise Unreadable(key, value, "an object")


def _read_media(part: Any) -> Media | None:
    """Return the image, sound, film or document that the part is; bytes are read as base64, as they are sent."""
    if blob := get_either_name(part, "inline_data"):
        data = get_either_name(blob, "data") or ""
        source = b64encode(data).decode() if isinstance(data, bytes | bytearray) else fields.read_text(blob, "data")
        source = source.replace("-", "+").replace("_", "/")  # the SDK dumps the other base64
    elif blob := get_either_name(part, "file_data"):
        source = get_either_name(blob, "file_uri") or ""
    else:
        return None
    mime, name = get_either_name(blob, "mime_type") or "", get_either_name(blob, "display_name") or ""
    if not isinstance(mime, str) or not isinstance(name, str) or not isinstance(source, str):
        raise Unreadable("mime_type", mime, "a text, like the name and the address,")
    return Media(find_media_kind(mime), mime, source, name=name)


# -- editing ---------------------------------------------------------------------------------------------------------


class _PartEditor:
    """An edit of the parts of one turn."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self._called, self._answered = Counter[str](), Counter[str]()

    def edit_part(self, part: Any) -> Any:
        """Return one part, edited; a media part whose source was replaced becomes a text part."""
        if isinstance(part, str) or get_either_name(part, "text"):
            return self._edit_text(part)
        if call := get_either_name(part, "function_call"):
            return self._edit_call(part, call)
        if response := get_either_name(part, "function_response"):
            return self._edit_response(part, response)
        media = _read_media(part)
        return self._edit_provider_tools(part) if media is None else self._edit_media(part, media)

    def _edit_text(self, part: Any) -> Any:
        old = part if isinstance(part, str) else get_either_name(part, "text")
        new = old if get_either_name(part, "thought") else self._edit(Slot("text"), old)
        if new == old:
            return part
        return new if isinstance(part, str) else replace_fields(part, text=new)

    def _edit_call(self, part: Any, call: Any) -> Any:
        id_, _, _ = _identify_next(call, self._called)
        old = as_json(_read_object_field(call, "args"))
        new = self._edit(Slot("call", id_), old)
        return part if new == old else replace_fields(part, function_call=replace_fields(call, args=json.loads(new)))

    def _edit_response(self, part: Any, response: Any) -> Any:
        """Return the response with its text edited; media that were replaced leave it for a line in its text."""
        id_, _, _ = _identify_next(response, self._answered)
        old = _ResponseText.from_response(get_either_name(response, "response"))
        texts, kept = [self._edit(Slot("answer", id_), old.text) if old.text else ""], []
        shown = fields.read_list(response, "parts")
        for one in shown:
            media = _read_media(one)
            if media is None or (stub := self._edit(Slot("media"), media.source)) == media.source:
                kept.append(one)
            else:
                texts.append(stub)
        if len(kept) < len(shown):
            response = replace_fields(response, parts=kept or None)
        text = "\n".join(filter(None, texts))
        if text == old.text:
            return part
        return replace_fields(part, function_response=replace_fields(response, response=old.replace_text(text)))

    def _edit_media(self, part: Any, media: Media) -> Any:
        new = self._edit(Slot("media"), media.source)
        if new == media.source:
            return part
        return {"text": new} if isinstance(part, Mapping) else type(part)(text=new)

    def _edit_provider_tools(self, part: Any) -> Any:
        execution, response = get_either_name(part, "code_execution_result"), get_either_name(part, "tool_response")
        if execution and (old := fields.read_text(execution, "output")):
            if (new := self._edit(Slot("attached"), old)) != old:
                return replace_fields(part, code_execution_result=replace_fields(execution, output=new))
        elif response:
            said = _read_object_field(response, "response")
            if (edited := edit_leaves(said, lambda text: self._edit(Slot("attached"), text))) is not said:
                return replace_fields(part, tool_response=replace_fields(response, response=edited))
        return part
