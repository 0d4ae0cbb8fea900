"""Say what a provider's cache of prefixes holds of a prompt, and report it as usage."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from typing import Any

from unabridged_testing.loopback_wires import LoopbackWire


class PromptCache:
    """The sorted prompts that each model has seen: one of a new one's neighbours shares most with it."""

    def __init__(self) -> None:
        self._seen: dict[str, list[bytes]] = defaultdict(list)

    def find_longest_prefix(self, model: str, prompt: bytes) -> int:
        """Return how many bytes of the prompt any other one began with."""
        seen = self._seen[model]
        at = bisect_left(seen, prompt)
        return max((_count_common_bytes(prompt, other) for other in seen[max(at - 1, 0) : at + 1]), default=0)

    def add(self, model: str, prompt: bytes) -> None:
        """Remember a prompt of this model."""
        seen = self._seen[model]
        seen.insert(bisect_left(seen, prompt), prompt)


def build_prompt_key(wire: LoopbackWire, body: dict[str, Any]) -> bytes:
    """Return the key of a cache: tools, system prompt and messages one after another, without the marks."""
    before = [body.get(name) for name in reversed(wire.other_fields)]
    parts = [*before, *wire.messages(body)]
    return b"\n".join(json.dumps(_remove_cache_marks(part), ensure_ascii=False).encode() for part in parts)


def _remove_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _remove_cache_marks(item) for name, item in value.items() if name != "cache_control"}
    return [_remove_cache_marks(item) for item in value] if isinstance(value, list) else value


def _count_common_bytes(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def add_cache_usage(content: Any, cached: int, *, marked: bool) -> Any:
    """Return an answer, or its events, with the usage that reports so many tokens as read from the cache."""
    if isinstance(content, list) and content and isinstance(content[0], tuple):
        return [(name, add_cache_usage(data, cached, marked=marked)) for name, data in content]
    if not isinstance(content, dict):
        return content
    inner = [name for name in ("message", "response") if name in content]
    reported = {name: add_cache_usage(content[name], cached, marked=marked) for name in inner}
    for name in ("usage", "usageMetadata"):
        if isinstance(content.get(name), dict):
            reported[name] = _split_usage(content[name], cached, marked=marked)
    return {**content, **reported}


def _split_usage(usage: dict[str, Any], cached: int, *, marked: bool) -> dict[str, Any]:
    if "prompt_tokens" in usage:
        return {**usage, "prompt_tokens_details": {"cached_tokens": min(cached, usage["prompt_tokens"])}}
    if "input_tokens_details" in usage:
        return {**usage, "input_tokens_details": {"cached_tokens": min(cached, usage["input_tokens"])}}
    if "promptTokenCount" in usage:
        return {**usage, "cachedContentTokenCount": min(cached, usage["promptTokenCount"])}
    if not marked or "cache_read_input_tokens" not in usage:
        return usage
    read = min(cached, usage["input_tokens"])  # Anthropic counts apart what was read, what was written, and the rest
    written = (usage["input_tokens"] - read) // 2
    rest = usage["input_tokens"] - read - written
    return {**usage, "input_tokens": rest, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}
