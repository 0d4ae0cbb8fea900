"""What Anthropic's Messages refuses besides unpaired calls, and how it is mended.

Messages of one role in a row are taken (they count as one turn), but results are looked for in the very next message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from unabridged.formats.base import Finding, Message, Outgoing, Provider, ThinkingRule
from unabridged.formats.fields import get, plain, same_objects
from unabridged.formats.rule_blocks import (
    CONTINUE,
    begin_with_user,
    first_user,
    leave_out,
    refuse_each,
    refuse_trailing_space,
    says_nothing,
)

THINKING = frozenset({"thinking", "redacted_thinking"})
_CACHE_MARKS = 4
FIRST_ADAPTIVE = (4, 6)
"""The first version that thinks when it likes, and that takes no prefill."""
_FIRST_SYSTEM = (4, 8)
"""The first version that takes system messages among the others."""
_FIRST_BOUND = (5, 1)
"""The version whose thinking is bound to everything before it, and of all that came after."""

# A date (`claude-opus-4-20250514`) is no minor version: that has one or two digits.
_VERSION = re.compile(r"claude-(?:[a-z]+-)?v?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


def claude_version(model: str | None) -> tuple[int, int] | None:
    """Major and minor version of a Claude model in any provider's spelling; None for others and for bare aliases."""
    found = _VERSION.search(model.lower()) if model else None
    return (int(found[1]), int(found[2] or 0)) if found else None


# -- what stands in a message ----------------------------------------------------------------------------------------


