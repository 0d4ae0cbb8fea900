"""What counts as a message in a file, and which wire format a list of them is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unabridged.formats import Message, detect, format_named

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_ITEMS = frozenset({"message", "reasoning", "item_reference", "compaction", "compaction_summary"})


def is_message(value: Any) -> bool:
    """Whether this is a message or item of one of the wire formats."""
    if not isinstance(value, dict):
        return False
    if "role" in value:
        return value["role"] in _ROLES
    kind = value.get("type")
    return isinstance(kind, str) and (kind in _ITEMS or kind.endswith(("_call", "_call_output", "_list_tools")))


def wire_format(messages: Sequence[Message], name: str | None, holder: Mapping[str, Any]) -> str:
    """The name of the format: the one that is asked for, else by the messages, else by what stands around them."""
    if name is not None:
        return format_named(name).name
    found = detect(messages).name
    if found == "openai-chat":
        # Plain text turns look alike everywhere; what stands beside the list tells the formats apart.
        if any(isinstance(tool, dict) and "input_schema" in tool for tool in holder.get("tools") or ()):
            return "anthropic"
        if "input" in holder and "messages" not in holder:
            return "openai-responses"
    return found
