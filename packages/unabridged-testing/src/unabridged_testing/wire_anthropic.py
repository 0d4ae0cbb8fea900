"""Anthropic Messages: generated conversations, and what is refused (written apart from `check`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from unabridged.formats import Anthropic
from unabridged_testing.wire import PIXEL, MessageKind, Shape, ToolCall, Wire, get_field, group_turns, sign_text


class AnthropicWire(Wire):
    """Writes messages; tool results ride in those of the user."""

    format = Anthropic.name
    sdk = "anthropic.types"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._marks = 0
        self._pending_system_message: dict[str, Any] | None = None

    def write_system_message(self, text: str) -> None:
        """Write what the host says: taken only after a user message, and before an assistant's or at the end."""
        self._pending_system_message = {"role": "system", "content": text}

    def end(self) -> None:
        """Write the system message that was held back: nothing more happens, or the assistant is next."""
        if self._pending_system_message is not None:
            super().add(self._pending_system_message, "system")
        self._pending_system_message = None

    def add(self, message: Any, what: MessageKind, said: str = "") -> None:
        """Add a message; a system message that may be before it goes first, any other one is left out."""
        if what in {"call", "answer", "action"}:
            self.end()
        self._pending_system_message = None
        super().add(message, what, said)

    def write_person_message(self, text: str, *, media: bool = False, joins: bool = False) -> None:
        """Write what a person says."""
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if joins and self.what and self.what[-1] == "result":
            self._pending_system_message = None
            results = self.messages[-1]
            self.messages[-1] = {"role": "user", "content": [*results["content"], *blocks]}
            self.what[-1], self.said[-1] = "mixed", text
            return
        if not media and self.draw_bool(0.7):
            self.add({"role": "user", "content": text}, "person", text)
            return
        if media:
            kind, mime = ("document", "application/pdf") if self.draw_bool(0.3) else ("image", "image/png")
            shown = {"type": kind, "source": {"type": "base64", "media_type": mime, "data": PIXEL}}
            if kind == "document":
                shown["title"] = "plan.pdf"
            blocks.insert(self.rng.randrange(2), shown)
        self._add_cache_mark(blocks[-1], 0.2)
        self.add({"role": "user", "content": blocks}, "person", text)

    def _add_cache_mark(self, block: dict[str, Any], share: float) -> None:
        """Add a cache mark to some blocks; a request may have four, of which its system prompt and tools take two."""
        if self._marks < 2 and self.draw_bool(share):
            self._marks += 1
            block["cache_control"] = {"type": "ephemeral"}

    def write_model_text(self, text: str, thought: str, what: Any) -> None:
        """Write what the model says."""
        self._write_assistant_message([*self._build_thinking(thought), {"type": "text", "text": text}], what)

    def _build_thinking(self, thought: str) -> list[dict[str, Any]]:
        if not thought:
            return []
        if self.draw_bool_if_odd(0.2):
            return [{"type": "redacted_thinking", "data": sign_text(thought)}]
        return [{"type": "thinking", "thinking": thought, "signature": sign_text(thought)}]

    def _write_assistant_message(self, content: list[dict[str, Any]], what: MessageKind) -> None:
        said: Any = content
        if self.should_be_sdk_object(json.dumps(content)):
            said = [self._to_sdk_block(block) for block in content]
        elif len(content) == 1 and content[0]["type"] == "text" and self.draw_bool(0.7):
            said = content[0]["text"]
        self.add({"role": "assistant", "content": said}, what)

    def _to_sdk_block(self, block: dict[str, Any]) -> Any:
        if block["type"] not in {"text", "tool_use", "thinking", "redacted_thinking"}:
            return block
        name = "".join(word.capitalize() for word in block["type"].split("_"))
        return self.to_sdk_object(f"{name}Block", block)

    def write_tool_round(self, uses: Sequence[ToolCall], order: Sequence[int], text: str, thought: str) -> None:
        """Write calls of tools and their answers."""
        ids = [self.new_id("toolu") for _ in uses]
        content = self._build_thinking(thought)
        if text:
            content.append({"type": "text", "text": text})
        if self.draw_bool_if_odd(0.1):
            content += _build_server_tool_blocks(self.new_id("srvtoolu"))
        for use, call_id in zip(uses, ids, strict=True):
            name = use.name.replace(".", "_")
            content.append({"type": "tool_use", "id": call_id, "name": name, "input": json.loads(use.arguments)})
        self._write_assistant_message(content, "call")
        results = [self._build_result(uses[place], ids[place]) for place in order]
        self.add({"role": "user", "content": results}, "result")

    def _build_result(self, use: ToolCall, call_id: str) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
        if use.result.strip() and self.draw_bool(0.4):
            block["content"] = [{"type": "text", "text": use.result}]
        elif use.result or self.draw_bool(0.5):
            block["content"] = use.result
        if use.error:
            block["is_error"] = True
        self._add_cache_mark(block, 0.05)
        return block

    @classmethod
    def refusals(cls, messages: Sequence[Any]) -> list[str]:
        """Return why Anthropic would refuse the list."""
        found: list[str] = []
        roles = [get_field(message, "role") for message in messages]
        is_compacted = any(get_field(block, "type") == "compaction" for block in list_blocks(messages[0])[:1])
        if roles[0] != "user" and not is_compacted:
            found.append(f"0: the first message is the {roles[0]}'s")
        for index, message in enumerate(messages):
            found += [f"{index}: {reason}" for reason in _find_shape_problems(message, last=index == len(messages) - 1)]
            if roles[index] == "system":
                before, after = roles[max(index - 1, 0)], roles[index + 1] if index + 1 < len(roles) else "assistant"
                if before != "user" or after != "assistant":
                    found.append(f"{index}: a system message between {before} and {after}")
        every = [block for message in messages for block in list_blocks(message)]
        ids = Counter(get_field(block, "id") for block in every if get_field(block, "type") == "tool_use")
        found += [f"0: {count} tool_use blocks with id {id_!r}" for id_, count in ids.items() if count > 1]
        marks = sum(bool(get_field(block, "cache_control")) for block in every)
        if marks > 4:
            found.append(f"0: {marks} cache marks, 4 are allowed")
        return found + _find_unpaired_calls(messages)


