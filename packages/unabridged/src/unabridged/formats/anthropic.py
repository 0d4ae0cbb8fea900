"""Anthropic Messages: `{"role", "content": str | blocks}`, with SDK blocks or whole `Message` objects among them.

Messages of one role in a row are taken (they count as one turn), but results are looked for in the very next message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from unabridged.formats import fields
from unabridged.formats.base import Edit, Finding, Message, Outgoing, Provider, Slot, ThinkingRule
from unabridged.formats.blocks import BlockFormat, find_trailing_space
from unabridged.formats.fields import are_same_objects, as_json, get, to_plain_dict, with_field
from unabridged.formats.parts import ROLES, Editor, MessageContent
from unabridged.formats.rules import CONTINUE_TEXT, begin_with_user, build_message_rule, find_assistant_first
from unabridged.messages import Answer, Call, Reasoning, View

_ROLES = {role: ROLES[role] for role in ("assistant", "system", "user")}
_THINKING_TYPES = frozenset({"thinking", "redacted_thinking"})
_OPAQUE_TYPES = frozenset({
    "compaction", "container_upload", "mid_conversation_system", "fallback", "tool_addition", "tool_removal",
})  # fmt: skip
_OWN_BLOCK_TYPES = _THINKING_TYPES | _OPAQUE_TYPES | {
    "tool_use", "tool_result", "server_tool_use", "document", "image", "search_result",
}  # fmt: skip
"""Blocks that no other format has."""
_SPOKEN_TYPES = frozenset({"text"})
_REQUIRED_FIELDS = {
    "text": ("text",), "tool_use": ("name", "input"), "server_tool_use": ("name", "input"), "thinking": ("thinking",),
    "image": ("source",), "document": ("source",), "search_result": ("source", "title", "content"),
}  # fmt: skip
"""Fields of a block that are not taken as missing, besides ids and signatures, which have rules of their own."""

MAX_CACHE_MARKS = 4
_FIRST_WITH_ADAPTIVE_THINKING = (4, 6)
"""The first version that thinks when it likes, and that takes no prefill."""
_FIRST_VERSION_WITH_SYSTEM_MESSAGES = (4, 8)
"""The first version that takes system messages among the others."""
_FIRST_WITH_BOUND_THINKING = (5, 1)
"""The version whose thinking is bound to everything before it, and of all that came after."""

# A date (`claude-opus-4-20250514`) is no minor version: that has one or two digits.
_VERSION_PATTERN = re.compile(r"claude-(?:[a-z]+-)?v?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


def parse_claude_version(model: str | None) -> tuple[int, int] | None:
    """Return major and minor version of a Claude in any provider's spelling; None for others and for bare aliases."""
    match = _VERSION_PATTERN.search(model.lower()) if model else None
    return (int(match[1]), int(match[2] or 0)) if match else None


def _is_older_than(model: str | None, version: tuple[int, int]) -> bool:
    """Return whether the model is known to be older than this version."""
    return (parse_claude_version(model) or version) < version


def must_think_first(model: str | None) -> bool:
    """Return whether the model, which thinks only on demand, must have its thinking first in a message."""
    return _is_older_than(model, _FIRST_WITH_ADAPTIVE_THINKING)


# -- rules that hold for Claude behind other providers too ------------------------------------------------------------


def find_late_thinking(outgoing: Outgoing) -> Iterator[Finding]:
    """Find thinking behind other blocks, where the model thinks on demand."""
    fmt: Any = outgoing.format
    for index, message in outgoing.list_sent_messages() if must_think_first(outgoing.model) else ():
        if fmt.has_late_thinking(fmt.blocks(message)):
            fault = "has thinking behind other blocks: put it first, unchanged"
            yield Finding("thinking-first", index, f"message {index} {fault}")


def find_misplaced_systems(outgoing: Outgoing) -> Iterator[Finding]:
    """Find system messages anywhere but behind the user, or a server tool, and before the assistant or last."""
    if not outgoing.is_own_format:
        return  # a client that translates puts them where they belong
    for index, view in enumerate(outgoing.views):
        if view.role != "system":
            continue
        if index == 0:
            rule, remedy = "system-first", "pass it as the `system` parameter"
        elif _is_older_than(outgoing.model, _FIRST_VERSION_WITH_SYSTEM_MESSAGES):
            rule, remedy = "system-unsupported", f"{outgoing.model} takes it as the `system` parameter only"
        elif _is_system_misplaced(outgoing, index):
            rule, remedy = "system-misplaced", "put it behind a user message, at the end or before the assistant's"
        else:
            continue
        yield Finding(rule, index, f"message {index} is a system message where none is taken: {remedy}")


