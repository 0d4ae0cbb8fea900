"""Items of the OpenAI Responses API: generated conversations, and what is refused (written apart from `check`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from unabridged.formats import OpenAIResponses
from unabridged_testing.wire import PIXEL, ToolCall, Wire, get_field


class ResponsesWire(Wire):
    """Writes items; one round is several of them."""

    format = OpenAIResponses.name
    sdk = "openai.types.responses"

    def write_system_message(self, text: str) -> None:
        """Write what the host says."""
        self.add(self._build_message(self.rng.choice(("system", "developer")), text), "system")

    def write_person_message(self, text: str, *, media: bool = False, joins: bool = False) -> None:
        """Write what a person says."""
        del joins
        if not media:
            self.add(self._build_message("user", text), "person", text)
            return
        shown: dict[str, Any] = {"type": "input_file", "file_id": "file-17", "filename": "plan.pdf"}
        if self.draw_bool(0.6):
            shown = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"}
        content = [{"type": "input_text", "text": text}, shown]
        self.add({"type": "message", "role": "user", "content": content}, "person", text)

    def write_observation(self, text: str) -> None:
        """Write a text protocol's observation."""
        self.add(self._build_message("user", text), "observation")

    def _build_message(self, role: str, text: str) -> dict[str, Any]:
        if self.draw_bool(0.5):
            return {"role": role, "content": text}
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}

    def write_model_text(self, text: str, thought: str, what: Any) -> None:
        """Write what the model says."""
        self._write_thinking(thought)
        if self.draw_bool(0.2):
            self.add({"role": "assistant", "content": text}, what)
            return
        about = {"type": "message", "id": self.new_id("msg"), "role": "assistant", "status": "completed"}
        item = {**about, "content": [{"type": "output_text", "text": text, "annotations": []}]}
        self.add(self.to_sdk_object("ResponseOutputMessage", item) if self.should_be_sdk_object(text) else item, what)

    def _write_thinking(self, thought: str) -> None:
        if not thought:
            return
        item: dict[str, Any] = {"type": "reasoning", "id": self.new_id("rs"), "summary": []}
        if self.draw_bool(0.5):
            item["summary"] = [{"type": "summary_text", "text": thought}]
        if self.draw_bool(0.8):
            item["encrypted_content"] = "gAAAA" + thought.encode("utf-8", "replace").hex()
        if self.should_be_sdk_object(thought):
            item = self.to_sdk_object("ResponseReasoningItem", item)
        self.add(item, "reasoning")

    def write_tool_round(self, uses: Sequence[ToolCall], order: Sequence[int], text: str, thought: str) -> None:
        """Write calls of tools and their answers."""
        if text:
            self.write_model_text(text, thought, "preamble")
        else:
            self._write_thinking(thought)
        pairs = [self._build_call_and_result(use) for use in uses]
        if self.draw_bool_if_odd(0.2):  # each call answered before the next one
            for call, result in pairs:
                self.add(call, "call")
                self.add(result, "result")
            return
        for call, _ in pairs:
            self.add(call, "call")
        for place in order:
            self.add(pairs[place][1], "result")

    def _build_call_and_result(self, use: ToolCall) -> tuple[Any, dict[str, Any]]:
        call_id, name = self.new_id("call"), use.name.replace(".", "_")
        output: Any = use.result
        if use.result and self.draw_bool_if_odd(0.2):
            output = [{"type": "input_text", "text": use.result}]
        if self.draw_bool_if_odd(0.1):
            call = {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": use.arguments}
            return call, {"type": "custom_tool_call_output", "call_id": call_id, "output": output}
        if self.draw_bool_if_odd(0.1):
            action = {"type": "exec", "command": ["cat", use.name], "env": {}}
            call = {"type": "local_shell_call", "id": self.new_id("lsh"), "call_id": call_id, "status": "completed"}
            shell = json.dumps({"stdout": use.result})
            return {**call, "action": action}, {"type": "local_shell_call_output", "id": call_id, "output": shell}
        call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": use.arguments}
        if self.draw_bool(0.7):
            call["id"] = self.new_id("fc")
        result = {"type": "function_call_output", "call_id": call_id, "output": output}
        is_object = self.should_be_sdk_object(use.arguments)
        return (self.to_sdk_object("ResponseFunctionToolCall", call) if is_object else call), result

    def write_sealed_item(self) -> None:
        """Write a compaction of the provider's own, or a reference to what it stored."""
        item = {"type": "item_reference", "id": ""}
        if self.draw_bool(0.5):
            item = {"type": "compaction", "id": "", "encrypted_content": "gAAAA" + "9a" * 40}
        item["id"] = self.new_id("cmp" if item["type"] == "compaction" else "item")
        self.add(item, "sealed")

    @classmethod
    def refusals(cls, messages: Sequence[Any]) -> list[str]:
        """Return why the Responses API would refuse the items."""
        found: list[str] = []
        calls: dict[str, str] = {}
        answered: set[str] = set()
        ids: set[str] = set()
        stored = False
        for index, item in enumerate(messages):
            kind = get_field(item, "type") or "message"
            if get_field(item, "id") in ids:
                found.append(f"{index}: a second item with id {get_field(item, 'id')!r}")
            ids |= {get_field(item, "id")} - {None}
            stored = stored or kind in {"item_reference", "compaction"}
            if kind.endswith("_call") and get_field(item, "call_id"):
                if get_field(item, "call_id") in calls:
                    found.append(f"{index}: a second call with id {get_field(item, 'call_id')!r}")
                calls[get_field(item, "call_id")] = kind
            elif kind.endswith("_call_output"):
                call_id = get_field(item, "call_id") or get_field(item, "id")
                hidden = call_id not in calls and stored  # the call may be behind a reference to a stored item
                if calls.get(call_id) != kind.removesuffix("_output") and not hidden:
                    found.append(f"{index}: an output for {call_id!r} without its call before it")
                if call_id in answered:
                    found.append(f"{index}: a second output for {call_id!r}")
                answered.add(call_id)
            elif kind == "reasoning" and not _is_model_item(messages[index + 1] if index + 1 < len(messages) else None):
                found.append(f"{index}: a reasoning item without the item it belongs to")
            elif kind == "message":
                found += [f"{index}: {reason}" for reason in _find_message_problems(item)]
        found += [f"{len(messages)}: no output for call {call_id!r}" for call_id in calls if call_id not in answered]
        return found


def _is_model_item(item: Any) -> bool:
    """Return whether only the model can have written this item."""
    if item is None:
        return False
    kind = get_field(item, "type") or "message"
    return bool(get_field(item, "role") == "assistant") if kind == "message" else not str(kind).endswith("_output")


def _find_message_problems(item: Any) -> list[str]:
    role, content = get_field(item, "role"), get_field(item, "content")
    if role not in {"system", "developer", "user", "assistant"}:
        return [f"unknown role {role!r}"]
    if content is None or content == []:
        return [f"a {role} message without content"]
    if isinstance(content, str):
        return []
    allowed = {"output_text", "refusal"} if role == "assistant" else {"input_text", "input_image", "input_file"}
    kinds = [get_field(part, "type") for part in content]
    return [f"a {kind!r} part in a {role} message" for kind in kinds if kind not in allowed]
