"""What Bedrock's Converse refuses besides unpaired calls, and how it is mended.

Bedrock wants the turns to alternate, the user's first, and no blank text among them; what it demands of thinking and
of the end of the list is what the Claude behind it demands.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from unabridged.formats.anthropic.rules import FIRST_ADAPTIVE, is_before, place_systems, prefill, system_places
from unabridged.formats.base import Finding, Message, Outgoing, Provider
from unabridged.formats.fields import get, same_objects, text_at, word
from unabridged.formats.rule_blocks import (
    CONTINUE,
    begin_with_user,
    first_user,
    insert,
    leave_out,
    refuse_each,
    refuse_trailing_space,
    says_nothing,
)
from unabridged.messages import MediaKind, Reasoning

CONTINUED = "Understood."
"""The assistant's turn that is put in where two of the user's meet."""
MEDIA: tuple[MediaKind, ...] = ("image", "document", "video", "audio")
OPAQUE = frozenset({"toolAddition", "toolRemoval"})
_CACHE_POINTS = 4
_KINDS = (
    "text", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent",
    "searchResult", "json", *MEDIA, *OPAQUE,
)  # fmt: skip


# -- what stands in a message ----------------------------------------------------------------------------------------


def block_kind(block: Any) -> str:
    """The key that names the block; "" for what is none of Converse's."""
    return next((kind for kind in _KINDS if kind in block), "") if isinstance(block, Mapping) else ""


def blocks_of(message: Message) -> list[Any]:
    """The message's content as blocks; a string is one text block."""
    content = get(message, "content")
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return list(content or ())


def with_blocks(message: Message, content: Any) -> Message:
    """A copy with this content."""
    return {**message, "content": content}


def is_call(block: Any) -> bool:
    """Whether the caller runs the tool: what a provider's own tool did stands, result and all, in the model's turn."""
    return block_kind(block) == "toolUse" and word(block["toolUse"], "type") != "server_tool_use"


def is_result(block: Any) -> bool:
    """Whether it is a tool's result."""
    return block_kind(block) == "toolResult"


def thinks(block: Any) -> bool:
    """Whether it is the model's thinking."""
    return block_kind(block) == "reasoningContent"


def read_thought(held: Any) -> Reasoning:
    """A thought, or one that only the provider can read."""
    sealed = get(held, "redactedContent")
    if sealed is not None:
        return Reasoning("", b64encode(sealed).decode() if isinstance(sealed, bytes | bytearray) else str(sealed))
    thought = get(held, "reasoningText") or {}
    return Reasoning(text_at(thought, "text"), text_at(thought, "signature"))


# -- rules -----------------------------------------------------------------------------------------------------------


def _is_blank(block: Any) -> bool:
    return block_kind(block) == "text" and not str(block["text"] or "").strip()


def is_point(block: Any) -> bool:
    """Whether it is no content, but marks how far the cache reaches."""
    return block_kind(block) == "cachePoint"


def has_nothing(message: Message) -> bool:
    """Whether there is nothing in it but cache points."""
    return all(is_point(block) for block in blocks_of(message))


def _is_silent_error(block: Any) -> bool:
    """Whether it says that a tool failed, and no more."""
    return (
        is_result(block) and get(block["toolResult"], "status") == "error" and not get(block["toolResult"], "content")
    )


def _has_late_results(message: Message) -> bool:
    kinds = [is_result(block) for block in blocks_of(message)]
    return get(message, "role") == "user" and kinds != sorted(kinds, reverse=True)


def _ends_in_thinking(message: Message) -> bool:
    last = [block for block in blocks_of(message) if not is_point(block)][-1:]
    return any(map(thinks, last))


def _thinks_late(message: Message) -> bool:
    kinds = [thinks(block) for block in blocks_of(message)]
    return any(kinds) and not kinds[0]


def _ends_in_space(message: Message) -> bool:
    last = blocks_of(message)[-1:]
    if get(message, "role") != "assistant" or not last or block_kind(last[0]) != "text":
        return False
    return bool(last[0]["text"].strip()) and last[0]["text"] != last[0]["text"].rstrip()


def _is_claude(given: Outgoing) -> bool:
    return "claude" in (given.model or "").lower()


def _turns_that_meet(given: Outgoing) -> Iterator[Finding]:
    """User and assistant take turns, message by message; system messages do not count."""
    before = ""
    for index, view in enumerate(given.views if given.own else ()):
        if view.role == before:
            yield Finding(
                "alternation", index, f"message {index} follows another of the {before}'s: join them, or part them"
            )
        before = before if view.role == "system" else view.role


def _empty_messages(given: Outgoing) -> Iterator[Finding]:
    for index, view in enumerate(given.views):
        empty = has_nothing(given.messages[index]) if given.own and given.messages is not None else says_nothing(view)
        if empty and view.role != "system":
            yield Finding("empty-message", index, f"message {index} ({view.role}) has no content: leave it out")


def _unsigned_thinking(given: Outgoing) -> Iterator[Finding]:
    """Claude's thinking carries its signature; other models' has none."""
    for index, message in given.wire() if _is_claude(given) else ():
        if any(thinks(block) and not read_thought(block["reasoningContent"]).signature for block in blocks_of(message)):
            yield Finding(
                "unsigned-thinking", index, f"message {index} has thinking without a signature: leave the block out"
            )