def _is_system_misplaced(outgoing: Outgoing, index: int) -> bool:
    """Return whether a system message, not the first, stands where it is refused."""
    before = outgoing.views[index - 1].role == "user" or _is_server_tool_at_work(outgoing, index - 1)
    after = outgoing.is_last(index) or outgoing.views[index + 1].role == "assistant"
    return not (before and after)


def _is_server_tool_at_work(outgoing: Outgoing, index: int) -> bool:
    """Return whether this message of Anthropic's ends in the call or the result of a tool of its own."""
    messages = outgoing.format.name == Claude.name and outgoing.messages
    return bool(messages and _ends_in_server_tool(messages[index]))


def _ends_in_server_tool(message: Message) -> bool:
    kinds = [get(block, "type") or "" for block in _blocks(message)[-1:]]
    return any(kind == "server_tool_use" or kind.endswith("_tool_result") for kind in kinds)


def find_prefill(outgoing: Outgoing) -> Iterator[Finding]:
    """Find an assistant's turn at the end that the model would continue: Claude refuses that from 4.6 on."""
    last, model = len(outgoing.views) - 1, outgoing.model
    if parse_claude_version(model) is None or must_think_first(model) or last < 0 or outgoing.pending:
        return
    view = outgoing.views[last]
    is_open = view.role == "assistant" and not view.calls and not view.opaque
    if is_open and not _is_server_tool_at_work(outgoing, last):
        fault = f"the last, is the assistant's, which {model} refuses: end with a user message"
        yield Finding("prefill", last, f"message {last}, {fault}")


def arrange_for_claude(outgoing: Outgoing) -> Outgoing:
    """Put a user's turn last where the model demands it, and system messages in place."""
    go_on, messages = outgoing.format.text("user", CONTINUE_TEXT), outgoing.messages or ()
    if any(find_prefill(outgoing)):
        outgoing = outgoing.with_messages([*messages[: -1 if outgoing.views[-1].is_silent else None], go_on])
    if any(find_misplaced_systems(outgoing)):
        outgoing = outgoing.with_messages(_move_system_messages(outgoing.messages or (), go_on))
    return outgoing


def _move_system_messages(messages: Iterable[Message], filler: Message) -> list[Message]:
    """Move system messages to the end of the user's turn that they stand in or before, and join two that meet."""
    placed: list[Message] = []
    for _, side in groupby(messages, lambda message: bool(get(message, "role") == "assistant")):
        turn = list(side)
        systems = [message for message in turn if get(message, "role") == "system"]
        others = [message for message in turn if get(message, "role") != "system"]
        if systems and not others and not (placed and _ends_in_server_tool(placed[-1])):
            others = [filler]
        placed += [*others, _join_systems(systems)] if systems else others
    return placed


def _join_systems(systems: Sequence[Message]) -> Message:
    if len(systems) == 1:
        return systems[0]
    joined = _with_blocks(systems[0], [block for message in systems for block in _blocks(message)])
    return {**to_plain_dict(systems[-1]), **joined}


# -- rules of its own endpoint -----------------------------------------------------------------------------------------


_BLOCK_FAULTS = {
    "empty-text": "has an empty text block: leave the block out",
    "compaction-empty": "has a compaction block without text: leave it out",
    "unsigned-thinking": "has thinking without a signature: leave the block out",
}


def _name_block_fault(block: Any) -> str:
    """Return the name of the rule by which the block is refused for itself; "" for one that is taken.

    The text of a compaction of the provider's own may be null: one that failed. Thinking has what the provider checks.
    """
    kind = get(block, "type")
    if kind == "text":
        return "" if get(block, "text") else "empty-text"
    if kind == "compaction":
        return "compaction-empty" if get(block, "content") == "" else ""
    if kind in _THINKING_TYPES:
        return "" if get(block, "signature" if kind == "thinking" else "data") else "unsigned-thinking"
    return ""


def _find_block_faults(outgoing: Outgoing) -> Iterator[Finding]:
    """Find blocks, inside a result too, of a kind that is refused for itself."""
    for index, message in outgoing.list_sent_messages():
        faults = set(map(_name_block_fault, _list_all_blocks(message)))
        for name, fault in _BLOCK_FAULTS.items():
            if name in faults:
                yield Finding(name, index, f"message {index} {fault}")


