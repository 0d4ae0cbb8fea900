"""What each provider's API refuses, written down a second time and on purpose apart from `unabridged.check`.

Two readings of the same rules that never shared a line: where they disagree, one of them is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unabridged.formats import Anthropic, OpenAIChat, OpenAIResponses


def refusals(format: str, messages: Sequence[Any]) -> list[str]:  # noqa: A002 - the word every part uses for it
    """Why the provider would refuse the list; empty when it takes it. Each reason starts with the index."""
    rules = {OpenAIChat.name: _chat, OpenAIResponses.name: _responses, Anthropic.name: _anthropic}
    if format not in rules:
        raise ValueError(f"unknown format {format!r}: choose one of {', '.join(sorted(rules))}")
    if not messages:
        return ["0: the list is empty"]
    return rules[format](messages)


def field(thing: Any, name: str) -> Any:
    """A field of a dict or of an SDK object; None where there is none."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _chat(messages: Sequence[Any]) -> list[str]:
    found: list[str] = []
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        role = field(message, "role")
        if role == "tool":
            call_id = field(message, "tool_call_id")
            if call_id not in waiting:
                found.append(f"{index}: a result for {call_id!r}, which no call right before it waits for")
            waiting.discard(call_id)
        else:
            if waiting:
                found.append(f"{index}: calls {sorted(waiting)} are not answered before the next message")
            waiting = {field(call, "id") for call in field(message, "tool_calls") or ()}
        found += [f"{index}: {reason}" for reason in _chat_shape(message, role)]
    if waiting:
        found.append(f"{len(messages)}: calls {sorted(waiting)} are not answered at the end")
    return found


def _chat_shape(message: Any, role: Any) -> list[str]:
    content, calls = field(message, "content"), field(message, "tool_calls")
    reasons = []
    if role not in {"system", "developer", "user", "assistant", "tool"}:
        reasons.append(f"unknown role {role!r}")
    if role == "assistant":
        if content is None and not calls and not field(message, "refusal"):
            reasons.append("an assistant message without content and without calls")
        if isinstance(calls, list) and not calls:
            reasons.append("an empty list of calls")
        ids = [field(call, "id") for call in calls or ()]
        if len(set(ids)) < len(ids):
            reasons.append("two calls with one id")
    elif content is None:
        reasons.append(f"a {role} message without content")
    if isinstance(content, list):
        if not content:
            reasons.append("an empty list of parts")
        allowed = {"text", "image_url", "file", "input_audio"} if role == "user" else {"text", "refusal"}
        reasons += [
            f"a {field(part, 'type')!r} part in a {role} message"
            for part in content
            if field(part, "type") not in allowed
        ]
    return reasons


def _responses(items: Sequence[Any]) -> list[str]:
    found: list[str] = []
    calls: dict[str, str] = {}
    answered: set[str] = set()
    ids: set[str] = set()
    stored = False
    for index, item in enumerate(items):
        kind = field(item, "type") or "message"
        if field(item, "id") in ids:
            found.append(f"{index}: a second item with id {field(item, 'id')!r}")
        ids |= {field(item, "id")} - {None}
        stored = stored or kind in {"item_reference", "compaction"}
        if kind.endswith("_call") and field(item, "call_id"):
            if field(item, "call_id") in calls:
                found.append(f"{index}: a second call with id {field(item, 'call_id')!r}")
            calls[field(item, "call_id")] = kind
        elif kind.endswith("_call_output"):
            call_id = field(item, "call_id") or field(item, "id")
            hidden = call_id not in calls and stored  # the call may be behind a reference to a stored item
            if calls.get(call_id) != kind.removesuffix("_output") and not hidden:
                found.append(f"{index}: an output for {call_id!r} without its call before it")
            if call_id in answered:
                found.append(f"{index}: a second output for {call_id!r}")
            answered.add(call_id)
        elif kind == "reasoning" and not _is_models(items[index + 1] if index + 1 < len(items) else None):
            found.append(f"{index}: a reasoning item without the item it belongs to")
        elif kind == "message":
            found += [f"{index}: {reason}" for reason in _responses_message(item)]
    found += [f"{len(items)}: no output for call {call_id!r}" for call_id in calls if call_id not in answered]
    return found


