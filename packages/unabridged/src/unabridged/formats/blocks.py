"""Formats whose messages are lists of blocks, with results among the user's: Anthropic's, Bedrock's and Gemini's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from unabridged.formats.base import Finding, Format, Message, Outgoing, RepairUnit
from unabridged.formats.fields import are_same_objects, get
from unabridged.messages import View


class BlockFormat(Format, Protocol):
    """A format whose messages are lists of blocks."""

    blocks_field: str = "content"
    """The field of a message in which its blocks stand."""
    results_role: str = "user"
    """The role of a message that holds results."""
    text_block: Mapping[str, str] = {}
    """The fields of a text block besides its text."""

    def blocks(self, message: Message) -> Sequence[Any]:
        """Return the blocks of the message; a string is one text block."""
        content = get(message, self.blocks_field)
        if isinstance(content, str):
            return [{**self.text_block, "text": content}] if content else []
        return list(content or ())

    def with_blocks(self, message: Message, blocks: Sequence[Any]) -> Message:
        """Return a copy of the message with these blocks."""
        return {**message, self.blocks_field: blocks}

    def make_results_message(self, blocks: Sequence[Any]) -> Message:
        """Return a new message with these results."""
        return {"role": self.results_role, self.blocks_field: blocks}

    def is_call(self, block: Any) -> bool:
        """Return whether the block is a call of a tool that the caller runs."""

    def is_result(self, block: Any) -> bool:
        """Return whether the block is the result of such a call."""

    def is_thinking(self, block: Any) -> bool:
        """Return whether the block is the model's thinking."""

    def read_block_text(self, block: Any) -> str:  # noqa: ARG002 - for those whose provider looks at it
        """Return the text of a text block; "" of any other, and where no rule asks for it."""
        return ""

    def has_content(self, blocks: Sequence[Any]) -> bool:
        """Return whether a message of these blocks says anything."""
        return bool(blocks)

    def with_id(self, block: Any, id_: str) -> Any:
        """Return the call with this id, or the result to that call."""

    def without_reasoning(self, message: Message) -> Message | None:
        """Return a copy without thinking blocks; the same object when it has none; None when nothing would be left."""
        blocks = self.blocks(message)
        kept = [block for block in blocks if not self.is_thinking(block)]
        if len(kept) == len(blocks):
            return message
        return self.with_blocks(message, kept) if self.has_content(kept) else None

    def has_late_results(self, message: Message) -> bool:
        """Return whether a result stands behind a block that is none."""
        results = [self.is_result(block) for block in self.blocks(message)]
        return results != sorted(results, reverse=True)

    def has_late_thinking(self, blocks: Sequence[Any]) -> bool:
        """Return whether there is thinking and another block stands first."""
        thinking = [self.is_thinking(block) for block in blocks]
        return any(thinking) and not thinking[0]

    def ends_in_space(self, message: Message) -> bool:
        """Return whether the last block is visible text with white space behind."""
        text = "".join(map(self.read_block_text, self.blocks(message)[-1:]))
        return bool(text.strip()) and text != text.rstrip()

    def split(self, index: int, message: Message, view: View) -> list[RepairUnit]:
        """Return one unit, unless the message carries results: then each of these, and what stands between them."""
        if not view.answers:
            return [RepairUnit(message, view.role, view.calls, None, index)]
        units: list[RepairUnit] = []
        answers = iter(view.answers)
        for block in self.blocks(message):
            if self.is_result(block):
                units.append(RepairUnit([block], "tool", (), next(answers), index, part=True))
            elif units and units[-1].answer is None:
                units[-1].raw.append(block)
            else:
                units.append(RepairUnit([block], view.role, (), None, index, part=True))
        return units

    def join(self, units: Sequence[RepairUnit], messages: Sequence[Message]) -> list[Message]:
        """Return messages with results in a row in one; the rest of the messages they came from follows them there."""
        groups: list[list[RepairUnit]] = []
        for unit in units:
            if groups and _belongs_to_group(unit, groups[-1]):
                groups[-1].append(unit)
            else:
                groups.append([unit])
        return [self._join_parts(group, messages) if group[0].part else group[0].raw for group in groups]

    def _join_parts(self, group: Sequence[RepairUnit], messages: Sequence[Message]) -> Message:
        blocks = [block for unit in group for block in unit.raw]
        first = next((unit.source for unit in group if unit.source >= 0), None)
        if first is None:
            return self.make_results_message(blocks)
        same = are_same_objects(blocks, self.blocks(messages[first]))
        return messages[first] if same else self.with_blocks(messages[first], blocks)

    def with_call_ids(self, raw: Message, ids: Sequence[str | None]) -> Message | None:
        """Return the message with these ids for its calls; None when nothing but thinking remains."""
        new_ids, blocks = iter(ids), []
        for block in self.blocks(raw):
            if not self.is_call(block):
                blocks.append(block)
            elif (id_ := next(new_ids)) is not None:
                blocks.append(self.with_id(block, id_))
        spoken = [block for block in blocks if not self.is_thinking(block)]
        return self.with_blocks(raw, blocks) if self.has_content(spoken) else None

    def with_answered_id(self, raw: list[Any], id_: str) -> list[Any]:
        """Return the result, to this call."""
        return [self.with_id(block, id_) for block in raw]


def _belongs_to_group(unit: RepairUnit, group: Sequence[RepairUnit]) -> bool:
    """Return whether the unit is a part of one message with these: a result after results, or the same message."""
    if not unit.part or unit.answer is None:
        return unit.part and unit.source in {one.source for one in group}
    return group[-1].answer is not None


# -- rules on blocks, where the provider reads the messages themselves ------------------------------------------------


def find_trailing_space(outgoing: Outgoing) -> Iterator[Finding]:
    """Find white space behind the assistant's words at the very end; those before more to come may have it."""
    fmt: Any = outgoing.format  # a provider's own, where it reads the messages themselves
    for index, message in () if outgoing.pending else outgoing.list_sent_messages(last=True):
        if outgoing.views[index].role == "assistant" and fmt.ends_in_space(message):
            yield Finding("trailing-space", index, f"message {index}, the last, ends in white space: strip it")