def _find_empty_messages(outgoing: Outgoing) -> Iterator[Finding]:
    """Find messages without content, except the assistant's at the very end, which may be."""
    for index, view in enumerate(outgoing.views):
        if _is_empty(outgoing, index):
            yield Finding("empty-message", index, f"message {index} ({view.role}) has no content: leave it out")


def _is_empty(outgoing: Outgoing, index: int) -> bool:
    view = outgoing.views[index]
    if view.role == "assistant" and outgoing.is_last(index):
        return False
    if not outgoing.is_own_format or outgoing.messages is None:
        return view.is_silent
    message = outgoing.messages[index]
    return not _blocks(message) and not (view.role == "system" and get(message, "output_config"))


def _has_late_results(message: Message) -> bool:
    return _FORMAT.has_late_results(message)


def _has_blank_text(message: Message) -> bool:
    """Return whether its texts, taken together, are white space."""
    texts = [get(block, "text") or "" for block in _blocks(message) if get(block, "type") == "text"]
    return any(texts) and not any(text.strip() for text in texts)


def _ends_in_thinking(message: Message) -> bool:
    last = _blocks(message)[-1:]
    return get(message, "role") == "assistant" and any(get(block, "type") in _THINKING_TYPES for block in last)


def _find_surplus_cache_marks(outgoing: Outgoing) -> Iterator[Finding]:
    """Find cache marks before the last four; system prompt and tools count too, and are not seen here."""
    sent = outgoing.list_sent_messages()
    marked = [i for i, message in sent for block in _list_all_blocks(message) if get(block, "cache_control")]
    fault = f"blocks carry cache_control and {MAX_CACHE_MARKS} may: take it off the earlier ones, as here"
    for index in sorted(set(marked[:-MAX_CACHE_MARKS])):
        yield Finding("cache-marks", index, f"{len(marked)} {fault}")


class Claude(Provider):
    """Anthropic's own endpoint, and Claude behind a client that translates for it."""

    name = "anthropic"
    unique_ids = True
    system_apart = True
    rules = (
        find_assistant_first,
        _find_empty_messages,
        _find_block_faults,
        build_message_rule("blank-text", _has_blank_text, "has only white space as text: leave the block out"),
        build_message_rule(
            "results-first", _has_late_results, "has a tool_result behind other blocks: put results first"
        ),
        find_trailing_space,
        build_message_rule("thinking-last", _ends_in_thinking, "ends in thinking: leave the block out", last=True),
        find_late_thinking,
        _find_surplus_cache_marks,
        find_misplaced_systems,
        find_prefill,
    )

    def thinking_rule(self, model: str) -> ThinkingRule | None:
        """Return `bound` from 5.1 on, and for a name without a version, which is taken for the newest."""
        if "claude" not in model.lower():
            return None
        return "signed" if _is_older_than(model, _FIRST_WITH_BOUND_THINKING) else "bound"

    def remove_refused(self, outgoing: Outgoing) -> Outgoing:
        """Leave out empty messages, and blocks that are refused for themselves."""
        if not outgoing.is_own_format:
            return outgoing.without_messages(lambda index, view: view.role != "system" and _is_empty(outgoing, index))
        whole = [message for index, message in outgoing.list_sent_messages() if not _is_empty(outgoing, index)]
        cleaned = [_clean_blocks(message, outgoing.model) for message in whole]
        return outgoing.with_messages([message for message in cleaned if message is not None])

    def arrange(self, outgoing: Outgoing) -> Outgoing:
        """Put a user's turn first and, where the model demands it, last; system messages and cache marks in place."""
        outgoing = begin_with_user(outgoing)
        if outgoing.is_own_format:
            messages = [message for _, message in outgoing.list_sent_messages()]
            outgoing = outgoing.with_messages(_trim_end(messages, more=outgoing.pending))
        outgoing = arrange_for_claude(outgoing)
        if any(_find_surplus_cache_marks(outgoing)):
            outgoing = outgoing.with_messages(_drop_early_marks(outgoing.messages or ()))
        return outgoing


# -- mending ---------------------------------------------------------------------------------------------------------