def _late_thinking(given: Outgoing) -> Iterator[Finding]:
    if is_before(given.model, FIRST_ADAPTIVE):
        fault = "has thinking behind other blocks: put it first, unchanged"
        yield from refuse_each("thinking-first", _thinks_late, fault)(given)


_trailing_space = refuse_trailing_space(_ends_in_space)


def _cache_points(given: Outgoing) -> Iterator[Finding]:
    """At most four cache points; those of the system prompt and the tools count too, and are not seen here."""
    points = [i for i, message in given.wire() for block in blocks_of(message) if is_point(block)]
    for index in sorted(set(points[:-_CACHE_POINTS])):
        yield Finding(
            "cache-marks", index, f"{len(points)} cache points, and {_CACHE_POINTS} may be: leave out the earlier ones"
        )


class Bedrock(Provider):
    """Converse, with any model behind it."""

    name = "bedrock-converse"
    unique_ids = True
    system_apart = True
    rules = (
        first_user,
        _turns_that_meet,
        _empty_messages,
        refuse_each(
            "content-list",
            lambda message: isinstance(get(message, "content"), str),
            'has a text as its content: put it into a list, [{"text": …}]',
        ),
        refuse_each("blank-text", lambda m: any(map(_is_blank, blocks_of(m))), "has a blank text block: leave it out"),
        refuse_each(
            "silent-error",
            lambda message: any(map(_is_silent_error, blocks_of(message))),
            "has a toolResult with the status error and no content: say what failed",
        ),
        refuse_each("results-first", _has_late_results, "has a toolResult behind other blocks: put results first"),
        refuse_each("thinking-last", _ends_in_thinking, "ends in thinking: leave the block out"),
        _trailing_space,
        _unsigned_thinking,
        _late_thinking,
        _cache_points,
        system_places,
        prefill,
    )

    def clean(self, given: Outgoing) -> Outgoing:
        """Without empty messages and without blocks that are refused for themselves."""
        if not given.own:
            return leave_out(given, lambda _, view: view.role != "system" and says_nothing(view))
        cleaned = [_clean_blocks(message, given) for _, message in given.wire()]
        return given.having([message for message in cleaned if not has_nothing(message)])

    def arrange(self, given: Outgoing) -> Outgoing:
        """With a user's turn first and, where the model wants it, last; turns that meet are parted."""
        if not given.own:
            return begin_with_user(given)
        whole = [message for _, message in given.wire() if not has_nothing(message)]  # a result may have left a point
        given = begin_with_user(given.having(whole) if len(whole) < len(given.views) else given)
        go_on, noted = given.format.text("user", CONTINUE), given.format.text("assistant", CONTINUED)
        if any(_trailing_space(given)):
            *before, last = given.messages or ()
            given = given.having([*before, _strip_end(last)])
        if any(prefill(given)):
            given = given.having([*(given.messages or ()), go_on])
        if any(system_places(given)):
            given = given.having(place_systems(given.messages or (), go_on))
        met = [finding.index for finding in _turns_that_meet(given)]
        given = insert(given, {i: noted if given.views[i].role == "user" else go_on for i in met})
        return given.having(_drop_points(given.messages or ())) if any(_cache_points(given)) else given


def _clean_blocks(message: Message, given: Outgoing) -> Message:
    """The message with no block that is refused for itself; as it is when there was none."""
    content = blocks_of(message)
    kept = [block for block in content if not _is_blank(block)]
    if _is_claude(given):
        kept = [b for b in kept if not thinks(b) or read_thought(b["reasoningContent"]).signature]
    if is_before(given.model, FIRST_ADAPTIVE) and _thinks_late({"content": kept}):
        kept.sort(key=lambda block: not thinks(block))
    while _ends_in_thinking({"content": kept}):
        kept = [*kept[: max(i for i, block in enumerate(kept) if thinks(block))]]
    kept = [_explain_error(block) if _is_silent_error(block) else block for block in kept]
    same = same_objects(kept, content) and not isinstance(get(message, "content"), str)
    return message if same else with_blocks(message, kept)


def _explain_error(block: Any) -> Any:
    return {"toolResult": {**block["toolResult"], "content": [{"text": "[It failed, and said nothing.]"}]}}


def _strip_end(message: Message) -> Message:
    *before, last = blocks_of(message)
    return with_blocks(message, [*before, {"text": last["text"].rstrip()}])


def _drop_points(messages: Iterable[Message]) -> list[Message]:
    """The messages with the last four cache points and no others."""
    messages = list(messages)
    surplus = sum(is_point(block) for message in messages for block in blocks_of(message)) - _CACHE_POINTS
    kept: list[Message] = []
    for message in messages:
        content = blocks_of(message)
        points = [block for block in content if is_point(block)][: max(surplus, 0)]
        surplus -= len(points)
        left = [block for block in content if not any(block is point for point in points)]
        kept.append(with_blocks(message, left) if points else message)
    return kept
