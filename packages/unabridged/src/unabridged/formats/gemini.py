"""Gemini: `{"role", "parts"}`, as REST sends it, with `snake_case` keys, or as the SDK's `Content` objects.

Ids of function calls are optional here: without one, a response is to the call of its name that stands at its place
among those of that name. `name#2` is then what both are known by.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from unabridged.formats.base import Edit, Format, Message, Slot, Texts, Unit
from unabridged.formats.fields import Unreadable, as_json, id_at, list_at, numbered, same_objects, text_at, word
from unabridged.formats.gemini_rules import Gemini, at, put, signature_of
from unabridged.formats.held import Held, lay_flat
from unabridged.formats.parts import Content, edit_leaves
from unabridged.formats.rule_blocks import join_results, split_results
from unabridged.messages import Answer, Call, Media, MediaKind, Origin, Reasoning, Role, View

_ROLES: dict[str, tuple[Role, Origin]] = {
    "": ("user", "person"),  # who names nobody means the user
    "user": ("user", "person"),
    "model": ("assistant", "model"),
    "assistant": ("assistant", "model"),
    "function": ("user", "tool"),
    "tool": ("user", "tool"),
    "system": ("system", "host"),
}
_KINDS: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}
_OUTPUTS = ("result", "output", "error")
"""Fields of a response under which its text stands alone."""
_REQUIRED = {
    "function_call": ("name",),
    "function_response": ("name", "response"),
    "inline_data": ("mime_type", "data"),
    "file_data": ("file_uri",),
}
"""Fields of what a part may hold that are not taken as missing."""
_BESIDE = frozenset({"thought", "thought_signature", "thoughtSignature", "text"})


class GeminiContents(Format):
    """The `contents` of a request. Function responses ride in the user's turns: they are the tool's words there."""

    name = "gemini"
    provider = Gemini()
    answers_by = "id"
    thinking = "signed"
    family = "other"
    roles = frozenset({None, "", "user", "model", "function", "tool"})

    def read(self, message: Message) -> View:
        """The view of the content."""
        parts = _parts_of(message)
        role, origin = _ROLES.get(text_at(message, "role"), ("user", "host"))
        found = _Parts().add_all(parts, "parts")
        return View(
            role,
            "tool" if found.answers and not found.text else origin,
            found.text,
            calls=tuple(found.calls),
            answers=tuple(found.answers),
            reasoning=tuple(found.reasoning),
            attached=tuple(found.attached),
            **found.beside(),
        )

    def texts(self, message: Message) -> Texts | None:
        """The texts of a plain content, None for any other."""
        if type(message) is not dict or type(message["parts"]) is not list or "content" in message:
            return None
        if message["role"] not in _ROLES or message["role"] == "system":
            return None
        said: list[str] = []
        calls: list[str] = []
        answers: list[str] = []
        for part in message["parts"]:
            ((kind, held),) = part.items()
            if kind == "text" and type(held) is str and held:
                said.append(held)
            elif kind in {"functionCall", "function_call"} and _is_plain(held, "args"):
                calls += (held["name"], as_json(held.get("args") or {}))
            elif kind in {"functionResponse", "function_response"} and _is_plain(held, "response"):
                answers.append(_Told.of(held["response"]).text)
            else:
                return None
        return "\n".join(said), tuple(calls), tuple(answers)

    def held(self, messages: Sequence[Message]) -> Held | None:
        """What the SDK's turns hold, laid flat; None for dicts."""
        return lay_flat(messages)

    def claims(self, message: Message) -> bool:
        """Turns of `parts`, none of which says its `type`, are written by this format alone."""
        parts = at(message, "parts")
        if not isinstance(parts, list) or word(message, "role") not in {"", "user", "model", "function"}:
            return False
        named = isinstance(message, Mapping) or hasattr(message, "role")
        return named and not any(at(part, "type") or at(part, "kind") for part in parts)

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """A new turn with just this text."""
        return {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]}

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """A user's turn with a response, marked as an error."""
        response = {"name": call.name, "response": {"error": text}}
        if not _is_place(call.id, call.name):
            response["id"] = call.id
        return {"role": "user", "parts": [{"functionResponse": response}]}

    def missing(self, message: Message) -> Iterator[str]:
        """The fields that are not there, of the parts of the turn."""
        for place, part in numbered(message, "parts"):
            for kind, names in _REQUIRED.items():
                if (held := at(part, kind)) is not None:
                    yield from (f"{place}.{kind}.{name}" for name in names if at(held, name) in (None, ""))

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed."""
        parts, editor = _parts_of(message), _Editor(edit)
        edited = [editor.part(part) for part in parts]
        return message if same_objects(edited, parts) else put(message, parts=edited)

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without thoughts and signatures; the same object when it has none; None when nothing would be left."""
        parts = _parts_of(message)
        kept = [_unsigned(part) for part in parts if not at(part, "thought")]
        kept = [part for part in kept if _says(part)]
        if same_objects(kept, parts):
            return message
        return put(message, parts=kept) if kept else None

    def tool_schema(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """A function's declaration; a request has all of them in the `functionDeclarations` of one tool."""
        return {"name": name, "description": description, "parametersJsonSchema": parameters}

    def split(self, index: int, message: Message, view: View) -> list[Unit]:
        """One unit, unless it carries responses: then each of these, and what stands between them."""
        return split_results(index, message, view, lambda part: bool(at(part, "function_response")), "parts")

    def join(self, units: Sequence[Unit], messages: Sequence[Message]) -> list[Message]:
        """Responses in a row stand in one turn; the rest of the turns they came from follows them there."""
        return join_results(units, messages, lambda message, parts: put(message, parts=parts), "parts")

    def with_calls(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """The turn with these ids for its calls; None when nothing but thoughts remains."""
        left, parts = iter(ids), []
        for part in _parts_of(raw):
            call = at(part, "function_call")
            if not call:
                parts.append(part)
            elif (id_ := next(left)) is not None:
                parts.append(_with_id(part, "function_call", call, id_))
        return put(raw, parts=parts) if any(map(_says, parts)) else None

    def with_address(self, raw: list[Any], id_: str) -> list[Any]:
        """The response, to this call."""
        return [_with_id(part, "function_response", at(part, "function_response"), id_) for part in raw]


# -- parts -----------------------------------------------------------------------------------------------------------


def _parts_of(message: Message) -> Sequence[Any]:
    """The parts of a turn; a turn of another format is refused, one that was left empty is not."""
    if not isinstance(message, Mapping) and not hasattr(message, "parts"):
        raise Unreadable("", message, "a dict with parts or an SDK's Content")
    if isinstance(message, Mapping) and "content" in message:
        raise Unreadable("content", message["content"], "`parts`, a list,")
    return list_at(message, "parts", "a list of parts")


def _is_plain(held: Any, key: str) -> bool:
    """Whether a call or a response holds nothing but a name, an object under this key and perhaps an id."""
    known = held.keys() <= {"id", "name", key} and type(held["name"]) is str and held["name"]
    return bool(known and type(held.get("id", "")) is str and type(held.get(key, {})) is dict)


def _says(part: Any) -> bool:
    """Whether the part is more than an empty text or a thought."""
    if isinstance(part, str) or at(part, "thought"):
        return isinstance(part, str) and bool(part)
    fields = part if isinstance(part, Mapping) else dict(part)
    return bool(at(part, "text")) or any(value is not None and key not in _BESIDE for key, value in fields.items())


def _unsigned(part: Any) -> Any:
    return put(part, thought_signature=None) if signature_of(part) else part


# -- which call a response is to ---------------------------------------------------------------------------------------


class _Places:
    """Counts the calls of a turn, or its responses, by their names."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def next(self, held: Any) -> tuple[str, str, str]:
        """The id and the name of a call or a response, and what it is known by without an id."""
        name = text_at(held, "name")
        self._seen[name] += 1
        place = f"{name}#{self._seen[name]}"
        return id_at(held, "id") or place, name, place


def _is_place(id_: str, name: str) -> bool:
    """Whether this is no id of a provider's or a client's, but the place of a call among those of its name."""
    return id_.startswith(f"{name}#") and id_[len(name) + 1 :].isdigit()


def _with_id(part: Any, key: str, held: Any, id_: str) -> Any:
    if (text_at(held, "id") or id_) == id_ and (_is_place(id_, text_at(held, "name")) or text_at(held, "id")):
        return part
    return put(part, **{key: put(held, id=None if _is_place(id_, text_at(held, "name")) else id_)})


# -- reading ---------------------------------------------------------------------------------------------------------


class _Told(NamedTuple):
    """What a response tells: its text, and the field it stands alone in; "" where the text is the whole as JSON."""

    text: str
    field: str = ""
    error: bool = False

    @classmethod
    def of(cls, response: Any) -> _Told:
        if response is None:
            return cls("")
        if not isinstance(response, Mapping):
            raise Unreadable("response", response, "an object")
        failed = bool(response.get("error"))
        (field, text), *more = response.items() or (("", None),)
        if field in _OUTPUTS and isinstance(text, str) and not more:
            return cls(text, field, failed)
        return cls(as_json(dict(response)) if response else "", "", failed)

    def changed(self, text: str) -> dict[str, Any]:
        """The response with this text instead."""
        if self.field:
            return {self.field: text}
        try:
            whole = json.loads(text)
        except ValueError:
            whole = None
        return whole if isinstance(whole, dict) else {"error" if self.error else "output": text}


class _Parts(Content):
    """Collects what the parts of one turn say."""

    def __init__(self) -> None:
        super().__init__(frozenset())
        self.calls: list[Call] = []
        self.answers: list[Answer] = []
        self.reasoning: list[Reasoning] = []
        self._called, self._answered = _Places(), _Places()

    def add(self, part: Any) -> None:
        """Take one part in."""
        if isinstance(part, str):
            self.say(part)
            return
        if not isinstance(part, Mapping) and not hasattr(part, "model_dump"):
            raise Unreadable("", part, "a dict or an SDK's part")
        text, signature = text_at(part, "text"), signature_of(part)
        if at(part, "thought"):
            self.reasoning.append(Reasoning(text, signature))
        else:
            self.say(text)
            if signature:
                self.reasoning.append(Reasoning("", signature))
        if call := at(part, "function_call"):
            id_, name, place = self._called.next(call)
            arguments = as_json(_object_at(call, "args"))
            self.calls.append(Call(id_, name, arguments, place))
        elif response := at(part, "function_response"):
            self._answer(response)
        elif (media := read_media(part)) is not None:
            self.media.append(media)
        else:
            self._take_tools(part)

    def _answer(self, response: Any) -> None:
        told, (id_, _, _) = _Told.of(at(response, "response")), self._answered.next(response)
        self.answers.append(Answer(id_, told.text, told.error))
        shown = (read_media(part) for part in list_at(response, "parts", "a list of parts"))
        self.media += [media for media in shown if media is not None]

    def _take_tools(self, part: Any) -> None:
        """What the provider's own tools did: nobody's words."""
        if code := at(part, "executable_code"):
            self.attach({"code": text_at(code, "code")})
        elif ran := at(part, "code_execution_result"):
            self.attach({"output": text_at(ran, "output")})
        elif used := at(part, "tool_call"):
            self.attach({"input": _object_at(used, "args")})
        elif gave := at(part, "tool_response"):
            self.attach(_object_at(gave, "response"))
        elif isinstance(part, Mapping) and not part.keys() <= _BESIDE:
            self.attach(part)


def _object_at(holder: Any, key: str) -> Mapping[str, Any]:
    value = at(holder, key)
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise Unreadable(key, value, "an object")


def read_media(part: Any) -> Media | None:
    """The image, sound, film or document that the part is; bytes are read as base64, as they are sent."""
    if blob := at(part, "inline_data"):
        data = at(blob, "data") or ""
        source = b64encode(data).decode() if isinstance(data, bytes | bytearray) else text_at(blob, "data")
        source = source.replace("-", "+").replace("_", "/")  # the SDK dumps the other base64
    elif blob := at(part, "file_data"):
        source = at(blob, "file_uri") or ""
    else:
        return None
    mime, name = at(blob, "mime_type") or "", at(blob, "display_name") or ""
    if not isinstance(mime, str) or not isinstance(name, str) or not isinstance(source, str):
        raise Unreadable("mime_type", mime, "a text, like the name and the address,")
    return Media(_KINDS.get(mime.partition("/")[0], "document"), mime, source, name=name)


# -- editing ---------------------------------------------------------------------------------------------------------


class _Editor:
    """Runs the pieces of one turn's parts through an edit."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self._called, self._answered = _Places(), _Places()

    def part(self, part: Any) -> Any:
        """One part, edited; a media part whose source was replaced becomes a text part."""
        if isinstance(part, str) or at(part, "text"):
            return self._text(part)
        if call := at(part, "function_call"):
            return self._call(part, call)
        if response := at(part, "function_response"):
            return self._response(part, response)
        return self._tools(part) if (media := read_media(part)) is None else self._media(part, media)

    def _text(self, part: Any) -> Any:
        old = part if isinstance(part, str) else at(part, "text")
        new = old if at(part, "thought") else self._edit(Slot("text"), old)
        if new == old:
            return part
        return new if isinstance(part, str) else put(part, text=new)

    def _call(self, part: Any, call: Any) -> Any:
        id_, _, _ = self._called.next(call)
        old = as_json(_object_at(call, "args"))
        new = self._edit(Slot("call", id_), old)
        return part if new == old else put(part, function_call=put(call, args=json.loads(new)))

    def _response(self, part: Any, response: Any) -> Any:
        """The response with its text edited; media that were replaced leave it, and what replaced them is told."""
        id_, _, _ = self._answered.next(response)
        told = _Told.of(at(response, "response"))
        text = self._edit(Slot("answer", id_), told.text) if told.text else ""
        shown = list_at(response, "parts")
        media = [read_media(one) for one in shown]
        stubs = [self._edit(Slot("media"), one.source) if one is not None else "" for one in media]
        kept = [p for p, one, stub in zip(shown, media, stubs, strict=True) if one is None or stub == one.source]
        if len(kept) < len(shown):
            said = [stub for one, stub in zip(media, stubs, strict=True) if one is not None and stub != one.source]
            response, text = put(response, parts=kept or None), "\n".join(filter(None, [text, *said]))
        if text == told.text:
            return part
        return put(part, function_response=put(response, response=told.changed(text)))

    def _media(self, part: Any, media: Media) -> Any:
        new = self._edit(Slot("media"), media.source)
        if new == media.source:
            return part
        return {"text": new} if isinstance(part, Mapping) else type(part)(text=new)

    def _tools(self, part: Any) -> Any:
        ran, gave = at(part, "code_execution_result"), at(part, "tool_response")
        if ran and (old := text_at(ran, "output")):
            new = self._edit(Slot("attached"), old)
            return part if new == old else put(part, code_execution_result=put(ran, output=new))
        if gave:
            held = _object_at(gave, "response")
            edited = edit_leaves(held, lambda text: self._edit(Slot("attached"), text))
            return part if edited is held else put(part, tool_response=put(gave, response=edited))
        return part