def blocks(message: Message) -> list[Any]:
    """The message's content as blocks; a string is one text block."""
    content = get(message, "content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def with_blocks(message: Message, content: Any) -> Message:
    """A copy with this content; a response object, with fields no request takes, becomes a plain message."""
    if isinstance(message, dict):
        return {**message, "content": content}
    return {"role": get(message, "role"), "content": content}


def _inner(block: Any) -> Sequence[Any]:
    """The blocks inside a result."""
    content = get(block, "content") if get(block, "type") == "tool_result" else None
    return content if isinstance(content, list | tuple) else ()


def _all_blocks(message: Message) -> list[Any]:
    """The message's blocks and those inside its results."""
    found = blocks(message)
    return found + [inside for block in found for inside in _inner(block)]


def _refused(block: Any) -> str:
    """The name of the rule by which the block is refused for itself; "" for one that is taken.

    The text of a compaction of the provider's own may be null: one that failed. Thinking has what the provider checks.
    """
    kind = get(block, "type")
    if kind == "text":
        return "" if get(block, "text") else "empty-text"
    if kind == "compaction":
        return "compaction-empty" if get(block, "content") == "" else ""
    if kind in THINKING:
        return "" if get(block, "signature" if kind == "thinking" else "data") else "unsigned-thinking"
    return ""


def _is_blank(message: Message) -> bool:
    """Whether its texts, taken together, are white space."""
    texts = [get(block, "text") or "" for block in blocks(message) if get(block, "type") == "text"]
    return any(texts) and not any(text.strip() for text in texts)


def _has_late_results(message: Message) -> bool:
    kinds = [get(block, "type") == "tool_result" for block in blocks(message)]
    return kinds != sorted(kinds, reverse=True)


def _thinks_late(message: Message) -> bool:
    """Whether it has thinking and begins with something else."""
    kinds = [get(block, "type") in THINKING for block in blocks(message)]
    return any(kinds) and not kinds[0]


def _ends_in_space(message: Message) -> bool:
    """Whether it is the assistant's and its last block is visible text with white space behind."""
    last = blocks(message)[-1:]
    if get(message, "role") != "assistant" or not last or get(last[0], "type") != "text":
        return False
    text = get(last[0], "text") or ""
    return bool(text.strip()) and text != text.rstrip()


def _ends_in_thinking(message: Message) -> bool:
    return get(message, "role") == "assistant" and any(get(block, "type") in THINKING for block in blocks(message)[-1:])


def _ends_in_server_tool(message: Message) -> bool:
    """Whether the provider's own tool is at work: its call, or the result it gave, is the last block."""
    kinds = [get(block, "type") or "" for block in blocks(message)[-1:]]
    return any(kind == "server_tool_use" or kind.endswith("_tool_result") for kind in kinds)


def _is_server_tool(given: Outgoing, index: int) -> bool:
    """Whether the provider's own tool is at work at the end of this message."""
    known = given.format.name == Claude.name and given.messages
    return bool(known and _ends_in_server_tool(known[index]))


# -- rules -----------------------------------------------------------------------------------------------------------


_REFUSED = {
    "empty-text": "has an empty text block: leave the block out",
    "compaction-empty": "has a compaction block without text: leave it out",
    "unsigned-thinking": "has thinking without a signature: leave the block out",
}


def _refused_blocks(given: Outgoing) -> Iterator[Finding]:
    """No block, inside a result neither, is of a kind that is refused for itself."""
    for index, message in given.wire():
        wrong = set(map(_refused, _all_blocks(message)))
        for name, fault in _REFUSED.items():
            if name in wrong:
                yield Finding(name, index, f"message {index} {fault}")


def _empty_messages(given: Outgoing) -> Iterator[Finding]:
    """Every message has content, except perhaps the assistant's at the very end."""
    for index, view in enumerate(given.views):
        if _is_empty(given, index):
            yield Finding("empty-message", index, f"message {index} ({view.role}) has no content: leave it out")


def _is_empty(given: Outgoing, index: int) -> bool:
    view = given.views[index]
    if view.role == "assistant" and given.is_last(index):
        return False
    if not given.own or given.messages is None:
        return says_nothing(view)
    message = given.messages[index]
    return not blocks(message) and not (view.role == "system" and get(message, "output_config"))


def _late_thinking(given: Outgoing) -> Iterator[Finding]:
    """A model that thinks on demand (before 4.6) has its thinking at the beginning of a message, if in it at all."""
    if is_before(given.model, FIRST_ADAPTIVE):
        fault = "has thinking behind other blocks: put it first, unchanged"
        yield from refuse_each("thinking-first", _thinks_late, fault)(given)


def is_before(model: str | None, version: tuple[int, int]) -> bool:
    """Whether the model is known to be older than this version."""
    found = claude_version(model)
    return found is not None and found < version


def _cache_marks(given: Outgoing) -> Iterator[Finding]:
    """At most four blocks are marked for the cache; system prompt and tools count too, and are not seen here."""
    marked = [i for i, message in given.wire() for block in _all_blocks(message) if get(block, "cache_control")]
    for index in sorted(set(marked[:-_CACHE_MARKS])):
        yield Finding(
            "cache-marks",
            index,
            f"{len(marked)} blocks carry cache_control and {_CACHE_MARKS} may: take it off the earlier ones, as here",
        )


def system_places(given: Outgoing) -> Iterator[Finding]:
    """A system message follows the user (or a server tool) and stands at the end or before the assistant, alone."""
    if not given.own:
        return  # a client that translates puts them where they belong
    for index, view in enumerate(given.views):
        if view.role != "system":
            continue
        if index == 0:
            rule, remedy = "system-first", "pass it as the `system` parameter"
        elif is_before(given.model, _FIRST_SYSTEM):
            rule, remedy = "system-unsupported", f"{given.model} takes it as the `system` parameter only"
        elif _is_misplaced(given, index):
            rule, remedy = "system-misplaced", "put it behind a user message, at the end or before the assistant's"
        else:
            continue
        yield Finding(rule, index, f"message {index} is a system message where none is taken: {remedy}")


def _is_misplaced(given: Outgoing, index: int) -> bool:
    """Whether a system message, not the first, stands where it is refused."""
    before = given.views[index - 1].role == "user" or _is_server_tool(given, index - 1)
    after = given.is_last(index) or given.views[index + 1].role == "assistant"
    return not (before and after)


def prefill(given: Outgoing) -> Iterator[Finding]:
    """From 4.6 on the assistant's words can't be begun for it: the conversation ends with the user's."""
    last = len(given.views) - 1
    if claude_version(given.model) is None or is_before(given.model, FIRST_ADAPTIVE) or last < 0 or given.pending:
        return
    view = given.views[last]
    open_end = view.role == "assistant" and not view.calls and not view.opaque
    if open_end and not _is_server_tool(given, last):
        yield Finding(
            "prefill",
            last,
            f"message {last}, the last, is the assistant's, which {given.model} refuses: end with a user message",
        )


class Claude(Provider):
    """Anthropic's own endpoint, and Claude behind a client that translates for it."""

    name = "anthropic"
    unique_ids = True
    system_apart = True
    rules = (
        first_user,
        _empty_messages,
        _refused_blocks,
        refuse_each("blank-text", _is_blank, "has only white space as text: leave the block out"),
        refuse_each("results-first", _has_late_results, "has a tool_result behind other blocks: put results first"),
        refuse_trailing_space(_ends_in_space),
        refuse_each("thinking-last", _ends_in_thinking, "ends in thinking: leave the block out", last=True),
        _late_thinking,
        _cache_marks,
        system_places,
        prefill,
    )

    def thinking_rule(self, model: str) -> ThinkingRule | None:
        """`bound` from 5.1 on, and for a name without a version, which is taken for the newest."""
        if "claude" not in model.lower():
            return None
        return "signed" if is_before(model, _FIRST_BOUND) else "bound"

    def clean(self, given: Outgoing) -> Outgoing:
        """Without empty messages and without blocks that are refused for themselves."""
        if not given.own:
            return leave_out(given, lambda index, view: view.role != "system" and _is_empty(given, index))
        whole = [m for index, m in given.wire() if not _is_empty(given, index)]
        cleaned = [_clean_blocks(message, given.model) for message in whole]
        return given.having([message for message in cleaned if message is not None])

    def arrange(self, given: Outgoing) -> Outgoing:
        """With a user's turn first and, where the model wants it, last; system messages and cache marks in place."""
        given = begin_with_user(given)
        go_on = given.format.text("user", CONTINUE)
        if given.own:
            given = given.having(_trim_end([message for _, message in given.wire()], more=given.pending))
        if any(prefill(given)):
            silent = says_nothing(given.views[-1])
            given = given.having([*(given.messages or ())[: -1 if silent else None], go_on])
        if any(system_places(given)):
            given = given.having(place_systems(given.messages or (), go_on))
        if any(_cache_marks(given)):
            given = given.having(_drop_marks(given.messages or ()))
        return given


# -- mending ---------------------------------------------------------------------------------------------------------


def _clean_blocks(message: Message, model: str | None) -> Message | None:
    """The message with no block that is refused for itself; None when nothing is left; else as it is."""
    given = blocks(message)
    kept = [_without_empty_texts(block) for block in given if not _refused(block)]
    if _is_blank({"content": kept}):
        kept = [block for block in kept if get(block, "type") != "text"]
    if is_before(model, FIRST_ADAPTIVE) and _thinks_late({"content": kept}):
        kept.sort(key=lambda block: get(block, "type") not in THINKING)
    if same_objects(kept, given):
        return message
    return with_blocks(message, kept) if kept else None


def _without_empty_texts(block: Any) -> Any:
    """The block; a result without the empty texts inside it."""
    inner = _inner(block)
    kept = [inside for inside in inner if _refused(inside) != "empty-text"]
    return block if len(kept) == len(inner) else {**plain(block), "content": kept}


def _trim_end(messages: list[Message], *, more: bool) -> list[Message]:
    """The list with an end that is taken: no thinking there, nor, unless `more` is to come, white space."""
    while messages and (_ends_in_thinking(messages[-1]) or (_ends_in_space(messages[-1]) and not more)):
        content = get(messages[-1], "content")
        if isinstance(content, str):
            return [*messages[:-1], with_blocks(messages[-1], content.rstrip())]
        *before, last = blocks(messages[-1])
        if get(last, "type") == "text":
            before.append({**plain(last), "text": get(last, "text").rstrip()})
        messages[-1:] = [with_blocks(messages[-1], before)] if before else []
    return messages


def place_systems(messages: Iterable[Message], filler: Message) -> list[Message]:
    """System messages at the end of the user's turn they stand in or before; two of them become one."""
    placed: list[Message] = []
    users: list[Message] = []
    systems: list[Message] = []

    def close_turn() -> None:
        if systems and not users and not (placed and _ends_in_server_tool(placed[-1])):
            users.append(filler)
        placed.extend(users)
        if systems:
            placed.append(systems[0] if len(systems) == 1 else _join_systems(systems))
        users.clear()
        systems.clear()

    for message in messages:
        if get(message, "role") == "assistant":
            close_turn()
            placed.append(message)
        else:
            (systems if get(message, "role") == "system" else users).append(message)
    close_turn()
    return placed


def _join_systems(systems: Sequence[Message]) -> Message:
    merged = with_blocks(systems[0], [block for message in systems for block in blocks(message)])
    return {**plain(systems[-1]), **merged}


def _drop_marks(messages: Iterable[Message]) -> list[Message]:
    """The messages with the last four cache marks and no others."""
    messages = list(messages)
    marked = sum(bool(get(block, "cache_control")) for message in messages for block in _all_blocks(message))
    surplus = iter(range(marked - _CACHE_MARKS))

    def bare(block: Any) -> Any:
        if get(block, "cache_control") and next(surplus, None) is not None:
            block = {key: value for key, value in plain(block).items() if key != "cache_control"}
        kept = [bare(inner) for inner in _inner(block)]
        return block if same_objects(kept, _inner(block)) else {**plain(block), "content": kept}

    def without(message: Message) -> Message:
        given = blocks(message)
        kept = [bare(block) for block in given]
        return message if same_objects(kept, given) else with_blocks(message, kept)

    return [without(message) for message in messages]
