"""Stand-ins for providers: they take a request as the real one would, or refuse it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

from unabridged.formats import Anthropic
from unabridged_testing.conversations import refusals
from unabridged_testing.wire import get_field, sign_text
from unabridged_testing.wire_anthropic import list_blocks

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


class SigningUpstream(StrictUpstream):
    """Signs Anthropic thinking blocks, and refuses a request in which one does not match its signature.

    With `binds="prefix"` a signature covers all that stood before the block, as newer Claude models have it; with
    `binds="block"` it covers the block alone. With `demands_thinking`, the last message that called tools must begin
    with thinking while the conversation ends in their results.
    """

    def __init__(self, *, binds: Literal["block", "prefix"] = "prefix", demands_thinking: bool = False) -> None:
        super().__init__(Anthropic.name)
        self.binds = binds
        self.demands_thinking = demands_thinking

    def take(self, messages: Sequence[Any]) -> None:
        """Take the request, or raise `Refused`."""
        reasons = self._find_mismatches(messages)
        if self.demands_thinking:
            reasons += _find_missing_thinking(messages)
        if reasons:
            raise Refused("; ".join(reasons))
        super().take(messages)

    def sign(self, messages: Sequence[Any], *, after: Sequence[Any] = ()) -> list[Any]:
        """Return the messages, their thinking signed as if written in a conversation that began with `after`."""
        prefix = hashlib.sha256()
        for message in after:
            self._sign_message(prefix, message)
        return [self._sign_message(prefix, message) for message in messages]

    def _find_mismatches(self, messages: Sequence[Any]) -> list[str]:
        pairs = enumerate(zip(messages, self.sign(messages), strict=True))
        wrong = [index for index, (given, right) in pairs if _list_signatures(given) != _list_signatures(right)]
        return [f"{index}: a thinking block does not match its signature" for index in wrong]

    def _sign_message(self, prefix: Any, message: Any) -> Any:
        """Return the message with right signatures; `prefix` then covers it too. Dicts and plain blocks are copied."""
        content = []
        for block in list_blocks(message):
            signed = block
            if get_field(block, "type") == "thinking":
                thought = get_field(block, "thinking")
                right = sign_text(thought)
                if self.binds == "prefix":
                    right = f"{prefix.hexdigest()[:32]}{right[:16]}"
                signed = {"type": "thinking", "thinking": thought, "signature": right}
            elif get_field(block, "type") == "redacted_thinking":
                right = f"redacted{prefix.hexdigest()[:32]}" if self.binds == "prefix" else get_field(block, "data")
                signed = {"type": "redacted_thinking", "data": right}
            content.append(signed)
            prefix.update(_to_signed_bytes(get_field(message, "role"), signed))
        if not _list_signatures(message):
            return message
        return {"role": get_field(message, "role"), "content": content}


def _list_signatures(message: Any) -> list[Any]:
    kinds = {"thinking": "signature", "redacted_thinking": "data"}
    return [get_field(b, kinds[get_field(b, "type")]) for b in list_blocks(message) if get_field(b, "type") in kinds]


def _to_signed_bytes(role: Any, block: Any) -> bytes:
    """Return a block as later signatures cover it: without cache marks, and as JSON whatever its form."""
    plain = block if isinstance(block, dict) else block.model_dump(mode="json", exclude_none=True)
    kept = {name: value for name, value in plain.items() if name not in _UNSIGNED_FIELDS and value is not None}
    return json.dumps([role, kept], sort_keys=True, default=str).encode()


def _find_missing_thinking(messages: Sequence[Any]) -> list[str]:
    kinds = [[get_field(block, "type") for block in list_blocks(message)] for message in messages]
    calls = [index for index, of_one in enumerate(kinds) if "tool_use" in of_one]
    if not calls or "tool_result" not in kinds[-1]:
        return []
    first = kinds[calls[-1]][0]
    if first in {"thinking", "redacted_thinking"}:
        return []
    return [f"{calls[-1]}: the last message that calls tools begins with {first}, not with thinking"]
