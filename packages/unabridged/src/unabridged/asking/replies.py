"""Read an SDK's response as a `Reply`: text, why it stopped, tool calls, thinking, usage. No SDK is imported for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any, get_args

from unabridged.asking.ask import Reply, Stop
from unabridged.formats.fields import get
from unabridged.tokens.calibrate import Usage, parse_usage

_STOP_WORDS: dict[Stop, tuple[str, ...]] = {
    "end": ("stop", "end_turn", "stop_sequence", "completed"),
    "length": ("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"),
    "tool": ("tool_calls", "tool_call", "function_call", "tool_use"),
    "refusal": ("content_filter", "refusal", "safety"),
}
_STOP_REASONS = {word: stop for stop, words in _STOP_WORDS.items() for word in words}
_CALL_TYPE_ENDINGS = ("tool_use", "_call")
"""How the kinds of content blocks and output items end that call a tool."""


def read_reply(result: Any, name: str) -> Reply:
    """Return the answer of a summariser as a `Reply` with checked fields; raise `TypeError` for anything else.

    A text, a `Reply`, a list of content blocks, or a response that `reply_of` reads. Fields of a `Reply` may be as an
    SDK has them: no text where there is none, content blocks, its own word for why it stopped, its own usage object.
    """
    if isinstance(result, str):
        return Reply(result, model=name)
    try:
        reply: Any = result
        if not isinstance(result, Reply):
            reply = _read_blocks(result) if isinstance(result, list) else reply_of(result)
        blocks = _read_blocks(reply.text) if isinstance(reply.text, list) else Reply(_check_text(reply.text))
        calls = len(reply.calls) if isinstance(reply.calls, list | tuple) else int(reply.calls or 0)
        return Reply(
            blocks.text,
            reply.stop if reply.stop in get_args(Stop) else read_stop_reason(reply.stop),
            _read_valid_usage(reply.usage),
            max(calls, blocks.calls),
            reply.reasoning if reply.reasoning and isinstance(reply.reasoning, str) else blocks.reasoning,
            reply.model if reply.model and isinstance(reply.model, str) else name,
            native=reply.native,
        )
    except Exception as error:
        raise TypeError(
            f"{name} returned {type(result).__name__} that is no reply: return a str or a Reply, or a response as it "
            "is (Chat, Responses, Anthropic)"
        ) from error


def reply_of(response: Any) -> Reply:
    """Return an OpenAI Chat, OpenAI Responses or Anthropic response (object or dict) as a reply."""
    output, content = get(response, "output"), get(response, "content")
    if get(response, "choices"):
        reply = _read_choice(get(response, "choices")[0])
    elif output is not None:
        reply = _read_blocks([part for item in output for part in _list_content_blocks(item)])
        reason = get(get(response, "incomplete_details"), "reason") or get(response, "status")
        reply = replace(reply, stop=reply.stop or ("tool" if reply.calls else read_stop_reason(reason)))
    elif isinstance(content, list | tuple):
        reply = replace(_read_blocks(content), stop=read_stop_reason(get(response, "stop_reason")))
    else:
        kind = type(response).__name__
        raise TypeError(f"can't read a reply from {kind}: expected a Chat, Responses or Anthropic response")
    return replace(reply, usage=parse_usage(response), model=get(response, "model") or "")


def read_stop_reason(reason: Any) -> Stop | None:
    """Return why a model stopped, from its provider's word for it; None where there is no word."""
    reason = getattr(reason, "value", reason)  # some SDKs have a word of their own for each, as an enumeration
    return None if reason is None else _STOP_REASONS.get(str(reason).lower(), "other")


def _read_choice(choice: Any) -> Reply:
    message = get(choice, "message")
    refusal = get(message, "refusal") or ""
    return Reply(
        get(message, "content") or refusal,
        "refusal" if refusal else read_stop_reason(get(choice, "finish_reason")),
        calls=len(get(message, "tool_calls") or ()),
        reasoning=get(message, "reasoning_content") or get(message, "reasoning") or "",
    )


def _list_content_blocks(item: Any) -> Sequence[Any]:
    """Return the content blocks of an output item: of a message, of a reasoning's summary, else the item itself."""
    kind = get(item, "type")
    if kind == "reasoning":
        return [{"type": "thinking", "thinking": get(part, "text")} for part in get(item, "summary") or ()]
    return get(item, "content") or () if kind == "message" else [item]


def _read_blocks(blocks: Sequence[Any]) -> Reply:
    """Read content blocks: their text, their thinking, a refusal, and how many of them call a tool."""
    kinds = ["text" if isinstance(block, str) else get(block, "type") for block in blocks]
    if None in kinds:
        raise TypeError("a list that holds no content blocks")

    def texts(key: str, *wanted: str) -> list[str]:
        chosen = (block for block, kind in zip(blocks, kinds, strict=True) if kind in wanted)
        return list(filter(None, (block if isinstance(block, str) else get(block, key) for block in chosen)))

    refusal = "".join(texts("refusal", "refusal"))
    return Reply(
        "".join(texts("text", "text", "output_text")) or refusal,
        "refusal" if refusal else None,
        calls=sum(str(kind).endswith(_CALL_TYPE_ENDINGS) for kind in kinds),
        reasoning="\n".join(texts("thinking", "thinking")),
    )


def _check_text(text: Any) -> str:
    if text is not None and not isinstance(text, str):
        raise TypeError(f"the text of a reply is a str; got {type(text).__name__}")
    return text or ""


def _read_valid_usage(report: Any) -> Usage | None:
    """Read what was used from an SDK's object or a dict; None for anything else: a summary does not fail for that."""
    try:
        usage = parse_usage(report)
        return usage if usage is None or all(type(value) is int for value in astuple(usage)) else None
    except Exception:  # noqa: BLE001 - whatever a stranger's object raises when it is read
        return None
