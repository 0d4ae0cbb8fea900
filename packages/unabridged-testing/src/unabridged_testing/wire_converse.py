"""Bedrock's Converse: generated conversations, and what is refused (written apart from `check`)."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Sequence
from typing import Any

from unabridged.formats import BedrockConverse
from unabridged_testing.wire import PIXEL, Shape, ToolCall, Wire, sign_text


class ConverseWire(Wire):
    """Writes messages that take turns; tool results ride in those of the user."""

    format = BedrockConverse.name

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._points = 0

    def write_person_message(self, text: str, *, media: bool = False, joins: bool = False) -> None:
        """Write what a person says: behind results in the same message, behind an observation nothing."""
        del joins
        if self.what and self.what[-1] == "observation":
            return
        blocks: list[dict[str, Any]] = [{"text": text}]
        if media:
            blocks.insert(self.rng.randrange(2), self._build_media())
        self._add_cache_point(blocks, 0.1)
        if self.what and self.what[-1] in {"person", "mixed", "result"}:
            self.messages[-1] = {"role": "user", "content": [*self.messages[-1]["content"], *blocks]}
            self.said[-1] = f"{self.said[-1]}\n{text}".lstrip("\n")
            self.what[-1] = "person" if self.what[-1] == "person" else "mixed"
        else:
            self.add({"role": "user", "content": blocks}, "person", text)

    def _build_media(self) -> dict[str, Any]:
        data = {"bytes": b64decode(PIXEL)}
        if self.draw_bool(0.3):
            return {"document": {"format": "pdf", "name": "plan", "source": data}}
        place = {"s3Location": {"uri": "s3://pictures/a.png"}}
        return {"image": {"format": "png", "source": place if self.draw_bool_if_odd(0.3) else data}}

    def _add_cache_point(self, blocks: list[dict[str, Any]], share: float) -> None:
        """Add a cache point to some messages; a request may have four, and its system prompt and tools take two."""
        if self._points < 2 and self.draw_bool(share):
            self._points += 1
            blocks.append({"cachePoint": {"type": "default"}})

    def repeat_person_message(self) -> None:
        """Write the very object of the last person's message once more, behind an answer to it."""
        index = max(index for index, what in enumerate(self.what) if what == "person")
        self.write_model_text("Say it again, please.", "", "answer")
        self.add(self.messages[index], "person", self.said[index])

    def write_observation(self, text: str) -> None:
        """Write a text protocol's observation."""
        self.add({"role": "user", "content": [{"text": text}]}, "observation")

    def write_model_text(self, text: str, thought: str, what: Any) -> None:
        """Write what the model says."""
        said: dict[str, Any] = {"text": text}
        if self.draw_bool_if_odd(0.1):
            place = {"documentChar": {"documentIndex": 0, "start": 0, "end": 3}}
            said = {"citationsContent": {"content": [said], "citations": [{"title": "plan", "location": place}]}}
        self.add({"role": "assistant", "content": [*self._build_thinking(thought), said]}, what)

    def _build_thinking(self, thought: str) -> list[dict[str, Any]]:
        if not thought:
            return []
        if self.draw_bool_if_odd(0.2):
            return [{"reasoningContent": {"redactedContent": sign_text(thought).encode()}}]
        return [{"reasoningContent": {"reasoningText": {"text": thought, "signature": sign_text(thought)}}}]

    def write_tool_round(self, uses: Sequence[ToolCall], order: Sequence[int], text: str, thought: str) -> None:
        """Write calls of tools, and their answers in one message."""
        ids = [self.new_id("tooluse") for _ in uses]
        content = self._build_thinking(thought)
        if text:
            content.append({"text": text})
        if self.draw_bool_if_odd(0.1):
            content += _build_server_tool_blocks(self.new_id("tooluse"))
        for use, id_ in zip(uses, ids, strict=True):
            name = use.name.replace(".", "_")
            content.append({"toolUse": {"toolUseId": id_, "name": name, "input": json.loads(use.arguments)}})
        self.add({"role": "assistant", "content": content}, "call")
        results = [self._build_result(uses[place], ids[place]) for place in order]
        self._add_cache_point(results, 0.05)
        self.add({"role": "user", "content": results}, "result")

    def _build_result(self, use: ToolCall, id_: str) -> dict[str, Any]:
        is_json = self.draw_bool_if_odd(0.2)
        said: list[dict[str, Any]] = [{"json": {"output": use.result}} if is_json else {"text": use.result}]
        if not use.result and not use.error and self.draw_bool(0.5):
            said = []
        if self.draw_bool_if_odd(0.1):
            said.append({"image": {"format": "png", "source": {"bytes": b64decode(PIXEL)}}})
        result: dict[str, Any] = {"toolUseId": id_, "content": said}
        if use.error or self.draw_bool(0.5):
            result["status"] = "error" if use.error else "success"
        return {"toolResult": result}

    @classmethod
    def refusals(cls, messages: Sequence[Any]) -> list[str]:
        """Return why Bedrock would refuse the list."""
        found: list[str] = []
        roles = [message["role"] for message in messages]
        for index, message in enumerate(messages):
            if roles[index] != ("user", "assistant")[index % 2]:
                found.append(f"{index}: the {roles[index]}'s turn where it is the other's")
            found += [f"{index}: {reason}" for reason in _find_shape_problems(message, last=index == len(messages) - 1)]
        ids = Counter(id_ for message in messages for id_ in _list_call_ids(message))
        found += [f"0: {count} calls with the id {id_!r}" for id_, count in ids.items() if count > 1]
        points = sum("cachePoint" in block for message in messages for block in message["content"])
        if points > 4:
            found.append(f"0: {points} cache points, 4 are allowed")
        return found + _find_unpaired_calls(messages)


