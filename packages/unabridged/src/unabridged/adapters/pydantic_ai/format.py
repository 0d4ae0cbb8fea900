"""Pydantic AI's messages as a wire format: requests and responses, each a list of parts of many kinds.

A model translates them for its provider, so what a provider refuses of single parts is that model's business; what no
provider takes (calls and results that don't pair) is checked here.

A summary turn is a request of its own. Its history is a `CompactionPart`, which every model sends as
history that instructs nobody. Rules of the user and pins still count: they are a `UserPromptPart` between. Read again,
it is one text.

System prompts stand in a request beside the user's first words. They are nobody's words here, and no part of what a
message means: the adapter measures them with the request, and carries them on when their message goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from typing import Any, Literal

from pydantic_ai.messages import CompactionPart, ModelRequest, ModelResponse, TextPart, ToolReturnPart, UserPromptPart

from unabridged.adapters.pydantic_ai.parts import ANSWER_KINDS, Parts, edit_part, is_answer, read_parts
from unabridged.formats import DEFAULT
from unabridged.formats.base import Edit, Format, Message, RepairUnit, Slot
from unabridged.formats.fields import Unreadable, are_same_objects, read_each
from unabridged.languages import get_labels, load_language_tables
from unabridged.marks import find_summary_turn_id
from unabridged.messages import Call, Origin, View
from unabridged.summary.summary_body import PINS_HEADING

PROVIDER_NAME = "unabridged"
"""Where a summary's `CompactionPart` has the id of its record, in its metadata."""

_SECTION_START = "\n\n## "
_PARTS_WITH_AUTHORS = frozenset({"compaction", "user-prompt"})


class PydanticAI(Format):
    """`ModelRequest` and `ModelResponse`. Results ride in requests: they are the tool's words wherever they sit."""

    name = "pydantic-ai"
    provider = DEFAULT.provider  # calls and results pair as everywhere; the rest is the model's own business
    alternates = True  # the framework joins requests that follow each other, and a summary would be found no more

    def read(self, message: Message) -> View:
        """Return the view of the message."""
        if not isinstance(message, ModelRequest | ModelResponse):
            raise Unreadable("", message, "a ModelRequest or a ModelResponse")
        if summary := _read_summary(message):
            return View("user", "person", summary)
        model = isinstance(message, ModelResponse)
        contents = Parts()
        read_each(read_parts(message), partial(contents.add_message_part, model=model), "parts")
        return contents.build_view("assistant", "model") if model else _build_request_view(contents)

    def claims(self, message: Message) -> bool:
        """Return whether it is a message of Pydantic AI's: nobody else has these classes."""
        return isinstance(message, ModelRequest | ModelResponse)

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """Return a new message with just this text; a summary in its two voices."""
        if role == "assistant":
            return ModelResponse(parts=[TextPart(text)])
        return ModelRequest(parts=_split_summary_parts(text))

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a request with a result that says that there is none."""
        return ModelRequest(parts=[ToolReturnPart(call.name, text, call.id, outcome="interrupted")])

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        view = self.read(message)
        host = Slot("text") if view.origin == "host" or _read_summary(message) else Slot("attached")
        parts = [edit_part(part, edit, host=host) for part in message.parts]
        return _with_parts(message, parts)

    def without_reasoning(self, message: Message) -> Message | None:
        """Return a copy without its thinking; the same object when it has none; None when nothing would be left."""
        kept = [part for part in message.parts if part.part_kind != "thinking"]
        return _with_parts(message, kept) if kept or not message.parts else None

    def split(self, index: int, message: Message, view: View) -> list[RepairUnit]:
        """Return one unit, unless it carries results: then each of these, and what is between them."""
        if not view.answers:
            return [RepairUnit(message, view.role, view.calls, None, index)]
        units: list[RepairUnit] = []
        answers = iter(view.answers)
        for part in message.parts:
            if part.part_kind in ANSWER_KINDS and is_answer(part):
                units.append(RepairUnit([part], "tool", (), next(answers), index, part=True))
            elif units and units[-1].answer is None:
                units[-1].raw.append(part)
            else:
                units.append(RepairUnit([part], view.role, (), None, index, part=True))
        return units

    def join(self, units: Sequence[RepairUnit], messages: Sequence[Message]) -> list[Message]:
        """Return messages with results in a row in one request, before the rest of the requests they came from."""
        joined: list[Message] = []
        group: list[RepairUnit] = []
        for unit in units:
            if group and not _belongs_to_group(unit, group):
                joined.append(_join_parts(group, messages))
                group = []
            if unit.part:
                group.append(unit)
            else:
                joined.append(unit.raw)
        return [*joined, _join_parts(group, messages)] if group else joined

    def with_call_ids(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """Return the response with these ids for its calls; None when nothing but thinking remains."""
        left = iter(ids)
        parts: list[Any] = []
        for part in raw.parts:
            if part.part_kind != "tool-call":
                parts.append(part)
            elif (id_ := next(left)) is not None:
                parts.append(part if part.tool_call_id == id_ else replace(part, tool_call_id=id_))
        return None if all(part.part_kind == "thinking" for part in parts) else _with_parts(raw, parts)

    def with_answered_id(self, raw: list[Any], id_: str) -> list[Any]:
        """Return the result, to this call."""
        return [replace(part, tool_call_id=id_) for part in raw]


FORMAT = PydanticAI()


def _build_request_view(contents: Parts) -> View:
    text, attached = contents.text, [*contents.attached]
    origin: Origin = "tool" if contents.answers and not text else "person"
    if not (text or contents.answers or contents.media):
        if contents.prompts and not (contents.host_texts or attached):
            return View("system", "host", "\n".join(contents.prompts))
        origin, text = "host", "\n".join(contents.host_texts)
    else:
        attached += contents.host_texts
    view = replace(contents.build_view("user", origin), text=text, attached=tuple(attached))
    return view if text == contents.text else replace(view, block_starts=())


# -- a summary turn ---------------------------------------------------------------------------------------------------


def _split_summary_parts(text: str) -> list[Any]:
    """Return the text as parts: rules and pins in a summary as the user's word, the other sections as history."""
    if (record_id := find_summary_turn_id(View("user", "host", text))) is None:
        return [UserPromptPart(text)]
    first, *rest = text.split(_SECTION_START)
    sections = [first, *(f"## {section}" for section in rest)]
    parts: list[Any] = []
    for is_users, group in groupby(sections, lambda section: section.partition("\n")[0] in _list_users_headings()):
        text = "\n\n".join(group)
        parts.append(UserPromptPart(text) if is_users else CompactionPart(text, metadata={PROVIDER_NAME: record_id}))
    return parts


