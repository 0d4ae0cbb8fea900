"""Stand-ins for providers: they take a request as the real one would, or refuse it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

from unabridged.formats import Anthropic
from unabridged_testing.conversations import refusals
from unabridged_testing.wire import field
from unabridged_testing.wire_anthropic import blocks, sign

_UNSIGNED_FIELDS = frozenset({"signature", "cache_control"})


class Refused(Exception):  # noqa: N818 - what a provider says, not an error of ours
    """A request that was refused; the message has every reason."""


class StrictUpstream:
    """Refuses what the provider of `format` would, and keeps every request it took in `requests`."""

    def __init__(self, format: str) -> None:  # noqa: A002 - the word every part uses for it
        self.format = format
        self.requests: list[list[Any]] = []

    def take(self, messages: Sequence[Any]) -> None:
        """Take the request, or raise `Refused`."""
        reasons = refusals(self.format, messages)
        if reasons:
            raise Refused("; ".join(reasons))
        self.requests.append(list(messages))


class SigningUpstream:
    """Signs Anthropic thinking blocks, and refuses a request in which one does not match its signature.

    With `binds="prefix"` a signature covers all that stood before the block, as newer Claude models have it; with
    `binds="block"` it covers the block alone. With `demands_thinking`, the last message that called tools must begin
    with thinking while the conversation ends in their results.
    """

    def __init__(self, *, binds: Literal["block", "prefix"] = "prefix", demands_thinking: bool = False) -> None:
        self.binds = binds
        self.demands_thinking = demands_thinking
        self._rules = StrictUpstream(Anthropic.name)

    @property
    def requests(self) -> list[list[Any]]:
        """Return every request it took."""
        return self._rules.requests

    def take(self, messages: Sequence[Any]) -> None:
        """Take the request, or raise `Refused`."""
        reasons = self._mismatches(messages)
        if self.demands_thinking:
            reasons += _missing_thinking(messages)
        if reasons:
            raise Refused("; ".join(reasons))
        self._rules.take(messages)

    def sign(self, messages: Sequence[Any], *, after: Sequence[Any] = ()) -> list[Any]:
        """Return the messages, their thinking signed as if written in a conversation that began with `after`."""
        prefix = hashlib.sha256()
        for message in after:
            self._sign_message(prefix, message)
        return [self._sign_message(prefix, message) for message in messages]

    def _mismatches(self, messages: Sequence[Any]) -> list[str]:
        signed = self.sign(messages)
        return [
            f"{index}: a thinking block does not match its signature"
            for index, (given, right) in enumerate(zip(messages, signed, strict=True))
            if _signatures(given) != _signatures(right)
        ]

    def _sign_message(self, prefix: Any, message: Any) -> Any:
        """Return the message with right signatures; `prefix` then covers it too. Dicts and plain blocks are copied."""
        content = []
        for block in blocks(message):
            signed = block
            if field(block, "type") == "thinking":
                thought = field(block, "thinking")
                right = sign(thought) if self.binds == "block" else f"{prefix.hexdigest()[:32]}{sign(thought)[:16]}"
                signed = {"type": "thinking", "thinking": thought, "signature": right}
            elif field(block, "type") == "redacted_thinking":
                right = f"redacted{prefix.hexdigest()[:32]}" if self.binds == "prefix" else field(block, "data")
                signed = {"type": "redacted_thinking", "data": right}
            content.append(signed)
            prefix.update(_bytes(field(message, "role"), signed))
        if not _signatures(message):
            return message
        return {"role": field(message, "role"), "content": content}


def _signatures(message: Any) -> list[Any]:
    kinds = {"thinking": "signature", "redacted_thinking": "data"}
    return [field(b, kinds[field(b, "type")]) for b in blocks(message) if field(b, "type") in kinds]


def _bytes(role: Any, block: Any) -> bytes:
    """Return a block as later signatures cover it: without cache marks, and as JSON whatever its form."""
    plain = block if isinstance(block, dict) else block.model_dump(mode="json", exclude_none=True)
    kept = {name: value for name, value in plain.items() if name not in _UNSIGNED_FIELDS and value is not None}
    return json.dumps([role, kept], sort_keys=True, default=str).encode()


def _missing_thinking(messages: Sequence[Any]) -> list[str]:
    calls = [i for i, m in enumerate(messages) if any(field(block, "type") == "tool_use" for block in blocks(m))]
    if not calls or not any(field(block, "type") == "tool_result" for block in blocks(messages[-1])):
        return []
    first = field(blocks(messages[calls[-1]])[0], "type")
    if first in {"thinking", "redacted_thinking"}:
        return []
    return [f"{calls[-1]}: the last message that calls tools begins with {first}, not with thinking"]
