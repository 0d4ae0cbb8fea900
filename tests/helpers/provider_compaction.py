"""The providers' own compaction, as Anthropic and OpenAI serve it: its requests, and the rules for what it made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from unabridged_testing.loopback import count_tokens
from unabridged_testing.loopback_messages import LoopbackMessages
from unabridged_testing.loopback_wires import LoopbackResponses, LoopbackWire, ServedAnswer
from unabridged_testing.upstreams import Refused

BETA = "compact-2026-09-04"
MESSAGES_FIELDS = frozenset({
    "model", "max_tokens", "messages", "compaction", "system", "tools", "tool_choice", "thinking", "output_config",
    "metadata", "temperature", "service_tier", "cache_control", "top_k", "top_p",
})  # fmt: skip
"""The fields that a request to compact may have at Anthropic, which only shape no answer."""
COMPACT_FIELDS = frozenset({
    "model", "input", "instructions", "previous_response_id", "prompt_cache_key", "prompt_cache_retention",
    "service_tier",
})  # fmt: skip
"""The fields that `/responses/compact` has."""


class CompactionRefused(Refused):
    """A refusal with the provider's own code for it."""

    def __init__(self, code: str, words: str) -> None:
        self.code = code
        super().__init__(words)


class Compactions:
    """Compacts for a `LoopbackProvider`, and knows what it made: nothing else is taken for a compaction.

    `made` has every block, in order, `asked` the body of every request that was taken, and `size` the characters of
    what is made of each.
    """

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.size = 400

    def is_request(self, path: str, body: Any) -> bool:
        """Return whether a compaction is asked for."""
        path = path.partition("?")[0]
        return path.endswith("/responses/compact") or (path.endswith("/v1/messages") and "compaction" in body)

    def check(self, wire: LoopbackWire, body: dict[str, Any], headers: dict[str, str]) -> ServedAnswer | None:
        """Return the refusal of a request whose compactions are not as they must be; None for one that is taken."""
        try:
            if type(wire) is LoopbackMessages:
                self._check_blocks(body["messages"], headers)
            elif isinstance(wire, LoopbackResponses):
                self._check_items(wire.messages(body))
        except CompactionRefused as refused:
            return _build_refusal(wire, refused)
        return None

    def serve(self, wire: LoopbackWire, body: dict[str, Any], headers: dict[str, str], window: int) -> ServedAnswer:
        """Return the answer to a request to compact."""
        is_anthropic = type(wire) is LoopbackMessages
        try:
            if is_anthropic:
                _check_messages_request(body, headers)
            else:
                _check_compact_request(body)
            wire.take(body)
        except CompactionRefused as refused:
            return _build_refusal(wire, refused)
        except Refused as reasons:
            return wire.build_refusal(str(reasons))
        tokens = count_tokens(wire.collect_model_input(body))
        if tokens > window:
            return wire.build_too_long_answer(tokens, window, streamed=False)
        self.asked.append(body)
        return ServedAnswer(200, self._compact_messages(body, tokens) if is_anthropic else self._compact(body, tokens))

    def _compact_messages(self, body: dict[str, Any], tokens: int) -> dict[str, Any]:
        number = len(self.made) + 1
        text = f"Compaction {number} of {len(body['messages'])} messages. " + "It went on steadily. " * self.size
        text = text[: self.size]
        signature = hashlib.sha256(f"{number} {text}".encode()).hexdigest()
        block = {"type": "compaction", "content": text, "encrypted_content": None, "signature": signature}
        self.made.append(block)
        passes: dict[str, Any] = {"input_tokens": tokens, "output_tokens": len(text) // 4, "cache_read_input_tokens": 0}
        passes |= {"cache_creation_input_tokens": 0, "type": "compaction"}
        usage = {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        about = {"id": f"msg_compaction_{number}", "type": "message", "role": "assistant", "model": body["model"]}
        stop = {"stop_reason": "compaction", "stop_sequence": None}
        return {**about, "content": [block], **stop, "usage": {**usage, "iterations": [passes]}}

    def _compact(self, body: dict[str, Any], tokens: int) -> dict[str, Any]:
        number = len(self.made) + 1
        sealed = (hashlib.sha256(f"sealed {number}".encode()).hexdigest() * (self.size // 64 + 1))[: self.size]
        item = {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": sealed}
        self.made.append(item)
        people = [
            {"type": "message", "id": f"msg_{number}_{i}", "role": "user", "status": "completed", "content": content}
            for i, message in enumerate(body["input"])
            if message.get("role") == "user" and (content := _to_input_parts(message["content"]))
        ]
        usage: dict[str, Any] = {"input_tokens": tokens, "output_tokens": self.size // 4}
        usage |= {"total_tokens": tokens + self.size // 4, "input_tokens_details": {"cached_tokens": 0}}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
        about = {"id": f"resp_{number}", "object": "response.compaction", "created_at": 1}
        return {**about, "output": [*people, item], "usage": usage}

    def _check_blocks(self, messages: list[Any], headers: dict[str, str]) -> None:
        blocks = [
            (i, j, message["role"], block)
            for i, message in enumerate(messages)
            for j, block in enumerate(_list_blocks(message))
            if block.get("type") == "compaction" and block.get("content") is not None
        ]
        if not blocks:
            return
        if BETA not in headers.get("anthropic-beta", ""):
            raise CompactionRefused("", "messages: compaction blocks need the beta header")
        if len(blocks) > 1:
            raise CompactionRefused("compaction_block_ambiguous", f"messages: {len(blocks)} compaction blocks")
        ((message_index, block_index, role, block),) = blocks
        if (message_index, block_index) != (0, 0) or role == "system":
            raise CompactionRefused("compaction_block_misplaced", "messages: a compaction block is not the first")
        known = [made for made in self.made if made["signature"] == block.get("signature")]
        if not known:
            raise CompactionRefused("compaction_signature_invalid", "messages.0: the signature does not verify")
        if {key: value for key, value in block.items() if key != "cache_control"} != known[0]:
            raise CompactionRefused("compaction_content_mismatch", "messages.0: the compaction block was changed")

    def _check_items(self, items: list[Any]) -> None:
        for item in items:
            if item.get("type") == "compaction" and item not in self.made:
                raise CompactionRefused("invalid_encrypted_content", "The encrypted content could not be verified.")


def _check_compact_request(body: dict[str, Any]) -> None:
    if unknown := sorted(body.keys() - COMPACT_FIELDS):
        raise CompactionRefused("unknown_parameter", f"Unknown parameter: '{unknown[0]}'.")


def _check_messages_request(body: dict[str, Any], headers: dict[str, str]) -> None:
    """Raise for a request to compact with what it may not have, or whose end is no finished turn."""
    if BETA not in headers.get("anthropic-beta", ""):
        raise CompactionRefused("", "compaction: Extra inputs are not permitted")
    if unknown := sorted(body.keys() - MESSAGES_FIELDS):
        raise CompactionRefused("", f"{unknown[0]}: can't be combined with compaction")
    if "format" in (body.get("output_config") or {}):
        raise CompactionRefused("", "output_config.format: can't be combined with compaction")
    if (body.get("tool_choice") or {}).get("type") in {"any", "tool"}:
        raise CompactionRefused("", "tool_choice: a forced tool can't be combined with compaction")
    if body["compaction"].get("type") != "summarize":
        raise CompactionRefused("", "compaction.type: Input should be 'summarize'")
    if not any(block.get("type") != "compaction" for message in body["messages"] for block in _list_blocks(message)):
        raise CompactionRefused("compaction_nothing_to_summarize", "messages: nothing to summarize")
    if body["messages"][-1]["role"] == "assistant" and any(
        block.get("type") == "tool_use" for block in _list_blocks(body["messages"][-1])
    ):
        raise CompactionRefused("compaction_incomplete_turn", "messages: the last turn is not finished")


def _build_refusal(wire: LoopbackWire, refused: CompactionRefused) -> ServedAnswer:
    served = wire.build_refusal(str(refused))
    served.content["error"] |= {"details": {"error_code": refused.code}} if refused.code else {}
    return served


def build_null_answer() -> bytes:
    """Return the answer of Anthropic to a compaction that failed: a block without text, which was paid for."""
    passes: dict[str, Any] = {"type": "compaction", "input_tokens": 900, "output_tokens": 9}
    passes |= {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    about: dict[str, Any] = {"id": "msg_null", "type": "message", "role": "assistant", "model": "served"}
    about |= {"stop_reason": "compaction", "stop_sequence": None}
    block = {"type": "compaction", "content": None}
    usage = {"input_tokens": 0, "output_tokens": 0, "iterations": [passes]}
    return json.dumps({**about, "content": [block], "usage": usage}).encode()


def list_compactions(messages: Sequence[Any]) -> list[Any]:
    """Return the providers' own blocks and items in the list."""
    dicts = [message for message in messages if isinstance(message, dict)]
    parts = [part for one in dicts for part in (one["content"] if isinstance(one.get("content"), list) else [one])]
    return [part for part in parts if isinstance(part, dict) and part.get("type") == "compaction"]


def _list_blocks(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    yield from content if isinstance(content, list) else [{"type": "text", "text": content}]


def _to_input_parts(content: Any) -> list[Any]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content
