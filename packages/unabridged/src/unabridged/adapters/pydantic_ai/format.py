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

from unabridged.adapters.pydantic_ai.parts import Parts, edit_part, is_answer, read_parts
from unabridged.formats import DEFAULT
from unabridged.formats.base import Edit, Message, Slot
from unabridged.formats.blocks import BlockFormat
from unabridged.formats.fields import Unreadable, are_same_objects, read_each
from unabridged.languages import get_labels, load_language_tables
from unabridged.marks import find_summary_turn_id
from unabridged.messages import Call, Origin, View
from unabridged.summary.summary_body import PINS_HEADING

PROVIDER_NAME = "unabridged"
"""Where a summary's `CompactionPart` has the id of its record, in its metadata."""

_SECTION_START = "\n\n## "
_PARTS_WITH_AUTHORS = frozenset({"compaction", "user-prompt"})


class PydanticAI(BlockFormat):
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
        return self.with_blocks(message, [edit_part(part, edit, host=host) for part in message.parts])

    def blocks(self, message: Message) -> Sequence[Any]:
        """Return the parts of the message."""
        return list(message.parts)

    def with_blocks(self, message: Message, blocks: Sequence[Any]) -> Message:
        """Return a copy with these parts; the very same object when they are its own."""
        return message if are_same_objects(blocks, message.parts) else replace(message, parts=list(blocks))

    def make_results_message(self, blocks: Sequence[Any]) -> Message:
        """Return a new request with these results."""
        return ModelRequest(parts=blocks)

    def is_call(self, block: Any) -> bool:
        """Return whether the part is a call of a tool that the application runs."""
        return bool(block.part_kind == "tool-call")

    def is_result(self, block: Any) -> bool:
        """Return whether the part answers a call."""
        return is_answer(block)

    def is_thinking(self, block: Any) -> bool:
        """Return whether the part is the model's thinking."""
        return bool(block.part_kind == "thinking")

    def with_id(self, block: Any, id_: str) -> Any:
        """Return the call with this id, or the result to that call."""
        return block if block.tool_call_id == id_ else replace(block, tool_call_id=id_)


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
