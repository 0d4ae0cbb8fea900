"""What Anthropic's Messages refuses.

Messages of one role in a row are taken (they count as one turn), but results are looked for in the very next message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unabridged.formats.base import Message, get
from unabridged.legal.conversation import Conversation, Finding, Rule, says_nothing
from unabridged.legal.pairing import PAIRING, first_user
from unabridged.legal.reasoning import claude_version

CACHE_MARKS = 4
THINKING = frozenset({"thinking", "redacted_thinking"})
FIRST_ADAPTIVE = (4, 6)
"""The first version that thinks when it likes, and that takes no prefill."""
FIRST_SYSTEM = (4, 8)
"""The first version that takes system messages among the others."""


def blocks(message: Message) -> list[Any]:
    """The message's content as blocks; a string is one text block."""
    content = get(message, "content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def all_blocks(message: Message) -> Iterator[Any]:
    """The message's blocks and those inside its results."""
    for block in blocks(message):
        yield block
        inner = get(block, "content") if get(block, "type") == "tool_result" else None
        if isinstance(inner, list | tuple):
            yield from inner


def empty_messages(conversation: Conversation) -> Iterator[Finding]:
    """Every message has content, except perhaps the assistant's at the very end."""
    wire = dict(conversation.wire())
    for index, view in enumerate(conversation.views):
        nothing = not blocks(wire[index]) if index in wire else says_nothing(view)
        if index in wire and view.role == "system" and get(wire[index], "output_config"):
            continue
        if nothing and not (view.role == "assistant" and conversation.last(index)):
            yield Finding("empty-message", index, f"message {index} ({view.role}) has no content: leave it out")


def empty_texts(conversation: Conversation) -> Iterator[Finding]:
    """No text block is empty, in a message or in a tool's result."""
    for index, message in conversation.wire():
        if any(get(block, "type") == "text" and not get(block, "text") for block in all_blocks(message)):
            yield Finding("empty-text", index, f"message {index} has an empty text block: leave the block out")


def blank_texts(conversation: Conversation) -> Iterator[Finding]:
    """A message with text blocks has a visible character in one of them."""
    for index, message in conversation.wire():
        if is_blank(message):
            yield Finding("blank-text", index, f"message {index} has only white space as text: leave the block out")


def is_blank(message: Message) -> bool:
    """Whether its texts, taken together, are white space."""
    texts = [get(block, "text") or "" for block in blocks(message) if get(block, "type") == "text"]
    return any(texts) and not any(text.strip() for text in texts)


def empty_compactions(conversation: Conversation) -> Iterator[Finding]:
    """No compaction block of the provider's own is empty; null stands for one that failed, and is taken."""
    for index, message in conversation.wire():
        if any(is_empty_compaction(block) for block in blocks(message)):
            yield Finding(
                "compaction-empty", index, f"message {index} has a compaction block with an empty text: leave it out"
            )


def is_empty_compaction(block: Any) -> bool:
    """Whether it is a compaction whose text is empty."""
    return bool(get(block, "type") == "compaction" and get(block, "content") == "")


def results_first(conversation: Conversation) -> Iterator[Finding]:
    """Results come first in their message."""
    for index, message in conversation.wire():
        kinds = [get(block, "type") == "tool_result" for block in blocks(message)]
        if kinds != sorted(kinds, reverse=True):
            yield Finding(
                "results-first", index, f"message {index} has a tool_result behind other blocks: put results first"
            )


def trailing_space(conversation: Conversation) -> Iterator[Finding]:
    """The assistant's message at the very end does not end in white space."""
    for index, message in conversation.end():
        if ends_in_space(message):
            yield Finding("trailing-space", index, f"message {index}, the last, ends in white space: strip it")


def ends_in_space(message: Message) -> bool:
    """Whether it is the assistant's and its last block is visible text with white space behind."""
    last = blocks(message)[-1:]
    if get(message, "role") != "assistant" or not last or get(last[0], "type") != "text":
        return False
    text = get(last[0], "text") or ""
    return bool(text.strip()) and text != text.rstrip()


def unsigned_thinking(conversation: Conversation) -> Iterator[Finding]:
    """Every thinking block carries the signature it came with."""
    for index, message in conversation.wire():
        if any(is_unsigned(block) for block in blocks(message)):
            yield Finding(
                "unsigned-thinking", index, f"message {index} has thinking without a signature: leave the block out"
            )


def is_unsigned(block: Any) -> bool:
    """Whether it is thinking that the provider can't check."""
    kind = get(block, "type")
    return kind in THINKING and not get(block, "signature" if kind == "thinking" else "data")


def thinking_last(conversation: Conversation) -> Iterator[Finding]:
    """The assistant's message at the very end does not end in thinking."""
    for index, message in conversation.end():
        if ends_in_thinking(message):
            yield Finding("thinking-last", index, f"message {index}, the last, ends in thinking: leave the block out")


def ends_in_thinking(message: Message) -> bool:
    """Whether it is the assistant's and its last block is thinking."""
    return get(message, "role") == "assistant" and any(get(block, "type") in THINKING for block in blocks(message)[-1:])


def thinking_first(conversation: Conversation) -> Iterator[Finding]:
    """A model that thinks on demand (before 4.6) has its thinking at the beginning of a message, if in it at all."""
    version = claude_version(conversation.model)
    if version is None or version >= FIRST_ADAPTIVE:
        return
    for index, message in conversation.wire():
        if thinks_late(message):
            yield Finding(
                "thinking-first", index, f"message {index} has thinking behind other blocks: put it first, unchanged"
            )


def thinks_late(message: Message) -> bool:
    """Whether it has thinking and begins with something else."""
    kinds = [get(block, "type") in THINKING for block in blocks(message)]
    return any(kinds) and not kinds[0]


def cache_marks(conversation: Conversation) -> Iterator[Finding]:
    """At most four blocks are marked for the cache; system prompt and tools count too, and are not seen here."""
    marked = [index for index, message in conversation.wire() for block in all_blocks(message) if mark(block)]
    for index in sorted(set(marked[:-CACHE_MARKS])):
        yield Finding(
            "cache-marks",
            index,
            f"{len(marked)} blocks carry cache_control and {CACHE_MARKS} may: take it off the earlier ones, as here",
        )


def mark(block: Any) -> bool:
    """Whether the block is marked for the cache."""
    return bool(get(block, "cache_control"))


def system_places(conversation: Conversation) -> Iterator[Finding]:
    """A system message follows the user (or a server tool) and stands at the end or before the assistant, alone."""
    if not conversation.own:
        return  # a client that translates puts them where they belong
    version = claude_version(conversation.model)
    for index, view in enumerate(conversation.views):
        if view.role != "system":
            continue
        if index == 0:
            rule, remedy = "system-first", "pass it as the `system` parameter"
        elif version is not None and version < FIRST_SYSTEM:
            rule, remedy = "system-unsupported", f"{conversation.model} takes it as the `system` parameter only"
        elif misplaced(conversation, index):
            rule, remedy = "system-misplaced", "put it behind a user message, at the end or before the assistant's"
        else:
            continue
        yield Finding(rule, index, f"message {index} is a system message where none is taken: {remedy}")


def misplaced(conversation: Conversation, index: int) -> bool:
    """Whether a system message, not the first, stands where it is refused."""
    before = conversation.views[index - 1].role == "user" or _server_tool(conversation, index - 1)
    after = conversation.last(index) or conversation.views[index + 1].role == "assistant"
    return not (before and after)


def prefill(conversation: Conversation) -> Iterator[Finding]:
    """From 4.6 on the assistant's words can't be begun for it: the conversation ends with the user's."""
    version = claude_version(conversation.model)
    last = len(conversation.views) - 1
    if version is None or version < FIRST_ADAPTIVE or last < 0 or conversation.pending:
        return
    view = conversation.views[last]
    open_end = view.role == "assistant" and not view.calls and not view.opaque
    if open_end and not _server_tool(conversation, last):
        yield Finding(
            "prefill",
            last,
            f"message {last}, the last, is the assistant's, which {conversation.model} refuses: "
            "end with a user message",
        )


def ends_in_server_tool(message: Message) -> bool:
    """Whether the provider's own tool is at work: its call, or the result it gave, is the last block."""
    kinds = [get(block, "type") or "" for block in blocks(message)[-1:]]
    return any(kind == "server_tool_use" or kind.endswith("_tool_result") for kind in kinds)


def _server_tool(conversation: Conversation, index: int) -> bool:
    messages = conversation.messages if conversation.format == "anthropic" else None
    return messages is not None and ends_in_server_tool(messages[index])


RULES: tuple[Rule, ...] = (
    *PAIRING,
    first_user,
    empty_messages,
    empty_texts,
    blank_texts,
    empty_compactions,
    results_first,
    trailing_space,
    unsigned_thinking,
    thinking_last,
    thinking_first,
    cache_marks,
    system_places,
    prefill,
)