@cache
def _list_users_headings() -> frozenset[str]:
    """Return the headings, in every language, of what still counts as the user's word: rules and pins."""
    return frozenset((PINS_HEADING, *(f"## {get_labels(code)['rules']}" for code in load_language_tables())))


def _read_summary(message: Message) -> str:
    """Return the text of a summary turn of ours, whatever the application added beside it; "" for any other message."""
    parts: list[Any] = read_parts(message)
    if isinstance(message, ModelResponse) or not any(part.part_kind == "compaction" for part in parts):
        return ""
    voices = [part.content for part in parts if part.part_kind in _PARTS_WITH_AUTHORS]
    if not all(isinstance(text, str) for text in voices):
        return ""
    text = "\n\n".join(voices)
    return text if find_summary_turn_id(View("user", "host", text)) else ""


# -- mending ----------------------------------------------------------------------------------------------------------


def _with_parts(message: Any, parts: Sequence[Any]) -> Any:
    return message if are_same_objects(parts, message.parts) else replace(message, parts=list(parts))


def _belongs_to_group(unit: RepairUnit, group: Sequence[RepairUnit]) -> bool:
    """Return whether the part goes into one request with these: a result after results, or what else they came with."""
    if not unit.part or unit.answer is None:
        return unit.part and unit.source in {one.source for one in group}
    return group[-1].answer is not None


def _join_parts(group: Sequence[RepairUnit], messages: Sequence[Message]) -> Message:
    parts = [part for unit in group for part in unit.raw]
    first = next((unit.source for unit in group if unit.source >= 0), None)
    return ModelRequest(parts=parts) if first is None else _with_parts(messages[first], parts)