def _clean_blocks(message: Message, model: str | None) -> Message | None:
    """Return the message with no block that is refused for itself; as it is where there is none; None if empty."""
    blocks = _blocks(message)
    kept = [_remove_empty_texts(block) for block in blocks if not _name_block_fault(block)]
    if _has_blank_text({"content": kept}):
        kept = [block for block in kept if get(block, "type") != "text"]
    if must_think_first(model) and _FORMAT.has_late_thinking(kept):
        kept.sort(key=lambda block: not _FORMAT.is_thinking(block))
    if are_same_objects(kept, blocks):
        return message
    return _with_blocks(message, kept) if kept else None


def _remove_empty_texts(block: Any) -> Any:
    """Return the block; a result without the empty texts inside it."""
    inner = _list_inner_blocks(block)
    kept = [inside for inside in inner if _name_block_fault(inside) != "empty-text"]
    return block if len(kept) == len(inner) else {**to_plain_dict(block), "content": kept}


def _trim_end(messages: list[Message], *, more: bool) -> list[Message]:
    """Return the list with no thinking at its end nor, unless `more` is to come, white space of the assistant's."""
    while messages and (_ends_in_thinking(messages[-1]) or (_ends_in_own_space(messages[-1]) and not more)):
        content = get(messages[-1], "content")
        if isinstance(content, str):
            return [*messages[:-1], _with_blocks(messages[-1], content.rstrip())]
        *before, last = _blocks(messages[-1])
        if get(last, "type") == "text":
            before.append({**to_plain_dict(last), "text": get(last, "text").rstrip()})
        messages[-1:] = [_with_blocks(messages[-1], before)] if before else []
    return messages


def _ends_in_own_space(message: Message) -> bool:
    return get(message, "role") == "assistant" and _FORMAT.ends_in_space(message)


