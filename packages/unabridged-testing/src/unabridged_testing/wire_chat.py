"""OpenAI Chat Completions: generated conversations, and what is refused.

The rules are written down a second time, on purpose apart from `unabridged.check`: two readings that never shared a
line; where they disagree, one of them is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unabridged.formats import OpenAIChat
from unabridged_testing.wire import PIXEL, ToolCall, Wire, get_field, group_turns


class ChatWire(Wire):
    """Writes messages."""

    format = OpenAIChat.name
    sdk = "openai.types.chat"

    def write_system_message(self, text: str) -> None:
        """Write what the host says."""
        self.add({"role": self.rng.choice(("system", "developer")), "content": text}, "system")

    def write_person_message(self, text: str, *, media: bool = False, joins: bool = False) -> None:
        """Write what a person says."""
        del joins
        message: dict[str, Any] = {"role": "user", "content": text}
        if media:
            message["content"] = [{"type": "text", "text": text}, self._build_media()]
        elif self.draw_bool_if_odd(0.3):
            message["content"] = [{"type": "text", "text": text}]
        if self.draw_bool_if_odd(0.2):
            message["name"] = "ada"
        self.add(message, "person", text)

    def _build_media(self) -> dict[str, Any]:
        kind = self.rng.randrange(3)
        if kind == 0:
            url, detail = f"data:image/png;base64,{PIXEL}", self.rng.choice(("low", "auto"))
            return {"type": "image_url", "image_url": {"url": url, "detail": detail}}
        if kind == 1:
            return {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}
        data = f"data:application/pdf;base64,{PIXEL}"
        return {"type": "file", "file": {"filename": "plan.pdf", "file_data": data}}

    def write_model_text(self, text: str, thought: str, what: Any) -> None:
        """Write what the model says."""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thought:
            message["reasoning_content"] = thought
        if self.should_be_sdk_object(text, thought):
            message = self.to_sdk_object("ChatCompletionMessage", message)
        elif self.draw_bool_if_odd(0.2):
            message["content"] = [{"type": "text", "text": text}]
        elif self.draw_bool_if_odd(0.1):
            message["content"], message["refusal"] = None, text
        self.add(message, what)

    def write_tool_round(self, uses: Sequence[ToolCall], order: Sequence[int], text: str, thought: str) -> None:
        """Write calls of tools and their answers."""
        ids = [self.new_id("call") for _ in uses]
        if self.draw_bool_if_odd(0.1):  # servers that count anew in each answer; pairs are found by place
            ids = [f"call_{number}" for number in range(len(uses))]
        calls = [self._build_call(use, call_id) for use, call_id in zip(uses, ids, strict=True)]
        content = text or self.rng.choice((None, ""))
        message: dict[str, Any] = {"role": "assistant", "content": content, "tool_calls": calls}
        if thought:
            message["reasoning_content"] = thought
        whole = self.should_be_sdk_object(text, thought, *(use.arguments for use in uses))
        self.add(self.to_sdk_object("ChatCompletionMessage", message) if whole else message, "call")
        for place in order:
            result: Any = uses[place].result
            if result and self.draw_bool_if_odd(0.2):
                result = [{"type": "text", "text": result}]
            self.add({"role": "tool", "tool_call_id": ids[place], "content": result}, "result")

    def _build_call(self, use: ToolCall, call_id: str) -> dict[str, Any]:
        name = use.name.replace(".", "_")
        if self.draw_bool_if_odd(0.1):
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": use.arguments}}
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": use.arguments}}

    @classmethod
    def refusals(cls, messages: Sequence[Any]) -> list[str]:
        """Return why Chat Completions would refuse the list."""
        found = [f"{i}: {reason}" for i, message in enumerate(messages) for reason in _find_shape_problems(message)]
        waiting: list[str] = []
        for index, turn in group_turns(messages, "tool"):
            results = [get_field(message, "tool_call_id") for message in turn if get_field(message, "role") == "tool"]
            if sorted(results) != sorted(waiting):
                found.append(f"{index}: results for {results} after calls {waiting}")
            waiting = [get_field(call, "id") for call in get_field(turn[0], "tool_calls") or ()]
        return [*found, f"{len(messages)}: no results for {waiting} at the end"] if waiting else found


def _find_shape_problems(message: Any) -> list[str]:
    role, content, calls = (get_field(message, name) for name in ("role", "content", "tool_calls"))
    reasons = []
    if role not in {"system", "developer", "user", "assistant", "tool"}:
        reasons.append(f"unknown role {role!r}")
    if role == "assistant":
        if content is None and not calls and not get_field(message, "refusal"):
            reasons.append("an assistant message without content and without calls")
        if isinstance(calls, list) and not calls:
            reasons.append("an empty list of calls")
        ids = [get_field(call, "id") for call in calls or ()]
        if len(set(ids)) < len(ids):
            reasons.append("two calls with one id")
    elif content is None:
        reasons.append(f"a {role} message without content")
    if isinstance(content, list):
        if not content:
            reasons.append("an empty list of parts")
        allowed = {"text", "image_url", "file", "input_audio"} if role == "user" else {"text", "refusal"}
        kinds = [get_field(part, "type") for part in content]
        reasons += [f"a {kind!r} part in a {role} message" for kind in kinds if kind not in allowed]
    return reasons
