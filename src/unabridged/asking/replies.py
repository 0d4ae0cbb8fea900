"""An SDK's response as a `Reply`: text, why it stopped, tool calls, thinking, usage. No SDK is imported for it."""

from __future__ import annotations

from typing import Any

from unabridged.asking.ask import Reply, Stop
from unabridged.formats.base import get
from unabridged.measure.calibrate import usage_of

_STOPS: dict[str, Stop] = {
    "stop": "end",
    "end_turn": "end",
    "stop_sequence": "end",
    "completed": "end",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool",
    "function_call": "tool",
    "tool_use": "tool",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
}


def reply_of(response: Any) -> Reply:
    """What an OpenAI Chat, OpenAI Responses or Anthropic response (object or dict) says."""
    if get(response, "choices"):
        return _chat(response)
    if get(response, "output") is not None:
        return _responses(response)
    if get(response, "content") is not None:
        return _anthropic(response)
    raise TypeError(
        f"can't read a reply from {type(response).__name__}: expected a Chat, Responses or Anthropic response"
    )


def _chat(response: Any) -> Reply:
    choice = get(response, "choices")[0]
    message = get(choice, "message")
    refusal = get(message, "refusal") or ""
    return Reply(
        get(message, "content") or refusal,
        "refusal" if refusal else stop_of(get(choice, "finish_reason")),
        usage_of(response),
        len(get(message, "tool_calls") or ()),
        get(message, "reasoning_content") or get(message, "reasoning") or "",
        get(response, "model") or "",
    )


def _anthropic(response: Any) -> Reply:
    blocks = get(response, "content")
    return Reply(
        "".join(get(block, "text") or "" for block in blocks if get(block, "type") == "text"),
        stop_of(get(response, "stop_reason")),
        usage_of(response),
        sum(get(block, "type") in {"tool_use", "server_tool_use"} for block in blocks),
        "\n".join(get(block, "thinking") or "" for block in blocks if get(block, "type") == "thinking"),
        get(response, "model") or "",
    )


def _responses(response: Any) -> Reply:
    items = get(response, "output")
    parts = [part for item in items if get(item, "type") == "message" for part in get(item, "content") or ()]
    refusal = "".join(get(part, "refusal") or "" for part in parts)
    calls = sum(str(get(item, "type")).endswith("_call") for item in items)
    status = get(get(response, "incomplete_details"), "reason") or get(response, "status")
    thoughts = [part for item in items if get(item, "type") == "reasoning" for part in get(item, "summary") or ()]
    return Reply(
        "".join(get(part, "text") or "" for part in parts) or refusal,
        "refusal" if refusal else "tool" if calls else stop_of(status),
        usage_of(response),
        calls,
        "\n".join(get(part, "text") or "" for part in thoughts),
        get(response, "model") or "",
    )


def stop_of(reason: Any) -> Stop | None:
    """Why a model stopped, from the word its provider has for it; None where it said nothing."""
    return None if reason is None else _STOPS.get(str(reason).lower(), "other")