def _build_server_tool_blocks(call_id: str) -> list[dict[str, Any]]:
    found = {"type": "web_search_result", "url": "https://example.com", "title": "t", "encrypted_content": "Eo8B"}
    return [
        {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "invoice"}},
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [found]},
    ]


def list_blocks(message: Any) -> list[Any]:
    """Return an Anthropic message's content as blocks."""
    content = get_field(message, "content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _find_unpaired_calls(messages: Sequence[Any]) -> list[str]:
    """Return each turn whose calls are not answered, all and only they, at the beginning of the user's next turn."""
    found: list[str] = []
    waiting: list[str] = []
    for index, turn in group_turns(messages, "user"):
        content = [block for message in turn for block in list_blocks(message)]
        kinds = [get_field(block, "type") for block in content]
        results = [get_field(block, "tool_use_id") for block in content if get_field(block, "type") == "tool_result"]
        if sorted(results) != sorted(waiting) or (results and get_field(turn[0], "role") != "user"):
            found.append(f"{index}: results for {results} after calls {waiting}")
        if kinds[: len(results)].count("tool_result") < len(results):
            found.append(f"{index}: a result stands behind other content")
        waiting = [get_field(block, "id") for block in content if get_field(block, "type") == "tool_use"]
    return [*found, f"{len(messages)}: no results for {waiting} at the end"] if waiting else found


def _find_shape_problems(message: Any, *, last: bool) -> list[str]:
    role, content = get_field(message, "role"), list_blocks(message)
    reasons = []
    if role not in {"user", "assistant", "system"}:
        reasons.append(f"unknown role {role!r}")
    if not content and not (last and role == "assistant"):
        reasons.append("no content")
    for block in content:
        kind = get_field(block, "type")
        if kind == "text" and not str(get_field(block, "text") or "").strip():
            reasons.append("an empty text block")
        if kind in {"tool_use", "thinking", "redacted_thinking"} and role != "assistant":
            reasons.append(f"a {kind} block in a {role} message")
        if kind in {"thinking", "redacted_thinking"} and block is content[-1]:
            reasons.append("thinking at the end of a message")
    if last and role == "assistant" and content and get_field(content[-1], "type") == "text":
        text = str(get_field(content[-1], "text"))
        if text != text.rstrip():
            reasons.append("the last assistant message ends in white space")
    return reasons