def _build_server_tool_blocks(id_: str) -> list[dict[str, Any]]:
    called = {"toolUseId": id_, "name": "nova_grounding", "input": {"query": "invoice"}, "type": "server_tool_use"}
    found = {"toolUseId": id_, "content": [{"text": "Found nothing."}], "type": "nova_grounding_result"}
    return [{"toolUse": called}, {"toolResult": found}]


def _list_call_ids(message: Any) -> list[str]:
    uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    return [use["toolUseId"] for use in uses if use.get("type") != "server_tool_use"]


def _find_unpaired_calls(messages: Sequence[Any]) -> list[str]:
    """Return each turn whose calls are not answered, all and only they, at the beginning of the next message."""
    found: list[str] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        content = message["content"] if message["role"] == "user" else []
        results = [block["toolResult"]["toolUseId"] for block in content if "toolResult" in block]
        if sorted(results) != sorted(waiting):
            found.append(f"{index}: results for {results} after calls {waiting}")
        if sum("toolResult" in block for block in content[: len(results)]) < len(results):
            found.append(f"{index}: a result stands behind other content")
        waiting = _list_call_ids(message)
    return [*found, f"{len(messages)}: no results for {waiting} at the end"] if waiting else found


def _find_shape_problems(message: Any, *, last: bool) -> list[str]:
    role, content = message["role"], message["content"]
    if not isinstance(content, list):
        return ["content that is no list of blocks"]
    said = [block for block in content if "cachePoint" not in block]
    reasons = [] if said else ["no content"]
    for block in content:
        if len(block) != 1:
            reasons.append(f"a block with the keys {sorted(block)}")
        if "text" in block and not block["text"].strip():
            reasons.append("a blank text block")
        if role != "assistant" and ("toolUse" in block or "reasoningContent" in block):
            reasons.append(f"a block of the model's in a {role} message")
        result = block.get("toolResult", {})
        if result.get("status") == "error" and not result["content"]:
            reasons.append("an error without content")
    if said and "reasoningContent" in said[-1]:
        reasons.append("thinking at the end of a message")
    if last and role == "assistant" and said and said[-1].get("text", "") != said[-1].get("text", "").rstrip():
        reasons.append("the last assistant message ends in white space")
    return reasons