def _drop_early_marks(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the last four cache marks and no others."""
    marked = sum(bool(get(block, "cache_control")) for message in messages for block in _list_all_blocks(message))
    surplus = iter(range(marked - MAX_CACHE_MARKS))

    def unmark(block: Any) -> Any:
        if get(block, "cache_control") and next(surplus, None) is not None:
            block = {key: value for key, value in to_plain_dict(block).items() if key != "cache_control"}
        inner = _list_inner_blocks(block)
        kept = [unmark(inside) for inside in inner]
        return block if are_same_objects(kept, inner) else {**to_plain_dict(block), "content": kept}

    def unmark_message(message: Message) -> Message:
        blocks = _blocks(message)
        kept = [unmark(block) for block in blocks]
        return message if are_same_objects(kept, blocks) else _with_blocks(message, kept)

    return [unmark_message(message) for message in messages]


# -- reading and making ----------------------------------------------------------------------------------------------


class Anthropic(BlockFormat):
    """The Messages list. Tool results ride in user messages: they are the tool's words wherever they sit."""

    name = "anthropic"
    provider = Claude()
    answers_by = "tool_use_id"
    lone_system = True
    thinking = "signed"
    family = "claude"
    roles = frozenset(_ROLES)
    text_block: Mapping[str, str] = {"type": "text"}

    def read(self, message: Message) -> View:
        """Return the view of the message."""
        fields.read_type(message)
        role, origin = _ROLES.get(fields.read_text(message, "role"), ROLES["user"])
        content = get(message, "content")
        if content is None or isinstance(content, str):  # most of a person's, and quicker without a walk
            return View(role, origin, content or "")
        blocks = _ClaudeBlocks(_SPOKEN_TYPES).add_all(content)
        return blocks.build_view(role, "tool" if role == "user" and blocks.has_only_answers else origin)

    def claims(self, message: Message) -> bool:
        """Return whether the message has tool, thinking or source blocks: this format alone writes them."""
        content = get(message, "content")
        if not isinstance(content, list) or fields.read_word(message, "role") not in {"user", "assistant"}:
            return False
        kinds = {fields.read_word(block, "type") for block in content}
        return not kinds.isdisjoint(_OWN_BLOCK_TYPES) or any(get(block, "cache_control") for block in content)

    def answer(self, call: Call, message: Message, text: str) -> Message:  # noqa: ARG002 - every call takes the same
        """Return a user message with a result, marked as an error."""
        result = {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": True}
        return {"role": "user", "content": [result]}

    def missing(self, message: Message) -> Iterator[str]:
        """Yield the fields that are not there, of the message and its blocks."""
        yield from fields.find_absent(message, "content")
        for place, block in fields.enumerate_items(message, "content"):
            names = _REQUIRED_FIELDS.get(fields.read_word(block, "type"), ())
            yield from fields.find_absent(block, "type", *names, at=place)

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        content = get(message, "content")
        new = _ClaudeEditor(edit, spoken=_SPOKEN_TYPES).content(content)
        return message if new is content else _with_blocks(message, new)

    def tool_schema(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return a tool as a request offers it to the model."""
        return {"name": name, "description": description, "input_schema": parameters}

    def with_blocks(self, message: Message, blocks: Any) -> Message:
        """Return a copy with this content; a response object, with fields no request takes, becomes a plain message."""
        if isinstance(message, dict):
            return {**message, "content": blocks}
        return {"role": get(message, "role"), "content": blocks}

    def is_call(self, block: Any) -> bool:
        """Return whether the block is a call of the caller's tool."""
        return bool(get(block, "type") == "tool_use")

    def is_result(self, block: Any) -> bool:
        """Return whether the block is a tool's result."""
        return bool(get(block, "type") == "tool_result")

    def is_thinking(self, block: Any) -> bool:
        """Return whether the block is the model's thinking, or what stands for it sealed."""
        return fields.read_word(block, "type") in _THINKING_TYPES

    def read_block_text(self, block: Any) -> str:
        """Return the text of a text block; "" of any other."""
        return (get(block, "text") or "") if get(block, "type") == "text" else ""

    def with_id(self, block: Any, id_: str) -> Any:
        """Return the call with this id, or the result to that call."""
        return with_field(block, "id" if self.is_call(block) else "tool_use_id", id_)


_FORMAT: Anthropic = Anthropic()
_blocks, _with_blocks = _FORMAT.blocks, _FORMAT.with_blocks


def _list_inner_blocks(block: Any) -> Sequence[Any]:
    """Return the blocks inside a result."""
    content = get(block, "content") if get(block, "type") == "tool_result" else None
    return content if isinstance(content, list | tuple) else ()


def _list_all_blocks(message: Message) -> list[Any]:
    """Return the message's blocks and those inside its results."""
    blocks = _blocks(message)
    return [*blocks, *(inside for block in blocks for inside in _list_inner_blocks(block))]


def is_provider_compaction(block: Any) -> bool:
    """Return whether a block is Anthropic's own compaction, before which all is dropped; one that failed is not."""
    return fields.read_word(block, "type") == "compaction" and bool(fields.read_word(block, "content"))


class _ClaudeBlocks(MessageContent):
    """What the blocks of one message say."""

    def add(self, part: Any) -> None:
        """Take one block in. A server-side tool's call and result share the assistant's message and need no pairing."""
        kind = None if isinstance(part, str) else fields.read_type(part)
        if kind == "text":
            self.add_text(fields.read_text(part, "text"))
        elif kind == "tool_use":
            arguments = as_json(get(part, "input") or {})
            self.calls.append(Call(fields.read_id(part, "id"), fields.read_text(part, "name"), arguments))
        elif kind == "tool_result":
            id_, content = fields.read_id(part, "tool_use_id"), get(part, "content")
            is_error = bool(get(part, "is_error"))
            if isinstance(content, str):  # most results, and quicker without a walk
                self.answers.append(Answer(id_, content, is_error))
            else:
                self.add_answer(id_, MessageContent().add_all(content), is_error=is_error)
        elif kind == "thinking":
            self.reasoning.append(Reasoning(fields.read_text(part, "thinking"), fields.read_text(part, "signature")))
        elif kind == "redacted_thinking":
            self.reasoning.append(Reasoning("", fields.read_text(part, "data")))
        elif kind in _OPAQUE_TYPES:
            self.opaque = True
            self.resets = self.resets or is_provider_compaction(part)
            self.add_attached(part)
        else:  # media, and all that nobody says: server tools, search results, whatever comes next
            super().add(part)


class _ClaudeEditor(Editor):
    """Runs the blocks of one message through an edit."""

    def edit_part(self, part: Any) -> Any:
        """Return one block, edited."""
        kind = fields.read_word(part, "type")
        if kind == "tool_use":
            old = as_json(get(part, "input") or {})
            new = self.edit(Slot("call", fields.read_id(part, "id")), old)
            return part if new == old else {**to_plain_dict(part), "input": json.loads(new)}
        if kind == "tool_result":
            slot = Slot("answer", fields.read_id(part, "tool_use_id"))
            return with_field(part, "content", Editor(self.edit, slot, slot).content(get(part, "content")))
        return part if kind in _THINKING_TYPES | _OPAQUE_TYPES else super().edit_part(part)