def _is_models(item: Any) -> bool:
    """Whether only the model can have written this item."""
    if item is None:
        return False
    kind = field(item, "type") or "message"
    return bool(field(item, "role") == "assistant") if kind == "message" else not str(kind).endswith("_output")


def _responses_message(item: Any) -> list[str]:
    role, content = field(item, "role"), field(item, "content")
    if role not in {"system", "developer", "user", "assistant"}:
        return [f"unknown role {role!r}"]
    if content is None or content == []:
        return [f"a {role} message without content"]
    if isinstance(content, str):
        return []
    allowed = {"output_text", "refusal"} if role == "assistant" else {"input_text", "input_image", "input_file"}
    kinds = [field(part, "type") for part in content]
    return [f"a {kind!r} part in a {role} message" for kind in kinds if kind not in allowed]


def blocks(message: Any) -> list[Any]:
    """An Anthropic message's content as blocks."""
    content = field(message, "content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _anthropic(messages: Sequence[Any]) -> list[str]:
    found: list[str] = []
    roles = [field(message, "role") for message in messages]
    if roles[0] != "user":
        found.append(f"0: the first message is the {roles[0]}'s")
    seen: set[str] = set()
    for index, message in enumerate(messages):
        found += [f"{index}: {reason}" for reason in _anthropic_shape(message, last=index == len(messages) - 1)]
        if roles[index] == "system":
            before, after = roles[max(index - 1, 0)], roles[index + 1] if index + 1 < len(roles) else "assistant"
            if before != "user" or after != "assistant":
                found.append(f"{index}: a system message between {before} and {after}: takes user and assistant only")
        for block in blocks(message):
            if field(block, "type") == "tool_use":
                if field(block, "id") in seen:
                    found.append(f"{index}: a second tool_use with id {field(block, 'id')!r}")
                seen.add(field(block, "id"))
    marks = sum(bool(field(block, "cache_control")) for message in messages for block in blocks(message))
    if marks > 4:
        found.append(f"0: {marks} cache marks, 4 are allowed")
    return found + _anthropic_pairs(messages)


def _anthropic_pairs(messages: Sequence[Any]) -> list[str]:
    """Each turn's calls are answered, all and only they, at the beginning of the next turn, the user's."""
    found: list[str] = []
    waiting: list[str] = []
    for index, role, content in _turns(messages):
        kinds = [field(block, "type") for block in content]
        results = [field(block, "tool_use_id") for block in content if field(block, "type") == "tool_result"]
        if sorted(results) != sorted(waiting) or (results and role != "user"):
            found.append(f"{index}: results for {sorted(results)} after calls {sorted(waiting)}")
        if kinds[: len(results)].count("tool_result") < len(results):
            found.append(f"{index}: a result stands behind other content")
        waiting = [field(block, "id") for block in content if field(block, "type") == "tool_use"]
    if waiting:
        found.append(f"{len(messages)}: no results for {sorted(waiting)} at the end")
    return found


def _turns(messages: Sequence[Any]) -> list[tuple[int, Any, list[Any]]]:
    """User messages in a row are one turn: where it starts, whose it is, and its blocks."""
    turns: list[tuple[int, Any, list[Any]]] = []
    for index, message in enumerate(messages):
        role = field(message, "role")
        if turns and role == "user" == turns[-1][1]:
            turns[-1][2].extend(blocks(message))
        else:
            turns.append((index, role, blocks(message)))
    return turns


def _anthropic_shape(message: Any, *, last: bool) -> list[str]:
    role, content = field(message, "role"), blocks(message)
    reasons = []
    if role not in {"user", "assistant", "system"}:
        reasons.append(f"unknown role {role!r}")
    if not content and not (last and role == "assistant"):
        reasons.append("no content")
    for block in content:
        kind = field(block, "type")
        if kind == "text" and not str(field(block, "text") or "").strip():
            reasons.append("an empty text block")
        if kind in {"tool_use", "thinking", "redacted_thinking"} and role != "assistant":
            reasons.append(f"a {kind} block in a {role} message")
        if kind in {"thinking", "redacted_thinking"} and block is content[-1]:
            reasons.append("thinking at the end of a message")
    if last and role == "assistant" and content and field(content[-1], "type") == "text":
        text = str(field(content[-1], "text"))
        if text != text.rstrip():
            reasons.append("the last assistant message ends in white space")
    return reasons
