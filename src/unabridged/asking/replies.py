"""An SDK's response as a `Reply`: text, why it stopped, tool calls, thinking, usage. No SDK is imported for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any, get_args

from unabridged.asking.ask import Reply, Stop
from unabridged.formats.fields import get
from unabridged.measure.calibrate import Usage, usage_of

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
    "tool_call": "tool",
    "function_call": "tool",
    "tool_use": "tool",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
}
_CALLS = frozenset({"tool_use", "server_tool_use", "tool_call", "function_call"})
"""Kinds of content blocks that call a tool."""


def read_reply(said: Any, name: str) -> Reply:
    """What a summariser returned, as a reply whose every field is what it should be; `TypeError` when it is none.

    A text, a `Reply`, a list of content blocks, or a response that `reply_of` reads. Fields of a `Reply` may be as an
    SDK has them: no text where there is none, content blocks, its own word for why it stopped, its own usage object.
    """
    if isinstance(said, str):
        return Reply(said, model=name)
    try:
        found: Any = said if isinstance(said, Reply) else _blocks(said) if isinstance(said, list) else reply_of(said)
        blocks = _blocks(found.text) if isinstance(found.text, list) else found
        return Reply(
            _text(blocks.text),
            found.stop if found.stop in get_args(Stop) else stop_of(found.stop),
            _usage(found.usage),
            max(_number(found.calls), blocks.calls if blocks is not found else 0),
            found.reasoning if isinstance(found.reasoning, str) else "",
            found.model if isinstance(found.model, str) and found.model else name,
        )
    except Exception as error:
        raise TypeError(
            f"{name} returned {type(said).__name__} that is no reply: return a str or a Reply, or a response as it is "
            "(Chat, Responses, Anthropic)"
        ) from error


def _text(text: Any) -> str:
    if text is not None and not isinstance(text, str):
        raise TypeError(f"the text of a reply is a str; got {type(text).__name__}")
    return text or ""


def _text_in(block: Any) -> str:
    """What one content block says."""
    if isinstance(block, str):
        return block
    return get(block, "text") or "" if get(block, "type") in {"text", "output_text"} else ""


def _usage(told: Any) -> Usage | None:
    """What was used, as an SDK or a dict tells it; None for what can't be read: a summary does not fail for that."""
    try:
        found = usage_of(told)
        return found if found is None or all(type(value) is int for value in astuple(found)) else None
    except Exception:  # noqa: BLE001 - whatever a stranger's object raises when it is read
        return None


def _number(calls: Any) -> int:
    """How many tool calls, as a number or as the calls themselves."""
    return len(calls) if isinstance(calls, list | tuple) else int(calls or 0)


def _blocks(blocks: Sequence[Any], stop: Any = None) -> Reply:
    """Content blocks: their text, their thinking, and how many of them call a tool."""
    if not all(isinstance(block, str) or get(block, "type") is not None for block in blocks):
        raise TypeError("a list that holds no content blocks")
    return Reply(
        "".join(_text_in(block) for block in blocks),
        stop_of(stop),
        None,
        sum(get(block, "type") in _CALLS for block in blocks if not isinstance(block, str)),
        "\n".join(get(block, "thinking") or "" for block in blocks if get(block, "type") == "thinking"),
    )


def reply_of(response: Any) -> Reply:
    """What an OpenAI Chat, OpenAI Responses or Anthropic response (object or dict) says."""
    if get(response, "choices"):
        return _chat(response)
    if get(response, "output") is not None:
        return _responses(response)
    if isinstance(get(response, "content"), list | tuple):
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
    said = _blocks(get(response, "content"), get(response, "stop_reason"))
    return replace(said, usage=usage_of(response), model=get(response, "model") or "")


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
    reason = getattr(reason, "value", reason)  # some SDKs have a word of their own for each, as an enumeration
    return None if reason is None else _STOPS.get(str(reason).lower(), "other")
